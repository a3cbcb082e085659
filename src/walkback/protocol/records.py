"""What was measured, how it was read, and the report that holds both: plain numbers, no torch.

`measurements.py` has the numbers, `readings.py` what diagnostics and panels say of them; both can be had from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

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
from walkback.protocol.schema import SCHEMA_VERSION, load_record, read_json, shortened
from walkback.protocol.scores import FrozenBaseline as FrozenBaseline
from walkback.protocol.scores import Score as Score
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.words import PUBLISHED_FORMS, PUBLISHED_PANEL, Outcome, Verdict, is_published
from walkback.registry import RENDERERS


class DiagnosticReport(Measurements):
    """Measurements, judged. Made by `walkback.diagnose` or `walkback.judge`.

    It has every field of `Measurements` beside its own. `print(report)` shows it in about ten lines.

    Raises:
        InputError: as for `Measurements`.

    Examples:
        >>> import walkback
        >>> measured = walkback.Measurements(residual_norms=[8.0, 900.0], bp_grad_norms=[1e-3, 1e-3])
        >>> report = walkback.judge(measured, method_name="DFA", seed=0)
        >>> report.verdict
        'needs walk-back: residual stream exploded'
        >>> report.reading("a").value
        112.5
        >>> report.under("june2026").decision.words
        'FAIL(D1)'
    """

    schema_version: int = SCHEMA_VERSION
    """The version of the record's format."""
    method_name: str = ""
    """What the report calls the method."""
    notes: str = ""
    """Free text."""
    seed: int | None = None
    """The seed of the run; None where it is not known."""
    thresholds: DiagnosticThresholds = Field(default_factory=DiagnosticThresholds)
    """Where each diagnostic fired."""
    readings: tuple[Reading, ...] = ()
    """One for each diagnostic, in the order of the registry."""
    verdict: Verdict = ""
    """The verdict of the deciding panel, in its words: of `april2026` the published ones, which `verdicts` always has.
    To hold a result to it, assert `outcome`."""
    panel: str = ""
    """The panel that decides."""
    verdicts: dict[str, PanelVerdict] = Field(default_factory=dict)
    """The verdict of every panel that the measurements allow, by its name."""
    stored: StoredVerdict | None = None
    """Where the record that this was read from said something else, and what."""
    complete: bool = False
    """Whether every diagnostic of the deciding panel was measured."""
    warnings: tuple[str, ...] = ()
    """Identity checks and caveats. They stand beside the verdict and are never part of it."""
    provenance: dict[str, str] = Field(default_factory=dict)
    """Versions, device and precision behind the numbers."""

    @model_validator(mode="after")
    def _in_published_words(self) -> DiagnosticReport:
        # Of another panel the words are its own, and of a record of before the published ones.
        if self.panel in ("", PUBLISHED_PANEL) and not is_published(self.verdict):
            raise ValueError(f"verdict is {shortened(self.verdict)}; expected {PUBLISHED_FORMS}")
        return self

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
        """The letters of the diagnostics behind the outcome."""
        return self.decision.decided_by if self.decision is not None else ()

    @property
    def trustworthy(self) -> bool:
        """Whether the deciding panel lets the network pass; `complete` says whether all of it was measured."""
        return self.outcome == "pass"

    def under(self, panel: str) -> DiagnosticReport:
        """The report with another panel deciding.

        Args:
            panel: the name of a panel, such as `june2026`, or its `module:object`.

        Returns:
            A new report, judged from the same measurements.

        Raises:
            UnknownName: there is no such panel.
            InputError: the object behind `panel` cannot be used.
        """
        from walkback.protocol.judge import under

        allow(panel)
        return under(self, panel)

    def reading(self, letter: str) -> Reading:
        """The reading of one diagnostic.

        Args:
            letter: of the diagnostic, such as `a`.

        Returns:
            Its value, state and explanation.

        Raises:
            RecordError: the report has no reading of it.
        """
        for reading in self.readings:
            if reading.letter == letter:
                return reading
        there = ", ".join(f"({reading.letter})" for reading in self.readings) or "none"
        raise RecordError(
            f"the report on {self.method_name or 'a network'} has no reading of ({letter}). It has: {there}."
        )

    def __str__(self) -> str:
        return str(RENDERERS.load("brief")(self))

    def _repr_html_(self) -> str:
        return str(RENDERERS.load("notebook")(self))

    def to_text(self) -> str:
        """The whole report as plain text, at most 100 columns wide.

        Returns:
            Every reading with its interval and explanation, and tables over the sites.
        """
        return str(RENDERERS.load("text")(self))

    def render(self, renderer: str) -> str:
        """The report as a renderer writes it.

        Args:
            renderer: `brief`, `text`, `markdown`, `latex`, `html`, `notebook`, one that was added, or its
                `module:function`.

        Returns:
            What the renderer wrote.

        Raises:
            UnknownName: there is no such renderer.
            MissingLibrary: `html` needs jinja2, of the extra `walkback[html]`.
        """
        return str(RENDERERS.named(renderer)(self))

    def to_markdown(self) -> str:
        """The report as Markdown.

        Returns:
            Headings, lists and tables.
        """
        return str(RENDERERS.load("markdown")(self))

    def to_latex(self) -> str:
        """The report as LaTeX, with booktabs tables.

        Returns:
            A document that compiles as it is.
        """
        return str(RENDERERS.load("latex")(self))

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one self-contained page.

        Args:
            path: the file, in a directory that exists. An old file of that name is replaced.

        Returns:
            The path that was written.

        Raises:
            InputError: the file cannot be written.
            MissingLibrary: jinja2 is not installed; it comes with `walkback[html]`.
        """
        from walkback.protocol.schema import write_whole

        return write_whole(path, str(RENDERERS.load("html")(self)))

    @classmethod
    def load(cls, path: str | Path) -> DiagnosticReport:
        """Read a report that `save` wrote, and judge it again.

        Args:
            path: the file.

        Returns:
            The report; see `from_dict`.

        Raises:
            RecordError: the file is missing, corrupt, or no report that this version reads.
        """
        return cls.from_dict(read_json(path), str(path))

    @classmethod
    def from_dict(cls, data: Any, source: str = "the report") -> DiagnosticReport:
        """Read what `to_dict` returned, and judge it again.

        Readings and verdict are made anew under the record's own thresholds, because a file may say anything of itself.
        Where it says something else, `stored` holds that.

        Args:
            data: the dictionary.
            source: what error messages call it.

        Returns:
            The report.

        Raises:
            RecordError: it has an unknown field, another schema version, or values that no network can have.
        """
        from walkback.protocol.again import judge_again

        return judge_again(load_record(cls, data, source))
