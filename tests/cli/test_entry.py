"""The first page of help: quick, and true to the verbs."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from walkback.cli.entry import ABOUT, LAB_VERBS, MOVED, OPTIONS, STATUS, VERBS, help_page, run
from walkback.cli.main import app_for


def test_the_page_says_what_the_verbs_say():
    group = typer.main.get_command(app_for(()))
    for there, listed in ((group, VERBS), (group.commands["lab"], LAB_VERBS)):
        verbs = {name: " ".join(command.help.split("\n\n")[0].split()) for name, command in there.commands.items()}
        assert verbs == listed, "cli/entry.py lists the verbs and their first sentences"
    assert {option.opts[0]: option.help for option in group.params} | {"--help": OPTIONS["--help"]} == OPTIONS
    assert (group.help, group.epilog) == (ABOUT, STATUS)


@pytest.mark.parametrize("verb", MOVED)
def test_a_verb_that_moved_is_answered_with_the_command_of_today(verb, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["walkback", verb, "--results", "a folder"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    assert f"walkback {MOVED[verb]} --results 'a folder'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("width", [40, 80, 100])
def test_the_page_fits(width):
    for lab, verbs in ((False, VERBS), (True, LAB_VERBS)):
        page = help_page(width, lab)
        assert max(map(len, page.splitlines())) <= width
        assert all(f"\n  {verb} " in page for verb in verbs)


def test_asking_for_help_imports_neither_torch_nor_the_libraries_of_the_verbs():
    code = (
        "import sys; sys.argv = ['walkback', '--help']; from walkback.cli.entry import run; run(); "
        "print([m for m in ('torch', 'typer', 'rich', 'pydantic', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")
    assert "Usage: walkback" in done.stdout


def test_everything_else_goes_to_the_verbs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["walkback", "--version"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("walkback ")
