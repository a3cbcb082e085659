"""Forward-forward against its goodness in plain NumPy, differentiated entry by entry."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from chains import agree, chain, differences
from plain_layers import gelu, layer_norm, linear, plain
from torch import nn
from zoo_networks import DATA, batch, gradients, small

from walkback.errors import InputError
from walkback.lab.zoo import DataSpec, build_method, build_model, freeze
from walkback.lab.zoo.methods import forward_forward

RESIDUAL = pytest.mark.parametrize("residual", [True, False])
THETA, LABEL = 0.3, 2.0


def labelled(inputs, labels):
    flat = inputs.flatten(1).numpy().copy()
    for row, label in enumerate(labels):
        flat[row, : DATA.classes] = 0
        flat[row, int(label)] = LABEL
    return flat


def activities(model, flat, residual):
    """The activity of the stem and of every block: what each of them writes."""
    hidden = linear(model.stem[1], flat)
    found = [hidden]
    for block in model.blocks:
        branch = linear(block.linear2, gelu(linear(block.linear1, layer_norm(block.norm, hidden))))
        found.append(branch)
        hidden = hidden + branch if residual else branch
    return found


def layer_loss(activity):
    """−log σ(Σy² − θ) of the first half, −log(1 − σ(Σy² − θ)) of the second."""
    half, total = len(activity) // 2, 0.0
    for row, units in enumerate(activity):
        logit = sum(unit**2 for unit in units) - THETA * len(units)
        chance = 1 / (1 + math.exp(-logit))
        total -= math.log(chance if row < half else 1 - chance)
    return total / len(activity)


def network(residual):
    model = small("resmlp", depth=2, residual_add=residual)
    with torch.no_grad():
        model.stem[1].weight.mul_(0.3)  # σ of a large goodness is 1 to rounding, and its gradient nothing
    return model


def agrees_with_the_twin(residual):
    model, (inputs, targets) = network(residual), batch(5)
    method = build_method("forward_forward", model, threshold=THETA, label_value=LABEL)
    shift = torch.randint(1, DATA.classes, targets.shape, generator=method.draws.generator())
    labels = torch.cat([targets, (targets + shift) % DATA.classes])
    flat = labelled(torch.cat([inputs, inputs]), labels)
    expected, losses = {}, [layer_loss(y) for y in activities(model, flat, residual)]
    for site, name in ((0, "stem.1.bias"), (1, "blocks.0.linear2.weight"), (2, "blocks.1.linear1.weight")):
        array = dict(model.named_parameters())[name].data.numpy()
        expected[name] = differences(lambda site=site: layer_loss(activities(model, flat, residual)[site]), array)
    result = method.accumulate(inputs, targets)
    found = gradients(model)
    got = [plain(result.loss), *(plain(found[name]) for name in expected)]
    return agree(got, [np.mean(losses), *expected.values()], 1e-5)


@RESIDUAL
def test_the_rule_is_that_of_the_twin(residual):
    assert agrees_with_the_twin(residual)


@RESIDUAL
def test_mutant_whose_goodness_is_a_mean_is_found(residual, monkeypatch):
    monkeypatch.setattr(forward_forward, "evidence", lambda y, threshold: y.square().mean(dim=1) - threshold)
    assert not agrees_with_the_twin(residual)


@RESIDUAL
def test_a_sample_is_answered_by_the_label_that_makes_the_later_layers_most_active(residual):
    model, (inputs, _) = network(residual), batch()
    method = build_method("forward_forward", model, threshold=THETA, label_value=LABEL)
    scores = np.zeros((len(inputs), DATA.classes))
    for label in range(DATA.classes):
        _, *later = activities(model, labelled(inputs, [label] * len(inputs)), residual)
        scores[:, label] = sum((y**2).sum(axis=1) for y in later)
    np.testing.assert_allclose(method.predict(inputs).numpy(), scores, rtol=1e-9)


def test_with_frozen_blocks_the_stem_answers():
    model, (inputs, _) = freeze(network(True), "blocks"), batch()
    method = build_method("forward_forward", model, label_value=LABEL)
    expected = [linear(model.stem[1], labelled(inputs, [label] * len(inputs))) for label in range(DATA.classes)]
    scores = np.stack([(hidden**2).sum(axis=1) for hidden in expected], axis=1)
    np.testing.assert_allclose(method.predict(inputs).numpy(), scores, rtol=1e-9)


def test_one_hidden_layer_that_reads_data_may_read_its_length():
    model, (inputs, targets) = small("mlp", widths=(6,)), batch()
    method = build_method("forward_forward", model, label_value=LABEL)
    method.accumulate(inputs, targets)
    hidden = np.tanh(linear(model.blocks[0].linear, labelled(inputs, targets)))
    scores = method.predict(inputs)[range(9), targets]
    np.testing.assert_allclose(scores.numpy(), (hidden**2).sum(axis=1), rtol=1e-9)


def test_wrong_labels_are_wrong_and_every_other_class_comes_up():
    method = build_method("forward_forward", small("resmlp"))
    targets = torch.arange(DATA.classes).repeat(400)
    wrong = method._wrong_labels(targets)
    assert not (wrong == targets).any()
    counts = torch.stack([torch.bincount(wrong[targets == k], minlength=DATA.classes) for k in range(DATA.classes)])
    others = counts[~torch.eye(DATA.classes, dtype=torch.bool)]
    assert 60 < others.min() <= others.max() < 140
    method.draws.advance()
    assert not torch.equal(method._wrong_labels(targets), wrong)


def test_answering_by_the_head_reads_all_labels_at_once_and_trains_the_head_alone():
    model, (inputs, targets) = small("resmlp"), batch()
    method = build_method("forward_forward", model, prediction="softmax")
    flat = inputs.flatten(1).clone()
    flat[:, : DATA.classes] = 1 / DATA.classes
    logits = model(flat.view_as(inputs))
    torch.testing.assert_close(method.predict(inputs), logits)
    result = method.accumulate(inputs, targets)
    torch.testing.assert_close(result.logits, logits.detach())
    got = {name: value.clone() for name, value in gradients(model.head).items()}
    model.zero_grad()
    nn.functional.cross_entropy(model(flat.view_as(inputs)), targets).backward()
    for name, value in gradients(model.head).items():
        torch.testing.assert_close(got[name], value)


def test_by_goodness_the_head_does_not_learn_and_only_what_was_tried_has_a_score():
    model, (inputs, targets) = small("resmlp"), batch()
    method = build_method("forward_forward", model)
    scores = method.accumulate(inputs, targets).logits
    assert not any(parameter.requires_grad for parameter in model.head.parameters())
    assert (scores.isfinite().sum(dim=1) == 2).all()
    torch.testing.assert_close(scores[range(9), targets], method.predict(inputs)[range(9), targets])


def test_peer_normalisation_draws_the_units_together():
    model, (inputs, targets) = small("resmlp"), batch()
    plainly, drawn = small("resmlp"), {}
    for network_, strength in ((plainly, 0.0), (model, 0.5)):
        method = build_method(
            "forward_forward", network_, torch.Generator().manual_seed(1), peer_normalisation=strength
        )
        method.accumulate(inputs, targets)
        drawn[strength] = gradients(network_)
    labels = method.labelled(inputs, targets)
    hidden = model.stem(labels)
    running = 0.9 * 0.5 + 0.1 * hidden.mean(dim=0)
    torch.testing.assert_close(method.get_buffer("activity_0"), running.detach())
    (extra,) = torch.autograd.grad(0.5 * (running.mean() - running).square().mean(), model.stem[1].weight)
    torch.testing.assert_close(drawn[0.5]["stem.1.weight"], drawn[0.0]["stem.1.weight"] + extra)


def test_what_hands_goodness_on_or_has_no_place_for_a_label_is_refused():
    for architecture, options, message in (
        ("resmlp", {"norm_position": "post"}, "block 1 reads the length of h_0"),
        ("vit_mini", {}, r"site 0 has the shape \(17, 12\), and goodness is of the units of a vector"),
        ("small_cnn", {}, r"site 0 has the shape \(3, 4, 4\)"),
    ):
        with pytest.raises(InputError, match=message):
            build_method("forward_forward", small(architecture, **options))
    with pytest.raises(InputError, match="block 1 reads the length of h_0, which is the goodness of the layer below"):
        build_method("forward_forward", chain())
    with pytest.raises(InputError, match="an input of 3 values has no place for 5 labels"):
        build_method("forward_forward", build_model("resmlp", DataSpec((3,), 5), width=4))
    with pytest.raises(InputError, match="symbols that are looked up, and no label can be written over them"):
        build_method("forward_forward", small("gpt"))
    with pytest.raises(InputError, match="block 2 reads the length of h_1"):
        build_method("forward_forward", small("mlp"))
    single = freeze(small("mlp", widths=(6,)), "blocks")
    with pytest.raises(InputError, match="neither the stem nor a block learns"):
        build_method("forward_forward", single)


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"label_value": -1.0}, {"peer_memory": 1.5}])
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} is"):
        build_method("forward_forward", small("resmlp"), **options)
