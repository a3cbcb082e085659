"""The true gradient: of the candidates for it the one that finite differences of the loss agree with.

Seen through: functions with a derivative of their own (`jax.custom_vjp`, `jax.custom_jvp`) are differentiated as what
they compute. As declared: they are taken at their word. Where neither is the network's gradient, there is none to
measure against, and (b), (c) and Γ are not measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from walkback.errors import BlocksError, InputError, WalkbackError
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture, capture, capture_stream
from walkback.jax.dependence import unread
from walkback.jax.doubled import SAME_IN_DOUBLE, Doubled, Refused, apart_by
from walkback.jax.gradient_check import Candidate
from walkback.jax.network import Composed, Network, Stage, Stages, composed
from walkback.jax.numbers import doubles
from walkback.jax.program import Program, program_of, ran
from walkback.jax.reference_failure import check_of, explained, in_short, wrong_loss
from walkback.jax.through import JVP, VJP, Kinds
from walkback.protocol.records import ReferenceCheck
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference_words import NO_GRADIENTS, ON_REQUEST, WITHOUT
from walkback.protocol.sizes import REFERENCE_SAMPLES

Made = TypeVar("Made")
DECLARED = "declared"
SAME_ROUNDED = 1e-2
"""Up to which share of their size the logits of two passes in working precision lie apart by rounding alone."""


@dataclass(frozen=True)
class Reference:
    """Where the gradients of a network come from."""

    check: ReferenceCheck
    own: Program
    """Of the network itself."""
    program: Program
    """Whose gradients are taken: of the network, seen through or as it is, or of its twin."""
    exact: Capture | str
    """The first samples in fp64, or why there are none."""
    measured: bool = True
    """Whether gradients are measured at all."""
    judged: bool = True
    """Whether they stand for the true ones, so that (b) and (c) are judged on them."""
    unread: tuple[str, ...] = ()
    """The parameters that the logits of the network do not depend on."""

    @property
    def twin(self) -> bool:
        """Whether the gradients are those of another network."""
        return self.program.network is not self.own.network

    def capture(self, params: Any, batch: Batch, reduction: TokenReduction, offset: int = 0, size: int = 0) -> Capture:
        """One batch, with the gradients of this reference, if it has any."""
        if not self.measured:
            return capture_stream(self.own, params, batch, reduction, offset)
        seen = capture(self.program, params, batch, reduction, offset, size)
        if not self.twin:
            return seen
        own = capture_stream(self.own, params, batch, reduction, offset)
        check_twin((own.logits, *own.hiddens), (seen.logits, *seen.hiddens), SAME_ROUNDED)
        return replace(seen, hiddens=own.hiddens, logits=own.logits)

    def exact_on(self, params: Any, batch: Batch) -> Capture | str:
        """The first samples of a batch in fp64 with other params, or why there are none."""
        if isinstance(self.exact, str):
            return self.exact
        some = batch.first(min(REFERENCE_SAMPLES, batch.size))
        try:
            return Doubled.of(self.program, params, some).seen(self.program.through)
        except WalkbackError as error:
            return f"no fp64 pass: {in_short(error)}"


def check_twin(own: Sequence[Any], twin: Sequence[Any], tolerance: float) -> None:
    """Refuse a twin that computes something else: its logits, then each of its sites."""
    for place, (mine, other) in enumerate(zip(own, twin, strict=True)):
        if apart := apart_by(doubles(mine), doubles(other), tolerance):
            what = f"h_{place - 1}" if place else "logits"
            raise InputError(
                f"reference= computes something else than the network: {apart.replace('logits', what)}; expected "
                "a twin of the same function, with the same params, whose derivative is its own."
            )


def find_reference(
    apply: Stage, network: Network, params: Any, batch: Batch, loss: Any, asked: Any = None, gradients: bool = True
) -> Reference:
    """The reference that was asked for, checked on the first samples of a batch, as is that apply is its parts."""
    program = program_of(network, loss)
    some = batch.first(min(REFERENCE_SAMPLES, batch.size))
    found = _asked_for(apply, network, program, params, some, asked, gradients)
    return replace(found, unread=unread(program, params, some))


def _asked_for(
    apply: Stage, network: Network, program: Program, params: Any, some: Batch, asked: Any, gradients: bool
) -> Reference:
    if not gradients:
        _in_double(program, params, some, lambda doubled: doubled.looked(apply))
        check = ReferenceCheck(candidate="none", reason=NO_GRADIENTS)
        return Reference(check, program, program, NO_GRADIENTS, measured=False, judged=False)
    if asked == DECLARED:
        _in_double(program, params, some, lambda doubled: doubled.examined(apply, frozenset()))
        check = ReferenceCheck(candidate="declared", reason=ON_REQUEST)
        return Reference(check, program, program, ON_REQUEST, judged=False)
    if asked is not None:
        return _of_twin(apply, _twin(asked, network), program, params, some)
    return _chosen(apply, program, params, some)


def _in_double(
    program: Program, params: Any, some: Batch, look: Callable[[Doubled], Made]
) -> tuple[Doubled, Made, str]:
    """What a look at the network in fp64 shows, or in its own precision and why."""
    doubled = Doubled.of(program, params, some)
    try:
        found = look(doubled)
        why = _other_function(doubled, params)
        if not why:
            return doubled, found, ""
    except Refused:
        raise
    except Exception as error:  # whatever a network does not support in fp64, the rest is measured all the same
        why = in_short(error)
    doubled = Doubled.of(program, params, some, exact=False)
    try:
        return doubled, look(doubled), why
    except WalkbackError:
        raise
    except Exception as error:
        raise InputError(f"no gradient can be computed through the network: {in_short(error)}. {WITHOUT}") from error


def _other_function(doubled: Doubled, params: Any) -> str:
    """Why the network in fp64 is another one: random numbers that it draws inside are others there."""
    if not doubled.found.draws:
        return ""
    plain = Doubled.of(doubled.program, params, doubled.batch, exact=False).require_exact()
    apart = apart_by(plain, doubled.require_exact(), SAME_ROUNDED)
    return f"it draws random numbers inside, which are others in fp64 ({apart})" if apart else ""


def _chosen(apply: Stage, program: Program, params: Any, some: Batch) -> Reference:
    """The first candidate that passes, or what is wrong with all of them."""
    own = ran(lambda: program.found(params, some.inputs)).own
    first, *others = _sights(own)
    doubled, seen, why = _in_double(program, params, some, lambda doubled: doubled.examined(apply, first))
    candidates = [Candidate(doubled, first, seen)]
    for kinds in others:
        if candidates[-1].agreement.agrees:
            break
        with suppress(Exception):  # it may not even run
            candidates.append(Candidate(doubled, kinds, doubled.seen(kinds)))
    unreached = candidates[0].unreached()
    if unreached is not None:
        raise BlocksError(
            f"the logits do not depend on h_{unreached}; expected blocks that the output is computed from, in order."
        )
    chosen = next((each for each in candidates if each.agreement.agrees), None)
    if chosen is None:
        chosen, check = explained(candidates, own)
    else:
        wrong = wrong_loss(chosen)
        check = check_of(chosen, own, **({"passed": False, "reason": wrong} if wrong else {}))
    exact: Capture | str = chosen.seen if doubled.exact else f"no fp64 pass: {why}"
    usable = check.passed is not False
    through = program_of(program.network, program.loss, chosen.through)
    return Reference(check, program, through, exact, measured=usable, judged=usable)


def _sights(own: dict[str, tuple[str, ...]]) -> Iterator[Kinds]:
    """What to see through, in the order in which it is tried.

    Functions of JAX itself, such as relu, declare derivatives by custom_jvp for the sake of numerics: those are taken
    at their word first.
    """
    if own[VJP]:
        yield frozenset({VJP})
    else:
        yield frozenset()
    if own[JVP]:
        yield frozenset({JVP, VJP} if own[VJP] else {JVP})
    if own[VJP]:
        yield frozenset()


def _twin(asked: Any, network: Network) -> Composed:
    if isinstance(asked, Stages):
        twin = composed(asked, None, None)
    elif isinstance(network, Composed) and not isinstance(asked, str) and not callable(asked):
        twin = composed(asked, network.stem, network.head)
    else:
        raise InputError(
            f"reference= is {asked!r:.80}; expected the blocks of a twin of the network (functions of (params, h)), "
            f"walkback.jax.Stages(blocks, stem, head) of one, {DECLARED!r}, or nothing."
        )
    if len(twin.blocks) != len(network.names):
        raise InputError(f"reference= has {len(twin.blocks)} blocks where the network has {len(network.names)}.")
    return twin


def _of_twin(apply: Stage, twin: Composed, program: Program, params: Any, some: Batch) -> Reference:
    """The gradient of a twin, checked, which must compute what the network does."""
    doubled, (logits, hiddens), _ = _in_double(program, params, some, lambda doubled: doubled.looked(apply))
    there = program_of(twin, program.loss)
    _, (others, sites), _ = _in_double(there, params, some, lambda doubled: doubled.stream())
    check_twin((logits, *hiddens), (others, *sites), SAME_IN_DOUBLE if doubled.exact else SAME_ROUNDED)
    found = _chosen(apply, there, params, some)
    reason = f"The gradient of the twin, reference=, cannot be used as the true one. {found.check.reason}"
    check = found.check.model_copy(update={"twin": True, "reason": reason if found.check.reason else ""})
    return replace(found, check=check, own=program)


def default_reduction(deepest: Any) -> TokenReduction:
    """Class token where the loss reads token 0 alone at the deepest site, else all tokens, flattened."""
    grad = np.asarray(deepest)
    if grad.ndim == 3 and grad.shape[1] > 1:
        read = (grad != 0).any(axis=(0, 2))
        if read[0] and not read[1:].any():
            return TokenReduction.CLASS_TOKEN
    return TokenReduction.FLATTEN
