"""What a notebook shows: reports, comparisons, seeds and monitors as small pieces of HTML, safe and self-contained."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import walkback
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.watch.live import InPlace, LiveLine, Now, live_view
from walkback.watch.moment import At
from walkback.watch.policy import Course, Decision, StopPolicy
from walkback.watch.trace_line import line_of

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "10_notebook.ipynb"
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m&amp;\"'"
LARGEST_REPORT, LARGEST_COMPARISON, LARGEST_MOMENT = 20_000, 80_000, 4_000
"""Bytes; a notebook keeps every output in its file."""


@pytest.fixture(scope="module")
def reports():
    audit = json.loads((ROOT / "results" / "audit_resmlp_d256.json").read_text())
    return [DiagnosticReport.from_dict(report) for report in audit["reports"]]


def hostile(**fields):
    measured = Measurements(
        residual_norms=[1.0, 900.0],
        bp_grad_norms=[1e-3, 1e-9],
        sites=(HOSTILE, HOSTILE * 400),
        headline_acc=0.3,
        samples=640,
    )
    return walkback.judge(measured, method_name=HOSTILE * 50, notes=HOSTILE * 400, warnings=[HOSTILE] * 20, **fields)


class Tags(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, shown):
        super().__init__()
        self.tags, self.attributes, self.open, self.text = set(), set(), [], []
        self.feed(shown)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


KNOWN = {"div", "span", "b", "small", "br", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


def moment(report, letters="ab"):
    readings = report.readings
    decision = Course(StopPolicy.of(letters, 1, 0)).see(At(epoch=3), readings)
    line = line_of(
        report.measurements, readings, epoch=3, step=None, source="probe", unmeasured="", action=decision.action,
        reason=decision.reason, seconds=1.0, loss=None, overhead=0.02,
    )  # fmt: skip
    return Now(line, decision)


def all_of(reports):
    yield reports[0]._repr_html_(), LARGEST_REPORT
    yield walkback.compare(reports)._repr_html_(), LARGEST_COMPARISON
    yield walkback.combine(reports)._repr_html_(), LARGEST_REPORT
    yield moment(reports[0])._repr_html_(), LARGEST_MOMENT


def test_they_are_small_and_have_nothing_to_fetch_or_run(reports):
    cases = [*all_of(reports[:3]), *all_of([hostile(seed=seed) for seed in range(3)])]
    cases.append((walkback.compare([hostile(seed=seed) for seed in range(300)])._repr_html_(), LARGEST_COMPARISON))
    for shown, largest in cases:
        assert len(shown.encode()) <= largest
        found = Tags(shown)
        assert found.tags <= KNOWN
        assert found.attributes <= {"style", "class"}
        assert "url(" not in shown
        assert not any(character in shown for character in "\x1b\u202e")


def test_a_report_shows_its_verdict_every_reading_and_every_warning(reports):
    for report in reports:
        text = "".join(Tags(report._repr_html_()).text)
        assert report.outcome in text
        assert all(reading.name in text for reading in report.readings)
    assert "said otherwise" in "".join(
        Tags(walkback.judge(Measurements(), warnings=["said otherwise"])._repr_html_()).text
    )


def test_a_comparison_is_its_text_and_has_a_row_for_each_report(reports):
    compared = walkback.compare(reports)
    assert isinstance(compared, str)
    assert "dfa" in compared
    shown = compared._repr_html_()
    assert shown.count("<tr>") == len(reports) + 1
    named = walkback.compare(reports[:2], names=["first", "<second>"])._repr_html_()
    assert "first" in named
    assert "&lt;second&gt;" in named
    assert walkback.compare([])._repr_html_()


def test_a_moment_says_go_on_or_stop_and_why(reports):
    exploded = next(report for report in reports if report.method_name == "dfa")
    healthy = next(report for report in reports if report.method_name == "bp")
    stopped, going = (" ".join(Tags(moment(each)._repr_html_()).text) for each in (exploded, healthy))
    assert "stop" in stopped
    assert "residual stream exploded" in stopped
    assert "go on" in going
    assert "nothing measured" in Now(None, Decision(action="continue"))._repr_html_()
    assert repr(moment(exploded)).startswith("epoch 3")


def test_a_live_monitor_shows_each_measurement_in_the_place_of_the_one_before(reports):
    shown = []

    class Handle:
        def update(self, now):
            shown[-1] = now

    def display(now, display_id):
        assert display_id is True
        shown.append(now)
        return Handle()

    view = InPlace(display)
    for report in reports[:3]:
        now = moment(report)
        view(now.line, now.decision)
    assert [each.line for each in shown] == [moment(reports[2]).line]


def test_outside_a_notebook_it_is_a_line(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(live_view(), LiveLine)
    assert "IPython" not in sys.modules


def test_it_needs_no_jinja2():
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "import walkback\n"
        "report = walkback.judge(walkback.Measurements(residual_norms=[1, 2], bp_grad_norms=[1, 1]))\n"
        "assert '<table' in report._repr_html_() and '<table' in walkback.compare([report])._repr_html_()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_example_is_stored_without_outputs():
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [cell["outputs"] for cell in cells if cell["cell_type"] == "code" and cell["outputs"]] == []


@pytest.mark.slow
def test_the_example_runs_and_shows_what_it_says():
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    by_source = {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    shown = {source: outputs for source, outputs in by_source.items() if outputs}
    assert len(shown) == 5
    for source, outputs in shown.items():
        assert len(outputs) == 1, source  # the live monitor's too: four epochs in one place
        assert outputs[0].data["text/html"].startswith('<div class="walkback"')
        assert "text/plain" in outputs[0].data
    # The healthy network whose published verdict is a walk-back has its word of explanation right above.
    compared = next(outputs for source, outputs in shown.items() if "walkback.compare(" in source)
    table = json.dumps(compared[0].data["text/plain"], ensure_ascii=False)
    assert re.search(r"BP 1 [^\\]*walk-back c", table)
    assert any("by (c) alone" in cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    live = next(outputs for source, outputs in shown.items() if "live=True" in source)
    assert "epoch 4" in live[0].data["text/plain"]
