"""What every rendering of a report says, in plain words and written figures; renderers only lay it out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from walkback.present import numbers
from walkback.present.numbers import count, figure, percent, round_number
from walkback.present.plain import ELLIPSIS, NAME_LENGTH, NOTE_LENGTH, middle_out, one_line, shortened
from walkback.present.site_table import runs
from walkback.protocol.again import stored_words
from walkback.protocol.panels import DECIDING
from walkback.protocol.records import DiagnosticReport, Measurements, Reading, ReferenceCheck, State
from walkback.protocol.scores import Score
from walkback.registry import PANELS

Facts = list[tuple[str, str]]
"""Labels and what stands beside them."""

STATE_WORDS = {
    State.PASS: "PASS",
    State.FIRE: "FIRE",
    State.NOT_MEASURED: "NOT MEASURED",
    State.UNDECIDED: "UNDECIDED",
    State.REPORTED: "REPORTED",
}

_SENTENCE_LENGTH = 1200
_MOST_VALUES = 8
_MOST_ROWS = 16
"""Rows of one kind that a rendering lists before it says how many more the record holds."""


def title(report: DiagnosticReport) -> str:
    """The method and the seed, or that there is no name."""
    name = middle_out(report.method_name, NAME_LENGTH) or "unnamed network"
    return name if report.seed is None else f"{name}, seed {report.seed}"


def basis(report: DiagnosticReport) -> str:
    """How many samples and sites the figures rest on, and what a site's vector is."""
    sites = next((len(v) for v in (report.residual_norms, report.bp_grad_norms, report.sites) if v), 0)
    parts = [_samples_in_words(report)] if report.samples is not None else []
    parts += [_sites_in_words(report, sites)] if sites else []
    parts += [f"sites read as: {shortened(report.site_reduction, 120)}"] if report.site_reduction else []
    return "; ".join(parts)


def _samples_in_words(report: DiagnosticReport) -> str:
    """`1,280 samples`; of a language model `256 sequences, 8,192 tokens`."""
    if report.tokens is None:
        return count(report.samples or 0, "sample")
    return f"{count(report.samples or 0, 'sequence')}, {count(report.tokens, 'token')}"


def parts(report: DiagnosticReport) -> str:
    """What was taken for stem, blocks and head, and what lies between; empty for records that do not say."""
    return shortened(report.provenance.get("parts", ""), 200)


def _sites_in_words(report: DiagnosticReport, sites: int) -> str:
    """How many sites, and where some were left out, which of the network's they are."""
    if report.site_numbers is None or report.last_site is None:
        return count(sites, "site")
    listed = runs(list(report.site_numbers))
    return f"{sites} of {report.last_site + 1} sites, numbered 0 to {sites - 1} here: h_l with l = {listed}"


def verdict_line(report: DiagnosticReport) -> str:
    """The verdict with what it rests on."""
    decision = report.decision
    if decision is None:
        return shortened(report.verdict, NOTE_LENGTH) or "not judged"
    return shortened(PANELS.load(report.panel or DECIDING).qualified(decision, report.readings), NOTE_LENGTH)


def verdict_state(report: DiagnosticReport) -> State:
    """The state whose colour and shape the verdict takes."""
    return {"fail": State.FIRE, "incomplete": State.NOT_MEASURED, "pass": State.PASS}[report.outcome]


def state_word(reading: Reading) -> str:
    """The state in a word, and `fragile` where the interval crosses the threshold."""
    return STATE_WORDS[reading.state] + (", fragile" if reading.fragile else "")


def lettered(reading: Reading) -> str:
    """`(a)`."""
    return f"({one_line(reading.letter)})"


def fires_when(reading: Reading) -> str:
    """The rule: `fires when > 50`."""
    if reading.comparison is None or reading.threshold is None:
        return "no threshold"
    return f"fires when {reading.comparison} {numbers.with_unit(round_number(reading.threshold), reading.unit)}"


def interval_text(reading: Reading) -> str:
    """The interval in words, with what it was made from: `95 % interval 1990 to 2100 (order statistics)`."""
    bounds = numbers.interval_bounds(reading)
    if bounds is None or reading.interval is None:
        return ""
    how = shortened(reading.interval.how, 160)
    low, high = bounds[0], numbers.with_unit(bounds[1], reading.unit)
    text = f"{numbers.level(reading.interval)} interval {low} to {high}"
    return f"{text} ({how})" if how else text


def sentence(reading: Reading) -> str:
    """What the reading means."""
    return shortened(reading.sentence or reading.reason, _SENTENCE_LENGTH)


def evidence(report: DiagnosticReport) -> Facts:
    """What was measured beside the four figures, and is needed to understand them."""
    return [
        *_loss(report),
        *_accuracy(report),
        *_gradient(report),
        *_drift(report),
        *_nonfinite(report),
        *capped(_extra(report)),
    ]


def capped(rows: Iterable[tuple[str, str]], most: int = _MOST_ROWS) -> Facts:
    """The first rows, and how many more there are."""
    listed = list(rows)
    more = len(listed) - most
    return listed if more <= 0 else [*listed[:most], (ELLIPSIS, f"{more:,} more in the record")]


def _loss(report: DiagnosticReport) -> Iterator[tuple[str, str]]:
    if words := report.provenance.get(LOSS):
        yield LOSS, shortened(words, 200)


def _accuracy(report: Measurements) -> Iterator[tuple[str, str]]:
    for label, words in (
        ("accuracy", accuracy_words(report)),
        ("perplexity", perplexity_words(report)),
        ("score", score_words(report.headline_score)),
        ("frozen baseline", baseline_words(report)),
        (FROZEN, frozen_words(report)),
    ):
        if words:
            yield label, words


LOSS = "loss"
FROZEN = "frozen blocks"
_MOST_BLOCKS = 6


def accuracy_words(report: Measurements) -> str:
    """The accuracy and what it was counted on; empty where there is none."""
    return _share_words(report.headline_acc, report.headline_samples, report.headline_answers)


def perplexity_words(report: Measurements) -> str:
    """Of a language model, on the batches; empty of others."""
    if report.perplexity is None:
        return ""
    over = f" over {_tokens(report.tokens, report.samples)}" if report.tokens is not None else ""
    return f"{figure(report.perplexity)}{over}"


def baseline_words(report: Measurements) -> str:
    """The frozen baseline's score, in whichever unit; empty where there is none."""
    known = report.frozen_baseline_acc, report.frozen_baseline_samples, report.frozen_baseline_answers
    return score_words(report.frozen_baseline_score) or _share_words(*known)


def score_words(score: Score | None) -> str:
    """`24.1 perplexity, less is better, of 8,192 tokens in 256 sequences`; empty where there is none."""
    if score is None:
        return ""
    unit = shortened(score.unit, 40)
    better = "more" if score.higher_is_better else "less"
    counted = _counted(score.samples, score.answers)
    return f"{numbers.with_unit(figure(score.value), unit)}, {better} is better{',' if counted else ''}{counted}"


def _share_words(share: float | None, samples: int | None, answers: int | None) -> str:
    return "" if share is None else percent(share) + _counted(samples, answers)


def _counted(samples: int | None, answers: int | None) -> str:
    if answers is not None:
        return f" of {_tokens(answers, samples)}"
    return f" on {count(samples, 'sample')}" if samples else ""


def _tokens(answers: int, samples: int | None) -> str:
    return count(answers, "token") + (f" in {count(samples, 'sequence')}" if samples else "")


def frozen_words(report: Measurements) -> str:
    """Which blocks the baseline left at random, and what share of the network that is; empty without a baseline."""
    if not baseline_words(report):
        return ""
    frozen = report.frozen
    if frozen is None:
        return "not known: the baseline came as a number alone"
    more = len(frozen.blocks) - _MOST_BLOCKS
    named = [middle_out(block, NAME_LENGTH) for block in frozen.blocks]
    listed = ", ".join(named) if more <= 0 else f"{', '.join(named[: _MOST_BLOCKS - 1])} … {named[-1]}"
    if frozen.share is None:
        return listed
    share = f"{frozen.values:,} of {frozen.all_values:,} parameters ({100 * frozen.share:.1f} %)"
    return f"{listed}: {share}, in {count(len(frozen.parameters), 'tensor')}"


def reference_line(check: ReferenceCheck) -> str:
    """Which gradient stands for the true one, and what its check came to."""
    if check.candidate == "none":
        return "none was asked for (gradients=False)"
    if check.passed is False:
        return "none: the gradient failed its check by finite differences; (b) says where and why"
    what = {
        "autograd": "autograd's",
        "seen_through": f"seen through custom backward ({_names(check.seen_through)})",
        "declared": f"as declared ({_names(check.kept)})" if check.kept else "as declared",
    }[check.candidate]
    what += f", with {_names(check.kept)} as declared" if check.seen_through and check.kept else ""
    what += ", of the twin" if check.twin else ""
    if not check.passed:
        return f"{what}; unchecked: {shortened(check.reason, _SENTENCE_LENGTH)}"
    kinks = f" ({count(check.kinks_discarded, 'direction')} left out at kinks)" if check.kinks_discarded else ""
    error = figure(check.error, 1) if check.error else "0"
    return f"{what}; checked by finite differences, largest error {error}{kinks}"


def _names(names: Sequence[str]) -> str:
    listed = ", ".join(middle_out(name, NAME_LENGTH) for name in names[:_MOST_VALUES])
    return listed + (f" and {len(names) - _MOST_VALUES:,} more" if len(names) > _MOST_VALUES else "")


def _gradient(report: Measurements) -> Iterator[tuple[str, str]]:
    if report.reference_check is not None:
        yield "reference gradient", reference_line(report.reference_check)
    if report.error_size is not None:
        yield "error size", f"{figure(report.error_size)}, the median ‖∂ℓ/∂logits‖"
    if report.reference_fidelity:
        # Minimum by a key that puts NaN first: a lost gradient must not hide behind good ones.
        worst = min(report.reference_fidelity, key=lambda v: (v == v, v))
        yield (
            "reference fidelity",
            f"{figure(worst, numbers.FIDELITY_DIGITS)} at the worst site, against fp64",
        )


def _drift(report: Measurements) -> Iterator[tuple[str, str]]:
    if report.groups is not None:
        yield "groups behind (c)", f"{report.groups:,} of 128 samples"
    site = report.stability_layer
    if report.drift_shares is None or site is None:
        return
    text = f"{figure(report.drift_shares[site])} at site {site}"
    if report.drift_share_intervals is not None:
        interval = report.drift_share_intervals[site]
        text += f", {figure(interval.low)} to {figure(interval.high)} ({numbers.level(interval)})"
    yield "drift share ρ", text


def _nonfinite(report: Measurements) -> Iterator[tuple[str, str]]:
    for label, counts in (
        ("non-finite h", report.nonfinite_hiddens),
        ("non-finite g", report.nonfinite_grads),
    ):
        hit = [site for site, number in enumerate(counts or ()) if number]
        if counts is not None and hit:
            worst = max(counts)
            yield label, f"at site{'s' if len(hit) > 1 else ''} {runs(hit)}; up to {count(worst, 'sample')}"
    if report.nonfinite_logits:
        yield "non-finite logits", count(report.nonfinite_logits, "sample")


def _extra(report: Measurements) -> Iterator[tuple[str, str]]:
    for name, value in report.extra.items():
        values = value if isinstance(value, tuple) else (value,)
        shown = ", ".join(figure(v) for v in values[:_MOST_VALUES])
        rest = f", … ({len(values):,} in all)" if len(values) > _MOST_VALUES else ""
        yield middle_out(name, NAME_LENGTH), shown + rest


def not_measured(report: DiagnosticReport) -> Facts:
    """Every gap, with the reason where one is known."""
    gaps = [
        (f"{lettered(r)} {one_line(r.name)}", sentence(r) or STATE_WORDS[r.state].lower())
        for r in report.readings
        if r.state in (State.NOT_MEASURED, State.UNDECIDED)
    ]
    return gaps + gaps_beside(report) + _alignment_gaps(report)


def gaps_beside(report: Measurements) -> Facts:
    """What is missing of the figures that explain (b) and (c)."""
    gaps = [] if report.bp_grad_norms is None else _beside_gradient(report)
    if report.cross_batch_stability is not None and report.drift_shares is None:
        gaps.append(("drift share ρ", "not recorded"))
    return gaps


def _beside_gradient(report: Measurements) -> Facts:
    figures = (
        ("error size", report.error_size, ""),
        ("scale-free gradient", report.scale_free_gradients, ""),
        ("reference fidelity", report.reference_fidelity, report.no_fidelity),
    )
    return [(label, shortened(why, NOTE_LENGTH) or "not recorded") for label, value, why in figures if value is None]


def _alignment_gaps(report: Measurements) -> Facts:
    alignment = report.alignment
    if alignment is None:
        return [("alignment Γ", "no credit rule was given")]
    if alignment.unavailable:
        return [("alignment Γ", shortened(alignment.unavailable, NOTE_LENGTH))]
    if alignment.null is None:
        return [("null of Γ", shortened(alignment.no_null, NOTE_LENGTH) or "not recorded")]
    return []


def thresholds(report: DiagnosticReport) -> Facts:
    """The thresholds that were judged by, in the order of the diagnostics."""
    limits = report.thresholds
    rows = [
        ("(a) growth of one block", f"> {round_number(limits.h_norm_explosion_ratio)}"),
        ("(b) median ‖g_L‖", f"< {round_number(limits.g_norm_floor)}"),
        ("(c) cosine of group means", f"> {round_number(limits.stability_drift_ceiling)}"),
        ("(d) margin over frozen blocks", f"< {round_number(limits.frozen_acc_margin_pp)} pp"),
    ]
    if limits.frozen_margin is not None:
        rows.append(("(d) margin in another unit than accuracy", f"< {round_number(limits.frozen_margin)}"))
    if limits.drift_share_ceiling is not None:
        rows[2] = ("(c) drift share ρ", f"> {round_number(limits.drift_share_ceiling)}")
    return rows


def provenance(report: DiagnosticReport) -> Facts:
    """Versions, device and precision, and the schema of the record."""
    # The loss stands with the figures that it is behind.
    rows = [(middle_out(k, NAME_LENGTH), shortened(v, 200)) for k, v in report.provenance.items() if k != LOSS]
    return [*capped(rows), ("report schema", str(report.schema_version))]


def warnings(report: DiagnosticReport) -> list[str]:
    """The warnings, one line each; first of all where the record itself says something else."""
    rows = capped(("", shortened(warning, NOTE_LENGTH)) for warning in report.warnings)
    return [*stored(report), *(f"{label} {words}".strip() for label, words in rows)]


def stored(report: DiagnosticReport) -> list[str]:
    """That the record says something else than its measurements, in a sentence, where it does."""
    words = stored_words(report)
    return [shortened(words, _SENTENCE_LENGTH)] if words else []


def stored_of_several(reports: Iterable[DiagnosticReport]) -> list[str]:
    """The same of several, each with the name of its network."""
    return [f"{title(report)}: {words}" for report in reports for words in stored(report)]
