"""Kolen–Pollack against a NumPy twin: W and B by the same changes and the same decay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plain_chain import NAMES, Pass, agree, tanh_network, weights_of
from plain_layers import plain
from zoo_networks import batch, small

from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method, freeze
from walkback.lab.zoo.methods.kp import KP

RATE, DECAY, STEPS = 0.5, 0.1, 4


def feedback_of(method):
    return {name: plain(method.feedback(name)).copy() for name in NAMES}


def like_its_twin(**options):
    """Whether some steps of SGD end where W ← λW − ηΔ and B ← λB − ηΔ do, Δ by the B of that moment."""
    model, (inputs, targets) = tanh_network(), batch()
    method = build_method("kp", model, torch.Generator().manual_seed(1), **options)
    optimizer = torch.optim.SGD([*model.parameters(), *method.parameters()], lr=RATE, weight_decay=DECAY)
    weights, backward = weights_of(model), feedback_of(method)
    assert not agree(weights, backward, 0.1)
    kept = 1 - RATE * DECAY
    for _ in range(STEPS):
        seen = Pass(model, inputs, targets)  # with the biases of the moment, whose rule is no part of this
        delta = seen.update(seen.chain(backward))
        weights = {name: kept * weights[name] - RATE * delta[name] for name in NAMES}
        backward = {name: kept * backward[name] - RATE * delta[name] for name in NAMES}
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        optimizer.step()
        method.after_step()
        if not agree(weights_of(model), weights):
            return False
    return agree(feedback_of(method), backward)


def test_weights_and_feedback_are_those_of_the_twin():
    assert like_its_twin()


def test_mutant_feedback_that_decays_and_does_not_follow(monkeypatch):
    original = KP.accumulate

    def without_changes(self, inputs, targets):
        result = original(self, inputs, targets)
        for parameter in self.parameters():
            parameter.grad.zero_()
        return result

    monkeypatch.setattr(KP, "accumulate", without_changes)
    assert not like_its_twin()


def test_mutant_feedback_that_follows_the_other_way(monkeypatch):
    original = KP.accumulate

    def turned(self, inputs, targets):
        result = original(self, inputs, targets)
        for parameter in self.parameters():
            parameter.grad.neg_()
        return result

    monkeypatch.setattr(KP, "accumulate", turned)
    assert not like_its_twin()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("options", [{}, {"penalty": 0.1}, {"credit_norm": "per_sample"}])
def test_under_adamw_the_difference_shrinks_by_the_decay_alone(architecture, options):
    model, (inputs, targets) = small(architecture), batch()
    method = build_method("kp", model, torch.Generator().manual_seed(1), **options)
    optimizer = torch.optim.AdamW([*model.parameters(), *method.parameters()], lr=0.02, weight_decay=0.5)
    layers = dict(method.layers())
    apart = {name: (layer.weight - method.feedback(name)).detach() for name, layer in layers.items()}
    for _ in range(5):
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        optimizer.step()
    for name, layer in layers.items():
        expected = apart[name] * (1 - 0.02 * 0.5) ** 5
        torch.testing.assert_close((layer.weight - method.feedback(name)).detach(), expected, rtol=1e-9, atol=1e-11)


def test_the_feedback_of_frozen_weights_stays():
    model, (inputs, targets) = freeze(tanh_network(), "ladder:1"), batch()
    method = build_method("kp", model, torch.Generator().manual_seed(1))
    before = feedback_of(method)
    trained = [p for p in [*model.parameters(), *method.parameters()] if p.requires_grad]
    method.accumulate(inputs, targets)
    torch.optim.AdamW(trained, lr=0.1).step()
    after = feedback_of(method)
    assert [name for name in NAMES if np.array_equal(before[name], after[name])] == ["blocks.0.linear"]


def test_two_batches_before_a_step_are_one_change():
    model = tanh_network()
    method = build_method("kp", model, torch.Generator().manual_seed(1))
    for seed in (1, 2):
        method.accumulate(*batch(seed=seed))
    for name, layer in method.layers():
        assert torch.equal(method.feedback(name).grad, layer.weight.grad)
        assert method.feedback(name).grad is not layer.weight.grad
