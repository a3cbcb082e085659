"""ARCHITECTURE.md says how the code is built: its diagram is the contracts', its table names what there is."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

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
