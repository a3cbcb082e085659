"""DRTP and error-sign DFA against a NumPy twin of their rules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from plain_chain import Pass, agree, tanh_network, weight_gradients
from plain_layers import plain
from zoo_networks import batch, small, trace_of

from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods.dfa import DFA
from walkback.lab.zoo.methods.drtp import DRTP
from walkback.lab.zoo.methods.sdfa import SDFA


def told(seen, name):
    """What every site is told of a sample, (B, classes), entry by entry."""
    if name == "drtp":
        return seen.target
    return np.array([[(error > 0) * 1.0 - (error < 0) for error in row] for row in seen.error])


def like_its_twin(name):
    model, (inputs, targets) = tanh_network(), batch()
    method = build_method(name, model, torch.Generator().manual_seed(1))
    seen = Pass(model, inputs, targets)
    credits = [told(seen, name) @ plain(method.feedback(site)) for site in range(3)]
    found = method.credits(trace_of(model, inputs, targets))
    method.accumulate(inputs, targets)
    same = all(np.allclose(plain(a), b, atol=1e-10) for a, b in zip(found, credits, strict=True))
    return same and agree(weight_gradients(model), seen.update(credits))


@pytest.mark.parametrize("name", ["drtp", "sdfa"])
def test_credits_and_updates_are_those_of_the_twin(name):
    assert like_its_twin(name)


def test_mutant_of_drtp_that_is_told_the_error(monkeypatch):
    monkeypatch.setattr(DRTP, "credits_at", DFA.credits_at)
    assert not like_its_twin("drtp")


def test_mutant_of_sdfa_that_is_told_the_error_itself(monkeypatch):
    monkeypatch.setattr(SDFA, "credits_at", DFA.credits_at)
    assert not like_its_twin("sdfa")


def test_drtp_sees_the_target_and_nothing_of_the_answer():
    model, (inputs, targets) = tanh_network(), batch()
    method, trace = build_method("drtp", model), trace_of(model, inputs, targets)
    other = replace(trace, logits=torch.randn_like(trace.logits), error=torch.randn_like(trace.error))
    for one, same in zip(method.credits(trace), method.credits(other), strict=True):
        assert torch.equal(one, same)


def test_the_feedback_of_drtp_has_the_law_of_its_authors():
    matrix = build_method("drtp", small("resmlp", width=5000), torch.Generator().manual_seed(1)).feedback(1)
    assert float(matrix.abs().max()) <= (6 / 5000) ** 0.5
    assert float(matrix.std()) == pytest.approx((2 / 5000) ** 0.5, rel=0.02)
    assert abs(float(matrix.mean())) < 1e-3


def test_both_promise_independent_feedback():
    for name in ("drtp", "sdfa"):
        assert build_method(name, small("resmlp")).independent_feedback
