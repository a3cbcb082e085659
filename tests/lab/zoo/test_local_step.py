"""The local step: with the true gradient as credit it is backpropagation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from zoo_networks import assert_same, backprop_gradients, batch, gradients, small, true_gradients

from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import MethodOptions
from walkback.lab.zoo.methods.credit_forms import per_sample_unit
from walkback.lab.zoo.methods.error_chain import chained_credits
from walkback.lab.zoo.methods.local_step import follow, local_pass, output_error


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_true_gradient_as_credit_is_backprop(architecture):
    model, (inputs, targets) = small(architecture), batch()
    expected = backprop_gradients(model, inputs, targets)
    credits = true_gradients(model, inputs, targets)
    follow(model, local_pass(model, inputs, targets), dict(enumerate(credits)), MethodOptions())
    assert_same(gradients(model), expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_credits_chained_through_the_local_graphs_are_the_true_gradients(architecture):
    model, (inputs, targets) = small(architecture), batch()
    expected = true_gradients(model, inputs, targets)
    credits = chained_credits(local_pass(model, inputs, targets, track_reads=True))
    for credit, gradient in zip(credits, expected, strict=True):
        torch.testing.assert_close(credit, gradient, rtol=1e-10, atol=1e-10)


def test_one_pass_moves_the_running_statistics_once():
    model, (inputs, targets) = small("small_cnn"), batch()
    twin = copy.deepcopy(model)
    twin(inputs)
    credits = true_gradients(model, inputs, targets)
    follow(model, local_pass(model, inputs, targets), dict(enumerate(credits)), MethodOptions())
    for name, buffer in twin.named_buffers():
        assert torch.equal(model.get_buffer(name), buffer), name


def test_gradients_are_added_to_what_is_there():
    model, (inputs, targets) = small("resmlp"), batch()
    credits = dict(enumerate(true_gradients(model, inputs, targets)))
    follow(model, local_pass(model, inputs, targets), credits, MethodOptions())
    once = {name: grad.clone() for name, grad in gradients(model).items()}
    follow(model, local_pass(model, inputs, targets), credits, MethodOptions())
    assert_same(gradients(model), {name: 2 * grad for name, grad in once.items()})


@pytest.mark.parametrize("norm", ["none", "per_sample"])
@pytest.mark.parametrize("site", ["written", "read"])
def test_a_block_follows_the_inner_product_with_its_credit(site, norm):
    model, (inputs, targets) = small("resmlp"), batch()
    credits = [torch.randn_like(g) for g in true_gradients(model, inputs, targets)]
    options = MethodOptions(credit_norm=norm)
    local = local_pass(model, inputs, targets)
    follow(model, local, dict(enumerate(credits)), options, credit_site=site)
    for index, module in enumerate([model.stem, *model.blocks]):
        credit = credits[max(index - 1, 0) if site == "read" else index]
        if norm == "per_sample":
            credit = credit / credit.norm(dim=1, keepdim=True)
        output = module(local.trace.hiddens[index - 1] if index else inputs)
        objective = (output * credit).sum(dim=1).mean()
        for got, parameter in zip(
            torch.autograd.grad(objective, list(module.parameters())), module.parameters(), strict=True
        ):
            torch.testing.assert_close(parameter.grad, got)


def test_a_block_that_changes_the_shape_takes_the_credit_of_the_site_it_writes():
    model, (inputs, targets) = small("small_cnn"), batch()
    expected = backprop_gradients(model, inputs, targets)
    credits = dict(enumerate(true_gradients(model, inputs, targets)))
    follow(model, local_pass(model, inputs, targets), credits, MethodOptions(), credit_site="read")
    assert_same(gradients(model), expected)


def test_the_head_is_never_normalised():
    model, (inputs, targets) = small("resmlp"), batch()
    expected = backprop_gradients(model, inputs, targets)
    credits = dict(enumerate(true_gradients(model, inputs, targets)))
    options = MethodOptions(credit_norm="per_sample")
    follow(model, local_pass(model, inputs, targets), credits, options)
    head = {name: grad for name, grad in gradients(model).items() if name.startswith("head")}
    assert_same(head, {name: expected[name] for name in head})


def test_the_error_is_the_gradient_at_the_logits():
    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 1, 2, 3, 3, 0])
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, targets, reduction="sum"), logits)
    torch.testing.assert_close(output_error(logits, targets), expected)


@given(exponent=st.integers(-36, 36), seed=st.integers(0, 1000))
def test_unit_credit_keeps_the_direction_at_any_scale(exponent, seed):
    direction = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    unit = per_sample_unit((direction * 10.0**exponent).float())
    expected = direction / direction.flatten(1).norm(dim=1).view(3, 1, 1)
    torch.testing.assert_close(unit.double(), expected, rtol=1e-4, atol=1e-5)


def test_a_credit_of_zero_stays_zero():
    credit = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
    assert torch.equal(per_sample_unit(credit), torch.tensor([[0.0, 0.0], [0.6, 0.8]]))
