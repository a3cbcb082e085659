"""Recorded commands are shown in today's verbs, and notes on baselines say what is true of each method."""

from __future__ import annotations

import pytest

from walkback.cli import entry
from walkback.lab.runs import verbs
from walkback.lab.runs.baselines import baseline_note
from walkback.lab.runs.classes import CLASSES
from walkback.lab.runs.verbs import todays, with_todays_commands
from walkback.lab.zoo.datasets.catalogue import load_dataset


def test_the_verbs_are_those_that_the_command_line_refuses():
    refused = {old: new for old, new in entry.MOVED.items() if old != "check"}  # which 0.1 called check-zoo
    assert {old: f"lab {new}" for old, new in verbs.MOVED.items()} == refused


@pytest.mark.parametrize(
    ("recorded", "now"),
    [
        ("walkback train --method dfa", "walkback lab train --method dfa"),
        ("walkback study ablation results/audit_x.json", "walkback lab study ablation results/audit_x.json"),
        ("walkback check-zoo", "walkback lab check"),
        ("walkback audit --preset a; walkback study depth", "walkback lab audit --preset a; walkback lab study depth"),
        ("walkback lab train --method dfa", "walkback lab train --method dfa"),
        ("walkback diagnose train.py:model", "walkback diagnose train.py:model"),
        ("walkback runs-of-mine", "walkback runs-of-mine"),
        ("python benchmarks/train.py", "python benchmarks/train.py"),
        ("", ""),
    ],
)
def test_a_recorded_command_in_todays_verbs(recorded, now):
    assert todays(recorded) == now


def test_a_runs_file_is_shown_with_todays_commands_and_stays_as_it_is():
    result = {"id": "x", "command": "walkback train", "baseline": {"id": "y", "command": "walkback train --seed 1"}}
    shown = with_todays_commands(result)
    assert (shown["command"], shown["baseline"]["command"]) == ("walkback lab train", "walkback lab train --seed 1")
    assert result["command"] == "walkback train"
    assert result["baseline"]["command"] == "walkback train --seed 1"
    assert with_todays_commands({"command": "walkback train", "baseline": None})["baseline"] is None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("dfa", "behind h_0, so Γ at those sites says nothing of training"),
        ("state_bridge", "did not learn to predict it there"),
        ("credit_bridge_vector", "did not learn to predict it there"),
        ("credit_bridge", "its value network learnt at every site"),
    ],
)
def test_the_note_on_a_baseline_says_what_its_method_learnt_there(method, words):
    assert words in baseline_note({"baseline": None, "config": {"method": method}})


def test_the_note_for_d_gives_a_command_that_works():
    described = {"baseline": {"id": "y", "command": "walkback train --freezing blocks"}}
    assert baseline_note(described).endswith(": walkback lab train --freezing blocks")


def test_the_classes_of_a_data_set_are_those_that_it_has():
    for name in ("digits", "synthetic_teacher"):  # the others are downloads
        assert load_dataset(name).classes == CLASSES[name]
