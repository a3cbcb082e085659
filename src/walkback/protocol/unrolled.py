"""Is a module that is called again and again unrolled in time, rather than in depth?"""

from __future__ import annotations

from collections import Counter

from torch import nn

from walkback.protocol.calls import Watched
from walkback.protocol.chains import Run


def unrolled_in_time(watched: Watched, run: Run) -> nn.Module | None:
    """The module in a run that takes a new part of the network's input at each of its calls; None where none does.

    Tied layers are called again and again too, but with what the call before wrote, and the same masks each time.
    """
    calls = Counter(call.module for call in run)
    for module in (module for module, times in calls.items() if times > 1):
        if _takes_new_parts(watched, [call for call in run if call.module is module]):
            return module
    return None


def _takes_new_parts(watched: Watched, calls: Run) -> bool:
    known: set[int] = set()
    begun, stream = -1, watched.made_from(calls[0])
    for place, call in enumerate(calls):
        parts = _outside_parts(watched, begun, call.left, stream)
        if place and not parts - known:
            return False
        known |= parts
        begun = call.left
    return True


def _outside_parts(watched: Watched, begun: int, until: int, stream: set[int]) -> set[int]:
    """What comes from the input, and not by way of the stream, into what was computed in a stretch of time."""
    values = watched.reach.values
    return {
        values[source].signature
        for value in values
        if begun < value.time < until and watched.reach.leads_on(value)
        for source in value.inputs
        if values[source].fed and values[source].floating and source not in stream
    }
