"""One network as renderings of several show it: its report, its course if that is on record, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from walkback.present.outline import Facts, title
from walkback.present.plain import NAME_LENGTH, middle_out
from walkback.present.traces import FIGURES
from walkback.protocol.records import DiagnosticReport, State
from walkback.watch.summary import Moment


@dataclass(frozen=True)
class Network:
    """A report with what surrounds it; all but the report may be missing."""

    report: DiagnosticReport
    moments: Sequence[Moment] = ()
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

    @property
    def method(self) -> str:
        """The method, as its rows are headed."""
        return middle_out(self.report.method_name, NAME_LENGTH) or "unnamed"

    @property
    def name(self) -> str:
        """The method and the seed."""
        return title(self.report)

    def series(self, figure_name: str) -> list[float | None]:
        """One figure at every moment; see `traces.FIGURES`."""
        read: Callable[[DiagnosticReport], float | None] = FIGURES[figure_name]
        return [read(moment.report) for moment in self.moments]

    @property
    def positions(self) -> list[float]:
        """The epochs (where there are none: the steps, or the count) of the moments."""
        known = [moment.at.position for moment in self.moments]
        return [float(at) if at is not None else float(i) for i, at in enumerate(known)]

    @cached_property
    def first_fired(self) -> dict[str, int]:
        """Which moment each diagnostic first fires at; the untrained network at epoch 0 is passed over."""
        found: dict[str, int] = {}
        for number, (at, moment) in enumerate(zip(self.positions, self.moments, strict=True)):
            for reading in moment.report.readings if at > 0 else ():
                if reading.state is State.FIRE:
                    found.setdefault(reading.letter, number)
        return dict(sorted(found.items()))


def by_method(networks: Sequence[Network]) -> dict[str, list[Network]]:
    """The networks of each method, in the order in which the methods appear."""
    groups: dict[str, list[Network]] = {}
    for network in networks:
        groups.setdefault(network.method, []).append(network)
    return groups
