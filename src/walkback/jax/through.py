"""Derivatives that a network declares itself (`jax.custom_vjp`, `jax.custom_jvp`), found and seen through.

A function with a derivative of its own stands in the jaxpr with what it computes beside what it declares. Seen
through, what it computes is differentiated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

VJP, JVP = "custom_vjp", "custom_jvp"
PRIMITIVES = {"custom_vjp_call": VJP, "custom_vjp_call_jaxpr": VJP, "custom_jvp_call": JVP}
INLINED = ("pjit", "jit", "closed_call", "core_call", "checkpoint", "remat", "remat2")
Kinds = frozenset[str]

STEPS = {"sign", "floor", "ceil", "round", "argmax", "argmin"}
"""What is flat except where it jumps."""
DRAWS = {"random_bits", "threefry2x32", "rng_bit_generator", "rng_uniform"}
CUTS = ("stop_gradient",)


def jaxpr_of(function: Callable[..., Any], *given: Any) -> Any:
    """What a function computes for such arguments."""
    return jax.make_jaxpr(function)(*given).jaxpr


def equations(jaxpr: Any) -> Iterator[JaxprEqn]:
    """Every equation, those of inner functions too."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in _inner(eqn):
            yield from equations(inner)


def _inner(eqn: JaxprEqn) -> Iterator[Any]:
    for value in eqn.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, ClosedJaxpr):
                yield each.jaxpr
            elif isinstance(each, Jaxpr):
                yield each


def own_derivatives(jaxpr: Any) -> dict[str, tuple[str, ...]]:
    """The functions that declare a derivative, by the kind of declaration, each name once."""
    found: dict[str, dict[str, None]] = {VJP: {}, JVP: {}}
    for eqn in equations(jaxpr):
        kind = PRIMITIVES.get(eqn.primitive.name)
        if kind is not None:
            found[kind][_name(eqn, kind)] = None
    return {kind: tuple(names) for kind, names in found.items()}


def _name(eqn: JaxprEqn, kind: str) -> str:
    about = getattr(_computed(eqn).jaxpr, "debug_info", None)
    said = str(getattr(about, "func_src_info", "") or "").partition(" at ")[0]
    if said:
        return said
    # jax 0.4 does not keep the name of the function: that of its backward pass tells it nearly as well.
    backward = getattr(getattr(eqn.params.get("bwd"), "__self__", None), "f", None)
    name = str(getattr(backward, "__name__", ""))
    return f"{kind} with the backward pass {name}" if name and name != "<lambda>" else f"a {kind} function"


def _computed(eqn: JaxprEqn) -> Any:
    """What a function with a derivative of its own computes."""
    return eqn.params["call_jaxpr"] if "call_jaxpr" in eqn.params else eqn.params["fun_jaxpr"]


def has_steps(jaxpr: Any) -> bool:
    """Whether something jumps: rounding, signs, comparisons whose outcome is used as a number."""
    return any(eqn.primitive.name in STEPS or _from_whole(eqn) for eqn in equations(jaxpr))


def _from_whole(eqn: JaxprEqn) -> bool:
    """Of booleans or whole numbers to floating point, or the other way."""
    if eqn.primitive.name != "convert_element_type":
        return False
    before, after = (getattr(var.aval, "dtype", None) for var in (eqn.invars[0], eqn.outvars[0]))
    if not getattr(eqn.invars[0].aval, "shape", ()):
        return False  # a constant or a count
    floats = [dtype is not None and bool(jnp.issubdtype(dtype, jnp.floating)) for dtype in (before, after)]
    return floats[0] != floats[1]


def draws_random_numbers(jaxpr: Any) -> bool:
    """Whether random numbers are drawn inside."""
    return any(eqn.primitive.name in DRAWS for eqn in equations(jaxpr))


def coarsest_inside(jaxpr: Any) -> Any:
    """The lowest floating-point precision that fp64 values are rounded to on the way; None where they never are."""
    lower = [
        eqn.outvars[0].aval.dtype
        for eqn in equations(jaxpr)
        if eqn.primitive.name == "convert_element_type"
        and jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.floating)
        and jnp.issubdtype(getattr(eqn.invars[0].aval, "dtype", jnp.int32), jnp.floating)
        and eqn.outvars[0].aval.dtype.itemsize < eqn.invars[0].aval.dtype.itemsize
    ]
    return min(lower, key=lambda dtype: dtype.itemsize, default=None)


class Found(NamedTuple):
    """What a network computes, and what matters of it for its gradient."""

    jaxpr: Any
    own: dict[str, tuple[str, ...]]
    """`own_derivatives`."""
    steps: bool
    draws: bool
    coarsest: Any

    @classmethod
    def of(cls, jaxpr: Any) -> Found:
        """Look through it once."""
        about = (own_derivatives(jaxpr), has_steps(jaxpr), draws_random_numbers(jaxpr), coarsest_inside(jaxpr))
        return cls(jaxpr, *about)


def suspects(before: Any, after: Any | None) -> list[str]:
    """What a part of a network calls that bends or cuts a gradient: what is in one jaxpr more often than in another."""
    counts = Counter(_suspects(before))
    counts.subtract(_suspects(after) if after is not None else ())
    return [name for name, count in counts.items() if count > 0]


def _suspects(jaxpr: Any) -> Iterator[str]:
    for eqn in equations(jaxpr):
        name = eqn.primitive.name
        if name in CUTS:
            yield f"jax.lax.{name}"
        elif name in STEPS:
            yield name
        elif PRIMITIVES.get(name) == VJP:
            yield f"{_name(eqn, VJP)} (custom_vjp)"


def seen_through(function: Callable[..., Any], kinds: Kinds) -> Callable[..., Any]:
    """A function that computes the same, where declared derivatives of these kinds are left out."""
    if not kinds:
        return function

    def through(*given: Any) -> Any:
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*given)
        if not any(PRIMITIVES.get(eqn.primitive.name) in kinds for eqn in equations(closed.jaxpr)):
            return function(*given)
        out = _evaluated(closed.jaxpr, closed.consts, jax.tree.leaves(given), kinds)
        return jax.tree.unflatten(jax.tree.structure(shape), out)

    return through


def _evaluated(jaxpr: Any, consts: Sequence[Any], given: Sequence[Any], kinds: Kinds) -> list[Any]:
    known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *given], strict=True))

    def value(var: Any) -> Any:
        return var.val if isinstance(var, Literal) else known[var]

    for eqn in jaxpr.eqns:
        out = _equation(eqn, [value(var) for var in eqn.invars], kinds)
        known.update(zip(eqn.outvars, out, strict=True))
    return [value(var) for var in jaxpr.outvars]


def _equation(eqn: JaxprEqn, given: list[Any], kinds: Kinds) -> Sequence[Any]:
    name = eqn.primitive.name
    if PRIMITIVES.get(name) in kinds:
        inner = _computed(eqn)
        return _evaluated(inner.jaxpr, inner.consts, given, kinds)
    if any(PRIMITIVES.get(each.primitive.name) in kinds for inner in _inner(eqn) for each in equations(inner)):
        if name in INLINED:
            inner = eqn.params["jaxpr"] if "jaxpr" in eqn.params else eqn.params["call_jaxpr"]
            closed = isinstance(inner, ClosedJaxpr)
            return _evaluated(inner.jaxpr if closed else inner, inner.consts if closed else (), given, kinds)
        if name == "scan":
            return _scanned(eqn.params, given, kinds)
        if name == "cond":
            branches = [_as_function(branch, kinds) for branch in eqn.params["branches"]]
            return list(jax.lax.switch(given[0], branches, *given[1:]))
    bound = eqn.primitive.get_bind_params(eqn.params)
    # Up to some release the functions of an equation come apart from its other parameters.
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    out = eqn.primitive.bind(*functions, *given, **params)
    return out if eqn.primitive.multiple_results else [out]


def _as_function(closed: Any, kinds: Kinds) -> Callable[..., list[Any]]:
    return lambda *given: _evaluated(closed.jaxpr, closed.consts, given, kinds)


def _scanned(params: dict[str, Any], given: list[Any], kinds: Kinds) -> list[Any]:
    inner, fixed, carried = params["jaxpr"], params["num_consts"], params["num_carry"]
    consts, start, over = given[:fixed], given[fixed : fixed + carried], given[fixed + carried :]

    def body(carry: list[Any], each: list[Any]) -> tuple[list[Any], list[Any]]:
        out = _evaluated(inner.jaxpr, inner.consts, [*consts, *carry, *each], kinds)
        return out[:carried], out[carried:]

    length, backwards = params["length"], params["reverse"]
    carry, out = jax.lax.scan(body, start, over, length=length, reverse=backwards, unroll=params["unroll"])
    return [*carry, *out]
