"""Long traces: every line is read and judged once, little is kept of it, and a slow reader tells the same."""

from __future__ import annotations

import gc
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from walkback.cli import watch as watch_verb
from walkback.cli.main import app_for
from walkback.errors import RecordError
from walkback.protocol.judge import judge
from walkback.protocol.records import State
from walkback.watch import follow, trace
from walkback.watch.follow import TraceFollower
from walkback.watch.policy import StopPolicy
from walkback.watch.replay import replay
from walkback.watch.summary import summary_of, trail_of
from walkback.watch.trace_line import TraceLine


def line(step, growth=1.0, gradient=1e-2, **more):
    fields = {"residual_norms": [1.0, growth], "bp_grad_norms": [gradient] * 2, "accuracy": 0.5, "seconds": 1.0}
    return json.dumps({"step": step} | fields | more) + "\n"


def written(path, lines):
    path.write_text("".join(lines))
    return path


@pytest.fixture
def counted(monkeypatch):
    """How many lines were parsed, and how many judged."""
    counts = {"parsed": 0, "judged": 0}
    parse, read = trace._parsed, follow.read

    def parsing(*arguments):
        counts["parsed"] += 1
        return parse(*arguments)

    def judging(*arguments):
        counts["judged"] += 1
        return read(*arguments)

    monkeypatch.setattr(trace, "_parsed", parsing)
    monkeypatch.setattr(follow, "read", judging)
    return counts


@pytest.mark.parametrize(
    "command", [["report", "t.jsonl", "--html", "o.html"], ["replay", "t.jsonl"], ["watch", "t.jsonl", "--once"]]
)
def test_a_command_reads_and_judges_every_line_once(tmp_path, monkeypatch, counted, command):
    monkeypatch.chdir(tmp_path)
    written(Path("t.jsonl"), [line(step) for step in range(1, 301)])
    result = CliRunner().invoke(app_for(()), command, standalone_mode=False)
    assert result.exception is None
    assert counted == {"parsed": 300, "judged": 300}


def test_a_live_look_reads_what_is_new(tmp_path, counted):
    path = written(tmp_path / "t.jsonl", [line(step) for step in range(1, 101)])
    followed = watch_verb._followed([path])
    watch_verb._look(followed)
    with path.open("a") as file:
        file.write(line(101) + line(102, growth=99.0)[:-1])  # the last is still being written
    (seen,) = watch_verb._look(followed)
    assert counted == {"parsed": 101, "judged": 101}
    assert seen.course.last.step == 101
    with path.open("a") as file:
        file.write("\n")
    (seen,) = watch_verb._look(followed)
    assert counted["parsed"] == 102
    assert seen.course.first_fired["a"].step == 102
    watch_verb._look(followed)
    assert counted["parsed"] == 102


@pytest.mark.parametrize("how", ["replaced", "cut"])
def test_a_trace_that_is_begun_anew_is_read_anew(tmp_path, how):
    path = written(tmp_path / "t.jsonl", [line(step, growth=99.0) for step in range(1, 11)])
    follower = TraceFollower(path)
    assert summary_of(follower.look()[0].run.trail).first_fired
    if how == "replaced":
        other = written(tmp_path / "other", [line(step) for step in range(1, 21)])
        other.replace(path)
    else:
        written(path, [line(1)])
    (run,) = follower.look()
    assert len(run.run.trail) == (20 if how == "replaced" else 1)
    assert not summary_of(run.run.trail).first_fired


@pytest.mark.slow
def test_a_line_adds_few_bytes(tmp_path):
    peaks = []
    for count in (2_000, 4_000):
        path = written(tmp_path / f"{count}", [line(s, growth=99.0 if s > 500 else 1.0) for s in range(1, count + 1)])
        gc.collect()  # so that what earlier tests left does not decide when garbage of this one goes
        tracemalloc.start()
        follower = TraceFollower(path)
        follower.look()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 2_000 < 600


def test_a_file_without_figures_is_told_on_every_look(tmp_path):
    path = written(tmp_path / "t.jsonl", ['{"epoch": 1}\n'])
    with pytest.raises(RecordError, match="its lines hold neither norms nor gradients"):
        watch_verb._look(watch_verb._followed([path]))


STEPS = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from([1.0, 60.0, float("nan")]), st.sampled_from([1e-2, 1e-9])),
    min_size=1,
    max_size=25,
)


def slow(lines, policy):
    """The course by whole reports of the lines that stay, one after the other."""
    stay = []
    for each in lines:
        stay = [other for other in stay if other.step < each.step] + [each]
    reports = [judge(each.measurements()) for each in stay]
    first, in_a_row, stop = {}, {}, None
    for each, report in zip(stay, reports, strict=True):
        fired = {r.letter: r for r in report.readings if r.state is State.FIRE}
        for letter in fired:
            first.setdefault(letter, each.step)
        counting = policy.lost(report.readings)
        in_a_row = {letter: in_a_row.get(letter, 0) + 1 for letter in counting}
        if stop is None and any(count >= policy.patience for count in in_a_row.values()):
            stop = each.step
    return stay, first, stop, reports[-1]


@given(STEPS, st.integers(1, 3))
def test_a_trail_tells_what_whole_reports_tell(steps, patience):
    policy = StopPolicy(patience=patience)
    lines = [TraceLine.model_validate_json(line(s, growth=h, gradient=g).replace("NaN", '"NaN"')) for s, h, g in steps]
    stay, first, stop, last = slow(lines, policy)
    trail = trail_of(lines, policy=policy)
    course = summary_of(trail)
    assert course.measured == len(stay)
    assert {letter: at.step for letter, at in course.first_fired.items()} == first
    assert (course.stop.step if course.stop else None) == stop
    assert [place.step for place in map(trail.at, range(len(trail)))] == [each.step for each in stay]
    assert str(trail.series("stream")) == str([each.residual_norms[-1] for each in stay])
    assert str(judge(trail.last).to_dict()) == str(last.to_dict())
    if stop is not None:
        assert course.saved_seconds == len([each for each in stay if each.step > stop])


def test_a_place_that_no_picture_has_room_for_is_refused(tmp_path):
    path = written(tmp_path / "t.jsonl", [line(10**400)])
    with pytest.raises(RecordError, match=r"line 1 is not a line of a trace: step"):
        replay(path)
