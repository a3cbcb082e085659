"""Direct feedback alignment against a twin of explicit matrix products."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from zoo_networks import assert_same, batch, gradients, small, trace_of

from walkback.lab.zoo import DataSpec, build_method, build_model


def gelu(x: Tensor) -> tuple[Tensor, Tensor]:
    """Φ(x)·x and its derivative."""
    below = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return x * below, below + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def standardised(h: Tensor) -> Tensor:
    return (h - h.mean(dim=1, keepdim=True)) / (h.var(dim=1, keepdim=True, unbiased=False) + 1e-5).sqrt()


def twin_gradients(model, method, inputs, targets) -> dict[str, Tensor]:
    """DFA on the residual MLP without autograd: every gradient is a matrix product written out."""
    trace = trace_of(model, inputs, targets)
    error, grads = trace.error / len(targets), {}
    pull = error @ method.feedback(0)
    grads["stem.1.weight"], grads["stem.1.bias"] = pull.T @ inputs.flatten(1), pull.sum(dim=0)
    for index, block in enumerate(model.blocks):
        unit = standardised(trace.hiddens[index])
        normed = unit * block.norm.weight + block.norm.bias
        active, slope = gelu(normed @ block.linear1.weight.T + block.linear1.bias)
        pull = error @ method.feedback(index + 1)
        inner = (pull @ block.linear2.weight) * slope
        outer = inner @ block.linear1.weight
        name = f"blocks.{index}."
        grads[name + "norm.weight"], grads[name + "norm.bias"] = (outer * unit).sum(dim=0), outer.sum(dim=0)
        grads[name + "linear1.weight"], grads[name + "linear1.bias"] = inner.T @ normed, inner.sum(dim=0)
        grads[name + "linear2.weight"], grads[name + "linear2.bias"] = pull.T @ active, pull.sum(dim=0)
    unit = standardised(trace.hiddens[-1])
    grads["head.1.weight"] = error.T @ (unit * model.head[0].weight + model.head[0].bias)
    grads["head.1.bias"] = error.sum(dim=0)
    outer = error @ model.head[1].weight
    grads["head.0.weight"], grads["head.0.bias"] = (outer * unit).sum(dim=0), outer.sum(dim=0)
    return {name: grad.detach() for name, grad in grads.items()}


def test_it_agrees_with_the_twin():
    model, (inputs, targets) = small("resmlp"), batch()
    method = build_method("dfa", model)
    method.accumulate(inputs, targets)
    assert_same(gradients(model), twin_gradients(model, method, inputs, targets))


def test_every_token_gets_the_same_credit():
    model, (inputs, targets) = small("vit_mini"), batch()
    method = build_method("dfa", model)
    trace = trace_of(model, inputs, targets)
    for site, credit in enumerate(method.credits(trace)):
        expected = trace.error @ method.feedback(site)
        for token in range(credit.shape[1]):
            torch.testing.assert_close(credit[:, token], expected)


def test_a_map_counts_as_one_vector():
    model, (inputs, targets) = small("small_cnn"), batch()
    method = build_method("dfa", model)
    trace = trace_of(model, inputs, targets)
    for site, (credit, hidden) in enumerate(zip(method.credits(trace), trace.hiddens, strict=True)):
        size = hidden[0].numel()
        assert method.feedback(site).shape == (5, size)
        torch.testing.assert_close(credit.flatten(1), trace.error @ method.feedback(site))


@pytest.mark.parametrize(
    ("architecture", "sizes"),
    [("resmlp", [256] * 5), ("vit_mini", [128] * 5), ("small_cnn", [8192, 4096, 2048, 256])],
)
def test_feedback_is_scaled_by_the_size_of_its_site(architecture, sizes):
    model = build_model(architecture, DataSpec((3, 32, 32), classes=10))
    method = build_method("dfa", model, torch.Generator().manual_seed(0))
    assert [method.feedback(site).shape[1] for site in range(len(sizes))] == sizes
    for site, size in enumerate(sizes):
        assert method.feedback(site).std().item() == pytest.approx(size**-0.5, rel=0.1)
