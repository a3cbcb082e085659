"""Scripts that docs name as the source of a number print it, and put it on record only where that is asked for."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

TOOLS = Path(__file__).parents[2] / "tools"
ROW = {
    "fired": [],
    "fired_with_quiet_head": [],
    "stability": 0.1,
    "stability_with_quiet_head": 0.0,
}


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """A script of tools with a record elsewhere, and without what takes long."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.TARGET.parent == TOOLS.parent / "results"
        monkeypatch.setattr(module, "TARGET", tmp_path / "record.json")
        monkeypatch.setattr(module, "stamp", dict)
        if name == "toy_costate":
            monkeypatch.setattr(module, "RULES", {"dfa": None})
            monkeypatch.setattr(module, "compared", lambda rule, seed: (np.array([0.5, 1.0]), None))
        else:
            monkeypatch.setattr(module, "dataset_of", lambda config: SimpleNamespace(spec=None))
            for slow in ("held_out", "initial_model", "build_model"):
                monkeypatch.setattr(module, slow, lambda *_: None)
            monkeypatch.setattr(module, "measured", lambda *_: dict(ROW))
        return module

    return load


@pytest.mark.parametrize("name", ["untrained", "toy_costate"])
@pytest.mark.parametrize("asked", [False, True])
def test_a_number_goes_on_record_where_that_is_asked_for(tool, monkeypatch, capsys, name, asked):
    module = tool(name)
    monkeypatch.setattr(sys, "argv", [name, *(["--write"] if asked else [])])
    module.main()
    assert capsys.readouterr().out
    assert module.TARGET.exists() == asked
    if asked:
        assert json.loads(module.TARGET.read_text())["command"].endswith("--write")
