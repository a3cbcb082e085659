"""Credit against what the loss does, on functions whose answers are known."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from walkback.errors import CreditError, InputError
from walkback.protocol import functional
from walkback.protocol.functional import EPSILON, Site, respond, unit_directions, unit_rms
from walkback.protocol.functional_figures import GROUPS, RATES, figures_of, pearson, perturbation

WIDTH, CLASSES = 6, 4


def cross_entropy(logits, targets):
    return F.cross_entropy(logits, targets, reduction="none")


def made(samples=40, scale=1.0, seed=3):
    """States, targets, a network behind them that a layer norm begins, and the true gradient of each sample."""
    generator = torch.Generator().manual_seed(seed)
    hidden = scale * torch.randn(samples, WIDTH, generator=generator, dtype=torch.float64)
    targets = torch.randint(CLASSES, (samples,), generator=generator)
    first = torch.randn(WIDTH, WIDTH, generator=generator, dtype=torch.float64)
    last = torch.randn(WIDTH, CLASSES, generator=generator, dtype=torch.float64)

    def rest(states):
        return torch.tanh(F.layer_norm(states, states.shape[1:]) @ first) @ last

    at = hidden.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(cross_entropy(rest(at), targets).sum(), at)
    return hidden, targets, rest, gradient


def figures(hidden, credit, targets, rest, loss=cross_entropy, **options):
    site = Site(hidden, credit, targets, rest, loss)
    return figures_of(respond(site, torch.Generator().manual_seed(5), **options))


def rhos(found):
    return [step.credit[form].rho for step in found.perturbation.values() for form in step.credit]


def test_the_gradient_foretells_the_loss_and_its_opposite_the_reverse():
    hidden, targets, rest, gradient = made()
    found, opposite = (figures(hidden, sign * gradient, targets, rest) for sign in (1, -1))
    for step in found.perturbation.values():
        assert step.credit["raw"].rho > 0.999
        assert step.at_rounding == 0
    # Normalised, the samples lose their relative scale, and the pooled correlation with it some of its height.
    assert 0.7 < found.perturbation["absolute"].credit["unit_rms"].rho < 0.999
    assert rhos(opposite) == [-rho for rho in rhos(found)]
    for form in ("raw", "unit_rms"):
        assert found.nudge[form]["0.01"].mean < found.nudge[form]["0.003"].mean < 0
        assert opposite.nudge[form]["0.01"].mean > 0


def test_fresh_credit_foretells_nothing():
    hidden, targets, rest, gradient = made(samples=200)
    fresh = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    found = figures(hidden, fresh, targets, rest)
    # The cosines with the gradient of 200 random vectors of six entries spread by 1/√6: their mean by 0.03.
    assert np.abs(rhos(found)).max() < 0.1
    for step in found.perturbation.values():
        for credit in step.credit.values():
            assert credit.low < credit.correlation < credit.high


def test_a_small_nudge_is_the_rate_times_the_square_of_the_gradient():
    hidden, targets, rest, gradient = made()
    square = float(gradient.square().sum(dim=1).mean())
    for shrunk, tolerance in ((1.0, 0.1), (1e-3, 1e-3)):  # the second order is smaller by the same factor
        found = figures(hidden, shrunk * gradient, targets, rest).nudge["raw"]
        for rate in RATES:
            assert found[f"{rate:g}"].mean == pytest.approx(-rate * shrunk * square, rel=tolerance)


def test_a_quadratic_loss_gives_every_figure_in_closed_form():
    """ℓ = ½‖h‖² changes by ε⟨h, v⟩ + ½ε² and by −η⟨h, a⟩ + ½η²‖a‖²."""
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(7, 2, 3, generator=generator, dtype=torch.float64)
    credit = torch.randn(7, 2, 3, generator=generator, dtype=torch.float64)

    def loss(states, targets):
        return states.flatten(1).square().sum(dim=1) / 2

    found = figures(hidden, credit, torch.zeros(7), lambda states: states, loss, directions=5)
    h, a = hidden.flatten(1).numpy(), credit.flatten(1).numpy()
    draws = torch.Generator().manual_seed(5)
    drawn = [unit_directions((2, 3), 5, draws).flatten(1).numpy() for _ in range(7)]
    lengths = {"absolute": 1e-3, "relative": 1e-3 * np.median([math.sqrt(row @ row) for row in h])}
    forms = {"raw": a, "unit_rms": np.array([row / math.sqrt(np.mean(row**2)) for row in a])}
    for name, epsilon in lengths.items():
        step = found.perturbation[name]
        changes = np.array([[epsilon * h[i] @ v + epsilon**2 / 2 for v in drawn[i]] for i in range(7)])
        assert step.epsilon == pytest.approx(epsilon, rel=1e-12)
        assert step.loss_spread == pytest.approx(changes.std(), rel=1e-9)
        for form, credits in forms.items():
            told = np.array([[epsilon * credits[i] @ v for v in drawn[i]] for i in range(7)])
            assert step.credit[form].rho == pytest.approx(np.corrcoef(told.ravel(), changes.ravel())[0, 1], rel=1e-9)
            assert step.credit[form].credit_spread == pytest.approx(told.std(), rel=1e-12)
    for form, credits in forms.items():
        for rate in RATES:
            changes = [-rate * h[i] @ credits[i] + rate**2 * credits[i] @ credits[i] / 2 for i in range(7)]
            nudge = found.nudge[form][f"{rate:g}"]
            assert nudge.mean == pytest.approx(np.mean(changes), rel=1e-9)
            assert nudge.standard_error == pytest.approx(np.std(changes, ddof=1) / math.sqrt(7), rel=1e-9)
    assert found.hidden_norm == pytest.approx(1e3 * lengths["relative"])
    assert found.credit_norm == pytest.approx(np.median([math.sqrt(row @ row) for row in a]))


def test_directions_are_of_unit_length_and_without_preference():
    drawn = unit_directions((3, 2), 4000, torch.Generator().manual_seed(0)).flatten(1)
    assert drawn.dtype == torch.float64
    assert torch.allclose(drawn.norm(dim=1), torch.ones(4000, dtype=torch.float64))
    assert torch.allclose(drawn.T @ drawn / 4000, torch.eye(6, dtype=torch.float64) / 6, atol=0.01)
    assert float(drawn.mean(dim=0).abs().max()) < 0.03


@pytest.mark.parametrize("values", [1, 1000, 10**9])
def test_how_many_samples_are_held_at_once_changes_nothing(values, monkeypatch):
    hidden, targets, rest, gradient = made(samples=13)
    site = Site(hidden, gradient, targets, rest, cross_entropy)
    usual = respond(site, torch.Generator().manual_seed(5))
    monkeypatch.setattr(functional, "VALUES_AT_ONCE", values)
    other = respond(site, torch.Generator().manual_seed(5))
    np.testing.assert_allclose(other.predicted, usual.predicted, rtol=1e-12)
    np.testing.assert_allclose(other.changes, usual.changes, rtol=1e-8, atol=1e-14)
    np.testing.assert_allclose(other.nudged, usual.nudged, rtol=1e-8, atol=1e-14)


def test_where_the_stream_has_grown_a_step_in_proportion_still_tells():
    """Behind a layer norm the gradient is 1/‖h‖: a step of 1e-3 is under the floor at 1e10, and rounding at 1e13."""
    found = {}
    for scale in (1.0, 1e7, 1e10, 1e13):
        hidden, targets, rest, gradient = made(scale=scale)
        found[scale] = figures(hidden, gradient, targets, rest)
        assert found[scale].perturbation["relative"].credit["raw"].rho > 0.99
        assert found[scale].perturbation["relative"].at_rounding == 0
    absolute = {scale: each.perturbation["absolute"] for scale, each in found.items()}
    assert absolute[1e7].at_rounding < 0.01
    assert absolute[1e7].credit["raw"].rho > 0.99
    assert absolute[1e10].credit["raw"].rho == 0
    assert absolute[1e10].credit["raw"].correlation > 0.9
    assert absolute[1e13].at_rounding > 0.9
    # A raw credit of 1/‖h‖ moves the loss by its square.
    assert found[1e10].nudge["raw"]["0.01"].at_rounding == 1
    assert found[1e10].nudge["unit_rms"]["0.01"].mean < 0
    assert found[1.0].nudge["raw"]["0.01"].at_rounding == 0


def test_credit_of_zero_correlates_with_nothing_and_moves_nothing():
    hidden, targets, rest, gradient = made()
    found = figures(hidden, torch.zeros_like(gradient), targets, rest)
    for step in found.perturbation.values():
        for credit in step.credit.values():
            assert credit.rho == 0
            assert math.isnan(credit.correlation)
            assert math.isnan(credit.low)
    assert all(nudge.mean == 0 and nudge.at_rounding == 1 for rates in found.nudge.values() for nudge in rates.values())


def test_unit_rms_is_per_sample_at_every_scale():
    credit = torch.tensor([[3.0, -4.0], [3e-30, 4e-30], [0.0, 0.0], [3e300, 0.0]], dtype=torch.float64)
    root = math.sqrt(2)
    expected = [[0.6 * root, -0.8 * root], [0.6 * root, 0.8 * root], [0.0, 0.0], [root, 0.0]]
    assert torch.allclose(unit_rms(credit), torch.tensor(expected, dtype=torch.float64))
    wide = torch.ones(2, 3, 4, 5, dtype=torch.float64)
    assert unit_rms(7 * wide).equal(wide)


def jackknife_by_hand(told, changes):
    """The interval from pseudo-values of ten groups, whose sizes differ by one sample."""
    samples, groups = len(told), []
    for group in range(GROUPS):
        extra = samples % GROUPS
        first = group * (samples // GROUPS) + min(group, extra)
        groups.append(range(first, first + samples // GROUPS + (group < extra)))

    def correlation(kept):
        return np.corrcoef(told[kept].ravel(), changes[kept].ravel())[0, 1]

    whole, pseudo, share = correlation(list(range(samples))), [], []
    for group in groups:
        share.append(samples / len(group))
        without = correlation([i for i in range(samples) if i not in group])
        pseudo.append(share[-1] * whole - (share[-1] - 1) * without)
    centre = sum(p / h for p, h in zip(pseudo, share, strict=True))
    variance = sum((p - centre) ** 2 / (h - 1) for p, h in zip(pseudo, share, strict=True)) / GROUPS
    return whole - 2.2621571627 * math.sqrt(variance), whole + 2.2621571627 * math.sqrt(variance)


def test_the_interval_is_a_jackknife_over_groups_of_samples():
    rng = np.random.default_rng(4)
    told = rng.normal(size=(37, 5)) * rng.uniform(0.1, 3, size=(37, 1))
    changes = told * rng.uniform(-0.5, 1, size=(37, 1)) + 0.3 * rng.normal(size=(37, 5))
    found = perturbation(told, changes)
    assert (found.low, found.high) == pytest.approx(jackknife_by_hand(told, changes), rel=1e-8)
    alone = perturbation(told[:1], changes[:1])
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e150])
def test_correlations_at_every_scale(scale):
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(2, 50))
    expected = np.corrcoef(left, left + right)[0, 1]
    assert pearson(scale * left + scale, (left + right) * scale) == pytest.approx(expected)
    assert math.isnan(pearson(np.full(50, 0.1), right))


def test_what_spreads_less_than_the_floor_has_no_published_correlation():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20, 4))
    values /= values.std()
    assert perturbation(1.01e-12 * values, values).rho == pytest.approx(1)
    for pair in ((0.99e-12 * values, values), (values, 0.99e-12 * values)):
        assert perturbation(*pair).rho == 0
        assert perturbation(*pair).correlation == pytest.approx(1)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("hidden", "h_l is not finite in 2 of 40"),
        ("credit", "its credit is not"),
        ("loss", "the loss behind it is not"),
    ],
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_not_finite_is_told(what, reason, value):
    hidden, targets, rest, gradient = made()
    if what == "loss":

        def rest(states):
            return states[:, :CLASSES] * value

    else:
        {"hidden": hidden, "credit": gradient}[what][3:5, 1] = value
    responses = respond(Site(hidden, gradient, targets, rest, cross_entropy), torch.Generator().manual_seed(5))
    assert responses.why_not().startswith(reason)
    hidden, targets, rest, gradient = made()
    assert respond(Site(hidden, gradient, targets, rest, cross_entropy), torch.Generator()).why_not() == ""


def test_a_site_that_cannot_be_tested_is_refused_in_a_sentence():
    hidden, targets, rest, gradient = made()
    with pytest.raises(CreditError, match=r"shape \(40, 5\); expected the shape of the site, \(40, 6\)"):
        Site(hidden, gradient[:, 1:], targets, rest, cross_entropy)
    with pytest.raises(InputError, match=r"40 samples and 39 targets"):
        Site(hidden, gradient, targets[1:], rest, cross_entropy)
    with pytest.raises(InputError, match=r"credit torch.float32; expected torch.float64"):
        Site(hidden, gradient.float(), targets, rest, cross_entropy)
    site = Site(hidden, gradient, targets, rest, F.cross_entropy)
    with pytest.raises(InputError, match=r"shape \(\) for \d+ states; expected torch.float64 and one loss for each"):
        respond(site, torch.Generator())
    in_single = Site(hidden, gradient, targets, lambda states: rest(states).float(), cross_entropy)
    with pytest.raises(InputError, match=r"the loss .* a site is torch.float32"):
        respond(in_single, torch.Generator())
    with pytest.raises(InputError, match="0 directions"):
        respond(Site(hidden, gradient, targets, rest, cross_entropy), torch.Generator(), 0)


def test_only_the_given_generator_moves():
    hidden, targets, rest, gradient = made()
    before = torch.get_rng_state()
    kept = hidden.clone(), gradient.clone()
    figures(hidden, gradient, targets, rest)
    assert torch.get_rng_state().equal(before)
    assert hidden.equal(kept[0])
    assert gradient.equal(kept[1])
    assert EPSILON == 1e-3
