"""fp64 in JAX, where it is a switch of the process, and what of a tree of arrays is a number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from walkback.errors import InputError


@contextmanager
def x64() -> Iterator[None]:
    """fp64 as long as the context lasts, in this thread."""
    if hasattr(jax, "enable_x64"):
        with jax.enable_x64(True):
            yield
    else:  # before jax 0.9
        from jax.experimental import enable_x64  # type: ignore[attr-defined,unused-ignore]

        with enable_x64():
            yield


def is_floating(leaf: Any) -> bool:
    """Whether an array holds real floating-point numbers."""
    return hasattr(leaf, "dtype") and bool(jnp.issubdtype(leaf.dtype, jnp.floating))


def in_double(tree: Any) -> Any:
    """A tree with its floating-point arrays in fp64."""
    return jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.float64) if is_floating(leaf) else leaf, tree)


def refuse_tracers(what: str, tree: Any) -> None:
    """Refuse values that exist only while JAX traces a function."""
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree)):
        raise InputError(
            f"{what} holds tracers: this was called inside a function that JAX traces (jit, grad, vmap, scan). "
            "Expected arrays with values. Call it outside of that function, on what it returns."
        )


def dtype_name(tree: Any) -> str:
    """The precision of the first floating-point array; `none` where there is none."""
    return next((str(leaf.dtype) for leaf in jax.tree.leaves(tree) if is_floating(leaf)), "none")


def host(array: Any) -> np.ndarray[Any, Any]:
    """As NumPy has it, without a copy on the CPU."""
    return np.asarray(array)
