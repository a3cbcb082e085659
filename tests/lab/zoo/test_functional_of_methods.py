"""Perturbation ρ on a network of the zoo: of backpropagation nearly 1, of fresh feedback none in the mean."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import walkback
from walkback.lab.runs.assembly import assemble
from walkback.lab.runs.config import RunConfig
from walkback.lab.zoo.datasets import evaluation_batches, load_dataset
from walkback.protocol.credit import fresh_draws

DRAWS, SAMPLES = 20, 32
SHAPE = {"width": 256, "depth": 4}


def made(method):
    """ResMLP of the published width and depth after 14 steps of backpropagation on digits, and a method on it."""
    data = load_dataset("digits")
    torch.manual_seed(0)
    runs = [
        assemble(
            RunConfig(method=name, architecture="resmlp", data="digits", seed=0, epochs=1, architecture_options=SHAPE),
            data.spec,
        )
        for name in ("bp", method)
    ]
    trained, other = runs
    batches = list(evaluation_batches(data.train, 100))[:14]
    for inputs, targets in batches:
        trained.method.accumulate(inputs, targets)
        trained.optimizer.step()
        trained.optimizer.zero_grad(set_to_none=True)
    other.model.load_state_dict(trained.model.state_dict())
    return other, [next(iter(evaluation_batches(data.test, SAMPLES)))]


def measured(run, rule, batches):
    blocks = list(run.model.blocks)
    return walkback.diagnose(run.model, batches, credit=rule, blocks=blocks, null_draws=0, functional=SAMPLES)


def test_of_backpropagation_it_is_one_and_a_nudge_lowers_the_loss():
    run, batches = made("bp")
    report = measured(run, run.method, batches)
    assert min(report.perturbation_rho) >= 0.99
    assert max(interval.high for interval in report.nudge_intervals) < 0


@pytest.fixture(scope="module")
def fresh():
    """ρ at each site under 20 fresh draws of DFA's feedback, (draws, sites)."""
    run, batches = made("dfa")
    reports = [measured(run, rule, batches) for rule in fresh_draws(run.method, DRAWS, seed=20260619)]
    return np.array([report.perturbation_rho for report in reports])


def test_over_twenty_fresh_draws_of_feedback_its_mean_is_none(fresh):
    assert fresh.shape == (DRAWS, SHAPE["depth"] + 1)
    assert abs(fresh.mean()) < 0.02


def test_the_draws_do_differ(fresh):
    assert (fresh.std(axis=0, ddof=1) > 0.005).all()
    assert np.abs(fresh).max() < 0.5
