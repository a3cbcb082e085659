"""The bridges: their credit by its definition, and their predictors trained by their own objective."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from zoo_networks import backprop_gradients, batch, gradients, small, trace_of, true_gradients

from walkback.zoo import build_method
from walkback.zoo.methods.site_vectors import as_vectors

BRIDGES = ["state_bridge", "credit_bridge_vector"]


def predicted(method, hiddens, *context):
    return method.predictor([as_vectors(h) for h in hiddens], range(len(hiddens)), *context)


@pytest.mark.parametrize("target", ["raw", "scaled"])
def test_state_credit_is_the_slope_of_the_predicted_loss(target):
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("state_bridge", model, target=target)
    trace = trace_of(model, inputs, targets)
    scale = 1.0 if target == "raw" else trace.hiddens[-1].norm(dim=1).mean()
    for site, credit in enumerate(method.credits(trace)):
        direction, step = torch.randn_like(credit), 1e-6
        losses = []
        for sign in (1, -1):
            hiddens = list(trace.hiddens)
            hiddens[site] = hiddens[site] + sign * step * direction
            logits = model.head(predicted(method, hiddens)[site] * scale)
            losses.append(F.cross_entropy(logits, targets, reduction="none"))
        slope = (losses[0] - losses[1]) / (2 * step)
        torch.testing.assert_close((credit * direction).sum(dim=1), slope, rtol=1e-5, atol=1e-8)


def test_state_credit_at_the_prediction_is_the_gradient_of_the_head_there():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("state_bridge", model, credit_from="prediction")
    trace = trace_of(model, inputs, targets)
    for credit, state in zip(method.credits(trace), predicted(method, trace.hiddens), strict=True):
        at = state.detach().requires_grad_()
        loss = F.cross_entropy(model.head(at), targets, reduction="sum")
        torch.testing.assert_close(credit, torch.autograd.grad(loss, at)[0])


def test_credit_bridge_hands_out_its_prediction():
    model, (inputs, targets) = small("resmlp").eval(), batch()
    method = build_method("credit_bridge_vector", model)
    trace = trace_of(model, inputs, targets)
    expected = predicted(method, trace.hiddens, trace.error)
    for credit, prediction in zip(method.credits(trace), expected, strict=True):
        assert torch.equal(credit, prediction)


@pytest.mark.parametrize("target", ["raw", "scaled"])
@pytest.mark.parametrize("architecture", ["resmlp", "vit_mini", "small_cnn"])
def test_credit_bridge_learns_the_terminal_credit(architecture, target):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method = build_method("credit_bridge_vector", model, target=target)
    trace = trace_of(model, inputs, targets)
    terminal = true_gradients(model, inputs, targets)[-1]
    terminal = terminal[:, 0] if architecture == "vit_mini" else terminal
    scale = 1.0 if target == "raw" else terminal.norm(dim=1).mean()
    _, objective = method.credits_at(trace, range(len(trace.hiddens)))
    expected = (predicted(method, trace.hiddens, trace.error) - terminal / scale).square().sum(dim=-1).mean()
    torch.testing.assert_close(objective, expected)


@pytest.mark.parametrize("name", BRIDGES)
@pytest.mark.parametrize("architecture", ["resmlp", "vit_mini", "small_cnn"])
def test_the_predictor_learns_beside_the_model_and_leaves_the_head_alone(architecture, name):
    model, (inputs, targets) = small(architecture), batch()
    expected = backprop_gradients(model, inputs, targets)
    method = build_method(name, model, torch.Generator().manual_seed(0), predictor_width=32)
    method.accumulate(inputs, targets)
    for key, grad in gradients(model).items():
        if key.startswith("head"):
            torch.testing.assert_close(grad, expected[key])
    optimizer = torch.optim.Adam(method.parameters(), lr=1e-2)
    trace = trace_of(model, inputs, targets)
    objectives = []
    for _ in range(30):
        _, objective = method.credits_at(trace, range(len(trace.hiddens)))
        optimizer.zero_grad()
        objective.backward()
        optimizer.step()
        objectives.append(objective.item())
    assert objectives[-1] < 0.5 * objectives[0]


@pytest.mark.parametrize("name", BRIDGES)
def test_by_default_credit_goes_to_the_block_that_reads_and_is_normalised(name):
    options = build_method(name, small("resmlp")).options
    assert (options.credit_site, options.credit_norm) == ("read", "per_sample")
