"""The monitor's own measurement: a few held batches, again and again, on a network that is being trained.

The blocks are looked for once, and the passes that only check the network are not repeated; that the gradient is the
network's is checked once, and again where the network's structure changes; the fp64 twin runs where (b) fires, which is
when its answer matters. The functional tests of the credit take many passes, and run where their share of the time
allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor, nn

from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batch_sizes import LOOK_SAMPLES, on_few
from walkback.protocol.batches import Batch, read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.capture import Capture, capture
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.devices import require_one_device
from walkback.protocol.diagnostics.known import known
from walkback.protocol.fidelity import fidelity_of
from walkback.protocol.folding import Folding
from walkback.protocol.functional_meter import tester_of
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.losses import Loss
from walkback.protocol.own_loss import loss_taken
from walkback.protocol.records import Alignment, Measurements
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference import NO_ALIGNMENT, Reference
from walkback.protocol.reference_source import Source
from walkback.protocol.seen_through import Sight
from walkback.protocol.sites import Blocks, Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.untouched import AsFound, underneath, untouched
from walkback.watch.functional_tests import FunctionalTests

SAME_GRADIENT = 1e-3
"""Up to which relative difference a declared gradient is the true one."""


class Probe:
    """Held batches and the sites of one network; `measure` as often as wanted."""

    def __init__(
        self,
        model: nn.Module,
        batches: Iterable[Any],
        *,
        blocks: Blocks | Parts = None,
        calling: Calling | None = None,
        loss: Loss | None = None,
        tokens: str | TokenReduction | None = None,
        credit: CreditRule | CreditFunction | None = None,
        max_batches: int | None = None,
        reference: nn.Module | str | None = None,
        gradients: bool = True,
        functional: int | None = None,
    ) -> None:
        self.functional = functional
        tester_of(credit, functional)  # refused before anything is measured
        self.model = underneath(model)
        require_one_device(self.model)
        self.compiled = any(hasattr(m, "_orig_mod") or m.__dict__.get("_compiled_call_impl") for m in model.modules())
        self.credit = credit
        self.calling = calling or Calling()
        self.source = Source.of(reference, gradients, credit is not None)
        # Iterating over a loader draws from torch's generator, which training must not notice.
        with untouched(self.model), self.source.untouched():
            self.batches = [(b.inputs, b.targets) for b in read_batches(batches, self.model, max_batches)]
            samples = sum(len(targets) for _, targets in self.batches)
            self.diagnostics = [name for name, one in known().items() if samples >= one.least_samples]
            self.taken = loss_taken(self.model, next(self._as_given()), loss)
            first = next(self._read())
            look = first.first(min(LOOK_SAMPLES, first.size))
            self.chain = on_few(self.model, first, lambda few: chain_of_independent(self.model, few, blocks, gradients))
            self.reference = self._find_reference(first)
            seen = self.reference.capture(self.model, self.chain, look, self.taken.loss, TokenReduction.FLATTEN)
            self.taken.check_outputs(seen.trace.logits, self.reference.measured)
            reduction = self.reference.reduction(self.model, self.chain, look, seen)
            # What a first measurement would have to import is imported here, before training is timed.
            warm_up = Folding(self.chain, self.diagnostics, self.reference.judged)
            warm_up.add(seen)
            warm_up.fields()
        self.reduction = reduction if tokens is None else TokenReduction.named(tokens)

    def _find_reference(self, first: Batch) -> Reference:
        """Where the true gradient comes from, checked; and for which structure of the network that holds."""
        reference = self.source.find(self.model, self.chain, first, self.taken.loss)
        self._structure, self._met = self._structure_now(), len(reference.sight.met)
        return reference

    def _structure_now(self) -> list[tuple[str, type]]:
        return [(name, type(module)) for name, module in self.model.named_modules()]

    def measure(
        self, floor: float = DiagnosticThresholds().g_norm_floor, tests: FunctionalTests | None = None
    ) -> Measurements:
        """Every diagnostic's figures on the held batches; the network is left as it was found.

        The fidelity to fp64 is measured where the deepest gradient is under `floor`; the functional tests are made
        where they were asked for, and `tests` has the time for them.
        """
        with untouched(self.model) as as_found, self.source.untouched():
            first = next(self._read())
            if self._structure != self._structure_now():
                self.reference = self._find_reference(first)
            fields = self._measured(as_found)
            if len(self.reference.sight.met) != self._met:
                # A backward pass of the network's own came by that the check has not seen.
                self.reference = self._find_reference(first)
                fields = self._measured(as_found)
            if self.functional is not None:
                fields |= (tests or FunctionalTests()).fields(lambda: self._tested(first, as_found))
            norms = fields.get("bp_grad_norms")
            if norms is not None and not norms[-1] >= floor:
                exact = self.reference.exact_on(self.model, self.chain, first, self.taken.loss)
                opening = self.reference.capture(self.model, self.chain, first, self.taken.loss, self.reduction)
                fields |= fidelity_of(opening, exact).fields()
        return Measurements(**fields, reference_check=self.reference.check)

    def _measured(self, as_found: AsFound) -> dict[str, Any]:
        meter = AlignmentMeter.of(self.credit, 0) if self.credit is not None else None
        folding = Folding(self.chain, self.diagnostics, self.reference.judged)
        for seen in self._captures():
            folding.add(seen)
            if meter is not None:
                meter.unavailable = "" if self.reference.measured else self.reference.check.reason
                with as_found():
                    meter.add(seen)
        fields = self.taken.fields(folding.fields())
        if not self.source.gradients:
            fields["alignment"] = Alignment(unavailable=NO_ALIGNMENT)
        elif meter is not None:
            fields["alignment"] = meter.measured()
        return fields

    def _tested(self, first: Batch, as_found: AsFound) -> dict[str, Any]:
        """ρ and nudge on the first samples, whether or not there is a gradient to compare with."""
        tester = tester_of(self.credit, self.functional)
        assert tester is not None
        seen = self.reference.capture(self.model, self.chain, first, self.taken.loss, self.reduction)
        with as_found():
            tester.keep(first, seen)
        return tester.fields(self.model, self.chain, self.taken.loss, self.reference.sight)

    def bent_training_pass(self) -> str:
        """Why the gradient of the training pass is not the network's, so that nothing can be read there; else empty."""
        check = self.reference.check
        if not self.reference.judged:
            return check.reason
        if not check.seen_through:
            return ""
        with untouched(self.model), self.source.untouched():
            first = next(self._read())
            look = first.first(min(LOOK_SAMPLES, first.size))
            true = self.reference.capture(self.model, self.chain, look, self.taken.loss, self.reduction)
            declared = Sight(through=False).run(
                lambda: capture(self.model, self.chain, look, self.taken.loss, self.reduction)
            )
        if all(_alike(a, b) for a, b in zip(true.grads, declared.grads, strict=True)):
            return ""
        names = ", ".join(check.seen_through)
        return f"The network has a backward pass of its own ({names}), which is not the gradient of what it computes."

    def _as_given(self) -> Iterator[Batch]:
        return read_batches(self.batches, self.model, calling=self.calling)

    def _read(self) -> Iterator[Batch]:
        return map(self.taken.ready, self._as_given())

    def _captures(self) -> Iterator[Capture]:
        offset = 0
        for batch in self._read():
            seen = self.reference.capture(self.model, self.chain, batch, self.taken.loss, self.reduction, offset)
            offset += seen.samples
            yield seen


def _alike(one: Tensor, other: Tensor) -> bool:
    return float((one - other).norm()) <= SAME_GRADIENT * float(one.norm())
