"""By how much the training loss fell: from a monitor, a trace, a log, and the record of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from watched_networks import Net, make_batches

import walkback
from walkback.errors import InputError
from walkback.integrations.scalars import scalars
from walkback.protocol.records import State, TrainingLoss
from walkback.watch.loss_course import LossCourse
from walkback.watch.moment import At
from walkback.watch.replay import replay
from walkback.watch.trace import read_trace

HELD = make_batches(128, seed=9)


def course(*moments):
    """What is known after these (epoch, step, loss)."""
    losses, found = LossCourse(), None
    for epoch, step, loss in moments:
        found = losses.see(At(epoch=epoch, step=step), loss)
    return found


def test_it_is_the_loss_of_epoch_1_minus_that_of_the_last():
    found = course((0, None, None), (1, None, 2.0), (2, None, 1.7), (3, None, 1.5))
    assert found == TrainingLoss(first=2.0, last=1.5, last_epoch=3)
    assert found.decrease == 0.5


def test_runs_that_count_from_0_begin_there():
    assert course((0, None, 2.0), (1, None, 1.7), (2, None, 1.5)).decrease == 0.5


@pytest.mark.parametrize(
    "moments",
    [
        [(1, None, 2.0)],  # one epoch
        [(1, None, None), (2, None, 1.0)],  # the first is not known
        [(5, None, 2.0), (6, None, 1.0)],
        [(None, 10, 2.0), (None, 20, 1.0)],  # steps are no epochs
        [(0.5, 10, 2.0), (1.5, 20, 1.0)],
        [],
    ],
)
def test_what_is_not_known_is_not_made_up(moments):
    assert course(*moments) is None


def test_a_run_that_goes_back_forgets_what_it_does_anew():
    assert course((1, 10, 2.0), (2, 20, 1.0), (3, 30, 0.5), (2, 20, 1.4)).decrease == pytest.approx(0.6)
    assert course((1, 10, 2.0), (2, 20, 1.0), (1, 10, 3.0)) is None
    assert course((1, 10, 2.0), (2, 20, 1.0), (1, 10, 3.0), (2, 20, 1.0)).decrease == 2.0


def test_of_several_lines_of_an_epoch_the_last_counts():
    assert course((1, 10, 9.0), (1, 20, 2.0), (2, 30, 1.0)).decrease == 1.0


def test_a_moment_without_a_loss_keeps_what_is_known():
    assert course((1, 10, 2.0), (2, 20, 1.0), (None, 25, None)).last_epoch == 2


def watched(tmp_path, losses, **more):
    torch.manual_seed(0)
    monitor = walkback.Monitor(Net(), HELD, trace=tmp_path / "t", **more)
    for epoch, loss in enumerate(losses, 1):
        monitor.step(epoch=epoch, loss=loss)
    return monitor


def test_a_monitor_traces_the_loss_and_reports_by_how_much_it_fell(tmp_path):
    seen = []
    report = watched(tmp_path, [2.0, 1.25, 1.0], logs=[lambda line, decision: seen.append(scalars(line))]).report
    reading = report.reading("l")
    assert (reading.state, reading.value) == (State.REPORTED, 1.0)
    assert all(part in reading.sentence for part in ("2.00 in epoch 1", "1.00 in epoch 3", "fell by 1.00"))
    assert [line.loss for line in read_trace(tmp_path / "t")] == [2.0, 1.25, 1.0]
    (replayed,) = replay(tmp_path / "t")
    assert replayed.report.training_loss == report.training_loss
    for renderer in ("text", "markdown", "latex", "html"):
        assert "training-loss decrease" in replayed.report.render(renderer)


def test_a_run_that_goes_on_with_its_trace_knows_its_first_epoch(tmp_path):
    watched(tmp_path, [2.0, 1.25], run="a")
    monitor = walkback.Monitor(Net(), HELD, trace=tmp_path / "t", run="a")
    monitor.step(epoch=3, loss=0.5)
    assert monitor.report.reading("l").value == 1.5


def test_without_a_loss_nothing_is_listed(tmp_path):
    report = watched(tmp_path, [None, None]).report
    assert "l" not in {reading.letter for reading in report.readings}


def test_a_loss_ends_an_epoch(tmp_path):
    monitor = walkback.Monitor(Net(), HELD, trace=tmp_path / "t", every=1000)
    monitor.step(epoch=1)
    assert not monitor.step(epoch=1).measured
    assert monitor.step(epoch=1, loss=torch.tensor(2.0)).measured


def test_a_loss_that_is_not_finite_fires_and_a_rise_is_told(tmp_path):
    assert "did not fall" in watched(tmp_path, [1.0, 1.5]).report.reading("l").sentence
    monitor = walkback.Monitor(Net(), HELD)
    monitor.step(epoch=1, loss=1.0)
    decision = monitor.step(epoch=2, loss=math.nan)
    assert monitor.report.reading("l").state is State.FIRE
    assert decision.stop


@pytest.mark.parametrize("loss", ["1.0", True, [1.0, 2.0], torch.ones(2), object()])
def test_what_is_no_loss_is_refused(loss):
    with pytest.raises(InputError, match="expected the mean training loss"):
        walkback.Monitor(Net(), HELD).step(epoch=1, loss=loss)


def test_a_loss_without_an_epoch_is_refused():
    with pytest.raises(InputError, match="pass epoch="):
        walkback.Monitor(Net(), HELD).step(loss=1.0)


def test_a_log_of_another_program_may_hold_it(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("epoch,h0,h1,train\n1,1.0,1.1,2.0\n2,1.0,1.1,1.5\n3,1.0,1.2,0.9\n")
    (found,) = replay(path, columns="h_0=h0,h_1=h1,loss=train,epoch=epoch")
    assert found.report.reading("l").value == pytest.approx(1.1)


def test_the_trace_of_a_run_on_record_gives_what_its_lines_say():
    golden = Path(__file__).parents[1] / "golden" / "resmlp_bp_s42_trace.jsonl"
    lines = [json.loads(text) for text in golden.read_text().splitlines()]
    losses = {line["epoch"]: line["loss"] for line in lines if "loss" in line}
    (found,) = replay(golden)
    assert found.report.reading("l").value == pytest.approx(losses[1] - losses[max(losses)])
