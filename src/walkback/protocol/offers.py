"""What to pass where the blocks are a matter of choice: only arguments that were tried and work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import nn

from walkback.errors import InputError
from walkback.protocol.block_names import Selection, pattern_of
from walkback.protocol.calls import Call, Watched
from walkback.protocol.chains import Run, innermost
from walkback.protocol.skips import has_skip_around, is_head

MOST_OFFERS = 6


def pattern_of_calls(watched: Watched, run: Run) -> str:
    """A `blocks=` argument for these calls: globs where they fit, `#2` where not every call of a module is meant."""
    names = list(dict.fromkeys(call.name for call in run))
    pattern = pattern_of(names, watched.names.values())
    if all(sum(c.module is call.module for c in run) == watched.visits[call.module] for call in run):
        return pattern
    numbers = {call.nth + 1 for call in run}
    if len(numbers) == 1:
        return ",".join(f"{part}#{min(numbers)}" for part in pattern.split(","))
    return ",".join(watched.label(call) for call in run)


class Offers:
    """The `blocks=` arguments that an error can name."""

    def __init__(self, model: nn.Module, watched: Watched, works: Callable[[Run], object]) -> None:
        self.model, self.watched, self.works = model, watched, works

    def of(self, runs: Sequence[Run]) -> str:
        """`blocks='left.*' (3 blocks); blocks='right.*' (3 blocks)`, and how many more there are."""
        tried = list(dict.fromkeys(self._offer(run) for run in self._some(runs)))
        listed = "; ".join(offer for offer in tried if offer)
        more = len(runs) - MOST_OFFERS
        return f"{listed}; and {more} more" if more > 0 and listed else listed

    def _some(self, runs: Sequence[Run]) -> list[Run]:
        """The first ones and the last."""
        return [*runs[: MOST_OFFERS - 1], runs[-1]] if len(runs) > MOST_OFFERS else list(runs)

    def _offer(self, run: Run) -> str:
        pattern = pattern_of_calls(self.watched, run)
        try:
            selection = Selection.of(self.model, pattern)
            again = [call for call in self.watched.calls if selection.takes(call.module, call.nth)]
            if again != run:
                return ""
            self.works(run)
        except InputError:
            return ""
        return f"blocks={pattern!r} ({len(run)} block{'s' if len(run) > 1 else ''})"

    def instead(self, candidates: Sequence[Call]) -> list[Run]:
        """What may be taken where no chain shows: all layers but the last, where each is computed from the one before,
        whatever else it reads, as in a U-Net; and modules that may each be the only block."""
        calls = [call for call in candidates if call.has_matrix and self.watched.leads_on(call)]
        calls = [call for call in calls if not call.makes_weights]
        layers = innermost(calls)
        around = [call for call in calls if call not in layers]
        run = layers[:-1] if layers and is_head(self.watched, layers[-1]) else layers
        linked = all(self.watched.leads_to(before, after) for before, after in pairwise(run))
        whole = [run] if linked and len(run) > 1 and not around else []
        return [*whole, *([call] for call in around or self._singles(layers))]

    def _singles(self, layers: Run) -> Run:
        """Layers with a skip around, or any layer but the last."""
        spine = [v.number for v in self.watched.reach.passages(layers[0].written.value)] if layers else []
        beside = [call for call in layers if call.written.value.number not in spine]
        branches = [call for call in beside if has_skip_around(self.watched, spine, call)]
        return branches or layers[:-1]
