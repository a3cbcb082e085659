"""A training loop in JAX, watched: lines, traces, decisions and reports are those of any monitor."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import plain_networks as net
import pytest

import walkback
import walkback.jax
from walkback.errors import InputError, WalkbackWarning
from walkback.watch.trace import OpenTrace


def monitor(params, path=None, **more):
    given = {"stem": net.stem, "head": net.head, "every": 1, "trace": path} | more
    return walkback.jax.Monitor(net.apply, params, net.BLOCKS, net.batches(256, 128), **given)


@jax.jit
def step(params, x, y):
    def loss(params):
        return -jnp.take_along_axis(jax.nn.log_softmax(net.apply(params, x)), y[:, None], axis=1).mean()

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))


def test_a_run_is_traced_resumed_and_replayed(tmp_path):
    path, params = tmp_path / "trace.jsonl", net.parameters()
    watched = monitor(params, path, run="first", credit=net.feedback())
    for epoch in (1, 2):
        for x, y in net.batches(seed=1):
            params = step(params, x, y)
            assert not watched.step(params).stop
        watched.step(params, epoch=epoch, accuracy=0.5, loss=1.0 / epoch)
    assert watched.report.reading("c").value is not None
    assert watched.report.provenance["jax"] == jax.__version__
    again = monitor(params, path, run="first", credit=net.feedback())
    assert again.steps == 4
    lines = OpenTrace(path, again._identity(params, "first"), named=True, resume=False).lines
    assert [line.epoch for line in lines if line.epoch] == [1, 2]
    assert len(lines[-1].alignment) == net.DEPTH + 1
    assert walkback.replay(path)
    other = {**params, "head": jnp.ones((net.WIDTH, 9))}
    with pytest.raises(InputError, match="network"):
        monitor(other, path, run="first")


def test_numbers_of_a_moment_are_those_of_measure():
    params = net.parameters()
    watched = monitor(net.parameters(1))
    watched.step(params)
    whole = net.measure(data=net.batches(256, 128), params=params)
    assert watched.report.bp_grad_norms == whole.bp_grad_norms
    assert watched.report.residual_norms == whole.residual_norms


def test_a_run_that_explodes_is_stopped():
    params = net.parameters()
    watched = monitor(params)
    assert not watched.step(params).stop
    params["stem"] = params["stem"] * 1e-4
    decision = watched.step({**params, "blocks": [{**b, "b": b["b"] + 50} for b in params["blocks"]]})
    assert decision.stop
    assert "(a)" in decision.reason


def test_a_gradient_at_the_floor_is_held_against_fp64():
    params = net.parameters()
    watched = monitor(params)
    watched.step({**params, "head": params["head"] * 1e-9})
    assert watched.report.reading("b").state.name == "FIRE"
    assert min(watched.report.reference_fidelity) > 0.999


def test_what_cannot_be_measured_is_told_and_the_run_goes_on():
    params = net.parameters()
    watched = monitor(params)
    with pytest.warns(WalkbackWarning, match="another network"):
        assert not watched.step({**params, "head": jnp.ones((net.WIDTH, 9))}).stop
    with pytest.raises(InputError, match="once"):
        monitor(params, readouts=True)


def test_functional_tests_have_their_turn():
    params = net.parameters()
    watched = monitor(params, credit=net.feedback(), functional=6)
    watched.step(params)
    assert len(watched.report.perturbation_rho) == net.DEPTH + 1
    with pytest.raises(InputError, match="credit"):
        monitor(params, functional=6)
