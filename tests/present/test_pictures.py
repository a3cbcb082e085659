"""Sparklines, scales, gauges and charts: positions mean what the figures say."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from present_samples import AWKWARD, NAN, full

from walkback.present.chart import BOTTOM, LEFT, RIGHT, TOP, Series, chart
from walkback.present.gauge import WIDTH, gauge
from walkback.present.panels import panels
from walkback.present.scale import linear_scale, log_scale
from walkback.present.sparkline import sparkline
from walkback.protocol.records import Interval, Reading, State

anything = st.floats()


def test_a_sparkline_is_logarithmic_and_marks_what_it_cannot_draw():
    assert sparkline([1, 10, 1e7]) == "▁▂█"
    assert sparkline([1.0, NAN, None, math.inf, 0.0, 1e6]) == "▁!·!▁█"


def test_a_flat_series_is_drawn_flat():
    assert len(set(sparkline([8.70, 8.71, 8.72]))) == 1


@given(st.lists(anything | st.none()))
def test_a_sparkline_has_one_character_per_value(values):
    assert len(sparkline(values)) == len(values)


@given(st.lists(anything, min_size=1), anything, st.booleans())
def test_a_scale_puts_every_number_between_its_ends(values, value, logarithmic):
    scale = log_scale(values) if logarithmic else linear_scale(values, 0.2)
    assert 0 <= scale.share(value) <= 1
    assert all(-1e-6 <= t.share <= 1 + 1e-6 for t in scale.ticks())
    assert len(scale.ticks()) <= 6


def test_ticks_are_round_numbers():
    assert [t.label for t in log_scale([1e-9, 1e-5]).ticks()] == ["10⁻⁹", "10⁻⁸", "10⁻⁷", "10⁻⁶", "10⁻⁵"]
    assert [t.label for t in log_scale([1, 1000]).ticks()] == ["1", "10", "100", "1000"]
    assert [t.label for t in linear_scale([0.0, 1.0], 0.2).ticks()] == ["0", "0.5", "1"]


def reading(value, comparison=">", threshold=50.0, unit="×", interval=None):
    return Reading(letter="a", name="growth", state=State.FIRE, value=value, comparison=comparison,
                   threshold=threshold, unit=unit, interval=interval)  # fmt: skip


def test_a_gauge_draws_the_figure_on_the_side_of_the_threshold_where_it_is():
    above, below = gauge(reading(2040.0)), gauge(reading(1.3))
    assert above.value > above.threshold
    assert below.value < below.threshold
    assert above.fires_from == above.threshold < above.fires_to
    floor = gauge(reading(4e-9, "<", 1e-7, ""))
    assert floor.fires_from < floor.value < floor.fires_to == floor.threshold


def test_a_gauge_draws_the_interval_around_the_figure_and_across_the_threshold():
    drawn = gauge(reading(49.0, interval=Interval(low=45, high=55, level=0.95, how="")))
    assert drawn.interval[0] < drawn.value < drawn.threshold < drawn.interval[1]


def test_what_has_no_place_on_a_gauge_is_put_at_its_end_or_left_out():
    assert gauge(reading(math.inf)).beyond == "right"
    assert gauge(reading(0.0, "<", 1e-7, "")).beyond == "left"
    assert gauge(reading(NAN)).value is None
    assert gauge(reading(None)).value is None
    assert "NaN" in gauge(reading(NAN)).described


def test_a_gauge_without_a_threshold_is_not_drawn():
    assert gauge(Reading(letter="e", name="own", state=State.PASS, value=1.0)) is None


@given(
    anything,
    st.sampled_from([(">", 50.0, "×"), ("<", 1e-7, ""), (">", 0.3, ""), ("<", 2.0, "pp"), ("<", 0.0, "pp")]),
)
def test_a_gauge_stays_inside_its_picture(value, rule):
    drawn = gauge(reading(value, *rule, interval=Interval(low=-abs(value), high=abs(value), level=0.9, how="")))
    places = [drawn.threshold, drawn.fires_from, drawn.fires_to, *(t.share for t in drawn.ticks)]
    places += [] if drawn.value is None else [drawn.value]
    places += drawn.interval or []
    assert all(0 <= place <= WIDTH for place in places)


def test_a_chart_keeps_order_and_leaves_a_gap_at_lost_sites():
    drawn = chart(Series([1.0, 10.0, NAN, 1e5, 1e3], ["a", "b", "c", "d", "e"], "‖h‖", True, deciding=frozenset({3})))
    ys = [p.y for p in drawn.points]
    assert ys[0] > ys[1] > ys[4] > ys[3]
    assert [p.shape for p in drawn.points] == ["dot", "dot", "lost", "deciding", "dot"]
    assert len(drawn.paths) == 2
    assert drawn.lost
    assert drawn.points[3].label == "d: ‖h‖ 1.00e+05"


def test_a_chart_shows_the_firing_side_even_if_nothing_is_there():
    drawn = chart(Series([1e-3, 1e-3], ["a", "b"], "‖g‖", True, level=(1e-7, "<")))
    top, height = drawn.fires
    assert top == drawn.threshold
    assert height > 5


def test_a_long_chart_draws_a_line_and_only_the_points_that_matter():
    drawn = chart(Series([1.0] * 500, ["x"] * 500, "‖h‖", True, deciding=frozenset({300})))
    assert [p.shape for p in drawn.points] == ["deciding"]
    assert drawn.paths[0].count("L") == 499
    assert len(drawn.x_ticks) <= 9


@pytest.mark.parametrize("name", AWKWARD)
def test_every_chart_stays_inside_its_picture(name):
    for panel in panels(AWKWARD[name]):
        if panel.chart is None:
            assert panel.missing
            continue
        for point in panel.chart.points:
            assert LEFT <= point.x <= RIGHT
            assert TOP <= point.y <= BOTTOM


def test_the_null_is_a_band_of_two_standard_deviations():
    gamma = panels(full())[3]
    assert gamma.chart.band.startswith("M")
    assert "null mean ± 2 sd" in gamma.legend
