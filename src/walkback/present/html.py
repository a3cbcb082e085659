"""A report as one self-contained page: no network, no fonts, light and dark, screen, phone and paper."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from walkback.present import chart as charts
from walkback.present import gauge as gauges
from walkback.present import latex, markdown, numbers, outline
from walkback.present.alignment_facts import alignment_facts
from walkback.present.panels import panels
from walkback.present.plain import NOTE_LENGTH, one_line, shortened, site_label
from walkback.present.site_table import MOST_SHOWN, SiteTable, alignment_table, cells, site_table
from walkback.protocol.records import DiagnosticReport, Reading, State

LARGEST = 290_000
"""Bytes that a page may take before it is drawn with less in it."""
_NOTES_LENGTH = 12_000
_MOST_ROWS = 250

ICONS = {State.PASS: "pass", State.FIRE: "fire", State.NOT_MEASURED: "gap", State.UNDECIDED: "open"}
"""Every state has a shape and a colour of its own; its word always stands beside them."""


def render(report: DiagnosticReport) -> str:
    """The report as an HTML page of less than 300 kB: notes and tables give way where they must."""
    template = environment().get_template("report.html.j2")
    page = template.render(**_page(report, _NOTES_LENGTH, _MOST_ROWS))
    if len(page.encode()) <= LARGEST:
        return page
    return template.render(**_page(report, NOTE_LENGTH, MOST_SHOWN))


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates, with every value escaped unless it was made here."""
    made = Environment(
        loader=PackageLoader("walkback.present"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(style=_inline(made, "page.css"), script=_inline(made, "page.js"))
    made.globals.update(gauge_box=gauges, chart_box=charts)
    return made


@dataclass(frozen=True)
class Inline:
    """A style sheet or script that stands in the page, and the hash by which the page allows it alone."""

    source: Markup
    allowed: str


def _inline(templates: Environment, name: str) -> Inline:
    assert templates.loader is not None
    source = templates.loader.get_source(templates, name)[0]
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return Inline(Markup(source), f"'sha256-{digest}'")


@dataclass(frozen=True)
class Card:
    """One reading as it stands on the page."""

    letter: str
    name: str
    icon: str
    word: str
    figure: str
    rule: str
    site: int | None
    interval: str
    sentence: str
    gauge: gauges.Gauge | None
    unmarked: str
    """Why the picture shows no figure."""


def card(reading: Reading) -> Card:
    """A reading with its figures written and its picture laid out."""
    drawn = gauges.gauge(reading)
    without = drawn is not None and drawn.figure is None
    return Card(
        letter=reading.letter,
        name=one_line(reading.name),
        icon=ICONS[reading.state],
        word=outline.state_word(reading),
        figure=numbers.reading_figure(reading),
        rule=outline.fires_when(reading),
        site=reading.site,
        interval=outline.interval_text(reading),
        sentence=outline.sentence(reading),
        gauge=drawn,
        unmarked=("NaN has no place here" if reading.figure is not None else "not measured") if without else "",
    )


@dataclass(frozen=True)
class Rows:
    """A table of sites: all of them where they fit, both ends where they do not."""

    headings: Sequence[tuple[str, str]]
    rows: Sequence[tuple[bool, int, str, list[str], str]]
    left_out: str
    long: bool
    decided: bool


def site_rows(table: SiteTable | None, most: int) -> Rows | None:
    """(after a gap, site, name, figures, letters) for every row that the page shows."""
    if table is None:
        return None
    every = table.count <= most
    sites = range(table.count) if every else table.shown
    rows = [
        (
            not every and table.after_gap(s),
            s,
            site_label(table.name(s), 60),
            cells(table, s),
            table.decides[s],
        )
        for s in sites
    ]
    headings = [(column.heading, column.meaning) for column in table.columns]
    left_out = "" if every else table.left_out
    return Rows(headings, rows, left_out, table.count > MOST_SHOWN, any(table.decides))


def _page(report: DiagnosticReport, notes_length: int, most_rows: int) -> dict[str, Any]:
    return {
        "title": outline.title(report),
        "notes": shortened(report.notes, notes_length),
        "basis": outline.basis(report),
        "verdict": outline.verdict_line(report),
        "verdict_icon": ICONS[outline.verdict_state(report)],
        "cards": [card(reading) for reading in report.readings],
        "panels": panels(report),
        "sites": site_rows(site_table(report), most_rows),
        "alignment": alignment_facts(report),
        "alignment_sites": site_rows(alignment_table(report), most_rows),
        "warnings": outline.warnings(report),
        "facts": [
            ("Beside the four", outline.evidence(report)),
            ("Not measured", outline.not_measured(report)),
            ("Thresholds", outline.thresholds(report)),
            ("Provenance", outline.provenance(report)),
        ],
        "copies": [("Markdown", markdown.render(report)), ("LaTeX", latex.render(report))],
    }
