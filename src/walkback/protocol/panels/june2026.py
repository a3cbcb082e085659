"""The panel of June 2026: D1 to D3 of the paper, and the cosine of every layer, which it requires and never judges.

The paper drops (c) and keeps the measurements of (a), (b) and (d). Its thresholds are not stated where they could be
read, so those of April are taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from walkback.protocol.panels.base import Member, Panel
from walkback.protocol.records import Reading
from walkback.protocol.words import NON_FINITE, Outcome
from walkback.source import PAPER, REPOSITORIES


class June2026(Panel):
    """`PASS`, `FAIL(D1+D2)`, or `INCOMPLETE(D3)`."""

    def words(self, outcome: Outcome, readings: Sequence[Reading], letters: Sequence[str]) -> str:
        """In the words of the paper's artifact, which has none for what is missing."""
        named = [self.label(letter) for letter in letters if self.member(letter) is not None]
        if outcome == "fail" and any(reading.reason == NON_FINITE for reading in readings):
            named = [*named, NON_FINITE]
        return "PASS" if outcome == "pass" else f"{outcome.upper()}({'+'.join(named)})"

    def short(self, outcome: Outcome) -> str:
        """In capitals, as the artifact has them."""
        return outcome.upper()


JUNE_2026 = June2026(
    name="june2026",
    title="the paper's protocol, June 2026",
    members=(
        Member("residual_growth", label="D1", title="scale stability", required=True),
        Member("gradient_floor", label="D2", title="reference validity", required=True),
        Member("frozen_margin", label="D3", title="depth utility", required=True),
        Member("layer_cosine", role="informs", label="per-layer cosine", required=True),
    ),
    stops=("a", "b"),
    cites=(
        f"The diagnostics D1 to D3 are the June 2026 edition of the protocol of {PAPER}; {REPOSITORIES}. Their "
        "thresholds are those of its April 2026 edition."
    ),
)
