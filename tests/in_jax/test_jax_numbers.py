"""Every number against a slow twin in NumPy and fp64, which goes through the network by hand."""

from __future__ import annotations

from decimal import Decimal, localcontext

import jax.numpy as jnp
import numpy as np
import plain_networks as net
import pytest

import walkback.jax
from walkback.jax.losses import Answers, cross_entropy_error, factors, unit_error
from walkback.jax.program import row_norms

SAME = {"rtol": 1e-5, "atol": 1e-7}


def by_hand(params, x, y):
    """h_l, g_l, error and logits of each sample's own loss, by the chain rule."""
    p = {"stem": params["stem"], "head": params["head"]}
    p = {name: np.asarray(value, np.float64) for name, value in p.items()}
    blocks = [(np.asarray(b["w"], np.float64), np.asarray(b["b"], np.float64)) for b in params["blocks"]]
    hiddens = [x.astype(np.float64) @ p["stem"]]
    inner = []
    for w, b in blocks:
        inner.append(np.tanh(hiddens[-1] @ w + b))
        hiddens.append(hiddens[-1] + inner[-1])
    logits = hiddens[-1] @ p["head"]
    shares = np.exp(logits - logits.max(1, keepdims=True))
    error = shares / shares.sum(1, keepdims=True) - np.eye(net.CLASSES)[y]
    grads = [error @ p["head"].T]
    for (w, _), value in zip(reversed(blocks), reversed(inner), strict=True):
        grads.insert(0, grads[0] + (grads[0] * (1 - value**2)) @ w.T)
    return hiddens, grads, error, logits


@pytest.fixture(scope="module")
def seen():
    params, data = net.parameters(), net.batches(300, 77)
    x, y = (np.concatenate(column) for column in zip(*data, strict=True))
    found = net.measure(params=params, data=data, credit=net.feedback(), initial=net.parameters(1))
    return found, by_hand(params, x, y), params, (x, y)


def test_norms_and_what_they_are_made_of(seen):
    found, (hiddens, grads, error, _), _, _ = seen
    h, g = ([np.linalg.norm(each, axis=1) for each in sites] for sites in (hiddens, grads))
    e = np.linalg.norm(error, axis=1)
    assert np.allclose(found.residual_norms, np.median(h, axis=1), **SAME)
    assert np.allclose(found.bp_grad_norms, np.median(g, axis=1) / 128, **SAME)
    assert np.allclose(found.error_size, np.median(e), **SAME)
    assert np.allclose(found.scale_free_gradients, np.median(np.array(h) * g / e, axis=1), **SAME)
    assert np.allclose(found.gradient_per_error, np.median(g[-1] / e) / 128, **SAME)
    assert np.allclose(found.total_growth, np.median(h[-1] / h[0]), **SAME)


def test_group_means_and_the_drift_share(seen):
    found, (_, grads, _, _), _, _ = seen
    assert found.groups == 2
    assert found.stability_layer == net.DEPTH // 2
    for site, grad in enumerate(grads):
        means = [grad[:128].mean(0), grad[128:256].mean(0)]
        cosine = means[0] @ means[1] / np.linalg.norm(means[0]) / np.linalg.norm(means[1])
        assert np.allclose(found.site_stabilities[site], cosine, **SAME)
        # ρ from all pairs of distinct samples.
        gram = grad @ grad.T
        share = (gram.sum() - np.trace(gram)) / (300 * 299) / (np.trace(gram) / 300)
        assert np.allclose(found.drift_shares[site], share, rtol=1e-4, atol=1e-7)


def test_accuracy_and_alignment(seen):
    found, (_, grads, error, logits), _, (_, y) = seen
    assert found.headline_acc == (logits.argmax(1) == y).mean()
    assert found.headline_correct.right.tolist() == (logits.argmax(1) == y).tolist()
    matrices = [
        np.asarray(jnp.asarray(m), np.float64)
        for m in net.feedback().__closure__[0].cell_contents
    ]  # fmt: skip
    for site, (grad, matrix) in enumerate(zip(grads, matrices, strict=True)):
        credit = error @ matrix
        cosines = (credit * grad).sum(1) / np.linalg.norm(credit, axis=1) / np.linalg.norm(grad, axis=1)
        assert np.allclose(found.alignment.sites[site], cosines.mean(), **SAME)
    assert found.alignment.null.draws == 20
    assert abs(found.alignment.null.deep_mean) < 0.3


def test_movement_is_of_the_parameters_that_each_block_reads(seen):
    found, _, params, _ = seen
    start = net.parameters(1)

    def moved(*names):
        pick = lambda tree: np.concatenate([np.asarray(name(tree), np.float64).ravel() for name in names])  # noqa: E731
        return np.linalg.norm(pick(params) - pick(start)) / np.linalg.norm(pick(start))

    for number in range(net.DEPTH):
        of_block = moved(lambda p: p["blocks"][number]["w"], lambda p: p["blocks"][number]["b"])  # noqa: B023
        assert np.allclose(found.block_movement[number], of_block)
    assert np.allclose(found.stem_movement, moved(lambda p: p["stem"]))
    assert np.allclose(found.head_movement, moved(lambda p: p["head"]))


def test_stacked_weights_are_taken_apart_block_by_block():
    params = net.parameters()
    stacked = {
        "stem": params["stem"], "head": params["head"],
        **{name: jnp.stack([b[name] for b in params["blocks"]]) for name in ("w", "b")},
    }  # fmt: skip
    blocks = [
        (lambda number: lambda p, h: h + jnp.tanh(h @ p["w"][number] + p["b"][number]))(n) for n in range(net.DEPTH)
    ]
    start = stacked | {"w": stacked["w"].at[1].multiply(2.0)}
    found = net.measure(blocks, params=stacked, initial=start)
    assert found.block_movement[0] == found.block_movement[2] == 0
    assert found.block_movement[1] > 0.3


def test_what_is_tiny_and_what_is_huge_keeps_its_digits():
    drawn = np.random.default_rng(0).normal(size=(3, 512)).astype(np.float32)
    for size in (1e-35, 1e-20, 1.0, 1e20, 1e37):  # XLA takes what is under 1.2e-38 for zero
        site = (drawn * np.float32(size)).astype(np.float32)
        largest, share = (np.asarray(each, np.float64) for each in row_norms(jnp.asarray(site)))
        exact = np.linalg.norm(site.astype(np.float64), axis=1)
        assert np.allclose(np.linalg.norm(largest * share, axis=1), exact, rtol=1e-6, atol=0), size


@pytest.mark.parametrize("gap", [0.0, 10.0, 40.0, 300.0])
def test_the_error_keeps_its_direction_however_confident_the_network_is(gap):
    logits = np.array([[gap, 0.1, -0.2], [0.3, gap, -gap], [-gap, 0.2, 0.1]], np.float32)
    classes = np.array([0, 1, 2])
    exact = cross_entropy_error(logits.astype(np.float64), classes)
    found = np.asarray(unit_error(jnp.asarray(logits), classes), np.float64)
    found = found * factors(logits.astype(np.float64), classes)[:, None]
    assert (np.abs(found - exact) <= 1e-6 * np.abs(exact).max(axis=1, keepdims=True)).all()
    assert np.allclose(exact.sum(axis=1) / np.abs(exact).max(axis=1), 0, atol=1e-12)


@pytest.mark.parametrize("gap", [1.0, 30.0, 80.0])
def test_the_error_in_fp64_is_that_of_sixty_digits(gap):
    logits = np.array([gap, 0.25, -0.5])
    with localcontext() as context:
        context.prec = 60
        shares = [Decimal(float(each)).exp() for each in logits]
        exact = [float(each / sum(shares) - (place == 0)) for place, each in enumerate(shares)]
    assert np.allclose(cross_entropy_error(logits[None], np.array([0]))[0], exact, rtol=1e-14, atol=0)


def test_tokens_are_scored_where_they_are_marked():
    logits = np.log(np.array([[[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]]]))
    counted = Answers.of(logits, np.array([[0, 0, -100]]))
    assert counted.right.tolist() == [True, False]
    assert np.isclose(counted.surprise, -np.log(0.7) - np.log(0.4))
    assert counted.samples == 1


def test_one_hot_targets_say_the_same_as_indices():
    data = net.batches()
    rows = [(x, np.eye(net.CLASSES, dtype=np.float32)[y]) for x, y in data]
    assert net.measure(data=rows) == net.measure(data=data)
    mapped = [{"image": x, "label": y} for x, y in data]
    assert net.measure(data=mapped) == net.measure(data=data)


def test_how_samples_are_batched_changes_nothing():
    whole = net.measure(data=net.batches(300, 300))
    parts = net.measure(data=net.batches(300, 70))
    assert np.allclose(whole.bp_grad_norms, parts.bp_grad_norms, rtol=1e-6)
    assert np.allclose(whole.site_stabilities, parts.site_stabilities, rtol=1e-4)
    assert whole.samples == parts.samples == 300


def test_a_loss_of_the_callers_own():
    squares = lambda out, y: ((out - y) ** 2).mean(axis=1)  # noqa: E731
    data = [(x, np.sin(x[:, : net.CLASSES])) for x, _ in net.batches()]
    found = net.measure(data=data, loss=squares)
    assert found.reference_check.passed is True
    assert found.headline_acc is None
    again = net.measure(data=[(x, 1000 * y) for x, y in data], loss=lambda out, y: squares(1000 * out, y))
    assert np.allclose(np.array(again.bp_grad_norms) / found.bp_grad_norms, 1e6, rtol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_measured_and_held_against_fp64(dtype):
    found = net.measure(params=net.parameters(dtype=dtype), data=[(x.astype(dtype), y) for x, y in net.batches()])
    exact = net.measure(params=net.parameters())
    assert np.allclose(found.bp_grad_norms, exact.bp_grad_norms, rtol=0.05)
    assert min(found.reference_fidelity) > 0.99
    assert found.reference_check.passed is True


def test_fp16_gradients_that_would_underflow_are_scaled_on_the_way():
    params = net.parameters(dtype=jnp.float16)
    params["head"] = params["head"] * jnp.float16(6e-5)
    small = net.measure(params=params, data=[(x.astype(jnp.float16), y) for x, y in net.batches()])
    exact = net.measure(params={**net.parameters(), "head": jnp.asarray(params["head"], jnp.float32)})
    assert np.allclose(small.bp_grad_norms, exact.bp_grad_norms, rtol=0.05)


def test_a_network_that_diverged_fires_and_is_not_trusted():
    params = net.parameters()
    params["blocks"][1]["w"] = params["blocks"][1]["w"].at[0, 0].set(jnp.nan)
    report = walkback.jax.diagnose(net.apply, params, net.BLOCKS, net.batches(), stem=net.stem, head=net.head)
    assert report.outcome == "fail"
    assert report.reading("a").state.name == "FIRE"
    assert report.nonfinite_hiddens == (0, 0, 60, 60)
    assert report.nonfinite_logits == 60
