"""How a figure is written: three significant digits, plain from 1e-3 to 1e5, scientific beyond.

One rule for every sentence and every rendering, so that a number in a table is found again in the text by
searching for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from walkback.protocol.json_codec import word_for

ABSENT = "–"
"""What stands where nothing was measured: never an empty cell, never a zero."""

DIGITS = 3
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e5
LEAST_P = 1e-300


def written(value: float | None, digits: int = DIGITS) -> str:
    """A number with this many significant digits: 0.00801, 35800, 4.35e+08; NaN and Infinity as words."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return word_for(value)
    # Rounding comes first: 99999.9 rounds to 1.00e+05 and is no longer in the plain range.
    scientific = f"{value:.{digits - 1}e}"
    rounded = float(scientific)
    if rounded == 0:
        return "0"
    if not _PLAIN_FROM <= abs(rounded) < _PLAIN_BELOW:
        return scientific
    decimals = digits - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(decimals, 0)}f}"


def signed(value: float | None, digits: int = DIGITS) -> str:
    """A figure whose sign carries meaning, so a plus is written too."""
    text = written(value, digits)
    return f"+{text}" if value is not None and math.isfinite(value) and value > 0 else text


def listed(words: Sequence[str]) -> str:
    """Things in a sentence: `(a)`, `(a) and (c)`, `(a), (c) and (d)`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def were(words: Sequence[str]) -> str:
    """The verb that goes with a list: `(a) was`, `(a) and (c) were`."""
    return f"{listed(words)} {'was' if len(words) == 1 else 'were'}"


def p_value(p: float, digits: int = 1) -> str:
    """`p = 0.003`; of one that floating point has lost, `p < 1e-300`: no test finds a p of 0."""
    return f"p = {p:.{digits}g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


def counted(number: int, thing: str) -> str:
    """A number of things: 1 block, 2 blocks."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
