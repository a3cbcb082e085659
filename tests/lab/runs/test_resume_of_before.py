"""Runs that an earlier walkback left interrupted go on, and end like runs that were never interrupted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tiny_runs import without_times

from walkback.lab.registry import ARCHITECTURES, METHODS
from walkback.lab.runs import checkpoint
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunState, RunStore
from walkback.lab.runs.train import train_or_resume

GOLDEN = Path(__file__).parents[2] / "golden"
LEFT = sorted(GOLDEN.glob("interrupted_*/*/config.json"))
"""Of the first walkback, and of the one before runs had a choice of device and precision."""


def test_there_is_one_of_each_method_and_architecture():
    configs = [json.loads(path.read_text())["config"] for path in LEFT]
    assert {config["method"] for config in configs} == set(METHODS.own)
    # The data of gpt is fetched, and lenet is younger than these.
    assert {c["architecture"] for c in configs} == {*ARCHITECTURES.own} - {"gpt", "lenet"}


@pytest.mark.parametrize("path", LEFT, ids=lambda path: json.loads(path.read_text())["name"])
def test_it_goes_on(path, tmp_path):
    config = RunConfig.from_dict(json.loads(path.read_text())["config"])
    left, whole = RunStore(tmp_path / "left"), RunStore(tmp_path / "whole")
    shutil.copytree(path.parent, tmp_path / "left" / config.run_id)
    assert left.run(config).state is RunState.INTERRUPTED
    again, anew = train_or_resume(config, left), train_or_resume(config, whole)
    ended, expected = without_times(again.result()), without_times(anew.result())
    # Lines of 0.1 do not say on how many samples they rest.
    for result in (ended, expected):
        result["trace"] = [{k: v for k, v in line.items() if k != "samples"} for line in result["trace"]]
    assert ended == expected
    first, second = checkpoint.newest(again.checkpoints), checkpoint.newest(anew.checkpoints)
    assert first.random_words == second.random_words
    assert all(tensor.equal(second.tensors[name]) for name, tensor in first.tensors.items())
