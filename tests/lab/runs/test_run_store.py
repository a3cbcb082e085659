from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tiny_runs import InterruptAfter, tiny

from walkback.errors import RecordError, RunError
from walkback.lab.runs import epochs as trace
from walkback.lab.runs.store import RunState, RunStore
from walkback.lab.runs.train import train_or_resume

HOLD = """
import sys, time
from pathlib import Path
from walkback.lab.runs.lock import held
with held(Path(sys.argv[1]), "run x"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of a run."""
    run = RunStore(tmp_path).open(tiny())
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.folder / "lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield run, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_two_processes_do_not_train_one_run(holder, tmp_path):
    run, process = holder
    assert run.state is RunState.RUNNING
    with pytest.raises(RunError, match=f"being trained by process {process.pid}"):
        train_or_resume(tiny(), RunStore(tmp_path))
    assert run.trace() == []


def test_the_lock_of_a_process_that_was_killed_is_free(holder, tmp_path):
    run, process = holder
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert run.state is RunState.INTERRUPTED
    assert train_or_resume(tiny(), RunStore(tmp_path)).state is RunState.FINISHED


# A result or a config that is there is read and never written, so a link to one may stand in its place.
@pytest.mark.parametrize(
    ("name", "content"),
    [("trace.jsonl", ""), ("trace.jsonl", None), ("lock", "mine"), ("lock", None), ("result.json", None),
     ("config.json", None)],
)  # fmt: skip
def test_a_link_in_a_runs_folder_is_refused_and_what_is_behind_it_left_alone(tmp_path, name, content):
    store, target = RunStore(tmp_path / "runs"), tmp_path / "mine.txt"
    folder = store.run(tiny()).folder
    folder.mkdir(parents=True)
    (folder / name).symlink_to(target)
    if content is not None:
        target.write_text(content)
    with pytest.raises(RunError, match=rf"{name} is a link to {target}.* Remove the link"):
        train_or_resume(tiny(), store)
    assert (target.read_text() if target.exists() else None) == content


def test_an_epoch_is_not_added_to_a_link(tmp_path):
    (tmp_path / "mine.txt").write_text("mine\n")
    (tmp_path / "trace.jsonl").symlink_to("mine.txt")
    with pytest.raises(RunError, match="is a link to mine"):
        trace.append(tmp_path / "trace.jsonl", trace.EpochRecord(epoch=0, accuracy=0.1, learning_rate=0.1, seconds=1))
    assert (tmp_path / "mine.txt").read_text() == "mine\n"


def test_a_folder_of_runs_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to("disk")
    assert train_or_resume(tiny(epochs=1), RunStore(tmp_path / "runs")).finished


def test_runs_are_found_by_a_prefix_that_is_theirs_alone(tmp_path):
    store = RunStore(tmp_path)
    runs = [store.open(tiny(seed=seed)) for seed in range(3)]
    assert store.find(runs[1].run_id).folder == runs[1].folder
    assert store.find(runs[1].run_id[:6]).folder == runs[1].folder
    assert {run.run_id for run in store} == {run.run_id for run in runs}
    with pytest.raises(RunError, match="no run 'zzzz'"):
        store.find("zzzz")
    with pytest.raises(RunError, match="too short"):
        store.find("a")
    like = runs[1].run_id[:11] + ("0" if runs[1].run_id[11] != "0" else "1")
    for name in (like, f"{runs[1].run_id}0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    assert store.find(runs[1].run_id).folder == runs[1].folder  # what is longer is no id
    with pytest.raises(RunError, match="Give more digits"):
        store.find(runs[1].run_id[:8])


@pytest.mark.parametrize(
    ("change", "words"),
    [({"id": "f" * 12}, "it says ffffffffffff"), ({"result_version": 99}, "version 99; expected version 1")],
)
def test_a_result_of_another_run_or_version_is_refused(tmp_path, change, words):
    store = RunStore(tmp_path / "runs")
    run = train_or_resume(tiny(epochs=0), store)
    run.result_file.write_text(json.dumps(run.result() | change))
    with pytest.raises(RecordError, match=words):
        store.run(tiny(epochs=0)).result()


@pytest.mark.parametrize("line", [b"\xff\xfe", b"[" * 100_000])
def test_a_trace_that_is_no_text_is_told_in_a_sentence(tmp_path, line):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(RunError, match="line 1 is not JSON"):
        trace.read(path)


def test_the_folder_is_the_one_given_or_the_environments_or_runs(tmp_path, monkeypatch):
    monkeypatch.delenv("WALKBACK_RUNS", raising=False)
    assert str(RunStore().root) == "runs"
    monkeypatch.setenv("WALKBACK_RUNS", str(tmp_path))
    assert RunStore().root == tmp_path
    assert str(RunStore("here").root) == "here"


def test_a_store_that_is_not_there_is_empty(tmp_path):
    assert list(RunStore(tmp_path / "nowhere")) == []
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot make"):
        RunStore(tmp_path / "file").open(tiny())


def test_an_unfinished_run_has_no_result_but_a_command(tmp_path):
    config, store = tiny(), RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(0))
    with pytest.raises(RunError, match="walkback lab train --method dfa"):
        store.run(config).result()


def test_a_trace_that_is_not_one_is_named_by_its_line(tmp_path):
    run = RunStore(tmp_path).open(tiny())
    run.trace_file.write_text('{"epoch":0,"accuracy":0.1,"learning_rate":1,"seconds":1}\nnot json\n')
    with pytest.raises(RunError, match="line 2 is not JSON"):
        run.trace()
    run.trace_file.write_text('{"epoch":"first"}\n')
    with pytest.raises(RunError, match="line 1 is not an epoch's record"):
        run.trace()


def test_a_stored_config_comes_back_equal(tmp_path):
    store, config = RunStore(tmp_path), tiny()
    store.open(config)
    assert store.find(config.run_id).config == config
    (store.run(config).folder / "config.json").write_text("half")
    with pytest.warns(UserWarning, match="not JSON"):
        assert not list(store)
    with pytest.raises(RecordError, match="not JSON"):
        store.find(config.run_id).settings  # noqa: B018
