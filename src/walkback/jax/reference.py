"""The true gradient: of the candidates for it the one that finite differences of the loss agree with.

Seen through: functions with a derivative of their own (`jax.custom_vjp`, `jax.custom_jvp`) are differentiated as what
they compute. As declared: they are taken at their word. Where neither is the network's gradient, there is none to
measure against, and (b), (c) and Γ are not measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from walkback.errors import BlocksError, InputError, WalkbackError
from walkback.jax.batches import Batch
from walkback.jax.capture import Capture, capture, capture_stream
from walkback.jax.doubled import Doubled, apart_by
from walkback.jax.gradient_check import Candidate, first_agreeing
from walkback.jax.network import Composed, Network, Stages, composed
from walkback.jax.numbers import doubles
from walkback.jax.program import Program, program_of
from walkback.jax.reference_failure import check_of, explained, in_short, wrong_loss
from walkback.jax.through import JVP, VJP, Kinds, own_derivatives
from walkback.protocol.records import ReferenceCheck
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.reference_words import NO_GRADIENTS, ON_REQUEST, WITHOUT
from walkback.protocol.sizes import LOOK_SAMPLES, REFERENCE_SAMPLES

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
        check_twin(own, seen, SAME_ROUNDED)
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


def check_twin(own: Capture, twin: Capture, tolerance: float) -> None:
    """Refuse a twin that computes something else."""
    pairs: list[tuple[str, Any, Any]] = [("logits", own.logits, twin.logits)]
    pairs += [(f"h_{n}", *pair) for n, pair in enumerate(zip(own.hiddens, twin.hiddens, strict=True))]
    for what, mine, other in pairs:
        if apart := apart_by(doubles(mine), doubles(other), tolerance):
            raise InputError(
                f"reference= computes something else than the network: {apart.replace('logits', what)}; expected "
                "a twin of the same function, with the same params, whose derivative is its own."
            )


def find_reference(
    apply: Any, network: Network, params: Any, batch: Batch, loss: Any, asked: Any = None, gradients: bool = True
) -> Reference:
    """The reference that was asked for, checked on the first samples of a batch, as is that apply is its parts."""
    program = program_of(network, loss)
    some = batch.first(min(REFERENCE_SAMPLES, batch.size))
    _check_independent(program, params, some)
    doubled, why = _doubled(program, params, some, apply)
    if not gradients:
        check = ReferenceCheck(candidate="none", reason=NO_GRADIENTS)
        return Reference(check, program, program, NO_GRADIENTS, measured=False, judged=False)
    if asked == DECLARED:
        check = ReferenceCheck(candidate="declared", reason=ON_REQUEST)
        return Reference(check, program, program, ON_REQUEST, judged=False)
    if asked is not None:
        return _of_twin(_twin(asked, network), program, doubled, why)
    return _chosen(doubled, program, why)


def _doubled(program: Program, params: Any, some: Batch, apply: Any) -> tuple[Doubled, str]:
    """The network in fp64, or in its own precision and why; and `apply` held to its parts."""
    why = ""
    for exact in (True, False):
        doubled = Doubled.of(program, params, some, exact)
        try:
            logits = doubled.require_exact()
            if exact and (why := _other_function(doubled, params, logits)):
                continue
            doubled.check_composition(apply, logits)
            return doubled, why
        except WalkbackError as error:
            # What does not run in fp64 may run as it is; what is wrong in both is told as it is there.
            if not exact or "do not compute what apply does" in str(error):
                raise
            why = in_short(error)
    raise AssertionError("unreachable")


def _other_function(doubled: Doubled, params: Any, logits: Any) -> str:
    """Why the network in fp64 is another one: random numbers that it draws inside are others there."""
    if not doubled.draws:
        return ""
    plain = Doubled.of(doubled.program, params, doubled.batch, exact=False).require_exact()
    apart = apart_by(plain, logits, SAME_ROUNDED)
    return f"it draws random numbers inside, which are others in fp64 ({apart})" if apart else ""


def _check_independent(program: Program, params: Any, some: Batch) -> None:
    """Refuse a network whose samples influence each other: its per-sample numbers would mean nothing."""
    few = some.first(min(LOOK_SAMPLES, some.size))
    # Samples may meet in a derivative that a function declares, and not in what it computes.
    program = program_of(program.network, program.loss, frozenset({VJP}))
    leak = Doubled.of(program, params, few, exact=False).leak() if few.size > 1 else 0.0
    if leak > 0:
        raise InputError(
            f"the logits of one sample depend on h_0 of another (gradient {leak:.1e}, expected 0), so per-sample "
            "gradients mean nothing. Give batch norm its running statistics (eval mode); is the first axis the batch?"
        )


def _chosen(doubled: Doubled, program: Program, why: str, twin: bool = False) -> Reference:
    """The first candidate that passes, or what is wrong with all of them."""
    own = own_derivatives(doubled.jaxpr)
    candidates, failed = [], ""
    for kinds in _sights(own):
        try:
            candidate = Candidate.tried(doubled, kinds)
        except (InputError, NotImplementedError, TypeError, ValueError) as error:
            failed = in_short(error)
            continue
        candidates.append(candidate)
        if candidate.agreement.agrees:
            break
    if not candidates:
        raise InputError(f"no gradient can be computed through the network: {failed}. {WITHOUT}")
    unreached = candidates[0].unreached()
    if unreached is not None:
        raise BlocksError(
            f"the logits do not depend on h_{unreached}; expected blocks that the output is computed from, in order."
        )
    chosen = first_agreeing(candidates)
    if chosen is None:
        chosen, check = explained(candidates, own)
    else:
        wrong = wrong_loss(chosen)
        check = check_of(chosen, own, **({"passed": False, "reason": wrong} if wrong else {}))
    exact: Capture | str = chosen.seen if doubled.exact else f"no fp64 pass: {why}"
    usable = check.passed is not False
    through = program_of(doubled.program.network, program.loss, chosen.through)
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


def _of_twin(twin: Composed, program: Program, doubled: Doubled, why: str) -> Reference:
    """The gradient of a twin, checked, which must compute what the network does."""
    there = replace(doubled, program=program_of(twin, program.loss))
    tolerance = 1e-6 if doubled.exact else SAME_ROUNDED
    with suppress(NotImplementedError):
        check_twin(_stream(doubled), _stream(there), tolerance)
    found = _chosen(there, program_of(twin, program.loss), why)
    reason = f"The gradient of the twin, reference=, cannot stand for the true one. {found.check.reason}"
    check = found.check.model_copy(update={"twin": True, "reason": reason if found.check.reason else ""})
    return replace(found, check=check, own=program)


def _stream(doubled: Doubled) -> Capture:
    with doubled.precision():
        return capture_stream(doubled.program, doubled.params, doubled.batch, TokenReduction.FLATTEN)


def default_reduction(deepest: Any) -> TokenReduction:
    """Class token where the loss reads token 0 alone at the deepest site, else all tokens, flattened."""
    grad = np.asarray(deepest)
    if grad.ndim == 3 and grad.shape[1] > 1:
        read = (grad != 0).any(axis=(0, 2))
        if read[0] and not read[1:].any():
            return TokenReduction.CLASS_TOKEN
    return TokenReduction.FLATTEN
