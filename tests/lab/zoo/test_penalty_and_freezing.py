"""What combines with any method: the penalty on the branches, and baselines without trained blocks."""

from __future__ import annotations

import copy

import pytest
import torch
from zoo_networks import (
    PAIRS,
    WITH_CREDIT,
    assert_same,
    backprop_gradients,
    batch,
    feedback_from_weights,
    gradients,
    loss_of,
    named_learning,
    sites_of,
    small,
    true_gradients,
)

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES, METHODS
from walkback.lab.zoo import build_method, build_model, freeze
from walkback.lab.zoo.contract import DataSpec, learns
from walkback.lab.zoo.methods.freezing import Ladder, read_freezing
from walkback.lab.zoo.methods.local_step import LocalMethod, local_pass

LAMBDA = 0.3
LOCAL = [name for name in METHODS if issubclass(METHODS.load(name), LocalMethod)]


def mean_square(branch):
    return branch.flatten(1).square().sum(dim=1).mean()


@pytest.mark.parametrize(("name", "architecture"), [pair for pair in PAIRS if pair[0] in LOCAL])
def test_the_penalty_adds_its_own_gradient_to_each_block_and_to_nothing_else(name, architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    plain = copy.deepcopy(model)
    torch.manual_seed(5)
    build_method(name, plain).accumulate(inputs, targets)
    torch.manual_seed(5)
    build_method(name, model, penalty=LAMBDA).accumulate(inputs, targets)
    expected = gradients(plain)
    sites = [site.detach() for site in sites_of(model, inputs)[0]]
    for index, block in enumerate(model.blocks):
        penalty = LAMBDA * mean_square(block.branch(sites[index]))
        for key, parameter in block.named_parameters():
            (extra,) = torch.autograd.grad(penalty, parameter, retain_graph=True)
            expected[f"blocks.{index}.{key}"] = expected[f"blocks.{index}.{key}"] + extra
    for key, grad in gradients(model).items():
        torch.testing.assert_close(grad, expected[key])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_for_backprop_the_penalty_is_a_term_of_the_loss(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    twin = copy.deepcopy(model)
    result = build_method("bp", model, penalty=LAMBDA).accumulate(inputs, targets)
    sites, logits = sites_of(twin, inputs)
    loss = loss_of(logits, targets)
    for index, block in enumerate(twin.blocks):
        loss = loss + LAMBDA * mean_square(block.branch(sites[index]))
    loss.backward()
    assert_same(gradients(model), gradients(twin))
    torch.testing.assert_close(result.loss, loss_of(logits, targets))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_feedback_alignment_sends_the_penalty_back_by_its_own_road(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    twin = copy.deepcopy(model)
    method = build_method("fa", model, penalty=LAMBDA)
    feedback_from_weights(method, model)
    method.accumulate(inputs, targets)
    build_method("bp", twin, penalty=LAMBDA).accumulate(inputs, targets)
    assert_same(gradients(model), gradients(twin))


def test_a_negative_penalty_is_refused():
    with pytest.raises(InputError, match=r"penalty is -1\.0; expected 0 or more"):
        build_method("dfa", small("resmlp"), penalty=-1.0)


@pytest.mark.parametrize(("name", "architecture"), PAIRS)
def test_frozen_blocks_get_no_gradient_and_do_not_move(name, architecture):
    model, (inputs, targets) = freeze(small(architecture), "blocks"), batch()
    method = build_method(name, model, penalty=0.1)
    before = copy.deepcopy(model)
    trained = [p for p in [*model.parameters(), *method.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    method.accumulate(inputs, targets)
    assert all(parameter.grad is None for parameter in model.blocks.parameters())
    optimizer.step()
    method.after_step()
    for (key, old), new in zip(before.named_parameters(), model.parameters(), strict=True):
        assert torch.equal(old, new) == (key not in learning_names(model, method, 0)), key


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("norm", ["none", "per_sample"])
def test_for_backprop_the_stem_learns_through_frozen_blocks(architecture, norm):
    model, (inputs, targets) = freeze(small(architecture), "blocks"), batch()
    expected = backprop_gradients(model, inputs, targets)
    if norm == "per_sample":
        credit = true_gradients(model, inputs, targets)[0]
        unit = credit / credit.flatten(1).norm(dim=1).view(-1, *[1] * (credit.ndim - 1))
        output = copy.deepcopy(model).stem
        if learns(output):  # an MLP's stem has no parameters
            (output(inputs) * unit).sum().div(len(unit)).backward()
        expected |= {f"stem.{key}": grad for key, grad in gradients(output).items()}
    build_method("bp", model, credit_norm=norm).accumulate(inputs, targets)
    assert_same(gradients(model), expected)


@pytest.mark.parametrize("name", LOCAL)
def test_no_credit_is_computed_for_frozen_blocks(name, monkeypatch):
    model, (inputs, targets) = freeze(small("resmlp"), "blocks"), batch()
    method = build_method(name, model)
    asked, original = [], method.credits_at
    monkeypatch.setattr(method, "credits_at", lambda trace, sites: asked.append(sites) or original(trace, sites))
    method.accumulate(inputs, targets)
    assert asked == [[0]]


@pytest.mark.parametrize("name", METHODS)
def test_a_shallow_network_is_stem_and_head(name):
    whole, (inputs, targets) = small("resmlp"), batch()
    model = freeze(whole, "shallow")
    assert len(model.blocks) == 0
    torch.testing.assert_close(model(inputs), whole.head(whole.stem(inputs)))
    if METHODS.load(name).why_not(model):
        with pytest.raises(InputError, match="is not defined on this network"):
            build_method(name, model)
        return
    method = build_method(name, model)
    method.accumulate(inputs, targets)
    assert gradients(model).keys() == named_learning(model, method)


def test_what_cannot_be_shallow_is_refused():
    for architecture in ("small_cnn", "vit_mini"):  # another shape, and a class token that would see nothing
        model = build_model(architecture, DataSpec((3, 32, 32), 10))
        with pytest.raises(InputError, match="Use freezing 'blocks'"):
            freeze(model, "shallow")


def rungs(architecture):
    """How many of the last blocks may learn while one at least does not."""
    return range(1, len(small(architecture).blocks))


RUNGS = [(architecture, last) for architecture in ARCHITECTURES for last in rungs(architecture)]
on_every_rung = pytest.mark.parametrize(("architecture", "last"), RUNGS)


def of_methods(pairs):
    """Every rung of the architectures of these methods."""
    found = [(name, architecture, last) for name, architecture in pairs for last in rungs(architecture)]
    return pytest.mark.parametrize(("name", "architecture", "last"), found)


def learning_names(model, method, last):
    """By hand: the names of all that learns but in the first blocks."""
    frozen = tuple(f"blocks.{index}." for index in range(len(model.blocks) - last))
    return {name for name in named_learning(model, method) if not name.startswith(frozen)}


@of_methods(PAIRS)
@pytest.mark.parametrize("options", [{"penalty": 0.1}, {"credit_norm": "per_sample"}])
def test_on_a_ladder_exactly_the_last_blocks_stem_and_head_move(name, architecture, last, options):
    if "credit_norm" in options and (name, architecture) not in WITH_CREDIT:
        options = {}
    model, (inputs, targets) = freeze(small(architecture), f"ladder:{last}"), batch()
    method = build_method(name, model, **options)
    before = copy.deepcopy(model)
    trained = [p for p in [*model.parameters(), *method.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        optimizer.step()
        method.after_step()
    moved = {
        key for (key, old), new in zip(before.named_parameters(), model.parameters(), strict=True) if not old.equal(new)
    }
    assert moved == learning_names(model, method, last)
    assert gradients(model).keys() == moved


@on_every_rung
@pytest.mark.parametrize("name", ["bp", "fa"])
@pytest.mark.parametrize("penalty", [0.0, LAMBDA])
def test_the_error_travels_through_frozen_blocks_of_a_ladder(name, architecture, last, penalty):
    model, (inputs, targets) = freeze(small(architecture).eval(), f"ladder:{last}"), batch()
    twin = copy.deepcopy(model).requires_grad_()
    method = build_method(name, model, penalty=penalty)
    if name == "fa":
        feedback_from_weights(method, model)
    method.accumulate(inputs, targets)
    sites, logits = sites_of(twin, inputs)
    loss = loss_of(logits, targets)
    for block, read in list(zip(twin.blocks, sites, strict=False))[len(twin.blocks) - last :]:
        loss = loss + penalty * mean_square(block.branch(read))
    loss.backward()
    learning = learning_names(model, method, last)
    assert_same(gradients(model), {key: grad for key, grad in gradients(twin).items() if key in learning})


@of_methods(WITH_CREDIT)
def test_on_a_ladder_the_others_learn_what_they_would_without_it(name, architecture, last):
    model, (inputs, targets) = small(architecture).eval(), batch()
    twin, options = freeze(copy.deepcopy(model), f"ladder:{last}"), {"credit_norm": "per_sample"}
    for network in (model, twin):
        method = build_method(name, network, torch.Generator().manual_seed(4), **options)
        method.accumulate(inputs, targets)
    learning = learning_names(model, method, last)
    assert_same(gradients(twin), {key: grad for key, grad in gradients(model).items() if key in learning})


@of_methods([pair for pair in PAIRS if pair[0] in LOCAL])
def test_on_a_ladder_the_penalty_is_on_the_blocks_that_learn(name, architecture, last):
    model, (inputs, targets) = freeze(small(architecture).eval(), f"ladder:{last}"), batch()
    plain = copy.deepcopy(model)
    build_method(name, plain, torch.Generator().manual_seed(5)).accumulate(inputs, targets)
    build_method(name, model, torch.Generator().manual_seed(5), penalty=LAMBDA).accumulate(inputs, targets)
    expected, sites = gradients(plain), [site.detach() for site in sites_of(model, inputs)[0]]
    for index in range(len(model.blocks) - last, len(model.blocks)):
        penalty = LAMBDA * mean_square(model.blocks[index].branch(sites[index]))
        for key, parameter in model.blocks[index].named_parameters():
            (extra,) = torch.autograd.grad(penalty, parameter, retain_graph=True)
            expected[f"blocks.{index}.{key}"] = expected[f"blocks.{index}.{key}"] + extra
    assert_same(gradients(model), expected)


@pytest.mark.parametrize("name", LOCAL)
@pytest.mark.parametrize(("last", "sites"), [(1, [0, 2, 3]), (2, [0, 1, 2, 3])])
def test_on_a_ladder_credit_is_computed_for_what_learns(name, last, sites, monkeypatch):
    model, (inputs, targets) = freeze(small("resmlp"), f"ladder:{last}"), batch()
    method = build_method(name, model)
    asked, original = [], method.credits_at
    monkeypatch.setattr(method, "credits_at", lambda trace, sites: asked.append(sites) or original(trace, sites))
    method.accumulate(inputs, targets)
    assert asked == [sites]
    assert local_pass(model, inputs, targets).learning == [0, *range(len(model.blocks) + 1 - last, 4)]


def test_the_foot_of_the_ladder_is_frozen_blocks():
    assert read_freezing("ladder:0") == "blocks"
    assert str(read_freezing("ladder:2")) == "ladder:2"
    assert read_freezing("ladder:2") == Ladder(2)
    with pytest.raises(InputError, match="the last 0 blocks; expected 1 or more"):
        Ladder(0)
    model = freeze(small("resmlp"), "ladder:0")
    assert not any(parameter.requires_grad for parameter in model.blocks.parameters())


def test_the_top_of_the_ladder_and_beyond_are_refused():
    for last in (3, 4, 99):
        for word in (f"ladder:{last}", Ladder(last)):
            with pytest.raises(InputError, match=f"'ladder:{last}', and the network has 3 blocks.*or freezing 'none'"):
                freeze(small("resmlp"), word)
    with pytest.raises(InputError, match=r"has 1 block\."):
        freeze(small("resmlp", depth=1), "ladder:1")


@pytest.mark.parametrize(
    "word",
    [
        *("all", "", "ladder", "ladder:", "ladder:x", "ladder:-1", "ladder:+1", "ladder:1.0", "ladder:02", "ladder: 2"),
        *("ladder:2 ", "ladder:2\n", "Ladder:2", "ladder:²", "ladder:1000000", "ladder:" + "9" * 5000),
    ],
)
def test_unknown_freezing_is_refused(word):
    with pytest.raises(
        InputError, match="expected one of none, blocks, shallow, or ladder:K, such as ladder:2"
    ) as told:
        freeze(small("resmlp"), word)
    assert len(str(told.value)) < 250
