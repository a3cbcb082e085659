"""One measurement of one network: batches in, fields of `Measurements` out."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain as chained
from typing import Any

import torch
from torch import nn

from walkback._version import __version__
from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batch_sizes import joined, on_few
from walkback.protocol.batches import Batch
from walkback.protocol.capture import Capture
from walkback.protocol.distributed import Ranks
from walkback.protocol.fidelity import Fidelity, fidelity_of
from walkback.protocol.folding import Folding
from walkback.protocol.functional_meter import FunctionalMeter
from walkback.protocol.heap import keep_freed_memory
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.initial import InitialMeter
from walkback.protocol.matching import check_matched
from walkback.protocol.own_loss import LossTaken
from walkback.protocol.readout_meter import ReadoutMeter
from walkback.protocol.records import FrozenBaseline
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference import Reference
from walkback.protocol.reference_source import Source
from walkback.protocol.site_choice import Sites, chosen_sites
from walkback.protocol.sites import Chain, Parts
from walkback.protocol.sizes import LOOK_SAMPLES as LOOK_SAMPLES
from walkback.protocol.untouched import AsFound

MOST_SAMPLES, MOST_SITE_VALUES = 1280, 2**21
"""Small batches are measured together up to this many samples, those of the published protocol, and this many values at
all sites."""


@dataclass
class Session:
    """One measurement of one network: batches in, fields of `Measurements` out."""

    model: nn.Module
    batches: Iterator[Batch]
    parts: Parts
    taken: LossTaken
    reduction: TokenReduction | None
    meter: AlignmentMeter | None
    sites: Sites = None
    micro_batch: int | None = None
    ranks: Ranks = field(default_factory=Ranks)
    baseline: FrozenBaseline | None = None
    source: Source = field(default_factory=Source)
    as_found: AsFound = nullcontext
    tester: FunctionalMeter | None = None
    readouts: ReadoutMeter | None = None
    initial: InitialMeter | None = None
    chain: Chain | None = None
    checked: bool = False
    """Whether the reference gradient is known to be that of the network."""

    def measure(self) -> dict[str, Any]:
        """Every diagnostic's figures over all batches."""
        keep_freed_memory()
        first = next(self.batches)
        gradients = self.source.gradients
        found = on_few(self.model, first, lambda few: chain_of_independent(self.model, few, self.parts, gradients))
        chain = self.chain = chosen_sites(found, self.sites, self.meter is not None)
        check_matched(self.baseline, self.model, chain)
        reference, folding, fidelity = None, None, None
        reduction = self.reduction or TokenReduction.FLATTEN
        for batch in joined(chained([first], self.batches), self._samples_at_once(first)):
            if reference is None or folding is None:
                reference = self.source.find(self.model, chain, batch, self.taken.loss, self.sites)
                chain = replace(chain, keeps_stream=reference.stream_kept)
                folding = Folding(chain, gradients=reference.judged)
            seen = reference.capture(self.model, chain, batch, self.taken.loss, reduction, folding.samples)
            if fidelity is None:
                self.taken.check_outputs(seen.trace.logits, reference.measured)
                reduction = self.reduction or reference.reduction(self.model, chain, batch, seen)
                seen = replace(seen, reduction=reduction)
                fidelity = fidelity_of(seen, reference.exact) if reference.judged else Fidelity(None)
            folding.add(seen)
            self._align(seen, reference)
            if self.readouts is not None:
                self.readouts.add(seen)
            if self.initial is not None:
                self.initial.keep(batch, seen)
            if self.tester is not None:
                with self.as_found():
                    self.tester.keep(batch, seen)
            del batch, seen  # before the next is joined, not after
        assert reference is not None
        assert folding is not None
        assert fidelity is not None
        fidelity, check = self.ranks.merged(folding, self.meter, fidelity, reference.check)
        self.checked = check.passed is True
        fields = folding.fields() | fidelity.fields() | {"reference_check": check}
        if self.tester is not None:
            fields |= self.tester.fields(self.model, chain, self.taken.loss, reference.sight)
        if self.readouts is not None:
            fields |= self.readouts.fields()
        if self.initial is not None:
            fields |= self.initial.fields(self.model, chain, self.taken.loss)
        return fields

    def _align(self, seen: Capture, reference: Reference) -> None:
        """Compare the credit with the gradient, where there is one of each."""
        if self.meter is None:
            return
        if not reference.measured:
            self.meter.unavailable = reference.check.reason
        # A credit rule may run the network's own backward pass, hooks and all.
        with self.as_found():
            self.meter.add(seen)

    def _samples_at_once(self, first: Batch) -> int:
        """How many samples to measure in one pass: more than a batch holds, as long as the sites stay small.

        On the CPU alone: elsewhere memory is scarcer, and the caller's batch size is what is known to fit. And not
        where functions of the caller's take part, which may count on the batches that they know.
        """
        assert self.chain is not None
        asked_for = self.taken.loss is not None or self.meter is not None or self.micro_batch is not None
        if first.targets.device.type != "cpu" or asked_for:
            return first.size
        return max(first.size, min(MOST_SAMPLES, MOST_SITE_VALUES // self.chain.values_per_sample))

    def provenance(self) -> dict[str, str]:
        """What a reader needs to measure the same again."""
        assert self.chain is not None
        found = "found by structure" if self.chain.found else "given"
        example = next(self.model.parameters(), None)
        return {
            "walkback": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "model": type(self.model).__name__,
            "blocks": f"{self.chain.pattern} ({found})",
            "parts": self.chain.parts,
            "loss": self.taken.words,
            "device": str(example.device) if example is not None else "cpu",
            "precision": str(example.dtype).removeprefix("torch.") if example is not None else "none",
        }
