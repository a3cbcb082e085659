"""The pre-commit hook and the GitHub Action do what they say: their own script is run, as a runner would run it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import walkback
from walkback.present.numbers import reading_value

ROOT = Path(__file__).parents[2]
SCRIPT = "import torch.nn.functional as F\n\n\ndef gamma(a, g):\n    return F.cosine_similarity(a, g)\n"
NETWORK = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, h):
        return h + 500 * self.linear(h)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.blocks, self.head = nn.Linear(5, 8), nn.ModuleList([Block(), Block()]), nn.Linear(8, 3)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def network():
    torch.manual_seed(0)
    return Network(), [(torch.randn(64, 5), torch.randint(3, (64,))) for _ in range(2)]
"""
RECORDS = {
    "sound.json": {"residual_norms": [8.0, 8.5], "bp_grad_norms": [1e-3, 1e-3]},
    "broken.json": {"residual_norms": [8.0, 8e6], "bp_grad_norms": [1e-3, 1e-9]},
}


@pytest.fixture
def work(tmp_path):
    """A folder with a record that passes, one that fails, and code with a pitfall; `walkback` is on the path."""
    for name, fields in RECORDS.items():
        walkback.judge(walkback.Measurements(**fields)).save(tmp_path / name)
    (tmp_path / "mine.py").write_text(SCRIPT)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "walkback"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m walkback "$@"\n')
    program.chmod(0o755)
    return tmp_path


def act(work, **inputs):
    """The main step of the action, with these inputs: (exit status, the status that it hands on, what it printed)."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "walkback"]
    given = {name: str(about.get("default", "")) for name, about in action["inputs"].items()} | inputs
    environment = {
        variable: given[words.removeprefix("${{ inputs.").removesuffix(" }}")]
        for variable, words in step["env"].items()
    }
    out = work / "output"
    out.write_text("")
    path = f"{work / 'bin'}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [shutil.which("bash"), "-c", step["run"]], cwd=work, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": path, "GITHUB_OUTPUT": str(out), **environment},
    )  # fmt: skip
    return ended.returncode, out.read_text().strip(), ended.stdout + ended.stderr


@pytest.mark.parametrize(("target", "status"), [("sound.json", 0), ("broken.json", 1), ("sound.json broken.json", 1)])
def test_the_action_gates_on_recorded_measurements(work, target, status):
    assert act(work, command="replay", target=target)[:2] == (status, f"status={status}")


def uploaded(work, name="walkback.sarif"):
    """Rule, level, file and words of each result that the action hands to GitHub."""
    (run,) = json.loads((work / name).read_text())["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    return [
        (result["ruleId"], result["level"], place, result["message"]["text"])
        for result, place in zip(run["results"], places, strict=True)
    ]


def test_the_gate_uploads_what_decides_against_a_network(work):
    """Of what passes an empty log, which closes what an earlier commit had; of an error nothing."""
    act(work, command="replay", target="sound.json broken.json")
    found = uploaded(work)
    assert [entry[:3] for entry in found] == [
        ("diagnostic-a", "error", "broken.json"),
        ("diagnostic-b", "error", "broken.json"),
    ]
    report = walkback.DiagnosticReport.load(work / "broken.json")
    assert all(reading_value(report.reading(rule[-1])) in words for rule, *_, words in found)
    act(work, command="replay", target="sound.json")
    assert uploaded(work) == []
    assert act(work, command="replay", target="missing.json")[0] == 2
    assert not (work / "walkback.sarif").exists()


def test_what_is_missing_is_uploaded_where_all_is_asked_for(work):
    act(work, command="replay", target="sound.json", arguments="--require-all", sarif="gate.sarif")
    assert {entry[:3] for entry in uploaded(work, "gate.sarif")} == {
        ("diagnostic-c", "warning", "sound.json"),
        ("diagnostic-d", "warning", "sound.json"),
    }


def test_a_diagnosis_is_uploaded_at_the_function_that_returned_the_network(work):
    (work / "mine.py").write_text(NETWORK)
    status, _, said = act(work, command="diagnose", target="mine.py:network")
    assert status == 1, said
    (run,) = json.loads((work / "walkback.sarif").read_text())["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {"mine.py"}
    line = 1 + NETWORK[: NETWORK.index("def network")].count("\n")
    assert {place["region"]["startLine"] for place in places} == {line}


@pytest.mark.parametrize("command", ["replay", "lint"])
def test_without_a_name_for_it_nothing_is_uploaded(work, command):
    before = set(work.iterdir())
    assert act(work, command=command, target="broken.json" if command == "replay" else "mine.py", sarif="")[0] == 1
    assert set(work.iterdir()) - before == {work / "output"}


def test_uploads_of_several_commands_do_not_replace_each_other():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    upload = action["runs"]["steps"][-1]
    assert "inputs.command" in upload["with"]["category"]
    assert "lint" not in upload["if"]


def test_options_reach_the_command(work):
    assert act(work, command="replay", target="sound.json", arguments="--require-all")[0] == 3


def test_the_action_lints_and_writes_sarif(work):
    status, told, said = act(work, command="lint", target="mine.py")
    assert (status, told) == (1, "status=1"), said
    found = json.loads((work / "walkback.sarif").read_text())
    assert [result["ruleId"] for run in found["runs"] for result in run["results"]]


def test_another_command_is_refused_and_inputs_are_never_run_as_a_script(work):
    status, _, said = act(work, command="lab", target="x")
    assert status == 2
    assert "expected diagnose, replay or lint" in said
    act(work, command="replay", target="$(touch here) ; touch there")
    assert not (work / "here").exists()
    assert not (work / "there").exists()


def test_the_hook_is_a_command_that_exits_1_on_findings(work):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    program, *words = hook["entry"].split()
    ended = subprocess.run([work / "bin" / program, *words, "mine.py"], cwd=work, capture_output=True, check=False)
    assert ended.returncode == 1
    (work / "mine.py").write_text("x = 1\n")
    ended = subprocess.run([work / "bin" / program, *words, "mine.py"], cwd=work, capture_output=True, check=False)
    assert ended.returncode == 0
