"""Steps replayed from a checkpoint: is the real update that of the claimed rule, and how near is it to the gradient?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.validity.record import Provenance
from walkback.lab.validity.training import Run, epoch_batches, set_rate, take_step
from walkback.lab.zoo import BlockModel
from walkback.protocol.provenance import provenance
from walkback.protocol.records import UpdateProvenance

if TYPE_CHECKING:
    from walkback.lab.validity.conditions.base import Condition

REPLAYED = 4


def parts_of(model: BlockModel) -> list[nn.Module]:
    """Stem, blocks and head."""
    return [model.stem, *model.blocks, model.head]


def updates_of(condition: Condition, checkpoint: Run, *, by_credit: bool, steps: int = REPLAYED) -> UpdateProvenance:
    """What `walkback.provenance` says of the author's own training step from a checkpoint; the run stays as it is.

    The rule is claimed by a step of its own, or by its credit alone.
    """
    run = checkpoint.copied()
    run.model.train()
    # Where the schedule has come down to nothing, a step would drown in the rounding of the weights.
    set_rate(run, run.config.rate)
    order = torch.Generator().manual_seed(run.config.part_seed("updates"))

    def real(model: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
        take_step(condition, run, *batch)

    def claimed(model: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
        _plain_step(run, *batch)

    return provenance(
        run.model,
        real,
        list(islice(epoch_batches(run, order), steps)),
        run.claimed if by_credit else None,
        run.optimizer,
        claimed_step=None if by_credit else claimed,
        also=[run.method, run.claimed],
        blocks=list(run.model.blocks),
        steps=steps,
    )


def replayed(condition: Condition, checkpoint: Run, at: str, steps: int = REPLAYED) -> Provenance:
    """Cosines per part between what the claimed rule, the real step and the gradient would do; the run stays as is."""
    real = checkpoint.copied()
    real.model.train()
    # Where the schedule has come down to nothing, a step would drown in the rounding of the weights.
    set_rate(real, real.config.rate)
    order = torch.Generator().manual_seed(real.config.part_seed(f"replay {at}"))
    rows: list[list[list[float | None]]] = []
    for (inputs, targets), _ in zip(epoch_batches(real, order), range(steps), strict=False):
        gradient = _gradient(real.copied(), inputs, targets)
        given, asked = real.copied(), real.copied()
        claimed_update = _handed(given, given.claimed.accumulate, inputs, targets)
        claimed_step = _moved(asked, partial(_plain_step, inputs=inputs, targets=targets))
        real_update = _handed(copy := real.copied(), _real(condition, copy), inputs, targets)
        real_step = _moved(real, partial(take_step, condition, inputs=inputs, targets=targets))
        down = [[-g for g in part] for part in gradient]
        rows.append(
            [
                _cosines(claimed_step, real_step),
                _cosines(real_step, down),
                _cosines(claimed_update, real_update),
                _cosines(real_update, gradient),
            ]
        )
    means = [[_mean([row[kind][part] for row in rows]) for part in range(len(gradient))] for kind in range(4)]
    names = (
        "claimed_step_with_real", "real_step_with_gradient", "claimed_update_with_real", "real_update_with_gradient",
    )  # fmt: skip
    return Provenance(
        at=at, steps=len(rows), **{name: tuple(values) for name, values in zip(names, means, strict=True)}
    )


def _plain_step(run: Run, inputs: Tensor, targets: Tensor) -> None:
    """A step of the claimed rule: no fault takes part, only the optimizer."""
    run.claimed.accumulate(inputs, targets)
    run.optimizer.step()
    run.claimed.after_step()
    run.optimizer.zero_grad(set_to_none=True)


def _real(condition: Condition, run: Run) -> Callable[[Tensor, Tensor], None]:
    def accumulate(inputs: Tensor, targets: Tensor) -> None:
        condition.before_step(run)
        condition.gradients(run, inputs, targets)

    return accumulate


def _handed(
    run: Run, accumulate: Callable[[Tensor, Tensor], object], inputs: Tensor, targets: Tensor
) -> list[list[Tensor]]:
    """What a rule hands to the optimizer, per part."""
    accumulate(inputs, targets)
    return [
        [torch.zeros_like(p) if p.grad is None else p.grad.detach().clone() for p in part.parameters()]
        for part in parts_of(run.model)
    ]


def _gradient(run: Run, inputs: Tensor, targets: Tensor) -> list[list[Tensor]]:
    """The gradient of the batch's mean loss, per part, frozen parameters included."""
    run.model.requires_grad_(True)
    loss = F.cross_entropy(run.model(inputs), targets)
    loss.backward()  # type: ignore[no-untyped-call]
    return _handed(run, lambda x, y: None, inputs, targets)


def _moved(run: Run, step: Callable[[Run], None]) -> list[list[Tensor]]:
    """ΔW of one step, per part."""
    before = [[p.detach().clone() for p in part.parameters()] for part in parts_of(run.model)]
    step(run)
    return [
        [p.detach() - old for p, old in zip(part.parameters(), olds, strict=True)]
        for part, olds in zip(parts_of(run.model), before, strict=True)
    ]


def _cosines(left: Sequence[Sequence[Tensor]], right: Sequence[Sequence[Tensor]]) -> list[float | None]:
    found: list[float | None] = []
    for ours, theirs in zip(left, right, strict=True):
        one, other = (torch.cat([t.double().flatten() for t in tensors]) for tensors in (ours, theirs))
        size = float(one.norm()) * float(other.norm())
        found.append(float(one @ other) / size if size > 0 and size < float("inf") else None)
    return found


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
