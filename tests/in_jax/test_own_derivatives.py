"""Functions that declare a derivative of their own: seen through, or refused with the site and the reason."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import plain_networks as net
import pytest

import walkback.jax
from walkback.errors import InputError
from walkback.protocol.records import State


def feedback_product(seed=3):
    """h @ w whose backward pass goes through a fixed random matrix in w's place."""
    fixed = jax.random.normal(jax.random.PRNGKey(seed), (net.WIDTH, net.WIDTH))

    @jax.custom_vjp
    def product(h, w):
        return h @ w

    def forth(h, w):
        return h @ w, (h, w)

    def back(kept, grad):
        return grad @ fixed.astype(grad.dtype).T, kept[0].T @ grad

    product.defvjp(forth, back)
    return product


def fa_blocks(wrap=lambda f: f):
    product = wrap(feedback_product())
    return [
        (lambda number: lambda p, h: h + jnp.tanh(product(h, p["blocks"][number]["w"]) + p["blocks"][number]["b"]))(n)
        for n in range(net.DEPTH)
    ]


def in_scan(product):
    """The product inside a loop of one turn, where a jaxpr stands in a jaxpr."""

    def run(h, w):
        return jax.lax.scan(lambda h, _: (product(h, w), None), h, None, length=1)[0]

    return run


def in_cond(product):
    return lambda h, w: jax.lax.cond(w[0, 0] > -100, product, lambda h, w: h, h, w)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint, in_scan, in_cond])
def test_a_custom_backward_pass_is_seen_through(wrap):
    plain, bent = net.measure(), net.measure(fa_blocks(wrap))
    assert bent.reference_check.candidate == "seen_through"
    assert bent.reference_check.passed is True
    assert len(bent.reference_check.seen_through) == 1
    assert np.allclose(bent.bp_grad_norms, plain.bp_grad_norms, rtol=1e-5)
    assert np.allclose(bent.site_stabilities or 0, plain.site_stabilities or 0, rtol=1e-4)
    assert min(bent.reference_fidelity) > 0.9999


def test_what_the_network_declares_is_not_what_is_measured():
    blocks = fa_blocks()
    grads = jax.grad(lambda h: net.head(net.parameters(), blocks[2](net.parameters(), h)).sum())
    true = jax.grad(lambda h: net.head(net.parameters(), net.BLOCKS[2](net.parameters(), h)).sum())
    at = jnp.ones((1, net.WIDTH))
    assert not np.allclose(grads(at), true(at), rtol=0.1)


def stopped(number):
    """A block whose gradient goes through its skip alone."""
    return net.block(number, change=jax.lax.stop_gradient)


def test_a_stopped_gradient_is_refused_with_its_block():
    blocks = [net.BLOCKS[0], stopped(1), net.BLOCKS[2]]
    report = walkback.jax.diagnose(
        net.whole(blocks), net.parameters(), blocks, net.batches(), stem=net.stem, head=net.head,
        credit=net.feedback(), functional=8,
    )  # fmt: skip
    check = report.reference_check
    assert check.passed is False
    assert "block 2" in check.reason
    assert "h_2" in check.reason
    assert "stop_gradient" in check.reason
    assert report.reading("a").state is State.PASS
    for letter in "bc":
        assert report.reading(letter).state is State.NOT_MEASURED
        assert "block 2" in report.reading(letter).sentence
    assert "block 2" in report.alignment.unavailable
    assert report.bp_grad_norms is None
    # They need no gradient.
    assert len(report.perturbation_rho) == net.DEPTH + 1


def test_a_twin_gives_the_gradient_that_the_network_lacks():
    blocks = [net.BLOCKS[0], stopped(1), net.BLOCKS[2]]
    found, plain = net.measure(blocks, reference=net.BLOCKS), net.measure()
    assert found.reference_check.twin
    assert found.reference_check.passed is True
    assert np.allclose(found.bp_grad_norms, plain.bp_grad_norms, rtol=1e-6)
    whole = walkback.jax.Stages(net.BLOCKS, net.stem, net.head)
    assert net.measure(blocks, reference=whole).bp_grad_norms == found.bp_grad_norms


@pytest.mark.parametrize(
    ("twin", "said"),
    [
        ([net.BLOCKS[0], net.block(1, lambda h: 1.01 * h), net.BLOCKS[2]], "something else"),
        (net.BLOCKS[:2], "2 blocks"),
        ("other", "expected the blocks of a twin"),
        ([net.BLOCKS[0], stopped(1), net.BLOCKS[2]], None),
    ],
)
def test_a_twin_of_another_function_is_refused(twin, said):
    blocks = [net.BLOCKS[0], stopped(1), net.BLOCKS[2]]
    if said is None:  # of the same function, with the same fault
        found = net.measure(blocks, reference=twin)
        assert found.reference_check.passed is False
        assert "twin" in found.reference_check.reason
        return
    with pytest.raises(InputError, match=said):
        net.measure(blocks, reference=twin)


def test_a_step_with_a_surrogate_is_refused_and_kept_on_request():
    @jax.custom_vjp
    def spike(h):
        return (h > 0).astype(h.dtype)

    spike.defvjp(lambda h: (spike(h), h), lambda h, grad: (grad / (1 + h**2),))
    blocks = [net.BLOCKS[0], net.block(1, spike), net.BLOCKS[2]]
    refused = net.measure(blocks)
    assert refused.reference_check.passed is False
    assert refused.bp_grad_norms is None
    kept = net.measure(blocks, reference="declared", credit=net.feedback())
    assert kept.reference_check.candidate == "declared"
    assert kept.bp_grad_norms is None
    assert len(kept.alignment.sites) == net.DEPTH + 1


def test_functions_of_jax_that_declare_derivatives_are_no_suspects():
    blocks = [net.block(0, jax.nn.relu), net.block(1, jax.nn.softplus), net.block(2, jax.nn.silu)]
    check = net.measure(blocks).reference_check
    assert (check.candidate, check.passed, check.seen_through) == ("autograd", True, ())
    assert check.sites == (0, 2, 3)
    assert check.directions + check.kinks_discarded == 12


def test_a_wrong_custom_jvp_is_seen_through_too():
    @jax.custom_jvp
    def bent(h):
        return jnp.sin(h)

    bent.defjvp(lambda primals, tangents: (bent(*primals), 0.5 * tangents[0]))
    found = net.measure([net.block(0, bent), *net.BLOCKS[1:]])
    plain = net.measure([net.block(0, jnp.sin), *net.BLOCKS[1:]])
    assert found.reference_check.passed is True
    assert np.allclose(found.bp_grad_norms, plain.bp_grad_norms, rtol=1e-5)


def test_a_loss_that_declares_its_own_gradient_is_refused():
    @jax.custom_vjp
    def half(logits, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)[:, 0]

    half.defvjp(lambda logits, y: (half(logits, y), logits), lambda logits, g: (0.3 * logits * g[:, None], None))
    found = net.measure(loss=half)
    assert found.reference_check.passed is False
    assert "loss=" in found.reference_check.reason
    divided = net.measure(loss=lambda logits, y: (logits**2).sum(axis=1) / len(y))
    assert divided.reference_check.passed is False
    assert "alone" in divided.reference_check.reason
