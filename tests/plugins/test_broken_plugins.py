"""A plugin that cannot be used is told in one line, and everything else goes on."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from installing import lay_out, on_path
from tiny_stored import stored_run

import walkback
from walkback.cli import main
from walkback.errors import UnknownName, WalkbackWarning
from walkback.protocol.diagnostics.known import known
from walkback.registry import DIAGNOSTICS, PANELS, open_registry

GOOD = """
from walkback import Diagnostic, Member, Panel, Quantity, Threshold

class Good(Diagnostic):
    letter, title, question, meaning = "k", "good", "Is it good?", "it is not good"
    thresholds = {"good_floor": Threshold(1.0, "<", "goodness")}
    quantities = (Quantity("goodness"),)
"""
BROKEN = {
    "raises on import": ("diagnostics", "1 / 0", "it raised ZeroDivisionError: division by zero"),
    "leaves on import": ("diagnostics", "raise SystemExit(3)", "it raised SystemExit: 3"),
    "is not there": ("diagnostics", GOOD, "has no Bad"),
    "is no diagnostic": ("diagnostics", "class Bad: pass", "expected a subclass of walkback.Diagnostic"),
    "does not say what it must": (
        "diagnostics", GOOD + "class Bad(Diagnostic): letter = 'x'", "does not say its title and question and mean",
    ),
    "declares nonsense": ("diagnostics", GOOD + "class Bad(Good):\n    letter, quantities = 'x', 7", "TypeError"),
    "has no summarise": (
        "diagnostics",
        GOOD + "class Bad(Diagnostic):\n    letter, title, question, meaning = 'x', 't', 'q?', 'm'\n"
        "    quantities = (Quantity('q'),)\n    measure = staticmethod(lambda capture: 1)",
        "has no summarise",
    ),
    "takes a letter": (
        "diagnostics", GOOD + "class Bad(Good):\n    letter, thresholds, quantities = 'a', {}, (Quantity('q'),)",
        r"the letter (a) is that of the diagnostic 'residual_growth'",
    ),
    "takes a threshold": (
        "diagnostics",
        GOOD + "class Bad(Good):\n    letter, quantities = 'x', (Quantity('q'),)\n"
        "    thresholds = {'g_norm_floor': Threshold(1.0, '<', 'x')}",
        "the name 'g_norm_floor' is one of the diagnostic 'gradient_floor'",
    ),
    "is no panel": ("panels", "Bad = 'a panel'", "expected a walkback.Panel"),
    "names no diagnostic": (
        "panels", GOOD + "Bad = Panel('bad', 'bad', (Member('nobody'),))", "there is no diagnostic called 'nobody'",
    ),
    "decides by nothing": (
        "panels", GOOD + "Bad = Panel('bad', 'bad', (Member('frozen_margin', role='warns'),))",
        "has no diagnostic that decides",
    ),
    "is no method": ("methods", "def Bad(model): pass", "expected a subclass of walkback.lab.zoo.Method"),
    "is half a method": (
        "methods", "from walkback.lab import LocalMethod\nclass Bad(LocalMethod): pass",
        "does not define credits_at",
    ),
    "is no architecture": ("architectures", "def Bad(): pass", "expected a function from a DataSpec"),
    "has options by place": ("datasets", "def Bad(root, samples=3): pass", "takes samples by its place"),
    "is no renderer": ("renderers", "Bad = 3", "expected a function from a DiagnosticReport"),
    "is no figure": ("figures", "def Bad(one, two): pass", "expected a function from a list of networks"),
    "is no rule": ("lint_rules", "Bad = 'WB001'", "expected a walkback.lint.Rule"),
    "is no pitfall": ("pitfalls", "Bad = 13", "Pitfall"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_it_is_told_in_a_line_and_left_out(case, tmp_path):
    group, source, words = BROKEN[case]
    (tmp_path / "broken_one.py").write_text(source)
    (tmp_path / "good_one.py").write_text(GOOD)
    points = {group: {"bad": "broken_one:Bad"}}
    points.setdefault("diagnostics", {})["good"] = "good_one:Good"
    lay_out(tmp_path, "broken_package", points)
    with on_path(tmp_path):
        rows = open_registry(group)
        with pytest.warns(WalkbackWarning) as told:
            names = [name for name, _ in rows.loaded()]
        (line,) = [str(each.message) for each in told]
        assert "bad" not in names
        assert set(names) >= set(rows.own)
        assert line.startswith(f"the {rows.kind} 'bad' of broken_package (broken_one:Bad) is left out: ")
        assert words in line
        assert "\n" not in line
        assert [name for name, _ in rows.loaded()] == names  # and it is told once
        assert "good" in known()
        assert walkback.judge(walkback.Measurements(residual_norms=[1.0, 1.0])).reading("a").state.value == "PASS"
        with pytest.raises(UnknownName, match=f"the {rows.kind} 'bad' cannot be used: "):
            rows.load("bad")


def test_a_name_that_is_taken_is_told_and_stays_whose_it_was(tmp_path):
    (tmp_path / "good_one.py").write_text(GOOD)
    lay_out(tmp_path, "broken_package", {"diagnostics": {"gradient_floor": "good_one:Good"}})
    with on_path(tmp_path), pytest.warns(WalkbackWarning, match="is left out: the name 'gradient_floor' is taken"):
        assert known()["gradient_floor"].letter == "b"


@pytest.mark.parametrize("line", ["a line that is none", "[unfinished", "name"])
def test_a_package_whose_entry_points_cannot_be_parsed_takes_none_of_the_others_with_it(line, tmp_path):
    (tmp_path / "good_one.py").write_text(GOOD)
    lay_out(tmp_path, "good_package", {"diagnostics": {"good": "good_one:Good"}})
    lay_out(tmp_path, "broken_package", {"diagnostics": {"bad": "broken_one:Bad"}})
    with (tmp_path / "broken_package-1.0.dist-info" / "entry_points.txt").open("a") as file:
        file.write(f"{line}\n")
    with on_path(tmp_path), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert "good" in known()
        assert walkback.judge(walkback.Measurements(residual_norms=[1.0, 1.0])).reading("a").state.value == "PASS"
    said = {str(each.message) for each in told if "cannot be read" in str(each.message)}
    assert len(said) <= 1
    assert all("'broken_package'" in each for each in said)


@pytest.mark.filterwarnings("default")
def test_the_command_line_says_it_on_stderr_and_goes_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "broken_one.py").write_text("1 / 0")
    lay_out(tmp_path, "broken_package", {"diagnostics": {"bad": "broken_one:Bad"}, "panels": {"worse": "broken_one:X"}})
    record = walkback.judge(walkback.Measurements(residual_norms=[1.0, 1.0], bp_grad_norms=[1.0, 1.0])).save(
        tmp_path / "r.json"
    )
    monkeypatch.setattr(sys, "argv", ["walkback", "replay", str(record)])
    with on_path(tmp_path), pytest.raises(SystemExit) as left:
        main.run()
    seen = capsys.readouterr()
    assert left.value.code == 0
    lines = seen.err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("walkback: the diagnostic 'bad' of broken_package (broken_one:Bad) is left out: ")
    assert lines[1].startswith("walkback: the panel 'worse' of broken_package (broken_one:X) is left out: ")
    assert "trustworthy" in seen.out


ASKED = [
    ["diagnose", "{run}"],
    ["diagnose", "{checkpoint}"],
    ["report", "{run}"],
    ["report", "{result}"],
    ["lab", "runs", "--runs", "{runs}"],
    ["replay", "{run}"],
    ["replay", "{record}"],
    ["report", "{record}"],
    ["lab", "train", "--config", "{toml}"],
]


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """A stranger's run, its result, its checkpoint and a record, all of which name a module that leaves a mark."""
    return stored_run(tmp_path_factory.mktemp("strange"))


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_what_a_strangers_files_name_is_never_imported(words, strange, monkeypatch, capsys):
    monkeypatch.syspath_prepend(strange["folder"])
    monkeypatch.chdir(strange["folder"])
    monkeypatch.setattr(sys, "argv", ["walkback", *(word.format(**strange) for word in words)])
    with pytest.raises(SystemExit) as left:
        main.run()
    seen = capsys.readouterr()
    assert not (Path(strange["folder"]) / "ran").exists()
    assert "Traceback" not in seen.err
    assert left.value.code in (0, 1, 2, 3)
    if "{checkpoint}" in words or "{toml}" in words:
        assert left.value.code == 2
        assert "there is no method called 'evil:X', and what a file says is not imported" in seen.err
    if words == ["report", "{record}"]:
        assert "the panel 'evil:X' decided on this record and is not installed; april2026 does here" in (
            " ".join(seen.out.split()) + seen.err
        )


def test_in_a_fresh_process_too(strange):
    words = ["diagnose", strange["checkpoint"]]
    code = f"import sys; sys.argv = ['walkback', *{words!r}]; from walkback.cli.entry import run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=strange["folder"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("walkback: ")
    assert len(ended.stderr.splitlines()) == 1
    assert not (Path(strange["folder"]) / "ran").exists()


def test_panels_and_diagnostics_of_records_stay_words(tmp_path):
    report = walkback.judge(walkback.Measurements(residual_norms=[1.0, 1.0]))
    data = report.to_dict() | {"panel": "os:system"}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(data))
    loaded = walkback.DiagnosticReport.load(path)
    assert loaded.panel == "april2026"
    assert "os:system" not in PANELS
    assert all(":" not in name for name in DIAGNOSTICS)
