"""A diagnostic in a panel: what it does there. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from walkback.protocol.diagnostics.known import letters
from walkback.protocol.readings import Reading, State
from walkback.protocol.words import NON_FINITE
from walkback.registry import DIAGNOSTICS

Role = Literal["decides", "warns", "informs"]
"""What a firing does: it fails the network; it is remarked on; it is shown."""


@dataclass(frozen=True)
class Member:
    """A diagnostic in a panel, with its role there.

    Examples:
        >>> import walkback
        >>> walkback.Member("residual_growth", role="warns").letter
        'a'
    """

    diagnostic: str
    """Its name in the registry, or `module:Class`."""
    role: Role = "decides"
    """What a firing does: `decides` fails the network, `warns` is remarked on, `informs` is only shown."""
    label: str = ""
    """What the panel calls it, such as `D1`; its letter in brackets where none is given."""
    title: str = ""
    """Its title in this panel, where that is not the diagnostic's own."""
    required: bool = False
    """Without it the verdict is incomplete."""
    joined: str = ""
    """Members that are joined under one name decide together: they fire where all of them do, and pass where one does;
    only where neither is so are those that were not measured missing."""
    sure: bool = False
    """Its firing counts only where the whole interval lies beyond the threshold."""

    def fires(self, reading: Reading) -> bool:
        """Whether a reading of its diagnostic counts as a firing.

        Args:
            reading: of that diagnostic.

        Returns:
            True where it fires, and, for a member that must be `sure`, its whole interval does.
        """
        certain = not self.sure or (reading.interval is not None and not reading.fragile)
        return reading.state is State.FIRE and (certain or reading.reason == NON_FINITE)

    @property
    def letter(self) -> str:
        """The letter of its diagnostic."""
        known = letters().get(self.diagnostic)
        return known if known is not None else str(DIAGNOSTICS.named(self.diagnostic).letter)
