"""What must hold of the figures whatever the samples, their batching and their scale."""

from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import walkback
from walkback.lab.zoo import DataSpec, build_model
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity
from walkback.protocol.folding import Folding
from walkback.protocol.records import State
from walkback.registry import register, unregister

CIFAR = DataSpec((3, 32, 32), 10)


def network(width=16, depth=3, dtype=torch.float64):
    torch.manual_seed(0)
    return build_model("resmlp", DataSpec((12,), 5), width=width, depth=depth).to(dtype)


def samples(count, seed, features=12, classes=5):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, features, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(0, classes, (count,), generator=generator)


def split(inputs, targets, sizes):
    return list(zip(inputs.split(sizes), targets.split(sizes), strict=True))


@st.composite
def batchings(draw, total=300):
    cuts = draw(st.lists(st.integers(1, total - 1), max_size=6, unique=True))
    return [b - a for a, b in pairwise([0, *sorted(cuts), total])]


@settings(max_examples=25, deadline=None)
@given(batchings(), st.integers(0, 100))
def test_no_figure_depends_on_how_samples_are_batched(sizes, seed):
    inputs, targets = samples(300, seed)
    model = network()
    whole = walkback.diagnose(model, [(inputs, targets)])
    parts = walkback.diagnose(model, split(inputs, targets, sizes))
    for name in ("residual_norms", "bp_grad_norms", "site_stabilities", "drift_shares", "scale_free_gradients"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-9, abs=1e-15), name
    assert parts.verdict == whole.verdict


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(150)), st.integers(0, 100))
def test_the_order_of_samples_does_not_matter(order, seed):
    inputs, targets = samples(150, seed)
    model = network()
    plain = walkback.diagnose(model, [(inputs, targets)])
    shuffled = walkback.diagnose(model, [(inputs[list(order)], targets[list(order)])])
    for name in ("residual_norms", "bp_grad_norms", "drift_shares", "error_size"):
        assert getattr(shuffled, name) == pytest.approx(getattr(plain, name), rel=1e-9, abs=1e-15), name


@given(st.lists(st.floats(1e-30, 1e30), min_size=2, max_size=6), st.floats(1e-8, 1e8))
def test_scaling_the_whole_stream_leaves_its_growth_as_it_is(norms, scale):
    plain = walkback.Measurements(residual_norms=norms)
    scaled = walkback.Measurements(residual_norms=[scale * norm for norm in norms])
    assert scaled.max_per_block_growth == pytest.approx(plain.max_per_block_growth, rel=1e-9)


def group_mean_cosine(model, inputs, targets, size):
    """The mean cosine between mean gradients of groups of any size at the middle site, by plain autograd."""
    with torch.no_grad():
        hidden = model.stem(inputs)
        sites = [hidden]
        for block in model.blocks:
            sites.append(block(sites[-1]))
    middle = len(model.blocks) // 2
    at = sites[middle].detach().requires_grad_()
    hidden = at
    for block in list(model.blocks)[middle:]:
        hidden = block(hidden)
    (grad,) = torch.autograd.grad(F.cross_entropy(model.head(hidden), targets, reduction="sum"), at)
    means = np.stack([chunk.mean(0).double().numpy() for chunk in grad.split(size) if len(chunk) == size])
    units = means / np.linalg.norm(means, axis=1, keepdims=True)
    gram = units @ units.T
    return (gram.sum() - len(gram)) / (len(gram) * (len(gram) - 1))


@pytest.mark.parametrize("steps", [0, 60])
def test_the_cosine_of_batch_means_follows_from_the_drift_share(steps):
    """c(n) = nρ / (nρ + 1 − ρ): the same network passes or fires by the batch size alone."""
    inputs, targets = samples(4096, seed=1)
    targets = (inputs[:, :5] ** 2).argmax(1)
    model = network(width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        index = torch.arange(step * 64, step * 64 + 64) % len(targets)
        optimizer.zero_grad()
        F.cross_entropy(model(inputs[index]), targets[index]).backward()
        optimizer.step()
    report = walkback.diagnose(model, [(inputs, targets)])
    share = report.drift_shares[report.stability_layer]
    for size in (32, 128, 512):
        predicted = size * share / (size * share + 1 - share)
        assert group_mean_cosine(model, inputs, targets, size) == pytest.approx(predicted, abs=0.05)
    assert report.cross_batch_stability == pytest.approx(group_mean_cosine(model, inputs, targets, 128), abs=1e-9)


@pytest.mark.parametrize("seed", [42, 123, 456])
def test_an_untrained_resmlp_has_the_published_figures_and_is_trustworthy(seed):
    torch.manual_seed(seed)
    model = build_model("resmlp", CIFAR)
    generator = torch.Generator().manual_seed(seed)
    batches = [
        (torch.randn(128, 3, 32, 32, generator=generator), torch.randint(0, 10, (128,), generator=generator))
        for _ in range(10)
    ]
    report = walkback.diagnose(model, batches)
    assert report.residual_norms == pytest.approx([9.2] * 5, rel=0.05)
    assert report.bp_grad_norms == pytest.approx([8e-3] * 5, rel=0.1)
    assert report.verdict == "trustworthy"
    assert min(report.reference_fidelity) > 0.999999


def kept_bytes(part):
    if isinstance(part, torch.Tensor):
        return part.numel() * part.element_size()
    if isinstance(part, dict):
        return sum(kept_bytes(value) for value in part.values())
    if isinstance(part, tuple | list):
        return sum(kept_bytes(value) for value in part)
    if hasattr(part, "__dataclass_fields__"):
        return sum(kept_bytes(getattr(part, name)) for name in part.__dataclass_fields__)
    return 0


def test_a_further_batch_keeps_a_mean_vector_per_site_and_group_and_a_few_numbers_per_sample(monkeypatch):
    sizes = []
    add = Folding.add

    def noted(self, seen):
        add(self, seen)
        sizes.append(kept_bytes(self.parts))

    monkeypatch.setattr(Folding, "add", noted)
    inputs, targets = samples(128 * 6, seed=0)
    model = network(width=200)
    walkback.diagnose(model, split(inputs, targets, 256), micro_batch=256)  # so that none are joined
    sites, vectors, per_sample = 4, 4 * 200, 5
    growths = {b - a for a, b in pairwise(sizes)}
    assert len(growths) == 1
    at_ends = 4  # numbers per sample that are kept of one site alone
    most = 2 * 8 * (vectors + sites) + 8 * (per_sample * sites + at_ends) * 256  # two groups of 128
    assert growths.pop() <= most


def counting(letter, name):
    class Counts(Diagnostic):
        title = question = meaning = name
        quantities = (Quantity(name, kind="count"),)
        needs_gradient = False

        @staticmethod
        def measure(capture):
            return capture.samples

        @staticmethod
        def merge(left, right):
            return left + right

        @staticmethod
        def summarise(part):
            return {name: float(part)}

    Counts.letter = letter
    return Counts


def test_quantities_of_two_diagnostics_of_ones_own_stand_side_by_side():
    for letter, name in (("x", "first"), ("y", "second")):
        register("diagnostics", name, counting(letter, name))
    try:
        inputs, targets = samples(40, seed=0)
        report = walkback.diagnose(network(width=8), split(inputs, targets, 20))
    finally:
        unregister("diagnostics", "first")
        unregister("diagnostics", "second")
    assert {name: report.extra[name] for name in ("first", "second")} == {"first": 40.0, "second": 40.0}
    assert (report.reading("x").state, report.reading("y").value) == (State.REPORTED, 40.0)
