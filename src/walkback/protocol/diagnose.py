"""`walkback.diagnose`: the one composition of finding, capturing, measuring and judging."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import nn

from walkback.arguments import known_arguments
from walkback.errors import InputError
from walkback.protocol.alignment import NULL_DRAWS, AlignmentMeter
from walkback.protocol.batch_sizes import in_pieces
from walkback.protocol.batches import read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.claimed_rule import checked_rule, remark_on
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.devices import require_one_device
from walkback.protocol.distributed import Ranks
from walkback.protocol.finite_source import InputMeter
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
from walkback.protocol.thresholds import DiagnosticThresholds, checked_thresholds
from walkback.protocol.untouched import underneath, untouched


@known_arguments()
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
    claimed_rule: str = "",
) -> DiagnosticReport:
    """Measure a trained network on held-out batches and say whether its result can be trusted.

    A network of L blocks is read at L + 1 sites: h_0 goes into the first block, h_l comes out of block l. At each site
    the hidden state h_l of every sample is measured, and the gradient g_l of its loss. The model, its gradients, hooks
    and modes, and all random states are left as they were.

    Formula:
        (a) the largest median‖h_l‖ / median‖h_{l−1}‖. (b) median‖g_L‖, for a loss averaged over 128 samples. (c) the
        mean cosine between the mean gradients of groups of 128 samples, at the middle site. (d) 100 · (accuracy −
        accuracy of the frozen baseline). Medians are over samples.

    Args:
        model: any nn.Module.
        eval_batches: labelled, held-out batches: (inputs, targets), or mappings with `labels`. Ten batches of 128 are
            the published protocol. The result does not depend on how samples are batched.
        headline_acc: the accuracy to defend, in [0, 1]; counted on the batches where it is not given.
        frozen_baseline_acc: the score of the matched frozen-blocks run, from `walkback.frozen_baseline`, for (d). A
            baseline of another network or of other blocks is refused. A plain number in [0, 1] cannot be checked in
            this way, and the report says so. Without it (d) is not measured.
        method_name: what the report calls the method.
        notes: free text for the report.
        thresholds: where each diagnostic fires; the published values where not given.
        blocks: the blocks: dotted names, globs such as `encoder.layer.*`, modules, or a list of these. `!head.*` leaves
            some out, and `layer#2` means the second call of a layer. They are found by structure where not given, and
            the report names them.
        loss: a function of (logits, targets) that returns one loss per sample, shape (B,). Where not given, it is the
            one that reproduces the loss which the model returns for its labels, and cross-entropy where it returns
            none. The report says which.
        credit: what the method hands to each site, for alignment: a `CreditRule`, or a function of (hiddens, logits,
            targets) that returns one tensor per site. Without it Γ is not measured.

    Args: The score, and how the model is called
        score: the score to defend in another unit than accuracy, such as perplexity. (d) is judged in the unit of the
            baseline, by the threshold `frozen_margin`.
        stem: modules that come before h_0, named as blocks are, where the structure does not show it.
        head: modules that come after the last site, named in the same way.
        logits: which part of what the model returns are the logits: an index, a key, or a function of the output.
        forward_kwargs: further arguments for every call of the model, the same for each.
        tokens: what stands for a sample at sites of shape (B, T, d): `class_token`, `token_norms` or `flatten`. Where
            not given, it is the class token if the loss reads that one alone, else all tokens.
        reference: where the true gradient comes from, if not from the network: a plain twin of it, of the same
            function; or `declared` to keep a declared backward pass that is not its gradient, unchecked, for Γ alone.
        gradients: False for networks that no loss is backpropagated through. Only (a) and the accuracy are measured
            then.

    Args: How much is measured
        max_batches: measure at most this many batches; all where not given.
        micro_batch: measure at most this many samples at once, to save memory; the result stays the same.
        sites: which of the sites h_0 … h_L to measure, by number: a list, a range or a slice; all where not given.
        gather: measure together with the other processes of a torch.distributed job, each on its own share of the
            batches, for one report on all. This is the default where the model is DistributedDataParallel.

    Args: What else is measured
        null_draws: how many fresh draws of the feedback the null of Γ rests on, 20 by default; 0 for no null.
        functional: on how many samples to test whether the credit tells how the loss moves (perturbation ρ and nudge),
            such as 64; these tests need no gradient. Not measured by default.
        random_baseline: the score of a second baseline, whose blocks are random with the norms of the trained ones,
            from `frozen_baseline(..., blocks_at="trained norms")`, for depth gain.
        readouts: True fits a linear readout to every site, cross-validated on the batches: what the blocks add to h_0,
            and what the head makes of h_L. It needs classes as targets, and some hundreds of samples.
        initial: the network before training, its state_dict, or a function that builds it anew with its seed: how far
            every block moved, and how much the stream grew since then.
        train_batches: what the network was trained on, without augmentation, to count the test samples among them.
        updates: which rule the updates come from, by `walkback.provenance`, for the report.
        claimed_rule: what the rule that trained the network is called, such as `DFA` or `BP`: backpropagation under
            another name is told by that. Of a rule that no healthy network of the bench was trained by, no error rate
            is known.

    Args: How it is judged
        seed: the seed of the run, for the report and for `walkback.combine`.
        require_all: True makes the verdict `incomplete` where a diagnostic of the panel was not measured.
        panel: which panel decides: `april2026` where none is named, `june2026`, `calibrated`, or one that was
            added.

    Returns:
        The report: measurements, readings and verdict. `print(report)` shows ten lines of it.

    Raises:
        BatchError: a batch is empty, has no labels, or has labels or outputs that cannot be scored.
        BlocksError: no blocks were found, several chains were, or named blocks are not reached.
        NoGradient: the logits do not depend on the sites at all.
        BaselineError: the frozen baseline is of another network, or of other blocks.
        CreditError: the credit rule gave something other than one tensor per site.
        UnknownName: there is no such panel.
        InputError: any other argument cannot be used, or samples influence each other. All but `BaselineError` are
            kinds of it.
        WalkbackError: in a distributed job, another rank could not measure.

    Cost:
        One forward and one backward pass over the batches, without parameter gradients, and a few passes over the first
        samples in fp64. `credit` costs what the rule costs, once more for each of `null_draws`; `functional` some 70
        forward passes of its samples in fp64 for each site; `initial` one more forward pass.

    Caveat:
        A verdict is on this network and these samples. Other seeds may differ: train several, and `combine` their
        reports.

    Examples:
        >>> import torch, walkback
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
        >>> batches = [(torch.randn(128, 8), torch.randint(8, (128,))) for _ in range(2)]
        >>> report = walkback.diagnose(model, batches, method_name="untrained")
        >>> report.reading("a").state.name, report.reading("d").state.name
        ('PASS', 'NOT_MEASURED')
    """
    panel_named(panel)  # refused before anything is measured
    checked_thresholds(thresholds)
    checked_rule(claimed_rule)
    plain, source = underneath(model), Source.of(reference, gradients, credit is not None)
    require_one_device(plain)
    given = GivenScores.of(headline_acc, score, frozen_baseline_acc, random_baseline)
    meter = AlignmentMeter.of(credit, null_draws) if credit is not None else None
    tester = tester_of(credit, functional)
    reduction = TokenReduction.named(tokens) if tokens is not None else None
    ranks = Ranks.of(model, gather)
    with ranks.together(), untouched(plain) as as_found, source.untouched():
        calling = Calling(forward_kwargs or {}, logits)
        inputs = InputMeter()
        read = inputs.watching(in_pieces(read_batches(eval_batches, plain, max_batches, calling), micro_batch))
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
    began = session.initial.remark if session.initial is not None else ""
    remarks = [said for said in (taken.remark, began, remark_on(claimed_rule)) if said] + given.warnings(fields, seed)
    fields |= given.fields(fields) | {"claimed_rule": claimed_rule}
    fields |= {"updates": updates} if updates is not None else {}
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
        warnings=_warnings(meter, session.checked, fields["samples"], method_name) + remarks + ranks.warnings(),
        provenance=session.provenance() | inputs.provenance(fields, plain) | ranks.provenance(),
    )


def _alone(ranks: Ranks, **asked: Any) -> bool:
    """Whether something was asked for; what one process measures by itself is refused where several measure."""
    name, value = next(iter(asked.items()))
    wanted = value is not None and value is not False
    if ranks.ranks > 1 and wanted:
        raise InputError(f"{name}= is measured by one process alone. Pass gather=False on one rank, with all batches.")
    return wanted


def _warnings(meter: AlignmentMeter | None, checked: bool, samples: int, method_name: str) -> list[str]:
    if meter is None:
        return []
    independent = bool(getattr(meter.rule, "independent_feedback", False))
    return list(meter.facts.warnings(independent, samples, checked, method_name))
