import csv
import json
from itertools import pairwise
from pathlib import Path

import pytest

from walkback.errors import InputError, RecordError
from walkback.protocol.records import State
from walkback.watch.policy import StopPolicy
from walkback.watch.replay import replay

GOLDEN = Path(__file__).parents[1] / "golden"
DFA, BP = GOLDEN / "resmlp_dfa_s42_trace.jsonl", GOLDEN / "resmlp_bp_s42_trace.jsonl"


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def first_epoch_at(path, fires):
    """The obvious twin: the first epoch from 1 on at which the figures cross their thresholds."""
    return next((line["epoch"] for line in lines_of(path)[1:] if fires(line)), None)


def grown(line):
    norms = line["residual_norms"]
    return max(b / a for a, b in pairwise(norms)) > 50


def at_floor(line):
    return line["bp_grad_norms"][-1] < 1e-7


def test_the_recorded_dfa_run_is_stopped_at_the_epoch_of_its_first_firing():
    (entry,) = replay(DFA)
    first = {"a": first_epoch_at(DFA, grown), "b": first_epoch_at(DFA, at_floor)}
    assert {letter: entry.course.first_fired[letter].epoch for letter in "ab"} == first
    assert entry.course.stop.epoch == min(first.values())
    last = lines_of(DFA)[-1]
    assert entry.course.saved_share == pytest.approx(1 - min(first.values()) / last["epoch"])
    after = [line for line in lines_of(DFA) if line["epoch"] > min(first.values())]
    assert entry.course.saved_seconds == pytest.approx(sum(line["seconds"] for line in after))
    assert entry.course.best_accuracy_after == max(line["accuracy"] for line in after)
    assert entry.report.residual_norms == tuple(last["residual_norms"])


def test_the_recorded_bp_run_is_never_stopped():
    (entry,) = replay(BP)
    assert entry.course.stop is None
    assert set(entry.course.first_fired) <= {"c"}
    assert entry.report.verdict == "trustworthy"
    assert entry.course.final_accuracy == lines_of(BP)[-1]["accuracy"]


def on_record(method, **options):
    """The finished runs of a method in the audit of ResMLP on CIFAR-10, over 30 epochs."""
    found = []
    for path in sorted((Path(__file__).parents[2] / "results" / "runs").glob("*.json")):
        run = json.loads(path.read_text())
        config = run["config"]
        asked = {"method": method, "architecture": "resmlp", "data": "cifar10", "epochs": 30, "freezing": "none"}
        wide = config["architecture_options"] == {**config["architecture_options"], "width": 256, "terminal_norm": True}
        if wide and asked.items() <= config.items() and options.items() <= config["method_options"].items():
            found.append((path, run["trace"]))
    assert found
    return found


def test_every_dfa_run_on_record_is_stopped_where_it_first_fires():
    for path, trace in on_record("dfa", credit_norm="per_sample", penalty=0.0):
        (entry,) = replay(path)
        assert entry.course.stop.epoch == next(e["epoch"] for e in trace[1:] if grown(e) or at_floor(e))


def test_the_monitor_stops_where_the_temporal_study_says():
    results = Path(__file__).parents[2] / "results"
    runs = json.loads((results / "temporal_resmlp_d256.json").read_text())["runs"]
    assert {run["label"] for run in runs} >= {"bp", "dfa"}
    for run in runs:
        (entry,) = replay(results / "runs" / f"{run['id']}.json")
        fired = [run["first"][letter] for letter in "ab" if run["first"][letter] is not None]
        assert (entry.course.stop.epoch if entry.course.stop else None) == min(fired, default=None), run["label"]


def test_no_bp_run_on_record_is_stopped():
    for path, trace in on_record("bp", penalty=0.0):
        (entry,) = replay(path)
        assert entry.course.stop is None
        assert entry.course.measured == len(trace) == 31


def test_other_policies_stop_elsewhere():
    (patient,) = replay(DFA, policy=StopPolicy(patience=2))
    assert patient.course.stop.epoch == first_epoch_at(DFA, grown) + 1
    (drift,) = replay(BP, policy=StopPolicy(("c",)))
    assert drift.course.stop.epoch == 0


def write_csv(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, dict.fromkeys(key for row in rows for key in row))
        writer.writeheader()
        writer.writerows(rows)
    return path


ROWS = [
    {"ep": 1, "in": 1.0, "mid": 1.5, "out": 2.0, "grad": 1e-3, "val": 0.3},
    {"ep": 2, "in": 1.0, "mid": 90.0, "out": 99.0, "grad": 1e-5, "val": 0.32},
    {"ep": 3, "in": 1.0, "mid": 900.0, "out": 999.0, "grad": 1e-9, "val": 0.31},
]
COLUMNS = "h_0=in,h_1=mid,h_2=out,g_2=grad,acc=val,epoch=ep"


def test_a_csv_log_gives_the_course_and_the_last_verdict(tmp_path):
    (entry,) = replay(write_csv(tmp_path / "log.csv", ROWS), columns=COLUMNS)
    assert entry.name == "log"
    assert {letter: at.epoch for letter, at in entry.course.first_fired.items()} == {"a": 2, "b": 3}
    assert entry.course.stop.epoch == 2
    assert (entry.course.accuracy_at_stop, entry.course.best_accuracy_after) == (0.32, 0.31)
    assert entry.course.saved_share == pytest.approx(1 / 3)
    assert entry.report.verdict == "needs walk-back: residual stream exploded; BP grad at numerical floor"
    assert entry.report.reading("b").site == 2


def test_json_lines_with_nested_names_lists_percent_and_several_runs(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [
        {"run": run, "step": step, "norms": {"h": [1.0, 1.0, last], "g": [1e-3, 1e-3, 1e-3]}, "acc": 61.5}
        for run, last in (("good", 2.0), ("bad", 200.0))
        for step in (10, 20)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    good, bad = replay(
        path, columns={"h": "norms.h", "g": "norms.g", "acc_percent": "acc", "step": "step", "name": "run"}
    )
    assert (good.name, good.report.verdict, good.course.stop) == ("good", "trustworthy", None)
    assert (bad.name, bad.course.stop.step) == ("bad", 10)
    assert good.report.headline_acc == 0.615
    assert good.report.residual_norms == (1.0, 1.0, 2.0)


def test_rows_of_one_epoch_are_taken_together_and_empty_cells_are_nothing(tmp_path):
    rows = [{"epoch": 1, "h0": 1.0, "hL": 2.0}, {"epoch": 1, "val_acc": 0.5}, {"epoch": 2, "val_acc": 0.6}]
    (entry,) = replay(write_csv(tmp_path / "m.csv", rows), columns="h_0=h0,h_L=hL,acc=val_acc,epoch=epoch", blocks=3)
    assert entry.course.measured == 1
    assert entry.report.headline_acc == 0.5
    assert entry.report.reading("a").state is State.UNDECIDED


def test_gradients_of_another_batch_size_are_brought_to_128(tmp_path):
    path = write_csv(tmp_path / "l.csv", [{"h": 1.0, "k": 1.0, "g": 4.6e-8}])
    columns = "h_0=h,h_1=k,g_1=g"
    assert replay(path, columns=columns)[0].report.reading("b").state is State.FIRE
    (entry,) = replay(path, columns=columns, loss_batch=1280)
    assert entry.report.reading("b").value == pytest.approx(4.6e-7)
    assert entry.report.reading("b").state is State.PASS


def test_the_log_of_a_hugging_face_trainer(tmp_path):
    path = tmp_path / "trainer_state.json"
    path.write_text(
        json.dumps({"log_history": [{"epoch": 1.0, "h0": 1, "h1": 60}, {"epoch": 1.0, "eval_accuracy": 0.2}]})
    )
    (entry,) = replay(path, columns="h_0=h0,h_1=h1,acc=eval_accuracy,epoch=epoch")
    assert entry.course.stop.epoch == 1
    assert entry.report.headline_acc == 0.2


def test_nan_in_a_log_is_no_pass(tmp_path):
    (entry,) = replay(write_csv(tmp_path / "l.csv", [{"a": "nan", "b": 1.0}]), columns="h_0=a,h_1=b")
    assert entry.report.verdict == "needs walk-back: non-finite values"


def test_a_run_folder_and_a_trace_cut_short(tmp_path):
    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "trace.jsonl"
    path.write_text(DFA.read_text() + '{"epoch": 40, "resid')
    with pytest.warns(UserWarning, match="dropped"):
        (entry,) = replay(tmp_path / "run")
    assert entry.name == "run"
    assert entry.course.measured == len(lines_of(DFA))


def test_all_required_makes_a_trace_incomplete():
    (entry,) = replay(BP, require_all=True)
    assert entry.report.verdict == "incomplete: (d) not measured"


@pytest.mark.parametrize(
    ("columns", "blocks", "error", "expected"),
    [
        ("h_0=in,h_2=nowhere", None, RecordError, r"no column 'nowhere'\. Its columns: ep, in, mid, out, grad, val\."),
        ("h_0=in,h_2=ouut", None, RecordError, r"no column 'ouut'\. Did you mean 'out'\?"),
        ("in=h_0,h_2=out", None, InputError, r"in=h_0; expected NAME=COLUMN\. Did you reverse them\? Write h_0=in"),
        ("h_0=in,h_0=mid,h_2=out", None, InputError, "h_0 twice"),
        ("h_0=in,hL=out", None, InputError, "unknown value 'hL'"),
        ("acc=val", None, InputError, "names no site"),
        ("h_0", None, InputError, "name=column pairs"),
        ("h_0=in,h_L=out", None, InputError, "number of blocks is not known.*--blocks"),
        ("h_0=in,h_5=out", 2, RecordError, "names site 5"),
        ("h_0=in,h_1=out,acc=ep", None, RecordError, "acc is 2; expected a share"),
        (None, None, InputError, r"Say which column holds which value with --map.*Its columns: ep, in"),
        ("h_0=in,h_1=out", 0, InputError, "blocks is 0"),
    ],
)
def test_a_map_that_does_not_fit_is_refused_with_what_there_is(tmp_path, columns, blocks, error, expected):
    path = write_csv(tmp_path / "log.csv", ROWS)
    with pytest.raises(error, match=expected):
        replay(path, columns=columns, blocks=blocks)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "h,k\nx,1\n", "line 2, column 'h' holds 'x'; expected a number"),
        ("a.csv", "", "is empty; expected a header row"),
        ("a.csv", "h,k\n", "has a header row and no row below it"),
        # Lines are those that an editor counts: with the header row, and with blank ones.
        ("a.csv", "h,k\n1,2\n\n3,abc\n", "line 4, column 'k' holds 'abc'"),
        ("a.jsonl", '{"h": 1, "k": 2}\n\n{"h": 1, "k": "abc"}\n', "line 3, column 'k' holds 'abc'"),
        ("a.csv", "h,k\n1\n1,2\n", "line 2 has 1 cell where the header row has 2"),
        ("a.csv", "h,k\n\n1,2\n1,2,3\n", "line 4 has more cells"),
        ("a.csv", "h,k\n,\n", "no row holds the size"),
        ("a.jsonl", '{"h": 1, "k": 2}\n[1]\n', "line 2 is list"),
        ("a.jsonl", '{"h": 1, "k": 2}\nnonsense\n{}\n', "line 2 is not JSON"),
        ("a.jsonl", '{"h": [1], "k": 2}\n{}\n', "expected a number"),
    ],
)
def test_a_log_that_cannot_be_read_is_refused(tmp_path, name, content, expected):
    (tmp_path / name).write_text(content)
    with pytest.raises(RecordError, match=expected):
        replay(tmp_path / name, columns="h_0=h,h_1=k")


def test_an_empty_trace_and_an_offline_run_of_wandb(tmp_path):
    (tmp_path / "trace.jsonl").write_text('{"unmeasured": "no blocks", "epoch": 0}\n{"epoch": 1, "unmeasured": "x"}\n')
    (entry,) = replay(tmp_path)
    assert entry.report.verdict.startswith("incomplete")
    (tmp_path / "run-x.wandb").write_bytes(b":W&B")
    with pytest.raises(RecordError, match="no public reader"):
        replay(tmp_path / "run-x.wandb")


def test_a_pair_the_wrong_way_round_is_seen_where_both_words_are_names_of_values(tmp_path):
    path = write_csv(tmp_path / "log.csv", [{"loss": 1.0, "k": 2.0}])
    with pytest.raises(RecordError, match=r"loss=h_0; .*Write h_0=loss"):
        replay(path, columns="loss=h_0,h_1=k")
