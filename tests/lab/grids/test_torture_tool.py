"""What tools/torture.py plans, and that it sees what it is there to see."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import torture
from torture import KINDS, Grid, Wrong, plan, require_kept, require_same, saved_in_folder


def test_a_hundred_kills_are_of_all_kinds_and_the_same_each_time():
    rounds = plan(100, 1)
    assert rounds == plan(100, 1)
    assert rounds != plan(100, 2)
    kills = Counter({kind: sum(len(r["moments"]) for r in rounds if r["kind"] == kind) for kind in KINDS})
    assert kills == KINDS
    assert {victim for r in rounds for victim in r["victims"]} == set(torture.VICTIMS)
    assert {r["kind"] for r in plan(6, 1)} == KINDS.keys()


def result(epochs=torture.EPOCHS, seconds=1.0):
    return {"trace": [{"epoch": n, "seconds": seconds, "accuracy": 0.5} for n in range(epochs + 1)], "date": "today"}


@pytest.fixture
def grid(tmp_path, monkeypatch):
    """A folder as a grid of two runs leaves it."""
    monkeypatch.setattr(torture, "source", lambda: tmp_path)
    (tmp_path / "results" / "runs").mkdir(parents=True)
    (tmp_path / "results" / "audit_tiny.json").write_text(json.dumps({"reports": [1], "date": "today"}))
    for name in ("aa", "bb"):
        (tmp_path / "results" / "runs" / f"{name}.json").write_text(json.dumps(result()))
    return Grid(tmp_path)


def test_times_may_differ_and_nothing_else(grid):
    expected = grid.outcome()
    file = grid.results / "runs" / "aa.json"
    file.write_text(json.dumps(result(seconds=9.0)))
    require_same(grid, expected)
    other = result()
    other["trace"][3]["accuracy"] = 0.6
    file.write_text(json.dumps(other))
    with pytest.raises(Wrong, match="other results: aa"):
        require_same(grid, expected)
    (grid.results / "audit_tiny.json").write_text(json.dumps({"reports": [2]}))
    file.write_text(json.dumps(result()))
    with pytest.raises(Wrong, match="the audit"):
        require_same(grid, expected)


def test_a_run_that_is_lost_and_an_epoch_that_is_there_twice_are_seen(grid):
    expected = grid.outcome()
    twice = result()
    twice["trace"].insert(3, twice["trace"][3])
    (grid.results / "runs" / "aa.json").write_text(json.dumps(twice))
    with pytest.raises(Wrong, match="run aa has the epochs"):
        require_same(grid, expected)
    (grid.results / "runs" / "aa.json").unlink()
    with pytest.raises(Wrong, match="1 of 2 runs"):
        require_same(grid, expected)


def test_an_epoch_that_was_saved_and_is_trained_again_is_seen_by_its_time(grid, tmp_path):
    folder = tmp_path / "runs" / "aa"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    lines = [json.dumps({"epoch": n, "seconds": 1.0}) for n in range(4)]
    (folder / "trace.jsonl").write_text("\n".join(lines) + '\n{"epoch": 4, "sec')
    (folder / "checkpoints" / "epoch-00002.safetensors").touch()
    saved = saved_in_folder(tmp_path / "runs")
    assert sorted(saved) == [("aa", 0), ("aa", 1), ("aa", 2)], "epoch 3 has no checkpoint"
    require_kept(saved, grid.results)
    again = result()
    again["trace"][2]["seconds"] = 1.5
    (grid.results / "runs" / "aa.json").write_text(json.dumps(again))
    with pytest.raises(Wrong, match=r"first \('aa', 2\)"):
        require_kept(saved, grid.results)


def test_a_strike_that_came_too_late_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(torture, "RECORD", tmp_path / "torture.json")
    rounds = [{"kind": "folder", "done": ["parent", "after its end"], "wrong": ""}]
    rounds += [{"kind": "full disk", "done": ["full too late"], "wrong": ""}]
    rounds += [{"kind": "s3", "done": [], "wrong": "a run was lost"}]
    torture.write({"rounds": rounds})
    found = json.loads((tmp_path / "torture.json").read_text())
    assert (found["kills"], found["by_kind"]) == (1, {"folder": 1, "full disk": 0, "s3": 0})
    assert found["wrong"] == ["s3: a run was lost"]
