"""Interrupted at will, resumed to the bit."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from tiny_runs import InterruptAfter, assert_same_run, lines_of, tiny

from walkback.errors import InputError
from walkback.lab.runs.store import RunState, RunStore
from walkback.lab.runs.train import train_or_resume

CHILD = """
import json, sys
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
train_or_resume(RunConfig.from_dict(json.loads(sys.argv[1])), RunStore(sys.argv[2]))
"""


def child(config, root):
    return subprocess.Popen([sys.executable, "-c", CHILD, json.dumps(config.to_dict()), str(root)])


def kill_after(process, run, lines, delay):
    """SIGKILL once the trace has that many lines and a moment more has passed; whether it was still running."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if run.trace_file.exists() and run.trace_file.read_text().count("\n") >= lines:
            time.sleep(delay)
            break
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_like_one_that_was_not(tmp_path):
    # Generated data: the digits would cost every process an import of scikit-learn.
    data = {"data": "synthetic_teacher", "data_options": {"samples": 1500}}
    config = tiny("credit_bridge", epochs=9, batch_size=128, **data)
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    run = cut.run(config)
    draw = random.Random(os.getpid())
    killed = [kill_after(child(config, cut.root), run, lines, draw.uniform(0, 0.15)) for lines in (2, 4)]
    assert all(killed), "the runs were over before they could be killed"
    assert run.state is RunState.INTERRUPTED
    assert child(config, cut.root).wait() == 0
    assert run.state is RunState.FINISHED
    assert_same_run(train_or_resume(config, whole), run)


@pytest.mark.parametrize("method", ["bp", "dfa", "ep"])
def test_a_network_with_channels_last_goes_on_to_the_bit(method, tmp_path):
    config = tiny(method, "small_cnn", epochs=3)
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, cut, InterruptAfter(2))
    assert_same_run(train_or_resume(config, whole), train_or_resume(config, cut))


@pytest.mark.parametrize("method", ["pepita", "kp", "weight_mirror", "local_loss"])
def test_plain_descent_with_dropout_goes_on_to_the_bit(method, tmp_path):
    """Without a momentum the optimizer has no state to come back to, and dropout draws from torch's own generator."""
    options = {"widths": [12, 12], "dropout": 0.2, "norm": "batch", "bias": "fixed"}
    config = tiny(method, "mlp", epochs=3, optimizer="sgd", momentum=0.0, architecture_options=options)
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, cut, InterruptAfter(2))
    assert_same_run(train_or_resume(config, whole), train_or_resume(config, cut))


def test_ctrl_c_loses_at_most_the_epoch_under_way(tmp_path):
    config, store = tiny(epochs=3), RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(2))
    run = store.run(config)
    assert [line["epoch"] for line in lines_of(run)] == [0, 1, 2]
    seconds = lines_of(run)[1]["seconds"]
    train_or_resume(config, store)
    # The second epoch was not trained again: even its time is the one that was measured then.
    assert run.result()["trace"][1]["seconds"] == seconds


def test_a_half_line_and_lines_past_the_checkpoint_are_dropped(tmp_path):
    config, store = tiny(epochs=3), RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(1))
    run = store.run(config)
    with run.trace_file.open("a") as file:
        file.write('{"epoch":2,"accuracy":0.9,"learning_rate":1,"seconds":1}\n{"epoch":3,"accur')
    assert [record.epoch for record in run.trace()] == [0, 1, 2]
    train_or_resume(config, store)
    assert_same_run(train_or_resume(config, RunStore(tmp_path / "whole")), run)


def test_a_trace_that_lacks_epochs_starts_the_run_anew(tmp_path):
    config, store = tiny(), RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(1))
    store.run(config).trace_file.write_text("")
    with pytest.warns(UserWarning, match="starts over"):
        run = train_or_resume(config, store)
    assert_same_run(train_or_resume(config, RunStore(tmp_path / "whole")), run)


def test_a_finished_run_is_not_trained_again(tmp_path):
    config, store = tiny(epochs=1), RunStore(tmp_path)
    first = train_or_resume(config, store)
    written = first.result_file.stat().st_mtime_ns
    assert train_or_resume(config, store).result_file.stat().st_mtime_ns == written


def test_training_leaves_the_callers_random_states_and_threads(tmp_path):
    torch.manual_seed(1)
    random.seed(1)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist(), torch.get_num_threads()  # noqa: NPY002
    train_or_resume(tiny(epochs=1), RunStore(tmp_path))
    assert torch.get_rng_state().equal(before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]  # noqa: NPY002
    assert torch.get_num_threads() == before[3]


def test_a_config_that_cannot_be_built_leaves_nothing_behind(tmp_path):
    with pytest.raises(InputError, match="shallow"):
        train_or_resume(tiny("bp", "small_cnn", freezing="shallow"), RunStore(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_a_run_without_blocks_is_a_run_without_a_report(tmp_path):
    result = train_or_resume(tiny(freezing="shallow"), RunStore(tmp_path)).result()
    assert result["report"] is None
    assert "no blocks" in result["unmeasured"]
    assert "no blocks" in result["trace"][0]["unmeasured"]
    assert result["depth"] is None


def test_a_run_that_diverges_is_ended_with_a_reason_and_kept(tmp_path):
    config = tiny("bp", "student_net", epochs=6, optimizer="sgd", learning_rate=1e30, schedule="constant")
    result = train_or_resume(config, RunStore(tmp_path)).result()
    assert result["ended"].startswith("diverged by epoch 1")
    assert [line["epoch"] for line in result["trace"]] == [0, 1]
    assert result["trace"][1]["nonfinite"]["logits"] == [512]
    assert result["accuracy"] == 0
    assert result["report"]["verdict"].startswith("needs walk-back: non-finite values")


def test_the_schedule_falls_to_zero_over_the_run(tmp_path):
    cosine = train_or_resume(tiny(epochs=4), RunStore(tmp_path)).result()["trace"]
    rates = [line["learning_rate"] for line in cosine]
    assert rates[0] == 0.01
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.001
    constant = train_or_resume(tiny(epochs=4, schedule="constant"), RunStore(tmp_path)).result()["trace"]
    assert {line["learning_rate"] for line in constant} == {0.01}


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_other_optimizers_resume_too(optimizer, tmp_path):
    config, store = tiny("bp", optimizer=optimizer), RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(1))
    assert_same_run(train_or_resume(config, store), train_or_resume(config, RunStore(tmp_path / "whole")))
