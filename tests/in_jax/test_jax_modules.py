"""Equinox and Flax NNX models, their blocks found inside them, against the same network in plain functions."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain_networks as net
import pytest
from flax import nnx

import walkback.jax
from walkback.errors import BlocksError, InputError


class EqxBlock(eqx.Module):
    w: jax.Array
    b: jax.Array
    drop: eqx.nn.Dropout

    def __call__(self, h, *, key=None):
        return h + jnp.tanh(self.drop(h, key=key) @ self.w + self.b)


class EqxNet(eqx.Module):
    stem: jax.Array
    blocks: list
    head: jax.Array

    def __init__(self, params):
        self.stem, self.head = params["stem"], params["head"]
        self.blocks = [EqxBlock(b["w"], b["b"], eqx.nn.Dropout(0.5)) for b in params["blocks"]]

    def __call__(self, x):
        h = x @ self.stem
        for block in self.blocks:
            h = block(h)
        return h @ self.head


class NnxBlock(nnx.Module):
    def __init__(self, own):
        self.w, self.b = nnx.Param(own["w"]), nnx.Param(own["b"])
        self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))

    def __call__(self, h):
        return h + jnp.tanh(self.drop(h) @ self.w[...] + self.b[...])


class NnxNet(nnx.Module):
    def __init__(self, params):
        self.stem, self.head = nnx.Param(params["stem"]), nnx.Param(params["head"])
        blocks = [NnxBlock(own) for own in params["blocks"]]
        self.blocks = nnx.List(blocks) if hasattr(nnx, "List") else blocks

    def __call__(self, x):
        h = x @ self.stem[...]
        for block in self.blocks:
            h = block(h)
        return h @ self.head[...]


def blocks_of(model):
    return model.blocks


def numbers(found):
    return found.model_dump(exclude={"sites", "moved_blocks"})


@pytest.fixture(scope="module")
def plain():
    return net.measure(initial=net.parameters(1))


def test_equinox(plain):
    model = EqxNet(net.parameters())
    start = walkback.jax.equinox_sites(EqxNet(net.parameters(1)), blocks_of)[1]
    found = walkback.jax.measure(*walkback.jax.equinox_sites(model, blocks_of), net.batches(), initial=start)
    assert found.sites[1] == "blocks.0 (EqxBlock)"
    assert np.allclose(found.bp_grad_norms, plain.bp_grad_norms, rtol=1e-6)
    assert np.allclose(found.residual_norms, plain.residual_norms, rtol=1e-6)
    assert np.allclose(found.block_movement, plain.block_movement)
    assert np.allclose([found.stem_movement, found.head_movement], [plain.stem_movement, plain.head_movement])
    assert found.reference_check.passed is True
    # Dropout was off, and the model is as it was.
    assert model.blocks[0].drop.inference is False


def test_what_was_compiled_for_an_equinox_model_is_used_again():
    first, second = (walkback.jax.equinox_sites(EqxNet(net.parameters(seed)), blocks_of)[2] for seed in (0, 1))
    assert first == second
    assert hash(first) == hash(second)


def test_nnx(plain):
    model = NnxNet(net.parameters())
    start = walkback.jax.nnx_sites(NnxNet(net.parameters(1)), blocks_of)[1]
    found = walkback.jax.measure(*walkback.jax.nnx_sites(model, blocks_of), net.batches(), initial=start)
    assert np.allclose(found.bp_grad_norms, plain.bp_grad_norms, rtol=1e-6)
    assert np.allclose(found.residual_norms, plain.residual_norms, rtol=1e-6)
    assert np.allclose(found.block_movement, plain.block_movement)
    assert found.reference_check.passed is True
    assert type(model.blocks[0]) is NnxBlock
    assert model.blocks[0].drop.deterministic is False


def test_credit_and_reports_of_modules():
    model = EqxNet(net.parameters())
    report = walkback.jax.diagnose(
        *walkback.jax.equinox_sites(model, blocks_of), net.batches(), credit=net.feedback(), method_name="DFA"
    )
    assert report.provenance["model"] == "EqxNet"
    assert "blocks.0 (EqxBlock)" in report.to_text()
    assert report.alignment.null.draws == 20


class Twice(EqxNet):
    def __call__(self, x):
        h = x @ self.stem
        for block in (*self.blocks, self.blocks[0]):
            h = block(h)
        return h @ self.head


class Jitted(EqxNet):
    def __call__(self, x):
        h = x @ self.stem
        for block in self.blocks:
            h = jax.jit(lambda h, block=block: block(h))(h)
        return h @ self.head


@pytest.mark.parametrize(
    ("model", "where", "error", "said"),
    [
        (EqxNet, lambda m: [], BlocksError, "list of its blocks"),
        (EqxNet, lambda m: [m.stem], BlocksError, "expected modules"),
        (EqxNet, lambda m: m.blocks[::-1], BlocksError, "in their order"),
        (Twice, blocks_of, BlocksError, "twice"),
        (Jitted, blocks_of, InputError, "jit"),
    ],
)
def test_models_whose_blocks_cannot_be_tapped_are_refused(model, where, error, said):
    with pytest.raises(error, match=said):
        walkback.jax.measure(*walkback.jax.equinox_sites(model(net.parameters()), where), net.batches())


def test_stem_and_head_are_part_of_a_model():
    parts = walkback.jax.equinox_sites(EqxNet(net.parameters()), blocks_of)
    with pytest.raises(BlocksError, match="Leave them out"):
        walkback.jax.measure(*parts, net.batches(), stem=net.stem)
