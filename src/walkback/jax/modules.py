"""Networks made of modules: where the blocks of an Equinox or a Flax NNX model are, found inside it.

    walkback.jax.diagnose(*walkback.jax.equinox_sites(model, lambda m: m.blocks), batches)

The model is called as it is, so that whatever lies between its blocks need not be written down again. It stays as it
was: blocks are tapped in a copy, in inference mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from walkback.errors import BlocksError
from walkback.extras import optional
from walkback.jax.network import Parts, Tapped, Taps

Where = Callable[[Any], Any]
"""model → its blocks, a list of modules."""
Call = Callable[[Any, Any], Any]
"""(model, inputs) → logits."""


def _plain_call(model: Any, inputs: Any) -> Any:
    return model(inputs)


@dataclass(frozen=True)
class _EquinoxCall:
    """An Equinox model without its parameters; two of the same code and settings are equal."""

    static: Any
    where: Where
    how: Call

    def model(self, params: Any) -> Any:
        equinox = optional("equinox")
        return equinox.combine(params, jax.tree.unflatten(*self.static))

    def __call__(self, params: Any, inputs: Any, taps: Taps) -> Any:
        equinox = optional("equinox")
        model = self.model(params)
        tapped = [_tap(block, number, taps) for number, block in enumerate(self.where(model), 1)]
        return self.how(equinox.tree_at(self.where, model, tapped), inputs)


def _tap(block: Any, number: int, taps: Taps) -> Any:
    """A module in the place of a block, which calls it and hands on what the taps make of it."""
    equinox = optional("equinox")

    class Tap(equinox.Module):  # type: ignore[misc,name-defined]
        """The block, tapped; what else it holds can be read from it."""

        inner: Any

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return taps.call(number, self.inner, args, kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    return Tap(block)


def equinox_sites(model: Any, blocks: Where, *, call: Call = _plain_call, batched: bool = False) -> Parts:
    """(apply, params, blocks) of an Equinox model, for `measure`, `diagnose` and `Monitor`.

    Args:
        model: an `equinox.Module`; measured in inference mode.
        blocks: a function of the model that returns its blocks in their order, as `equinox.tree_at` takes it.
        call: (model, inputs) → logits, where it is not `model(inputs)`.
        batched: whether the model takes a batch; else it takes one sample, as is usual, and is mapped over them.
    """
    equinox = optional("equinox")
    quiet = equinox.nn.inference_mode(model)
    params, rest = equinox.partition(quiet, equinox.is_inexact_array)
    leaves, tree = jax.tree.flatten(rest)
    names = _names(blocks(quiet))
    made = _EquinoxCall(_Static((tree, leaves)), blocks, call)

    return _parts(made, params, names, batched, type(model).__name__)


def _parts(made: Any, params: Any, names: tuple[str, ...], batched: bool, name: str) -> Parts:
    """The model called as it is, its parameters, and itself with its blocks tapped."""

    def apply(params: Any, inputs: Any) -> Any:
        def one(given: Any) -> Any:
            return made.how(made.model(params), given)

        return one(inputs) if batched else jax.vmap(one)(inputs)

    apply.__name__ = name
    return Parts(apply, params, Tapped(made, names, batched))


class _Static(tuple[Any, Any]):
    """A tree and its leaves that are no parameters, equal to another by what they hold, where that can be told."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(self[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static) or self[0] != other[0]:
            return False
        return all(
            one is two or (type(one) is type(two) and _same(one, two))
            for one, two in zip(self[1], other[1], strict=True)
        )


def _same(one: Any, two: Any) -> bool:
    try:
        return type(one) is type(two) and bool(one == two)
    except (TypeError, ValueError):  # the truth value of an array of several entries is not defined
        return False


@dataclass(frozen=True)
class _NnxCall:
    """A Flax NNX model without its parameters."""

    graph: Any
    rest: Any
    where: Where
    how: Call

    def model(self, params: Any) -> Any:
        nnx = optional("flax.nnx")
        model = nnx.merge(self.graph, params, self.rest)
        model.eval()
        return model

    def __call__(self, params: Any, inputs: Any, taps: Taps) -> Any:
        model = self.model(params)
        for number, block in enumerate(self.where(model), 1):
            _tap_in_place(block, number, taps)
        return self.how(model, inputs)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _tap_in_place(block: Any, number: int, taps: Taps) -> None:
    """Give one object a class of its own, whose call goes through the taps."""
    kind = type(block)

    def tapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return taps.call(number, lambda *given, **named: kind.__call__(self, *given, **named), args, kwargs)

    object.__setattr__(block, "__class__", type(kind.__name__, (kind,), {"__call__": tapped}))


def nnx_sites(model: Any, blocks: Where, *, call: Call = _plain_call, batched: bool = True) -> Parts:
    """(apply, params, blocks) of a Flax NNX model, for `measure`, `diagnose` and `Monitor`.

    Args:
        model: a `flax.nnx.Module`; a copy of it is measured in eval mode.
        blocks: a function of the model that returns its blocks in their order.
        call: (model, inputs) → logits, where it is not `model(inputs)`.
        batched: whether the model takes a batch, as is usual; else it is mapped over the samples.
    """
    nnx = optional("flax.nnx")
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    names = _names(blocks(model))
    made = _NnxCall(graph, rest, blocks, call)

    return _parts(made, params, names, batched, type(model).__name__)


def _names(found: Any) -> tuple[str, ...]:
    blocks = list(found) if isinstance(found, Sequence) or hasattr(found, "__iter__") else []
    if not blocks:
        raise BlocksError(
            f"blocks= returned {type(found).__name__} of the model; expected a list of its blocks, such as "
            "lambda model: model.blocks."
        )
    other = next((block for block in blocks if not callable(block)), None)
    if other is not None:
        raise BlocksError(f"blocks= returned a {type(other).__name__} among the blocks; expected modules.")
    return tuple(f"blocks.{number} ({type(block).__name__})" for number, block in enumerate(blocks))
