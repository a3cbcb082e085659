"""Perturbation ρ and nudge on any network, against a slow twin in numpy that shares nothing with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import walkback
from walkback.errors import InputError
from walkback.protocol.functional import unit_directions
from walkback.protocol.functional_meter import SEED
from walkback.protocol.records import State

SAMPLES, DIRECTIONS, CLASSES, WIDTH = 24, 32, 4, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.tanh(self.linear(x))


class Net(nn.Module):
    def __init__(self, blocks=2):
        super().__init__()
        self.stem = nn.Linear(5, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)


def made(seed=0, scale=1.0):
    torch.manual_seed(seed)
    model, inputs, targets = Net(), torch.randn(SAMPLES, 5), torch.randint(0, CLASSES, (SAMPLES,))
    with torch.no_grad():
        model.stem.weight *= scale
    return model, inputs, targets


def weights(linear):
    return linear.weight.detach().double().numpy(), linear.bias.detach().double().numpy()


def sites_in_numpy(model, inputs):
    matrix, bias = weights(model.stem)
    h = inputs.double().numpy() @ matrix.T + bias
    sites = [h]
    for block in model.blocks:
        matrix, bias = weights(block.linear)
        h = h + np.tanh(h @ matrix.T + bias)
        sites.append(h)
    return sites


def loss_in_numpy(model, h, site, targets):
    for block in model.blocks[site:]:
        matrix, bias = weights(block.linear)
        h = h + np.tanh(h @ matrix.T + bias)
    matrix, bias = weights(model.head)
    logits = h @ matrix.T + bias
    top = logits.max(axis=1, keepdims=True)
    return np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0] - logits[np.arange(len(h)), targets]


class Feedback:
    """DFA's credit from fixed matrices."""

    def __init__(self, seed=1):
        generator = torch.Generator().manual_seed(seed)
        self.matrices = [torch.randn(CLASSES, WIDTH, generator=generator) for _ in range(3)]

    def credits(self, trace):
        return [trace.error.float() @ matrix for matrix in self.matrices]


class Backprop:
    """The true gradient as credit."""

    def __init__(self, model):
        self.model = model

    def credits(self, trace):
        credits = []
        for site, hidden in enumerate(trace.hiddens):
            with torch.enable_grad():
                h = at = hidden.clone().requires_grad_()
                for block in self.model.blocks[site:]:
                    h = block(h)
                loss = nn.functional.cross_entropy(self.model.head(h), trace.targets, reduction="sum")
                credits.append(torch.autograd.grad(loss, at)[0])
        return credits


def twin(model, inputs, targets, credits):
    """ρ and both nudges by their definitions, one sample and one direction after the other."""
    targets = targets.numpy()
    rhos, nudges, unit_nudges = [], [], []
    for site, (h, credit) in enumerate(zip(sites_in_numpy(model, inputs), credits, strict=True)):
        generator = torch.Generator().manual_seed(SEED + site)
        a, told, changed = credit.double().numpy(), [], []
        before = loss_in_numpy(model, h, site, targets)
        for sample in range(SAMPLES):
            for v in unit_directions((WIDTH,), DIRECTIONS, generator).numpy():
                moved = h.copy()
                moved[sample] += 1e-3 * v
                told.append(1e-3 * a[sample] @ v)
                changed.append(loss_in_numpy(model, moved, site, targets)[sample] - before[sample])
        rhos.append(np.corrcoef(told, changed)[0, 1])
        nudges.append((loss_in_numpy(model, h - 0.01 * a, site, targets) - before).mean())
        unit = np.stack([row / np.sqrt((row * row).mean()) for row in a])
        unit_nudges.append((loss_in_numpy(model, h - 0.01 * unit, site, targets) - before).mean())
    return rhos, nudges, unit_nudges


def credits_on(model, rule, inputs, targets):
    seen = []

    class Noting:
        def credits(self, trace):
            seen.append(rule.credits(trace))
            return seen[-1]

    walkback.diagnose(model, [(inputs, targets)], credit=Noting(), null_draws=0)
    return seen[0]


@pytest.mark.parametrize("rule", ["feedback", "backprop"])
def test_they_are_those_of_a_slow_twin(rule):
    model, inputs, targets = made()
    rule = Feedback() if rule == "feedback" else Backprop(model)
    report = walkback.diagnose(model, [(inputs, targets)], credit=rule, null_draws=0, functional=SAMPLES)
    rhos, nudges, unit_nudges = twin(model, inputs, targets, credits_on(model, rule, inputs, targets))
    np.testing.assert_allclose(report.perturbation_rho, rhos, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(report.nudge, nudges, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(report.unit_nudge, unit_nudges, rtol=1e-4, atol=1e-9)
    for values in ("perturbation_rho", "nudge", "unit_nudge"):
        pairs = zip(getattr(report, values), getattr(report, f"{values}_intervals"), strict=True)
        assert all(interval.low <= value <= interval.high for value, interval in pairs)
    assert report.functional_samples == SAMPLES


def test_backpropagation_tells_every_change_and_its_step_lowers_the_loss():
    model, inputs, targets = made()
    report = walkback.diagnose(model, [(inputs, targets)], credit=Backprop(model), null_draws=0, functional=SAMPLES)
    assert min(report.perturbation_rho) >= 0.99
    assert max(report.nudge) < 0
    assert report.reading("p").state is report.reading("n").state is State.REPORTED


def test_over_fresh_draws_of_feedback_rho_is_none_in_the_mean():
    model, inputs, targets = made()
    found = [
        walkback.diagnose(model, [(inputs, targets)], credit=Feedback(seed), null_draws=0, functional=SAMPLES)
        for seed in range(20)
    ]
    # The draws' own spread says how far the mean of 20 may be from 0.
    rhos = np.array([report.perturbation_rho for report in found])
    spread = rhos.mean(axis=1).std(ddof=1) / 20**0.5
    assert abs(rhos.mean()) < 4 * spread
    assert spread < 0.1


@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_they_hold_where_the_stream_is_huge_or_tiny(scale):
    model, inputs, targets = made(scale=scale)
    report = walkback.diagnose(model, [(inputs, targets)], credit=Backprop(model), null_draws=0, functional=SAMPLES)
    assert all(-1 <= rho <= 1 for rho in (*report.perturbation_rho, *report.scaled_rho))


class Detached(Net):
    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = h.detach() + torch.tanh(block.linear(h))
        return self.head(h)


def test_they_need_no_gradient_that_can_be_trusted():
    torch.manual_seed(0)
    model, (_, inputs, targets) = Detached(), made()
    report = walkback.diagnose(model, [(inputs, targets)], credit=Backprop(model), null_draws=0, functional=SAMPLES)
    assert report.reading("b").state is State.NOT_MEASURED
    assert min(report.perturbation_rho) >= 0.99


def test_tokens_other_losses_and_mappings_are_tested_too():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.head = nn.Linear(WIDTH, 11)

        def forward(self, input_ids):
            h = self.embed(input_ids)
            for block in self.blocks:
                h = block(h)
            return self.head(h)

    torch.manual_seed(0)
    model, words = Words(), torch.randint(0, 11, (SAMPLES, 7))
    batch = {"input_ids": words, "labels": words.roll(-1, 1)}

    def credit(hiddens, logits, targets):
        found = []
        for site, hidden in enumerate(hiddens):
            with torch.enable_grad():
                h = at = hidden.clone().requires_grad_()
                for block in model.blocks[site:]:
                    h = block(h)
                loss = nn.functional.cross_entropy(model.head(h).flatten(0, 1), targets.flatten(), reduction="sum")
                found.append(torch.autograd.grad(loss, at)[0])
        return found

    report = walkback.diagnose(model, [batch], credit=credit, functional=16)
    assert min(report.perturbation_rho) >= 0.99
    assert report.functional_samples == 16


@pytest.mark.parametrize("asked", [0, -1, True, 1.5, "64"])
def test_how_many_samples_must_be_a_count(asked):
    model, inputs, targets = made()
    with pytest.raises(InputError, match="on how many samples"):
        walkback.diagnose(model, [(inputs, targets)], credit=Feedback(), functional=asked)


def test_without_a_credit_there_is_nothing_to_test():
    model, inputs, targets = made()
    with pytest.raises(InputError, match="Pass credit="):
        walkback.diagnose(model, [(inputs, targets)], functional=8)


def test_they_are_listed_where_they_were_measured_alone():
    model, inputs, targets = made()
    without = walkback.diagnose(model, [(inputs, targets)], credit=Feedback(), null_draws=0)
    assert {"p", "n"}.isdisjoint(reading.letter for reading in without.readings)


def test_the_model_and_the_random_state_are_left_as_they_were():
    model, inputs, targets = made()
    before, state = [p.clone() for p in model.parameters()], torch.get_rng_state()
    walkback.diagnose(model, [(inputs, targets)], credit=Feedback(), null_draws=0, functional=8)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(state, torch.get_rng_state())


def test_a_loss_that_fails_is_the_callers_to_mend():
    model, inputs, targets = made()
    calls = []

    def loss(logits, targets):
        calls.append(1)
        if len(logits) == 8:  # as many as are tested functionally, and nowhere else
            raise ValueError("no")
        return nn.functional.cross_entropy(logits, targets, reduction="none")

    with pytest.raises(InputError, match="loss= failed"):
        walkback.diagnose(model, [(inputs, targets)], credit=Feedback(), null_draws=0, functional=8, loss=loss)


class HalfStem(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, WIDTH)

    def forward(self, x):
        return self.linear(x.half())


def test_a_network_that_casts_its_input_is_measured_without_them():
    # Its own cast meets weights in fp64 on the way; that is nothing that the caller's batches could be blamed for.
    torch.manual_seed(0)
    model = Net()
    model.stem = HalfStem()
    batches = [(torch.randn(SAMPLES, 5), torch.randint(0, CLASSES, (SAMPLES,)))]
    report = walkback.diagnose(
        model.half(), batches, blocks=["blocks.0", "blocks.1"], functional=SAMPLES,
        credit=lambda hiddens, logits, targets: list(hiddens),
    )  # fmt: skip
    assert report.residual_norms is not None
    assert report.perturbation_rho is None
    assert "fp64" in report.no_functional
    assert "float16" in report.no_functional
