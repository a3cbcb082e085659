"""Captured batches folded into figures, one after the other, so that no more than one is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from walkback.errors import BatchError
from walkback.protocol.capture import Capture
from walkback.protocol.sites import Chain
from walkback.registry import DIAGNOSTICS


class Folding:
    """What some diagnostics, all of them where not said, measure on one batch after another."""

    def __init__(self, chain: Chain, diagnostics: Iterable[str] | None = None) -> None:
        self.chain = chain
        self.samples = 0
        self.opening: Capture | None = None
        """The first batch."""
        self._diagnostics = {name: DIAGNOSTICS.load(name) for name in diagnostics or DIAGNOSTICS}
        self.parts: dict[str, Any] = {}
        """What each diagnostic has added up so far, by its name."""

    def add(self, seen: Capture) -> None:
        """Fold one batch in."""
        self.opening = self.opening or seen
        _check_widths(self.opening, seen)
        self.samples += seen.samples
        for name, diagnostic in self._diagnostics.items():
            part = diagnostic.measure(seen)
            self.parts[name] = diagnostic.merge(self.parts[name], part) if name in self.parts else part

    def fields(self) -> dict[str, Any]:
        """Every diagnostic's figures over all batches, as fields of `Measurements`."""
        assert self.opening is not None
        described = dict.fromkeys(self.opening.reduction.describe(tuple(h.shape)) for h in self.opening.hiddens)
        fields: dict[str, Any] = {
            "sites": tuple(map(str, self.chain.taps)),
            "site_numbers": self.chain.numbers,
            "last_site": self.chain.last if self.chain.numbers else None,
            "samples": self.samples,
            "site_reduction": "; ".join(described),
        }
        extra: dict[str, Any] = {}
        for name, part in self.parts.items():
            figures = self._diagnostics[name].figures(part)
            extra |= figures.pop("extra", {})
            fields |= figures
        return fields | ({"extra": extra} if extra else {})


def _check_widths(first: Capture, seen: Capture) -> None:
    """Widths that change between batches cannot be averaged."""
    for site, (before, now) in enumerate(zip(first.grad_vectors, seen.grad_vectors, strict=True)):
        if before.shape[1] != now.shape[1]:
            raise BatchError(
                f"site {site} has the shape {tuple(seen.hiddens[site].shape)} in one batch and "
                f"{tuple(first.hiddens[site].shape)} in the first; gradients of different widths cannot be averaged. "
                "Pad to one length, or pass tokens='class_token'."
            )
