"""On a terminal of any width, and in a pipe: a verdict keeps every letter, and what is left out is named."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from walkback.cli.main import app_for
from walkback.lab.studies.audited import load_audit
from walkback.present.comparison import columns, short_verdict
from walkback.present.console import UNLIMITED
from walkback.present.text import print_comparison
from walkback.watch.replay import replay

AUDIT = Path("results/audit_resmlp_d256.json")
TRACE = Path(__file__).parents[1] / "golden" / "resmlp_dfa_s42_trace.jsonl"
WIDTHS = (60, 80, 100, 140, UNLIMITED)


@pytest.fixture(scope="module", params=["april2026", "calibrated"])
def networks(request):
    """The reports of an audit, judged by a panel: three words and four letters, or fourteen of them with gaps."""
    if request.param == "april2026":
        return load_audit(AUDIT).reports
    return tuple(entry.report for entry in replay(AUDIT, panel=request.param))


def shown(networks, width):
    file = io.StringIO()
    print_comparison(networks, Console(file=file, color_system=None, width=width))
    return file.getvalue().split("\n")


def verdicts_in(lines):
    """The column of verdicts, read by its place, with the lines of one network joined."""
    at = lines[0].index("verdict")
    found = []
    for line in lines[2 : lines.index("")]:
        if line[:at].strip():
            found.append([])
        found[-1] += line[at:].split()
        assert line[at - 2 : at].strip() == ""  # nothing of a verdict stands in another column
    return [" ".join(words) for words in found]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_letter_of_every_verdict_is_there(networks, width):
    lines = shown(networks, width)
    assert verdicts_in(lines) == [short_verdict(report) for report in networks]
    assert all(len(line) <= width for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_was_not_measured_stands_behind_its_word(networks, width):
    """On a line of its own a letter reads as one that fired: each line has its word, or is indented under one."""
    at = (lines := shown(networks, width))[0].index("verdict")
    for line in lines[2 : lines.index("")]:
        words = line[at:]
        assert words.startswith(("  ", "no ", "beside it ", "walk-back", "trustworthy", "pass", "fail", "incomplete"))


@pytest.mark.parametrize("width", WIDTHS)
def test_columns_that_are_left_out_are_named(networks, width):
    lines = shown(networks, width)
    headings = {column.heading for column in columns(networks)}
    missing = {heading for heading in headings if heading not in lines[0].replace("acc %", "acc\xa0%").split()}
    missing.discard("acc %")
    missing = {heading for heading in missing if heading not in lines[0]}
    text = " ".join(" ".join(lines).split())
    assert ("not shown at this width" in text) == bool(missing)
    told = text.partition("not shown at this width: ")[2].partition(". ")[0]
    assert set(filter(None, told.split(", "))) == missing


def printed(*arguments, columns=None):
    env = {"COLUMNS": "" if columns is None else str(columns)}
    return CliRunner().invoke(app_for(()), list(map(str, arguments)), standalone_mode=False, env=env).output


def test_a_pipe_has_no_width_but_that_of_the_variable():
    assert "not shown at this width" not in printed("replay", AUDIT, "--panel", "calibrated")
    assert max(map(len, printed("replay", AUDIT, "--panel", "calibrated").split("\n"))) > 140
    assert max(map(len, printed("report", AUDIT, columns=80).split("\n"))) <= 80


@pytest.mark.parametrize("width", [60, 80, 100, None])
def test_no_line_ends_in_blanks(width):
    for arguments in (("report", AUDIT), ("watch", "--once", TRACE), ("replay", TRACE)):
        assert all(line == line.rstrip() for line in printed(*arguments, columns=width).split("\n"))


@pytest.mark.parametrize("width", [60, 70, 80, 100, 140, None])
def test_what_fired_in_a_run_is_there_at_every_width(width):
    text = printed("watch", "--once", TRACE, columns=width)
    assert "epoch 3 (a) (b)" in text
    assert "epoch 0 (c)" in text
