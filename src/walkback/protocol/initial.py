"""The same network at its random start: how far its weights moved, and how much its stream grew, since then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.protocol import numerics
from walkback.protocol.batches import Batch, mapped
from walkback.protocol.capture import Capture, capture_stream
from walkback.protocol.losses import Loss
from walkback.protocol.parameters import parameters_in, parameters_of
from walkback.protocol.pass_state import begin_again, passes_alike
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.schema import shortened
from walkback.protocol.sites import Chain
from walkback.protocol.sizes import INITIAL_SAMPLES
from walkback.protocol.untouched import random_states_kept, underneath

FEWEST_WEIGHTS, CHANCE = 256, 4.0
"""Two independent draws of n numbers have a cosine within 4/√n; of fewer than 256 nothing is said."""

Weights = Mapping[str, Tensor]
Initial = nn.Module | Weights | Callable[[], Any]
"""The network as it was before training: itself, its state_dict, or a function that builds either, seed and all."""


def initial_weights(given: Any, model: nn.Module) -> dict[str, Tensor]:
    """The initial weights by the names of the model's own; what is not of this network is refused."""
    if callable(given) and not isinstance(given, nn.Module):
        with random_states_kept():
            given = given()
    if isinstance(given, nn.Module):
        given = underneath(given).state_dict()
    if not isinstance(given, Mapping) or not all(isinstance(value, Tensor) for value in given.values()):
        raise InputError(
            f"initial= is {shortened(given)}; expected the network before training, its state_dict, or a function that "
            "builds it again with its seed."
        )
    weights = {_plain(name): value.detach() for name, value in given.items()}
    own = parameters_of(model)
    # DistributedDataParallel puts `module.` before every name; a network may also have one part alone, of that name.
    wrapped = not own.keys() <= weights.keys() and all(name.startswith("module.") for name in weights)
    weights = {name.removeprefix("module.") if wrapped else name: value for name, value in weights.items()}
    for name, parameter in own.items():
        if name not in weights or weights[name].shape != parameter.shape:
            here = f"which has shape {tuple(parameter.shape)} in the model"
            there = f"have {name} with shape {tuple(weights[name].shape)}" if name in weights else f"lack {name}"
            raise InputError(
                f"initial= is of another network: the weights given {there}, {here}. Give the weights that this "
                "network began with."
            )
        if not bool(weights[name].isfinite().all()):
            raise InputError(
                f"initial= holds NaN or Inf in {name}, and no training begins there. Give the weights that this "
                "network began with."
            )
    return weights


def _plain(name: str) -> str:
    return ".".join(part for part in str(name).split(".") if part != "_orig_mod")


@contextmanager
def with_weights(model: nn.Module, weights: Weights) -> Iterator[None]:
    """The network with other weights and buffers in the place of its own, for as long as the context lasts."""
    begin_again(model)  # or the state that the last pass left would be taken for that of the network
    own = {**parameters_of(model), **dict(model.named_buffers())}
    other = {id(tensor): weights[name].to(tensor) for name, tensor in own.items() if name in weights}
    stores = [store for module in model.modules() for store in (module._parameters, module._buffers) if store]
    held = [(store, name, tensor) for store in stores for name, tensor in store.items() if id(tensor) in other]
    flat = [(module, module._flat_weights) for module in model.modules() if isinstance(module, nn.RNNBase)]
    try:
        for store, name, tensor in held:
            store[name] = other[id(tensor)]  # type: ignore[assignment]
        for module, entries in flat:
            # A recurrent module reads its weights from a list of its own.
            module._flat_weights = [other.get(id(entry), entry) for entry in entries]
        with passes_alike(model):  # its own buffers would come back before the next pass
            yield
    finally:
        for store, name, tensor in held:
            store[name] = tensor  # type: ignore[assignment]
        for module, entries in flat:
            module._flat_weights = entries


def stream_norms(seen: Capture, sites: slice = slice(None)) -> Tensor:
    """‖h_l(x)‖ over all tokens and channels, in fp64, (sites, B), whatever stands for a sample elsewhere.

    A class token is next to nothing before the first block and ordinary behind it; all tokens together are not.
    """
    hiddens = seen.hiddens[sites]
    if seen.reduction is TokenReduction.FLATTEN or all(hidden.ndim != 3 for hidden in hiddens):
        return seen.hidden_norms[sites]
    return torch.stack([numerics.norms(hidden.flatten(1)) for hidden in hiddens])


class InitialMeter:
    """The first samples with the weights of now and with those of before training."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.weights = weights
        self.kept: list[tuple[Batch, Tensor]] = []
        self.samples = 0
        self.remark = ""
        """That the weights may be of another draw, where they share no direction with the network's."""

    def keep(self, batch: Batch, seen: Capture) -> None:
        """Take the first samples, and the norms of their stream."""
        room = INITIAL_SAMPLES - self.samples
        if room <= 0:
            return
        some = batch.first(min(room, batch.size))
        # A copy: joined batches are written over.
        some = some.with_inputs(mapped(some.inputs, lambda tensor: tensor.detach().clone()))
        self.kept.append((some, stream_norms(seen)[:, : some.size].cpu()))
        self.samples += some.size

    def fields(self, model: nn.Module, chain: Chain, loss: Loss | None) -> dict[str, Any]:
        """Growth at every site and movement of every part, as fields of `Measurements`."""
        from walkback.protocol.uncertainty import medians_with_intervals

        moved, self.remark = movement(model, chain, self.weights), unrelated(model, chain, self.weights)
        with with_weights(model, self.weights), random_states_kept():
            before = [
                stream_norms(capture_stream(model, chain, batch, loss, TokenReduction.FLATTEN)).cpu()
                for batch, _ in self.kept
            ]
        start, now = torch.cat(before, dim=1), torch.cat([norms for _, norms in self.kept], dim=1)
        empty = (start == 0).any(dim=1).nonzero().flatten().tolist()
        if empty or not start.isfinite().all():
            why = f"‖h_{empty[0]}‖ is 0" if empty else "the stream is not finite"
            return moved | {"no_initial": f"With the initial weights {why}, so nothing has grown from it."}
        medians, intervals = medians_with_intervals((now / start).numpy())
        return moved | {"growth_from_init": medians, "growth_from_init_intervals": intervals}


def movement(model: nn.Module, chain: Chain, weights: Weights) -> dict[str, Any]:
    """‖W − W_0‖ / ‖W_0‖ over all parameters of the stem, of each block, and of what comes behind, in fp64."""
    blocks = {block: parameters_in(model, [block]) for block in dict.fromkeys(chain.blocks)}
    blocks = {block: inside for block, inside in blocks.items() if inside}
    between = {name for inside in blocks.values() for name in inside} | set(chain.parameters)
    of_stem = {id(p) for module in chain.stem for p in module.parameters()}
    outside = {name: p for name, p in parameters_of(model).items() if name not in between}
    stem = {name: p for name, p in outside.items() if id(p) in of_stem}
    head = {name: p for name, p in outside.items() if id(p) not in of_stem}
    found: dict[str, Any] = {"moved_blocks": tuple(blocks)}
    found["block_movement"] = tuple(_moved(inside, weights) for inside in blocks.values())
    found |= {"stem_movement": _moved(stem, weights)} if stem else {}
    return found | ({"head_movement": _moved(head, weights)} if head else {})


def unrelated(model: nn.Module, chain: Chain, weights: Weights) -> str:
    """A sentence where the matrices of the blocks have no more in common with the initial ones than two draws have.

    A network that moved far from where it began keeps a part of that direction; the start of another seed shares none,
    and against it blocks that were never trained seem to have moved by more than their own size.
    """
    inside = parameters_in(model, list(dict.fromkeys(chain.blocks)))
    matrices = {name: p.detach() for name, p in inside.items() if p.ndim > 1}
    now = torch.cat([torch.zeros(0), *(p.double().cpu().reshape(-1) for p in matrices.values())])
    start = torch.cat([torch.zeros(0), *(weights[name].double().cpu().reshape(-1) for name in matrices)])
    size = float(now.norm() * start.norm())
    if len(now) < FEWEST_WEIGHTS or not 0 < size < float("inf"):
        return ""
    cosine = float(now @ start) / size
    if abs(cosine) > CHANCE / len(now) ** 0.5:
        return ""
    return (
        f"The weights that initial= gives share no direction with the network's (a cosine of {cosine:+.2g}): were they "
        "drawn with another seed? Then movement and growth since the start mean nothing. Give the weights that this "
        "network began with."
    )


def _moved(parameters: Mapping[str, nn.Parameter], weights: Weights) -> float:
    """Relative to W_0; to W where W_0 is zero, which then has moved by all of it."""
    now = [parameter.detach().double().cpu() for parameter in parameters.values()]
    start = [weights[name].double().cpu() for name in parameters]
    moved, size, here = (_norm(tensors) for tensors in ([a - b for a, b in zip(now, start, strict=True)], start, now))
    return moved / size if size else (moved / here if here else 0.0)


def _norm(tensors: list[Tensor]) -> float:
    return float(numerics.norms(torch.cat([tensor.reshape(-1) for tensor in tensors])))
