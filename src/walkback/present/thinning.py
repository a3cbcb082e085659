"""Which of many points a picture needs: those that a screen would show, and every one that must not be lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

_PER_BUCKET = 5
"""At most: the lowest, the highest, one without a place, one that fires and one that does not."""


def kept(values: Sequence[float | None], most: int, fires: Sequence[bool], always: Collection[int] = ()) -> list[int]:
    """The numbers of the points to draw, about `most` of them, in order; all where there are no more.

    The course is cut into stretches of equal length. Of each stays the lowest and the highest value, one that is NaN or
    infinite, and, where a diagnostic fires at some points of it and not at others, one of both: so no peak and no
    firing is lost, however short. The first point, the last, and those of `always` stay too; the rest of the room
    goes to points that are evenly spread.
    """
    count = len(values)
    if count <= most:
        return list(range(count))
    stretches = max((most - len(always) - 2) // _PER_BUCKET, 1)
    chosen = {0, count - 1, *always}
    for part in parts(count, stretches):
        chosen.update(_extremes(values, part))
        chosen.update(_changes(fires, part))
    even = (round(i * (count - 1) / (most - 1)) for i in _spread(most))
    for number in even:
        if len(chosen) >= most:
            break
        chosen.add(number)
    return sorted(chosen)


def _spread(count: int) -> list[int]:
    """0 to count − 1 in an order of which every beginning is spread over all of it: by their bits, read backwards."""
    digits = count.bit_length()
    return sorted(range(count), key=lambda number: int(f"{number:0{digits}b}"[::-1], 2))


def _extremes(values: Sequence[float | None], part: range) -> Iterator[int]:
    known = [i for i in part if values[i] is not None]
    finite = [i for i in known if math.isfinite(values[i] or 0.0)]
    if finite:
        yield min(finite, key=lambda i: values[i] or 0.0)
        yield max(finite, key=lambda i: values[i] or 0.0)
    if len(finite) < len(known):
        yield next(i for i in known if not math.isfinite(values[i] or 0.0))


def _changes(fires: Sequence[bool], part: range) -> Iterator[int]:
    here = fires[part.start : part.stop]
    if True in here and False in here:
        yield part.start + here.index(True)
        yield part.start + here.index(False)


def parts(count: int, number: int) -> Iterator[range]:
    """0 to count − 1 in so many stretches, as equal as can be."""
    edges = [round(i * count / number) for i in range(number + 1)]
    return (range(low, high) for low, high in pairwise(edges) if high > low)


def summed_up(
    values: Sequence[float | None], most: int, pick: Callable[[Sequence[float]], float]
) -> list[float | None]:
    """At most so many values, each of which stands for a stretch: one that is not finite, else a pick."""
    if len(values) <= most:
        return list(values)
    stood_for = [_one(values[part.start : part.stop], pick) for part in parts(len(values) - 1, most - 1)]
    return [*stood_for, values[-1]]


def _one(values: Sequence[float | None], pick: Callable[[Sequence[float]], float]) -> float | None:
    known = [value for value in values if value is not None]
    broken = [value for value in known if not math.isfinite(value)]
    return broken[0] if broken else pick(known) if known else None
