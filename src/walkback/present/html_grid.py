"""Several networks as one page: a table that sorts, filters and opens, their courses, and what was asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from walkback.errors import InputError
from walkback.present import in_panel, outline, tables
from walkback.present.brief import sections
from walkback.present.comparison import Column, columns, row, short_verdict
from walkback.present.dot_plot import Range, dot_plots
from walkback.present.evidence import panel_rates
from walkback.present.html import ICONS, detail
from walkback.present.in_short import fires_on_healthy_ones_too, grid_state, grid_verdict
from walkback.present.network import Network, by_method
from walkback.present.numbers import ABSENT, count
from walkback.present.page import Grid, Heading, Page
from walkback.present.plain import NOTE_LENGTH, shortened
from walkback.present.seeds import HOW_TO_READ, headline, remarks, sentences, summaries
from walkback.present.site_table import MOST_SHOWN
from walkback.present.templating import environment
from walkback.present.timeline import fireable, first_firings, timelines
from walkback.protocol.records import DiagnosticReport, State

LARGEST = 1_900_000
"""Bytes that a page may take before details give way."""
_MOST_DETAILS = 200
_MOST_SAID = 4
"""Lines of one kind in the box of the verdict."""
_MOST_SEEDS = 16
"""Columns of the table of methods and seeds; more seeds are left to the table of networks."""


@dataclass(frozen=True)
class GridPage:
    """What a page of several networks is made from."""

    title: str
    networks: Sequence[Network]
    pages: Sequence[Page] = ()
    """Questions asked of these networks, answered: the ablation, the sensitivity, the evidence."""
    same_verdicts: Mapping[str, Range] = field(default_factory=dict)
    """Per diagnostic, between which thresholds no verdict changes."""
    about: outline.Facts = field(default_factory=list)


def render(grid: GridPage) -> str:
    """The page, under 2 MB: where it would be larger, first tables and pictures of single networks give way."""
    template = environment().get_template("grid.html.j2")
    for details in _LEFT_OUT:
        page = template.render(**_page(grid, details))
        if len(page.encode()) <= LARGEST:
            return page
    raise InputError(
        f"{len(grid.networks)} networks do not fit one page, even without details. Give fewer, or use --csv."
    )


@dataclass(frozen=True)
class Row:
    """One network in the table."""

    number: int
    method: str
    seed: str
    cells: Sequence[tuple[str, str]]
    """Each figure as it is written, and the number it sorts by."""
    verdict: str
    kind: str
    icon: str
    fired: str
    detail: dict[str, Any] | None
    notes: str


def _page(grid: GridPage, details: str) -> dict[str, Any]:
    networks = grid.networks
    reports = [network.report for network in networks]
    kept = columns(reports)
    letters = fireable(networks)
    panel, bare = in_panel.panel_of(reports[0]), details == "bare"
    shown = [] if bare else timelines(networks)
    return {
        "title": shortened(grid.title, 120),
        "verdict": grid_verdict(networks),
        "in_short": _in_short(networks),
        "brief": _brief(reports),
        "verdict_icon": ICONS[grid_state(networks)],
        "other_panels": in_panel.other_verdicts_of_several(reports),
        "kinds": [(ICONS[state], panel.short(outcome)) for outcome, state in outline.OUTCOMES.items()],
        "letters": [(letter, panel.label(letter)) for letter in letters],
        "warnings": remarks(reports),
        "basis": f"{count(len(networks), 'network')}, {count(len(by_method(networks)), 'method')}",
        "headings": [column.heading for column in kept],
        "rows": [_row(i, network, kept, details) for i, network in enumerate(networks)],
        "matrix": _matrix(networks),
        "plots": [] if bare else dot_plots(networks, grid.same_verdicts),
        "timelines": shown,
        "methods": list(by_method(networks)),
        "firings": _firings(networks, letters) if shown else None,
        "seeds": [(headline(s), sentences(s)) for s in summaries(reports)],
        "seeds_note": HOW_TO_READ,
        "pages": [(page.title, list(_parts(page))) for page in grid.pages],
        "about": [(label, shortened(words, NOTE_LENGTH)) for label, words in grid.about],
        "legend": tables.legend(networks),
        "left_out": _LEFT_OUT[details],
        "copies": [] if bare else _copies(networks),
    }


def _firings(networks: Sequence[Network], letters: Sequence[str]) -> Grid:
    labels = [in_panel.label(networks[0].report, letter) for letter in letters]
    return Grid(("method", "seed", *labels), first_firings(networks, letters), "lr" + "r" * len(labels))


def _copies(networks: Sequence[Network]) -> list[tuple[str, str]]:
    return [
        ("Markdown", tables.as_markdown(networks)),
        ("LaTeX", tables.latex_tables(networks)),
        ("CSV", tables.as_csv(networks)),
    ]


_LEFT_OUT = {
    "full": "",
    "cards": "So many networks do not fit one page in full: figures at the sites are in the records alone.",
    "none": "So many networks do not fit one page in full: their details are in the records alone.",
    "bare": "So many networks do not fit one page in full: their details, courses and copies are left out.",
}
"""What is left out, step by step, and what the page says of it."""


def _in_short(networks: Sequence[Network]) -> str:
    fired = [n for n in networks if in_panel.fired(n.report)]
    if not fired:
        warned = sum(bool(outline.warnings(network.report)) for network in networks)
        if warned:
            return f"No diagnostic fires. {warned} of {count(len(networks), 'result')} come with a warning."
        return "Nothing that was measured speaks against these results."
    weak = sum(fires_on_healthy_ones_too(network.report) for network in fired)
    said = f"{len(fired) - weak} of {count(len(networks), 'result')} should not be relied on as they stand"
    if weak:
        one = "is inconclusive: its only alarm" if weak == 1 else "are inconclusive: their only alarm"
        said += f", and {weak} more {one} is one that healthy networks set off too"
    return f"{said}. Each row says why."


def _brief(reports: Sequence[DiagnosticReport]) -> list[tuple[str, list[str]]]:
    """How sure the panel is, and what to do next, of all networks together."""
    said = {
        "how sure": list(dict.fromkeys(filter(None, map(panel_rates, reports)))),
        "next": list(dict.fromkeys(step for report in reports if report.outcome == "fail" for step in _next(report))),
    }
    return [(label, [*lines[:_MOST_SAID], *_more(len(lines) - _MOST_SAID)]) for label, lines in said.items() if lines]


def _next(report: DiagnosticReport) -> Sequence[str]:
    return dict(sections(report)).get("next", [])


def _more(left: int) -> list[str]:
    return [f"… and {left} more; each row has its own"] if left > 0 else []


def _row(number: int, network: Network, kept: Sequence[Column], details: str) -> Row:
    report = network.report
    return Row(
        number=number,
        method=network.method,
        seed=ABSENT if report.seed is None else str(report.seed),
        cells=[(row(report, [column])[0], _sort_key(column.raw(report))) for column in kept],
        verdict=short_verdict(report),
        kind=ICONS[outline.verdict_state(report)],
        icon=ICONS[outline.verdict_state(report)],
        fired=" ".join(r.letter for r in report.readings if r.state is State.FIRE),
        detail=_detail(network, details) if number < _MOST_DETAILS else None,
        notes=shortened(report.notes, NOTE_LENGTH),
    )


def _detail(network: Network, details: str) -> dict[str, Any] | None:
    if details in ("none", "bare"):
        return None
    made = detail(network, MOST_SHOWN)
    return made if details == "full" else made | {"panels": [], "sites": None, "alignment_sites": None}


def _sort_key(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def _matrix(networks: Sequence[Network]) -> dict[str, Any] | None:
    """Methods × seeds, the numbers of the networks in each cell; None where there are no seeds to speak of."""
    seeds = sorted({n.report.seed for n in networks if n.report.seed is not None})
    if not seeds or len(seeds) > _MOST_SEEDS or any(n.report.seed is None for n in networks):
        return None
    # By identity: two runs may be equal in all that was recorded.
    numbers = {id(network): number for number, network in enumerate(networks)}
    rows = []
    for method, members in by_method(networks).items():
        cells = [[_cell(numbers[id(n)], n.report) for n in members if n.report.seed == seed] for seed in seeds]
        kinds = {outline.verdict_state(n.report) for n in members}
        agreement = "one seed" if len(members) == 1 else "unanimous" if len(kinds) == 1 else "mixed"
        rows.append((method, cells, agreement))
    return {"seeds": seeds, "rows": rows}


def _cell(number: int, report: DiagnosticReport) -> tuple[int, str, str]:
    """The network's number, its state, and its verdict in letters: `a b d`, `ok, no d`."""
    state = outline.verdict_state(report)
    panel = in_panel.panel_of(report)
    words = short_verdict(report).removeprefix(f"{panel.short('fail')} ").replace(panel.short("pass"), "ok")
    return number, ICONS[state], words


def _parts(page: Page) -> list[tuple[str, Any]]:
    kinds = {Grid: "table", Heading: "heading"}
    return [(kinds.get(type(part), "words"), part) for part in page.parts]
