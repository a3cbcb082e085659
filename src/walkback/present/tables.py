"""Several networks as one table: Markdown, LaTeX and CSV, with the same figures in all."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from walkback.present import in_panel, markdown, outline
from walkback.present.comparison import Column, columns, directions, labels, letters_in_words, row, short_verdict, units
from walkback.present.latex import document, floated, tabular
from walkback.present.method_names import recorded_as
from walkback.present.network import Network
from walkback.present.numbers import ABSENT
from walkback.present.plain import middle_out, shortened
from walkback.present.seeds import HOW_TO_READ, headline, remarks, sentences, summaries
from walkback.present.tex_escape import escape
from walkback.protocol.diagnostics.known import quantities
from walkback.protocol.records import DiagnosticReport, Reading

if TYPE_CHECKING:
    from walkback.protocol.seeds import SeedSummary

_MOST_ROWS_ON_A_PAGE = 40


def as_markdown(networks: Sequence[Network]) -> str:
    """One network in full; several as a table, with what the seeds of each method agree on."""
    if len(networks) == 1:
        return markdown.render(networks[0].report)
    kept = columns(_reports(networks))
    headings = ["method", "seed", *(column.heading for column in kept), "verdict"]
    rows = [[n.method, _seed(n), *row(n.report, kept), short_verdict(n.report)] for n in networks]
    others = in_panel.other_verdicts_of_several(_reports(networks))
    parts = [
        f"## walkback: {len(networks)} networks",
        markdown.table(headings, rows, "lr" + "r" * len(kept) + "l"),
        markdown.escape(legend(networks)),
        *([f"Other panels: {markdown.escape(others)}"] if others else []),
        *(f"**Warning:** {markdown.escape(words)}" for words in remarks(_reports(networks))),
        *(several := [_agreement(summary) for summary in summaries(_reports(networks))]),
        *([markdown.escape(HOW_TO_READ)] if several else []),
    ]
    return "\n\n".join(parts) + "\n"


def _reports(networks: Sequence[Network]) -> list[DiagnosticReport]:
    return [network.report for network in networks]


def _agreement(summary: SeedSummary) -> str:
    lines = [f"- {markdown.escape(sentence)}" for sentence in sentences(summary)]
    return "\n".join([f"**{markdown.escape(headline(summary))}**", "", *lines])


def as_latex(networks: Sequence[Network]) -> str:
    """Booktabs tables that compile by themselves and can be input into a paper."""
    return document(latex_tables(networks))


def latex_tables(networks: Sequence[Network]) -> str:
    """The tables alone; a long one goes on in further tables, so that each fits its page."""
    if len(networks) == 1:
        return networks[0].report.to_latex()
    parts = [networks[i : i + _MOST_ROWS_ON_A_PAGE] for i in range(0, len(networks), _MOST_ROWS_ON_A_PAGE)]
    kept = columns(_reports(networks))
    made = [_latex_part(part, kept, number, networks) for number, part in enumerate(parts)]
    return "% requires \\usepackage{booktabs}\n" + "\n\n".join(made) + "\n"


def _latex_part(part: Sequence[Network], kept: Sequence[Column], number: int, networks: Sequence[Network]) -> str:
    headings = ["method", "seed", *(column.tex for column in kept), "verdict"]
    rows = [
        [escape(middle_out(n.method, 28)), _seed(n), *map(escape, row(n.report, kept)), _tex_verdict(n.report)]
        for n in part
    ]
    again = f" (continued, {number + 1})" if number else ""
    caption = f"walkback on {len(networks)} networks{again}."
    label = f"tab:walkback-grid{f'-{number + 1}' if number else ''}"
    below: list[str] = []
    if len(networks) <= (number + 1) * _MOST_ROWS_ON_A_PAGE:
        below = [rf"\textbf{{Warning:}} {escape(words)}" for words in remarks(_reports(networks))]
        below.append(escape(legend(networks)))
        others = in_panel.other_verdicts_of_several(_reports(networks))
        below += [escape(f"Other panels: {others}")] if others else []
    return floated(caption, label, tabular(headings, rows, "lr" + "r" * len(kept) + "l"), below)


def _tex_verdict(report: DiagnosticReport) -> str:
    words = escape(short_verdict(report))
    failed = escape(in_panel.panel_of(report).short("fail"))
    return words.replace(failed, rf"\textbf{{{failed}}}", 1) if report.outcome == "fail" else words


def legend(networks: Sequence[Network]) -> str:
    """What the columns and letters are, and the thresholds where they are the same for all."""
    letters = letters_in_words(labels(_reports(networks)))
    failed = in_panel.panel_of(networks[0].report).short("fail")
    text = f"Letters after a {failed} are the diagnostics that fired: {letters}."
    for heading, unit in units(columns(_reports(networks))).items():
        text += f" {heading[:1].upper()}{heading[1:]} in {'percentage points' if unit == 'pp' else unit}."
    for words in directions(columns(_reports(networks))):
        text += f" {words[:1].upper()}{words[1:]}."
    if any(not n.report.complete for n in networks):
        text += " What follows “no” was not measured, which does not count as a pass."
    if recorded := recorded_as(networks):
        text += f" In the record {recorded}."
    limits = {tuple(outline.thresholds(n.report)) for n in networks}
    if len(limits) == 1:
        text += " Fires when: " + "; ".join(f"{label} {rule}" for label, rule in limits.pop()) + "."
    return text


def as_csv(networks: Sequence[Network]) -> str:
    """One row per network with every digit of the record; what was not measured is empty.

    After the verdict: each diagnostic's figure, interval, state and fragility; then ‖h‖, ‖g‖ and Γ at each site.
    """
    rows = [dict(_fields(network)) for network in networks]
    headings = list(dict.fromkeys(name for entry in rows for name in entry))
    file = io.StringIO()
    writer = csv.DictWriter(file, sorted(headings, key=_place), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def _place(heading: str) -> int:
    """Sites stand after everything else, and by number within their kind."""
    kind, _, site = heading.rpartition("_")
    kinds = [quantity.csv or quantity.name for quantity in quantities().values() if quantity.per_site]
    return 10_000 * (1 + kinds.index(kind)) + int(site) if kind in kinds and site.isdigit() else 0


def _fields(network: Network) -> Iterator[tuple[str, str]]:
    report = network.report
    yield "method", _cell(report.method_name)
    if network.recorded:
        yield "recorded_method", _cell(network.recorded)
    yield "seed", "" if report.seed is None else str(report.seed)
    yield "verdict", _cell(report.verdict)
    for panel, verdict in report.verdicts.items():
        if panel != report.panel:
            yield f"verdict_{panel}", _cell(verdict.words)
    if report.stored is not None:
        yield "stored_verdict", _cell(report.stored.verdict)
        yield "stored_by", _cell(report.stored.version)
    yield "complete", str(report.complete).lower()
    for name in ("headline_acc", "frozen_baseline_acc", "error_size"):
        yield name, _number(getattr(report, name))
    yield "drift_share", _number(_share(report))
    yield "deep_alignment", _number(report.alignment.deep if report.alignment else None)
    for reading in report.readings:
        yield from _reading_fields(report, reading)
    yield from _quantity_fields(report)


def _reading_fields(report: DiagnosticReport, reading: Reading) -> Iterator[tuple[str, str]]:
    letter = _cell(reading.letter)
    yield f"{letter}_value", _number(reading.value)
    yield f"{letter}_low", _number(reading.interval.low if reading.interval else None)
    yield f"{letter}_high", _number(reading.interval.high if reading.interval else None)
    yield f"{letter}_threshold", _number(reading.threshold)
    yield f"{letter}_state", reading.state.value
    yield f"{letter}_fragile", str(reading.fragile).lower()
    if role := in_panel.role(report, reading.letter):
        yield f"{letter}_role", _cell(role)


def _quantity_fields(report: DiagnosticReport) -> Iterator[tuple[str, str]]:
    """‖h‖, ‖g‖ and Γ at each site, and every quantity of diagnostics beyond walkback's own."""
    for quantity in quantities().values():
        if not quantity.csv and quantity.name not in report.extra:
            continue
        value = quantity.read(report)
        name = quantity.csv or quantity.name
        if isinstance(value, tuple):
            yield from ((f"{name}_{site}", _number(each)) for site, each in enumerate(value))
        elif value is not None:
            yield name, _number(value)


def _share(report: DiagnosticReport) -> float | None:
    shares, site = report.drift_shares, report.stability_layer
    return None if shares is None or site is None else shares[site]


def _number(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _cell(text: str) -> str:
    """Words of others: a spreadsheet takes what begins like this for a formula."""
    words = shortened(text, 200)
    return f"'{words}" if words[:1] in ("=", "+", "-", "@") else words


def _seed(network: Network) -> str:
    return ABSENT if network.report.seed is None else str(network.report.seed)
