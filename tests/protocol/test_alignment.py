"""Γ, its null, and the identity checks on credit."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import walkback
from walkback.errors import CreditError, MissingFeedback

WIDTH, CLASSES, SITES = 32, 10, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, h):
        return h + self.down(F.gelu(self.up(self.norm(h))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(20, WIDTH), nn.Linear(WIDTH, CLASSES)
        self.blocks = nn.ModuleList(Block() for _ in range(SITES - 1))

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        return self.head(h)

    def true_gradients(self, hiddens, logits, targets):
        h = hiddens[0].detach().requires_grad_()
        sites = [h]
        for block in self.blocks:
            sites.append(block(sites[-1]))
        loss = F.cross_entropy(self.head(sites[-1]), targets, reduction="sum")
        return list(torch.autograd.grad(loss, sites))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(64, 20, generator=generator), torch.randint(0, CLASSES, (64,), generator=generator))
        for _ in range(3)
    ]


class Feedback:
    independent_feedback = True

    def __init__(self, generator):
        self.matrices = [torch.randn(CLASSES, WIDTH, generator=generator) for _ in range(SITES)]

    def __call__(self, hiddens, logits, targets):
        error = logits.softmax(1) - F.one_hot(targets, CLASSES)
        return [error @ matrix for matrix in self.matrices]

    def redraw(self, generator):
        return Feedback(generator)


def explicit_cosines(net, batches, credit):
    """Site by site, sample by sample, in fp64, with no walkback code."""
    rows = []
    for x, y in batches:
        with torch.no_grad():
            hiddens = [net.stem(x)]
            for block in net.blocks:
                hiddens.append(block(hiddens[-1]))
            logits = net.head(hiddens[-1])
        grads = net.true_gradients(hiddens, logits, y)
        credits = credit(hiddens, logits, y)
        for i in range(len(y)):
            rows.append(
                [
                    float(a[i].double() @ g[i].double() / (a[i].double().norm() * g[i].double().norm()))
                    for a, g in zip(credits, grads, strict=True)
                ]
            )
    return torch.tensor(rows, dtype=torch.float64)


def test_alignment_per_site_deep_and_orders_agree_with_explicit_loops(net, batches):
    feedback = Feedback(torch.Generator().manual_seed(5))
    alignment = walkback.diagnose(net, batches, credit=feedback).alignment
    rows = explicit_cosines(net, batches, feedback)
    assert alignment.sites == pytest.approx(rows.mean(0).tolist(), rel=1e-4, abs=1e-6)
    assert alignment.deep == pytest.approx(float(rows[:, 1:].mean()), rel=1e-4, abs=1e-6)
    orders = alignment.orders
    assert orders["all: mean over sites of mean over samples"] == pytest.approx(float(rows.mean()), abs=1e-6)
    medians = rows.quantile(0.5, dim=0)
    assert orders["deep: mean over sites of median over samples"] == pytest.approx(float(medians[1:].mean()), abs=1e-6)
    assert orders["deep: median over sites of mean over samples"] == pytest.approx(
        float(rows.mean(0)[1:].quantile(0.5)), abs=1e-6
    )


def test_the_null_is_the_same_cosine_under_fresh_feedback(net, batches):
    feedback = Feedback(torch.Generator().manual_seed(5))
    null = walkback.diagnose(net, batches, credit=feedback).alignment.null
    assert null.draws == 20
    # Random directions in WIDTH dimensions: mean 0; the spread is that of few matrices, not of many samples.
    assert abs(null.deep_mean) < 4 * null.deep_sd / math.sqrt(null.draws) + 1e-3
    assert all(sd < 3 / math.sqrt(WIDTH) for sd in null.site_sds)
    assert walkback.diagnose(net, batches, credit=feedback).alignment.null == null


def test_z_scores_tell_adapted_feedback_from_chance(net, batches):
    class Adapted(Feedback):
        def __call__(self, hiddens, logits, targets):
            true = net.true_gradients(hiddens, logits, targets)
            random = super().__call__(hiddens, logits, targets)
            return [0.5 * F.normalize(t) + F.normalize(r) for t, r in zip(true, random, strict=True)]

    alignment = walkback.diagnose(net, batches, credit=Adapted(torch.Generator().manual_seed(5))).alignment
    assert alignment.null.deep_z > 5


def test_a_rule_without_feedback_to_draw_has_no_null_and_says_so(net, batches):
    alignment = walkback.diagnose(net, batches, credit=net.true_gradients).alignment
    assert alignment.null is None
    assert "no random feedback" in alignment.no_null


def test_missing_feedback_makes_gamma_unavailable_never_one(net, batches):
    def credit(hiddens, logits, targets):
        raise MissingFeedback("the checkpoint holds no feedback matrices")

    alignment = walkback.diagnose(net, batches, credit=credit).alignment
    assert alignment.sites is None
    assert alignment.deep is None
    assert "no feedback matrices" in alignment.unavailable


def test_gamma_does_not_depend_on_the_order_of_samples(net, batches):
    x, y = torch.cat([b[0] for b in batches]), torch.cat([b[1] for b in batches])
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(2))
    feedback = Feedback(torch.Generator().manual_seed(5))
    shuffled = walkback.diagnose(net, [(x[order], y[order])], credit=feedback).alignment
    assert shuffled.sites == pytest.approx(walkback.diagnose(net, batches, credit=feedback).alignment.sites, abs=1e-6)


def warnings_for(net, batches, credit):
    return " ".join(walkback.diagnose(net, batches, credit=credit).warnings)


def test_secret_backprop_is_found_at_any_scale(net, batches):
    def scaled(hiddens, logits, targets):
        return [3e-5 * g * (i + 1) for i, g in enumerate(net.true_gradients(hiddens, logits, targets))]

    assert (
        "parallel to backpropagation: its mean cosine with the BP gradient is at least 1.00000 at every site"
        in warnings_for(net, batches, scaled)
    )


@pytest.mark.parametrize(("noise", "parallel"), [(0.01, True), (0.1, False)])
def test_backprop_with_a_little_noise_is_parallel_to_it(net, batches, noise, parallel):
    generator = torch.Generator().manual_seed(3)

    def noisy(hiddens, logits, targets):
        grads = net.true_gradients(hiddens, logits, targets)
        drawn = [torch.randn(g.shape, generator=generator) for g in grads]
        return [
            g + noise * g.norm(dim=1, keepdim=True) * d / d.norm(dim=1, keepdim=True)
            for g, d in zip(grads, drawn, strict=True)
        ]

    report = walkback.diagnose(net, batches, credit=noisy)
    found = [warning for warning in report.warnings if "parallel to backpropagation" in warning]
    assert bool(found) is parallel
    if parallel:
        assert f"{min(report.alignment.sites):.5f}" in found[0]


def test_nearly_backprop_at_one_site_is_not_backprop(net, batches):
    def nearly(hiddens, logits, targets):
        grads = net.true_gradients(hiddens, logits, targets)
        return [
            *grads[:-1],
            grads[-1] + 0.05 * grads[-1].norm(dim=1, keepdim=True) * torch.ones_like(grads[-1]),
        ]

    assert "backpropagation" not in warnings_for(net, batches, nearly)


def test_dead_constant_and_broken_credit_are_named_by_site(net, batches):
    def broken(hiddens, logits, targets):
        credits = Feedback(torch.Generator().manual_seed(5))(hiddens, logits, targets)
        credits[0] = torch.zeros_like(credits[0])
        credits[1] = torch.ones_like(credits[1])
        credits[2][3, 4] = float("nan")
        return credits

    found = warnings_for(net, batches, broken)
    assert "exactly zero for every sample at site 0" in found
    assert "same for every sample at site 1" in found
    assert "NaN or Inf at site 2" in found
    assert "site 3" not in found


def test_a_credit_that_is_zero_for_some_samples_only_is_not_dead(net, batches):
    def sometimes(hiddens, logits, targets):
        credits = Feedback(torch.Generator().manual_seed(5))(hiddens, logits, targets)
        return [credit * (targets % 2).unsqueeze(1) for credit in credits]

    assert warnings_for(net, batches, sometimes) == ""


class Leaking(Feedback):
    """An identity skip that still carries gradient: each site's credit also holds all deeper ones."""

    def __call__(self, hiddens, logits, targets):
        credits = super().__call__(hiddens, logits, targets)
        for site in reversed(range(SITES - 1)):
            credits[site] = credits[site] + credits[site + 1]
        return credits


def test_a_leak_is_found_where_independence_was_promised(net, batches):
    generator = torch.Generator().manual_seed(5)
    # In 32 dimensions chance alone reaches high cosines; the check allows for that, so the leak must be larger.
    report = walkback.diagnose(net, batches, credit=Leaking(generator))
    assert max(report.alignment.neighbours) > 0.7
    assert "the feedback leaks" in " ".join(report.warnings)


def test_independent_feedback_does_not_leak_and_unpromised_independence_is_not_judged(net, batches):
    assert "leaks" not in warnings_for(net, batches, Feedback(torch.Generator().manual_seed(5)))
    leaking = Leaking(torch.Generator().manual_seed(5))
    assert "leaks" not in warnings_for(net, batches, lambda *args: leaking(*args))


def test_the_sign_of_an_update_is_remarked_on(net, batches):
    def update(hiddens, logits, targets):
        return [-grad for grad in net.true_gradients(hiddens, logits, targets)]

    found = warnings_for(net, batches, update)
    assert "points against backpropagation" in found
    assert "A credit has the sign of a gradient" in found


@pytest.mark.parametrize("which", range(3))
def test_a_rule_that_writes_to_what_it_is_given_is_refused_and_the_data_stays(which):
    # Of a plain MLP h_0 is the input.
    net = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 9), nn.Tanh(), nn.Linear(9, 3))
    batches = [(torch.randn(20, 6), torch.randint(1, 3, (20,)))]
    before = [(x.clone(), y.clone()) for x, y in batches]

    def writes(hiddens, logits, targets):
        credits = [torch.ones_like(h) for h in hiddens]
        (hiddens[0], logits, targets)[which].zero_()
        return credits

    with pytest.raises(CreditError, match=r"wrote to the hiddens, logits or targets.*out of place"):
        walkback.diagnose(net, batches, credit=writes)
    for (x, y), (x_before, y_before) in zip(batches, before, strict=True):
        assert torch.equal(x, x_before)
        assert torch.equal(y, y_before)


def test_a_function_of_other_arguments_is_refused_in_words(net, batches):
    with pytest.raises(CreditError, match=r"credit= cannot be called with \(hiddens, logits, targets\): too many"):
        walkback.diagnose(net, batches, credit=lambda hiddens, logits: hiddens)


@pytest.mark.parametrize("change", [lambda h: h.numpy(), lambda h: h.to(torch.complex64), lambda h: h.mean(0)])
def test_what_is_no_real_tensor_of_the_site_is_refused(net, batches, change):
    with pytest.raises(CreditError, match=r"the credit for site 0 is .*; expected a real tensor of the shape of the"):
        walkback.diagnose(net, batches, credit=lambda hiddens, logits, targets: [change(h) for h in hiddens])
