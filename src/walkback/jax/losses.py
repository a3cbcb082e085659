"""The loss of each sample, its gradient at the logits, and accuracy, in the precision that they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from walkback.errors import BatchError, InputError, WalkbackError
from walkback.jax.numbers import Doubles, doubles, rows

Loss = Callable[[Any, Any], Any]
"""(logits, targets) → one loss per sample, (B,)."""
IGNORED = -100
"""The target that marks a token as not to be scored."""
Whole = NDArray[np.int64]


def classes_of(targets: NDArray[Any], logits: tuple[int, ...]) -> Whole | None:
    """Targets as classes of the logits beside them; None where they are none. Of one number nothing is chosen."""
    known = indices_of(targets, logits)
    if known is None or logits[-1] < 2:
        return None
    scored = known[known != IGNORED]
    return known if not scored.size or 0 <= scored.min() <= scored.max() < logits[-1] else None


def indices_of(targets: NDArray[Any], logits: tuple[int, ...]) -> Whole | None:
    """Targets as whole numbers, whether they are these or one-hot rows; None where they are neither."""
    if targets.dtype.kind in "iu" and targets.shape == logits[:-1]:
        return targets.astype(np.int64)
    if targets.shape == logits and len(logits) > 1 and logits[-1] > 1 and targets.dtype.kind in "iufbV":
        wide = doubles(targets)
        if ((wide == 0) | (wide == 1)).all() and (wide.sum(axis=-1) == 1).all():
            found: Whole = wide.argmax(axis=-1).astype(np.int64)
            return found
    return None


def require_classes(targets: NDArray[Any], logits: tuple[int, ...]) -> Whole:
    """The classes that cross-entropy needs; anything else is refused."""
    known = indices_of(targets, logits)
    if known is None or len(logits) not in (2, 3):
        soft = targets.shape == logits and targets.dtype.kind in "fV"
        raise BatchError(
            f"logits of shape {logits} with {targets.dtype} targets of shape {targets.shape} do not fit cross-entropy; "
            "expected (B, C) with B class indices, or (B, T, C) with (B, T), or the same as one-hot rows. "
            + ("Rows that are not one-hot are soft labels: pass " if soft else "For anything else pass ")
            + "loss=, a function of (logits, targets) that gives one loss per sample, such as "
            "optax.softmax_cross_entropy."
        )
    scored = known[known != IGNORED] if len(logits) == 3 else known
    if scored.size and not 0 <= scored.min() <= scored.max() < logits[-1]:
        if logits[-1] == 1:
            raise BatchError(
                f"the labels run from {scored.min()} to {scored.max()}, but the network gives one number for each; "
                "expected two classes or more. Pass loss=, the loss that the network was trained with, such as "
                "lambda logits, y: optax.sigmoid_binary_cross_entropy(logits[:, 0], y)."
            )
        raise BatchError(
            f"the labels run from {scored.min()} to {scored.max()}, but the network has {logits[-1]} classes; expected "
            f"0 … {logits[-1] - 1}."
        )
    return known


def unit_error(logits: Any, classes: Any) -> Any:
    """softmax − onehot of cross-entropy, up to one positive factor for each sample that makes it about 1, on a device.

    The entry of the right class is minus the sum of the others, which loses no digit where the network is confident,
    and the factor keeps what is tiny far from the end of fp32's range. `factors` has it.
    """
    others, largest, shift = _others(jnp, logits, classes)
    safe = jnp.where(jnp.isneginf(largest), 0.0, largest)
    scaled = jnp.where(others, jnp.exp(logits - safe[..., None]), 0.0) * jnp.exp(shift)[..., None]
    if logits.ndim == 3:
        scored = classes != IGNORED
        scaled = scaled * (scored / jnp.maximum(scored.sum(axis=1, keepdims=True), 1))[..., None]
    return scaled - jnp.where(others, 0.0, scaled.sum(axis=-1, keepdims=True))


def _others(np_: Any, logits: Any, classes: Any) -> tuple[Any, Any, Any]:
    """Where the wrong classes are, the largest logit among them, and log of what a token weighs in its sample."""
    numbers = np_.arange(logits.shape[-1]).reshape(*[1] * classes.ndim, -1)  # ranks may not be promoted
    others = numbers != classes[..., None]
    largest = np_.where(others, logits, -np_.inf).max(axis=-1)
    if logits.ndim == 2:
        return others, largest, np_.zeros_like(largest)
    logs = _log_largest(np_, logits, largest)
    known = np_.where(classes != IGNORED, logs, -np_.inf)
    most = known.max(axis=1, keepdims=True)
    return others, largest, np_.where(np_.isneginf(most), -np_.inf, logs - np_.where(np_.isneginf(most), 0.0, most))


def _log_largest(np_: Any, logits: Any, largest: Any) -> Any:
    """log p of the likeliest wrong class."""
    top = logits.max(axis=-1)
    return largest - top - np_.log(np_.exp(logits - top[..., None]).sum(axis=-1))


def factors(logits: Doubles, classes: Whole) -> Doubles:
    """What `unit_error` left out, for each sample, (B,)."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        _, largest, _ = _others(np, logits, classes)
        logs = _log_largest(np, logits, largest)
        if logits.ndim == 3:
            logs = np.where(classes != IGNORED, logs, -np.inf).max(axis=1)
        found: Doubles = np.where(np.isneginf(logs), 0.0, np.exp(logs))
    return found


def cross_entropy_error(logits: Doubles, classes: Whole) -> Doubles:
    """softmax − onehot, of each sample's own loss; a sequence's is the mean over its scored tokens."""
    with np.errstate(invalid="ignore", over="ignore"):
        shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
        error = shifted / shifted.sum(axis=-1, keepdims=True)
        right = np.arange(logits.shape[-1]) == classes[..., None]
        error = np.where(right, 0.0, error)
        error = np.where(right, -error.sum(axis=-1, keepdims=True), error)
    if logits.ndim == 3:
        scored = classes != IGNORED
        error = error * (scored / np.maximum(scored.sum(axis=1, keepdims=True), 1))[..., None]
    found: Doubles = error
    return found


def cross_entropies(logits: Doubles, classes: Whole) -> Doubles:
    """−log p of the right class of each sample; of a sequence, the mean over its scored tokens."""
    surprise = _surprises(logits, np.maximum(classes, 0))
    if logits.ndim == 2:
        return surprise
    scored = classes != IGNORED
    found: Doubles = np.where(scored, surprise, 0.0).sum(axis=1) / np.maximum(scored.sum(axis=1), 1)
    return found


def _surprises(logits: Doubles, classes: Whole) -> Doubles:
    with np.errstate(invalid="ignore", over="ignore"):
        top = logits.max(axis=-1, keepdims=True)
        logs = logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    found: Doubles = -np.take_along_axis(logs, classes[..., None], axis=-1)[..., 0]
    return found


def loss_values(loss: Loss, logits: Any, targets: Any) -> Any:
    """What a loss of the caller's gives, (B,)."""
    try:
        values = loss(logits, targets)
    except WalkbackError:
        raise
    except Exception as error:
        raise InputError(
            f"loss= failed on logits of shape {logits.shape} ({logits.dtype}) and targets of shape {targets.shape} "
            f"({targets.dtype}): {type(error).__name__}: {' '.join(str(error).split())[:300]}. Expected a function of "
            "(logits, targets) that gives one loss per sample; it gets the targets as they are in the batch."
        ) from error
    if getattr(values, "shape", None) != logits.shape[:1]:
        got = f"shape {values.shape}" if hasattr(values, "shape") else type(values).__name__
        raise InputError(
            f"loss= gave {got} for {logits.shape[0]} samples; expected one for each, ({logits.shape[0]},). "
            "Take no mean over the batch; of tokens, the mean over everything but the first axis."
        )
    return values


def scaled_error(loss: Loss, logits: Any, targets: Any) -> tuple[Any, Any]:
    """∂ℓ/∂logits of a loss of the caller's, in fp32 at least, on a device; and the power of two that it lacks, (B,)."""
    wide = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    error = jax.grad(lambda at: loss_values(loss, at, targets).sum())(wide)
    largest = jnp.abs(error).reshape(len(error), -1).max(axis=1)
    exponent = jnp.where(jnp.isfinite(largest) & (largest > 0), jnp.ceil(jnp.log2(largest)), 0.0)
    return error * rows(jnp.exp2(-exponent), error), exponent


def are_probabilities(logits: NDArray[Any]) -> bool:
    """Whether each row is a distribution over two classes or more: no entry below 0, and a sum of 1 to rounding."""
    wide = doubles(logits)
    if wide.ndim < 2 or wide.shape[-1] < 2 or not wide.size or not wide.min() >= 0:
        return False
    precision = float(jnp.finfo(logits.dtype).eps)
    return bool(np.abs(wide.sum(axis=-1) - 1).max() <= 8 * precision * wide.shape[-1] ** 0.5)


@dataclass(frozen=True)
class Answers:
    """What was answered rightly in one batch."""

    right: NDArray[np.bool_]
    """Of each scored answer."""
    labels: Whole
    """The class of each."""
    samples: int
    """That have an answer to score."""
    surprise: float | None
    """Σ −log p of the right token, of sequences."""
    classes: int | None

    @classmethod
    def of(cls, logits: NDArray[Any], classes: Whole) -> Answers:
        """Count, of classes that are known; a row with NaN is answered wrongly."""
        wide = doubles(logits)
        scored, known = classes != IGNORED, ~np.isnan(wide).any(axis=-1)
        right = (np.where(np.isnan(wide), -np.inf, wide).argmax(axis=-1) == classes) & known
        surprise = _surprise(logits, classes) if wide.ndim == 3 else None
        samples = int(scored.reshape(len(scored), -1).any(axis=1).sum())
        return cls(right[scored], classes[scored], samples, surprise, wide.shape[-1])


def _surprise(logits: NDArray[Any], classes: Whole) -> float:
    """Σ −log p of the right token over all that are scored."""
    scored, there = classes != IGNORED, np.maximum(classes, 0)
    if are_probabilities(logits):
        with np.errstate(divide="ignore"):
            each = -np.log(np.take_along_axis(doubles(logits), there[..., None], axis=-1)[..., 0])
    else:
        each = _surprises(doubles(logits), there)
    return float(each[scored].sum())
