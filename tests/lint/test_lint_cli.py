"""`walkback lint` and the flake8 plugin as their users meet them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest
from flake8.main.cli import main as flake8

from walkback.cli import main
from walkback.lint.check import check_source, chosen_rules

BAD = "import torch\n\nx = torch.ones(3)\ny = x.norm(-1)\n"


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def lint(folder, monkeypatch, capsys):
    """The command in this process, in the folder: a process of its own takes a second to start."""

    def run(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["walkback", "lint", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main.run()
        return Done(left.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "good.py").write_text("import torch\n\ny = torch.ones(3).norm(dim=-1)\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "other.py").write_text(BAD)
    (tmp_path / ".venv" / "none").mkdir()
    return tmp_path


def test_a_finding_says_where_why_and_what_to_write(folder, lint):
    done = lint(".")
    assert done.returncode == 1
    assert "bad.py:4:5: WB001 `x.norm(-1)` is the norm of order -1 of the whole tensor" in done.stdout
    assert "why:   The first argument of norm is p." in done.stdout
    assert "write: x.norm(dim=-1)" in done.stdout
    assert done.stdout.endswith("1 finding in 2 files\n")


def test_clean_source_exits_with_0(folder, lint):
    done = lint("good.py")
    assert (done.returncode, done.stdout) == (0, "no findings in 1 file\n")


def test_linting_imports_no_torch(folder):
    script = (
        "import sys; sys.argv = ['walkback', 'lint', 'bad.py']\n"
        "from walkback.cli.main import app; app(sys.argv[1:])\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"def f(:\n", "1:7: WB000 is not valid Python"),
        (b"print 'two'\n", "WB000 is not valid Python: Missing parentheses"),
        (b"x = '\xff'\n", "WB000 is not valid Python"),
        (b"x = 1\0\n", "WB000 is not valid Python"),
        (b"# coding: nonsense\n", "WB000 is not valid Python: unknown encoding"),
        (b"(" * 5000, "WB000 is not valid Python"),
        (b"x" + b".a" * 200_000 + b"\n", "WB000 cannot be checked: its expressions are nested too deeply"),
        (b"y = x" + b".a" * 900 + b".norm(-1)\n", "WB000 cannot be checked: its expressions are nested too deeply"),
        (b"-" * 100_000 + b"1\n", "WB000 "),
        (b"# -*- coding: rot13 -*-\nvzcbeg gbepu\n", "'rot13' is not a text encoding"),
        (b"# -*- coding: hex -*-\n41\n", "'hex' is not a text encoding"),
        (b"# -*- coding: undefined -*-\nx = 1\n", "is not valid Python"),
    ],
    ids=[
        "syntax",
        "python 2",
        "bytes",
        "NUL",
        "encoding",
        "parentheses",
        "attributes",
        "deep",
        "signs",
        "rot13",
        "hex",
        "undefined",
    ],
)  # fmt: skip
def test_broken_python_is_reported_as_such_and_the_rest_is_checked(folder, lint, content, words):
    (folder / "broken.py").write_bytes(content)
    done = lint(".")
    assert done.returncode == 2, done.stderr
    assert f"broken.py:{words}" in done.stdout or ("broken.py:" in done.stdout and words in done.stdout)
    assert "WB001" in done.stdout
    assert done.stdout.endswith("1 finding in 2 files; 1 file could not be checked\n")
    assert not done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing_here"], "nothing_here"),
        ([], "no path was given"),
        (["bad.py", "--format", "jsn"], "Did you mean 'json'"),
        (["bad.py", "--select", "WB1"], "there is no lint rule 'WB1'"),
        (["bad.py", "--ignore", "WB"], "leave no rule"),
        ([".venv/none"], "there are no Python files in .venv/none"),
    ],
)
def test_what_cannot_work_is_refused(folder, lint, arguments, words):
    done = lint(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(
    ("name", "content"),
    [("log.csv", "1,2\n3,4\n"), ("audit.json", "[1, 2]\n"), ("notebook.ipynb", "{}\n"), ("notes", "norm\n")],
)
def test_a_named_file_that_is_not_python_is_refused_though_it_parses(folder, lint, name, content):
    (folder / name).write_text(content)
    done = lint("good.py", name)
    assert done.returncode == 2
    assert f"{name} is not a Python file" in done.stderr
    assert not done.stdout
    assert lint(".").returncode == 1  # in a directory it is passed over


@pytest.mark.parametrize(
    ("name", "first"),
    [("stub.pyi", ""), ("window.pyw", ""), ("UPPER.PY", ""), ("script", "#!/usr/bin/env python3\n"), ("wscript", "")],
)
def test_python_by_another_name_is_checked(folder, lint, name, first):
    (folder / name).write_text(first + BAD)
    done = lint(name)
    assert done.returncode == 1
    assert "WB001" in done.stdout


def test_rules_can_be_chosen(lint):
    assert lint("bad.py", "--select", "WB002,WB003").returncode == 0
    assert lint("bad.py", "--select", "wb001").returncode == 1
    assert lint("bad.py", "--ignore", "WB001").returncode == 0


def test_the_rules_are_listed(lint):
    done = lint("--rules")
    assert done.returncode == 0
    assert "WB009" in done.stdout


def test_json(folder, lint):
    (folder / "broken.py").write_text("def")
    document = json.loads(lint(".", "--format", "json").stdout)
    (finding,) = document["findings"]
    assert (finding["path"], finding["line"], finding["column"], finding["code"]) == ("bad.py", 4, 5, "WB001")
    assert finding["instead"] == "x.norm(dim=-1)"
    assert document["broken"][0]["path"] == "broken.py"
    assert document["files"] == 3


def test_sarif(folder, lint):
    (folder / "broken.py").write_text("def")
    (folder / "a b.py").write_text(BAD)
    log = json.loads(lint(".", "--format", "sarif").stdout)
    assert log["version"] == "2.1.0"
    (entry,) = log["runs"]
    rules = entry["tool"]["driver"]["rules"]
    result = entry["results"][0]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "WB001"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b.py"
    assert place["region"] == {"startLine": 4, "startColumn": 5}
    assert "x.norm(dim=-1)" in result["message"]["text"]
    assert entry["invocations"][0]["executionSuccessful"] is False


def found(source):
    return [(f.line, f.code) for f in check_source("import torch\n" + source, "x.py", chosen_rules())]


@pytest.mark.parametrize(
    ("source", "codes"),
    [
        ("y = x.norm(-1)  # noqa", []),
        ("y = x.norm(-1)  # noqa: WB001", []),
        ("y = x.norm(-1)  # NOQA:E501,WB001", []),
        ("y = x.norm(-1)  # noqa: WB", []),
        ("y = x.norm(-1)  # noqa: WB002", [(2, "WB001")]),
        ("y = x.norm(-1)  # noqa : WB001", []),
        ("y = (\n    x.norm(-1)\n)  # noqa: WB001", []),
        ("y = x.norm(-1)\nz = 1  # noqa", [(2, "WB001")]),
        ("# noqa: WB001\ny = x.norm(-1)", [(3, "WB001")]),
        ("# flake8: noqa\ny = x.norm(-1)", []),
        ("# flake8: noqa: WB001\ny = x.norm(-1)\ns = torch.load(p)", [(4, "WB007")]),
        ("y = x.norm(-1); s = '# noqa'", [(2, "WB001")]),
    ],
)
def test_noqa(source, codes):
    assert found(source) == codes


@pytest.mark.parametrize("comment", ["", "  # noqa", "  # noqa: WB001", "  # noqa: WB002", "  # noqa:E501,WB001"])
def test_flake8_agrees(folder, lint, capsys, comment):
    (folder / "bad.py").write_text(BAD.rstrip() + comment + "\n")
    ours = lint("bad.py")
    status = flake8(["--isolated", "--jobs", "1", "--select", "WB", "bad.py"])
    told = capsys.readouterr().out
    assert status == ours.returncode
    assert ("4:5: WB001" in told) == ("4:5: WB001" in ours.stdout) == (status == 1)
    assert told.count("write: x.norm(dim=-1)") == status


def test_a_file_that_cannot_be_read_is_told(lint, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tokenize.open", refuse)
    done = lint("bad.py")
    assert done.returncode == 2
    assert "bad.py:1:1: WB000 cannot be read: Permission denied" in done.stdout


def test_links_that_lead_round_in_a_circle_end(folder, lint):
    (folder / "round").symlink_to(folder)
    assert lint(".").stdout.endswith("1 finding in 2 files\n")
