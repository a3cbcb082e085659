"""A diagnostic of somebody else's, as an outside package would bring it: the effective rank of h_L, letter e."""

from __future__ import annotations

from typing import Any

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Threshold


class EffectiveRank(Diagnostic):
    """exp of the entropy of the spectrum of h_L: over how many directions the last states are spread."""

    letter = "e"
    title = "effective rank"
    question = "Over how many directions are the last states spread?"
    meaning = "the last states lie along a few directions"
    thresholds = {"rank_floor": Threshold(4.0, "<", "effective rank of h_L", above=0, unit="dims", axis="log")}  # noqa: RUF012
    quantities = (
        Quantity("effective_rank", "effective rank of h_L", unit="dims", axis="log", traced=True),
        Quantity("site_ranks", "rank", per_site=True, axis="log", traced=True),
    )
    needs_gradient = False

    @staticmethod
    def measure(capture: Any) -> Any:
        return capture.trace.hiddens[-1].detach().flatten(1)

    @staticmethod
    def summarise(part: Any) -> dict[str, Any]:
        from torch import linalg

        spectrum = linalg.svdvals(part.double())
        shares = spectrum / spectrum.sum()
        rank = float((-(shares * shares.clamp_min(1e-300).log()).sum()).exp())
        return {"effective_rank": rank}
