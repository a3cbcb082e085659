"""The fuzzer: a thousand inputs of every kind, and that it finds each kind of fault where one is planted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import fuzz_held
import fuzz_run
import pytest
from fuzz_held import Ran, ended_well, findings_of, half_written, holds_nan
from fuzz_mutators import MARKUP, mutated_bytes, mutated_json
from fuzz_targets import TARGETS, VERBS, pick
from hypothesis import given, settings
from hypothesis import strategies as st

import walkback
from walkback.cli.entry import LAB_VERBS
from walkback.cli.entry import VERBS as ALL_VERBS
from walkback.errors import WalkbackError
from walkback.protocol.json_codec import parse_json
from walkback.protocol.records import Measurements

INPUTS = 1000


@pytest.mark.slow
def test_a_thousand_inputs():
    command = [
        sys.executable,
        fuzz_run.__file__,
        "--inputs",
        str(INPUTS),
        "--seed",
        "0",
        "--jobs",
        "1",
        "--record",
        "-",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=fuzz_run.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"{INPUTS:,} inputs, 0 findings")


def test_every_verb_has_a_command_line_and_every_kind_its_share():
    tried = {words[0] for words in VERBS} | {words[1] for words in VERBS if words[0] == "lab"}
    assert tried >= (ALL_VERBS.keys() | LAB_VERBS.keys()) - {"lab"}
    drawn = {pick(Random(number)) for number in range(2000)}
    assert drawn == TARGETS.keys()


def test_an_input_is_the_same_each_time_and_its_command_names_it():
    assert mutated_bytes(Random(3), b"a sound file") == mutated_bytes(Random(3), b"a sound file")
    assert mutated_json(Random(3), {"a": [1, 2]}) == mutated_json(Random(3), {"a": [1, 2]})
    assert len({mutated_bytes(Random(number), b"a sound file") for number in range(50)}) > 40
    assert fuzz_run.reproducer(7, 41) == "python tests/fuzz/fuzz_run.py --seed 7 --case 41"


@pytest.fixture
def places(tmp_path):
    inputs, outputs = tmp_path / "in", tmp_path / "out"
    inputs.mkdir()
    outputs.mkdir()
    (inputs / "record.json").write_text("{}")
    return inputs, outputs


def faults(places, act):
    """The rules that this breaks."""

    def acting():
        act()
        yield from ()

    return [finding.rule for finding in findings_of(acting, *places)]


def test_what_is_refused_by_walkback_is_no_finding(places):
    def refuse():
        raise WalkbackError("a sentence")

    assert faults(places, refuse) == []
    assert faults(places, lambda: None) == []


def test_planted_faults_are_found(places, monkeypatch):
    inputs, outputs = places
    monkeypatch.setattr(fuzz_held, "CPU_SECONDS", 0.2)

    def hang():
        while True:
            pass

    def forget():
        raise MemoryError

    assert faults(places, lambda: 1 / 0) == ["no exception but walkback's"]
    assert faults(places, lambda: sys.exit(0)) == ["no exception but walkback's"]
    assert faults(places, forget) == ["memory"]
    with fuzz_held.limited(0.2), pytest.raises(fuzz_held.TooLong):
        hang()
    assert faults(places, lambda: (inputs / "record.json").write_text("{} ")) == ["no changed input"]
    assert faults(places, lambda: (inputs / "more").touch()) == ["no changed input"]
    assert faults(places, lambda: (outputs / "o.json").write_text('{"a": NaN}')) == ["no file half-written"]


@pytest.mark.parametrize(
    ("name", "content", "rules"),
    [
        ("o.json", b'{"a": 1}', []),
        ("o.json", b'{"a": ', ["no file half-written"]),
        ("o.html", b"<html></html>\n", []),
        ("o.html", b"<html>", ["no file half-written"]),
        ("o.html", MARKUP.encode() + b"</html>", ["no markup"]),
        (".o.json.x1", b"{}", ["no file half-written"]),
        ("o.csv", b"", ["no file half-written"]),
    ],
)
def test_half_a_file_and_live_markup_are_seen(name, content, rules, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert [finding.rule for finding in half_written(tmp_path)] == rules


@pytest.mark.parametrize(
    ("ran", "rules"),
    [
        (Ran(0, "fine", ""), []),
        (Ran(2, "", "walkback: a sentence"), []),
        (Ran(2, "", ""), ["a sentence"]),
        (Ran(2, "", "Traceback (most recent call last):\n  x\nKeyError: 1"), ["no exception but walkback's"]),
        (Ran(130, "", "x"), ["exit status"]),
        (Ran(0, "\x1b[31m", ""), ["no escape sequence"]),
        (Ran(2, "", "walkback: there is not enough memory for this."), ["memory"]),
    ],
)
def test_a_command_that_ends_badly_is_seen(ran, rules, tmp_path):
    assert [finding.rule for finding in ended_well(ran, tmp_path)] == rules


def test_an_error_that_leaves_a_file_is_seen(tmp_path):
    (tmp_path / "o.csv").write_text("a\n")
    assert [finding.rule for finding in ended_well(Ran(2, "", "no"), tmp_path)] == ["no file half-written"]


def test_a_process_that_dies_is_a_finding_and_the_rest_is_tried(tmp_path, monkeypatch):
    """A child that ends at input 1 of three, as one that the system kills would."""
    program = tmp_path / "fuzz_run.py"
    program.write_text(
        "import json, os, sys\n"
        "first, last, notes = sys.argv[2:5]\n"
        "with open(notes, 'a', buffering=1) as said:\n"
        "    for case in range(int(first), int(last)):\n"
        "        said.write(json.dumps({'case': case}) + '\\n')\n"
        "        if case == 1:\n"
        "            os._exit(9)\n"
        "        said.write(json.dumps({'case': case, 'target': 'logs', 'seconds': 1, 'found': []}) + '\\n')\n"
    )
    monkeypatch.setattr(fuzz_run, "HERE", tmp_path)
    record = tmp_path / "fuzz.json"
    state = fuzz_run.fuzz(5, 3, 1, record)
    assert state["inputs"] == 3
    (found,) = state["findings"]
    assert (found["rule"], found["again"]) == ("no crash", fuzz_run.reproducer(5, 1))
    program.write_text("raise SystemExit('nothing is left to try')")
    assert fuzz_run.fuzz(5, 3, 1, record)["inputs"] == 3, "what is on record is not tried again"
    assert json.loads(record.read_text())["chunks"] == [[0, 3]]


def test_nan_is_found_wherever_it_is():
    assert holds_nan({"a": [1, {"b": "NaN"}]})
    assert holds_nan([float("nan")])
    assert not holds_nan({"NaN": [1, "nan", None, float("inf")]})


FIGURES = st.one_of(st.floats(), st.integers(), st.none(), st.text(max_size=3), st.booleans())


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from(sorted(Measurements.model_fields)),
        st.one_of(FIGURES, st.lists(FIGURES, max_size=4)),
        max_size=5,
    )
)
def test_judging_anything_is_refused_or_says_what_its_record_says(fields):
    try:
        report = walkback.judge(Measurements(**fields))
    except WalkbackError:
        return
    again = walkback.DiagnosticReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert (again.verdict, again.outcome) == (report.verdict, report.outcome)
    known = {name: value for name, value in report.to_dict().items() if name in fields and name != "alignment"}
    assert report.outcome != "pass" or not holds_nan(known)


@settings(max_examples=200)
@given(st.one_of(st.text(), st.binary(), st.text(alphabet='{}[]",:0123456789eE+-.NaInfty \\u')))
def test_any_text_is_json_or_a_value_error(text):
    try:
        parse_json(text)
    except ValueError:
        return


def test_the_record_is_of_the_whole_and_has_no_finding():
    found = json.loads(Path(fuzz_run.RECORD).read_text())
    assert found["inputs"] == sum(found["by_target"].values())
    assert found["findings"] == []
