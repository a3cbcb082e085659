"""The matched frozen baseline for (d): the caller's own training, with the blocks left at random init."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from walkback.arguments import known_arguments
from walkback.errors import BaselineError, InputError, WalkbackWarning
from walkback.protocol.baseline_arguments import TrainFunction, check_arguments, check_call
from walkback.protocol.batch_sizes import on_few
from walkback.protocol.batches import read_batches
from walkback.protocol.calling import Calling
from walkback.protocol.counted import accuracy
from walkback.protocol.losses import Loss
from walkback.protocol.outputs import Logits
from walkback.protocol.own_loss import labels_needed
from walkback.protocol.parameters import parameters_of, shapes_of
from walkback.protocol.redrawn import check_trained, redraw_at_norms
from walkback.protocol.schema import shortened
from walkback.protocol.scores import BlocksAt, FrozenBaseline, Score
from walkback.protocol.sites import Blocks, Parts, Stages, find_stages, named_stages
from walkback.protocol.still import kept_still
from walkback.protocol.unread import unread_parameters
from walkback.protocol.untouched import underneath, untouched
from walkback.protocol.wrong_shape import own_line

_NO_GRADIENT = "does not require grad and does not have a grad_fn"
"""What torch says of a backward pass from a tensor that nothing which learns went into."""


@known_arguments()
def frozen_baseline(
    train_fn: TrainFunction,
    make_model: Callable[[], nn.Module],
    eval_batches: Iterable[Any] | None = None,
    *,
    seed: int | None = None,
    config: Mapping[str, Any] | None = None,
    blocks: Blocks = None,
    stem: Blocks = None,
    head: Blocks = None,
    logits: Logits = None,
    forward_kwargs: Mapping[str, Any] | None = None,
    loss: Loss | None = None,
    blocks_at: BlocksAt = "init",
    trained: nn.Module | Mapping[str, Tensor] | None = None,
) -> FrozenBaseline:
    """Train the caller's model again with its blocks frozen, and return the score that (d) compares with.

    The seed is set, `make_model()` builds the model, and the parameters of its blocks stop requiring gradients; stem
    and head still learn. Then `train_fn(model, **config)` runs as it does for the real run. Where it returns a
    `walkback.Score`, that is the score. Else the score is the accuracy on `eval_batches`.

    Args:
        train_fn: trains the model that it is given, in place.
        make_model: builds a new model; it draws its weights after the seed is set.
        eval_batches: as for `diagnose`. Not needed where `blocks` are named and train_fn returns a `Score`.
        seed: set before the model is built, and noted; None leaves torch's generator as it is.
        config: what train_fn is called with by name, and noted; nothing where not given.
        blocks: as for `diagnose`. What lies between the blocks, such as their norms, is frozen with them. Named blocks
            need no pass through the network: where there are no batches, or the pass fails, their own parameters are
            frozen.
        stem: as for `diagnose`.
        head: as for `diagnose`.
        logits: as for `diagnose`.
        forward_kwargs: as for `diagnose`.
        loss: as for `diagnose`; the accuracy then takes the targets as they are, else as the model's own loss does.
        blocks_at: `init` leaves the blocks as `make_model` built them. `trained norms` draws each of their parameters
            anew, with the norm that it has in `trained`; give that baseline to `diagnose` as `random_baseline=`.
        trained: the trained network, or its state_dict, for `trained norms`.

    Returns:
        The score of the baseline, with what was frozen; give it to `diagnose` as `frozen_baseline_acc=`.

    Raises:
        BaselineError: a frozen parameter moved, `train_fn` calls `backward` where a frozen block leaves no gradient,
            nothing was trained, nothing is left to train, or there is no score.
        BatchError: `eval_batches` cannot be scored.
        BlocksError: the blocks were not found, or are not reached.
        InputError: any other argument cannot be used.

    Cost:
        One whole run of train_fn, and one forward pass over `eval_batches`.

    Caveat:
        A rule that writes to parameters itself must skip those with `requires_grad=False`, and one that calls
        `backward` at each block must skip outputs without gradient: `if h.requires_grad: h.backward(credit)`. Buffers,
        such as the statistics of BatchNorm, may move, and so may feedback matrices: parameters that never required a
        gradient and that the output does not depend on.

    Examples:
        >>> import torch, walkback
        >>> inputs, labels = torch.randn(128, 8), torch.randint(8, (128,))
        >>> def train(model):
        ...     optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        ...     torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        ...     optimizer.step()
        >>> make_model = lambda: torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(4)])
        >>> frozen = walkback.frozen_baseline(train, make_model, [(inputs, labels)], seed=0, blocks=["1", "2"])
        >>> frozen.frozen_blocks, frozen.samples
        (('1', '2'), 128)
    """
    check_arguments(train_fn, make_model, config, seed)
    norms_of = check_trained(blocks_at, trained)
    batches = list(eval_batches) if eval_batches is not None else None
    settings = dict(config or {})
    if seed is not None:
        torch.manual_seed(seed)
    model = _built(make_model)
    calling = Calling(forward_kwargs or {}, logits)
    plain = underneath(model)
    without_gradient = {name for name, parameter in parameters_of(plain).items() if not parameter.requires_grad}
    names, frozen = freeze_blocks(model, batches, Parts(blocks, stem, head), calling)
    # Feedback may be redrawn or learn as in the real run: the blocks' function rests on what the output reads.
    feedback = unread_parameters(plain, batches, [name for name in frozen if name in without_gradient], calling)
    watched = {name: parameter for name, parameter in frozen.items() if name not in feedback}
    if norms_of is not None:
        redraw_at_norms(frozen, norms_of)
    record: dict[str, Any] = {
        "frozen_blocks": names,
        "frozen_parameters": tuple(frozen),
        "frozen_values": sum(parameter.numel() for parameter in frozen.values()),
        "all_values": sum(parameter.numel() for parameter in parameters_of(plain).values()),
        "network": shapes_of(plain),
    }
    check_call(train_fn, model, settings)
    before = _learning(plain, frozen)
    with kept_still(plain, watched), _no_gradient_told(names):
        result = train_fn(model, **settings)
    score = _score(result, model, batches, calling, loss)
    if score is not result:
        _check_trained(before, _learning(plain, frozen))
    scored: dict[str, Any] = {"accuracy": score.value, "samples": score.samples, "answers": score.answers}
    scored["correct"] = score.correct
    record |= {"blocks_at": blocks_at} | (scored if score.is_accuracy else {"score": score})
    return FrozenBaseline(seed=seed, config=settings, **record)


def _built(make_model: Callable[[], nn.Module]) -> nn.Module:
    """A new network; one that was there before is refused, for its blocks may have been trained."""
    before = torch.get_rng_state()
    model = make_model()
    if not isinstance(model, nn.Module):
        raise InputError(f"make_model returned {shortened(model)}; it must return the new network, a torch.nn.Module.")
    # Asked twice only where no weights were drawn: to build a network twice may take long.
    if torch.equal(before, torch.get_rng_state()) and make_model() is model:
        raise BaselineError(
            f"make_model returned one and the same {type(model).__name__} twice, and drew no random weights for it: "
            "its blocks may be trained already. Let it build a new network on each call."
        )
    return model


@contextmanager
def _no_gradient_told(blocks: Sequence[str]) -> Iterator[None]:
    """A backward pass from what frozen parameters alone compute: torch says that there is no gradient, and not why."""
    try:
        yield
    except RuntimeError as error:
        if _NO_GRADIENT not in str(error):
            raise
        named = ", ".join([*blocks[:4], *(["…"] if len(blocks) > 4 else [])])
        raise BaselineError(
            f"train_fn{own_line(error)} calls backward on a tensor without gradient. In the frozen baseline the "
            f"blocks ({named}) do not learn, so what they compute from detached input has none. "
            "Leave out what does not require a gradient: `if h.requires_grad: h.backward(credit)`."
        ) from error


def _learning(plain: nn.Module, frozen: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """What training may change, as it is now: parameters that are not frozen, and buffers."""
    named = {name: value for name, value in parameters_of(plain).items() if name not in frozen}
    return {name: value.detach().clone() for name, value in {**named, **dict(plain.named_buffers())}.items()}


def _check_trained(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    """Refuse a network that is as it was before its training."""
    same = (n in after and v.shape == after[n].shape and bool((v == after[n].to(v)).all()) for n, v in before.items())
    if len(before) == len(after) and all(same):
        raise BaselineError(
            "train_fn left everything in the model as it was, so this would be the score of an untrained network. Let "
            "it train the model that it is given, in place, and not a copy or another one, as long as the real run."
        )


def freeze_blocks(
    model: nn.Module,
    batches: Iterable[Any] | None,
    blocks: Blocks | Parts = None,
    calling: Calling | None = None,
) -> tuple[tuple[str, ...], dict[str, nn.Parameter]]:
    """Stop the blocks' parameters from requiring gradients; the blocks' names, and those parameters by name."""
    plain = underneath(model)
    stages = _stages_of(plain, batches, Parts.of(blocks), calling)
    everything = parameters_of(plain)
    frozen = {name: parameter for name, parameter in everything.items() if name in stages.parameters}
    if not frozen:
        raise BaselineError(
            f"the blocks {stages.pattern} hold no parameters, so there is nothing to freeze. Pass blocks=."
        )
    if not any(p.requires_grad for name, p in everything.items() if name not in frozen):
        raise BaselineError(
            f"every trainable parameter of {type(plain).__name__} lies in its blocks ({stages.pattern}), so nothing is "
            "left to train once they are frozen. Pass blocks= without the embedding and the head. A network that has "
            "neither, such as a forward-forward one, has its untrained self for a baseline: give diagnose the accuracy "
            "of that as a number."
        )
    for parameter in frozen.values():
        parameter.requires_grad_(False)
    return stages.blocks, frozen


def _stages_of(plain: nn.Module, batches: Iterable[Any] | None, parts: Parts, calling: Calling | None) -> Stages:
    if batches is None:
        stages = named_stages(plain, parts)
        if stages is None:
            raise BaselineError(
                "the blocks are found by a forward pass over eval_batches; give those, or name blocks=."
            )
        return stages
    with untouched(plain):
        first = labels_needed(plain, next(read_batches(batches, plain, calling=calling)))
        return on_few(plain, first, lambda few: find_stages(plain, few, parts))


def _score(
    result: Any, model: nn.Module, batches: Iterable[Any] | None, calling: Calling, loss: Loss | None = None
) -> Score:
    if isinstance(result, Score):
        return result
    _ignored(result, underneath(model))
    if batches is None:
        raise BaselineError(
            "there is nothing to score the baseline by: give eval_batches, or let train_fn return walkback.Score(…)."
        )
    return accuracy(model, batches, calling, loss)


def _ignored(result: Any, plain: nn.Module) -> None:
    """Say that what came back is not taken for a score; another network than was given was trained in its place."""
    if isinstance(result, nn.Module):
        if plain not in result.modules():
            raise BaselineError(
                f"train_fn returned another {type(result).__name__} than the model that it was given. Let it train "
                "that one, in place."
            )
    elif result is not None:
        warnings.warn(
            f"the training function returned {shortened(result)}; it was not taken for an accuracy: return "
            "walkback.Score(…) to give one, or nothing to have it measured on the batches.",
            WalkbackWarning,
            stacklevel=5,  # the caller's, above that of `known_arguments`
        )
