"""Equilibrium propagation against the energy written out, and against backprop in the limit."""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
from zoo_networks import backprop_gradients, batch, gradients, losses_of, sites_of, small, trace_of, true_gradients

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import DataSpec, build_method, build_model


def energy(model, inputs, states, *, tied=True):
    """½‖s_0 − stem(x)‖² (if s_0 is tied to it) + Σ ½‖s_l − block_l(s_{l−1})‖², summed over samples."""
    total = 0.5 * (states[0] - model.stem(inputs)).square().sum() if tied else 0
    for block, below, state in zip(model.blocks, states[:-1], states[1:], strict=True):
        total = total + 0.5 * (state - block(below)).square().sum()
    return total


def cosine(got, expected):
    flat, reference = (torch.cat([grad.flatten() for _, grad in sorted(d.items())]) for d in (got, expected))
    return F.cosine_similarity(flat, reference, dim=0).item()


def test_relaxed_to_convergence_it_tends_to_backprop():
    model, (inputs, targets) = small("resmlp"), batch()
    expected = backprop_gradients(model, inputs, targets)
    cosines = []
    for beta in (1.0, 0.1, 0.01):
        model.zero_grad()
        build_method("ep", model, sweeps=150, step=0.3, beta=beta).accumulate(inputs, targets)
        cosines.append(cosine(gradients(model), expected))
    assert cosines == sorted(cosines)
    assert cosines[-1] > 0.999


def test_its_credit_tends_to_the_true_gradient():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("ep", model, sweeps=150, step=0.3, beta=1e-4)
    credits = method.credits(trace_of(model, inputs, targets))
    for credit, gradient in zip(credits, true_gradients(model, inputs, targets), strict=True):
        assert F.cosine_similarity(credit, gradient).min() > 0.999
        torch.testing.assert_close(credit, gradient, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("first_state", ["tied", "free", "clamped"])
def test_a_sweep_descends_the_energy_one_state_at_a_time(first_state):
    model, (inputs, targets) = small("student_net"), batch()
    update = "energy" if first_state == "tied" else "displacement"
    method = build_method("ep", model, sweeps=2, step=0.2, beta=0.7, first_state=first_state, update=update)
    free = trace_of(model, inputs, targets).hiddens
    got = method.relax(free, targets)
    states = list(free)
    for _ in range(2):
        start = list(states)
        for site in reversed(range(first_state == "clamped", len(states))):
            at = start[site].detach().requires_grad_()
            # States below have not moved yet in this sweep, the state above has.
            around = [*start[:site], at, *states[site + 1 :]]
            loss = losses_of(model.head(around[-1]), targets).sum()
            height = energy(model, inputs, around, tied=first_state == "tied") + 0.7 * loss
            (slope,) = torch.autograd.grad(height, at)
            states[site] = start[site] - 0.2 * slope
    for state, expected in zip(got, states, strict=True):
        torch.testing.assert_close(state, expected)


@pytest.mark.parametrize(
    ("architecture", "options", "step", "fall"),
    [
        ("resmlp", {}, 0.3, 1),
        ("student_net", {}, 0.3, 1),
        ("small_cnn", {}, 0.3, 1),
        ("vit_mini", {}, 0.1, 1),
        # Its head averages over 256 pixels, and each feels so little of the loss that the sum hardly falls.
        ("small_resnet", {}, 0.3, 0),
        # Without skips and with large weights the steps are small, and so is the fall.
        ("resmlp", {"residual_add": False, "w2_std": 0.5}, 0.05, 0),
    ],
)
def test_every_sweep_lowers_energy_and_loss_together(architecture, options, step, fall):
    torch.manual_seed(0)
    model = build_model(architecture, DataSpec((3, 32, 32), 10), **options).eval()
    inputs, targets = torch.randn(8, 3, 32, 32), torch.randint(10, (8,))
    free, _ = sites_of(model, inputs)
    heights = []
    for sweeps in range(5):
        states = build_method("ep", model, sweeps=sweeps, step=step).relax(free, targets) if sweeps else free
        loss = losses_of(model.head(states[-1]), targets).sum()
        heights.append((energy(model, inputs, states) + loss).item())
    assert all(after < before for before, after in itertools.pairwise(heights))
    assert heights[-1] < heights[0] - fall


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_update_is_the_gradient_of_the_energy_over_beta(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("ep", model, beta=0.5)
    method.accumulate(inputs, targets)
    twin = copy.deepcopy(model)
    twin.zero_grad()
    nudged = method.relax(trace_of(model, inputs, targets).hiddens, targets)
    (energy(twin, inputs, nudged) / (0.5 * len(targets))).backward()
    got, expected = gradients(model), gradients(twin)
    for name, grad in expected.items():
        torch.testing.assert_close(got[name], grad)


def test_the_sweeps_do_not_move_running_statistics():
    model, (inputs, targets) = small("small_cnn"), batch()
    twin = copy.deepcopy(model)
    twin(inputs)
    build_method("ep", model).accumulate(inputs, targets)
    for name, buffer in twin.named_buffers():
        assert torch.equal(model.get_buffer(name), buffer), name


@pytest.mark.parametrize("options", [{"beta": 0.0}, {"step": -1.0}, {"sweeps": 0}])
def test_impossible_settings_are_refused(options):
    with pytest.raises(InputError, match=next(iter(options))):
        build_method("ep", small("resmlp"), **options)
