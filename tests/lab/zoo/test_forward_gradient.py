"""Forward gradient against slopes made of reverse-mode gradients, one sample at a time."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from zoo_networks import (
    assert_same,
    backprop_gradients,
    batch,
    gradients,
    losses_of,
    sites_of,
    small,
    trace_of,
    true_gradients,
)

from walkback.errors import InputError, NoCredit
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods import forward_gradient
from walkback.lab.zoo.methods.local_step import follow, local_pass

everywhere = pytest.mark.parametrize("architecture", ARCHITECTURES)


def directions_of(method, tensors, count):
    """The directions of the step to come, `count` lists of them."""
    generator = method.draws.generator()
    return [[torch.randn(t.shape, generator=generator, dtype=t.dtype) for t in tensors] for _ in range(count)]


def twin_credits(model, inputs, targets, drawn):
    """(Σ_k g_k·v_k) v_l of every sample's own loss, averaged over directions."""
    sites, logits = sites_of(copy.deepcopy(model), inputs)
    credits = [torch.zeros_like(site) for site in sites]
    for sample, loss in enumerate(losses_of(logits, targets)):
        slopes = torch.autograd.grad(loss, sites, retain_graph=True)
        for directions in drawn:
            # Where a BatchNorm normalises by the batch, a sample's loss feels the directions of the others too.
            slope = sum((g * v).sum() for g, v in zip(slopes, directions, strict=True))
            for credit, direction in zip(credits, directions, strict=True):
                credit[sample] += slope * direction[sample] / len(drawn)
    return [credit.detach() for credit in credits]


def agrees_with_the_twin(architecture, *, training=True):
    model, (inputs, targets) = small(architecture).train(training), batch()
    method, twin = build_method("forward_gradient", model, directions=2), copy.deepcopy(model)
    drawn = directions_of(method, sites_of(copy.deepcopy(model), inputs)[0], 2)
    credits = twin_credits(model, inputs, targets, drawn)
    method.accumulate(inputs, targets)
    follow(twin, local_pass(twin, inputs, targets), dict(enumerate(credits)), method.options)
    expected, found = gradients(twin), gradients(model)
    return all(torch.allclose(found[name], value, rtol=1e-7, atol=1e-9) for name, value in expected.items())


@everywhere
@pytest.mark.parametrize("training", [True, False])
def test_the_rule_is_that_of_the_twin(architecture, training):
    assert agrees_with_the_twin(architecture, training=training)


def test_mutant_that_forgets_the_directions_below_is_found(monkeypatch):
    from torch.autograd import forward_ad

    monkeypatch.setattr(
        forward_gradient, "moving", lambda value, v: forward_ad.make_dual(forward_ad.unpack_dual(value)[0], v)
    )
    assert not agrees_with_the_twin("resmlp")


def weights_agree(architecture):
    model, (inputs, targets) = small(architecture), batch()
    method = build_method("forward_gradient", model, perturb="weights")
    expected = backprop_gradients(model, inputs, targets)
    names = [name for name in expected if not name.startswith("head.")]
    (drawn,) = directions_of(method, [expected[name] for name in names], 1)
    slope = sum((expected[name] * v).sum() for name, v in zip(names, drawn, strict=True))
    expected |= {name: slope * v for name, v in zip(names, drawn, strict=True)}
    method.accumulate(inputs, targets)
    found = gradients(model)
    return all(torch.allclose(found[name], value, rtol=1e-7, atol=1e-9) for name, value in expected.items())


@everywhere
def test_perturbed_weights_follow_the_slope_times_the_direction(architecture):
    assert weights_agree(architecture)


def test_mutant_whose_slope_is_its_sign_is_found(monkeypatch):
    right = forward_gradient.tangent_of
    monkeypatch.setattr(forward_gradient, "tangent_of", lambda value: right(value).sign())
    assert not weights_agree("resmlp")
    assert not agrees_with_the_twin("resmlp")


@everywhere
def test_with_local_losses_each_site_answers_to_its_own_readout(architecture):
    model, (inputs, targets) = small(architecture).eval(), batch()
    method, twin = build_method("forward_gradient", model, loss="local"), copy.deepcopy(model)
    sites = [site.detach().requires_grad_() for site in sites_of(twin, inputs)[0]]
    (drawn,) = directions_of(method, sites, 1)
    credits, losses = {}, []
    for site, (hidden, direction) in enumerate(zip(sites, drawn, strict=True)):
        if str(site) not in method.readouts:
            assert (architecture, site) in (("mlp", 0), ("lenet", 0))  # data, which no weights write
            continue
        each = losses_of(method.readouts[str(site)](hidden), targets)
        (slope,) = torch.autograd.grad(each.sum(), hidden, retain_graph=True)
        along = (slope * direction).flatten(1).sum(dim=1).view(-1, *[1] * (hidden.ndim - 1))
        credits[site] = along * direction
        losses.append(each.mean())
    wanted = torch.autograd.grad(sum(losses), list(method.readouts.parameters()))
    follow(twin, local_pass(twin, inputs, targets), credits, method.options)
    method.accumulate(inputs, targets)
    assert_same(gradients(model), gradients(twin))
    for parameter, gradient in zip(method.readouts.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_on_average_the_credit_is_the_gradient():
    model, (inputs, targets) = small("resmlp", depth=2), batch(3)
    method = build_method("forward_gradient", model, torch.Generator().manual_seed(0), directions=4000)
    credits = method.credits(trace_of(model, inputs, targets))
    for credit, gradient in zip(credits, true_gradients(model, inputs, targets), strict=True):
        assert F.cosine_similarity(credit.flatten(), gradient.flatten(), dim=0) > 0.95
        assert 0.9 < credit.norm() / gradient.norm() < 1.2


def test_every_step_has_other_directions_and_measuring_takes_none_of_them():
    model, (inputs, targets) = small("resmlp"), batch()
    method = build_method("forward_gradient", model, torch.Generator().manual_seed(1))
    trace, state = trace_of(model, inputs, targets), torch.get_rng_state()
    first, again = method.credits(trace), method.credits(trace)
    method.accumulate(inputs, targets)
    later = method.credits(trace)
    for one, same, other in zip(first, again, later, strict=True):
        assert torch.equal(one, same)
        assert not torch.allclose(one, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_where_no_site_gets_a_credit_it_is_said():
    model, (inputs, targets) = small("resmlp"), batch()
    trace = trace_of(model, inputs, targets)
    for options, message in (({"perturb": "weights"}, "the weights are perturbed"), ({"loss": "local"}, "of its own")):
        with pytest.raises(NoCredit, match=f"by design: .*{message}"):
            build_method("forward_gradient", model, **options).credits(trace)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"perturb": "weights", "loss": "local"}, "loss is 'local' while perturb is 'weights'; expected 'global'"),
        ({"perturb": "weights", "credit_norm": "rms"}, "credit_norm is 'rms' while perturb is 'weights'"),
        ({"perturb": "weights", "credit_site": "read"}, "credit_site is 'read' while perturb is 'weights'"),
        ({"directions": 0}, "directions is 0; expected 1 or more"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        build_method("forward_gradient", small("resmlp"), **options)
