"""Difference target propagation against its targets and its reconstruction losses in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from chains import activities, agree, chain, gradients_of, one_hot, outer, softmax, weights
from plain_layers import plain
from zoo_networks import batch, small, trace_of

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods import dtp

ETA, SIGMA = 0.7, 0.3
LAYERWISE = {"feedback": "layerwise", "inverse": "tanh", "target_step": ETA, "noise": SIGMA}


def numbers(layers, flat, targets):
    """The activities, the logits and the error of a chain of tanh layers."""
    hiddens, (weight, bias) = activities(layers, flat, np.tanh), layers[-1]
    logits = hiddens[-1] @ weight.T + bias
    return hiddens, logits, softmax(logits) - one_hot(targets)


def followed(credits, hiddens, flat, error):
    """What the layers learn from their credits, and the head from its error."""
    found = []
    for credit, hidden, read in zip(credits, hiddens, [flat, *hiddens[:-1]], strict=True):
        found += outer(credit * (1 - hidden**2), read)
    return found + outer(error, hiddens[-1])


def noises(method, hiddens):
    """The noise of the step to come, site by site."""
    generator = method.draws.generator()
    return [SIGMA * torch.randn(h.shape, generator=generator, dtype=torch.float64).numpy() for h in hiddens]


def layerwise_agrees():
    """The targets by hand, ĥ_l = h_l + g(ĥ_{l+1}) − g(h_{l+1}), and each g's own loss."""
    model, (inputs, targets) = chain(), batch()
    method = build_method("dtp", model, **LAYERWISE)
    layers, flat = weights(model), inputs.flatten(1).numpy()
    hiddens, _, error = numbers(layers, flat, targets)
    inverses = [(plain(g[0].weight), plain(g[0].bias)) for g in method.inverses]
    drawn = noises(method, hiddens[:-1])
    wanted = [hiddens[-1] - ETA * error @ layers[-1][0]]
    for (v, c), below, above in reversed(list(zip(inverses, hiddens[:-1], hiddens[1:], strict=True))):
        wanted.insert(0, below + np.tanh(wanted[0] @ v.T + c) - np.tanh(above @ v.T + c))
    credits = [(hidden - target) / ETA for hidden, target in zip(hiddens, wanted, strict=True)]
    method.accumulate(inputs, targets)
    expected = followed(credits, hiddens, flat, error)
    got = gradients_of(model)
    for (v, c), (w, b), below, noise, g in zip(
        inverses, layers[1:-1], hiddens[:-1], drawn, method.inverses, strict=True
    ):
        noisy = below + noise
        above = np.tanh(noisy @ w.T + b)
        again = np.tanh(above @ v.T + c)
        slope = 2 * (again - noisy) * (1 - again**2) / SIGMA**2 / noisy.size
        expected += [slope.T @ above, slope.sum(axis=0)]
        got += [plain(g[0].weight.grad), plain(g[0].bias.grad)]
    return agree(got, expected)


def direct_agrees():
    """Credit Q_l e, and Q_l's difference reconstruction loss."""
    model, (inputs, targets) = chain(), batch()
    method = build_method("dtp", model, noise=SIGMA, target_step=ETA)
    layers, flat = weights(model), inputs.flatten(1).numpy()
    hiddens, logits, error = numbers(layers, flat, targets)
    feedback, drawn = [plain(q).copy() for q in method.feedback], noises(method, hiddens)
    # ĥ_l = h_l + Q_l(z − ηe) − Q_l z
    wanted = [h + (logits - ETA * error) @ q - logits @ q for h, q in zip(hiddens, feedback, strict=True)]
    method.accumulate(inputs, targets)
    credits = [(hidden - target) / ETA for hidden, target in zip(hiddens, wanted, strict=True)]
    expected, got = followed(credits, hiddens, flat, error), gradients_of(model)
    for site, (q, hidden, noise) in enumerate(zip(feedback, hiddens, drawn, strict=True)):
        above = activities(layers[site + 1 :], hidden + noise, np.tanh)
        last = above[-1] if above else hidden + noise
        moved = last @ layers[-1][0].T + layers[-1][1] - logits
        expected.append(moved.T @ (2 * (moved @ q - noise) / SIGMA**2 / noise.size))
        got.append(plain(method.feedback[site].grad))
    return agree(got, expected, 1e-8)


def test_layerwise_the_rule_is_that_of_the_twin():
    assert layerwise_agrees()


def test_mutant_without_the_difference_is_found(monkeypatch):
    monkeypatch.setattr(dtp, "aim_below", lambda inverse, above, aim: inverse(above + aim))
    assert not layerwise_agrees()


def test_direct_the_rule_is_that_of_the_twin():
    assert direct_agrees()


def test_mutant_whose_feedback_undoes_the_logits_and_not_their_difference_is_found(monkeypatch):
    right = dtp.DTP._logits_from
    monkeypatch.setattr(
        dtp.DTP, "_logits_from", lambda self, site, hidden: right(self, site, hidden) + self.model.head.bias
    )
    assert not direct_agrees()


def test_feedback_that_undoes_the_jacobian_has_nothing_to_learn():
    """The head of the chain has as many units as logits, so its inverse undoes any noise at h_L."""
    model, (inputs, targets) = chain(), batch()
    method = build_method("dtp", model)
    method.accumulate(inputs, targets)
    before = method.feedback[-1].grad.abs().max()
    method.zero_grad()
    with torch.no_grad():
        method.feedback[-1].copy_(torch.linalg.inv(model.head.weight).T)
    method.accumulate(inputs, targets)
    assert method.feedback[-1].grad.abs().max() < 1e-12 * before


@pytest.mark.parametrize("architecture", [name for name in ARCHITECTURES if name in ("resmlp", "vit_mini")])
def test_layerwise_feedback_takes_vectors_and_tokens(architecture):
    model, (inputs, targets) = small(architecture), batch()
    method = build_method("dtp", model, feedback="layerwise")
    method.accumulate(inputs, targets)
    assert all(parameter.grad is not None for parameter in [*model.parameters(), *method.parameters()])
    shapes = [credit.shape for credit in method.credits(trace_of(model, inputs, targets))]
    assert shapes == [hidden.shape for hidden in trace_of(model, inputs, targets).hiddens]


def test_the_step_of_the_target_cancels_where_all_is_linear():
    model, (inputs, targets) = small("resmlp"), batch()
    trace, generator = trace_of(model, inputs, targets), torch.Generator
    for feedback in ("direct", "layerwise"):
        near, far = (
            build_method("dtp", model, generator().manual_seed(1), feedback=feedback, target_step=step).credits(trace)
            for step in (0.01, 10.0)
        )
        for one, other in zip(near, far, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_noise_is_drawn_anew_at_every_step_and_torchs_own_generator_is_left_alone():
    model, (inputs, targets) = small("resmlp"), batch()
    method, state = build_method("dtp", model, torch.Generator().manual_seed(1)), torch.get_rng_state()
    found = []
    for _ in range(2):
        method.zero_grad()
        method.accumulate(inputs, targets)
        found.append(method.feedback[0].grad.clone())
    assert not torch.allclose(*found)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("architecture", "options", "message"),
    [
        (
            "small_cnn",
            {"feedback": "layerwise"},
            r"site 0 has the shape \(3, 4, 4\); expected vectors.*Use feedback 'dir",
        ),
        ("resmlp", {"noise": 0.0}, r"noise is 0\.0; expected a finite number above 0"),
        ("resmlp", {"target_step": -1.0}, r"target_step is -1\.0; expected a finite number above 0"),
    ],
)
def test_what_cannot_be_is_refused(architecture, options, message):
    with pytest.raises(InputError, match=message):
        build_method("dtp", small(architecture), **options)
