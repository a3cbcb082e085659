"""No command writes over what it reads, or two outputs into one file: a sentence, status 2, and nothing changed."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from walkback.cli import main
from walkback.errors import InputError
from walkback.protocol.schema import write_whole

GOLDEN = Path(__file__).parents[1] / "golden"
RESULTS = Path(__file__).parents[2] / "results"
AUDIT = RESULTS / "audit_student_net_d128_synthetic_teacher.json"
RUN = json.loads(AUDIT.read_text())["runs"][0]["id"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with an audit and its runs, a trace, a report and links to them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results" / "runs").mkdir(parents=True)
    shutil.copy(AUDIT, "results")
    shutil.copy(RESULTS / "runs" / f"{RUN}.json", "results/runs")
    audit = json.loads(AUDIT.read_text())
    Path("a.json").write_text(json.dumps(audit["reports"][0]))
    shutil.copy(GOLDEN / "resmlp_dfa_s42_trace.jsonl", "trace.jsonl")
    Path("link.html").symlink_to("a.json")
    Path("link.png").symlink_to("trace.jsonl")
    Path("audit.png").symlink_to(f"results/{AUDIT.name}")
    Path("notes").mkdir()
    Path("notes/C01.md").write_text("A note.\n")
    Path("made.py").write_text("def pair():\n    raise SystemExit\n")
    return tmp_path


def contents(folder):
    """Every file with what it holds; links by where they lead."""
    return {
        path.relative_to(folder): path.readlink() if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["walkback", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main.run()
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return ended.value.code, printed.err


DESTROYING = [
    "report a.json --html a.json",
    "report a.json --html link.html",
    "report a.json --html results/../a.json",
    "report link.html --csv a.json",
    "report a.json trace.jsonl --latex trace.jsonl",
    "report a.json --template markdown --out a.json",
    "report a.json --html x --csv x",
    "report a.json --html x --csv ./x",
    f"report results/{AUDIT.name} --markdown results/runs/{RUN}.json",
    f"report {RUN} --csv results/runs/{RUN}.json",
    "replay a.json --json a.json",
    "replay trace.jsonl --json link.png",
    "replay . --json trace.jsonl",
    f"diagnose results/runs/{RUN}.json --json results/runs/{RUN}.json",
    f"diagnose {RUN} --json results/runs/{RUN}.json",
    f"diagnose {RUN} --json x --html x",
    "diagnose made.py:pair --json made.py",
    "diagnose made:pair --html made.py",
    "watch trace.jsonl --once --plot link.png",
    f"figure audit results/{AUDIT.name} -o audit.png",
    "figure audit -o audit.png",
    f"lab runs --json results/runs/{RUN}.json",
    f"lab evidence --json results/{AUDIT.name}",
    "lab evidence --write notes/C01.md --notes notes",
    "lab evidence --write x --json x",
]


@pytest.mark.parametrize("words", DESTROYING)
def test_what_is_read_is_not_written_over(folder, monkeypatch, capsys, words):
    before = contents(folder)
    status, error = run(monkeypatch, capsys, *words.split())
    assert status == 2
    assert error.startswith("walkback: cannot write ")
    assert contents(folder) == before


def test_a_study_does_not_write_over_its_audit_nor_one_answer_over_another(folder, monkeypatch, capsys):
    name = json.loads(AUDIT.read_text())["name"]
    shutil.copy(AUDIT, f"results/ablation_{name}.json")
    Path("other").mkdir()
    shutil.copytree(RESULTS / "runs", "other/runs")
    shutil.copy(AUDIT, "other")
    before = contents(folder)
    for words in (f"ablation results/ablation_{name}.json", f"ablation other/{AUDIT.name} results/{AUDIT.name}"):
        status, error = run(monkeypatch, capsys, "lab", "study", *words.split(), "--markdown", "pages")
        assert status == 2
        assert "cannot write" in error
        assert contents(folder) == before


def test_a_hard_link_of_an_input_is_that_input(folder, monkeypatch, capsys):
    os.link("a.json", "b.json")
    before = contents(folder)
    status, _ = run(monkeypatch, capsys, "report", "a.json", "--csv", "b.json")
    assert status == 2
    assert contents(folder) == before


FINE = [
    "report trace.jsonl --csv beside.csv",
    "report a.json --html new.html --csv new.csv",
    "replay . --json replayed.json",
    "report a.json --csv /dev/null --markdown /dev/null",
    f"diagnose {RUN} --json results/mine.json",
]


@pytest.mark.parametrize("words", FINE)
def test_a_file_of_ones_own_is_written_anew(folder, monkeypatch, capsys, words):
    for _ in range(2):
        status, error = run(monkeypatch, capsys, *words.split())
        assert status in (0, 1), error


def test_links_that_lead_in_a_circle_are_told(folder, monkeypatch, capsys):
    Path("round.html").symlink_to("round.html")
    for words in (["report", "a.json", "--html", "round.html"], ["replay", "a.json", "--json", "round.html"]):
        monkeypatch.setattr(sys, "argv", ["walkback", *words])
        with pytest.raises(SystemExit) as ended:
            main.run()
        assert ended.value.code == 2
        assert capsys.readouterr().err.startswith(
            "walkback: cannot write round.html: Too many levels of symbolic links"
        )
    with pytest.raises(InputError, match=r"cannot write round\.html: Too many levels"):
        write_whole("round.html", "x")
    assert Path("round.html").is_symlink()


def test_an_answer_whose_page_cannot_be_written_is_not_kept(folder, monkeypatch, capsys):
    before = sorted(folder.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["walkback", "lab", "study", "ablation", "--markdown", "a.json"])
    with pytest.raises(SystemExit) as ended:
        main.run()
    assert ended.value.code == 2
    assert re.match(r"walkback: cannot write .*a\.json: File exists\.", capsys.readouterr().err)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no directory here that takes no files")
@pytest.mark.parametrize(
    "words", ["report a.json --csv made.csv --html /proc/x.html", "replay a.json --json /proc/x.json"]
)
def test_a_directory_that_takes_no_files_is_not_said_to_be_missing(folder, monkeypatch, capsys, words):
    before = contents(folder)
    status, error = run(monkeypatch, capsys, *words.split())
    assert status == 2
    assert "no file can be made in /proc" in error
    assert "No such file" not in error
    assert contents(folder) == before  # the other output neither
    with pytest.raises(InputError, match="no file can be made in /proc"):
        write_whole("/proc/x.json", "{}")
    with pytest.raises(InputError, match=r"cannot write nowhere/x\.json: No such file.*directory that exists"):
        write_whole("nowhere/x.json", "{}")
