"""How training looks: the bar on a terminal, and lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

from walkback.lab.cli import progress
from walkback.lab.cli.progress import OnBar, left, watching
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.progress import EpochDone


def record(epoch, fired=()):
    return EpochRecord(
        epoch=epoch,
        accuracy=0.5432,
        loss=1.0,
        learning_rate=1e-3,
        seconds=2.0,
        residual_norms=(8.0, 1234.0),
        bp_grad_norms=(1e-3, 4.5e-6),
        fired=fired,
    )


@pytest.fixture
def shown():
    """A bar, and the line that it draws at any moment, without colours."""
    console = Console(file=io.StringIO(), width=120, color_system=None, force_terminal=False)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    bar = Bar(*columns, console=console, auto_refresh=False)

    def line():
        with console.capture() as captured:
            console.print(bar.make_tasks_table(bar.tasks))
        return captured.get()

    return OnBar(bar), line


def test_the_bar_starts_where_the_run_is(shown):
    watcher, line = shown
    assert "loading" in line()
    watcher.started(3, 10)
    (task,) = watcher.bar.tasks
    assert (task.completed, task.total) == (3, 10)
    assert "epoch 3/10" in line()


def test_the_bar_moves_within_an_epoch_and_shows_the_figures_of_the_last(shown):
    watcher, line = shown
    watcher.started(0, 4)
    watcher.within(1, 0.5)
    (task,) = watcher.bar.tasks
    assert task.completed == 0.5
    watcher.epoch_done(EpochDone(record(1, ("a", "b")), 4, 75.0))
    assert task.completed == 1
    assert "epoch 1/4" in line()
    assert "acc 54.32 %  ‖h_L‖ 1.23e+03  ‖g_L‖ 4.5e-06  (a) (b)  1 min 15 s left" in line()


def test_a_run_of_no_epochs_has_a_bar_that_can_be_drawn(shown):
    watcher, line = shown
    watcher.started(0, 0)
    assert "epoch 0/0" in line()


def test_a_terminal_gets_the_name_and_the_bar_and_a_file_gets_lines(monkeypatch):
    for terminal in (True, False):
        written = io.StringIO()
        console = Console(file=written, force_terminal=terminal, width=200, highlight=False)
        monkeypatch.setattr(progress, "SafeConsole", lambda console=console, **_: console)
        with watching("3f2a resmlp-digits-dfa") as watcher:
            watcher.started(0, 2)
            watcher.epoch_done(EpochDone(record(1), 2, 0.0))
        text = written.getvalue()
        assert "acc 54.32 %" in text
        assert ("3f2a resmlp-digits-dfa" in text) is terminal
        assert ("━" in text) is terminal


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, ""), (1, "1 s left"), (59.6, "1 min 00 s left"), (61, "1 min 01 s left"), (3725, "1 h 02 min left")],
)
def test_the_time_left_is_in_the_unit_that_suits_it(seconds, words):
    assert left(seconds) == words
