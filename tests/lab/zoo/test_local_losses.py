"""Local losses and Mono-Forward against their losses in plain NumPy, differentiated entry by entry."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from chains import activities, agree, chain, cross_entropy, differences, gradients_of, one_hot, outer, softmax, weights
from plain_layers import plain
from torch import nn
from zoo_networks import PAIRS, batch, gradients, small

from walkback.errors import InputError
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods import local_loss, site_readouts
from walkback.lab.zoo.methods.mono_forward import MonoForward

BETA = 0.4


def similarities(values):
    """The cosine of every two centred samples, one pair at a time."""
    centred = [row - row.mean() for row in values]
    found = np.empty((len(values), len(values)))
    for i, j in itertools.product(range(len(values)), repeat=2):
        lengths = np.sqrt(np.sum(centred[i] ** 2)) * np.sqrt(np.sum(centred[j] ** 2))
        found[i, j] = np.sum(centred[i] * centred[j]) / lengths
    return found


def expected_gradients(model, inputs, targets, loss):
    """By differences: the gradient of each layer's own loss at its W and b, with what it reads held still."""
    layers, flat = weights(model), inputs.flatten(1).numpy()
    hiddens, found = activities(layers, flat, np.tanh), []
    for site, ((w, b), read) in enumerate(zip(layers[:-1], [flat, *hiddens[:-1]], strict=True)):
        value = lambda site=site, w=w, b=b, read=read: loss(site, np.tanh(read @ w.T + b))  # noqa: E731
        found += [differences(value, w), differences(value, b)]
    weight, bias = layers[-1]
    return found + outer(softmax(hiddens[-1] @ weight.T + bias) - one_hot(targets), hiddens[-1])


def local_loss_agrees(options):
    model, (inputs, targets) = chain(), batch()
    method = build_method("local_loss", model, **options)
    share = {"pred": 0.0, "sim": 1.0}.get(method.options.loss, BETA)
    with torch.no_grad():
        for parameter in method.parameters():  # readouts start at zero, where much of the rule is out of sight
            parameter += 0.3 * torch.randn_like(parameter)
    readouts = [(plain(r.weight), plain(r.bias)) for r in getattr(method, "readouts", {}).values()]
    compared = [plain(layer.weight) for layer in getattr(method, "compared", {}).values()]

    def loss(site, hidden):
        prediction = cross_entropy(hidden @ readouts[site][0].T + readouts[site][1], targets) if readouts else 0.0
        wanted = similarities(one_hot(targets))
        similarity = np.mean((similarities(hidden @ compared[site].T) - wanted) ** 2) if compared else 0.0
        return (1 - share) * prediction + share * similarity

    expected = expected_gradients(model, inputs, targets, loss)
    hiddens = activities(weights(model), inputs.flatten(1).numpy(), np.tanh)
    own = [differences(lambda: loss(1, hiddens[1]), array) for pair in readouts[1:2] for array in pair]
    own += [differences(lambda: loss(1, hiddens[1]), array) for array in compared[1:2]]
    method.accumulate(inputs, targets)
    got = [plain(p.grad) for r in list(getattr(method, "readouts", {}).values())[1:2] for p in (r.weight, r.bias)]
    got += [plain(layer.weight.grad) for layer in list(getattr(method, "compared", {}).values())[1:2]]
    return agree([*gradients_of(model), *got], [*expected, *own], 1e-6)


LOSSES = [{"loss": "pred"}, {"loss": "sim"}, {"similarity_share": BETA}]


@pytest.mark.parametrize("options", LOSSES)
def test_the_rule_of_local_losses_is_that_of_the_twin(options):
    assert local_loss_agrees(options)


@pytest.mark.parametrize("options", LOSSES[1:])
def test_mutant_that_compares_samples_without_centring_them_is_found(options, monkeypatch):
    def uncentred(values):
        units = nn.functional.normalize(values, dim=1)
        return units @ units.T

    monkeypatch.setattr(local_loss, "similarities", uncentred)
    assert not local_loss_agrees(options)


def mono_forward_agrees():
    model, (inputs, targets) = chain(), batch()
    method = build_method("mono_forward", model)
    projections = [plain(m.weight) for m in method.projections.values()]

    def loss(site, hidden):
        if site < len(projections):
            return cross_entropy(hidden @ projections[site].T, targets)
        weight, bias = weights(model)[-1]
        return cross_entropy(hidden @ weight.T + bias, targets)

    expected = expected_gradients(model, inputs, targets, loss)
    hiddens = activities(weights(model), inputs.flatten(1).numpy(), np.tanh)
    expected += [
        differences(lambda site=site: loss(site, hiddens[site]), projections[site]) for site in range(len(projections))
    ]
    method.accumulate(inputs, targets)
    return agree([*gradients_of(model), *(plain(m.weight.grad) for m in method.projections.values())], expected, 1e-6)


def test_the_rule_of_mono_forward_is_that_of_the_twin():
    assert mono_forward_agrees()


def test_mutant_whose_goodness_is_of_squares_is_found(monkeypatch):
    right = MonoForward.goodness
    monkeypatch.setattr(MonoForward, "goodness", lambda self, site, write: right(self, site, write.square()))
    assert not mono_forward_agrees()


def test_the_head_learns_once_though_it_is_also_the_last_projection():
    model, (inputs, targets) = small("resmlp"), batch()
    build_method("mono_forward", model).accumulate(inputs, targets)
    got = {name: value.clone() for name, value in gradients(model.head).items()}
    model.zero_grad()
    nn.functional.cross_entropy(model(inputs), targets).backward()
    for name, value in gradients(model.head).items():
        torch.testing.assert_close(got[name], value)
    # And the last block learns as by backprop, whose error at h_L is the head's own.
    assert len(build_method("mono_forward", model).projections) == len(model.blocks)


@pytest.mark.parametrize(
    ("name", "architecture"), [pair for pair in PAIRS if pair[0] in ("local_loss", "mono_forward")]
)
def test_no_gradient_crosses_a_site(name, architecture):
    """What a later block is does not change what an earlier one learns."""
    learnt = []
    for seed in (1, 2):
        model, (inputs, targets) = small(architecture).eval(), batch()
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in model.blocks[-1].parameters():
                parameter += torch.randn_like(parameter)
        build_method(name, model, torch.Generator().manual_seed(3)).accumulate(inputs, targets)
        learnt.append(gradients(model))
    for key in learnt[0]:
        early = key.startswith("stem") or (key.startswith("blocks") and not key.startswith(f"blocks.{last(model)}."))
        assert torch.equal(learnt[0][key], learnt[1][key]) or not early, key


def last(model):
    return len(model.blocks) - 1


def test_readouts_see_no_more_than_so_many_values(monkeypatch):
    monkeypatch.setattr(site_readouts, "MOST_READ", 40)
    generator = torch.Generator().manual_seed(0)
    for shape, sides in (((40,), ()), ((80,), ()), ((3, 4, 4), (2, 4)), ((5, 7, 7), (2, 4)), ((9, 8), (5,))):
        assert site_readouts.read_sides(shape) == sides
        hidden = torch.randn(2, *shape, generator=generator)
        assert site_readouts.read_values(hidden).shape == (2, site_readouts.read_size(shape))
    halved = torch.randn(2, 3, 4, 4, generator=generator)
    expected = nn.functional.avg_pool2d(halved, (2, 1)).flatten(1)
    torch.testing.assert_close(site_readouts.read_values(halved), expected)


def test_a_dead_map_has_a_gradient_of_zero():
    hidden = torch.zeros(3, 5, 2, 2, dtype=torch.float64, requires_grad=True)
    local_loss.similarities(local_loss.compared_values(hidden)).sum().backward()
    assert torch.equal(hidden.grad, torch.zeros_like(hidden))
    generator = torch.Generator().manual_seed(0)
    alive = torch.randn(3, 5, 2, 2, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(local_loss.compared_values(alive), alive.flatten(2).std(dim=2))


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_beyond_all_is_refused(share):
    with pytest.raises(InputError, match=f"similarity_share is {share}; expected"):
        build_method("local_loss", small("resmlp"), similarity_share=share)
