"""`walkback.strict()`: the pitfalls that happen at run time raise where they happen.

    with walkback.strict():
        score = my_alignment(credit, gradient)      # PitfallError, if a norm in it lies under the cosine's eps

A `TorchFunctionMode` sees every call of a torch function in this thread; nothing is patched, and what is not named
here runs as it did. It does not see what runs in other threads, in compiled code or inside the backward pass, nor
comparisons of plain Python numbers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from walkback.errors import PitfallError
from walkback.protocol import numerics
from walkback.strictness import nan_raises

DEFAULT_EPS = 1e-8
COSINES = {torch.cosine_similarity, F.cosine_similarity}
NORMS = {
    torch.norm, torch.functional.norm, Tensor.norm, torch.linalg.norm, torch.linalg.vector_norm,
    torch.linalg.matrix_norm,
}  # fmt: skip
COMPARISONS = {
    function
    for name in ("gt", "lt", "ge", "le", "greater", "less", "greater_equal", "less_equal")
    for function in (getattr(Tensor, name), getattr(torch, name), getattr(Tensor, f"__{name}__", None))
    if function is not None
}


@contextmanager
def strict(*, cosine: bool = True, half: bool = True, nan: bool = True) -> Iterator[None]:
    """Raise `PitfallError` where a pitfall happens, in this thread and until the block ends.

    Args:
        cosine: whether to raise where torch's cosine is given a vector whose norm lies below its eps. It would return a
            clamped number.
        half: whether to raise where a norm of float16 values is 0, which float16 cannot tell from an underflow.
        nan: whether to raise where NaN is compared with a threshold, by walkback's judging or as a 0-dimensional tensor
            in your code.

    Yields:
        Nothing.

    Raises:
        PitfallError: inside the block, where one of these happens.

    Caveat:
        It does not see what runs in other threads, in compiled code or inside the backward pass, nor comparisons of
        plain Python numbers.

    Examples:
        >>> import torch, walkback
        >>> tiny = torch.full((4,), 1e-12)
        >>> with walkback.strict():
        ...     torch.cosine_similarity(tiny, tiny, dim=0)
        Traceback (most recent call last):
        walkback.errors.PitfallError: a cosine was taken of a vector with norm 2e-12, ...
    """
    with ExitStack() as stack:
        stack.enter_context(nan_raises(nan))
        stack.enter_context(_Guard(cosine, half, nan))
        yield


class _Guard(TorchFunctionMode):
    """Looks at the arguments and results of a few functions, and passes all others on."""

    def __init__(self, cosine: bool, half: bool, nan: bool) -> None:
        super().__init__()
        self.watched: dict[Any, Callable[..., Any]] = {}
        self.watched |= dict.fromkeys(COSINES, _guarded_cosine) if cosine else {}
        self.watched |= dict.fromkeys(NORMS, _guarded_norm) if half else {}
        self.watched |= dict.fromkeys(COMPARISONS, _guarded_comparison) if nan else {}

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by torch in place of every function."""
        call = functools.partial(function, *args, **(kwargs or {}))
        watch = self.watched.get(function)
        return call() if watch is None else watch(call, *args, **(kwargs or {}))


def _guarded_cosine(
    call: Callable[[], Tensor], x1: Tensor, x2: Tensor, dim: int = 1, eps: float = DEFAULT_EPS
) -> Tensor:
    for vectors in (x1, x2):
        # fp16 rounds an eps of 1e-8 to 0; what clamps there is the zero itself.
        smallest = _smallest_norm(vectors, dim)
        if not smallest >= eps or smallest == 0:
            raise PitfallError(
                f"a cosine was taken of a vector with norm {smallest:.3g}, and torch clamps norms at eps = {eps:g}: "
                "the figure would be too small, or 0 (pitfall 2). "
                "Write F.cosine_similarity(a.double(), b.double(), eps=1e-150), and decide what a zero vector means."
            )
    return call()


def _smallest_norm(vectors: Tensor, dim: int) -> float:
    """Of the vectors along an axis; one with NaN in it makes a NaN that everyone can see, and is passed over."""
    if vectors.numel() == 0:
        return float("inf")
    norms = numerics.norms(vectors.detach().movedim(dim, -1))
    return float(norms.nan_to_num(nan=float("inf"), posinf=float("inf")).min())


def _operands(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """What a function is about, given by position or by one of the names that torch takes for it."""
    return [*args, *(kwargs[name] for name in ("input", "x", "a", "x1", "other", "x2") if name in kwargs)]


def _guarded_norm(call: Callable[[], Tensor], *args: Any, **kwargs: Any) -> Tensor:
    result, x = call(), next(iter(_operands(args, kwargs)), None)
    is_half = isinstance(x, Tensor) and x.dtype == torch.float16 and x.numel() > 0
    if is_half and bool((result == 0).any()):
        raise PitfallError(
            "a norm of float16 values is 0, and float16 has nothing between 0 and 6e-8: this may be a vector that "
            "underflowed (pitfall 3). Keep what you measure in float32 or bfloat16 until the norm is taken; "
            "scale the loss of a float16 network."
        )
    return result


def _guarded_comparison(call: Callable[[], Tensor], *args: Any, **kwargs: Any) -> Tensor:
    pair = _operands(args, kwargs)[:2]
    for value, limit in (pair, pair[::-1]) if len(pair) == 2 else ():
        if _is_nan(value) and isinstance(limit, int | float) and not _asked_by_walkback():
            raise PitfallError(
                f"NaN was compared with {limit:g}: every comparison with NaN is false, so it passes as well as it "
                "fails (pitfall 9). Ask torch.isfinite first."
            )
    return call()


def _is_nan(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point() and bool(value.isnan())


def _asked_by_walkback() -> bool:
    """Whether walkback's own code compares; it writes such comparisons so that NaN falls on the safe side."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("torch", "walkback.guard")):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")).startswith("walkback.")
