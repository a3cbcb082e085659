"""What a credit function gives, checked, and the same under fresh draws of its feedback."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from walkback.errors import CreditError
from walkback.jax.capture import Capture
from walkback.jax.numbers import Array
from walkback.jax.precision import host
from walkback.protocol.sizes import NULL_SEED

CreditFunction = Callable[[Sequence[Any], Any, Any], Sequence[Any]]
"""(hiddens, logits, targets) → one credit per site, such that h_l should move along −a_l.

Three optional attributes say more: `redraw(key)` returns the same function with fresh feedback, for the null;
`independent_feedback = True` promises that the feedback of different sites is drawn independently; `no_null` says in a
sentence why there is no null.
"""


def require_credit(credit: Any) -> CreditFunction:
    """Refuse what cannot be called with hiddens, logits and targets."""
    if not callable(credit):
        raise CreditError(
            f"credit is {type(credit).__name__}; expected a function of (hiddens, logits, targets) that returns one "
            "array per site."
        )
    try:
        inspect.signature(credit).bind(None, None, None)
    except TypeError as misfit:
        raise CreditError(
            f"credit= cannot be called with (hiddens, logits, targets): {misfit}. Expected a function of these three "
            "that returns one array per site."
        ) from None
    except ValueError:  # it has no signature to look at
        pass
    return credit  # type: ignore[no-any-return]


def credits_for(credit: CreditFunction, seen: Capture) -> list[Array]:
    """The credit of a batch, one array for each site and shaped like it; anything else is refused."""
    # Copies on the device: NumPy arrays could be written to, and other numbers rest on them.
    hiddens = [jnp.asarray(hidden) for hidden in seen.hiddens]
    given = credit(hiddens, jnp.asarray(seen.logits), jnp.asarray(seen.targets))
    if not isinstance(given, Sequence) or len(given) != len(hiddens):
        got = f"{len(given)}" if isinstance(given, Sequence) else type(given).__name__
        raise CreditError(
            f"the credit function gave {got} for {len(hiddens)} sites; expected a list with one array for each of "
            f"h_0 … h_{len(hiddens) - 1}."
        )
    return [_checked(each, hidden.shape, site) for site, (each, hidden) in enumerate(zip(given, hiddens, strict=True))]


def _checked(given: Any, shape: tuple[int, ...], site: int) -> Array:
    array = host(given) if hasattr(given, "shape") else None
    if array is None or array.shape != shape or array.dtype.kind == "c":
        got = f"{array.dtype} of shape {array.shape}" if array is not None else type(given).__name__
        raise CreditError(
            f"the credit for site {site} is {got}; expected a real array of the shape of the site, {shape}: one row "
            "per sample."
        )
    return array


def fresh_draws(credit: CreditFunction, count: int) -> list[CreditFunction]:
    """The function under `count` fresh draws of its feedback; empty where it has none to draw."""
    redraw = getattr(credit, "redraw", None)
    if redraw is None or not count:
        return []
    keys = jax.random.split(jax.random.PRNGKey(NULL_SEED), count)
    return [require_credit(redraw(keys[draw])) for draw in range(count)]


def same_as(credits: Array, first: Array, size: np.float64) -> bool:
    """Whether every sample's credit, (B, d), equals the first one's of that size, to rounding."""
    apart = np.linalg.norm(credits.astype(np.float64) - first, axis=1)
    return bool((apart <= 1e-6 * size).all())
