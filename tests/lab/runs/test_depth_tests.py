"""The functional tests of depth against twins that change the network by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from tiny_runs import SMALL, tiny
from torch import nn

from walkback.lab.runs import linear_probe as probe
from walkback.lab.runs.assembly import assemble, dataset_of, initial_model
from walkback.lab.runs.depth_tests import DRAWS, NO_SKIP, depth_tests, fresh_blocks
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.measure import accuracy_on, right_answers
from walkback.lab.zoo.datasets import Batches, evaluation_batches


def trained(architecture, steps=20, **settings):
    config = tiny("bp", architecture, **settings)
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    for _ in range(steps):
        for inputs, targets in Batches(dataset.train, 640).epoch(0):
            run.step(inputs, targets)
    return config, run.method, dataset


def accuracy(model, dataset):
    model.eval()
    with torch.no_grad():
        batches = list(evaluation_batches(dataset.test, 100))
        right = sum(int((model(inputs).argmax(1) == targets).sum()) for inputs, targets in batches)
    return right / len(dataset.test)


def test_removed_blocks_of_a_convolutional_network_match_a_changed_copy():
    config, method, dataset = trained("small_resnet")
    figures, model = depth_tests(config, method, dataset), method.model
    assert figures["not_removed"] == ""
    for index in range(len(model.blocks)):
        twin = copy.deepcopy(model)
        twin.blocks[index] = nn.Identity()
        assert figures["blocks_removed"][index] == pytest.approx(accuracy(twin, dataset), abs=1e-6)


@pytest.mark.parametrize("architecture", ["resmlp", "vit_mini", "student_net"])
def test_removed_and_rerandomised_blocks_match_a_changed_copy(architecture):
    config, method, dataset = trained(architecture)
    figures, model = depth_tests(config, method, dataset), method.model
    assert figures["not_removed"] == ""
    for index in range(len(model.blocks)):
        twin = copy.deepcopy(model)
        twin.blocks[index] = nn.Identity()
        assert figures["blocks_removed"][index] == pytest.approx(accuracy(twin, dataset), abs=1e-6)
        assert len(figures["blocks_rerandomised"][index]) == DRAWS
        for draw in range(DRAWS):
            twin = copy.deepcopy(model)
            seed = derived_seed(config.seed, "rerandomised blocks") + draw
            twin.blocks[index] = initial_model(config, dataset.spec, seed).blocks[index]
            assert figures["blocks_rerandomised"][index][draw] == pytest.approx(accuracy(twin, dataset), abs=1e-6)


def test_a_trained_network_loses_something_with_each_block():
    config, method, dataset = trained("resmlp", steps=60, architecture_options={"width": 16, "depth": 2})
    figures = depth_tests(config, method, dataset)
    whole = accuracy_on(method, dataset.test).value
    assert whole > 0.8
    assert max(figures["blocks_removed"]) < whole


@pytest.mark.parametrize(
    ("architecture", "options"),
    [("small_cnn", SMALL["small_cnn"]), ("resmlp", {"width": 12, "depth": 3, "residual_add": False, "w2_std": 0.5})],
)
def test_blocks_without_skips_are_not_removed_but_made_random(architecture, options):
    config, method, dataset = trained(architecture, architecture_options=options)
    figures = depth_tests(config, method, dataset)
    assert figures["blocks_removed"] == [None, None, None]
    assert figures["not_removed"] == NO_SKIP
    assert all(len(row) == DRAWS for row in figures["blocks_rerandomised"])


def test_fresh_blocks_have_the_statistics_of_the_states_they_read():
    config, method, dataset = trained("small_cnn", steps=3)
    model = method.model
    first = fresh_blocks(config, model, dataset, 0)[0]
    model.eval()
    with torch.no_grad():
        convolved = torch.cat([first.body[0](model.stem(x)) for x, _ in evaluation_batches(dataset.train, 500)])
    norm = first.body[1]
    assert torch.allclose(norm.running_mean, convolved.mean(dim=(0, 2, 3)), atol=1e-3)
    assert not first.training


def test_the_model_is_left_as_it_was():
    config, method, dataset = trained("small_cnn", steps=2)
    model = method.model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    learning = [p.requires_grad for p in model.parameters()]
    random_state = torch.get_rng_state()
    depth_tests(config, method, dataset)
    assert all(value.equal(model.state_dict()[name]) for name, value in before.items())
    assert all(module.training for module in model.modules())
    assert [p.requires_grad for p in model.parameters()] == learning
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert (parameter.grad is None) == (gradient is None)
        assert gradient is None or gradient.equal(parameter.grad)
    assert torch.get_rng_state().equal(random_state)


def ridge_by_least_squares(seen, labels, unseen, truth):
    """The same ridge as one least-squares problem, with rows for the regulariser, in NumPy."""
    seen, unseen, targets = seen.numpy(), unseen.numpy(), np.eye(10)[labels.numpy()]
    mean, deviation = seen.mean(0), seen.std(0, ddof=1)
    deviation[deviation == 0] = 1
    rows = np.vstack([(seen - mean) / deviation, np.sqrt(probe.RIDGE * len(seen)) * np.eye(seen.shape[1])])
    centre = targets.mean(0)
    wanted = np.vstack([targets - centre, np.zeros((seen.shape[1], 10))])
    weights = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    answers = ((unseen - mean) / deviation @ weights + centre).argmax(1)
    return (answers == truth.numpy()).mean()


def test_probes_match_a_least_squares_twin():
    _, method, dataset = trained("resmlp")
    model = method.model
    accuracies = probe.probe_accuracies(model, dataset.train, dataset.test)
    model.eval()
    with torch.no_grad():
        for site, measured in enumerate(accuracies):
            seen, unseen = (
                torch.cat([list(probe.sites_of(model, x))[site].double() for x, _ in evaluation_batches(split, 97)])
                for split in (dataset.train, dataset.test)
            )
            twin = ridge_by_least_squares(seen, dataset.train.labels, unseen, dataset.test.labels)
            assert measured == pytest.approx(twin, abs=0.004)
    assert min(accuracies) > 0.5


def test_probes_do_not_mind_the_scale_of_the_stream():
    _, method, dataset = trained("student_net")
    model = method.model
    plain = probe.probe_accuracies(model, dataset.train, dataset.test)
    with torch.no_grad():
        for linear in (model.stem[1], *(block.linear2 for block in model.blocks)):
            linear.weight *= 2.0**60
            linear.bias *= 2.0**60
    assert probe.probe_accuracies(model, dataset.train, dataset.test) == pytest.approx(plain, abs=0.004)
    with torch.no_grad():
        model.blocks[1].linear2.bias[0] = torch.nan
    assert probe.probe_accuracies(model, dataset.train, dataset.test)[-1] is None


@pytest.mark.parametrize(
    ("shape", "size"), [((5, 6), 6), ((5, 3, 4), 8), ((5, 3, 8, 8), 12), ((5, 3, 2, 2), 12), ((5, 3, 1, 1), 12)]
)
def test_sites_of_any_shape_become_vectors(shape, size):
    site = torch.arange(float(np.prod(shape))).view(shape)
    assert probe.features(site).shape == (5, size)
    assert probe.features(site).dtype == torch.float64
    if len(shape) == 3:
        assert probe.features(site)[0].tolist() == site[0, 0].tolist() + site[0].mean(0).tolist()


def test_a_network_of_nan_is_right_by_no_chance():
    logits = torch.tensor([[0.0, 1.0], [torch.nan, torch.nan], [0.0, 1.0]])
    assert right_answers(logits, torch.tensor([1, 0, 0])) == 1
