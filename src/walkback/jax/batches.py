"""The caller's batches: inputs and targets as arrays with the samples first, checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from walkback.errors import BatchError
from walkback.jax.precision import refuse_tracers

LABELS = ("labels", "label", "targets", "target")
EXPECTED = f"expected (inputs, targets), or a mapping of arrays with {', '.join(LABELS[:-1])} or target"


@dataclass(frozen=True)
class Batch:
    """Samples and their targets."""

    inputs: Any
    """An array or a tree of arrays, each with one entry for every sample along its first axis."""
    targets: NDArray[Any]

    @property
    def size(self) -> int:
        """How many samples there are."""
        return len(self.targets)

    def first(self, count: int) -> Batch:
        """The first samples."""
        return Batch(jax.tree.map(lambda leaf: leaf[:count], self.inputs), self.targets[:count])

    def repeated(self, times: int) -> Any:
        """The inputs, all of them `times` times over."""
        return jax.tree.map(lambda leaf: np.concatenate([np.asarray(leaf)] * times), self.inputs)

    def padded(self, size: int) -> Batch:
        """With copies of the first sample up to this many: JAX compiles a function anew for every size."""
        if self.size >= size:
            return self

        def longer(leaf: Any) -> NDArray[Any]:
            array = np.asarray(leaf)
            return np.concatenate([array, np.repeat(array[:1], size - self.size, axis=0)])

        return Batch(jax.tree.map(longer, self.inputs), longer(self.targets))


def read_batches(batches: Iterable[Any], most: int | None = None, name: str = "batches") -> Iterator[Batch]:
    """One batch after the other; none at all is refused. `name` is what the caller knows them by."""
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise BatchError(f"max_batches is {most!r}; expected 1 or more, or nothing for all.")
    try:
        stream = iter(batches)
    except TypeError:
        raise BatchError(f"{name} is a {type(batches).__name__}; expected an iterable of (inputs, targets).") from None
    empty = True
    for number, given in enumerate(islice(stream, most)):
        empty = False
        yield _read(given, number)
    if empty:
        raise BatchError(f"there is no batch in {name}; an iterator that was used up gives none a second time.")


def _read(given: Any, number: int) -> Batch:
    inputs, targets = _parted(given, number)
    refuse_tracers(f"batch {number}", (inputs, targets))
    labels = _array(targets, f"the targets of batch {number}")
    if labels.ndim == 0 or not len(labels):
        raise BatchError(f"the targets of batch {number} have the shape {labels.shape}; expected one for every sample.")
    if not jax.tree.leaves(inputs):
        raise BatchError(f"batch {number} has no inputs; {EXPECTED}.")
    inputs = jax.tree.map(lambda leaf: _samples(leaf, len(labels), number), inputs)
    return Batch(inputs, labels)


def _parted(given: Any, number: int) -> tuple[Any, Any]:
    if isinstance(given, Mapping):
        names = [name for name in LABELS if name in given]
        rest = {name: value for name, value in given.items() if name not in names}
        if len(names) == 1 and rest:
            return (next(iter(rest.values())) if len(rest) == 1 else rest), given[names[0]]
        raise BatchError(f"batch {number} is a mapping with the keys {sorted(map(str, given))}; {EXPECTED}.")
    if isinstance(given, tuple | list) and len(given) == 2:
        return given[0], given[1]
    size = f" of {len(given)}" if isinstance(given, tuple | list) else ""
    raise BatchError(f"batch {number} is a {type(given).__name__}{size}; {EXPECTED}.")


def _samples(leaf: Any, size: int, number: int) -> Any:
    array = leaf if isinstance(leaf, jax.Array) else _array(leaf, f"an input of batch {number}")
    if array.ndim == 0 or len(array) != size:
        raise BatchError(
            f"an input of batch {number} has the shape {array.shape} for {size} targets; expected the samples along "
            "its first axis. What is the same for all samples belongs into the function, not into the batch."
        )
    return array


def _array(given: Any, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(given)
    except Exception as error:
        raise BatchError(f"{what} cannot be read as an array: {error}. Expected NumPy or JAX arrays.") from error
    if array.dtype == object or array.dtype.kind in "US":
        raise BatchError(f"{what} are {array.dtype} of shape {array.shape}; expected numbers in an array.")
    return array
