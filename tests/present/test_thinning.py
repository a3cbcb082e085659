"""Pictures of long courses: few points, and no peak, gap or firing lost."""

import json
import math
import random
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walkback.lab.present.networks import networks_in
from walkback.lab.runs.store import RunStore
from walkback.present.thinning import kept, summed_up
from walkback.present.timeline import timelines

VALUES = st.lists(st.none() | st.floats(), max_size=400)


@given(st.integers(1, 60), st.integers(12, 60))
def test_all_are_kept_where_they_fit(count, most):
    numbers = kept([0.0] * count, most, [False] * count)
    assert numbers == list(range(count)) or count > most


@given(st.integers(61, 900), st.integers(12, 60), st.integers(0, 2**32), st.sampled_from([0.003, 0.05, 0.5]))
def test_no_peak_no_gap_and_no_firing_is_lost(count, most, seed, share):
    chance = random.Random(seed)
    values = [chance.gauss(0, 1) for _ in range(count)]
    for odd in (math.nan, math.inf, None, 1e9, -1e9):
        values[chance.randrange(count)] = odd
    fires = [chance.random() < share for _ in values]
    numbers = kept(values, most, fires)
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, count - 1)
    assert len(numbers) <= most
    finite = [v for v in values if v is not None and math.isfinite(v)]
    shown = [values[i] for i in numbers if values[i] is not None]
    assert {min(finite), max(finite)} <= set(shown)
    if any(v is not None and not math.isfinite(v) for v in values):
        assert not all(map(math.isfinite, shown))
    # Of every stretch in which something fires, something that fires is kept.
    stretches = max((most - 2) // 5, 1)
    edges = [round(i * count / stretches) for i in range(stretches + 1)]
    for low, high in pairwise(edges):
        assert any(fires[low:high]) == any(fires[i] for i in numbers if low <= i < high)


def test_what_must_stay_stays_and_the_rest_is_spread():
    numbers = kept([0.0] * 10_000, 100, [False] * 10_000, [1234])
    assert 1234 in numbers
    assert len(numbers) == 100
    assert max(b - a for a, b in pairwise(numbers)) < 600


@given(VALUES.filter(len))
def test_a_sparkline_shows_what_is_not_finite_and_the_last(values):
    shown = summed_up(values, 10, max)
    assert len(shown) == min(len(values), 10)
    assert shown[-1] is values[-1]
    finite = [v for v in values if v is not None and math.isfinite(v)]
    if any(v is not None and not math.isfinite(v) for v in values):
        assert any(v is not None and not math.isfinite(v) for v in shown)
    elif finite:
        assert max(finite) == max(v for v in shown if v is not None)


@pytest.fixture
def long_trace(tmp_path):
    """9,000 steps; at one of them alone the stream explodes, at another the gradient vanishes."""
    lines = []
    for step in range(1, 9_001):
        norms, gradient = [1.0, 1.01, 1.02], 1e-2
        if step == 4_321:
            norms = [1.0, 100.0, 102.0]
        if step == 6_789:
            gradient = 1e-9
        lines.append({"step": step, "residual_norms": norms, "bp_grad_norms": [gradient] * 3, "accuracy": 0.5})
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_page_of_a_long_trace_is_small_and_shows_the_one_line_that_fires(long_trace, tmp_path):
    (network,) = networks_in([str(long_trace)], RunStore(tmp_path / "runs"))
    panels = {panel.letter: panel for panel in timelines([network]) if panel.letter}
    for letter, step in (("a", 4_321), ("b", 6_789)):
        (curve,) = panels[letter].curves
        assert str(step) in curve.at.split("|")
        assert curve.mark[2].endswith(f"({letter}) first fires at step {step}")
        assert len(re.findall(r"[\d.]+,[\d.]+", curve.path)) <= 1_000
