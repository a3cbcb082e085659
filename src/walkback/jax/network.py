"""A network as its sites see it: what computes h_0, each block, and what makes logits of h_L.

    stem: (params, inputs) → h_0      blocks: (params, h) → h      head: (params, h_L) → logits

Zero perturbations are added to h_0 and to every block's output, and the gradient with respect to them is that at the
sites; nothing is stored and no function is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax

from walkback.errors import BatchError, BlocksError, InputError, WalkbackError
from walkback.jax.precision import is_floating

Stage = Callable[[Any, Any], Any]
"""(params, h) → h, for all samples of a batch at once."""
Values = Mapping[int, Any]
"""Arrays by the number of their site."""


class Network(Hashable, Protocol):
    """What can be run with its sites open; two of the same functions are equal, so that none is compiled twice."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of the blocks."""

    def run(self, params: Any, inputs: Any, plus: Values, instead: Values) -> tuple[Any, tuple[Any, ...]]:
        """Logits and h_0 … h_L, where `plus` is added to sites, and `instead` stands in their place."""


@dataclass(frozen=True)
class Stages:
    """A network in parts, for `blocks=` and `reference=` where its stem and head are given with it."""

    blocks: Sequence[Stage] | Mapping[str, Stage]
    stem: Stage | None = None
    head: Stage | None = None


@dataclass(frozen=True)
class Composed:
    """stem, then every block, then head; hashable, so that what was compiled for it is found again."""

    stem: Stage | None
    blocks: tuple[Stage, ...]
    head: Stage | None
    names: tuple[str, ...]

    def run(self, params: Any, inputs: Any, plus: Values, instead: Values) -> tuple[Any, tuple[Any, ...]]:
        """Nothing that lies before a site of `instead` is computed."""
        start = max(instead, default=-1)
        hiddens: list[Any] = [None] * (len(self.blocks) + 1)
        h = inputs
        for site in range(len(hiddens)):
            if site > start:
                stage = self.stem if site == 0 else self.blocks[site - 1]
                h = h if stage is None else called(self._name(site), stage, params, h)
                h = one_array(h, self._name(site))
            elif site == start:
                h = instead[site]
            else:
                continue
            h = h + plus[site] if site in plus else h
            hiddens[site] = h
        logits = h if self.head is None else called("head", self.head, params, h)
        return one_array(logits, "head"), tuple(hiddens)

    def _name(self, site: int) -> str:
        return "stem" if site == 0 else f"block {site} ({self.names[site - 1]})"


def composed(blocks: Any, stem: Stage | None, head: Stage | None) -> Composed:
    """The parts of a network, checked."""
    if isinstance(blocks, Stages):
        if stem is not None or head is not None:
            raise BlocksError("stem= and head= are given twice: as arguments and in blocks=Stages(…). Give them once.")
        blocks, stem, head = blocks.blocks, blocks.stem, blocks.head
    named = dict(blocks) if isinstance(blocks, Mapping) else _named(blocks)
    if not named:
        raise BlocksError("blocks is empty; expected one function of (params, h) for every block, in their order.")
    for name, stage in [("stem", stem), *named.items(), ("head", head)]:
        if not callable(stage) and (name in named or stage is not None):
            raise BlocksError(f"{name} is {type(stage).__name__}; expected a function of (params, h) that returns h.")
        require_hashable(name, stage)
    return Composed(stem, tuple(named.values()), head, tuple(map(str, named)))


def require_hashable(name: str, stage: Any) -> None:
    """Refuse what cannot be found again among the functions that were compiled before."""
    try:
        hash(stage)
    except TypeError as error:
        raise InputError(
            f"{name} is a {type(stage).__name__} that has no hash ({error}), and what JAX compiled for it could not be "
            "found again. Expected a plain function that reads its weights from params. For blocks of an Equinox "
            "model, see walkback.jax.equinox_sites; a dataclass without arrays can be made with frozen=True."
        ) from error


def _named(blocks: Any) -> dict[str, Any]:
    if not isinstance(blocks, Sequence) or isinstance(blocks, str):
        raise BlocksError(
            f"blocks is {type(blocks).__name__}; expected a list of functions of (params, h), a mapping from names to "
            "such functions, or what walkback.jax.equinox_sites or nnx_sites returns."
        )
    return {f"block {number}": stage for number, stage in enumerate(blocks, 1)}


FIRST = ("stem", "apply", "the model")
"""What is called with the inputs of a batch."""


def called(name: str, stage: Callable[..., Any], *given: Any) -> Any:
    """What a function of the caller's returns; a failure is told with its name and what it was given."""
    try:
        return stage(*given)
    except (WalkbackError, KeyboardInterrupt):
        raise
    except Exception as error:
        shapes = jax.tree.map(lambda leaf: f"{getattr(leaf, 'dtype', '')}{list(getattr(leaf, 'shape', ()))}", given[-1])
        said = " ".join(str(error).split())[:300]
        if name in FIRST and any(word in said for word in ("shape", "dimension")):
            raise BatchError(
                f"{name} cannot be run on inputs of {shapes}: JAX says: {said.rstrip('.')}. Pass inputs as the network "
                "was trained on, with the same width, axes and type."
            ) from error
        raise InputError(
            f"{name} failed on an input of {shapes}: {type(error).__name__}: {said.rstrip('.')}. Expected a function "
            "of (params, h) that JAX can trace."
        ) from error


def one_array(value: Any, name: str) -> Any:
    """Refuse what is no array of floating-point numbers."""
    if not hasattr(value, "shape") or not is_floating(value):
        got = f"{value.dtype} of shape {value.shape}" if hasattr(value, "dtype") else type(value).__name__
        raise BlocksError(
            f"{name} gave {got}; expected one array of floating-point numbers, (B, …). State that a block passes on "
            "besides h, and tokens that are not embedded yet, belong in the stem or in params."
        )
    return value


class Taps:
    """The sites of one pass over modules: what goes into the first block, and what comes out of each."""

    def __init__(self, plus: Values, instead: Values) -> None:
        self.plus, self.instead = plus, instead
        self.hiddens: dict[int, Any] = {}

    def site(self, number: int, h: Any) -> Any:
        """The value that goes on from a site."""
        if number in self.hiddens:
            raise BlocksError(
                f"block {max(number, 1)} is called twice in one pass; expected every block once. Share its weights, "
                "not the module, or give the blocks as functions of (params, h)."
            )
        if number != len(self.hiddens):
            raise BlocksError(f"block {number} is called before block {number - 1}; give the blocks in their order.")
        h = one_array(self.instead.get(number, h), f"block {number}" if number else "what comes before the blocks")
        self.hiddens[number] = h = h + self.plus[number] if number in self.plus else h
        return h

    def call(self, number: int, block: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a block, counted from 1; of a tuple that it returns, the first entry is h."""
        if number == 1:
            args = (self.site(0, args[0]), *args[1:])
        out = block(*args, **kwargs)
        if isinstance(out, tuple) and out:
            return (self.site(number, out[0]), *out[1:])
        return self.site(number, out)


@dataclass(frozen=True)
class Tapped:
    """A network of modules, whose blocks are found inside it and called by it."""

    call: Callable[[Any, Any, Taps], Any]
    """(params, inputs, taps) → logits; equal to another where it does the same."""
    names: tuple[str, ...]
    batched: bool
    """Whether the model takes a batch; else one sample, and is mapped over them."""

    def run(self, params: Any, inputs: Any, plus: Values, instead: Values) -> tuple[Any, tuple[Any, ...]]:
        """The whole network, whichever site is replaced."""
        one = partial(self._one, params)
        return one(inputs, plus, instead) if self.batched else jax.vmap(one)(inputs, plus, instead)

    def _one(self, params: Any, inputs: Any, plus: Values, instead: Values) -> tuple[Any, tuple[Any, ...]]:
        taps = Taps(plus, instead)
        logits = called("the model", lambda given: self.call(params, given, taps), inputs)
        missing = next((n for n in range(1, len(self.names) + 1) if n not in taps.hiddens), None)
        if missing is not None:
            raise BlocksError(
                f"block {missing} ({self.names[missing - 1]}) is not called by the model; expected every block once. "
                "Is it reached through vmap, scan or jit inside the model? Then give the blocks as functions of "
                "(params, h)."
            )
        return one_array(logits, "the model"), tuple(taps.hiddens[n] for n in range(len(self.names) + 1))


class Parts(tuple[Any, Any, Any]):
    """(apply, params, blocks) of a model made of modules, in the order that `measure` takes them."""

    __slots__ = ()

    def __new__(cls, apply: Stage, params: Any, blocks: Tapped) -> Parts:
        """Put them together."""
        return super().__new__(cls, (apply, params, blocks))


def network_of(blocks: Any, stem: Stage | None, head: Stage | None) -> Network:
    """What `blocks=` means."""
    if not isinstance(blocks, Tapped):
        return composed(blocks, stem, head)
    if stem is not None or head is not None:
        raise BlocksError("stem= and head= are part of the model that the blocks were found in. Leave them out.")
    return blocks
