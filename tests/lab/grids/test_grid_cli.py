"""The grid on the command line: options with several words, what is refused, and the display."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time

import pytest
from rich.console import Console
from tiny_runs import tiny

from walkback.cli.main import app
from walkback.errors import InputError, UnknownName
from walkback.lab.cli.grid_options import grids_from, rows_from
from walkback.lab.cli.grid_progress import Board, Lines, Screen
from walkback.lab.cli.many_values import repeated
from walkback.lab.grids.executors import Began, Elsewhere, Ended, Reached
from walkback.lab.runs import lock
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.progress import EpochDone


def test_options_take_several_words():
    words = ["--methods", "bp", "fa", "--epochs", "3", "--seeds", "1", "2", "--list", "--methods", "ep"]
    assert repeated(words, {"--methods", "--seeds"}) == [
        "--methods", "bp", "--methods", "fa", "--epochs", "3", "--seeds", "1", "--seeds", "2", "--list",
        "--methods", "ep",
    ]  # fmt: skip
    assert repeated(["--epochs", "3", "4"], {"--methods"}) == ["--epochs", "3", "4"]


def test_a_method_may_bring_options():
    (row,) = rows_from("dfa:penalty=0.01,credit_norm=none")
    assert (row.label, row.method) == ("dfa:penalty=0.01,credit_norm=none", "dfa")
    assert row.options == {"penalty": 0.01, "credit_norm": "none"}
    assert [(row.label, row.options) for row in rows_from("dfa")] == [("dfa", {})]


GIVEN = {"architecture": "resmlp", "data": "digits", "methods": ["bp"], "seeds": None, "epochs": None}


def test_settings_reach_every_run():
    (grid,) = grids_from(None, GIVEN, ["arch.width=8", "learning_rate=0.1"], "mine").values()
    assert {cell.config.learning_rate for cell in grid.cells()} == {0.1}
    assert {cell.baseline.architecture_options["width"] for cell in grid.cells()} == {8}
    assert grid.seeds == (42, 123, 456)


def test_a_grid_on_a_ladder_or_with_random_targets_has_the_baselines_of_that():
    (grid,) = grids_from(None, GIVEN, ["freezing=ladder:2", "targets=random"], None).values()
    assert grid.name == "resmlp_d256_digits_freezing_ladder-2_targets_random"
    assert {(cell.config.freezing, cell.config.targets) for cell in grid.cells()} == {("ladder:2", "random")}
    assert {(cell.baseline.freezing, cell.baseline.targets) for cell in grid.cells()} == {("blocks", "random")}


def test_no_epochs_are_none_and_not_the_default():
    (grid,) = grids_from(None, GIVEN | {"epochs": 0}, [], "mine").values()
    assert {cell.config.epochs for cell in grid.cells()} == {0}


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (["--preset", "resmlp_d265"], UnknownName, "Did you mean 'resmlp_d256'"),
        (["--preset", "resmlp_d256", "--epochs", "3"], InputError, "a preset is a whole grid"),
        (["--arch", "resmlp"], InputError, "--data, --methods must be given"),
        (["--arch", "resmlp", "--data", "digits", "--methods", "bpp"], UnknownName, "Did you mean 'bp'"),
        (["--arch", "resmlp", "--data", "digits", "--methods", "bp,dfa"], InputError, "Separate methods by spaces"),
        (["--arch", "resmpl", "--data", "digits", "--methods", "bp"], UnknownName, "Did you mean 'resmlp'"),
        (["--arch", "resmlp", "--data", "digits", "--methods", "dfa:penalty"], InputError, "METHOD:OPTION=VALUE"),
        (["--arch", "resmlp", "--data", "digits", "--methods", "bp", "--set", "seed=3"], InputError, "not for a grid"),
        (
            ["--arch", "resmlp", "--data", "digits", "--methods", "bp", "--set", "freezing=blocks"],
            InputError,
            "adds its frozen baselines by itself",
        ),
        (["--arch", "resmlp", "--data", "digits", "--methods", "bp", "--workers", "0"], Exception, "(range|than).*1"),
        (["--arch", "resmlp", "--data", "digits", "--methods", "dfa:pennalty=1"], InputError, "Did you mean 'penalty'"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(tmp_path, monkeypatch, arguments, error, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        app(["lab", "audit", *arguments])
    assert list(tmp_path.iterdir()) == []


def reached(config, epoch, seconds):
    record = EpochRecord(epoch=epoch, accuracy=0.25, learning_rate=0.1, seconds=seconds)
    return Reached(config.run_id, EpochDone(record, config.epochs, 0.0))


def test_the_board_counts_and_estimates():
    first, second, third = tiny("bp", epochs=10), tiny("fa", epochs=10), tiny("bp", seed=8, epochs=10)
    board = Board([first, second, third], finished=4, workers=2)
    assert board.headline() == "4 of 7 runs done, 0 running, 3 waiting"
    board.hear(Began(first.run_id, 4, 10))
    board.hear(Began(second.run_id, 0, 10))
    board.hear(reached(second, 0, 0.1))  # measured, not trained: no pace
    assert board.seconds_left() == 0
    board.hear(reached(first, 5, 10.0))
    board.hear(reached(second, 1, 20.0))
    # 5 epochs of 10 s, 9 of 20 s and 10 of 10 s, on two workers.
    assert board.seconds_left() == pytest.approx((50 + 180 + 100) / 2)
    board.hear(Ended(first.run_id, ""))
    board.hear(Ended(second.run_id, "broken"))
    assert board.headline() == "5 of 7 runs done, 1 failed, 0 running, 1 waiting; 1 min 40 s left"


def test_a_run_that_another_process_trains_is_told_and_counted():
    config, file = tiny("bp"), io.StringIO()
    lines, screen = Lines(Board([config], 0, 1), Console(file=file, width=200)), Screen(Board([config], 0, 1))
    for event in (Began(config.run_id, 0, 2), Elsewhere(config.run_id)):
        lines(event)
        screen(event)
    assert f"{config.name}  trained by another process, waiting" in file.getvalue()
    assert lines.board.headline() == "0 of 1 runs done, 0 running, 1 waiting, 1 of them for another process"
    drawn = Console(file=io.StringIO(), width=200)
    drawn.print(screen.drawn())
    assert "trained by another process, waiting" in drawn.file.getvalue()
    screen(Ended(config.run_id, ""))
    assert screen.board.headline() == "1 of 1 runs done, 0 running"


def test_lines_and_screen_show_epoch_accuracy_and_failures():
    config, file = tiny("bp"), io.StringIO()
    lines = Lines(Board([config], 0, 1), Console(file=file, width=200))
    screen = Screen(Board([config], 0, 1))
    for event in (Began(config.run_id, 0, 2), reached(config, 1, 1.0)):
        lines(event)
        screen(event)
    assert f"{config.name}  epoch 1/2  acc 25.00 %" in file.getvalue()
    drawn = Console(file=io.StringIO(), width=200)
    drawn.print(screen.drawn())
    assert "1/2    acc 25.00 %" in drawn.file.getvalue()
    screen(Ended(config.run_id, "the disk is full"))
    drawn.print(screen.drawn())
    assert f"{config.name} failed: the disk is full" in drawn.file.getvalue()


def test_ctrl_c_ends_the_workers_too_and_exits_130(tmp_path):
    command = [
        sys.executable,
        "-m",
        "walkback",
        "lab",
        "audit",
        "--arch",
        "resmlp",
        "--data",
        "digits",
        "--methods",
        "bp",
    ]
    command += ["--epochs", "99999", "--set", "arch.width=8", "--workers", "1"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    while not list(tmp_path.glob("runs/*/trace.jsonl")):
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "run the same command again to resume" in said
    assert not any(lock.is_held(path) for path in tmp_path.glob("runs/*/lock"))
