"""`credit_norm` and `penalty` on the methods that carry the error back, and on EP: each against a twin by autograd."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from zoo_networks import batch, gradients, sites_of, small, true_gradients

from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method

STRENGTH = 0.3
EVERYWHERE = pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))


def learnt(method, architecture, **options):
    """The gradients that one step leaves, and the method; FA's feedback is the network's own weights."""
    model, (inputs, targets) = small(architecture).eval(), batch()
    made = build_method(method, model, torch.Generator().manual_seed(0), **options)
    if method == "fa":
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                made.feedback(name).copy_(module.weight.detach())
    made.accumulate(inputs, targets)
    return gradients(model), made


def modules(model):
    return {"stem.": model.stem, **{f"blocks.{i}.": block for i, block in enumerate(model.blocks)}}


def by_unit_credit(model, reads, credits):
    """Each module follows its credit, scaled to unit norm per sample."""
    expected = {}
    for (prefix, module), read, credit in zip(modules(model).items(), reads, credits, strict=True):
        if not list(module.parameters()):  # the stem of a plain MLP
            continue
        size = credit.flatten(1).norm(dim=1).view(-1, *[1] * (credit.ndim - 1))
        objective = (module(read) * (credit / size)).sum() / len(credit)
        found = torch.autograd.grad(objective, list(module.parameters()))
        expected |= {prefix + name: g for (name, _), g in zip(module.named_parameters(), found, strict=True)}
    return expected


def with_local_penalty(found, model, reads):
    """What every block adds for the size of its own branch."""
    expected = dict(found)
    for index, (block, read) in enumerate(zip(model.blocks, reads, strict=True)):
        size = STRENGTH * block.branch(read).flatten(1).square().sum(dim=1).mean()
        for (name, _), g in zip(
            block.named_parameters(), torch.autograd.grad(size, list(block.parameters())), strict=True
        ):
            expected[f"blocks.{index}.{name}"] = expected[f"blocks.{index}.{name}"] + g
    return expected


def assert_same(found, expected):
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-11, msg=lambda m, n=name: f"{n}: {m}")


def states(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    return model, inputs, targets, [site.detach() for site in sites_of(model, inputs)[0]]


@EVERYWHERE
@pytest.mark.parametrize("options", [{"penalty": STRENGTH}, {"credit_norm": "per_sample"}])
def test_fa_by_the_weights_themselves_is_bp_with_every_option(architecture, options):
    assert_same(learnt("fa", architecture, **options)[0], learnt("bp", architecture, **options)[0])


@EVERYWHERE
def test_bp_per_sample_follows_unit_gradients(architecture):
    model, inputs, targets, sites = states(architecture)
    expected = by_unit_credit(model, [inputs, *sites[:-1]], true_gradients(model, inputs, targets))
    assert_same(learnt("bp", architecture, credit_norm="per_sample")[0], expected)


@EVERYWHERE
def test_bp_per_sample_keeps_the_penalty_in_its_block(architecture):
    model, _, _, sites = states(architecture)
    plain = learnt("bp", architecture, credit_norm="per_sample")[0]
    penalised = learnt("bp", architecture, credit_norm="per_sample", penalty=STRENGTH)[0]
    assert_same(penalised, with_local_penalty(plain, model, sites[:-1]))


@EVERYWHERE
def test_ep_takes_the_penalty_at_the_relaxed_states(architecture):
    model, _, targets, sites = states(architecture)
    plain, method = learnt("ep", architecture)
    relaxed = method.relax(sites, targets)
    penalised = learnt("ep", architecture, penalty=STRENGTH)[0]
    assert_same(penalised, with_local_penalty(plain, model, relaxed[:-1]))


@EVERYWHERE
def test_ep_per_sample_follows_unit_differences(architecture):
    model, inputs, targets, sites = states(architecture)
    found, method = learnt("ep", architecture, credit_norm="per_sample")
    relaxed = [state.detach() for state in method.relax(sites, targets)]
    reads = [inputs, *relaxed[:-1]]
    written = [module(read).detach() for module, read in zip(modules(model).values(), reads, strict=True)]
    credits = [write - state for write, state in zip(written, relaxed, strict=True)]
    assert_same(found, by_unit_credit(model, reads, credits))
