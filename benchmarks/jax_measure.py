"""`walkback.jax.measure` against `jax.value_and_grad` of the loss over all parameters, as a ratio in one run.

Both on the same batches, both compiled, one thread. `measure` computes no gradient of a parameter and nothing before
the first block on the way back; what it spends on the check by finite differences, the pass in fp64 and the numbers
themselves is part of it.
"""

from __future__ import annotations

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np

import walkback.jax
from ratios import interleaved, ratio, write

LIMIT = 0.9
WIDTH, DEPTH, CLASSES, INPUTS = 256, 4, 10, 3072


def drawn(key, *shape):
    return jax.random.normal(key, shape) / shape[0] ** 0.5


def parameters(tokens: bool) -> dict:
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 100))
    width = WIDTH // 2 if tokens else WIDTH
    block = lambda: {  # noqa: E731
        "first": drawn(next(keys), width, 4 * width), "second": drawn(next(keys), 4 * width, width) * 0.1,
        **({name: drawn(next(keys), width, width) for name in ("q", "k", "v", "o")} if tokens else {}),
    }  # fmt: skip
    return {
        "stem": drawn(next(keys), 48 if tokens else INPUTS, width),
        "blocks": [block() for _ in range(DEPTH)],
        "head": drawn(next(keys), width, CLASSES),
    }


def normed(h):
    return (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)


def stem(params, x):
    return x @ params["stem"]


def block(number):
    def run(params, h):
        own = params["blocks"][number]
        if "q" in own:
            n = normed(h)
            weights = jax.nn.softmax((n @ own["q"]) @ (n @ own["k"]).swapaxes(1, 2) / own["q"].shape[0] ** 0.5)
            h = h + weights @ (n @ own["v"]) @ own["o"]
        return h + jax.nn.gelu(normed(h) @ own["first"]) @ own["second"]

    return run


BLOCKS = [block(number) for number in range(DEPTH)]


def head(params, h):
    h = normed(h)
    return (h if h.ndim == 2 else h.mean(axis=1)) @ params["head"]


def apply(params, x):
    h = stem(params, x)
    for each in BLOCKS:
        h = each(params, h)
    return head(params, h)


@jax.jit
def step(params, x, y):
    def loss(params):
        logs = jax.nn.log_softmax(apply(params, x))
        return -jnp.take_along_axis(logs, y[:, None], axis=1).mean()

    return jax.value_and_grad(loss)(params)


def compare(tokens: bool, rounds: int) -> dict[str, float]:
    params, draw = parameters(tokens), np.random.default_rng(0)
    shape = (16, 48) if tokens else (INPUTS,)
    batches = [(draw.normal(size=(128, *shape)).astype(np.float32), draw.integers(0, CLASSES, 128)) for _ in range(10)]

    def bare() -> None:
        for x, y in batches:
            jax.block_until_ready(step(params, x, y))

    def measure() -> None:
        walkback.jax.measure(apply, params, BLOCKS, batches, stem=stem, head=head)

    return ratio(interleaved({"bare": bare, "measure": measure}, rounds), "measure", "bare")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    figures: dict[str, object] = {}
    print("walkback.jax.measure over jax.value_and_grad of all parameters, 10 batches of 128, one thread")
    for name, tokens in {"MLP d=256, 4 blocks": False, "transformer d=128, 16 tokens, 4 blocks": True}.items():
        measured = compare(tokens, rounds)
        figures[name] = measured | {"limit": LIMIT}
        quartiles = f"{measured['lower_quartile']:.3f} … {measured['upper_quartile']:.3f}"
        print(f"  {name:40s} {measured['ratio']:.3f}  (quartiles {quartiles}; limit {LIMIT})")
    what = {"what": "walkback.jax.measure / jax.value_and_grad", "jax": jax.__version__, "ratios": figures}
    print(f"written to {write('bench_jax', what)}")


if __name__ == "__main__":
    main()
