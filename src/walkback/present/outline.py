"""What every rendering of a report says, in plain words and written figures; renderers only lay it out."""

from __future__ import annotations

from collections.abc import Iterable

from walkback.present import in_panel, numbers
from walkback.present.evidence import LOSS, alignment_gaps, gaps_beside
from walkback.present.facts import Facts as Facts
from walkback.present.facts import capped
from walkback.present.numbers import count, round_number
from walkback.present.places import in_block_names
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, SENTENCE_LENGTH, middle_out, shortened
from walkback.present.site_table import runs
from walkback.protocol.again import stored_words
from walkback.protocol.diagnostics.declare import Threshold
from walkback.protocol.diagnostics.known import known
from walkback.protocol.panels import panel_on_record
from walkback.protocol.records import DiagnosticReport, Reading, State
from walkback.protocol.words import Outcome

STATE_WORDS = {
    State.PASS: "PASS",
    State.FIRE: "FIRE",
    State.NOT_MEASURED: "NOT MEASURED",
    State.UNDECIDED: "UNDECIDED",
    State.REPORTED: "REPORTED",
}


OUTCOMES: dict[Outcome, State] = {"pass": State.PASS, "fail": State.FIRE, "incomplete": State.NOT_MEASURED}
"""The state whose colour and shape an outcome takes."""


def title(report: DiagnosticReport) -> str:
    """The method and the seed, or that there is no name."""
    name = middle_out(report.method_name, NAME_LENGTH) or "unnamed network"
    return name if report.seed is None else f"{name}, seed {report.seed}"


def basis(report: DiagnosticReport) -> str:
    """How many samples and blocks the figures rest on, and what a site's vector is."""
    sites = next((len(v) for v in (report.residual_norms, report.bp_grad_norms, report.sites) if v), 0)
    parts = [samples_in_words(report)] if report.samples is not None else []
    parts += [_sites_in_words(report, sites)] if sites else []
    parts += [_reduced(report.site_reduction)] if report.site_reduction else []
    return "; ".join(parts)


def _reduced(words: str) -> str:
    """What a site's vector is: the hidden state itself, or what was made of it."""
    shape = words.removeprefix("as is, ")
    return (
        f"hidden states {f'used as they are, shape {shape}' if shape != words else f'read as: {shortened(words, 120)}'}"
    )


def samples_in_words(report: DiagnosticReport) -> str:
    """`1,280 samples`; of a language model `256 sequences, 8,192 tokens`."""
    if report.tokens is None:
        return count(report.samples or 0, "sample")
    return f"{count(report.samples or 0, 'sequence')}, {count(report.tokens, 'token')}"


def parts(report: DiagnosticReport) -> str:
    """What was taken for stem, blocks and head, and what lies between; empty for records that do not say."""
    return shortened(report.provenance.get("parts", ""), 200)


def _sites_in_words(report: DiagnosticReport, sites: int) -> str:
    """How many blocks; where sites were left out, which of the network's were measured."""
    if report.site_numbers is None or report.last_site is None:
        return count(sites - 1, "block") if sites > 1 else count(sites, "site")
    listed = runs(list(report.site_numbers))
    return f"{sites} of {report.last_site + 1} sites: h_l with l = {listed}"


def verdict_line(report: DiagnosticReport) -> str:
    """The verdict with what it rests on."""
    decision = report.decision
    if decision is None:
        return shortened(report.verdict, NOTE_LENGTH) or "not judged"
    return shortened(panel_on_record(report.panel).qualified(decision, report.readings), NOTE_LENGTH)


def verdict_state(report: DiagnosticReport) -> State:
    """The state whose colour and shape the verdict takes."""
    return OUTCOMES[report.outcome]


def state_word(reading: Reading) -> str:
    """The state in a word, and `fragile` where the interval crosses the threshold."""
    return STATE_WORDS[reading.state] + (", fragile" if reading.fragile else "")


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


def sentence(report: DiagnosticReport, reading: Reading) -> str:
    """What the reading means, with the deciding panel's labels."""
    said = in_panel.in_its_words(report, reading.sentence or reading.reason)
    return shortened(in_block_names(report, said), SENTENCE_LENGTH)


def state_and_role(report: DiagnosticReport, reading: Reading) -> str:
    """The state in a word and, in brackets, the role of a diagnostic that does not decide."""
    role = in_panel.role(report, reading.letter)
    return state_word(reading) + (f" ({role})" if role else "")


def not_measured(report: DiagnosticReport) -> Facts:
    """Every gap, with the reason where one is known."""
    gaps = [
        (in_panel.named(report, r), sentence(report, r) or STATE_WORDS[r.state].lower())
        for r in report.readings
        if r.state in (State.NOT_MEASURED, State.UNDECIDED)
    ]
    return gaps + gaps_beside(report) + alignment_gaps(report)


def thresholds(report: DiagnosticReport) -> Facts:
    """The thresholds that were judged by, in the order of the diagnostics."""
    limits = in_panel.limits(report)
    return [
        (f"{in_panel.label(report, one.letter)} {one.thresholds[name].label}", _rule(one.thresholds[name], limit))
        for one in known().values()
        for name, limit in one.judged_by(limits).items()
    ]


def _rule(threshold: Threshold, limit: float) -> str:
    # Its label says that a ratio is one.
    unit = "" if threshold.unit == "×" else threshold.unit
    return f"{threshold.fires} {numbers.with_unit(round_number(limit), unit)}"


def provenance(report: DiagnosticReport) -> Facts:
    """Versions, device and precision, and the schema of the record."""
    # The loss stands with the figures that it is behind.
    rows = [(middle_out(k, NAME_LENGTH), shortened(v, 200)) for k, v in report.provenance.items() if k != LOSS]
    return [*capped(rows), ("report schema", str(report.schema_version))]


def warnings(report: DiagnosticReport) -> list[str]:
    """The warnings, one line each; first of all where the record itself says something else."""
    rows = capped(("", shortened(in_block_names(report, warning), NOTE_LENGTH)) for warning in report.warnings)
    return [*stored(report), *at_chance(report), *(f"{label} {words}".strip() for label, words in rows)]


def at_chance(report: DiagnosticReport) -> list[str]:
    """That the accuracy is no better than guessing, one class in so many, as far as its interval tells."""
    score, samples, classes = report.headline_acc, report.headline_samples, report.classes
    if score is None or not samples or not classes or classes < 2 or not 0 <= score <= 1:
        return []
    from walkback.protocol.uncertainty import wilson

    low, high = wilson(score, samples)
    if low > 1 / classes:
        return []
    chance = f"{numbers.percent(1 / classes)} with {classes:,} classes"
    if high < 1 / classes:
        return [f"The accuracy, {numbers.percent(score)}, is worse than guessing ({chance}). Was this network trained?"]
    return [f"The accuracy, {numbers.percent(score)}, cannot be told from guessing ({chance})."]


def stored(report: DiagnosticReport) -> list[str]:
    """That the record says something else than its measurements, in a sentence, where it does."""
    words = stored_words(report)
    return [shortened(words, SENTENCE_LENGTH)] if words else []


def stored_of_several(reports: Iterable[DiagnosticReport]) -> list[str]:
    """The same of several, each with the name of its network."""
    return [f"{title(report)}: {words}" for report in reports for words in stored(report)]
