"""PEPITA against its authors' rule in plain NumPy, layer by layer."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from chains import activities, agree, chain, gradients_of, one_hot, outer, softmax, weights
from plain_layers import plain, relu
from torch import nn
from zoo_networks import DATA, assert_same, batch, gradients, sites_of, small, trace_of

from walkback.errors import InputError
from walkback.lab.zoo import BlockModel, build_method
from walkback.lab.zoo.contract import SkiplessBlock
from walkback.lab.zoo.methods import pepita

CHAINS = pytest.mark.parametrize(("activation", "phi"), [(nn.ReLU, relu), (nn.Tanh, np.tanh)])


def twin(layers, flat, targets, feedback, phi):
    """(h_l − h′_l) h′_{l−1}ᵀ of every layer with x + Fe first, and e′ h′ᵀ of the last; −η times this is the update."""
    weight, bias = layers[-1]
    first = activities(layers, flat, phi)
    error = softmax(first[-1] @ weight.T + bias) - one_hot(targets)
    modulated = flat + error @ feedback.T
    second = activities(layers, modulated, phi)
    found = []
    for before, now, read in zip(first, second, [modulated, *second[:-1]], strict=True):
        found += outer(before - now, read)
    return found + outer(softmax(second[-1] @ weight.T + bias) - one_hot(targets), second[-1])


def agrees_with_the_twin(activation=nn.ReLU, phi=relu):
    model, (inputs, targets) = chain(activation), batch()
    layers, flat = weights(model), inputs.flatten(1).numpy()
    method = build_method("pepita", model, feedback_scale=2.0)
    method.accumulate(inputs, targets)
    return agree(gradients_of(model), twin(layers, flat, targets, plain(method.feedback), phi))


@CHAINS
def test_the_rule_is_that_of_the_twin(activation, phi):
    assert agrees_with_the_twin(activation, phi)


@CHAINS
@pytest.mark.parametrize("residual", [True, False])
def test_the_penalty_keeps_its_own_gradient(activation, phi, residual):
    model = chain(activation) if not residual else small("resmlp")
    plainly, (inputs, targets) = copy.deepcopy(model), batch()
    for network, penalty in ((model, 0.3), (plainly, 0.0)):
        method = build_method("pepita", network, torch.Generator().manual_seed(1), penalty=penalty)
        method.accumulate(inputs, targets)
    second, _ = sites_of(model, method.modulated(inputs, trace_of(model, inputs, targets).error))
    for index, block in enumerate(model.blocks):
        term = 0.3 * block.branch(second[index].detach()).square().sum() / len(targets)
        for name, parameter in block.named_parameters():
            (extra,) = torch.autograd.grad(term, parameter, retain_graph=True)
            without = dict(plainly.blocks[index].named_parameters())[name].grad
            torch.testing.assert_close(parameter.grad, without + extra, rtol=1e-8, atol=1e-10)


def test_an_activation_is_seen_however_it_is_called():
    class Layer(SkiplessBlock):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def branch(self, hidden):
            return torch.relu(self.linear(hidden))

    torch.manual_seed(0)
    stem, head = nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), nn.Linear(4, 5)
    model, (inputs, targets) = BlockModel(stem, [Layer()], head, DATA).double(), batch()
    method = build_method("pepita", model, feedback_scale=2.0)
    trace = trace_of(model, inputs, targets)
    second, _ = sites_of(model, method.modulated(inputs, trace.error))
    method.accumulate(inputs, targets)
    expected = (trace.hiddens[1] - second[1]).T @ second[0] / len(targets)
    torch.testing.assert_close(model.blocks[0].linear.weight.grad, expected.detach())


@CHAINS
def test_mutant_that_goes_back_through_the_activation_is_found(activation, phi, monkeypatch):
    monkeypatch.setattr(pepita, "ELEMENTWISE", set())
    assert not agrees_with_the_twin(activation, phi)


def test_mutant_that_takes_the_error_off_the_input_is_found(monkeypatch):
    right = pepita.Pepita.modulated
    monkeypatch.setattr(pepita.Pepita, "modulated", lambda self, inputs, error: right(self, inputs, -error))
    assert not agrees_with_the_twin()


@pytest.mark.parametrize("architecture", ["resmlp", "student_net", "small_cnn", "small_resnet"])
def test_a_block_of_several_layers_follows_the_change_by_its_own_gradient(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    other, method = copy.deepcopy(model), build_method("pepita", model, feedback_scale=3.0)
    sites, logits = sites_of(other, inputs)
    error = logits.softmax(dim=1) - torch.eye(5, dtype=torch.float64)[targets]
    modulated = inputs + (error @ method.feedback.T).view_as(inputs).detach()
    second, _ = sites_of(other, modulated)
    change = [(a - b).detach() for a, b in zip(sites, second, strict=True)]
    reads = [site.detach() for site in second]
    total = (other.stem(modulated) * change[0]).sum()
    for block, read, credit in zip(other.blocks, reads[:-1], change[1:], strict=True):
        total = total + (block(read) * credit).sum()
    total = total + torch.nn.functional.cross_entropy(other.head(reads[-1]), targets, reduction="sum")
    total.div(len(targets)).backward()
    method.accumulate(inputs, targets)
    got, expected = gradients(model), gradients(other)
    if architecture == "small_cnn":  # its last block ends in a ReLU, which the rule leaves out
        last = [(got.pop(name), expected.pop(name)) for name in list(expected) if name.startswith("blocks.2.")]
        assert not any(torch.allclose(one, other) for one, other in last)
    assert_same(got, expected)
    for credit, hidden in zip(method.credits(trace_of(model, inputs, targets)), change, strict=True):
        torch.testing.assert_close(credit, hidden, rtol=1e-8, atol=1e-10)


def test_the_feedback_is_drawn_as_the_authors_draw_it():
    model = small("resmlp")
    feedback = build_method("pepita", model, torch.Generator().manual_seed(1)).feedback
    assert feedback.shape == (64, 5)
    assert feedback.abs().max() <= 0.05 * (6 / 64) ** 0.5
    assert feedback.abs().max() > 0.045 * (6 / 64) ** 0.5
    assert abs(feedback.mean()) < 0.002


def test_what_reads_symbols_or_has_a_class_token_is_refused():
    with pytest.raises(InputError, match=r"its inputs are symbols that are looked up, and no error can be added"):
        build_method("pepita", small("gpt"))
    with pytest.raises(InputError, match="a class token is the same for every input"):
        build_method("pepita", small("vit_mini"))
    with pytest.raises(InputError, match=r"feedback_scale is 0\.0; expected a finite number above 0"):
        build_method("pepita", small("resmlp"), feedback_scale=0.0)
