"""Feedback alignment: backprop with other transposes, on a model that stays its own."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from zoo_networks import (
    assert_same,
    backprop_gradients,
    batch,
    feedback_from_weights,
    gradients,
    small,
    trace_of,
    true_gradients,
)

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import BlockModel, DataSpec, build_method
from walkback.lab.zoo.architectures.small_cnn import Stage


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_with_the_weights_as_feedback_it_is_backprop(architecture):
    model, (inputs, targets) = small(architecture), batch()
    expected = backprop_gradients(model, inputs, targets)
    method = build_method("fa", model)
    feedback_from_weights(method, model)
    method.accumulate(inputs, targets)
    assert_same(gradients(model), expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_with_the_weights_as_feedback_its_credit_is_the_true_gradient(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("fa", model)
    feedback_from_weights(method, model)
    credits = method.credits(trace_of(model, inputs, targets))
    for credit, gradient in zip(credits, true_gradients(model, inputs, targets), strict=True):
        torch.testing.assert_close(credit, gradient, rtol=1e-10, atol=1e-10)


def test_random_feedback_matches_explicit_matrix_products():
    model, (inputs, targets) = small("student_net"), batch()
    method = build_method("fa", model)
    trace = trace_of(model, inputs, targets)
    credits = method.credits(trace)
    expected = trace.error @ method.feedback("head")
    torch.testing.assert_close(credits[-1], expected)
    block, hidden = model.blocks[-1], trace.hiddens[-2].clone().requires_grad_()
    normed = block.norm(hidden)
    inner = block.linear1(normed)
    slope = torch.autograd.grad(block.activation(inner).sum(), inner, retain_graph=True)[0]
    through = (expected @ method.feedback("blocks.2.linear2")) * slope @ method.feedback("blocks.2.linear1")
    expected = expected + torch.autograd.grad(normed, hidden, through)[0]
    torch.testing.assert_close(credits[-2], expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_model_keeps_its_true_gradient(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    expected = backprop_gradients(model, inputs, targets)
    method = build_method("fa", model)
    method.accumulate(inputs, targets)
    assert any((gradients(model)[name] - value).abs().max() > 1e-6 for name, value in expected.items())
    with pytest.raises((RuntimeError, IndexError)):
        method.accumulate(inputs, targets + 100)
    assert_same(backprop_gradients(model, inputs, targets), expected)


def test_a_block_that_reads_a_frozen_stem_learns_by_its_feedback_all_the_same():
    model, (inputs, targets) = small("resmlp"), batch()
    twin = copy.deepcopy(model)
    twin.stem.requires_grad_(False)
    for network in (model, twin):
        build_method("fa", network, torch.Generator().manual_seed(4)).accumulate(inputs, targets)
    expected = {name: grad for name, grad in gradients(model).items() if not name.startswith("stem")}
    assert_same(gradients(twin), expected)


def test_feedback_has_the_variance_of_initial_weights():
    model = small("resmlp", dtype=torch.float32)
    model.stem[1] = nn.Linear(64, 4000)
    feedback = build_method("fa", model, torch.Generator().manual_seed(3)).feedback("stem.1")
    assert feedback.shape == (4000, 64)
    assert feedback.std().item() == pytest.approx((3 * 64) ** -0.5, rel=0.01)


def test_padding_by_name_is_refused():
    conv = Stage(nn.Sequential(nn.Conv2d(1, 1, 3, padding="same"), nn.Flatten()))
    model = BlockModel(nn.Identity(), [conv], nn.Linear(64, 2), DataSpec((1, 8, 8), 2))
    with pytest.raises(InputError, match="padding 'same'"):
        build_method("fa", model)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_under_autocast_too_it_is_backprop_with_the_weights_as_feedback(architecture):
    model, (inputs, targets) = small(architecture, dtype=torch.float32), batch(dtype=torch.float32)
    twin = copy.deepcopy(model)
    method = build_method("fa", model)
    feedback_from_weights(method, model)
    with torch.autocast("cpu", torch.bfloat16):
        method.accumulate(inputs, targets)
        build_method("bp", twin).accumulate(inputs, targets)
    for name, gradient in gradients(twin).items():
        got = gradients(model)[name]
        assert got.dtype == torch.float32
        assert (got - gradient).norm() <= 0.02 * gradient.norm() + 1e-3, name
