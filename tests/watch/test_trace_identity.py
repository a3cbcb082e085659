"""Whose trace a file is: other networks and other runs are refused, and two runs in one old file are told apart."""

import json
import re

import pytest
import torch
from typer.testing import CliRunner
from watched_networks import Net, make_batches

import walkback
from walkback.cli.main import app_for
from walkback.errors import InputError, RecordError
from walkback.lab.present.networks import networks_in
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.store import RunStore
from walkback.watch.replay import replay
from walkback.watch.trace import named_runs, read_runs, read_trace
from walkback.watch.trace_line import TraceLine

HELD = make_batches(32, 32)


def watch(path, model=None, epochs=(), **settings):
    monitor = walkback.Monitor(model or Net(), HELD, trace=path, **settings)
    for epoch in epochs:
        monitor.step(epoch=epoch)
    return monitor


def first_line(path):
    return json.loads(path.read_text().splitlines()[0])


def write(path, *moments, sites=3):
    """As an earlier walkback wrote it: lines alone."""
    lines = [TraceLine(residual_norms=(1.0,) * sites, bp_grad_norms=(1e-3,) * sites, **at).line() for at in moments]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def epochs(*numbers):
    return [{"epoch": number} for number in numbers]


# The first line


def test_a_trace_begins_with_its_run_its_network_and_its_start(tmp_path):
    model = Net()
    watch(tmp_path / "t", model, [1, 2])
    begins = first_line(tmp_path / "t")
    assert re.fullmatch("[0-9a-f]{32}", begins["run"])
    assert begins["model"] == "Net"
    assert begins["parameters"] == sum(p.numel() for p in model.parameters())
    assert begins["sites"] == 4
    assert begins["walkback"] == walkback.__version__
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", begins["started"])
    assert [line.epoch for line in read_trace(tmp_path / "t")] == [1, 2]
    watch(tmp_path / "other", Net(), [1], run="a name")
    assert first_line(tmp_path / "other")["run"] == "a name"
    assert first_line(tmp_path / "other")["network"] == begins["network"]


def test_the_network_is_known_by_names_and_shapes_alone(tmp_path):
    plain, wide, renamed = Net(), Net(), Net()
    wide.head = torch.nn.Linear(16, 5)
    renamed.top = renamed.head
    del renamed.head
    renamed.forward = lambda x: None
    from walkback.protocol.parameters import fingerprint, shapes_of

    prints = [fingerprint(shapes_of(model)) for model in (plain, Net().double(), wide, renamed)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_nothing_is_written_before_there_is_something_to_write(tmp_path):
    watch(tmp_path / "t", Net())
    assert (tmp_path / "t").read_text() == ""
    watch(tmp_path / "t", Net(depth=2), [1])
    assert len(read_trace(tmp_path / "t")) == 1


# What is refused


def test_another_network_is_refused_whatever_is_said(tmp_path):
    watch(tmp_path / "t", Net(), [1, 2], run="one")
    before = (tmp_path / "t").read_bytes()
    there, here = (sum(p.numel() for p in Net(depth=d).parameters()) for d in (3, 2))
    for settings in ({}, {"run": "one"}, {"resume": True}):
        with pytest.raises(InputError) as refused:
            watch(tmp_path / "t", Net(depth=2), **settings)
        said = str(refused.value)
        assert f"the trace of another network: Net of {there:,} parameters" in said
        assert "2 lines up to epoch 2" in said
        assert f"This one is Net of {here:,} parameters" in said
        assert said.endswith("Give another path, or remove the file.")
    assert (tmp_path / "t").read_bytes() == before


def test_so_are_other_blocks_of_the_same_network(tmp_path):
    watch(tmp_path / "t", Net(), [1], run="one")
    with pytest.raises(
        InputError, match=r"or of other blocks of it: 1 line up to epoch 1, with 4 sites. This one has 3"
    ):
        watch(tmp_path / "t", Net(), run="one", blocks="blocks.0,blocks.1")


def test_a_new_run_of_the_same_network_is_refused_and_told_what_to_do(tmp_path):
    watch(tmp_path / "t", Net(), [1, 2, 3])
    run = first_line(tmp_path / "t")["run"]
    with (tmp_path / "t").open("a") as file:
        file.write('{"epoch": 4, "half')
    before = (tmp_path / "t").read_bytes()
    for settings, came in (({}, ""), ({"run": "two"}, "; this is run 'two'"), ({"run": "two", "resume": True}, "two")):
        with pytest.warns(UserWarning, match="dropped"), pytest.raises(InputError) as refused:
            watch(tmp_path / "t", Net(), **settings)
        said = str(refused.value)
        assert f"holds a run already: run {run!r} of this network, begun 20" in said
        assert "3 lines up to epoch 3" in said
        assert came in said
        assert f"pass resume=True or run={run!r}; a new run needs a path of its own" in said
    assert (tmp_path / "t").read_bytes() == before


@pytest.mark.parametrize("name", ["", "  ", 3, True])
def test_a_run_has_a_name(tmp_path, name):
    with pytest.raises(InputError, match=r"run= is .*expected a name"):
        watch(tmp_path / "t", Net(), run=name)


# What goes on


@pytest.mark.parametrize("again", ["same name", "number of its own", "resume"])
def test_a_run_that_is_started_again_goes_on(tmp_path, again):
    first = watch(tmp_path / "t", Net(), [1, 2, 3], **({"run": "mine"} if again == "same name" else {}))
    settings = {"resume": True} if again == "resume" else {"run": first_line(tmp_path / "t")["run"]}
    second = watch(tmp_path / "t", Net(), [3, 4], **settings)
    assert second.decision.at.epoch == 4
    assert first.decision.at.epoch == 3
    (run,) = read_runs(tmp_path / "t")
    assert [line.epoch for line in run.lines] == [1, 2, 3, 4]
    assert sum("trace_version" in line for line in (tmp_path / "t").read_text().splitlines()) == 1


def test_resume_begins_a_run_where_there_is_none(tmp_path):
    watch(tmp_path / "t", Net(), [1], resume=True)
    assert "trace_version" in first_line(tmp_path / "t")


def test_a_trace_of_an_earlier_walkback_is_gone_on_with_where_that_is_said(tmp_path):
    path = write(tmp_path / "t", *epochs(1, 2), sites=4)
    for settings in ({}, {"run": "mine"}, {"run": "mine", "resume": True}):
        with pytest.raises(InputError, match=r"2 lines up to epoch 2, without a name.*pass resume=True and no run="):
            watch(path, Net(), **settings)
    watch(path, Net(), [3], resume=True)
    assert [line.epoch for line in read_trace(path)] == [1, 2, 3]
    with pytest.raises(InputError, match=r"with 4 sites\. This one has 3"):
        watch(path, Net(depth=2), resume=True)


# Reading


def test_a_trace_of_an_earlier_walkback_is_read_as_it_was(tmp_path):
    path = write(tmp_path / "t", *epochs(1, 2, 3, 2, 3))
    (named,) = named_runs(path)
    assert [line.epoch for line in named.run.lines] == [1, 2, 3]
    assert (named.name, named.remark, named.run.identity) == ("t", "", None)


@pytest.mark.parametrize(
    ("moments", "runs"),
    [
        (epochs(1, 2, 3, 1, 2), [[1, 2, 3], [1, 2]]),
        (epochs(0, 1, 0, 1, 2, 0), [[0, 1], [0, 1, 2], [0]]),
        (epochs(1, 2, 3, 2, 3), [[1, 2, 3]]),
        (epochs(1, 1), [[1]]),
        (epochs(5, 6, 2), [[5, 6], [2]]),
        (epochs(5, 2), [[5], [2]]),
        ([{"step": 4}, {"epoch": 1, "step": 4}, {"step": 8}, {"epoch": 2, "step": 8}], [[1, 2]]),
        ([{"step": 4}, {"step": 8}, {"step": 2}], [[None, None], [None]]),
        ([{}, {}, {}], [[None, None, None]]),
    ],
)
def test_runs_in_one_old_file_are_told_apart_where_numbers_begin_again(tmp_path, moments, runs):
    found = read_runs(write(tmp_path / "t", *moments))
    assert [[line.epoch for line in run.lines] for run in found] == runs


def test_they_are_told_apart_by_the_number_of_sites(tmp_path):
    one, two = write(tmp_path / "a", *epochs(1, 2), sites=3), write(tmp_path / "b", *epochs(3, 4), sites=5)
    (tmp_path / "t").write_text(one.read_text() + '{"epoch": 3, "unmeasured": "why"}\n' + two.read_text())
    first, second = named_runs(tmp_path / "t")
    assert [line.epoch for line in first.run.lines] == [1, 2, 3]
    assert [line.epoch for line in second.run.lines] == [3, 4]
    assert "told from the one before by the number of its sites, 5 in place of 3 (line 4)" in second.remark


def test_traces_with_an_identity_that_were_put_together_are_told_apart_by_it(tmp_path):
    watch(tmp_path / "a", Net(), [1, 2], run="a")
    watch(tmp_path / "b", Net(), [3, 4], run="b")
    text = (tmp_path / "a").read_text(), (tmp_path / "b").read_text()
    (tmp_path / "t").write_text("".join(text))
    first, second = named_runs(tmp_path / "t")
    assert [run.run.identity.run for run in (first, second)] == ["a", "b"]
    assert [line.epoch for line in first.run.lines] == [1, 2]
    assert second.remark.endswith("this is number 2, told from the one before by its identity, in line 4.")
    (tmp_path / "t").write_text(text[0] * 2)
    (run,) = read_runs(tmp_path / "t")
    assert [line.epoch for line in run.lines] == [1, 2]


def two_runs(tmp_path):
    exploded = TraceLine(epoch=1, residual_norms=(1.0, 900.0, 900.0), bp_grad_norms=(1e-3,) * 3).line()
    path = write(tmp_path / "t.jsonl", *epochs(1, 2, 3))
    path.write_text(path.read_text() + exploded + "\n")
    return path


def test_replay_judges_each_run_by_itself(tmp_path):
    first, second = replay(two_runs(tmp_path))
    assert (first.name, second.name) == ("t, run 1 of 2", "t, run 2 of 2")
    assert first.report.verdict == "trustworthy"
    assert second.report.verdict.startswith("needs walk-back")
    assert (first.course.measured, second.course.measured) == (3, 1)
    assert "holds 2 runs: this is number 1, the first of them" in first.report.warnings[0]
    assert "told from the one before by its numbers, which begin again at epoch 1 (line 4)" in second.report.warnings[0]


def test_so_do_the_commands_and_the_pages(tmp_path):
    path = two_runs(tmp_path)
    for arguments in (["replay", str(path)], ["watch", "--once", str(path)]):
        result = CliRunner().invoke(app_for(()), arguments, env={"COLUMNS": "160"})
        output = " ".join(result.output.split())
        assert "run 1 of 2" in output, result.exception
        assert "run 2 of 2" in output
        assert output.count("holds 2 runs: this is number") == 2
    assert [len(network.moments) for network in networks_in([str(path)], RunStore(tmp_path))] == [3, 1]


def test_a_trace_with_an_identity_goes_through_every_reader(tmp_path):
    path = tmp_path / "t.jsonl"
    watch(path, Net(), [1, 2])
    (entry,) = replay(path)
    assert entry.course.measured == 2
    assert entry.report.warnings == ()
    (network,) = networks_in([str(path)], RunStore(tmp_path))
    assert len(network.moments) == 2
    (mapped,) = replay(path, columns={"h": "residual_norms", "g": "bp_grad_norms", "epoch": "epoch"})
    assert mapped.course.measured == 2
    assert "t" in CliRunner().invoke(app_for(()), ["watch", "--once", str(path)]).output
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(RecordError, match="holds no measurements yet"):
        replay(path)


def test_the_traces_of_the_zoo_go_through_the_same_reader(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    fields = {"learning_rate": 0.1, "seconds": 1.0, "residual_norms": (1.0, 1.0), "bp_grad_norms": (1.0, 1.0)}
    lines = [EpochRecord(epoch=e, accuracy=0.1 * e, **fields).line() for e in (0, 1, 2)]
    (folder / "trace.jsonl").write_text("".join(line + "\n" for line in lines))
    (named,) = named_runs(folder / "trace.jsonl")
    assert (named.name, [line.epoch for line in named.run.lines]) == ("run", [0, 1, 2])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            '{"trace_version": 9, "network": "x", "run": "y"}',
            "line 1 begins a trace of version 9; this walkback reads 1",
        ),
        ('{"trace_version": 1, "network": "x"}', "line 1 is not what a trace begins with: run is missing"),
        ('{"trace_version": 1, "network": "x", "ru', "line 1 is not a line of a trace"),
    ],
)
def test_an_identity_that_cannot_be_read_is_named(tmp_path, line, expected):
    (tmp_path / "t").write_text(line + "\n" + TraceLine(epoch=1, residual_norms=(1.0, 1.0)).line() + "\n")
    with pytest.raises(RecordError, match=expected):
        read_trace(tmp_path / "t")
