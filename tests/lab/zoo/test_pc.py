"""Predictive coding against its free energy in plain NumPy, and against backprop where it is backprop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from chains import activities, agree, chain, gradients_of, one_hot, outer, softmax, weights
from zoo_networks import (
    assert_same,
    batch,
    gradients,
    losses_of,
    sites_of,
    small,
    trace_of,
    true_gradients,
)

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.runs.assembly import Assembly
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods import settling
from walkback.protocol.diagnose import diagnose

STEPS, STEP = 7, 0.15


def predictions(layers, inputs, states):
    """What the layer below says of every state."""
    reads = [inputs, *states[:-1]]
    return [np.tanh(read @ w.T + b) for (w, b), read in zip(layers[:-1], reads, strict=True)]


def slopes(layers, inputs, states, targets):
    """∂F/∂z_l by hand: the state's own error, less what it makes of the error above; at the top, the loss."""
    told = predictions(layers, inputs, states)
    errors = [state - mean for state, mean in zip(states, told, strict=True)]
    weight, bias = layers[-1]
    from_above = [
        -((1 - mean**2) * error) @ w for (w, _), mean, error in zip(layers[1:-1], told[1:], errors[1:], strict=True)
    ]
    from_above.append((softmax(states[-1] @ weight.T + bias) - one_hot(targets)) @ weight)
    return [error + above for error, above in zip(errors, from_above, strict=True)]


def learnt(layers, inputs, states, targets):
    """∂F/∂W and ∂F/∂b of each layer, means over samples."""
    told, reads, found = predictions(layers, inputs, states), [inputs, *states[:-1]], []
    for mean, state, read in zip(told, states, reads, strict=True):
        found += outer((1 - mean**2) * (mean - state), read)
    weight, bias = layers[-1]
    return found + outer(softmax(states[-1] @ weight.T + bias) - one_hot(targets), states[-1])


def relaxed(layers, inputs, targets, steps, states=None):
    states = activities(layers, inputs, np.tanh) if states is None else states
    for _ in range(steps):
        moves = slopes(layers, inputs, states, targets)
        states = [state - STEP * move for state, move in zip(states, moves, strict=True)]
    return states


def agrees_with_the_twin():
    model, (inputs, targets) = chain(), batch()
    layers, flat = weights(model), inputs.flatten(1).numpy()
    build_method("pc", model, steps=STEPS, step=STEP).accumulate(inputs, targets)
    return agree(gradients_of(model), learnt(layers, flat, relaxed(layers, flat, targets, STEPS), targets))


def test_the_rule_is_that_of_the_twin():
    assert agrees_with_the_twin()


def test_mutant_without_the_half_of_the_squares_is_found(monkeypatch):
    monkeypatch.setattr(settling, "_half_squares", lambda errors: sum(error.square().sum() for error in errors))
    assert not agrees_with_the_twin()


def test_incremental_learning_steps_the_weights_after_every_step_of_the_states():
    model, (inputs, targets), rate = chain(), batch(), 0.1
    layers, flat = weights(model), inputs.flatten(1).numpy()
    method = build_method("pc", model, steps=STEPS, step=STEP, learning="incremental")
    states = activities(layers, flat, np.tanh)
    for _ in range(STEPS):
        states = relaxed(layers, flat, targets, 1, states)
        steps = learnt(layers, flat, states, targets)
        layers = [
            (w - rate * dw, b - rate * db) for (w, b), dw, db in zip(layers, steps[::2], steps[1::2], strict=True)
        ]
    logits = model(inputs).detach()
    result = Assembly(model, method, torch.optim.SGD(model.parameters(), lr=rate), {}).step(inputs, targets)
    assert agree([part for pair in weights(model) for part in pair], [part for pair in layers for part in pair])
    torch.testing.assert_close(result.logits, logits)
    # The next batch starts at its own forward pass, though nothing was told.
    assert method._settling is None
    first = method.accumulate(*batch(seed=2))
    assert first.logits.shape == logits.shape


def test_a_batch_that_was_left_midway_does_not_reach_the_next():
    (inputs, targets), (others, answers) = batch(), batch(seed=2)
    one, two = chain(), chain()
    options = {"steps": STEPS, "step": STEP, "learning": "incremental"}
    left, fresh = (build_method("pc", model, **options) for model in (one, two))
    left.accumulate(inputs, targets)
    one.zero_grad()
    left.accumulate(others, answers)
    fresh.accumulate(others, answers)
    assert_same(gradients(one), gradients(two))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("step", [1.0, 1e-6])
def test_one_step_by_errors_is_backprop(architecture, step):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("pc", model, inference="errors", steps=1, step=step)
    credits = list(method.credits(trace_of(model, inputs, targets)))
    true = true_gradients(model, inputs, targets)
    if not list(
        model.stem.parameters()
    ):  # h_0 is data, which does not move: the slope there is told, of the states that were made
        first, gradient = credits.pop(0), true.pop(0)
        if step < 1:
            torch.testing.assert_close(first, gradient, rtol=1e-4, atol=1e-6)
    for credit, gradient in zip(credits, true, strict=True):
        # A credit is the difference of two states, whose rounding is that of numbers of their size, about 1.
        torch.testing.assert_close(credit, step * gradient, rtol=1e-8, atol=1e-12 * step + 1e-15)


def test_data_is_clamped_and_a_stem_with_weights_is_not():
    for architecture, clamped in (("mlp", True), ("lenet", True), ("resmlp", False)):
        model, (inputs, targets) = small(architecture), batch()
        method = build_method("pc", model)
        hiddens = trace_of(model, inputs, targets).hiddens
        moved = method._moved(method.inference.start(hiddens), hiddens[0], targets, 6)
        assert torch.equal(moved[0], hiddens[0]) == clamped
        assert not torch.equal(moved[1], hiddens[1])


def warnings_of(model, method, samples):
    report = diagnose(model, [samples], credit=method, blocks=list(model.blocks), null_draws=0)
    return [warning for warning in report.warnings if "parallel to backpropagation" in warning]


def test_the_identity_check_says_that_one_step_by_errors_is_backprop():
    model, samples = small("resmlp").eval(), batch(128)
    one_step = build_method("pc", model, inference="errors", steps=1)
    assert len(warnings_of(model, one_step, samples)) == 1
    settled = build_method("pc", model, steps=3)  # the loss has not come down to the first site
    assert warnings_of(model, settled, samples) == []


def test_as_its_steps_shrink_the_weights_learn_as_by_backprop():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    build_method("pc", model, inference="errors", steps=1, step=1e-6).accumulate(inputs, targets)
    twin = small("resmlp").eval()
    F.cross_entropy(twin(inputs), targets).backward()
    for name, gradient in gradients(twin).items():
        scale = 1 if name.startswith("head") else 1e-6
        torch.testing.assert_close(gradients(model)[name], scale * gradient, rtol=1e-4, atol=1e-7 * scale)


@pytest.mark.parametrize("inference", ["states", "errors"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_settling_lowers_the_free_energy_on_every_architecture(architecture, inference):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("pc", model, inference=inference, step=0.02)
    hiddens = trace_of(model, inputs, targets).hiddens
    moving, energies = method.inference.start(hiddens), []
    for _ in range(5):
        with torch.no_grad():
            states = method.inference.states(moving, hiddens[0])
            told = [hiddens[0], *(block(state) for block, state in zip(model.blocks, states[:-1], strict=True))]
            mismatch = sum(0.5 * (s - t).square().sum() for s, t in zip(states, told, strict=True))
            loss = losses_of(model.head(states[-1]), targets).sum()
        energies.append(float(mismatch + loss))
        moving = method._moved(moving, hiddens[0], targets, 1)
    assert energies == sorted(energies, reverse=True)
    assert energies[-1] < energies[0]


def test_errors_and_states_are_two_ways_to_one_energy():
    model, (inputs, targets) = chain(), batch()
    sites = [site.detach() for site in sites_of(model, inputs)[0]]
    by_states, by_errors = settling.ByStates(model), settling.ByErrors(model)
    errors = [0.3 * torch.randn_like(site) for site in sites]
    states = by_errors.states(errors, sites[0])
    same = by_states.energy(states, sites[0], targets), by_errors.energy(errors, sites[0], targets)
    torch.testing.assert_close(*same)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps is 0; expected 1 or more"),
        ({"step": 0.0}, r"step is 0\.0; expected a finite number above 0"),
        ({"inference": "both"}, "inference is 'both'; expected one of 'states', 'errors'"),
        ({"learning": "never"}, "learning is 'never'; expected one of 'sequential', 'incremental'"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        build_method("pc", small("resmlp"), **options)
