"""The pages of docs/: their code runs, their commands exist, and what is added as they say works."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
import typer

from plugins.installing import EXAMPLE, lay_out_example, on_path
from walkback.cli import main
from walkback.cli.main import app_for
from walkback.lint.module import Module
from walkback.protocol.capture import Capture
from walkback.registry import GROUPS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXTEND = sorted(DOCS.glob("extend/*.md"))
RUN = [*sorted(DOCS.glob("quickstart/*.md")), *EXTEND, DOCS / "protocol.md", DOCS / "verdicts.md", DOCS / "ci.md"]
TOLD = [*RUN, DOCS / "index.md", DOCS / "install.md", DOCS / "reports.md", ROOT / "README.md"]
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "evidence_notes")
"""Notes are paragraphs of EVIDENCE.md, and their links are those of that page."""
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


JUDGED = (0, 1, 3)
"""What a command that did its work ends with: pass, fail, incomplete; 2 is an error."""


class Fence(NamedTuple):
    language: str
    title: str
    code: str


def fences(page):
    return [Fence(*match.groups(default="")) for match in _FENCE.finditer(page.read_text(encoding="utf-8"))]


def named(page):
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """examples/plugin, whose files docs/extend shows, as it is where it is installed."""
    folder = tmp_path_factory.mktemp("site")
    lay_out_example(folder)
    with on_path(folder):
        yield


@pytest.fixture
def _as_the_page_has_it(page, request):
    if (page if isinstance(page, str) else named(page)).startswith("docs/extend/"):
        request.getfixturevalue("plugin")


TRAINS = ("docs/quickstart/method-builder.md",)
"""Pages that train for a minute."""


TRIED = tuple(f"docs/extend/{name}.md" for name in ("diagnostic", "panel", "pitfall", "rendering"))
"""Pages beside the quickstarts whose commands are run: they train nothing."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.slow) if named(page) in TRAINS else page for page in RUN], ids=named
)
@pytest.mark.usefixtures("_as_the_page_has_it")
def test_the_code_on_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    followed = page.parent.name == "quickstart" or named(page) in TRIED
    names = {"__name__": "page"}
    done = 0
    for fence in fences(page):
        done += 1
        if fence.title and "/" not in fence.title:  # a file that the reader is told to make
            (tmp_path / fence.title).write_text(fence.code, encoding="utf-8")
        elif fence.title and fence.language == "python":
            assert fence.code == (ROOT / fence.title).read_text(encoding="utf-8"), f"copy {fence.title} to the page"
        elif fence.language == "python":
            exec(compile(fence.code, named(page), "exec"), names)
        elif fence.language == "console" and followed:
            for line in fence.code.splitlines():
                assert main.app(shlex.split(line)[1:]) in (None, *JUDGED), line
    assert done


def test_every_file_of_the_plugin_is_on_a_page():
    shown = {fence.title for page in EXTEND for fence in fences(page)}
    files = [file for file in sorted((EXAMPLE / "src").rglob("*.py")) if file.name != "__init__.py"]
    assert len(files) == len(GROUPS)
    assert {named(file) for file in files} <= shown


@pytest.mark.parametrize("page", EXTEND, ids=named)
def test_the_entry_points_on_the_page_are_those_of_the_plugin(page):
    written = [fence for fence in fences(page) if fence.language == "toml"]
    assert written
    for fence in written:
        assert fence.code in (ROOT / fence.title).read_text(encoding="utf-8")


def commands():
    for page in TOLD:
        for fence in fences(page):
            lines = fence.code.splitlines() if fence.language in ("console", "") else []
            yield from ((named(page), line) for line in lines if line.startswith("walkback "))


@pytest.mark.parametrize(("page", "line"), list(commands()))
@pytest.mark.usefixtures("_as_the_page_has_it")
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


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES], ids=named)
def test_tests_and_tools_that_pages_name_are_there(page):
    for path in re.findall(r"(?<![\w/])(?:tests|tools)/\w[\w/]*\.py\b", page.read_text(encoding="utf-8")):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(
    ("page", "start", "thing"), [("diagnostic", "capture", Capture), ("pitfall", "module", Module)]
)
def test_what_a_page_says_can_be_read_is_there(page, start, thing):
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "extend" / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE)
    names = {name for row in rows for name in re.findall(rf"`{start}\.(\w+)", row)}
    assert len(names) > 5
    known = {*dir(thing), *getattr(thing, "__dataclass_fields__", ())}
    assert names <= known


def test_every_row_of_contributing_is_a_registry_and_its_directory():
    rows = re.findall(
        r"^\| [^|]+ \| `([\w/]+)` \| `([A-Z]+)` in `([\w/.]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )
    source = ROOT / "src" / "walkback"
    for folder, registry, file in rows:
        assert (source / folder).is_dir(), folder
        assert f"\n{registry} = Registry(" in (source / file).read_text(encoding="utf-8"), (registry, file)
    assert len(rows) == len(GROUPS)


def test_the_site_shows_where_to_begin_first_and_every_page_once():
    site = runpy.run_path(str(ROOT / "tools" / "docs_site.py"))
    nav = site["on_config"]({"docs_dir": str(DOCS)})["nav"]
    pages = [page for section in nav for listed in section.values() for page in listed]
    assert sorted(pages) == sorted({page.relative_to(DOCS).as_posix() for page in PAGES})
    (extend,) = [section["Adding your own"] for section in nav if "Adding your own" in section]
    assert extend[0] == "extend/package.md"
    told = re.findall(r"\(quickstart/[\w-]+\.md\)", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert [f"({page})" for page in pages if page.startswith("quickstart/")] == told
