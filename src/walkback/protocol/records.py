"""What was measured, how it was read, and the report that holds both: plain numbers, no torch.

`measurements.py` has the numbers, `readings.py` what diagnostics and panels say of them; both can be had from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from walkback.addresses import allow
from walkback.errors import RecordError
from walkback.protocol.found import Alignment as Alignment
from walkback.protocol.found import NullAlignment as NullAlignment
from walkback.protocol.found import Overlap as Overlap
from walkback.protocol.found import Readouts as Readouts
from walkback.protocol.found import ReferenceCheck as ReferenceCheck
from walkback.protocol.found import TrainingLoss as TrainingLoss
from walkback.protocol.found import UpdateProvenance as UpdateProvenance
from walkback.protocol.measurements import Measurements as Measurements
from walkback.protocol.measurements import growth as growth
from walkback.protocol.measurements import per_site as per_site
from walkback.protocol.readings import Interval as Interval
from walkback.protocol.readings import PanelVerdict as PanelVerdict
from walkback.protocol.readings import Reading as Reading
from walkback.protocol.readings import State as State
from walkback.protocol.readings import StoredVerdict as StoredVerdict
from walkback.protocol.schema import SCHEMA_VERSION, load_record, read_json
from walkback.protocol.scores import FrozenBaseline as FrozenBaseline
from walkback.protocol.scores import Score as Score
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.words import TRUSTWORTHY, Outcome, Verdict
from walkback.registry import RENDERERS


class DiagnosticReport(Measurements):
    """Measurements, judged. Made by `walkback.diagnose` or `walkback.judge`."""

    schema_version: int = SCHEMA_VERSION
    method_name: str = ""
    notes: str = ""
    seed: int | None = None
    thresholds: DiagnosticThresholds = Field(default_factory=DiagnosticThresholds)
    readings: tuple[Reading, ...] = ()
    verdict: Verdict = ""
    """In the published words of the April 2026 edition, whichever panel decides."""
    panel: str = ""
    """The panel that decides."""
    verdicts: dict[str, PanelVerdict] = Field(default_factory=dict)
    """Of every panel that the measurements allow, by its name."""
    stored: StoredVerdict | None = None
    """Where the record that this was read from said something else, and what."""
    complete: bool = False
    """Whether every diagnostic of the deciding panel was measured."""
    warnings: tuple[str, ...] = ()
    """Identity checks and caveats: beside the verdict, never part of it."""
    provenance: dict[str, str] = Field(default_factory=dict)
    """Versions, device and precision behind the numbers."""

    @property
    def measurements(self) -> Measurements:
        """The numbers alone, to judge again under other thresholds."""
        return Measurements(**{name: getattr(self, name) for name in Measurements.model_fields})

    @property
    def decision(self) -> PanelVerdict | None:
        """What the deciding panel says; None where nothing was judged."""
        return self.verdicts.get(self.panel)

    @property
    def outcome(self) -> Outcome:
        """`pass`, `fail` or `incomplete`, by the deciding panel."""
        return self.decision.outcome if self.decision is not None else "incomplete"

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The letters behind the outcome."""
        return self.decision.decided_by if self.decision is not None else ()

    @property
    def trustworthy(self) -> bool:
        """Whether the published verdict is the bare word; see `complete` for what it rests on."""
        return self.verdict == TRUSTWORTHY

    def under(self, panel: str) -> DiagnosticReport:
        """The report with another panel deciding: `report.under("june2026").outcome`."""
        from walkback.protocol.judge import under

        allow(panel)
        return under(self, panel)

    def reading(self, letter: str) -> Reading:
        """The reading of one diagnostic, by its letter; a report that was never judged by it raises `RecordError`."""
        for reading in self.readings:
            if reading.letter == letter:
                return reading
        raise RecordError(
            f"the report on {self.method_name or 'a network'} has no reading of ({letter}). Judge it again."
        )

    def __str__(self) -> str:
        return str(RENDERERS.load("brief")(self))

    def _repr_html_(self) -> str:
        return str(RENDERERS.load("notebook")(self))

    def to_text(self) -> str:
        """The whole report as plain text; `str(report)` is its ten lines."""
        return str(RENDERERS.load("text")(self))

    def render(self, renderer: str) -> str:
        """The report as a renderer writes it: `brief`, `text`, `markdown`, `latex`, `html`, `notebook`, or
        one that was added."""
        return str(RENDERERS.named(renderer)(self))

    def to_markdown(self) -> str:
        """The report as Markdown."""
        return str(RENDERERS.load("markdown")(self))

    def to_latex(self) -> str:
        """The report as a booktabs table."""
        return str(RENDERERS.load("latex")(self))

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one self-contained page."""
        from walkback.protocol.schema import write_whole

        return write_whole(path, str(RENDERERS.load("html")(self)))

    @classmethod
    def load(cls, path: str | Path) -> DiagnosticReport:
        """Read a report that `save` wrote."""
        return cls.from_dict(read_json(path), str(path))

    @classmethod
    def from_dict(cls, data: Any, source: str = "the report") -> DiagnosticReport:
        """Validate what `to_dict` gave, and judge it again; another schema version or an unknown field is refused.

        Readings and verdict are of this walkback, under the record's own thresholds: a file may say anything. Where it
        says something else, `stored` holds it.
        """
        from walkback.protocol.again import judge_again

        return judge_again(load_record(cls, data, source))
