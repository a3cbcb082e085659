"""ARCHITECTURE.md says how the code is built: its diagram is the contracts', its table names what there is."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from walkback.lab.registry import ARCHITECTURES, METHODS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src" / "walkback"
TOOL = runpy.run_path(str(ROOT / "tools" / "import_diagram.py"))


def layered(container):
    found = [each for each in TOOL["contracts"]() if each.get("containers") == [container]]
    assert len(found) == 1
    return found[0]


def test_the_diagram_is_that_of_the_contracts():
    page = PAGE.read_text()
    assert TOOL["with_diagram"](page) == page, "run python tools/import_diagram.py"


@pytest.mark.parametrize(("container", "folder"), [("walkback", SOURCE), ("walkback.lab", SOURCE / "lab")])
def test_every_package_has_its_layer(container, folder):
    contract = layered(container)
    assert contract["exhaustive"]
    named = {part.strip() for layer in contract["layers"] for part in layer.split("|")}
    there = {p.stem for p in folder.glob("*.py")} | {p.parent.name for p in folder.glob("*/__init__.py")}
    assert named == there - {"__init__"}


def test_only_the_command_line_imports_upwards():
    upwards = layered("walkback")["ignore_imports"]
    assert all(re.fullmatch(r"walkback\.cli\.\w+ -> walkback\.lab\.\*\*", each) for each in upwards)
    assert "ignore_imports" not in layered("walkback.lab")
    for each in upwards:
        lines = (SOURCE / "cli" / f"{each.split()[0].rpartition('.')[2]}.py").read_text().splitlines()
        assert not [line for line in lines if line.startswith(("from walkback.lab", "import walkback.lab"))]


def rows():
    """(first cell, second cell) of the table of the tree."""
    table = PAGE.read_text().partition("## The tree")[2].partition("\n## ")[0]
    return [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in table.splitlines() if line.startswith("| `")]


def places():
    """Every path that a row is about: `a/b.py`, `c.py` is a/b.py and a/c.py."""
    for first, _ in rows():
        folder = ""
        for name in re.findall(r"`([^`]+)`", first):
            path = name if "/" in name else f"{folder}{name}"
            folder = path.rpartition("/")[0] + "/" if "/" in path and not path.endswith("/") else ""
            yield path


def is_there(path):
    return (SOURCE / path).exists() or (ROOT / path).exists()


def test_the_table_names_what_there_is_and_each_once():
    found = list(places())
    assert len(found) > 60
    assert [path for path in found if not is_there(path)] == []
    assert sorted(set(found)) == sorted(found)


def test_no_package_is_left_out():
    found = list(places())
    packages = [p.parent.relative_to(SOURCE).as_posix() for p in SOURCE.glob("*/**/__init__.py")]
    assert [name for name in packages if f"{name}/" not in found] == []
    assert [p.name for p in SOURCE.glob("[a-z]*.py") if p.name not in found] == []


@pytest.mark.parametrize("folder", ["protocol", "watch", "lab/runs"])
def test_no_module_of_a_folder_that_is_listed_in_full_is_left_out(folder):
    found = set(places())
    modules = [path.relative_to(SOURCE).as_posix() for path in (SOURCE / folder).glob("[a-z]*.py")]
    assert [name for name in modules if name not in found] == []


@pytest.mark.parametrize(("registry", "place"), [(METHODS, "methods"), (ARCHITECTURES, "architectures")])
def test_the_rows_of_the_zoo_name_every_one(registry, place):
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `lab/zoo/{place}/`")]
    assert set(registry.own) <= set(re.findall(r"[a-z]\w*", row))
