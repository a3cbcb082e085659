"""What cannot be measured is refused in a sentence that says what came and what was expected."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import plain_networks as net
import pytest

import walkback
import walkback.jax
from walkback.errors import BaselineError, BatchError, BlocksError, CreditError, InputError

X, Y = net.batches()[0]
kept = []


def leaking(params, h):
    kept.append(h)
    return h + sum(kept[:1])


def mixing(params, h):
    return h - h.mean(axis=0)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({"data": []}, BatchError, "no batch"),
        ({"data": 3}, BatchError, "iterable"),
        ({"data": [X]}, BatchError, "expected"),
        ({"data": [(X, Y[:5])]}, BatchError, "for 5 targets"),
        ({"data": [(X, Y + 2)]}, BatchError, "4 classes"),
        ({"data": [(X, Y - 1)]}, BatchError, "from -1"),
        ({"data": [(X, Y.astype(np.float32))]}, BatchError, "cross-entropy"),
        ({"data": [(X, np.full((30, 4), 0.25, np.float32))]}, BatchError, "soft labels"),
        ({"data": [{"x": X, "y": Y}]}, BatchError, "keys"),
        ({"data": [(X, ["cat"] * 30)]}, BatchError, "numbers"),
        ({"data": [(X[:, :3], Y)]}, BatchError, "stem cannot be run"),
        ({"blocks": []}, BlocksError, "empty"),
        ({"blocks": "blocks.*"}, BlocksError, "list of functions"),
        ({"blocks": [net.BLOCKS[0], 3]}, BlocksError, "function of"),
        ({"blocks": [lambda p, h: (h, 1)]}, BlocksError, "tuple"),
        ({"blocks": [lambda p, h: h > 0]}, BlocksError, "bool"),
        ({"blocks": [lambda p, h: h @ jnp.ones((5, 5))]}, InputError, "block 1"),
        ({"blocks": [lambda p, h: h.T]}, InputError, "."),
        ({"blocks": [lambda p, h: np.asarray(h)]}, InputError, "block 1"),
        ({"blocks": [mixing]}, InputError, "depend on h_0 of another"),
        ({"blocks": [lambda p, h: 0 * h + 1]}, BlocksError, "do not depend"),
        ({"blocks": [leaking, *net.BLOCKS]}, InputError, "traced"),
        ({"blocks": net.BLOCKS[:2], "apply": net.apply}, InputError, "what apply does"),
        ({"blocks": net.BLOCKS[::-1], "apply": net.apply}, InputError, "what apply does"),
        ({"apply": lambda p, x: net.apply(p, x)[:, :2]}, InputError, "what apply does"),
        ({"apply": lambda p, x: net.apply(p, x) * (1 + 1e-5)}, InputError, "what apply does"),
        ({"head": lambda p, h: jax.nn.softmax(net.head(p, h))}, InputError, "probabilities"),
        ({"loss": "mse"}, InputError, "function"),
        ({"loss": lambda out, y: out.mean()}, InputError, "one for each"),
        ({"loss": lambda out, y: out @ y}, InputError, "loss= failed"),
        ({"params": {}}, InputError, "no floating-point"),
        ({"params": jax.eval_shape(net.parameters)}, InputError, "without values"),
        ({"gradients": 1}, InputError, "True or False"),
        ({"gradients": False, "credit": net.feedback()}, InputError, "about one"),
        ({"functional": 8}, InputError, "credit"),
        ({"functional": 0, "credit": net.feedback()}, InputError, "how many samples"),
        ({"credit": 3}, CreditError, "function"),
        ({"credit": lambda hiddens: hiddens}, CreditError, "cannot be called"),
        ({"credit": lambda h, lo, y: h[:2]}, CreditError, "gave 2 for 4 sites"),
        ({"credit": lambda h, lo, y: [each[:, :3] for each in h]}, CreditError, "shape"),
        ({"credit": net.feedback(), "null_draws": 1}, CreditError, "null_draws"),
        ({"tokens": "first"}, InputError, "token reduction"),
        ({"initial": {"stem": 1}}, InputError, "structure"),
        ({"initial": jax.tree.map(lambda a: a[:2], net.parameters())}, InputError, "shape"),
        ({"initial": jax.tree.map(lambda a: a * float("nan"), net.parameters())}, InputError, "holds NaN or Inf in "),
        ({"max_batches": 0}, BatchError, "max_batches"),
    ],
)  # fmt: skip
def test_refused(more, error, said):
    kept.clear()
    with pytest.raises(error, match=said):
        net.measure(**more)


def test_tracers_are_refused():
    def inside(params):
        return net.measure(params=params).residual_norms[0]

    with pytest.raises(InputError, match="tracers"):
        jax.jit(inside)(net.parameters())
    with pytest.raises(InputError, match="tracers"):
        jax.grad(lambda x: net.measure(data=[(x, Y)]).residual_norms[0])(X)


def test_random_numbers_inside_are_told_where_they_differ_in_fp64():
    noisy = lambda p, h: h + jax.random.normal(jax.random.PRNGKey(0), h.shape)  # noqa: E731
    found = net.measure([noisy, *net.BLOCKS])
    assert found.reference_fidelity is None
    assert "random numbers" in found.no_fidelity
    assert found.reference_check.passed is None
    assert "random numbers" in found.reference_check.reason
    tested = net.measure([noisy, *net.BLOCKS], credit=lambda h, lo, y: list(h), functional=8)
    assert "random numbers" in tested.no_functional
    # The same for every sample, and drawn in one precision: the network is one function.
    fixed = lambda p, h: h + jax.random.normal(jax.random.PRNGKey(0), h.shape[1:], jnp.float32)  # noqa: E731
    assert net.measure([fixed, *net.BLOCKS]).reference_check.passed is True


def test_a_network_that_computes_in_half_inside_says_so():
    halved = net.block(1, lambda h: h.astype(jnp.bfloat16).astype(h.dtype))
    found = net.measure([net.BLOCKS[0], halved, net.BLOCKS[2]])
    assert found.reference_check.passed is None
    assert "bfloat16" in found.reference_check.reason


def test_without_gradients_growth_and_accuracy_are_measured_alone():
    found = net.measure([net.BLOCKS[0], lambda p, h: jnp.round(h, 3)], gradients=False)
    assert found.bp_grad_norms is None
    assert found.reference_check.candidate == "none"
    assert found.headline_acc is not None
    assert len(found.residual_norms) == 3


def test_a_baseline_of_another_network_is_refused():
    baseline = walkback.FrozenBaseline(accuracy=0.3, network={"blocks.0.weight": (3, 3)})
    with pytest.raises(BaselineError, match="another network"):
        walkback.jax.diagnose(
            net.apply, net.parameters(), net.BLOCKS, net.batches(), stem=net.stem, head=net.head,
            frozen_baseline_acc=baseline,
        )  # fmt: skip


class OfOthers(walkback.Diagnostic):
    """A diagnostic that takes torch's tensors, as another package may bring it."""

    letter, title, question, meaning = "k", "a stranger's", "Is it large?", "it is not large"
    thresholds: ClassVar = {"strange_floor": walkback.Threshold(0.0, "<", "largeness")}
    quantities = (walkback.Quantity("largeness", per_site=True),)

    @staticmethod
    def measure(capture):
        raise AssertionError("it was given what is not torch's")

    @staticmethod
    def summarise(part):
        return {}


def test_a_diagnostic_of_another_package_is_left_out_and_named():
    walkback.register("diagnostics", "strange", OfOthers)
    try:
        more = {"stem": net.stem, "head": net.head}
        report = walkback.jax.diagnose(net.apply, net.parameters(), net.BLOCKS, net.batches(), **more)
        assert [each for each in report.warnings if "(k) a stranger's" in each]
        assert report.reading("k").state is walkback.State.NOT_MEASURED
        assert report.reading("a").value is not None
    finally:
        walkback.unregister("diagnostics", "strange")
