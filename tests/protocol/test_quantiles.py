"""The two quantiles and the tail that judging has without SciPy are SciPy's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import bdtr, ndtri, stdtrit

from walkback.protocol.quantiles import coin_tail, normal_reach, student_reach
from walkback.protocol.uncertainty import LEVEL


def test_the_normal_quantile_of_every_report_is_scipys_but_for_the_last_bit():
    assert normal_reach(LEVEL) == pytest.approx(float(ndtri((1 + LEVEL) / 2)), rel=2.3e-16)


@given(st.floats(0.01, 0.9999))
def test_the_normal_quantile_is_scipys(level):
    assert normal_reach(level) == pytest.approx(float(ndtri((1 + level) / 2)), rel=1e-12)


@pytest.mark.parametrize("degrees", [*range(1, 61), 127, 500, 1001, 20000])
def test_the_student_quantile_of_every_report_is_scipys(degrees):
    assert student_reach(degrees, LEVEL) == pytest.approx(float(stdtrit(degrees, (1 + LEVEL) / 2)), rel=1e-12)


@given(st.integers(1, 300), st.floats(0.1, 0.999))
def test_the_student_quantile_is_scipys_at_any_level(degrees, level):
    assert student_reach(degrees, level) == pytest.approx(float(stdtrit(degrees, (1 + level) / 2)), rel=1e-11)


def test_the_student_quantile_against_printed_tables():
    # Any textbook's table of t, two-sided 95 % and 99 %.
    assert [round(student_reach(degrees, 0.95), 3) for degrees in (1, 2, 9, 30)] == [12.706, 4.303, 2.262, 2.042]
    assert [round(student_reach(degrees, 0.99), 3) for degrees in (1, 2, 9, 30)] == [63.657, 9.925, 3.250, 2.750]


@pytest.mark.parametrize(
    ("heads", "throws"), [(0, 0), (0, 1), (1, 1), (3, 7), (0, 2000), (900, 2000), (24_800, 50_000)]
)
def test_the_tail_of_a_coin_is_scipys(heads, throws):
    assert coin_tail(heads, throws) == pytest.approx(float(bdtr(heads, throws, 0.5)), rel=1e-9)


@given(st.integers(0, 400).flatmap(lambda throws: st.tuples(st.integers(0, throws), st.just(throws))))
def test_the_tail_of_any_coin_is_scipys(thrown):
    assert coin_tail(*thrown) == pytest.approx(float(bdtr(*thrown, 0.5)), rel=1e-11)
