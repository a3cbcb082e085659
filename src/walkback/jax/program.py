"""What is compiled for one network and one loss: a batch → its sites, and the logits behind a site."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from walkback.errors import BatchError, BlocksError, InputError
from walkback.jax.losses import Loss, scaled_error, unit_error
from walkback.jax.network import Network, Stage, Values, called, one_array
from walkback.jax.numbers import rows
from walkback.jax.through import Found, Kinds, jaxpr_of, seen_through

CHUNK = 256
"""How many entries of a vector make a row."""
KEPT_PROGRAMS = 16
"""As many networks are kept compiled."""


class Pass(NamedTuple):
    """What one pass shows, on the device."""

    logits: Any
    hiddens: tuple[Any, ...]
    grads: tuple[Any, ...]
    """∂ℓ/∂h_l, up to the factor that its sample's error was scaled by."""
    error: Any
    """∂ℓ/∂logits, up to the same."""
    exponent: Any
    """log₂ of that factor, (B,), where the loss is the caller's; of cross-entropy `losses.factors` has it."""
    hidden_rows: tuple[Any, ...] | None
    grad_rows: tuple[Any, ...] | None
    """`row_norms` of every site."""


class Program:
    """Functions of one network, compiled when they are first called, and anew for every shape and precision."""

    def __init__(self, network: Network, loss: Loss | None, through: Kinds) -> None:
        self.network, self.loss, self.through = network, loss, through
        self.passed = jax.jit(self._passed)
        self.stream = jax.jit(lambda params, inputs: self._run(params, inputs, {}, {}))
        self.rest = jax.jit(lambda params, inputs, instead: self._run(params, inputs, {}, instead)[0])
        self.examined = jax.jit(self._examined, static_argnums=0)
        self.looked = jax.jit(self._looked, static_argnums=0)
        self._shapes: dict[Any, tuple[int, ...]] = {}
        self._found: dict[Any, Found] = {}

    def _run(self, params: Any, inputs: Any, plus: Values, instead: Values) -> tuple[Any, tuple[Any, ...]]:
        run = seen_through(self.network.run, self.through)
        logits, hiddens = run(params, inputs, dict(plus), dict(instead))
        return logits, hiddens

    def logits_shape(self, params: Any, inputs: Any) -> tuple[int, ...]:
        """Of the logits for such inputs; nothing is computed."""
        key = _kind_of(params, inputs)
        if key not in self._shapes:
            self._shapes[key] = tuple(jax.eval_shape(self.stream, params, inputs)[0].shape)
        return self._shapes[key]

    def _zeros(self, params: Any, inputs: Any) -> dict[int, Any]:
        _, sites = jax.eval_shape(lambda p, x: self.network.run(p, x, {}, {}), params, inputs)
        return {number: jnp.zeros(site.shape, site.dtype) for number, site in enumerate(sites)}

    def _pulled(self, params: Any, inputs: Any) -> tuple[Any, tuple[Any, ...], Callable[[Any], Any]]:
        zeros = self._zeros(params, inputs)
        logits, pull, hiddens = jax.vjp(lambda plus: self._run(params, inputs, plus, {}), zeros, has_aux=True)
        return logits, hiddens, lambda error: pull(error.astype(logits.dtype))[0]

    def _passed(self, params: Any, inputs: Any, targets: Any, further: Any) -> Pass:
        """One forward and one backward pass; `further` are powers of two for the error, (B,)."""
        return self._error_pulled(*self._pulled(params, inputs), targets, further)

    def _error_pulled(
        self, logits: Any, hiddens: tuple[Any, ...], pull: Callable[[Any], Any], targets: Any, further: Any
    ) -> Pass:
        _check_rows(logits, hiddens, targets.shape[0], self.network.names)
        exponent = None
        if self.loss is None:
            wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
            error = unit_error(wide, targets)
        else:
            error, exponent = scaled_error(self.loss, logits, targets)
        grads = pull(error * rows(jnp.exp2(further), error).astype(error.dtype))
        ordered = tuple(grads[site] for site in sorted(grads))
        rows_of_both = (tuple(map(row_norms, sites)) for sites in (hiddens, ordered))
        return Pass(logits, hiddens, ordered, error, exponent, *rows_of_both)

    def _examined(self, apply: Stage, params: Any, inputs: Any, targets: Any) -> tuple[Pass, Any, Any]:
        """A pass, the gradient that the last sample's logits send to h_0 of each sample, and the logits of `apply`."""
        logits, hiddens, pull = self._pulled(params, inputs)
        seen = self._error_pulled(logits, hiddens, pull, targets, jnp.zeros(targets.shape[0], jnp.float32))
        return seen, pull(jnp.zeros_like(logits).at[-1].set(1))[0], _applied(apply, params, inputs)

    def _looked(self, apply: Stage, params: Any, inputs: Any) -> tuple[Any, tuple[Any, ...], Any]:
        """Logits, sites and the logits of `apply`, without any gradient."""
        return *self._run(params, inputs, {}, {}), _applied(apply, params, inputs)

    def found(self, params: Any, inputs: Any, instead: Values | None = None) -> Found:
        """What the network computes, as it is declared; from a site on, where one is given."""
        given = (params, inputs, dict(instead or {}))
        key = _kind_of(*given)
        if key not in self._found:
            jaxpr = jaxpr_of(lambda *some: self.network.run(some[0], some[1], {}, some[2]), *given)
            self._found[key] = Found.of(jaxpr)
        return self._found[key]


def _kind_of(*given: Any) -> Any:
    """Structure, shapes and dtypes: what JAX compiles a function anew for."""
    leaves, tree = jax.tree.flatten(given)
    return tree, *((np.shape(leaf), str(getattr(leaf, "dtype", type(leaf)))) for leaf in leaves)


def row_norms(site: Any) -> tuple[Any, Any]:
    """‖x‖₂ of rows of a site, (B, …, d) → (B, R), as the largest entry and what that is to be multiplied with.

    A row is a token, a place of an image, or a short piece of a vector: so few squares are summed in fp32 that rounding
    stays far below the sixth digit, and none of them can leave its range.
    """
    width = site.shape[-1]
    pieces = CHUNK if site.ndim == 2 and width % CHUNK == 0 else width
    rows_of = site.reshape(site.shape[0], -1, pieces).astype(jnp.promote_types(site.dtype, jnp.float32))
    largest = jnp.abs(rows_of).max(axis=-1)
    scale = jnp.where(largest > 0, largest, 1.0)
    return largest, jnp.sqrt(jnp.square(rows_of / scale[..., None]).sum(axis=-1))


def _applied(apply: Stage, params: Any, inputs: Any) -> Any:
    return one_array(called("apply", apply, params, inputs), "apply")


@lru_cache(maxsize=KEPT_PROGRAMS)
def program_of(network: Network, loss: Loss | None = None, through: Kinds = frozenset()) -> Program:
    """The program of a network, compiled before where the same functions came before."""
    return Program(network, loss, through)


def ran(work: Callable[[], Any]) -> Any:
    """What a pass returns; values that left the function they were traced in are told as such."""
    try:
        return work()
    except jax.errors.UnexpectedTracerError as error:
        raise InputError(
            "a value left the function that JAX traced it in: a block or the model keeps one in a list, an attribute "
            "or a global, or is called inside jit, vmap or scan of its own. Expected pure functions of (params, h). "
            f"JAX says: {' '.join(str(error).split())[:200]}"
        ) from error


def _check_rows(logits: Any, hiddens: tuple[Any, ...], size: int, names: tuple[str, ...]) -> None:
    """Every site and the logits have the samples along their first axis."""
    if logits.ndim < 1 or logits.shape[0] != size:
        raise BatchError(
            f"the network gave an output of shape {logits.shape} for {size} targets; expected one row of logits per "
            "sample. A model for one sample is to be mapped over them with jax.vmap."
        )
    for number, hidden in enumerate(hiddens):
        if hidden.ndim < 2 or hidden.shape[0] != size:
            where = f"block {number} ({names[number - 1]})" if number else "what comes before the blocks"
            raise BlocksError(
                f"{where} gave an h of shape {hidden.shape} for {size} samples; expected (B, …), with the samples "
                "along the first axis."
            )
