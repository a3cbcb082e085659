"""For every pitfall: walkback itself does not fall into it. The wrong way is taken beside the right one each time."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import walkback
from walkback.errors import MissingFeedback
from walkback.lab.zoo import DataSpec, build_method, build_model
from walkback.pitfalls.batch_size import naive_figures
from walkback.pitfalls.own_backward import plain_linear
from walkback.pitfalls.residual_mlp import ResidualMLP, batches, clusters, seeded
from walkback.pitfalls.shifted_labels import accuracies, language_model, sequences
from walkback.pitfalls.small_network import deep_draws, small_network
from walkback.pitfalls.typed_numbers import unsupported
from walkback.protocol import numerics
from walkback.protocol.alignment import aggregation_orders
from walkback.protocol.carrying import carried_by_one
from walkback.protocol.counted import accuracy

DATA = DataSpec((16,), classes=10)


def made_data(samples=256):
    generator = torch.Generator().manual_seed(3)
    inputs = torch.randn(samples, 16, generator=generator)
    return inputs, (inputs @ torch.randn(16, 10, generator=generator)).argmax(dim=1)


def network():
    torch.manual_seed(0)
    return build_model("resmlp", DATA, width=32, depth=3)


def gradients(model, inputs, targets):
    hiddens = [model.stem(inputs)]
    for block in model.blocks:
        hiddens.append(block(hiddens[-1]))
    loss = F.cross_entropy(model.head(hiddens[-1]), targets, reduction="sum")
    return [h.detach() for h in hiddens], torch.autograd.grad(loss, hiddens)


def test_1_norms_are_along_the_last_axis():
    model, (inputs, targets) = network(), made_data()
    report = walkback.diagnose(model, [(inputs, targets)])
    hiddens, _ = gradients(model, inputs, targets)
    expected = [float(h.square().sum(dim=1).sqrt().median()) for h in hiddens]
    assert report.residual_norms == pytest.approx(expected, rel=1e-2)
    assert not math.isclose(report.residual_norms[0], float(hiddens[0].norm(-1)), rel_tol=0.5)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e-12, 1e-25])
def test_2_alignment_does_not_depend_on_the_scale_of_the_loss(scale):
    model, (inputs, targets) = network(), made_data()
    method = build_method("dfa", model, torch.Generator().manual_seed(0))

    def gamma(factor):
        def loss(logits, labels):
            return factor * F.cross_entropy(logits.double(), labels, reduction="none")

        return walkback.diagnose(model.double(), [(inputs.double(), targets)], credit=method.double(), loss=loss)

    plain, scaled = gamma(1.0).alignment, gamma(scale).alignment
    assert scaled.sites == pytest.approx(plain.sites, abs=1e-9)
    _, (*_, g) = gradients(model, inputs.double(), targets)
    clamped = F.cosine_similarity(g.float(), g.float() * scale)
    assert (float(clamped.mean()) < 0.9) == (scale < 1e-6)


def test_3_a_half_network_has_the_gradients_of_its_float32_twin():
    model, (inputs, targets) = network(), made_data()

    def loss(logits, labels):
        return 1e-6 * F.cross_entropy(logits.float(), labels, reduction="none")

    full = walkback.diagnose(model, [(inputs, targets)], loss=loss)
    half = walkback.diagnose(model.half(), [(inputs.half(), targets)], loss=loss)
    assert half.bp_grad_norms == pytest.approx(full.bp_grad_norms, rel=0.02)
    assert min(half.bp_grad_norms) > 0
    assert full.bp_grad_norms[-1] < 6e-8  # what float16 itself could not hold


def test_4_saved_feedback_is_the_trained_feedback_and_the_null_stands_beside():
    model, (inputs, targets) = network(), made_data()
    trained = build_method("dfa", model, torch.Generator().manual_seed(0))
    loaded = build_method("dfa", model, torch.Generator().manual_seed(1))
    before = walkback.diagnose(model, [(inputs, targets)], credit=loaded)
    loaded.load_state_dict(trained.state_dict())
    report = walkback.diagnose(model, [(inputs, targets)], credit=loaded)
    assert report.alignment.sites == walkback.diagnose(model, [(inputs, targets)], credit=trained).alignment.sites
    assert before.alignment.sites != report.alignment.sites
    assert report.alignment.null.draws >= 20


def page_of(alignment):
    return walkback.judge(walkback.Measurements(alignment=alignment, residual_norms=[1.0] * 5))


def test_5_every_order_is_in_the_report():
    network = small_network("blocks")
    assert len(network.alignment.orders) == 8
    drawn = [aggregation_orders(cosines) for cosines in deep_draws(network, 20)]
    both = next(orders for orders in drawn if min(orders.values()) < 0 < max(orders.values()))
    words = "the sign depends on"
    flipped = network.alignment.model_copy(update={"orders": both})
    assert words in " ".join(page_of(flipped).to_text().split())
    same = network.alignment.model_copy(update={"orders": {name: abs(value) for name, value in both.items()}})
    assert words not in " ".join(page_of(same).to_text().split())


def test_6_every_site_is_in_the_report_and_the_summary_leaves_out_the_first():
    alignment = small_network("blocks").alignment
    assert alignment.deep == pytest.approx(sum(alignment.sites[1:]) / 4)
    assert alignment.deep < 0.1 * sum(alignment.sites)
    page = page_of(alignment).to_markdown()
    assert all(f"{site:+.3g}"[:6] in page for site in alignment.sites)


def test_7_missing_feedback_is_not_available_never_one():
    model, (inputs, targets) = network(), made_data()

    def credit(hiddens, logits, labels):
        raise MissingFeedback("the checkpoint holds no feedback matrices")

    report = walkback.diagnose(model, [(inputs, targets)], credit=credit)
    assert report.alignment.sites is None
    assert report.alignment.deep is None
    assert "N/A" in report.to_text()
    method = build_method("dfa", model)
    with pytest.raises(RuntimeError, match="Missing key"):
        method.load_state_dict({})


def test_8_figures_do_not_depend_on_the_batch_size():
    with seeded(0):
        model, ((inputs, targets),) = ResidualMLP(32, 3), clusters(1024)
    reports = [walkback.diagnose(model, batches(inputs, targets, n)) for n in (32, 100, 512)]
    naive = [naive_figures(model, batches(inputs, targets, n)) for n in (32, 512)]
    assert naive[0][0] == pytest.approx(16 * naive[1][0], rel=0.01)
    for report in reports[1:]:
        assert report.bp_grad_norms == pytest.approx(reports[0].bp_grad_norms, rel=1e-6)
        assert report.cross_batch_stability == pytest.approx(reports[0].cross_batch_stability, rel=1e-6)


@pytest.mark.parametrize("broken", ["stem", "head"])
def test_9_a_diverged_network_is_never_trustworthy(broken):
    model, (inputs, targets) = network(), made_data()
    with torch.no_grad():
        next(getattr(model, broken).parameters()).fill_(math.nan)
    report = walkback.diagnose(model, [(inputs, targets)])
    assert report.verdict.startswith("needs walk-back: non-finite values")


def test_10_a_rendering_holds_no_number_that_the_record_lacks():
    measured = walkback.Measurements(residual_norms=[8.71, 9.43], bp_grad_norms=[8.13e-3, 7.77e-3], headline_acc=0.5852)
    report = walkback.judge(measured)
    record = report.to_dict() | {"growth": report.max_per_block_growth}
    assert unsupported(report.to_markdown(), record) == []
    assert unsupported(report.to_markdown(), record | {"headline_acc": 0.609}) == ["58.52"]


def test_11_a_backward_that_was_changed_is_not_the_reference():
    model, (inputs, targets) = network(), made_data()
    before = walkback.diagnose(model, [(inputs, targets)])
    _, true = gradients(model, inputs, targets)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_full_backward_hook(lambda m, g_in, g_out: tuple(-3 * g for g in g_in if g is not None))
    _, changed = gradients(model, inputs, targets)
    assert not torch.allclose(changed[1], true[1], rtol=0.1)
    report = walkback.diagnose(model, [(inputs, targets)])
    assert report.bp_grad_norms == before.bp_grad_norms
    expected = [float(g.double().norm(dim=1).median()) / 128 for g in true]
    assert report.bp_grad_norms == pytest.approx(expected, rel=1e-2)


def test_11_a_function_with_a_backward_of_its_own_is_seen_through():
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, hidden, weight, matrix):
            ctx.save_for_backward(hidden, matrix)
            return hidden @ weight.t()

        @staticmethod
        def backward(ctx, grad):
            hidden, matrix = ctx.saved_tensors
            return grad @ matrix, grad.t() @ hidden, None

    class Layer(torch.nn.Module):
        def __init__(self, own):
            super().__init__()
            self.weight, self.own = torch.nn.Parameter(torch.randn(16, 16) / 4), own
            self.register_buffer("matrix", torch.randn(16, 16) / 4)

        def forward(self, hidden):
            return (Own.apply if self.own else plain_linear)(hidden, self.weight, self.matrix).tanh()

    def made(own):
        torch.manual_seed(0)
        return torch.nn.Sequential(*[Layer(own) for _ in range(4)], torch.nn.Linear(16, 10))

    torch.manual_seed(1)
    batches = [(torch.randn(64, 16), torch.randint(0, 10, (64,)))]
    own, plain = walkback.diagnose(made(True), batches), walkback.diagnose(made(False), batches)
    assert own.reference_check.candidate == "seen_through"
    assert own.bp_grad_norms == pytest.approx(plain.bp_grad_norms, rel=1e-5)


def test_12_answers_are_compared_with_the_labels_of_their_places():
    torch.manual_seed(0)
    model, tokens = language_model(), sequences(64)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids)["logits"]

    same, next_one = accuracies(model, tokens)
    score = accuracy(Logits(), [(tokens[:, :-1], tokens[:, 1:])])
    assert score.value == pytest.approx(next_one)
    assert same > 0.9
    assert (score.samples, score.answers) == (64, 64 * 31)


def test_12_a_model_that_shifts_its_labels_is_measured_by_its_own_loss():
    torch.manual_seed(0)
    model, tokens = language_model(), sequences(64)
    score = accuracy(model, [{"input_ids": tokens, "labels": tokens}])
    assert score.value == pytest.approx(accuracies(model, tokens)[1])


def test_13_a_mean_that_one_block_carries_is_called_that():
    model, (inputs, targets) = network(), made_data()
    blocks = build_method("fa_block", model, torch.Generator().manual_seed(0), credit_site="written")
    alignment = walkback.diagnose(model, [(inputs, targets)], credit=blocks).alignment
    assert alignment.deep > 0.2
    assert alignment.sites[-1] == pytest.approx(1)
    (carried,) = [each for each in carried_by_one(alignment.sites) if not each.read]
    assert carried.site == len(alignment.sites) - 1
    assert carried.words in " ".join(page_of(alignment).to_text().split())
    exact = build_method("bp", model)
    whole = walkback.diagnose(model, [(inputs, targets)], credit=exact).alignment
    assert carried_by_one(whole.sites) == ()


def test_14_a_margin_on_the_same_samples_is_counted_in_pairs():
    frozen = torch.arange(1000) % 4 > 0
    trained = frozen.clone()
    trained[:200:4], trained[1:40:4] = True, False
    scores = {"headline_acc": 0.79, "frozen_baseline_acc": 0.75}
    counts = {"headline_samples": 1000, "frozen_baseline_samples": 1000}
    answers = {"headline_correct": trained.tolist(), "frozen_baseline_correct": frozen.tolist()}
    apart, pairs = (
        walkback.judge(walkback.Measurements(**scores, **counts, **more)).reading("d") for more in ({}, answers)
    )
    assert apart.value == pairs.value == pytest.approx(4)
    assert apart.interval.low < 2 < pairs.interval.low
    assert "paired" in pairs.interval.how


def test_14_tokens_of_a_sequence_are_not_samples():
    torch.manual_seed(0)
    score = accuracy(language_model(), [{"input_ids": sequences(64), "labels": sequences(64)}])
    assert (score.samples, score.answers) == (64, 64 * 31)


def test_15_seeds_are_averaged_and_none_is_picked():
    accuracies = (0.31, 0.36, 0.45)
    sound = {"residual_norms": [1.0, 1.1], "bp_grad_norms": [1e-3, 1e-3], "frozen_baseline_acc": 0.36}
    measured = [walkback.Measurements(**sound, headline_acc=accuracy) for accuracy in accuracies]
    runs = [walkback.judge(each, method_name="X", seed=seed) for seed, each in enumerate(measured)]
    summary = walkback.combine(runs)
    assert summary.headline_mean == pytest.approx(sum(accuracies) / 3)
    assert summary.headline_sd == pytest.approx(torch.tensor(accuracies).std().item())
    assert runs[2].trustworthy
    assert summary.verdict.startswith("mixed")
    margin = summary.diagnostic("d")
    assert margin.interval.low < 2 < margin.interval.high


def test_norms_and_cosines_agree_with_written_out_sums():
    x, y = torch.randn(5, 7), torch.randn(5, 7)
    assert torch.allclose(numerics.norms(x), x.double().square().sum(1).sqrt())
    assert torch.allclose(numerics.cosines(x, y), (x.double() * y).sum(1) / numerics.norms(x) / numerics.norms(y))
