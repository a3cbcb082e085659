"""Hostile words in every string of a record: refused on reading where words are not free, harmless at every exit."""

import csv
import io
import json
import re

import pytest
from page_reader import Page
from present_samples import full
from rich.console import Console
from typer.testing import CliRunner

from walkback import Measurements, combine, judge, replay
from walkback.cli import main
from walkback.cli.main import app_for
from walkback.errors import InputError, RecordError
from walkback.present import html, html_grid, tables
from walkback.present.network import Network
from walkback.present.template import TEMPLATES, form_of
from walkback.present.text import compare, print_comparison, print_report, render
from walkback.protocol.records import DiagnosticReport, StoredVerdict
from walkback.registry import RENDERERS

EVIL = (
    "=cmd()|'/C calc'!A0 \x1b[31mred\x1b[0m\x1b]0;title\x07 [bold red]b[/] :smile: | a || `code` *b* _i_ "
    "[x](javascript:1) \\input{/etc/passwd} \\write18{id} $x$ % # & ~ ^ {} <script>alert(1)</script> "
    "<img src=x onerror=alert(1)> \u202eevil\r\n| new | row |\n"
)
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def leaves(value, path=()):
    """The place of every string in a record."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from leaves(entry, (*path, key))
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield from leaves(entry, (*path, number))


def changed(data, path, new):
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return copy


RECORD = full(notes="n", warnings=("w",), extra={"own": 1.0}).to_dict()
RECORD["stored"] = {"verdict": "said", "version": "1", "differs": ["(a) PASS there, FIRE here"]}
PLACES = [path for path in leaves(RECORD) if RECORD["verdict"] != path]
CLOSED = {"letter", "unit", "state", "comparison", "verdict", "outcome"}


def is_closed(path):
    return path[-1] in CLOSED and path[0] != "stored"


@pytest.mark.parametrize("path", [p for p in PLACES if is_closed(p)], ids=lambda p: ".".join(map(str, p)))
def test_words_that_are_not_free_are_refused_in_a_printable_sentence(path):
    with pytest.raises(RecordError, match=r"\.".join(map(str, path))) as caught:
        DiagnosticReport.from_dict(changed(RECORD, path, EVIL))
    assert not CONTROL.search(str(caught.value))


@pytest.mark.parametrize("verdict", ["Trustworthy", "trustworthy ", "needs walk-back", "=1+1", "incomplete"])
def test_a_verdict_that_no_walkback_gives_is_refused(verdict):
    with pytest.raises(RecordError, match=r"verdict is .*; expected 'trustworthy', 'needs walk-back: ' and reasons"):
        DiagnosticReport.from_dict(RECORD | {"verdict": verdict})


def hostile(*paths):
    """The record with hostile words in these places, as it is read."""
    data = RECORD
    for path in paths:
        data = changed(data, path, EVIL)
    return DiagnosticReport.from_dict(data)


FREE = [path for path in PLACES if not is_closed(path)]


def all_hostile():
    """Hostile words in every place at once, names of figures and settings among them; readings past validation."""
    report = hostile(*FREE)
    words = {"letter": EVIL, "unit": EVIL, "name": EVIL, "sentence": EVIL, "reason": EVIL, "case": EVIL}
    readings = tuple(
        r.model_copy(update=words | {"interval": r.interval and r.interval.model_copy(update={"how": EVIL})})
        for r in report.readings
    )
    alignment = report.alignment.model_copy(update={"orders": {EVIL: 0.1}, "mark": EVIL, "no_null": EVIL, "null": None})
    changes = {
        "readings": readings, "verdict": EVIL, "alignment": alignment, "extra": {EVIL: 1.0}, "provenance": {EVIL: EVIL},
        "no_fidelity": EVIL, "reference_fidelity": None, "stored": StoredVerdict(verdict=EVIL, version=EVIL),
    }  # fmt: skip
    return report.model_copy(update=changes)


REPORTS = {".".join(map(str, path)): lambda path=path: hostile(path) for path in FREE} | {"all at once": all_hostile}


@pytest.fixture(params=sorted(REPORTS))
def report(request):
    return REPORTS[request.param]()


def in_colour(printer, *arguments):
    file = io.StringIO()
    printer(*arguments, Console(file=file, force_terminal=True, color_system="standard", width=120))
    return file.getvalue()


def test_the_terminal(report):
    for shown in (render(report), compare([report, report])):
        assert not CONTROL.search(shown)
    for shown in (in_colour(print_report, report), in_colour(print_comparison, [report, report])):
        # What is left once the colours of our own are gone holds no sequence of anybody else's.
        assert not CONTROL.search(re.sub(r"\x1b\[[0-9;]*m", "", shown.replace("\x1b[31mred", "HOSTILE"))), shown
        assert "HOSTILE" not in shown.replace("\x1b[31mred", "HOSTILE")


def test_markdown(report):
    for shown in (RENDERERS.load("markdown")(report), tables.as_markdown([Network(report), Network(report)])):
        assert not CONTROL.search(shown)
        plain = re.sub(r"\\[\\`*_{}\[\]|~#!$]", "", shown)
        assert "<" not in plain
        assert "`" not in plain
        for line in plain.split("\n"):
            assert not line.startswith("| new")
        rows = [line.count("|") for line in plain.split("\n") if line.startswith("|")]
        heads = [line.count("|") for line in plain.split("\n") if line.startswith(("| --- |", "| ---: |"))]
        assert set(rows) == set(heads)


def test_latex(report):
    for shown in (RENDERERS.load("latex")(report), tables.as_latex([Network(report), Network(report)])):
        assert not CONTROL.search(shown)
        assert "\\input{" not in shown.replace("\\input it", "")
        assert "\\write" not in shown
        assert "[bold red]" not in shown
        assert "<script>" not in shown


def test_csv(report):
    text = tables.as_csv([Network(report)])
    (row,) = csv.DictReader(io.StringIO(text))
    for cell in (*row, *row.values()):
        assert not CONTROL.search(cell)
        assert "\n" not in cell
        assert not cell.startswith(("=", "@")), cell
        if cell.startswith(("+", "-")):
            float(cell)


def test_html(report):
    pages = [html.render(report), html_grid.render(html_grid.GridPage("page", [Network(report), Network(report)]))]
    for shown in pages:
        assert not CONTROL.search(shown.replace("\t", ""))
        page = Page(shown)
        assert len(page.all("script")) == 1
        assert not page.all("img")
        assert not [e for e in page.elements if any(name.startswith("on") for name in e["attrs"])]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_form_of_an_appendix(name):
    run = {"config": dict.fromkeys(("method", "architecture", "data", "optimizer", "epochs"), EVIL), "command": EVIL}
    shown = TEMPLATES[name](form_of(all_hostile(), run | {"commit": EVIL, "date": EVIL, "ended": EVIL}))
    assert not CONTROL.search(shown)
    assert "\\write" not in re.sub(r"\\[\\`*_{}\[\]|~#!$]", "", shown)
    assert "<script>" not in shown


def test_a_name_in_a_message_is_quoted():
    sound = Measurements(residual_norms=[1.0, 1.1])
    with pytest.raises(InputError, match="several methods") as caught:
        combine([judge(sound, method_name=EVIL), judge(sound, method_name="b")])
    assert not CONTROL.search(str(caught.value))


def test_errors_and_warnings_on_the_terminal_hold_no_escape_sequence(monkeypatch, capsys, tmp_path):
    evil = tmp_path / "\x1b[31mred.json"
    monkeypatch.setattr("sys.argv", ["walkback", "report", str(evil)])
    with pytest.raises(SystemExit):
        main.run()
    error = capsys.readouterr().err
    assert "red.json" in error
    assert not CONTROL.search(error)


def test_what_another_program_recorded_is_shown_harmlessly(tmp_path):
    rows = [{"method": EVIL, "seed": 1, "h_norms": [1.0, 900.0], "verdict": "trustworthy " + EVIL}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    assert replay(tmp_path / "rows.json")[0].report.stored is not None
    for words in (["replay"], ["report"]):
        done = CliRunner().invoke(app_for(()), [*words, str(tmp_path / "rows.json")], standalone_mode=False)
        assert done.return_value in (0, 1)
        assert "the record says" in " ".join(done.output.split())
        assert not CONTROL.search(done.output)
