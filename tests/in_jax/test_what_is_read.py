"""Weights come from params, and are read anew each time; labels that are no classes are not counted."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import plain_networks as net
import pytest

import walkback.jax
from walkback.errors import BatchError, InputError


def diagnose(blocks=net.BLOCKS, params=None, data=None, **more):
    given = {"stem": net.stem, "head": net.head} | more
    apply = given.pop("apply", None) or net.whole(blocks, given["stem"], given["head"])
    params = net.parameters() if params is None else params
    return walkback.jax.diagnose(apply, params, blocks, net.batches() if data is None else data, **given)


def with_head(classes):
    drawn = np.random.default_rng(1).normal(size=(net.WIDTH, classes))
    return {**net.parameters(), "head": jnp.asarray(drawn, jnp.float32)}


def test_another_head_on_the_same_functions_is_another_network():
    many = net.batches(classes=100)
    net.measure(params=with_head(100), data=many, apply=net.apply)
    with pytest.raises(BatchError, match="4 classes"):
        net.measure(data=many, apply=net.apply)
    rows = [(x, np.eye(net.CLASSES, dtype=np.float32)[y]) for x, y in net.batches()]
    assert net.measure(data=rows, apply=net.apply).headline_acc is not None


def two_classes():
    return [(x, y % 2) for x, y in net.batches()]


def test_of_one_number_no_class_is_chosen():
    own = lambda out, y: jnp.logaddexp(0.0, out[:, 0]) - out[:, 0] * y  # noqa: E731
    found = net.measure(params=with_head(1), data=two_classes(), loss=own, readouts=True)
    assert found.headline_acc is None
    assert "one class" in found.no_readouts
    with pytest.raises(BatchError, match="one number"):
        net.measure(params=with_head(1), data=two_classes())


@pytest.mark.parametrize("strange", [-1, net.CLASSES])
def test_labels_that_are_no_classes_are_not_counted(strange):
    marked = [(x, np.where(np.arange(len(y)) % 4 == 0, strange, y)) for x, y in net.batches()]

    def own(out, y):
        there = (y >= 0) & (y < net.CLASSES)
        logs = jnp.take_along_axis(jax.nn.log_softmax(out), jnp.where(there, y, 0)[:, None], axis=1)[:, 0]
        return jnp.where(there, -logs, 0.0)

    found = net.measure(data=marked, loss=own)
    assert found.headline_acc is None
    assert found.bp_grad_norms is not None
    assert net.measure(data=net.batches(), loss=own).headline_acc == net.measure().headline_acc


class Held:
    """A model whose weights change in place."""

    def __init__(self, params):
        self.params = params

    def parts(self):
        stem = lambda p, x: net.stem(self.params, x)  # noqa: E731
        blocks = [lambda p, h, block=block: block(self.params, h) for block in net.BLOCKS]
        return blocks, stem, lambda p, h: net.head(self.params, h)


@pytest.mark.parametrize("more", [{}, {"gradients": False}, {"reference": "declared"}])
def test_functions_that_read_nothing_of_params_are_refused(more):
    held = Held(net.parameters())
    blocks, stem, head = held.parts()
    with pytest.raises(InputError, match=r"nothing of params \(8 arrays"):
        net.measure(blocks, params=held.params, stem=stem, head=head, **more)


def test_weights_that_nothing_reads_are_named():
    held = Held(net.parameters())
    blocks, _, _ = held.parts()
    report = diagnose(blocks, params=held.params)
    (said,) = [each for each in report.warnings if "of params" in each]
    assert "['blocks'][0]['b'], ['blocks'][0]['w'], ['blocks'][1]['b'], ['blocks'][1]['w'] and 2 more" in said
    watched = walkback.jax.Monitor(
        net.whole(blocks), held.params, blocks, net.batches(), stem=net.stem, head=net.head, every=1
    )
    watched.step(held.params)
    assert said in watched.report.warnings
    assert not [each for each in diagnose().warnings if "of params" in each]


def test_weights_behind_inner_functions_and_declared_derivatives_are_read():
    @jax.custom_vjp
    def product(h, w, feedback):
        return h @ w

    product.defvjp(lambda h, w, b: (h @ w, (h, w, b)), lambda kept, g: (g @ kept[2].T, kept[0].T @ g, 0 * kept[2]))

    def fed(params, h):
        return h + product(h, params["blocks"][0]["w"], params["feedback"])

    def scanned(params, h):
        stacked = jnp.stack([each["w"] for each in params["blocks"][1:]])
        inner = jax.jit(lambda h, b: h + b)
        return inner(jax.lax.scan(lambda h, w: (h + jnp.tanh(h @ w), None), h, stacked)[0], params["blocks"][1]["b"])

    params = {**net.parameters(), "feedback": net.parameters(1)["blocks"][0]["w"]}
    report = diagnose([fed, scanned], params=params)
    (said,) = [each for each in report.warnings if "of params" in each]
    assert "depend on ['blocks'][0]['b'], ['blocks'][2]['b'] of params" in said


@pytest.mark.parametrize("value", [3, 0.5, True, np.float32(2)])
def test_a_number_in_params_is_a_number(value):
    found = net.measure(params={**net.parameters(), "step": value})
    assert found.headline_acc == net.measure().headline_acc
    assert found.reference_check.passed is True


def test_a_word_in_params_is_refused():
    with pytest.raises(InputError, match=r"holds a str \(\['name'\]\)"):
        net.measure(params={**net.parameters(), "name": "resmlp"})
    with pytest.raises(InputError, match="holds a function"):
        net.measure(params={**net.parameters(), "act": net.stem})


def test_the_state_of_a_training_is_taken_for_params():
    train_state = pytest.importorskip("flax.training.train_state")
    optax = pytest.importorskip("optax")
    state = train_state.TrainState.create(apply_fn=net.apply, params=net.parameters(), tx=optax.sgd(0.1))
    blocks = [lambda s, h, block=block: block(s.params, h) for block in net.BLOCKS]
    found = net.measure(
        blocks, params=state, stem=lambda s, x: net.stem(s.params, x), head=lambda s, h: net.head(s.params, h)
    )
    assert found.bp_grad_norms == net.measure().bp_grad_norms


@dataclass
class Block:
    number: int

    def __call__(self, params, h):
        return net.BLOCKS[self.number](params, h)


@dataclass
class OwnLoss:
    scale: float = 1.0

    def __call__(self, out, y):
        return -self.scale * jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=1)[:, 0]


@dataclass
class Whole:
    def __call__(self, params, x):
        return net.apply(params, x)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"blocks": [Block(n) for n in range(net.DEPTH)]}, r"block 1 is a Block that has no hash.*frozen=True"),
        ({"loss": OwnLoss()}, "loss= is a OwnLoss"),
        ({"apply": Whole()}, "apply is a Whole"),
        ({"reference": [Block(n) for n in range(net.DEPTH)]}, "block 1 is a Block"),
    ],
)
def test_what_has_no_hash_is_refused(more, said):
    with pytest.raises(InputError, match=said):
        net.measure(**more)


def test_an_equinox_module_as_a_block_is_sent_to_where_it_belongs():
    equinox = pytest.importorskip("equinox")

    class Module(equinox.Module):
        w: jax.Array

        def __call__(self, params, h):
            return h + jnp.tanh(h @ self.w)

    with pytest.raises(InputError, match="equinox_sites"):
        net.measure([Module(jnp.eye(net.WIDTH))])


def test_ranks_are_not_promoted():
    biased = [  # the bias of these networks is written for promoted ranks
        lambda p, h, number=number: h + jnp.tanh(h @ p["blocks"][number]["w"] + p["blocks"][number]["b"][None])
        for number in range(net.DEPTH)
    ]
    expected = net.measure(biased)
    tokens = [
        (np.stack([x, x[::-1]], axis=1), np.stack([y, np.where(y == 0, -100, y)], axis=1)) for x, y in net.batches()
    ]
    with jax.numpy_rank_promotion("raise"):
        fresh = [lambda p, h, block=block: block(p, h) for block in biased]
        found = net.measure(fresh, credit=net.feedback(), functional=4, readouts=True, initial=net.parameters(1))
        assert found.bp_grad_norms == expected.bp_grad_norms
        of_tokens = [lambda p, h, n=n: h + jnp.tanh(h @ p["blocks"][n]["w"]) for n in range(net.DEPTH)]
        assert net.measure(of_tokens, data=tokens).reference_check.passed is True
