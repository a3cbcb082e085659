import json
import math
from pathlib import Path

import pytest

from walkback.errors import InputError, RecordError
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.epochs import append as append_epoch
from walkback.protocol.judge import judge
from walkback.protocol.records import Measurements
from walkback.watch.moment import At
from walkback.watch.trace import OpenTrace, read_trace, trace_of_result
from walkback.watch.trace_file import add_text, run_name, trace_in
from walkback.watch.trace_identity import Identity
from walkback.watch.trace_line import TraceLine, line_of

LINE = TraceLine(epoch=1, residual_norms=(1.0, 2.0), bp_grad_norms=(1e-3, 1e-4), fired=("c",))
OWN = Identity.new("mine", "abcd", "Net", 100, 2)


def append(path, *lines):
    """As an earlier walkback wrote them: no identity before them."""
    with path.open("a", encoding="utf-8") as file:
        file.writelines(line.line() + "\n" for line in lines)


def open_for_adding(path, **settings):
    return OpenTrace(path, OWN, **({"resume": True} | settings))


def test_a_line_comes_back_equal_nan_and_infinity_too(tmp_path):
    path = tmp_path / "t.jsonl"
    line = TraceLine(step=7, residual_norms=(math.inf, 2.0), accuracy=0.5, nonfinite={"hiddens": (3, 0)})
    broken = TraceLine(step=8, residual_norms=(math.nan, 2.0))
    append(path, line)
    append(path, broken)
    first, second = read_trace(path)
    assert first == line
    assert math.isnan(second.residual_norms[0])
    assert judge(second.measurements()).verdict == "needs walk-back: non-finite values"


def test_a_line_of_a_run_of_the_zoo_is_read_with_the_same_figures(tmp_path):
    path = tmp_path / "trace.jsonl"
    epoch = EpochRecord(
        epoch=3, accuracy=0.4, learning_rate=0.1, seconds=2.0, loss=1.5, residual_norms=(1.0, 90.0),
        bp_grad_norms=(1e-3, 1e-9), site_stabilities=(0.5, 0.1), drift_shares=(0.1, 0.2), error_size=0.9,
        alignment=(0.5, 0.1), deep_alignment=0.1, fired=("a", "b"),
    )  # fmt: skip
    append_epoch(path, epoch)
    (line,) = read_trace(path)
    assert {name: getattr(line, name) for name in EpochRecord.model_fields} == dict(epoch)
    report = judge(line.measurements())
    assert report.verdict == "needs walk-back: residual stream exploded; BP grad at numerical floor; " + (
        "BP grad direction is drift-dominated"
    )
    assert report.cross_batch_stability == 0.5
    assert report.alignment.deep == 0.1


def test_a_monitor_line_is_read_as_a_run_of_the_zoo_would_read_it():
    fields = json.loads(LINE.line())
    known = {name: value for name, value in fields.items() if name in EpochRecord.model_fields}
    EpochRecord(**known, accuracy=0.5, learning_rate=0.1, seconds=1.0)


def test_figures_are_written_in_six_digits():
    measured = Measurements(residual_norms=[1.23456789, 2.0], bp_grad_norms=[1.23456789e-9, 1e-3])
    line = line_of(measured, judge(measured).readings, epoch=1, seconds=1 / 3)
    assert line.residual_norms == (1.23457, 2.0)
    assert line.bp_grad_norms[0] == 1.23457e-9
    assert line.seconds == 0.333333


def test_half_a_line_is_dropped_with_a_warning_and_cut_off_before_the_next(tmp_path):
    path = tmp_path / "t.jsonl"
    append(path, LINE)
    with path.open("a") as file:
        file.write('{"epoch":2,"residual_no')
    with pytest.warns(UserWarning, match="incomplete"):
        assert read_trace(path) == [LINE]
    with pytest.warns(UserWarning, match="dropped"):
        trace = open_for_adding(path)
    assert trace.lines == [LINE]
    trace.append(LINE.model_copy(update={"epoch": 2}))
    assert [line.epoch for line in read_trace(path)] == [1, 2]


def test_a_whole_last_line_without_its_line_break_is_kept(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(LINE.line())
    trace = open_for_adding(path)
    assert trace.lines == [LINE]
    trace.append(LINE.model_copy(update={"epoch": 2}))
    assert [line.epoch for line in read_trace(path)] == [1, 2]


def test_epochs_written_again_after_going_back_replace_the_earlier_ones(tmp_path):
    path = tmp_path / "t.jsonl"
    for epoch, accuracy in ((1, 0.1), (2, 0.2), (3, 0.3), (2, 0.25), (3, 0.35)):
        append(path, TraceLine(epoch=epoch, accuracy=accuracy, residual_norms=(1.0, 1.0)))
    assert [(line.epoch, line.accuracy) for line in read_trace(path)] == [(1, 0.1), (2, 0.25), (3, 0.35)]
    assert len(path.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{}\nnot json\n", "line 2 is not a line of a trace"),
        ('{"residual_norms": "many"}\n', "line 1 .*residual_norms"),
        ('{"residual_norms": [1, 2], "bp_grad_norms": [1]}\n', "numbers of sites differ"),
        ('{"accuracy": 61.0}\n', "divide percentages by 100"),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, expected):
    path = tmp_path / "bad.jsonl"
    path.write_text(content)
    with pytest.raises(RecordError, match=expected):
        read_trace(path)


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(RecordError, match=r"cannot read .*nowhere"):
        read_trace(tmp_path / "nowhere.jsonl")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the trace"):
        open_for_adding(tmp_path / "file" / "t.jsonl")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="is not UTF-8 text"):
        read_trace(tmp_path / "binary")
    with pytest.raises(RecordError, match="cannot add"):
        add_text(Path("/dev/full"), LINE.line())


def test_a_trace_is_known_by_its_config_its_folder_or_its_name(tmp_path):
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "trace.jsonl"
    path.write_text("")
    assert trace_in(tmp_path / "run") == path
    assert run_name(path) == "run"
    (tmp_path / "run" / "config.json").write_text('{"name": "resmlp-bp"}')
    assert run_name(path) == "resmlp-bp"
    assert run_name(tmp_path / "mine.jsonl") == "mine"


def test_moments_are_ordered_by_steps_where_both_have_them_else_by_epochs():
    assert At(epoch=5, step=1).not_after(At(epoch=1, step=2))
    assert At(epoch=2).not_after(At(epoch=2, step=9))
    assert not At(epoch=3).not_after(At(step=9))
    assert str(At(epoch=2.0, step=10)) == "epoch 2, step 10"
    assert str(At(epoch=1.25)) == "epoch 1.25"


@pytest.mark.parametrize("counts", [{"logit": [5]}, {"logits": [5, -5]}, {"hiddens": [0, -1]}])
def test_counts_that_nobody_would_read_are_refused(tmp_path, counts):
    path = tmp_path / "trace.jsonl"
    line = {"epoch": 1, "residual_norms": [1.0, 1.1], "nonfinite": counts}
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(RecordError, match="expected counts of hiddens, grads, logits from 0 on"):
        read_trace(path)


@pytest.mark.parametrize("name", ["residual_norms", "residual\\u005fnorms"])
def test_a_line_that_says_a_figure_twice_is_refused(tmp_path, name):
    path = tmp_path / "trace.jsonl"
    path.write_text(f'{{"epoch": 1, "residual_norms": ["NaN", 1.0], "{name}": [1.0, 1.0]}}\n')
    with pytest.raises(RecordError, match=r"line 1 contradicts itself: .* 'residual_norms' is in one object twice"):
        read_trace(path)


def test_a_result_whose_accuracy_is_lost_but_not_in_its_trace_is_refused():
    line = {"epoch": 1, "residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3], "accuracy": 0.5}
    assert trace_of_result({"accuracy": 0.5, "trace": [line]}, Path("result.json"))[0].accuracy == 0.5
    with pytest.raises(RecordError, match="contradicts itself"):
        trace_of_result({"accuracy": math.nan, "trace": [line]}, Path("result.json"))
