"""Evaluation batches of the shapes that people use, as model inputs and targets on the model's device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from walkback.errors import BatchError
from walkback.protocol.calling import Calling
from walkback.protocol.devices import autocasting

TARGET_KEYS = ("labels", "label", "targets", "target")


@dataclass(frozen=True)
class Batch:
    """What the model is called with, and one target per sample."""

    inputs: Any
    targets: Tensor
    calling: Calling = field(default_factory=Calling)
    labels: Mapping[str, Tensor] = field(default_factory=dict)
    """Labels that the model is called with too, by the name of its argument; most models need none."""

    @property
    def size(self) -> int:
        """The number of samples."""
        return int(self.targets.shape[0])

    def call(self, model: Callable[..., Any], copy: bool = True) -> Tensor:
        """The model's logits for this batch; without a copy where the model leaves its input as it is."""
        return self.calling(model, *self.copied(copy))

    def copied(self, copy: bool = True) -> tuple[Any, dict[str, Tensor]]:
        """The inputs and labels to call a model with; aliases of the same memory where no copy is needed."""
        # An alias at least: where the input is h_0, the graph begins at it, and must not stay on it.
        inputs, labels = mapped((self.inputs, dict(self.labels)), lambda x: x.detach().clone() if copy else x.data)
        return inputs, labels

    def with_inputs(self, inputs: Any) -> Batch:
        """The same batch with other inputs."""
        return replace(self, inputs=inputs)

    def tensors(self) -> list[Tensor]:
        """Every tensor that the model is called with."""
        return _tensors((self.inputs, self.labels))

    def first(self, count: int) -> Batch:
        """The first samples alone; all of them where two axes are as long as the batch and either may be it."""
        if any(x.ndim > 1 and x.shape[0] == x.shape[1] == self.size for x in self.tensors()):
            return self
        return self.some(0, count)

    def some(self, start: int, count: int) -> Batch:
        """Some samples alone, along whichever of the two leading axes counts them."""
        inputs = mapped(self.inputs, lambda x: some_samples(x, self.size, start, count))
        labels = {name: value[start : start + count] for name, value in self.labels.items()}
        return Batch(inputs, self.targets[start : start + count], self.calling, labels)

    def to_double(self) -> Batch:
        """The same samples with floating inputs in fp64."""

        def double(x: Tensor) -> Tensor:
            return x.double() if x.is_floating_point() else x

        calling = replace(self.calling, forward_kwargs=mapped(self.calling.forward_kwargs, double))
        return Batch(mapped(self.inputs, double), self.targets, calling, mapped(self.labels, double))


def some_samples(tensor: Tensor, size: int, start: int, count: int) -> Tensor:
    """Some samples along whichever of the two leading axes counts them; a tensor without such an axis stays whole."""
    for axis in range(min(2, tensor.ndim)):
        if tensor.shape[axis] == size:
            return tensor.narrow(axis, start, count)
    return tensor


def mapped(inputs: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply a change to every tensor in nested inputs; arrays become tensors."""
    if isinstance(inputs, np.ndarray):
        inputs = torch.as_tensor(inputs)
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: mapped(value, change) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(mapped(value, change) for value in inputs)
    return inputs


def read_batches(
    batches: Iterable[Any],
    model: nn.Module,
    limit: int | None = None,
    calling: Calling | None = None,
    name: str = "eval_batches",
) -> Iterator[Batch]:
    """Each batch, checked and moved to the model's device and dtype; none at all is an error.

    `name` is what the caller knows the batches by.
    """
    if not isinstance(batches, Iterable) or isinstance(batches, Tensor | Mapping | str):
        raise BatchError(
            f"{name} is {type(batches).__name__}; expected an iterable of (inputs, targets) batches, such as "
            "a DataLoader or a list."
        )
    if _is_one_pair(batches):
        raise BatchError(
            f"{name} looks like one (inputs, targets) pair; pass a list: [(x, y)]. Each of its entries would be "
            "taken for a batch."
        )
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise BatchError(f"max_batches is {limit!r}; expected how many batches to measure at most, 1 or more.")
    prepare = _placed_like(model)
    how = calling or Calling()
    placed = replace(how, forward_kwargs=mapped(how.forward_kwargs, prepare))
    count = 0
    for raw in islice(batches, limit):
        yield replace(_read(raw, count, prepare), calling=placed)
        count += 1
    if count == 0:
        raise BatchError(f"{name} is empty; expected at least one batch of labelled samples.")


def _is_one_pair(batches: Iterable[Any]) -> bool:
    """Whether two tensors or arrays of as many samples were given in the place of batches."""
    if not isinstance(batches, tuple | list) or len(batches) != 2:
        return False
    if not all(isinstance(each, Tensor | np.ndarray) and each.ndim > 0 for each in batches):
        return False
    return bool(batches[0].shape[0] == batches[1].shape[0] and batches[1].ndim <= batches[0].ndim)


def _read(raw: Any, index: int, prepare: Callable[[Tensor], Tensor]) -> Batch:
    inputs, targets = _split(raw, index)
    try:
        targets = torch.as_tensor(targets)
    except (TypeError, ValueError, RuntimeError):
        raise BatchError(
            f"the targets of batch {index} are {type(targets).__name__}; expected a tensor with one entry per sample."
        ) from None
    for tensor in (*_tensors(inputs), targets):
        _require_values(tensor, index)
    if targets.ndim == 0:
        raise BatchError(
            f"batch {index} has a single target and no batch axis; expected batches of samples. For a data set, pass "
            "torch.utils.data.DataLoader(dataset, batch_size=128)."
        )
    if targets.shape[0] == 0:
        raise BatchError(f"batch {index} holds no samples; leave empty batches out.")
    sizes = [int(x.shape[0]) for x in _tensors(inputs) if x.ndim > 0]
    if targets.shape[0] not in sizes and not any(
        x.ndim > 1 and x.shape[1] == targets.shape[0] for x in _tensors(inputs)
    ):
        raise BatchError(
            f"batch {index} has {targets.shape[0]} targets for inputs of leading size {sizes or 'none'}; expected one "
            f"target per sample.{_unflattened(targets, sizes)}"
        )
    return Batch(mapped(inputs, prepare), prepare_targets(targets, prepare))


def _unflattened(targets: Tensor, sizes: list[int]) -> str:
    """What to do about the targets of all tokens in one row."""
    size = next((size for size in sizes if size and targets.ndim == 1 and not len(targets) % size), None)
    return f" For a target at each token: targets.view({size}, -1)." if size is not None else ""


def _require_values(tensor: Tensor, index: int) -> None:
    """Raise for a tensor whose samples cannot be read one by one."""
    if tensor.is_meta:
        raise BatchError(f"batch {index} holds a tensor on the device meta, which has no values; expected data.")
    if tensor.is_nested or tensor.layout != torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
        raise BatchError(f"batch {index} holds a {kind} tensor; expected dense ones. Pass x.to_dense(), or pad it.")
    if tensor.is_quantized:
        raise BatchError(f"batch {index} holds a {tensor.dtype} tensor; expected plain ones. Pass x.dequantize().")


def prepare_targets(targets: Tensor, prepare: Callable[[Tensor], Tensor]) -> Tensor:
    """Targets on the model's device; class indices of any integer width as int64."""
    if targets.is_floating_point():
        moved = targets.detach().to(prepare(targets[:0]).device)
        # A loss may have to save its targets, which autograd refuses to do with inference tensors.
        return moved.clone() if moved.is_inference() else moved
    return prepare(targets if targets.dtype == torch.bool else targets.long())


def _split(raw: Any, index: int) -> tuple[Any, Any]:
    if isinstance(raw, Mapping):
        key = next((k for k in TARGET_KEYS if k in raw), None)
        if key is None:
            raise BatchError(
                f"batch {index} is a mapping with the keys {sorted(map(str, raw))} and no targets; expected one of "
                f"{', '.join(TARGET_KEYS)}."
            )
        return {name: value for name, value in raw.items() if name != key}, raw[key]
    if isinstance(raw, tuple | list) and len(raw) == 2:
        return raw[0], raw[1]
    what = f"a {type(raw).__name__} of {len(raw)}" if isinstance(raw, tuple | list) else type(raw).__name__
    raise BatchError(
        f"batch {index} is {what}, without targets that can be told apart; expected (inputs, targets), or a mapping "
        f"with one of {', '.join(TARGET_KEYS)}. For several inputs: ((input_1, input_2), targets)."
    )


def _tensors(inputs: Any) -> list[Tensor]:
    found: list[Tensor] = []

    def note(x: Tensor) -> Tensor:
        found.append(x)
        return x

    mapped(inputs, note)
    return found


def _placed_like(model: nn.Module) -> Callable[[Tensor], Tensor]:
    example = next((p for p in model.parameters() if p.is_floating_point()), None)
    if example is None:
        return torch.Tensor.detach

    def prepare(x: Tensor) -> Tensor:
        # Autocast chooses dtypes by itself; elsewhere a half model given float inputs would only raise.
        same_dtype = x.is_floating_point() and not autocasting(example.device)
        # The caller's graph ends here: no gradient goes back into data, and tensors of a graph cannot be joined.
        moved = x.detach().to(device=example.device, dtype=example.dtype if same_dtype else x.dtype)
        return moved.clone() if moved.is_inference() else moved

    return prepare
