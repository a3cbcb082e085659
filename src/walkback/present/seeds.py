"""Several seeds of one method in words: every diagnostic over the seeds, and whether they agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from walkback.errors import InputError
from walkback.present.numbers import count, is_margin, percent, signed, with_unit, written
from walkback.present.outline import stored_of_several
from walkback.present.plain import NAME_LENGTH, middle_out, one_line
from walkback.protocol.panels import Panel, panel_on_record
from walkback.protocol.panels.base import MISSING
from walkback.protocol.records import DiagnosticReport, State

if TYPE_CHECKING:
    from walkback.protocol.seeds import DiagnosticSummary, SeedSummary


HOW_TO_READ = (
    "± is the sample standard deviation over seeds. “n of m fire” counts seeds, each by its own value; the last line "
    "of a method judges the interval of the mean over its seeds. That interval can hold a threshold that no seed "
    "crosses: then the diagnostic is undecided by the means although the seeds agree."
)
"""What stands once below all of them."""


def headline(summary: SeedSummary) -> str:
    """`DFA, 3 seeds: unanimous, needs walk-back; accuracy 30.57 % ± 0.775 pp`."""
    name = middle_out(summary.method_name, NAME_LENGTH) or "unnamed"
    # A mixed verdict names its agreement itself.
    agreement = "" if summary.agreement == "mixed" else f"{summary.agreement}, "
    text = f"{name}, {count(len(summary.seeds), 'seed')}: {agreement}{one_line(summary.verdict)}{_rests_on(summary)}"
    if summary.headline_mean is None:
        return text
    spread = "" if summary.headline_sd is None else f" ± {with_unit(written(100 * summary.headline_sd), 'pp')}"
    return f"{text}; accuracy {percent(summary.headline_mean)}{spread}"


def _rests_on(summary: SeedSummary) -> str:
    """Of seeds where nothing fires: what that was measured by, and what was not measured; empty where all was."""
    panel = panel_on_record(summary.panel or None)
    members = [each for each in summary.diagnostics if panel.member(each.letter) is not None]
    labels = {each.letter: one_line(panel.label(each.letter)) for each in members}
    gaps = [labels[each.letter] for each in members if set(each.states) & set(MISSING)]
    whole = [labels[each.letter] for each in members if not set(each.states) & set(MISSING)]
    if not gaps or not whole or any(State.FIRE in each.states for each in members):
        return ""
    return f" (nothing fires on {', '.join(whole)}; {', '.join(gaps)} not measured)"


def sentences(summary: SeedSummary) -> list[str]:
    """One sentence for each diagnostic: unanimous or mixed, how many seeds fire, the mean and sd; then the verdict by
    the intervals of the means, and remarks."""
    panel = panel_on_record(summary.panel or None)
    means = [f"by the 95 % intervals of the means over seeds: {summary.by_interval}"] if summary.by_interval else []
    return [*(_sentence(each, panel) for each in summary.diagnostics), *means, *summary.remarks]


def _title(diagnostic: DiagnosticSummary, panel: Panel) -> str:
    member = panel.member(diagnostic.letter)
    return middle_out((member.title if member is not None else "") or diagnostic.name, NAME_LENGTH)


def _sentence(diagnostic: DiagnosticSummary, panel: Panel) -> str:
    states = diagnostic.states
    short, title = one_line(panel.label(diagnostic.letter)), _title(diagnostic, panel)
    head = title if short == title else f"{short} {title}"
    if set(states) == {State.NOT_MEASURED}:
        return f"{head}: not measured"
    if set(states) == {State.REPORTED}:
        return f"{head}: reported, never fires; {_spread(diagnostic)}"
    fired = states.count(State.FIRE)
    gaps = len(states) - fired - states.count(State.PASS) - states.count(State.REPORTED)
    parts = [f"{diagnostic.agreement}, {fired} of {len(states)} fire"]
    parts += [f"{gaps} without a reading"] if gaps else []
    parts += [f"{diagnostic.fragile} fragile"] if diagnostic.fragile else []
    return f"{head}: {', '.join(parts)}; {_spread(diagnostic)}"


def _spread(diagnostic: DiagnosticSummary) -> str:
    if diagnostic.mean is None:
        return "no figures"
    unit = diagnostic.unit
    mean = signed(diagnostic.mean) if is_margin(diagnostic) else written(diagnostic.mean)
    if diagnostic.sd is None:
        return f"one figure, {with_unit(mean, unit)}"
    return f"mean {mean} ± {with_unit(written(diagnostic.sd), unit)}"


def summaries(reports: Sequence[DiagnosticReport]) -> list[SeedSummary]:
    """A summary of every method that has several reports, in the order in which the methods appear."""
    return [made for _, made in _combined(reports) if not isinstance(made, str)]


def not_combined(reports: Sequence[DiagnosticReport]) -> list[str]:
    """The methods whose reports are not one per seed, and why they have no summary."""
    return [
        f"{middle_out(name, NAME_LENGTH) or 'unnamed'}: not summarised over seeds: {why}"
        for name, why in _combined(reports)
        if isinstance(why, str)
    ]


def remarks(reports: Sequence[DiagnosticReport]) -> list[str]:
    """What a reader of several reports has to know: records that say otherwise, and runs that are not one per seed."""
    return [*stored_of_several(reports), *not_combined(reports)]


def _combined(reports: Sequence[DiagnosticReport]) -> Iterator[tuple[str, SeedSummary | str]]:
    """Each method that has several reports, with its summary or why it has none."""
    # Imported here because intervals over seeds need scipy, and a single report does not.
    from walkback.protocol.seeds import combine

    groups: dict[tuple[str, tuple[str, ...]], list[DiagnosticReport]] = {}
    for report in reports:
        letters = tuple(reading.letter for reading in report.readings)
        groups.setdefault((report.method_name, letters), []).append(report)
    for (name, _), group in groups.items():
        if len(group) > 1:
            try:
                yield name, combine(group)
            except InputError as error:
                yield name, str(error)
