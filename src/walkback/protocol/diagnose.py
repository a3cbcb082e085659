"""`walkback.diagnose`: the one composition of finding, capturing, measuring and judging."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain as chained
from typing import Any

import torch
from torch import nn

from walkback._version import __version__
from walkback.errors import InputError
from walkback.protocol.alignment import NULL_DRAWS, AlignmentMeter
from walkback.protocol.batch_sizes import in_pieces, joined
from walkback.protocol.batches import Batch, read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.capture import Capture
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.distributed import Ranks
from walkback.protocol.fidelity import Fidelity, fidelity_of
from walkback.protocol.folding import Folding
from walkback.protocol.functional_meter import FunctionalMeter
from walkback.protocol.headline import GivenScores
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.initial import Initial, InitialMeter, initial_weights
from walkback.protocol.judge import judge
from walkback.protocol.losses import Loss
from walkback.protocol.matching import check_matched
from walkback.protocol.outputs import Logits
from walkback.protocol.overlap import OverlapMeter
from walkback.protocol.own_loss import LossTaken, with_loss
from walkback.protocol.panels import panel_named
from walkback.protocol.readout_meter import ReadoutMeter
from walkback.protocol.records import Alignment, DiagnosticReport, FrozenBaseline, Measurements, Score, UpdateProvenance
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference import NO_ALIGNMENT, Reference
from walkback.protocol.reference_source import Source
from walkback.protocol.site_choice import Sites, chosen_sites
from walkback.protocol.sites import Blocks, Chain, Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.untouched import AsFound, underneath, untouched

MOST_SAMPLES, MOST_SITE_VALUES = 640, 2**20
"""Small batches are measured together up to this many samples, half of the published protocol, and this many values
at all sites."""

LOOK_SAMPLES = 4
"""How many samples the passes that only look at the structure use."""


def diagnose(
    model: nn.Module,
    eval_batches: Iterable[Any],
    headline_acc: float | Score | None = None,
    frozen_baseline_acc: float | Score | FrozenBaseline | None = None,
    method_name: str = "",
    notes: str = "",
    thresholds: DiagnosticThresholds | None = None,
    blocks: Blocks = None,
    loss: Loss | None = None,
    credit: CreditRule | CreditFunction | None = None,
    *,
    score: Score | None = None,
    stem: Blocks = None,
    head: Blocks = None,
    logits: Logits = None,
    forward_kwargs: Mapping[str, Any] | None = None,
    tokens: str | TokenReduction | None = None,
    null_draws: int = NULL_DRAWS,
    functional: int | None = None,
    seed: int | None = None,
    require_all: bool = False,
    panel: str | None = None,
    max_batches: int | None = None,
    micro_batch: int | None = None,
    sites: Sites = None,
    gather: bool | None = None,
    reference: nn.Module | str | None = None,
    gradients: bool = True,
    random_baseline: float | Score | FrozenBaseline | None = None,
    readouts: bool = False,
    initial: Initial | None = None,
    train_batches: Iterable[Any] | None = None,
    updates: UpdateProvenance | None = None,
) -> DiagnosticReport:
    """Measure a trained network on held-out batches and say whether its result can be trusted.

    Args:
        model: any nn.Module; it, its gradients, hooks and modes, and all random states are left as they were.
        eval_batches: labelled, held-out batches: (inputs, targets), or mappings with `labels`. Ten batches
            of 128 are the published protocol; figures do not depend on how samples are batched.
        headline_acc: the accuracy to defend, in [0, 1]; counted on the batches where it is not given.
        frozen_baseline_acc: the score of the matched frozen-blocks run, from `walkback.frozen_baseline`: refused where
            it is of another network or froze other blocks; of a plain number that is not known, and the report says so.
        method_name: what the report calls the method.
        notes: free text for the report.
        thresholds: where each diagnostic fires.
        blocks: the residual blocks: dotted names, globs such as `encoder.layer.*`, modules, or a list of these;
            `!head.*` leaves some out, and `layer#2` means the second call of a layer. Found by structure where not
            given; the report names what was taken.
        loss: (logits, targets) → one loss per sample, of the targets as they are. Where not given, the one that
            reproduces the loss that the model returns for its labels, and cross-entropy where it returns none; the
            report says which.
        credit: what the method hands to each site, for alignment: a method, or a function of
            (hiddens, logits, targets) that returns one tensor per site.
        score: the score to defend in another unit than accuracy, such as perplexity; (d) is judged in the unit of the
            baseline, by the threshold `frozen_margin`.
        stem: modules that come before h_0, named as blocks are, where the structure does not show it.
        head: modules that come after the last site.
        logits: which part of what the model returns are the logits: an index, a key, or a function of the output.
        forward_kwargs: further arguments for every call of the model, the same for each.
        tokens: what stands for a sample at sites of shape (B, T, d): `class_token`, `token_norms` or `flatten`.
        null_draws: how many fresh draws of the feedback the null of alignment rests on; 0 for no null.
        functional: on how many samples to test whether the credit tells how the loss moves (perturbation ρ and nudge),
            such as 64; they need no gradient, and some 70 forward passes in fp64 for each site.
        seed: the seed of the run, for the report and for combining several.
        require_all: make the verdict `incomplete` where a diagnostic was not measured.
        panel: which panel decides: `april2026` where none is named, `june2026`, or one that was added.
        max_batches: measure at most this many batches.
        micro_batch: measure at most this many samples at once, whatever the batches are; figures stay the same.
        sites: which of the sites h_0 … h_L to measure, by number: a list, a range or a slice; all where not given.
        gather: measure together with the other processes of a torch.distributed job, each on its own share of the
            batches, for one report on all; by default where the model is DistributedDataParallel.
        reference: where the true gradient comes from, if not from the network: a plain twin of it, of the same
            function; or `declared` to keep a declared backward pass that is not its gradient, unchecked, for Γ alone.
        gradients: False for networks that no loss is backpropagated through: (a) and the accuracy are measured alone.
        random_baseline: the score of a second baseline, whose blocks are at random with the trained blocks' norms, from
            `frozen_baseline(..., blocks_at="trained norms")`, for depth gain.
        readouts: fit a linear readout to every site, cross-validated on the batches: what the blocks add to h_0, and
            what the head makes of h_L. It needs classes as targets, and some hundreds of samples.
        initial: the network before training, its state_dict, or a function that builds it anew with its seed: how far
            every block moved, and how much the stream grew since then.
        train_batches: what the network was trained on, without augmentation, to count the test samples among them.
        updates: which rule the updates come from, by `walkback.provenance`, for the report.
    """
    panel_named(panel)  # refused before anything is measured
    plain, source = underneath(model), Source.of(reference, gradients, credit is not None)
    given = GivenScores.of(headline_acc, score, frozen_baseline_acc, random_baseline)
    meter = AlignmentMeter.of(credit, null_draws) if credit is not None else None
    tester = _tester(meter, functional)
    reduction = TokenReduction.named(tokens) if tokens is not None else None
    ranks = Ranks.of(model, gather)
    with ranks.together(), untouched(plain) as as_found, source.untouched():
        calling = Calling(forward_kwargs or {}, logits)
        read = in_pieces(read_batches(eval_batches, plain, max_batches, calling), micro_batch)
        _alone(ranks, train_batches=train_batches)
        seen = OverlapMeter(train_batches, plain, calling) if train_batches is not None else None
        read = seen.watching(read) if seen is not None else read
        taken, batches = with_loss(plain, read, loss)
        parts = Parts(blocks, stem, head)
        session = Session(
            plain, batches, parts, taken, reduction, meter, sites, micro_batch, ranks, given.baseline, source, as_found
        )
        session.tester = tester
        if _alone(ranks, initial=initial):
            session.initial = InitialMeter(initial_weights(initial, plain))
        session.readouts = ReadoutMeter() if _alone(ranks, readouts=readouts) else None
        fields = taken.fields(session.measure()) | (seen.fields() if seen is not None else {})
    remarks = [taken.remark] * bool(taken.remark) + given.warnings(fields, seed)
    fields |= given.fields() | ({"updates": updates} if updates is not None else {})
    if not gradients:
        fields["alignment"] = Alignment(unavailable=NO_ALIGNMENT)
    elif meter is not None:
        fields["alignment"] = meter.figures()
    return judge(
        Measurements(**fields),
        thresholds,
        panel=panel,
        method_name=method_name,
        notes=notes,
        seed=seed,
        require_all=require_all,
        warnings=_warnings(meter, session.checked, fields["samples"]) + remarks + ranks.warnings(),
        provenance=session.provenance() | ranks.provenance(),
    )


def _tester(meter: AlignmentMeter | None, samples: int | None) -> FunctionalMeter | None:
    """What tests the credit functionally, where that was asked for."""
    if samples is None:
        return None
    if meter is None:
        raise InputError("functional= tests a credit, and none was given. Pass credit= too.")
    return FunctionalMeter(meter.rule, samples)


def _alone(ranks: Ranks, **asked: Any) -> bool:
    """Whether something was asked for; what one process measures by itself is refused where several measure."""
    name, value = next(iter(asked.items()))
    wanted = value is not None and value is not False
    if ranks.ranks > 1 and wanted:
        raise InputError(f"{name}= is measured by one process alone. Pass gather=False on one rank, with all batches.")
    return wanted


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
        first = next(self.batches)
        look = first.first(min(LOOK_SAMPLES, first.size))
        found = chain_of_independent(self.model, look, self.parts, self.source.gradients)
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


def _warnings(meter: AlignmentMeter | None, checked: bool, samples: int) -> list[str]:
    if meter is None:
        return []
    independent = bool(getattr(meter.rule, "independent_feedback", False))
    return list(meter.facts.warnings(independent, samples, checked))
