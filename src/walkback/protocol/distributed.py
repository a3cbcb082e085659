"""One report from the processes of a DistributedDataParallel job, each with its own share of the batches.

Every rank measures its share; then all get the parts of all, merge them in the order of the ranks, and judge the same
figures. Which samples form a group of 128 depends on their order, so the order is stated: the i-th sample of rank r
of W is number i·W + r of the whole, as torch's DistributedSampler deals them out. With such a sampler (unshuffled) the
report is that of one process on the whole data set, to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import torch.distributed as dist
from torch import Tensor, nn

from walkback.errors import InputError, WalkbackError
from walkback.protocol.diagnostics.known import known
from walkback.protocol.fidelity import Fidelity
from walkback.protocol.records import ReferenceCheck

if TYPE_CHECKING:
    from walkback.protocol.alignment import AlignmentMeter
    from walkback.protocol.folding import Folding

MEETING_MINUTES = 10
"""How long a rank waits for the others to call `diagnose` too."""

_DEALT: ContextVar[tuple[int, int]] = ContextVar("walkback_dealt", default=(0, 1))


def number_of(sample: int) -> int:
    """The place in the whole of a sample of this process."""
    rank, ranks = _DEALT.get()
    return sample * ranks + rank


def first_from(number: int) -> int:
    """The first sample of this process whose place in the whole is this one or a later one."""
    rank, ranks = _DEALT.get()
    return -((rank - number) // ranks)


@dataclass
class Measured:
    """What one rank has measured, as it is sent to the others."""

    samples: int
    sites: tuple[str, ...]
    reduction: str
    parts: dict[str, Any]
    fidelity: Fidelity
    check: ReferenceCheck
    credit: dict[str, Any] | None


@dataclass
class Ranks:
    """The processes that measure together; one alone where there is no job, or where that was asked for."""

    rank: int = 0
    ranks: int = 1
    counts: tuple[int, ...] = ()
    """How many samples each rank brought, once they are known."""
    _told: bool = field(default=False, repr=False)
    _meetings: ClassVar[int] = 0
    """How many meetings of all ranks are behind this process, those that were given up among them."""

    @classmethod
    def of(cls, model: nn.Module, gather: bool | None) -> Ranks:
        """All ranks of the job where the model is DistributedDataParallel, or where it was asked for."""
        running = dist.is_available() and dist.is_initialized()
        if gather and not running:
            raise InputError(
                "gather=True needs a process group, and there is none. Start the script with torchrun and call "
                "torch.distributed.init_process_group, or leave gather out."
            )
        wanted = isinstance(model, nn.parallel.DistributedDataParallel) if gather is None else gather
        return cls(dist.get_rank(), dist.get_world_size()) if running and wanted else cls()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Meet the others; an error of one rank is an error of all, so that none waits for it in vain."""
        if self.ranks == 1:
            yield
            return
        self._meet()
        token = _DEALT.set((self.rank, self.ranks))
        try:
            yield
        except Exception as error:
            if not self._told:
                self._exchange(f"{type(error).__name__}: {error}")
            raise
        finally:
            _DEALT.reset(token)

    def merged(
        self, folding: Folding, meter: AlignmentMeter | None, fidelity: Fidelity, check: ReferenceCheck
    ) -> tuple[Fidelity, ReferenceCheck]:
        """Put what all ranks have measured in the place of this one's share; the fidelity and the check of all."""
        if self.ranks == 1:
            return fidelity, check
        assert folding.opening is not None
        own = Measured(
            samples=folding.samples,
            sites=tuple(map(str, folding.chain.taps)),
            reduction=folding.opening.reduction.value,
            parts=_on_cpu(folding.parts),
            fidelity=fidelity,
            check=check,
            credit=None if meter is None else _on_cpu(meter.state()),
        )
        everyone = self._exchange(own)
        _check_alike(everyone)
        folding.parts = _merged_parts(everyone)
        if meter is not None:
            meter.replace([measured.credit for measured in everyone if measured.credit is not None])
        self.counts = tuple(measured.samples for measured in everyone)
        folding.samples = sum(self.counts)
        return _mean_fidelity([m.fidelity for m in everyone]), _agreed([m.check for m in everyone])

    def warnings(self) -> list[str]:
        """What a reader should know about how the samples were dealt out."""
        if not self.counts or max(self.counts) - min(self.counts) <= 1:
            return []
        return [
            f"the ranks brought {', '.join(map(str, self.counts))} samples: (c) rests on groups of 128 that all ranks "
            "have samples of, and leaves out what some have more of."
        ]

    def provenance(self) -> dict[str, str]:
        """How many processes measured, where it was more than one."""
        return {"ranks": str(self.ranks)} if self.ranks > 1 else {}

    def _exchange(self, own: Measured | str) -> list[Measured]:
        """Everyone's measurements, in the order of the ranks; an error instead of them is raised on all ranks."""
        self._told = True
        everyone: list[Measured | str] = [""] * self.ranks
        dist.all_gather_object(everyone, own)
        failed = {rank: said for rank, said in enumerate(everyone) if isinstance(said, str)}
        if failed and not isinstance(own, str):
            raise WalkbackError("; ".join(f"rank {rank} could not measure: {said}" for rank, said in failed.items()))
        return [said for said in everyone if isinstance(said, Measured)]

    def _meet(self) -> None:
        """Wait until all ranks are here, but not for ever: a call on one rank alone is an easy mistake.

        Whether a meeting took place is decided once, by whoever first sees all or gives up; so all agree on it, and
        a rank that comes too late waits at the next one.
        """
        store = _store()
        while store is not None:
            meeting = f"walkback/{Ranks._meetings}"
            store.set(f"{meeting}/{self.rank}", "here")
            missing = self._missing(store, meeting)
            own = b"met" if missing is None else b"given up"
            outcome = own
            with suppress(RuntimeError):  # the store may be what is gone, or be of a kind that cannot compare
                outcome = store.compare_set(f"{meeting}/outcome", "", own.decode())
            Ranks._meetings += 1
            if outcome == b"met":
                return
            if missing is not None:
                raise InputError(
                    f"rank {missing} of {self.ranks} did not call walkback.diagnose within {MEETING_MINUTES} minutes. "
                    "Call it on every rank, each with its share of the batches, or pass gather=False to measure this "
                    "process alone."
                )

    def _missing(self, store: Any, meeting: str) -> int | None:
        """The first rank that does not come to the meeting in time."""
        for rank in range(self.ranks):
            try:
                store.wait([f"{meeting}/{rank}"], timedelta(minutes=MEETING_MINUTES))
            except RuntimeError:
                return rank
        return None


def _store() -> Any:
    with suppress(AttributeError, RuntimeError, ValueError):
        return dist.distributed_c10d._get_default_store()
    return None


def _check_alike(everyone: Sequence[Measured]) -> None:
    for rank, other in enumerate(everyone):
        for what in ("sites", "reduction"):
            if getattr(other, what) != getattr(everyone[0], what):
                raise InputError(
                    f"rank {rank} measured other {what} than rank 0: {getattr(other, what)} and "
                    f"{getattr(everyone[0], what)}. Expected the same model on all ranks; pass blocks= and tokens=."
                )


def _merged_parts(everyone: Sequence[Measured]) -> dict[str, Any]:
    # A rank without a reference has measured no gradient, and then there is none of the whole.
    common = [name for name in everyone[0].parts if all(name in other.parts for other in everyone)]
    merged = {name: everyone[0].parts[name] for name in common}
    for other in everyone[1:]:
        for name in common:
            merged[name] = known()[name].merge(merged[name], other.parts[name])
    return merged


def _agreed(checks: Sequence[ReferenceCheck]) -> ReferenceCheck:
    """One check of all ranks: as good as the worst, with the largest error; ranks that differ have none."""
    worst = min(checks, key=lambda check: {False: 0, None: 1, True: 2}[check.passed])
    kinds = {check.candidate for check in checks}
    if len(kinds) > 1 and worst.passed:
        reason = f"The ranks took different gradients for the true one: {', '.join(sorted(kinds))}."
        return worst.model_copy(update={"passed": None, "reason": reason})
    errors = [check.error for check in checks if check.error is not None]
    return worst.model_copy(
        update={
            "error": max(errors, default=None),
            "directions": sum(check.directions for check in checks),
            "kinks_discarded": sum(check.kinks_discarded for check in checks),
        }
    )


def _mean_fidelity(fidelities: Sequence[Fidelity]) -> Fidelity:
    """The mean over the samples of all ranks; one rank that could not measure leaves none."""
    for fidelity in fidelities:
        if fidelity.cosines is None:
            return fidelity
    samples = sum(fidelity.samples for fidelity in fidelities)
    weighted = [[f.samples * cosine for cosine in f.cosines] for f in fidelities if f.cosines is not None]
    return Fidelity(tuple(sum(site) / samples for site in zip(*weighted, strict=True)), samples=samples)


def _on_cpu(value: Any) -> Any:
    """Tensors in any nesting on the CPU, where every rank can read them."""
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _on_cpu(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        made = [_on_cpu(entry) for entry in value]
        return made if isinstance(value, list) else tuple(made)
    if hasattr(value, "__dataclass_fields__"):
        return type(value)(**{name: _on_cpu(getattr(value, name)) for name in value.__dataclass_fields__})
    return value
