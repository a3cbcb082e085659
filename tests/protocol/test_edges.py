"""Right at the edge of a rule: zero, one, two, exactly the limit. A test beside it would pass with a wrong rule too."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import walkback
from walkback.errors import CreditError, InputError
from walkback.protocol import numerics
from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batch_sizes import _alike
from walkback.protocol.batches import Batch
from walkback.protocol.credit_words import CreditSeen
from walkback.protocol.group_figures import _drift_shares
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.losses import count_correct
from walkback.protocol.measurements import growth
from walkback.protocol.sites import Chain
from walkback.protocol.uncertainty import jackknife_interval


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0, 0, 1.0), (0, 2, math.inf), (0, 1e-300, math.inf), (2, 0, 0.0), (2, 4, 2.0), (4, 1, 0.25), (-0.0, 3, math.inf)],
)
def test_growth_from_zero(before, after, expected):
    assert growth(float(before), float(after)) == expected


def test_growth_from_zero_to_nan_is_nan():
    assert math.isnan(growth(0.0, math.nan))
    assert math.isnan(growth(math.nan, 1.0))


def test_a_stream_that_is_zero_at_first_fires():
    assert walkback.judge(walkback.Measurements(residual_norms=[0.0, 1.0])).reading("a").state.value == "FIRE"


def test_an_accuracy_of_zero_is_measured():
    answers = count_correct(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([1, 1]))
    assert answers.score().value == 0.0
    assert answers.score().samples == 2
    reading = walkback.judge(walkback.Measurements(headline_acc=0.0, frozen_baseline_acc=0.0)).reading("d")
    assert reading.state.value == "FIRE"
    assert reading.value == 0.0


def test_no_answer_at_all_is_no_accuracy():
    unscored = torch.full((3,), -100)
    assert count_correct(torch.zeros(3, 2), unscored).score() is None


def test_two_groups_have_an_interval_and_one_has_none():
    found = jackknife_interval(0.5, np.array([0.4, 0.6]), np.array([10.0, 10.0]))
    # Pseudo-values 0.6 and 0.4, so a standard error of 0.1; Student's quantile of one degree of freedom is 12.706.
    assert found.high - 0.5 == pytest.approx(12.7062047 * 0.1, rel=1e-6)
    assert "2 groups" in found.how
    assert jackknife_interval(0.5, np.array([0.5]), np.array([10.0])) is None
    assert jackknife_interval(0.5, np.array([0.4, np.nan]), np.array([10.0, 10.0])) is None


def drift(sizes, seed=0):
    """ρ and its interval of groups of these sizes at one site, and ρ by every pair of distinct samples."""
    draw = np.random.default_rng(seed)
    groups = [draw.normal(1.0, 1.0, (size, 3)) for size in sizes]
    totals = np.stack([group.sum(0) for group in groups])
    energies = np.array([[(group**2).sum() for group in groups]])
    with np.errstate(divide="ignore", invalid="ignore"):
        (value,), (interval,) = _drift_shares((totals @ totals.T)[None], energies, np.array(sizes, float))
    samples = np.concatenate(groups)
    gram, count = samples @ samples.T, len(samples)
    pairs = (gram.sum() - np.trace(gram)) / (count * (count - 1)) if count > 1 else None
    return value, interval, None if pairs is None else pairs / (np.trace(gram) / count)


@pytest.mark.parametrize(("sizes", "has_interval"), [([2, 2], True), ([2, 1], False), ([1, 1], False), ([3, 2], True)])
def test_the_drift_share_of_two_groups(sizes, has_interval):
    value, interval, by_pairs = drift(sizes)
    assert value == pytest.approx(by_pairs, rel=1e-12)
    assert (interval is not None) == has_interval


def test_one_sample_has_no_drift_share():
    assert drift([1])[0] is None


def test_credit_is_backpropagation_only_where_it_is_at_every_site():
    def told(*cosines):
        no = [False] * len(cosines)
        return CreditSeen(no, no, no, cosines, (), width=8).warnings(independent=True, samples=4, checked=True)

    assert told(0.9999, 0.5) == []
    assert told(0.5, 0.9999) == []
    assert "parallel to backpropagation" in told(0.9999, 1.0)[0]
    assert "points against backpropagation" in told(-1.0, -0.9999)[0]
    assert told(-1.0, 0.5) == []
    assert told(-1.0, 1.0) == []


def batches(features=6, classes=3, count=40):
    return [(torch.randn(count, features), torch.randint(0, classes, (count,)))]


def test_a_network_without_biases_is_measured_in_fp64_and_left_as_it_was():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6, bias=False), nn.Tanh()) for _ in range(3)), nn.Linear(6, 3))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    report = walkback.diagnose(
        model, batches(), credit=lambda hiddens, logits, targets: [h.clone() for h in hiddens], functional=4
    )
    assert report.perturbation_rho is not None
    assert report.reference_fidelity is not None
    assert min(report.reference_fidelity) > 0.999999
    assert model[0][0].bias is None
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32}


@pytest.mark.parametrize("widths", [(256,), (256, 256), (256, 512), (512, 512), (1, 3), (512, 1)])
def test_norms_of_several_widths_at_once(widths):
    several = [torch.randn(5, width) for width in widths]
    found = numerics.norms_of_each(several)
    assert found.shape == (len(widths), 5)
    for mine, vectors in zip(found, several, strict=True):
        np.testing.assert_allclose(mine.numpy(), np.linalg.norm(vectors.double().numpy(), axis=1), rtol=1e-6)


@pytest.mark.parametrize("value", [1e200, 1e-200, 3.0])
def test_a_vector_of_one_number_and_one_of_none(value):
    assert numerics.norms(torch.tensor([[value]], dtype=torch.float64)).item() == pytest.approx(value)
    assert numerics.norms(torch.zeros(4, 0, dtype=torch.float64)).tolist() == [0.0] * 4


@pytest.mark.parametrize("draws", [-1, 1])
def test_a_null_without_a_spread_is_refused(draws):
    with pytest.raises(CreditError, match=f"null_draws is {draws}"):
        AlignmentMeter.of(lambda hiddens, logits, targets: hiddens, draws)


@pytest.mark.parametrize("draws", [0, 2, 3])
def test_no_null_and_the_smallest_that_has_a_spread(draws):
    assert isinstance(AlignmentMeter.of(lambda hiddens, logits, targets: hiddens, draws), AlignmentMeter)


def test_the_size_of_a_batch_is_its_samples_whatever_a_sample_is_asked():
    assert Batch(torch.zeros(5, 2), torch.zeros(5, 7, dtype=torch.long)).size == 5
    assert Batch(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)).size == 1


def test_batches_that_can_be_joined_and_such_as_cannot():
    def batch(rows=4, features=2, samples=4, dtype=torch.float32, answers=()):
        return Batch(torch.zeros(rows, features, dtype=dtype), torch.zeros(samples, *answers, dtype=torch.long))

    in_a_list = Batch([torch.zeros(4, 2)], torch.zeros(4, dtype=torch.long))
    assert _alike(batch(), batch())
    assert not _alike(batch(), batch(features=3))
    assert not _alike(batch(), batch(dtype=torch.float64))
    assert not _alike(batch(answers=(3,)), batch())
    assert not _alike(batch(rows=8), batch(rows=8)), "two rows for a sample"
    assert not _alike(batch(), in_a_list)
    assert not _alike(in_a_list, batch())


class Detached(nn.Linear):
    def forward(self, x):
        return super().forward(x).detach()


def test_logits_without_a_graph_are_told_as_that():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)), Detached(6, 3))
    report = walkback.diagnose(model, batches())
    assert report.bp_grad_norms is None
    assert report.reading("b").state.value == "NOT_MEASURED"
    assert not report.complete


def test_the_stem_ends_where_the_first_site_is_read():
    stem, blocks = nn.Linear(6, 5), nn.Sequential(*(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(2)))
    model = nn.Sequential(stem, blocks, nn.Linear(5, 3))
    ((inputs, targets),) = batches()
    chain = chain_of_independent(model, Batch(inputs, targets), blocks="1.*")
    assert stem in chain.stem
    assert not {model[2], blocks[0], blocks[1], blocks[0][0]} & chain.stem
    # Where the first site is what the stem hands on, it is read in the moment in which the stem is left.
    assert Chain((), (), "", left_at={stem: 5, blocks: 6}, read_at=(5, 6)).stem == {stem}


PUBLISHED = {"h_norm_explosion_ratio": 50.0, "g_norm_floor": 1e-7, "stability_drift_ceiling": 0.30}
PUBLISHED |= {"frozen_acc_margin_pp": 2.0}


def test_the_published_thresholds():
    found = walkback.DiagnosticThresholds()
    assert {name: getattr(found, name) for name in PUBLISHED} == PUBLISHED


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("h_norm_explosion_ratio", [1e-9, 1.0, 1e9], [0.0, -1.0, math.inf, math.nan]),
        ("g_norm_floor", [1e-30, 1.0], [0.0, -1e-9, math.inf]),
        ("stability_drift_ceiling", [-1.0, 0.0, 1.0], [-1.0001, 1.0001, math.nan]),
        ("drift_share_ceiling", [-1.0, 1.0, None], [-1.0001, 1.0001]),
        ("frozen_acc_margin_pp", [-100.0, 0.0, 100.0], [-100.1, 100.1, math.inf]),
    ],
)
def test_thresholds_up_to_their_limits(name, taken, refused):
    for value in taken:
        assert getattr(walkback.DiagnosticThresholds(**{name: value}), name) == value
    for value in refused:
        with pytest.raises(InputError, match=name):
            walkback.DiagnosticThresholds(**{name: value})


@pytest.mark.parametrize(
    ("measured", "letter", "state"),
    [
        ({"residual_norms": [1.0, 50.0]}, "a", "PASS"),
        ({"residual_norms": [1.0, 50.001]}, "a", "FIRE"),
        ({"bp_grad_norms": [1.0, 1e-7]}, "b", "PASS"),
        ({"bp_grad_norms": [1.0, 0.999e-7]}, "b", "FIRE"),
        ({"headline_acc": 0.50, "frozen_baseline_acc": 0.25}, "d", "PASS"),
        ({"headline_acc": 0.26, "frozen_baseline_acc": 0.25}, "d", "FIRE"),
    ],
)
def test_exactly_at_the_threshold_nothing_fires(measured, letter, state):
    assert walkback.judge(walkback.Measurements(**measured)).reading(letter).state.value == state
