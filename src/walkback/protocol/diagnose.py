"""`walkback.diagnose`: the one composition of finding, capturing, measuring and judging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from walkback.errors import InputError
from walkback.protocol.alignment import NULL_DRAWS, AlignmentMeter
from walkback.protocol.batch_sizes import in_pieces
from walkback.protocol.batches import read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.devices import require_one_device
from walkback.protocol.distributed import Ranks
from walkback.protocol.functional_meter import tester_of
from walkback.protocol.headline import GivenScores
from walkback.protocol.initial import Initial, InitialMeter, initial_weights
from walkback.protocol.judge import judge
from walkback.protocol.losses import Loss
from walkback.protocol.outputs import Logits
from walkback.protocol.overlap import OverlapMeter
from walkback.protocol.own_loss import with_loss
from walkback.protocol.panels import panel_named
from walkback.protocol.readout_meter import ReadoutMeter
from walkback.protocol.records import Alignment, DiagnosticReport, FrozenBaseline, Measurements, Score, UpdateProvenance
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference import NO_ALIGNMENT
from walkback.protocol.reference_source import Source
from walkback.protocol.session import Session
from walkback.protocol.site_choice import Sites
from walkback.protocol.sites import Blocks, Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.untouched import underneath, untouched


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
    require_one_device(plain)
    given = GivenScores.of(headline_acc, score, frozen_baseline_acc, random_baseline)
    meter = AlignmentMeter.of(credit, null_draws) if credit is not None else None
    tester = tester_of(credit, functional)
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
        fields["alignment"] = meter.measured()
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


def _alone(ranks: Ranks, **asked: Any) -> bool:
    """Whether something was asked for; what one process measures by itself is refused where several measure."""
    name, value = next(iter(asked.items()))
    wanted = value is not None and value is not False
    if ranks.ranks > 1 and wanted:
        raise InputError(f"{name}= is measured by one process alone. Pass gather=False on one rank, with all batches.")
    return wanted


def _warnings(meter: AlignmentMeter | None, checked: bool, samples: int) -> list[str]:
    if meter is None:
        return []
    independent = bool(getattr(meter.rule, "independent_feedback", False))
    return list(meter.facts.warnings(independent, samples, checked))
