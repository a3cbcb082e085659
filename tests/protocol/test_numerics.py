"""Norms and cosines against fp64 (and, where that ends, exact) arithmetic over the whole range."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from walkback.protocol import numerics

EXPONENTS = st.integers(-37, 37)


def vector(seed, width):
    return np.random.default_rng(seed).standard_normal(width)


@settings(max_examples=200, deadline=None)
@given(
    EXPONENTS,
    EXPONENTS,
    st.integers(1, 300),
    st.integers(0, 10**6),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_norms_and_cosines_match_fp64_from_1e_minus_38_to_1e38(left, right, width, seed, dtype):
    x = torch.tensor(vector(seed, width) * 10.0**left).to(dtype)
    y = torch.tensor(vector(seed + 1, width) * 10.0**right).to(dtype)
    exact_x, exact_y = x.double().numpy(), y.double().numpy()
    norm = math.sqrt(math.fsum(v * v for v in exact_x))
    assert float(numerics.norms(x)) == pytest.approx(norm, rel=1e-6)
    norm_y = math.sqrt(math.fsum(v * v for v in exact_y))
    if norm > 0 and norm_y > 0 and math.isfinite(norm * norm_y):
        cosine = math.fsum(a * b for a, b in zip(exact_x / norm, exact_y / norm_y, strict=True))
        assert float(numerics.cosines(x, y)) == pytest.approx(cosine, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-38, 1.0, 1e38, 1e200, 1e300])
def test_fp64_values_whose_squares_leave_the_range(scale):
    x = torch.tensor([3.0, 4.0], dtype=torch.float64) * scale
    assert float(numerics.norms(x)) == pytest.approx(5 * scale, rel=1e-12)
    assert float(numerics.cosines(x, -2 * x)) == pytest.approx(-1.0, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_smallest_subnormals_are_not_lost(dtype):
    tiny = torch.finfo(dtype).smallest_normal / 4
    x = torch.full((16,), tiny).to(dtype)
    assert float(numerics.norms(x)) == pytest.approx(4 * float(x[0]), rel=1e-9)
    assert float(x[0]) > 0


def test_cosine_of_a_gradient_at_the_floor_is_not_clamped():
    """F.cosine_similarity gives a twentieth of the true value here."""
    x = torch.tensor([1.0, 2.0, 2.0])
    y = torch.tensor([2.0, 0.0, 1.0]) * (5e-10 / 5**0.5)
    assert float(numerics.cosines(x, y)) == pytest.approx(4 / (3 * 5**0.5), rel=1e-6)
    assert float(torch.nn.functional.cosine_similarity(x, y, dim=0)) < 0.1


def test_a_zero_vector_has_no_direction():
    assert numerics.cosines(torch.zeros(3), torch.ones(3)).isnan()
    assert float(numerics.norms(torch.zeros(3))) == 0


def test_non_finite_values_show_in_norms():
    x = torch.tensor([[1.0, float("inf")], [float("nan"), 1.0], [3.0, 4.0]])
    for values in (x, x.double()):
        norms = numerics.norms(values)
        assert norms[0].isinf()
        assert norms[1].isnan()
        assert norms[2] == 5


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_median_is_the_usual_one(values):
    assert float(numerics.median(torch.tensor(values, dtype=torch.float64))) == pytest.approx(np.median(values))


def test_median_of_nan_is_nan():
    assert numerics.median(torch.tensor([1.0, float("nan"), 2.0])).isnan()
