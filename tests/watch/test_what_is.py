"""One reader says what a file is: every kind, by what is in it; and what came is named where another was expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from walkback.errors import RecordError
from walkback.lab.studies.audited import load_audit
from walkback.protocol.judge import judge
from walkback.protocol.records import Measurements
from walkback.watch.replay import replay
from walkback.watch.what_is import Kind, require, what_is

ROOT = Path(__file__).parents[2]
REPORT = judge(Measurements(residual_norms=[1.0, 2.0], bp_grad_norms=[1e-3, 1e-3]), method_name="bp").to_dict()
LINE = {"epoch": 1, "residual_norms": [1.0, 2.0]}
PUBLISHED = {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}

FILES = {
    "report.json": (REPORT, Kind.REPORT),
    "replayed.json": ([{"name": "a", "source": "b"} | REPORT], Kind.REPLAYED),
    "audit_made.json": ({"audit_version": 1, "reports": [], "runs": []}, Kind.AUDIT),
    "published.json": ({"reports": {"bp_s1": PUBLISHED}}, Kind.PUBLISHED),
    "rows.json": ([{"h_norms": [1, 2], "g_norms": [1, 1]}], Kind.ROWS),
    "empty.json": ([], Kind.ROWS),
    "0123456789ab.json": ({"result_version": 1, "trace": [LINE], "residual_norms": [1]}, Kind.RESULT),
    "null_made.json": ({"study_version": 6, "study": "null"}, Kind.STUDY),
    "state.json": ({"log_history": [{"loss": 1}]}, Kind.OTHER),
    "list.json": ([1, 2], Kind.OTHER),
    "word.json": ("word", Kind.OTHER),
}
TEXTS = {
    "a.jsonl": (json.dumps(LINE) + "\n" + json.dumps(LINE), Kind.TRACE),
    "one.jsonl": (json.dumps(LINE) + "\n", Kind.TRACE),
    "failed.jsonl": (json.dumps({"epoch": 0, "unmeasured": "no blocks"}), Kind.TRACE),
    "named.jsonl": (json.dumps({"trace_version": 1, "network": {}}), Kind.TRACE),
    "log.jsonl": ('{"h": 1}\n{"h": 2}\n', Kind.LINES),
    "log.json": ('{"h": 1}\n{"h": 2}\n', Kind.LINES),
    "log.csv": ("h,g\n1,2\n", Kind.TABLE),
    "log.tsv": ("h\tg\n1\t2\n", Kind.TABLE),
    "events.out.tfevents.1": ("", Kind.EVENTS),
    "run.wandb": ("", Kind.WANDB),
    "nan.json": ('{"reports": [{"headline_acc": NaN}]}', Kind.PUBLISHED),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("indent", [None, 1])
def test_json_is_known_by_what_it_holds(tmp_path, name, indent):
    content, kind = FILES[name]
    (tmp_path / name).write_text(json.dumps(content, indent=indent))
    found = what_is(tmp_path / name)
    assert (found.kind, found.content, found.path) == (kind, content, tmp_path / name)


@pytest.mark.parametrize("name", TEXTS)
def test_other_files_are_known_too_and_not_read_whole(tmp_path, name):
    text, kind = TEXTS[name]
    (tmp_path / name).write_text(text)
    found = what_is(tmp_path / name)
    assert found.kind is kind
    assert (found.content is None) == (kind is not Kind.PUBLISHED)


@pytest.mark.parametrize(
    ("names", "kind", "file"),
    [
        (("config.json", "trace.jsonl"), Kind.RUN, ""),
        (("config.json",), Kind.RUN, ""),
        (("trace.jsonl",), Kind.TRACE, "trace.jsonl"),
        (("events.out.tfevents.1",), Kind.EVENTS, ""),
        (("run-1.wandb",), Kind.WANDB, ""),
    ],
)
def test_a_folder_is_what_it_holds(tmp_path, names, kind, file):
    for name in names:
        (tmp_path / name).write_text(json.dumps(LINE))
    found = what_is(tmp_path)
    assert (found.kind, found.path) == (kind, tmp_path / file)


@pytest.mark.parametrize("text", ["", "{", "h,g", "\0", "[" * 500])
def test_what_is_neither_json_nor_a_log_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(RecordError, match=r"a\.json (is not JSON|is empty|breaks off at character)"):
        what_is(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"dear reviewer\nhello\n", "begins with 'dear reviewer'"),
        (b"\n  " + b"n" * 1000, f"begins with '{'n' * 29}…'"),
        (b'{"a": 1,\n "b" 2}', "line 2, column 6"),
        (b"caf\xe9", r"UTF-8 text \(byte 4\)"),
    ],
)
def test_text_that_is_no_json_is_told_without_the_words_of_a_parser(tmp_path, text, words):
    (tmp_path / "note.txt").write_bytes(text)
    with pytest.raises(RecordError, match=f"is not JSON: .*{words}") as refused:
        what_is(tmp_path / "note.txt")
    assert "char " not in str(refused.value)
    assert "codec" not in str(refused.value)


def test_a_folder_of_nothing_and_a_file_that_is_not_there_are_refused(tmp_path):
    for path, why in ((tmp_path, "it is a directory"), (tmp_path / "none.json", "no such file")):
        with pytest.raises(RecordError, match=f"cannot read .*{why}.*directory of a run, a log as CSV"):
            what_is(path)


@pytest.mark.parametrize("kind", Kind)
def test_what_came_and_what_was_expected_are_named(tmp_path, kind):
    (tmp_path / "s.json").write_text(json.dumps({"study_version": 6}))
    if kind is Kind.STUDY:
        assert require(tmp_path / "s.json", kind, "") == {"study_version": 6}
        return
    with pytest.raises(RecordError) as refused:
        require(tmp_path / "s.json", kind, "Give another.")
    assert str(refused.value) == f"{tmp_path / 's.json'} is {Kind.STUDY.value}; expected {kind.value}. Give another."


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("null_made.json", Kind.STUDY.value),
        ("state.json", "JSON with log_history"),
        ("list.json", "JSON, a list"),
        ("word.json", "JSON, a str"),
    ],
)
def test_replay_names_what_came(tmp_path, name, told):
    (tmp_path / name).write_text(json.dumps(FILES[name][0]))
    with pytest.raises(RecordError) as refused:
        replay(tmp_path / name)
    assert f"{name} is {told}, not a record" in str(refused.value)


def test_a_study_of_a_log_is_refused(tmp_path):
    (tmp_path / "log.csv").write_text("h,g\n1,2\n")
    with pytest.raises(RecordError, match=f"is {Kind.TABLE.value}; expected an audit"):
        load_audit(tmp_path / "log.csv")


def test_a_run_that_has_not_begun_is_told(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RecordError, match="that holds no trace yet"):
        replay(tmp_path)


def test_everything_on_record_is_known():
    kinds = {path.name: what_is(path).kind for path in (ROOT / "results").glob("*.json")}
    assert {kind for name, kind in kinds.items() if name.startswith("audit_")} == {Kind.AUDIT}
    assert {kind for name, kind in kinds.items() if name.startswith(("ablation_", "sensitivity_"))} == {Kind.STUDY}
    golden = {path.name: what_is(path).kind for path in (ROOT / "tests" / "golden").iterdir() if path.is_file()}
    assert set(golden.values()) == {Kind.PUBLISHED, Kind.ROWS, Kind.TRACE}
