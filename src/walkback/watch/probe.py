"""The monitor's own measurement: a few held batches, again and again, on a network that is being trained.

The blocks are looked for once, and the passes that only check the network are not repeated; the fp64 twin runs where
(b) fires, which is when its answer matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import nn

from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batches import Batch, Calling, read_batches
from walkback.protocol.capture import Capture, capture
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.diagnose import LOOK_SAMPLES
from walkback.protocol.diagnostics.direction_drift import GROUP
from walkback.protocol.fidelity import reference_fidelity
from walkback.protocol.folding import Folding
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.losses import Loss
from walkback.protocol.records import Measurements
from walkback.protocol.reduction import TokenReduction, default_reduction
from walkback.protocol.sites import Blocks, Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.untouched import underneath, untouched
from walkback.registry import DIAGNOSTICS


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
    ) -> None:
        self.model = underneath(model)
        self.compiled = any(hasattr(m, "_orig_mod") or m.__dict__.get("_compiled_call_impl") for m in model.modules())
        self.loss, self.credit = loss, credit
        self.calling = calling or Calling()
        # Iterating over a loader draws from torch's generator, which training must not notice.
        with untouched(self.model):
            self.batches = [(b.inputs, b.targets) for b in read_batches(batches, self.model, max_batches)]
            samples = sum(len(targets) for _, targets in self.batches)
            # (c) compares groups of samples: with fewer than two there is nothing to measure.
            self.diagnostics = [n for n in DIAGNOSTICS if n != "direction_drift" or samples >= 2 * GROUP]
            first = next(self._read())
            look = first.first(min(LOOK_SAMPLES, first.size))
            self.chain = chain_of_independent(self.model, look, blocks)
            seen = capture(self.model, self.chain, look, loss, TokenReduction.FLATTEN)
            # What a first measurement would have to import is imported here, before training is timed.
            warm_up = Folding(self.chain, self.diagnostics)
            warm_up.add(seen)
            warm_up.fields()
        self.reduction = default_reduction(seen.grads[-1]) if tokens is None else TokenReduction.named(tokens)

    def measure(self, floor: float = DiagnosticThresholds().g_norm_floor) -> Measurements:
        """Every diagnostic's figures on the held batches; the network is left as it was found.

        The fidelity to fp64 is measured where the deepest gradient is under `floor`.
        """
        meter = AlignmentMeter.of(self.credit, 0) if self.credit is not None else None
        folding, opening = Folding(self.chain, self.diagnostics), None
        with untouched(self.model):
            for seen in self._captures():
                opening = opening or seen
                folding.add(seen)
                if meter is not None:
                    meter.add(seen)
            fields = folding.fields()
            assert opening is not None
            if not fields["bp_grad_norms"][-1] >= floor:
                first = next(self._read())
                fields |= reference_fidelity(self.model, self.chain, first, self.loss, opening).fields()
        if meter is not None:
            fields["alignment"] = meter.figures()
        return Measurements(**fields)

    def _read(self) -> Iterator[Batch]:
        return read_batches(self.batches, self.model, calling=self.calling)

    def _captures(self) -> Iterator[Capture]:
        offset = 0
        for batch in self._read():
            seen = capture(self.model, self.chain, batch, self.loss, self.reduction, offset)
            offset += seen.samples
            yield seen
