"""A report as one self-contained page: no network, no fonts, light and dark, screen, phone and paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walkback.present import gauge as gauges
from walkback.present import in_panel, latex, markdown, numbers, outline
from walkback.present.alignment_facts import alignment_facts
from walkback.present.brief import sections
from walkback.present.evidence import OTHERS, evidence
from walkback.present.facts import Facts, capped
from walkback.present.in_short import plain_verdict
from walkback.present.network import Network
from walkback.present.panels import panels
from walkback.present.places import place
from walkback.present.plain import NAME_LENGTH, NOTE_LENGTH, middle_out, shortened, site_label
from walkback.present.site_table import MOST_SHOWN, SiteTable, alignment_table, cells, site_table
from walkback.present.templating import environment
from walkback.present.timeline import timelines
from walkback.protocol.records import DiagnosticReport, Reading, State

LARGEST = 290_000
"""Bytes that a page may take before it is drawn with less in it."""
_NOTES_LENGTH = 12_000
_MOST_ROWS = 250
_MOST_FACTS = 60
_IN_VERDICT = ("how sure", "next", "score", "measured")
"""What of the brief form the first box says; the rest of it stands right below."""

ICONS = {
    State.PASS: "pass",
    State.FIRE: "fire",
    State.NOT_MEASURED: "gap",
    State.UNDECIDED: "open",
    State.REPORTED: "info",
}
"""Every state has a shape and a colour of its own; its word always stands beside them."""


def render(report: DiagnosticReport) -> str:
    """The report as an HTML page of less than 300 kB: notes and tables give way where they must."""
    return render_network(Network(report))


def render_network(network: Network) -> str:
    """The same with the network's course, configuration and command, where they are on record."""
    template = environment().get_template("report.html.j2")
    page = template.render(**_page(network, _NOTES_LENGTH, _MOST_ROWS))
    if len(page.encode()) <= LARGEST:
        return page
    return template.render(**_page(network, NOTE_LENGTH, MOST_SHOWN))


@dataclass(frozen=True)
class Card:
    """One reading as it stands on the page."""

    label: str
    name: str
    icon: str
    word: str
    value: str
    rule: str
    site: str | None
    interval: str
    sentence: str
    gauge: gauges.Gauge | None
    unmarked: str
    """Why the picture shows no figure."""
    role: str
    """What a firing does, where it does not decide."""


def card(report: DiagnosticReport, reading: Reading) -> Card:
    """A reading with its figures written and its picture laid out."""
    drawn, name = gauges.gauge(reading), in_panel.name(report, reading)
    without = drawn is not None and drawn.value is None
    return Card(
        label=short if (short := in_panel.label(report, reading.letter)) != name else "",
        name=name,
        icon=ICONS[reading.state],
        word=outline.state_word(reading),
        value=numbers.reading_value(reading),
        rule=outline.fires_when(reading),
        site=None if reading.site is None else place(report, reading.site),
        interval=outline.interval_text(reading),
        sentence=outline.sentence(report, reading),
        gauge=drawn,
        unmarked=("NaN has no place here" if reading.value is not None else "not measured") if without else "",
        role=in_panel.role(report, reading.letter),
    )


@dataclass(frozen=True)
class Rows:
    """A table of sites: all of them where they fit, both ends where they do not."""

    headings: Sequence[tuple[str, str]]
    rows: Sequence[tuple[bool, str, list[str], str]]
    left_out: str
    long: bool
    decided: bool


def site_rows(table: SiteTable | None, most: int) -> Rows | None:
    """(after a gap, name, figures, letters) for every row that the page shows."""
    if table is None:
        return None
    every = table.count <= most
    sites = range(table.count) if every else table.shown
    rows = [
        (
            not every and table.after_gap(s),
            site_label(table.name(s), 60),
            cells(table, s),
            table.decides[s],
        )
        for s in sites
    ]
    headings = [(column.heading, column.meaning) for column in table.columns]
    left_out = "" if every else table.left_out
    return Rows(headings, rows, left_out, table.count > MOST_SHOWN, any(table.decides))


def _page(network: Network, notes_length: int, most_rows: int) -> dict[str, Any]:
    report = network.report
    return {
        "title": outline.title(report),
        "notes": shortened(report.notes, notes_length),
        "basis": outline.basis(report),
        "timelines": timelines([network]),
        "methods": [network.method],
        **detail(network, most_rows),
        "copies": [("Markdown", markdown.render(report)), ("LaTeX", latex.render(report))],
    }


def detail(network: Network, most_rows: int) -> dict[str, Any]:
    """What is shown of one network, on a page of its own or in a grid."""
    report = network.report
    return {
        "verdict": outline.verdict_line(report),
        "other_panels": in_panel.other_verdicts(report),
        "in_short": plain_verdict(report),
        "brief": [(label, lines) for label, lines in sections(report) if label in _IN_VERDICT],
        "verdict_icon": ICONS[outline.verdict_state(report)],
        "cards": [card(report, reading) for reading in report.readings],
        "panels": panels(report),
        "sites": site_rows(site_table(report), most_rows),
        "alignment": alignment_facts(report),
        "alignment_sites": site_rows(alignment_table(report), most_rows),
        "warnings": outline.warnings(report),
        "facts": [
            (OTHERS, evidence(report)),
            ("Not known", outline.not_measured(report)),
            ("Thresholds", outline.thresholds(report)),
            ("Provenance", outline.provenance(report)),
            *((heading, capped(_safe(rows), _MOST_FACTS)) for heading, rows in network.about),
        ],
    }


def _safe(rows: Facts) -> Facts:
    return [(middle_out(label, NAME_LENGTH), shortened(words, NOTE_LENGTH)) for label, words in rows]
