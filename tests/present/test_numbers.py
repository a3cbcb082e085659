import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walkback.present.numbers import (
    against,
    count,
    interval_bounds,
    interval_ends,
    percent,
    reading_value,
    round_number,
    signed,
    written,
)
from walkback.protocol.records import Interval, Reading, State


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.00801, "0.00801"), (0.001, "0.00100"), (0.000999, "9.99e-04"), (0.9999, "1.00"), (0.5, "0.500"),
        (10.961, "11.0"), (694.458, "694"), (35824.8, "35800"), (99949.0, "99900"), (99999.9, "1.00e+05"),
        (435299520.0, "4.35e+08"), (4.1747e-9, "4.17e-09"), (-0.0359, "-0.0359"), (-4.2e8, "-4.20e+08"),
        (0.0, "0"), (-0.0, "0"), (5e-324, "4.94e-324"), (math.nan, "NaN"), (math.inf, "Infinity"),
        (-math.inf, "-Infinity"), (None, "–"),
    ],
)  # fmt: skip
def test_three_significant_digits_plain_in_the_middle_scientific_beyond(value, expected):
    assert written(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_figure_is_the_number_to_three_digits(value):
    assert float(written(value)) == float(f"{value:.2e}")


@given(st.floats(1e-12, 1e12), st.sampled_from([50.0, 1e-7, 0.3, 2.0]))
def test_a_figure_never_rounds_across_its_threshold(value, threshold):
    shown = float(against(value, threshold))
    assert (shown > threshold) == (value > threshold)
    assert (shown < threshold) == (value < threshold)


def test_a_figure_just_past_its_threshold_shows_the_digits_that_decide():
    assert against(50.0004, 50.0) == "50.0004"
    assert against(2040.7, 50.0) == "2040"
    assert against(50.0, 50.0) == "50.0"


def test_signs_scores_and_counts():
    assert [signed(v) for v in (0.068, -0.022, 0.0, math.inf)] == ["+0.0680", "-0.0220", "0", "Infinity"]
    assert [percent(v) for v in (0.3107, 1.0, None, math.nan)] == ["31.07 %", "100.00 %", "–", "NaN"]
    assert [round_number(v) for v in (50.0, 1e-7, 0.3, None)] == ["50", "1e-07", "0.3", "–"]
    assert [count(1, "site"), count(10000, "sample")] == ["1 site", "10,000 samples"]


@pytest.mark.parametrize(
    ("value", "unit", "written"),
    [
        (2.314, "pp", "+2.31 pp"),
        (2043.0, "×", "2040×"),
        (math.nan, "×", "NaN"),
        (None, "pp", "–"),
        (0.25, "", "0.250"),
    ],
)
def test_a_reading_carries_its_unit(value, unit, written):
    reading = Reading(letter="x", name="x", state=State.PASS, value=value, unit=unit)
    assert reading_value(reading) == written


def test_an_interval_of_a_cosine_ends_where_a_cosine_does():
    def reading(letter, low, high):
        interval = Interval(low=low, high=high, level=0.95, how="")
        return Reading(letter=letter, name="x", state=State.PASS, value=0.5, threshold=0.3, interval=interval)

    assert interval_bounds(reading("c", -0.435, 1.46)) == ("-0.435", "1.00")
    assert interval_ends(reading("c", -1.2, 0.4)) == (-1.0, 0.4)
    assert interval_ends(reading("a", -1.2, 6.1)) == (-1.2, 6.1)
    assert interval_ends(reading("c", math.inf, math.inf)) == (math.inf, math.inf)
    assert interval_ends(Reading(letter="c", name="x", state=State.PASS, value=0.5)) is None
