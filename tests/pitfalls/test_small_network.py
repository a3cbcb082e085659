"""The network that pitfalls carry with them: its step is the zoo's DFA, its data and states are as they say."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from walkback.lab.zoo import DataSpec, build_method, build_model
from walkback.pitfalls.one_block import BlockFeedback
from walkback.pitfalls.residual_mlp import CLASSES, INPUTS, DirectFeedback, ResidualMLP, clusters, objective, seeded
from walkback.pitfalls.small_network import deep_draws, small_network

WIDTH, DEPTH = 16, 3
NAMES = {"stem.weight": "stem.1.weight", "stem.bias": "stem.1.bias"}


def as_in_the_zoo(model, feedback, name="dfa", **options):
    """The same weights and matrices in the network and the method of the zoo."""
    twin = build_model("resmlp", DataSpec((INPUTS,), CLASSES), width=WIDTH, depth=DEPTH)
    twin.load_state_dict({NAMES.get(name, name): value for name, value in model.state_dict().items()})
    method = build_method(name, twin, **options)
    method.load_state_dict({f"feedback_{site}": matrix for site, matrix in enumerate(feedback.matrices)})
    return twin.double(), method.double()


@pytest.mark.parametrize(
    ("made", "name", "options"),
    [
        (lambda model, generator: DirectFeedback(DEPTH + 1, WIDTH, generator), "dfa", {}),
        (lambda model, generator: BlockFeedback(model.head, DEPTH, WIDTH, generator), "fa_block",
         {"credit_site": "written"}),
    ],
    ids=["dfa", "fa_block"],
)  # fmt: skip
def test_a_step_is_that_of_the_zoo(made, name, options):
    with seeded(3):
        model = ResidualMLP(WIDTH, DEPTH)
        feedback = made(model, torch.Generator().manual_seed(5))
        ((inputs, targets),) = clusters(40)
    twin, method = as_in_the_zoo(model, feedback, name, **options)
    model.double()
    feedback.matrices = [matrix.double() for matrix in feedback.matrices]
    objective(model, feedback, inputs.double(), targets).backward()
    method.accumulate(inputs.double(), targets)
    theirs = dict(twin.named_parameters())
    for name, parameter in model.named_parameters():
        expected = theirs[NAMES.get(name, name)].grad
        assert expected.abs().max() > 0
        assert torch.allclose(parameter.grad, expected, rtol=1e-9, atol=1e-12), name


def test_it_computes_what_the_zoo_computes():
    model = ResidualMLP(WIDTH, DEPTH)
    feedback = DirectFeedback(DEPTH + 1, WIDTH, torch.Generator())
    twin, _ = as_in_the_zoo(model, feedback)
    inputs = torch.randn(7, INPUTS, dtype=torch.float64)
    assert torch.allclose(model.double()(inputs), twin(inputs), rtol=1e-12)


def test_clusters_are_thirty_and_the_same_for_every_set():
    with seeded(0):
        (inputs, labels), (others, other_labels) = clusters(4000, 3000)
    assert inputs.shape == (4000, INPUTS)
    assert set(labels.tolist()) == set(range(CLASSES))
    # A sample's own cluster lies √(2·64) away on average; others lie √(2·64 + 2·64).
    nearest = torch.cdist(others, inputs).min(dim=1)
    assert (labels[nearest.indices] == other_labels).double().mean() > 0.9


def test_a_frozen_network_keeps_its_blocks_and_its_stem_learns():
    frozen = small_network("blocks").model
    with seeded(0):
        clusters(1280, 512)
        start = ResidualMLP(256, 4)
    assert all(torch.equal(a, b) for a, b in zip(frozen.blocks.parameters(), start.blocks.parameters(), strict=True))
    assert not torch.allclose(frozen.stem.weight, start.stem.weight)


def test_draws_keep_the_feedback_that_the_stem_followed():
    network = small_network("blocks")
    drawn = deep_draws(network, 3)
    for cosines in drawn:
        assert float(cosines[0].mean()) == pytest.approx(network.alignment.sites[0], abs=1e-4)
    assert not torch.equal(drawn[0][1:], drawn[1][1:])


def test_every_random_state_and_the_threads_are_left_as_they_were_found():
    def states():
        return torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002

    before, threads = states(), torch.get_num_threads()
    with pytest.raises(RuntimeError), seeded(1):
        torch.rand(3) @ torch.rand(4)
    assert (states(), torch.get_num_threads()) == (before, threads)
