"""Small networks in plain JAX, for tests that need no torch."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import walkback.jax

WIDTH, DEPTH, CLASSES, INPUTS = 8, 3, 4, 6


def parameters(seed=0, dtype=jnp.float32):
    drawn = np.random.default_rng(seed)
    make = lambda *shape: jnp.asarray(drawn.normal(size=shape) / shape[0] ** 0.5, dtype)  # noqa: E731
    return {
        "stem": make(INPUTS, WIDTH),
        "blocks": [{"w": make(WIDTH, WIDTH), "b": make(WIDTH)} for _ in range(DEPTH)],
        "head": make(WIDTH, CLASSES),
    }


def stem(params, x):
    return x @ params["stem"]


def block(number, change=lambda z: z):
    def run(params, h):
        own = params["blocks"][number]
        return h + jnp.tanh(change(h) @ own["w"] + own["b"])

    return run


BLOCKS = [block(number) for number in range(DEPTH)]


def head(params, h):
    return h @ params["head"]


def whole(blocks, stem=stem, head=head):
    def apply(params, x):
        h = stem(params, x)
        for each in blocks:
            h = each(params, h)
        return head(params, h)

    return apply


apply = whole(BLOCKS)


def batches(count=60, size=30, seed=0, classes=CLASSES, inputs=INPUTS):
    drawn = np.random.default_rng(seed)
    x, y = drawn.normal(size=(count, inputs)).astype(np.float32), drawn.integers(0, classes, count)
    return [(x[at : at + size], y[at : at + size]) for at in range(0, count, size)]


def measure(blocks=BLOCKS, params=None, data=None, **more):
    """Of a network that differs in its blocks alone."""
    given = {"stem": stem, "head": head} | more
    given.pop("apply", None)
    made = more.pop("apply", None) or whole(blocks, given["stem"], given["head"])
    return walkback.jax.measure(
        made, parameters() if params is None else params, blocks, batches() if data is None else data, **given
    )


def feedback(key=None):
    """A credit function of DFA, with fresh draws."""
    key = jax.random.PRNGKey(7) if key is None else key
    matrices = [jax.random.normal(each, (CLASSES, WIDTH)) for each in jax.random.split(key, DEPTH + 1)]

    def credit(hiddens, logits, targets):
        error = jax.nn.softmax(logits) - jax.nn.one_hot(targets, CLASSES)
        return [error @ matrix for matrix in matrices]

    credit.redraw = feedback
    credit.independent_feedback = True
    return credit
