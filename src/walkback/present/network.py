"""One network as renderings of several show it: its report, its course if that is on record, and what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from walkback.present.outline import Facts, title
from walkback.present.plain import NAME_LENGTH, middle_out
from walkback.protocol.records import DiagnosticReport
from walkback.watch.trail import Trail


@dataclass(frozen=True)
class Network:
    """A report with what surrounds it; all but the report may be missing."""

    report: DiagnosticReport
    moments: Trail = field(default_factory=Trail)
    """Its course, judged at every measured moment; (d) against the baseline at the same epoch."""
    frozen_accuracies: Sequence[float | None] = ()
    """Of its matched frozen baseline, one for each moment."""
    about: Sequence[tuple[str, Facts]] = ()
    """Headed lists: its configuration, and the command and versions that made it."""
    run_id: str = ""
    baseline_id: str = ""
    """The run that (d) compares it with."""
    run: Mapping[str, Any] | None = None
    """The record of the run behind it, as `result.json` holds it."""
    options: Mapping[str, Any] | None = None
    """Of its method, as the row of its audit has them; None where it is of no audit."""
    recorded: str = ""
    """The label of that row, where the report has the name that readers know."""

    @property
    def method(self) -> str:
        """The method, as its rows are headed."""
        return middle_out(self.report.method_name, NAME_LENGTH) or "unnamed"

    @property
    def name(self) -> str:
        """The method and the seed."""
        return title(self.report)

    def series(self, figure_name: str) -> list[float | None]:
        """One figure at every moment; see `trail.FIGURES`."""
        return self.moments.series(figure_name)

    @cached_property
    def positions(self) -> list[float]:
        """The epochs (where there are none: the steps, or the count) of the moments."""
        return self.moments.positions()

    @cached_property
    def first_fired(self) -> dict[str, int]:
        """Which moment each diagnostic first fires at; the untrained network at epoch 0 is passed over."""
        letters = sorted({letter for letters in self.moments.fired_letters() for letter in letters})
        firsts = {letter: self._first(self.moments.fired(letter)) for letter in letters}
        return {letter: number for letter, number in firsts.items() if number is not None}

    def _first(self, fires: Sequence[bool]) -> int | None:
        moments = enumerate(zip(fires, self.positions, strict=True))
        return next((number for number, (fired, at) in moments if fired and at > 0), None)


def by_method(networks: Sequence[Network]) -> dict[str, list[Network]]:
    """The networks of each method, in the order in which the methods appear."""
    groups: dict[str, list[Network]] = {}
    for network in networks:
        groups.setdefault(network.method, []).append(network)
    return groups
