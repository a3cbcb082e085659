"""Sign symmetry against a NumPy twin of its three variants."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from plain_chain import NAMES, Pass, agree, tanh_network, weight_gradients, weights_of
from plain_layers import plain
from zoo_networks import batch, small, trace_of

from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods.sign_symmetry import SignSymmetry

VARIANTS = ("usf", "brsf", "frsf")


def twin_feedback(method, variant):
    """Entry by entry: the sign of the weight as it is now, by the magnitude that the variant has there."""
    found = {}
    for name, weight in weights_of(method.model).items():
        feedback = np.zeros_like(weight)
        for index in np.ndindex(weight.shape):
            sign = 1 if weight[index] > 0 else -1
            size = (3 * weight.shape[1]) ** -0.5
            if variant != "usf":
                size = float(method.get_buffer(name.replace(".", "/"))[index])
            assert size >= 0
            feedback[index] = sign * size
        found[name] = feedback
    return found


def like_its_twin(variant):
    """Three steps of SGD: whether every update is the twin's, with the feedback of that moment."""
    model, (inputs, targets) = tanh_network(), batch()
    method = build_method("sign_symmetry", model, torch.Generator().manual_seed(1), variant=variant)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    same = True
    for _ in range(3):
        seen = Pass(model, inputs, targets)
        credits = seen.chain(twin_feedback(method, variant))
        found = method.credits(trace_of(model, inputs, targets))
        same &= all(np.allclose(plain(a), b, atol=1e-10) for a, b in zip(found, credits, strict=True))
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        same &= agree(weight_gradients(model), seen.update(credits))
        optimizer.step()
        method.after_step()
    return same


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_update_is_that_of_the_twin(variant):
    assert like_its_twin(variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_mutant_the_signs_of_the_first_weights_are_kept(variant, monkeypatch):
    first, original = {}, SignSymmetry.feedback
    monkeypatch.setattr(
        SignSymmetry, "feedback", lambda self, name: first.setdefault(name, original(self, name).clone())
    )
    assert not like_its_twin(variant)


def magnitudes(method):
    return {name: method.feedback(name).abs().clone() for name in NAMES}


def test_only_brsf_draws_its_magnitudes_anew_and_the_signs_stay():
    for variant in VARIANTS:
        method = build_method("sign_symmetry", tanh_network(), torch.Generator().manual_seed(1), variant=variant)
        before, signs = magnitudes(method), {name: method.feedback(name).sign() for name in NAMES}
        torch.manual_seed(5)
        method.after_step()
        for name in NAMES:
            assert torch.equal(method.feedback(name).abs(), before[name]) == (variant != "brsf")
            assert torch.equal(method.feedback(name).sign(), signs[name])
            assert torch.equal(signs[name], method.layer(name).weight.sign())


def test_magnitudes_have_the_size_of_initial_weights():
    model = small("resmlp", width=400)
    for variant in VARIANTS:
        method = build_method("sign_symmetry", model, torch.Generator().manual_seed(1), variant=variant)
        method.after_step()
        size = method.feedback("blocks.0.linear1").square().mean().sqrt()
        assert float(size) == pytest.approx((3 * 400) ** -0.5, rel=0.02)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_with_weights_of_one_magnitude_usf_is_backprop(architecture):
    model, (inputs, targets) = small(architecture), batch()
    method = build_method("sign_symmetry", model)
    with torch.no_grad():
        for name, layer in method.layers():
            layer.weight.copy_(method.feedback(name))
    twin = copy.deepcopy(model)
    method.accumulate(inputs, targets)
    build_method("bp", twin).accumulate(inputs, targets)
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-9, atol=1e-11)
