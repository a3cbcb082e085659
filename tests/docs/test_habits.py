"""The pre-commit hook and the GitHub Action do what they say: their own script is run, as a runner would run it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = "import torch.nn.functional as F\n\n\ndef gamma(a, g):\n    return F.cosine_similarity(a, g)\n"
RECORDS = {
    "sound.json": {"residual_norms": [8.0, 8.5], "bp_grad_norms": [1e-3, 1e-3]},
    "broken.json": {"residual_norms": [8.0, 8e6], "bp_grad_norms": [1e-3, 1e-9]},
}


@pytest.fixture
def work(tmp_path):
    """A folder with a record that passes, one that fails, and code with a pitfall; `walkback` is on the path."""
    import walkback

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
