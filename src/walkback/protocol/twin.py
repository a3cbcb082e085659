"""A plain twin: another network of the same function, whose gradient stands for the one that the network lacks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.protocol.asking import label_keyword
from walkback.protocol.batches import Batch, read_batches
from walkback.protocol.capture import Capture, capture_stream
from walkback.protocol.capture import Sites as ExactSites
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.losses import Loss
from walkback.protocol.outputs import Logits, logits_of
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference import FEW_SAMPLES, Reference, find_reference
from walkback.protocol.seen_through import Sight
from walkback.protocol.site_choice import Sites, chosen_sites
from walkback.protocol.sites import Chain


@dataclass(frozen=True)
class TwinReference(Reference):
    """Gradients of a twin, at sites that hold what the network's own sites hold."""

    twin: nn.Module = field(default_factory=nn.Identity)
    chain: Chain = field(default_factory=lambda: Chain((), (), ""))
    """The twin's."""

    @property
    def stream_kept(self) -> bool:
        """Not known of the network itself."""
        return False

    def capture(
        self,
        model: nn.Module,
        chain: Chain,
        batch: Batch,
        loss: Loss | None,
        reduction: TokenReduction,
        offset: int = 0,
    ) -> Capture:
        """h_l and the logits of the network, and the gradients of its twin, which must have the same of both."""
        own = Sight().run(lambda: capture_stream(model, chain, batch, loss, reduction, offset))
        there = super().capture(self.twin, self.chain, placed(batch, self.twin), loss, reduction, offset)
        check_same(own, there, chain)
        trace = replace(own.trace, error=there.trace.error.to(own.trace.logits.device))
        return replace(own, trace=trace, grads=[grad.to(own.trace.logits.device) for grad in there.grads])

    def exact_on(self, model: nn.Module, chain: Chain, batch: Batch, loss: Loss | None) -> ExactSites | str:
        """The twin's sites in fp64."""
        return super().exact_on(self.twin, self.chain, placed(batch, self.twin), loss)


def placed(batch: Batch, twin: nn.Module) -> Batch:
    """A batch on the device and in the precision of a twin, called as the network is; bare logits need no picking."""
    which = batch.calling.logits
    calling = batch.calling if which is None else replace(batch.calling, logits=lambda output: _bare(output, which))
    there = next(read_batches([(batch.inputs, batch.targets)], twin, calling=calling))
    keyword = label_keyword(twin, there)
    labels = {name: value.to(there.targets.device) for name, value in batch.labels.items() if name == keyword}
    return replace(there, labels=labels)


def _bare(output: Any, which: Logits) -> Tensor:
    return output if isinstance(output, Tensor) else logits_of(output, which)


def find_twin(twin: nn.Module, chain: Chain, batch: Batch, loss: Loss | None, sites: Sites = None) -> TwinReference:
    """The twin's sites, under the names of the network's blocks where it has them, and its gradient, checked."""
    there = placed(batch, twin)
    names = list(dict.fromkeys(chain.blocks))
    modules = dict(twin.named_modules())
    # Which calls are meant is in the pattern alone; the rest is said by name, without a glob to take more.
    chosen_calls = chain.pattern if "#" in chain.pattern else names
    blocks = chosen_calls if all(name in modules for name in names) else None
    found = chain_of_independent(twin, there.first(min(FEW_SAMPLES, there.size)), blocks)
    chosen = chosen_sites(found, sites) if len(found.taps) > max(chain.numbers or (0,)) else found
    if len(chosen.taps) != len(chain.taps):
        raise InputError(
            f"reference= has {len(chosen.taps)} sites ({chosen.pattern}) where the network has {len(chain.taps)} "
            f"({chain.pattern}); expected the same blocks, best under the same names."
        )
    own = find_reference(twin, chosen, there, loss)
    reason = f"The gradient of the twin, reference=, cannot be used as the true one. {own.check.reason}"
    check = own.check.model_copy(update={"twin": True, "reason": reason if own.check.reason else ""})
    kept = replace(chosen, keeps_stream=own.stream_kept)
    return TwinReference(check, own.sight, own.exact, own.measured, own.judged, twin=twin, chain=kept)


def check_same(own: Capture, there: Capture, chain: Chain) -> None:
    """Refuse a twin that computes something else."""
    off = _apart(own.trace.logits, there.trace.logits)
    if off is not None:
        raise InputError(
            f"reference= gives other logits than the network ({off}); expected a twin of the same function: the same "
            "weights, in eval mode, with another backward pass."
        )
    for tap, mine, other in zip(chain.taps, own.hiddens, there.hiddens, strict=True):
        off = _apart(mine, other)
        if off is not None:
            raise InputError(
                f"reference= gives the network's logits, but holds something else at the site '{tap}' ({off}); "
                "expected the same stream. Name the same blocks in both, and pass blocks=."
            )


def _apart(mine: Tensor, other: Tensor) -> str | None:
    """How far two tensors lie apart, where it is more than rounding; NaN in the same places is no difference."""
    if mine.shape != other.shape:
        return f"shape {tuple(other.shape)} and not {tuple(mine.shape)}"
    coarsest = max(torch.finfo(mine.dtype).eps, torch.finfo(other.dtype).eps)
    here, there = mine.double(), other.double().to(mine.device)
    largest = float(here.nan_to_num(0.0, 0.0, 0.0).abs().max())
    close = torch.isclose(there, here, rtol=0.0, atol=largest * coarsest**0.5, equal_nan=True)
    if bool(close.all()):
        return None
    difference = float((there - here).abs().nan_to_num(torch.inf).max())
    return f"they differ by {difference:.3g} where the largest is {largest:.3g}"
