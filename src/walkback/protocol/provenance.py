"""`walkback.provenance`: does the update that a network gets come from the rule that is claimed for it?

A few steps of the user's own training are made again from a checkpoint. The change of the weights, layer by layer, is
held against what the claimed rule would have changed, and against what backpropagation would have: each through the
same optimizer, from the same state. What the optimizer does without any gradient, by its momentum or weight decay, is
taken off all of them. One more time each step is made with other random numbers: feedback that is fixed changes
nothing by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from torch import nn
from torch.optim.optimizer import Optimizer

from walkback.arguments import known_arguments
from walkback.errors import InputError
from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batch_sizes import on_few
from walkback.protocol.batches import read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.credit import CreditFunction, CreditRule
from walkback.protocol.kept_state import KeptState
from walkback.protocol.losses import Loss
from walkback.protocol.outputs import Logits
from walkback.protocol.own_loss import with_loss
from walkback.protocol.records import UpdateProvenance
from walkback.protocol.repeated_steps import RepeatedSteps, TrainStep, steps_any
from walkback.protocol.schema import shortened
from walkback.protocol.sites import Blocks, Chain, Parts, find_chain
from walkback.protocol.untouched import underneath, untouched

STEPS = 4


@known_arguments()
def provenance(
    model: nn.Module,
    train_step: TrainStep,
    batches: Iterable[Any],
    credit: CreditRule | CreditFunction | None = None,
    optimizer: Optimizer | Sequence[Optimizer] | None = None,
    *,
    claimed_step: TrainStep | None = None,
    also: Sequence[nn.Module] = (),
    loss: Loss | None = None,
    blocks: Blocks = None,
    stem: Blocks = None,
    head: Blocks = None,
    logits: Logits = None,
    forward_kwargs: dict[str, Any] | None = None,
    steps: int = STEPS,
) -> UpdateProvenance:
    """Make some steps of training again and say, layer by layer, which rule the change of the weights comes from.

    The model, the optimizers, the modules of `also` and the random generators are put back as they were.

    Formula:
        cos(ΔW, ΔW′) over all parameters of a layer as one vector, averaged over the steps. ΔW is the real change. ΔW′
        is the change by the claimed rule, by the true gradient, or by the same step with other random numbers. What the
        optimizer does without any gradient is subtracted from all of them.

    Args:
        model: the network at a checkpoint.
        train_step: the user's own, called as train_step(model, batch): one step, in place.
        batches: training batches, as train_step takes them: (inputs, targets), or mappings with `labels`.
        credit: the claimed rule, as for `diagnose`. Block l then follows the gradient of ⟨h_l, a_l⟩, averaged over the
            batch, and what comes after the blocks follows the error at the logits. Not where blocks share their
            weights.
        optimizer: what train_step steps with, in the state of the checkpoint; several in a list. Without it the claimed
            change is the negative gradient itself, which is right for plain SGD alone: of another optimizer that was
            seen to step, a credit is not decided.
        claimed_step: instead of a credit, a step by the claimed rule, called as train_step is.
        also: other modules that train_step changes, such as feedback networks.
        loss: as for `diagnose`.
        blocks: as for `diagnose`.
        stem: as for `diagnose`.
        head: as for `diagnose`.
        logits: as for `diagnose`.
        forward_kwargs: as for `diagnose`.
        steps: how many steps to make again, one for each batch; 4 by default.

    Returns:
        The cosines of each layer. Give it to `diagnose` as `updates=`.

    Raises:
        BatchError: a batch cannot be read, or there is none.
        BlocksError: the blocks were not found, or are not reached.
        CreditError: the credit rule gave something other than one tensor per site.
        InputError: any other argument cannot be used, or `credit` is given for blocks that share their weights.

    Cost:
        For each step: train_step twice, and one forward and backward pass for the gradients; claimed_step once, if
        given.

    Caveat:
        What else train_step changes, such as a counter of its own, is not put back.

    Examples:
        >>> import torch, walkback
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)])
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> def train_step(model, batch):
        ...     optimizer.zero_grad()
        ...     torch.nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        ...     optimizer.step()
        >>> batches = [(torch.randn(32, 8), torch.randint(8, (32,)))]
        >>> found = walkback.provenance(model, train_step, batches, optimizer=optimizer)
        >>> [round(cosine, 3) for cosine in found.true_gradient]  # it is trained by backpropagation
        [1.0, 1.0, 1.0]
    """
    _check(train_step, claimed_step, credit, steps)
    plain = underneath(model)
    raw = list(islice(batches, steps))
    optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer or ())
    _check_optimizers(optimizers, plain, also)
    everything = KeptState([plain, *also], optimizers)
    try:
        with untouched(plain):
            read = read_batches(raw, plain, calling=Calling(forward_kwargs or {}, logits))
            taken, found = with_loss(plain, read, loss)
            ready = list(found)
            parts = Parts(blocks, stem, head)
            chain = on_few(plain, ready[0], lambda few: find_chain(plain, few, parts))
        rule = AlignmentMeter.of(credit, 0).rule if credit is not None else None
        _check_shared(rule, chain)
        steps_again = RepeatedSteps(
            model, plain, chain, optimizers, list(also), taken.loss, rule, train_step, claimed_step
        )
        for given, batch in zip(raw, ready, strict=True):
            steps_again.step(given, batch)
        return steps_again.record()
    finally:
        everything.restore()


def _check(train_step: Any, claimed_step: Any, credit: Any, steps: Any) -> None:
    for name, step in (("train_step", train_step), ("claimed_step", claimed_step)):
        if not callable(step) and (step is not None or name == "train_step"):
            raise InputError(f"{name} is {shortened(step)}; expected a function of (model, batch) that makes one step.")
    if credit is not None and claimed_step is not None:
        raise InputError("credit= and claimed_step= both say which rule is claimed; give one of them.")
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise InputError(f"steps is {shortened(steps)}; expected how many steps to make again, 1 or more.")


def _check_optimizers(optimizers: Sequence[Optimizer], plain: nn.Module, also: Sequence[nn.Module]) -> None:
    """Refuse one that steps other weights: the claimed change would be none."""
    for optimizer in optimizers:
        if not steps_any(optimizer, plain, *also):
            raise InputError(
                f"optimizer= is a {type(optimizer).__name__} that holds no parameter of this model: it may be that of "
                "a copy. Pass the one that train_step steps this model with."
            )


def _check_shared(rule: CreditRule | None, chain: Chain) -> None:
    twice = next((block for block in chain.blocks if chain.blocks.count(block) > 1), None)
    if rule is not None and twice is not None:
        raise InputError(
            f"{twice} is called several times, so what a credit asks of its weights is not defined layer by layer. "
            "Pass claimed_step= instead of credit=."
        )
