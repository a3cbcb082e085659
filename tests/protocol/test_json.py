"""JSON from outside: any value of few levels, and a ValueError for everything else."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import walkback
from walkback.errors import InputError, RecordError
from walkback.protocol.json_codec import (
    DEEPEST,
    NON_FINITE,
    as_json,
    from_json,
    json_text,
    number,
    parse_json,
    read_json,
)
from walkback.protocol.records import Measurements

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(VALUES)
def test_what_was_written_is_read(value):
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":[', "[0,"])
def test_nesting_has_an_end(opening):
    levels = opening.count("[") + opening.count("{")
    closing = "".join("]" if mark == "[" else "}" for mark in reversed(opening) if mark in "[{")
    fits, over = DEEPEST // levels, DEEPEST // levels + 1

    def nested(times):
        return opening * times + "1" + closing * times

    assert parse_json(nested(fits))
    for times in (over, 900, 100_000):
        with pytest.raises(ValueError, match=f"nested deeper than {DEEPEST} levels"):
            parse_json(nested(times))


def test_a_file_that_is_nested_without_end_is_told(tmp_path):
    (tmp_path / "deep.json").write_text("[" * 500 + "]" * 500)
    with pytest.raises(RecordError, match=r"deep\.json is not JSON \(nested deeper than"):
        read_json(tmp_path / "deep.json")


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"x": 1, "a": 2, "\\u0061": 3}}]'])
def test_what_is_said_twice_is_refused(tmp_path, text):
    with pytest.raises(ValueError, match="it contradicts itself: 'a' is in one object twice"):
        parse_json(text)
    (tmp_path / "twice.json").write_text(text)
    with pytest.raises(RecordError, match=r"twice\.json contradicts itself: .* 'a' is in one object twice"):
        read_json(tmp_path / "twice.json")


@given(st.recursive(PLAIN | st.floats(), lambda inner: st.lists(inner, max_size=3)))
def test_what_is_not_finite_is_a_word_and_a_number_again(value):
    text = json_text({"deep": [value]})
    strict = json.loads(text, parse_constant=lambda word: pytest.fail(f"a bare {word}"))
    # A text that is one of the words comes back as a number: no field of walkback holds both.
    assert repr(from_json(strict)) == repr({"deep": [from_json(json.loads(json.dumps(as_json(value))))]})
    assert json.loads(json_text(value, compact=True)) == json.loads(json_text(value))


@pytest.mark.parametrize(("value", "word"), [(float(word), word) for word in NON_FINITE])
def test_records_and_other_files_write_the_same_words(value, word):
    assert as_json([value, (1.0, value)]) == [word, [1.0, word]]
    assert Measurements(bp_grad_norms=[1.0, value]).to_dict()["bp_grad_norms"] == [1.0, word]
    assert repr(number(word)) == repr(from_json(word)) == repr(float(word))
    assert number(None) is None


def test_many_names_of_which_the_last_is_said_twice_are_refused_at_once():
    names = ",".join(f'"k{number}":0' for number in range(200_000))
    started = time.process_time()
    with pytest.raises(ValueError, match="'k199999' is in one object twice"):
        parse_json("{" + names + ',"k199999":1}')
    assert time.process_time() - started < 5, "a look at all names for each of them takes many minutes"


def test_half_of_a_surrogate_pair_is_refused_where_it_comes_in_and_where_it_goes_out():
    assert parse_json('{"name": "\\ud83d\\ude00"}') == {"name": "😀"}
    with pytest.raises(ValueError, match="surrogate"):
        parse_json('{"name": "\\ud800"}')
    with pytest.raises(InputError, match="cannot be written"):
        walkback.judge(walkback.Measurements(residual_norms=[1.0, 2.0]), notes="\ud800").to_dict()
