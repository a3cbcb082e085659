"""Growth from init, total growth, movement and the error-free floor, against loops over samples in fp64."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_models import CLASSES, INPUT, ResMLP, labelled
from torch import nn

import walkback
from walkback import DiagnosticThresholds, Measurements, State
from walkback.errors import InputError
from walkback.protocol.judge import read
from walkback.protocol.uncertainty import medians_with_intervals


def trained(seed=0, factor=4.0):
    torch.manual_seed(seed)
    start = ResMLP()
    model = copy.deepcopy(start)
    with torch.no_grad():
        for parameter in model.blocks[1].parameters():
            parameter.mul_(factor)
        for parameter in model.blocks[2].parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.head.weight.add_(0.1)
    return start, model


def sites_slow(model, inputs):
    model = copy.deepcopy(model).double()
    h = model.stem(inputs.double())
    found = [h]
    for block in model.blocks:
        h = block(h)
        found.append(h)
    return [site.detach().flatten(1).numpy() for site in found]


def reading(report, letter, **thresholds):
    return next(r for r in read(report.measurements, DiagnosticThresholds(**thresholds)) if r.letter == letter)


def test_growth_from_init_is_the_median_ratio_of_every_sample():
    start, model = trained()
    batches = labelled(70, 50)
    report = walkback.diagnose(model, batches, initial=start)
    inputs = torch.cat([x for x, _ in batches])
    ratios = [
        np.linalg.norm(now, axis=1) / np.linalg.norm(before, axis=1)
        for now, before in zip(sites_slow(model, inputs), sites_slow(start, inputs), strict=True)
    ]
    assert report.growth_from_init == pytest.approx([np.median(r) for r in ratios], rel=1e-5)
    found = report.reading("i")
    assert found.value == pytest.approx(max(np.median(r) for r in ratios), rel=1e-5)
    assert found.state is State.REPORTED
    assert found.interval.low <= found.value <= found.interval.high
    assert reading(report, "i", init_growth_ceiling=1.01).state is State.FIRE
    assert reading(report, "i", init_growth_ceiling=1e4).state is State.PASS


def test_an_exploded_stem_is_seen_which_no_block_shows():
    start, _ = trained()
    model = copy.deepcopy(start)
    with torch.no_grad():
        model.stem.weight.mul_(1e6)
        model.stem.bias.mul_(1e6)
    report = walkback.diagnose(model, labelled(60), initial=start)
    assert report.max_per_block_growth < 50
    assert report.reading("i").value == pytest.approx(1e6, rel=1e-3)
    assert report.reading("i").site == 0


def test_movement_is_that_of_each_block_and_a_frozen_one_has_none():
    start, model = trained()
    report = walkback.diagnose(model, labelled(40), initial=start.state_dict())

    def moved(now, before):
        apart = sum(((a.double() - b.double()) ** 2).sum().item() for a, b in zip(now, before, strict=True))
        return math.sqrt(apart / sum((b.double() ** 2).sum().item() for b in before))

    slow = [moved(list(a.parameters()), list(b.parameters()))
            for a, b in zip(model.blocks, start.blocks, strict=True)]  # fmt: skip
    assert report.block_movement == pytest.approx(slow, rel=1e-6)
    assert slow[0] == 0
    assert report.stem_movement == 0
    head = [*model.norm.parameters(), *model.head.parameters()], [*start.norm.parameters(), *start.head.parameters()]
    assert report.head_movement == pytest.approx(moved(*head), rel=1e-6)
    found = report.reading("m")
    assert found.value == 0
    assert "blocks.0 moved least. It did not move at all" in found.sentence
    assert reading(report, "m", movement_floor=1e-3).state is State.FIRE
    assert walkback.diagnose(start, labelled(40), initial=start).reading("i").value == pytest.approx(1)


def test_initial_may_be_a_function_and_the_network_is_left_as_it_was():
    start, model = trained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()

    def build():
        torch.manual_seed(0)
        return ResMLP()

    report = walkback.diagnose(model, labelled(40), initial=build)
    assert report.block_movement == walkback.diagnose(model, labelled(40), initial=start).block_movement
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in model.parameters())
    wrapped = {f"module.{name}": value for name, value in start.state_dict().items()}
    assert walkback.diagnose(model, labelled(40), initial=wrapped).block_movement == report.block_movement


class Alone(nn.Module):
    """A network in a part of that name, as a wrapper of one's own has it."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)


def test_a_network_whose_only_part_is_called_module_keeps_its_names():
    start, model = trained()
    plain = walkback.diagnose(model, labelled(40), initial=start).block_movement
    for begun in (Alone(start), {f"module.{name}": value for name, value in Alone(start).state_dict().items()}):
        assert walkback.diagnose(Alone(model), labelled(40), initial=begun).block_movement == plain


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "a function that"),
        ({}, "the weights given lack "),
        (lambda: {name: value * math.nan for name, value in ResMLP().state_dict().items()}, "holds NaN or Inf in "),
        (lambda: 5, "is 5"),
        (ResMLP(depth=2), r"the weights given lack blocks\.2\.\S+, which has shape \(.+\) in the model"),
        (
            {"stem.weight": torch.zeros(4, INPUT)},
            r"the weights given have \S+ with shape \(.+\), which has shape \(.+\) in the model",
        ),
    ],
)
def test_what_is_no_start_of_this_network_is_refused(given, words):
    with pytest.raises(InputError, match=words):
        walkback.diagnose(trained()[1], labelled(40), initial=given)


class ClassTokenNet(nn.Module):
    """A tiny class token beside ordinary tokens; the head reads the class token alone."""

    def __init__(self, std=1e-6):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.token = nn.Parameter(std * torch.randn(1, 1, 8))
        self.blocks = nn.ModuleList(Mixing() for _ in range(2))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        patches = self.embed(x.view(len(x), 3, 4))
        h = torch.cat([self.token.expand(len(x), 1, 8), patches], dim=1)
        for block in self.blocks:
            h = block(h)
        return self.head(h[:, 0])


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, h):
        return h + torch.tanh(self.linear(h.mean(dim=1, keepdim=True)))


def test_a_tiny_class_token_is_no_growth():
    torch.manual_seed(0)
    start = ClassTokenNet()
    model = copy.deepcopy(start)
    with torch.no_grad():
        model.token.add_(0.5)
    report = walkback.diagnose(model, labelled(60, shape=(12,)), initial=start, blocks="blocks.*")
    assert "class token" in report.site_reduction
    untrained = walkback.diagnose(start, labelled(60, shape=(12,)), blocks="blocks.*")
    assert untrained.max_per_block_growth > 1e3  # (a) reads the class token, and fires on the untrained network
    assert reading(untrained, "t").value < 5
    assert report.reading("i").value < 5


def test_total_growth_over_many_blocks_that_each_pass():
    torch.manual_seed(0)
    model = ResMLP(depth=4, block=Doubling)
    batches = labelled(60)
    report = walkback.diagnose(model, batches)
    sites = sites_slow(model, batches[0][0])
    ratios = np.linalg.norm(sites[-1], axis=1) / np.linalg.norm(sites[0], axis=1)
    assert report.total_growth == pytest.approx(np.median(ratios), rel=1e-5)
    assert report.total_growth > 50 > report.max_per_block_growth
    assert reading(report, "t", total_growth_ceiling=50).state is State.FIRE
    assert "t" not in [r.letter for r in report.readings]
    some = walkback.diagnose(model, batches, sites=[1, 2, 4])
    assert reading(some, "t").state is State.NOT_MEASURED


class Doubling(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, h):
        return 3 * h + 0.1 * self.linear(h)


def test_gradient_per_error_does_not_depend_on_confidence():
    torch.manual_seed(0)
    model, confident = ResMLP(), ResMLP()
    x = labelled(80)[0][0]
    y = torch.zeros(80, dtype=torch.long)
    batches = [(x, y)]
    confident.load_state_dict(model.state_dict())
    with torch.no_grad():
        confident.head.bias[0] += 40
    plain = walkback.diagnose(model, batches)
    double = copy.deepcopy(model).double()
    ratios = []
    for row, label in zip(x.double(), y, strict=True):
        h = double.body(double.stem(row[None])).detach().requires_grad_()
        logits = double.head(double.norm(h))
        loss = F.cross_entropy(logits, label[None])
        at_logits, at_site = torch.autograd.grad(loss, [logits, h])
        ratios.append(float(at_site.norm() / at_logits.norm()) / 128)
    assert plain.gradient_per_error == pytest.approx(np.median(ratios), rel=1e-5)
    sure_report = walkback.diagnose(confident, batches)
    assert sure_report.reading("b").state is State.FIRE
    # The direction of the error changes, its size does not count.
    assert sure_report.gradient_per_error == pytest.approx(plain.gradient_per_error, rel=0.5)
    assert reading(sure_report, "s", error_free_floor=1e-7).state is State.PASS
    assert reading(plain, "s").state is State.REPORTED


def test_older_records_have_the_ratio_of_their_medians():
    measured = Measurements(bp_grad_norms=[1e-3, 2e-9], residual_norms=[1, 1], error_size=1e-4)
    found = next(r for r in read(measured) if r.letter == "s")
    assert found.value == pytest.approx(2e-5)
    nothing = next(r for r in read(Measurements(bp_grad_norms=[1e-3])) if r.letter == "s")
    assert nothing.state is State.NOT_MEASURED


def test_intervals_of_median_ratios_cover_at_every_site_at_once():
    """Ratios of three sites that go together, in 800 draws of 60 samples."""
    random = np.random.default_rng(2)
    held = 0
    for _ in range(800):
        shared = random.normal(size=60)
        ratios = np.exp(np.stack([0.5 * shared + random.normal(size=60), 1 + shared, 2 + random.standard_t(2, 60)]))
        _, intervals = medians_with_intervals(ratios)
        held += all(each.contains(truth) for each, truth in zip(intervals, np.exp([0, 1, 2]), strict=True))
    assert held / 800 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 800)


def test_a_diverged_network_fires():
    start, model = trained()
    with torch.no_grad():
        model.stem.weight[0, 0] = math.nan
    report = walkback.diagnose(model, [(torch.randn(40, INPUT), torch.arange(40) % CLASSES)], initial=start)
    assert report.reading("i").state is State.FIRE


def test_batch_norms_of_before_training_are_those_of_before_training():
    """A network at its start has the running statistics of its start; and in fp64 it has them in fp64."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.LeakyReLU()) for _ in range(3)]
    model = nn.Sequential(nn.Linear(6, 8), *blocks, nn.Linear(8, 3))
    start = copy.deepcopy(model)
    with torch.no_grad():
        for block in blocks:
            block[1].running_var.mul_(0.04)  # larger by five than before
    inputs = torch.randn(256, 6)
    report = walkback.diagnose(model, [(inputs, torch.arange(256) % 3)], initial=start, blocks=blocks)

    def norms(network):
        network, found = copy.deepcopy(network).double().eval(), []
        h = network[0](inputs.double())
        for block in list(network)[1:4]:
            h = block(h)
            found.append(h.detach().norm(dim=1).numpy())
        return found

    slow = [float(np.median(now / then)) for now, then in zip(norms(model), norms(start), strict=True)]
    assert max(slow) > 2
    assert report.growth_from_init[1:] == pytest.approx(slow, rel=1e-4)
    assert report.no_fidelity == ""
    assert min(report.reference_fidelity) > 0.999
    assert float(blocks[0][1].running_var[0]) == pytest.approx(0.04)  # left as it was


def test_weights_of_another_seed_are_told_from_those_that_training_began_with():
    def built(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 24), *(nn.Sequential(nn.Linear(24, 24), nn.Tanh()) for _ in range(3)),
                             nn.Linear(24, 4))  # fmt: skip

    torch.manual_seed(9)
    batches = [(torch.randn(64, 6), torch.randint(4, (64,)))]
    model = built(0)
    with torch.no_grad():
        for parameter in model.parameters():  # far from the start: a movement of 2
            parameter += 2 * parameter.norm() * nn.functional.normalize(torch.randn(parameter.shape), dim=None)
    told = [walkback.diagnose(model, batches, blocks=["1", "2", "3"], initial=built(seed)).warnings for seed in (0, 1)]
    assert not any("initial=" in words for words in told[0])
    assert any("initial=" in words and "seed" in words for words in told[1])


def test_the_change_across_each_block_is_that_of_every_sample():
    _, model = trained()
    batches = labelled(40, 56)
    report = walkback.diagnose(model, batches)
    sites = sites_slow(model, torch.cat([x for x, _ in batches]))
    slow = [
        np.median(np.linalg.norm(after - before, axis=1) / np.linalg.norm(before, axis=1))
        for before, after in itertools.pairwise(sites)
    ]
    np.testing.assert_allclose(report.extra["block_changes"], slow, rtol=1e-5)


class Turned(nn.Module):
    """Turns every vector, and keeps its length and that of its gradient."""

    def forward(self, hidden):
        return hidden.roll(1, dims=1)


class Idle(nn.Module):
    """Hands on what it gets."""

    def forward(self, hidden):
        return hidden + 0 * hidden


@pytest.mark.parametrize(("block", "state"), [(Turned(), State.PASS), (Idle(), State.FIRE)])
def test_a_block_is_idle_where_it_changes_no_sample_and_not_where_it_keeps_norms(block, state):
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(INPUT, 16)), block, nn.Sequential(nn.Linear(16, 16), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(16, CLASSES))
    report = walkback.diagnose(model, labelled(64), blocks=["1", "2"], panel="calibrated")
    assert report.reading("ib").state is state
