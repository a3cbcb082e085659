"""The weight mirror against a NumPy twin on the same noise, and against what noise must teach it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_chain import NAMES, Pass, agree, tanh_network, weight_gradients, weights_of
from plain_layers import plain
from zoo_networks import batch, small

from walkback.errors import InputError
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import build_method
from walkback.lab.zoo.methods.weight_mirror import WeightMirror

ETA, NOISE, SAMPLES = 0.3, 0.7, 11
OPTIONS = {"mirror_rate": ETA, "noise": NOISE, "mirror_samples": SAMPLES}
KINDS = [
    {"growth": growth, "response": response}
    for growth in ("decay", "response", "free")
    for response in ("linear", "sigmoid")
]


def feedback_of(method):
    return {name: plain(method.feedback(name)).copy() for name in NAMES}


def twin_mirrored(model, feedback, growth, response):
    """B += η Σ y xᵀ one sample of noise at a time, and then what keeps it from growing."""
    found = {}
    for name, weight in weights_of(model).items():
        bias = plain(model.get_submodule(name).bias)
        uniform = torch.rand(SAMPLES, weight.shape[1], dtype=torch.float64).numpy()
        mirrored = feedback[name].copy()
        if growth == "decay":
            mirrored -= feedback[name] * ETA * SAMPLES * NOISE**2 / 12
        for draw in uniform:
            noise = NOISE * (draw - 0.5)
            answer = weight @ noise
            if response == "sigmoid":
                answer = 1 / (1 + np.exp(-answer - bias))
            mirrored += ETA * np.outer(answer, noise)
        if growth == "response":
            draws = torch.rand(SAMPLES, len(weight), dtype=torch.float64).numpy()
            mirrored *= 0.5 / np.mean([np.std(mirrored.T @ draw) for draw in draws])
        found[name] = mirrored
    return found


def like_its_twin(kind):
    """Some steps of SGD on the same noise: whether the updates and the feedback are the twin's."""
    model, (inputs, targets) = tanh_network(), batch()
    method = build_method("weight_mirror", model, torch.Generator().manual_seed(1), **OPTIONS, **kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    backward, same = feedback_of(method), True
    for step in range(3):
        seen = Pass(model, inputs, targets)
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        same &= agree(weight_gradients(model), seen.update(seen.chain(backward)))
        optimizer.step()
        torch.manual_seed(step)
        method.after_step()
        torch.manual_seed(step)
        backward = twin_mirrored(model, backward, **kind)
        same &= agree(feedback_of(method), backward)
    return same


@pytest.mark.parametrize("kind", KINDS)
def test_updates_and_feedback_are_those_of_the_twin(kind):
    assert like_its_twin(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_mutant_noise_that_does_not_go_through_the_weights(kind, monkeypatch):
    monkeypatch.setattr(WeightMirror, "_answer", lambda self, layer, response: torch.rand_like(response) - 0.5)
    assert not like_its_twin(kind)


def test_mutant_feedback_that_forgets_nothing(monkeypatch):
    monkeypatch.setattr(WeightMirror, "forgetting", 0.0)
    assert not like_its_twin({"growth": "decay", "response": "linear"})


@torch.no_grad()
def cosines(method):
    """cos(B, W) of every layer."""
    return [
        float(F.cosine_similarity(method.feedback(name).flatten(), layer.weight.flatten(), dim=0))
        for name, layer in method.layers()
    ]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_noise_alone_teaches_the_weights_themselves(architecture):
    model = small(architecture)
    method = build_method("weight_mirror", model, torch.Generator().manual_seed(1), mirror_rate=0.2, noise=0.2)
    before = cosines(method)
    torch.manual_seed(3)
    for _ in range(1500):
        method.after_step()
    assert max(before) < 0.6
    # What is left is the noise of the last mirrorings: B − W = W M, where the entries of M, (in, in) and symmetric,
    # have the variance d/(2n): a share of √(in·d/2n). The 15 entries of the smallest M do not make that three times.
    expected = [(layer.weight[0].numel() * method.forgetting / 256) ** 0.5 for _, layer in method.layers()]
    for (name, layer), noise in zip(method.layers(), expected, strict=True):
        weight = layer.weight.detach()
        assert float((method.feedback(name) - weight).norm() / weight.norm()) < 3 * noise
    # A share s of noise leaves a cosine of 1/√(1 + s²); of a layer with 400 inputs that would be 0.94.
    least = [min(0.97, (1 + 2 * noise**2) ** -0.5) for noise in expected]
    assert all(found > bound for found, bound in zip(cosines(method), least, strict=True))


def test_mirrorings_before_the_first_step_come_from_the_generator():
    model = tanh_network()
    state = torch.get_rng_state()
    methods = [
        build_method("weight_mirror", model, torch.Generator().manual_seed(seed), first_mirrors=200)
        for seed in (1, 1, 2)
    ]
    assert torch.equal(torch.get_rng_state(), state)
    first, same, other = (feedback_of(method) for method in methods)
    assert agree(first, same)
    assert not agree(first, other)
    plainly = build_method("weight_mirror", model, torch.Generator().manual_seed(1))
    assert min(cosines(methods[0])) > max(cosines(plainly))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mirror_rate": 0.0}, r"mirror_rate is 0\.0; expected a finite number above 0"),
        ({"noise": -0.1}, "noise is -0.1; expected a finite number above 0"),
        ({"mirror_samples": 0}, "mirror_samples is 0; expected 1 or more"),
        ({"first_mirrors": -1}, "first_mirrors is -1; expected 0 or more"),
        ({"noise": 3.0}, "is 9.6; expected less than 1"),
    ],
)
def test_impossible_mirrors_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        build_method("weight_mirror", tanh_network(), **options)
