"""Both bridges on a linear-quadratic problem, where the true credit is known: the problem of tools/toy_costate.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from walkback.lab.zoo.methods.value_bridge import terminal_of

SEED = 7


def the_tool():
    path = Path(__file__).parents[3] / "tools" / "toy_costate.py"
    spec = importlib.util.spec_from_file_location("toy_costate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


toy = the_tool()


@pytest.mark.slow
@pytest.mark.parametrize("rule", [toy.by_state, toy.by_value])
def test_a_bridge_recovers_the_costate(rule):
    found, copied = toy.compared(rule, SEED)
    assert found[:-1].mean() >= 0.9
    # To know p_L and hand it to every site is nearly as good close to the end, and is not to have bridged anything.
    assert found[0] > copied[0]


def test_direct_feedback_does_not():
    assert abs(toy.compared(toy.by_random_matrices, SEED)[0].mean()) < 0.2


def test_what_the_value_has_to_agree_with_is_the_loss_and_the_last_costate():
    torch.manual_seed(SEED)
    system = toy.LinearQuadratic()
    states, targets, error = system.batch(8)
    last = terminal_of(lambda h: system.losses(h, targets), states[-1])
    np.testing.assert_allclose(last.gradients, system.costates(error)[-1], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(last.losses, (error.double().numpy() ** 2).sum(1) / 20, rtol=1e-5)
