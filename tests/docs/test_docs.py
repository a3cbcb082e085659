"""The pages of docs/: their code runs, their commands exist, and what is added as they say works."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from walkback import registry
from walkback.cli.main import app_for

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUN = (
    sorted(DOCS.glob("quickstart/*.md"))
    + sorted(DOCS.glob("extend/*.md"))
    + [DOCS / "protocol.md", DOCS / "verdicts.md"]
)
TOLD = [*RUN, DOCS / "index.md", DOCS / "install.md", DOCS / "reports.md", ROOT / "README.md"]
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "evidence_notes")
"""Notes are paragraphs of EVIDENCE.md, and their links are those of that page."""
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Fence(NamedTuple):
    language: str
    title: str
    code: str


def fences(page):
    return [Fence(*match.groups(default="")) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]


def named(page):
    return page.relative_to(ROOT).as_posix()


def add_file(fence, tmp_path, monkeypatch):
    """The file where the package finds it, without touching the package."""
    target = tmp_path / Path(fence.title).relative_to("src")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(fence.code, encoding="utf-8")
    package = importlib.import_module(".".join(Path(fence.title).parent.parts[1:]))
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(target.parent)])


def add_row(fence, monkeypatch):
    table = getattr(registry, fence.title.rpartition(" ")[2])
    for name, target in eval(f"{{{fence.code}}}").items():
        assert name not in table
        monkeypatch.setitem(table._rows, name, target)


@pytest.mark.parametrize("page", RUN, ids=named)
def test_the_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = [fence for fence in fences(page) if fence.language == "python"]
    assert blocks
    names = {"__name__": "page"}
    for fence in blocks:
        if fence.title.endswith(".py"):
            add_file(fence, tmp_path, monkeypatch)
        elif fence.title:
            add_row(fence, monkeypatch)
        else:
            exec(compile(fence.code, named(page), "exec"), names)


def commands():
    for page in TOLD:
        for fence in fences(page):
            lines = fence.code.splitlines() if fence.language in ("console", "") else []
            yield from ((named(page), line) for line in lines if line.startswith("walkback "))


@pytest.mark.parametrize(("page", "line"), list(commands()))
def test_every_command_on_the_pages_exists(page, line):
    words = shlex.split(line.partition("  #")[0])
    command, words = typer.main.get_command(app_for(())), words[1:]
    while hasattr(command, "commands"):  # `walkback lab data fetch` has an action under its verb
        assert words[0] in command.commands, page
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known, page


def test_there_are_commands_to_check():
    assert len(list(commands())) > 20


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=named)
def test_pictures_and_files_that_pages_link_to_are_there(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
