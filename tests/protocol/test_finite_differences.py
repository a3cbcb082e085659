"""Finite differences against gradients that are known by hand."""

import math

import numpy as np
import pytest
import torch

from walkback.protocol.finite_differences import DIRECTIONS, Slope

SAMPLES, WIDTH = 8, 24
GENERATOR = np.random.default_rng(5)
H = torch.from_numpy(GENERATOR.normal(size=(SAMPLES, WIDTH)))
WEIGHTS = GENERATOR.normal(size=WIDTH)


def wave(h):
    """φ = Σ w_i sin(h_i), by numpy."""
    return torch.from_numpy((WEIGHTS * np.sin(h.numpy())).sum(axis=1))


TRUE = torch.from_numpy(WEIGHTS * np.cos(H.numpy()))


def slope(function, grad, at=H, single=False):
    base = function(at)
    return Slope(lambda several: [function(h) for h in several], at, grad, base, base.abs() + 1, single)


def test_the_true_gradient_agrees():
    agreement = slope(wave, TRUE).check()
    assert agreement.agrees
    assert agreement.error < 1e-7
    assert (agreement.directions, agreement.kinks) == (SAMPLES, 0)


@pytest.mark.parametrize("amount", [1e-2, 0.1, 1.0])
def test_an_error_in_size_is_found_with_its_size(amount):
    agreement = slope(wave, TRUE * (1 + amount)).check()
    assert agreement.agrees is False
    # Along the gradient the relative error of its length, and along random signs about as much.
    assert amount / (1 + amount) * 0.99 <= agreement.error < 4 * amount


@pytest.mark.parametrize("amount", [1e-2, 0.1, 1.0])
def test_an_error_across_the_gradient_is_found(amount):
    across = torch.from_numpy(GENERATOR.normal(size=TRUE.shape))
    across -= TRUE * (across * TRUE).sum(1, keepdim=True) / (TRUE * TRUE).sum(1, keepdim=True)
    across *= amount * TRUE.norm(dim=1, keepdim=True) / across.norm(dim=1, keepdim=True)
    agreement = slope(wave, TRUE + across).check()
    assert agreement.agrees is False
    assert amount / 4 < agreement.error < 4 * amount


def test_a_gradient_that_lacks_a_part_of_the_truth_is_wrong_however_small_it_is():
    assert slope(wave, 1e-9 * TRUE).check().error == pytest.approx(1.0, rel=1e-6)
    assert slope(wave, torch.zeros_like(TRUE)).check().agrees is False


def test_a_function_without_any_slope_agrees_with_no_gradient():
    flat = slope(lambda h: torch.ones(len(h), dtype=torch.float64), torch.zeros_like(TRUE)).check()
    assert (flat.agrees, flat.error) == (True, 0.0)


def corner(h):
    """|h_0| on top of the wave: a kink wherever a sample has h_0 = 0."""
    return wave(h) + h[:, 0].abs()


def test_kinks_are_counted_and_the_rest_decides():
    at = H.clone()
    at[:3, 0] = 0.0
    grad = torch.from_numpy(WEIGHTS * np.cos(at.numpy()))
    grad[:, 0] += at[:, 0].sign()
    agreement = slope(corner, grad, at).check()
    assert agreement.agrees
    assert agreement.error < 1e-7
    assert 2 <= agreement.kinks <= 3  # along the gradient h_0 hardly moves
    assert agreement.directions + agreement.kinks == SAMPLES


def test_kinks_at_zeros_of_every_sample_are_gone_around():
    at = H.clone()
    at[:, ::2] = 0.0

    def relu(h):
        return wave(torch.relu(h))

    grad = torch.from_numpy(WEIGHTS * np.cos(at.numpy())) * (at > 0)
    agreement = slope(relu, grad, at).check()
    assert agreement.agrees
    wrong = grad.clone()
    wrong[:, 1] *= 1.5
    assert slope(relu, wrong, at).check().agrees is False


def test_rounding_to_fp32_is_gone_around_by_larger_steps():
    def rounded(h):
        return wave(h).float().double()

    assert not slope(rounded, TRUE).check().agrees  # flat, as far as small steps can see
    assert slope(rounded, TRUE, single=True).check().agrees
    assert slope(rounded, 1.3 * TRUE, single=True).check().agrees is False


def test_noise_settles_nothing():
    noise = np.random.default_rng(0)

    def noisy(h):
        return wave(h) + torch.from_numpy(noise.normal(size=len(h)))

    assert slope(noisy, TRUE).check().agrees is not True


def test_steps_that_the_gradient_does_not_see():
    fine = slope(lambda h: torch.sign(h).sum(1) + wave(h), TRUE)
    assert fine.check().agrees
    assert fine.jumps()
    assert not slope(wave, TRUE).jumps()


def test_few_samples_get_several_directions_each():
    agreement = slope(wave, TRUE[:1], H[:1]).check()
    assert agreement.agrees
    assert agreement.directions == DIRECTIONS


def test_samples_that_are_not_finite_are_left_out():
    at, grad = H.clone(), TRUE.clone()
    at[0, 0], grad[1, 0] = math.nan, math.inf
    agreement = slope(wave, grad, at).check()
    assert agreement.agrees
    assert agreement.directions == SAMPLES - 2
    assert slope(wave, grad * math.nan, at).check().agrees is None


def test_tokens_move_by_their_own_size():
    """A class token a million times smaller than the rest: a step of the rest's size would leave its curve."""
    at = torch.from_numpy(GENERATOR.normal(size=(SAMPLES, 3, 4)))
    at[:, 0] *= 1e-6

    def sharp(h):
        return torch.sin(1e6 * h[:, 0]).sum(1) + h[:, 1:].square().flatten(1).sum(1)

    grad = 2 * at
    grad[:, 0] = 1e6 * torch.cos(1e6 * at[:, 0])
    agreement = slope(sharp, grad, at).check()
    assert agreement.agrees
    assert agreement.kinks == 0
