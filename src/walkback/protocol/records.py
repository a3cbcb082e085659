"""What was measured, how it was read, and the report that holds both: plain numbers, no torch.

`Measurements` is the waist of walkback. Whatever measures (a model, a log, another framework) ends in it;
whatever judges, sweeps, compares or draws starts from it.
"""

from __future__ import annotations

from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from walkback.addresses import allow
from walkback.errors import RecordError
from walkback.protocol.contradictions import contradictions
from walkback.protocol.pairing import Answered
from walkback.protocol.schema import SCHEMA_VERSION, Counts, Number, Numbers, Record, load_record, plain, read_json
from walkback.protocol.scores import Frozen, ScoreNumber, out_of_range
from walkback.protocol.scores import FrozenBaseline as FrozenBaseline
from walkback.protocol.scores import Score as Score
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.words import TRUSTWORTHY, Letter, Outcome, Unit, Verdict
from walkback.registry import RENDERERS


class State(str, Enum):
    """What a reading says. Not measured is not passed."""

    PASS = "PASS"
    FIRE = "FIRE"
    NOT_MEASURED = "NOT_MEASURED"
    UNDECIDED = "UNDECIDED"
    REPORTED = "REPORTED"
    """Measured, by a diagnostic that never fires."""


class Interval(Record):
    """A confidence interval and how it was made."""

    low: Number
    high: Number
    level: Number
    how: str

    def contains(self, value: float) -> bool:
        """Whether the value lies inside, bounds included."""
        return self.low <= value <= self.high


class NullAlignment(Record):
    """Alignment under fresh draws of the feedback: what chance alone gives on this network."""

    draws: int
    site_means: Numbers
    site_sds: Numbers
    site_z: Numbers
    """(measured − null mean) / null sd at each site."""
    deep_mean: Number
    deep_sd: Number
    deep_z: Number


class Alignment(Record):
    """Γ: the cosine between the credit a_l and the true gradient g_l, per site."""

    sites: Numbers | None = None
    """Mean over samples of cos(a_l, g_l) at each site."""
    site_medians: Numbers | None = None
    deep: Number | None = None
    """Mean over sites 1…L: site 0 alone can carry the average."""
    orders: dict[str, float] = Field(default_factory=dict)
    """The same cosines aggregated in other valid orders; where they disagree in sign, one number misleads."""
    null: NullAlignment | None = None
    no_null: str = ""
    """Why there is no null, where there is none."""
    neighbours: Numbers | None = None
    """Mean cosine between the credits of neighbouring sites; near 0 for independent feedback."""
    mark: str = ""
    """What a reader must know before using Γ, such as a fired gradient floor."""
    unavailable: str = ""
    """Why Γ is N/A. It is never replaced by 1.0."""


class ReferenceCheck(Record):
    """Which gradient stands for the true one, and how it compares with finite differences of the loss."""

    candidate: Literal["autograd", "seen_through", "declared", "none"]
    """Autograd's as it is; with backward passes of the network's own seen through; as they are declared."""
    passed: bool | None = None
    """Whether it is the gradient of the network; None where that could not be checked, or was not to be."""
    error: Number | None = None
    """The largest difference over the directions, relative to what a gradient of that size gives along them."""
    sites: Counts = ()
    """Where finite differences were taken."""
    directions: int = 0
    """How many directions the error rests on."""
    kinks_discarded: int = 0
    """How many were left out, because the loss has a kink along them."""
    seen_through: tuple[str, ...] = ()
    """The backward passes that were not taken at their word."""
    kept: tuple[str, ...] = ()
    """The backward passes that were used as declared."""
    twin: bool = False
    """The gradient is that of another network, of the same function."""
    reason: str = ""
    """Why it did not pass, or could not be checked, and what to do."""


class Readouts(Record):
    """Which samples a linear readout of each site answers rightly, fitted without them, and which the network does."""

    correct: tuple[Answered, ...] = Field(min_length=1)
    """Of h_0 … h_L."""
    own: Answered
    """Of the network's own head, on the same samples."""
    folds: int = Field(ge=2)
    widths: Counts
    """How many features each site has."""
    most_width: int = Field(ge=1)
    """What wider features were reduced to, by a fixed random projection."""

    @model_validator(mode="after")
    def _same_samples(self) -> Readouts:
        if len(self.widths) != len(self.correct):
            raise ValueError(f"{len(self.widths)} widths of {len(self.correct)} sites; expected one for each")
        for each in self.correct:
            if fault := each.why_not_paired(self.own):
                raise ValueError(f"a readout and the network were not scored on the same samples: {fault}")
        return self

    @property
    def fitted_share(self) -> float:
        """Of the samples, the share that each readout was fitted on."""
        return 1 - 1 / self.folds

    @property
    def narrowed(self) -> str:
        """Which widths were reduced, in words; empty where none was."""
        most = max(self.widths)
        return f", of {most:,} features projected to {self.most_width}" if most > self.most_width else ""


class Overlap(Record):
    """How many test samples are, bit for bit, among the training samples."""

    test_samples: int = Field(ge=1)
    train_samples: int = Field(ge=1)
    count: int = Field(ge=0)
    same_label: int = Field(ge=0)
    """How many of them have the same label there."""
    examples: tuple[tuple[int, int], ...] = ()
    """The first of them: the place of the test sample, and of the training sample, counted from 0."""

    @model_validator(mode="after")
    def _counts_agree(self) -> Overlap:
        if not max(self.same_label, len(self.examples)) <= self.count <= self.test_samples:
            raise ValueError(f"{self.count} of {self.test_samples} test samples overlap; the counts contradict this")
        return self

    @property
    def share(self) -> float:
        """Of the test samples."""
        return self.count / self.test_samples


class UpdateProvenance(Record):
    """Cosines of the real change of the weights, layer by layer, as means over a few steps; from `provenance`.

    None where the change, or what it is compared with, is zero.
    """

    schema_version: int = SCHEMA_VERSION
    steps: int = Field(ge=1)
    layers: tuple[str, ...] = Field(min_length=1)
    hidden: tuple[bool, ...]
    """Whether a layer comes before the head, which follows the error at the logits under every rule."""
    claim: Literal["credit", "claimed_step", "none"]
    """What said which rule is claimed."""
    optimizer: bool
    """Whether gradients went through the user's own optimizer."""
    claimed: tuple[Number | None, ...] | None = None
    """With the change by the claimed rule."""
    claimed_range: tuple[tuple[float, float] | None, ...] | None = None
    """The smallest and the largest over the steps, which are not independent: so there is no interval."""
    true_gradient: tuple[Number | None, ...]
    """With the change by the true gradient."""
    true_gradient_range: tuple[tuple[float, float] | None, ...] | None = None
    repeated: tuple[Number | None, ...]
    """With the same step under other random numbers."""
    repeated_range: tuple[tuple[float, float] | None, ...] | None = None

    @model_validator(mode="after")
    def _one_for_each_layer(self) -> UpdateProvenance:
        for name in ("hidden", "claimed", "true_gradient", "repeated"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.layers):
                raise ValueError(f"{name} has {len(column)} entries for {len(self.layers)} layers")
        for name in ("claimed", "true_gradient", "repeated"):
            if any(value is not None and abs(value) > 1.0001 for value in getattr(self, name) or ()):
                raise ValueError(f"{name} holds no cosine; expected numbers in [-1, 1]")
        return self

    @classmethod
    def load(cls, path: str | Path) -> UpdateProvenance:
        """Read what `save` wrote."""
        return load_record(cls, read_json(path), str(path))


class Measurements(Record):
    """The numbers that the protocol judges, at the sites h_0 … h_L. What is None was not measured.

    Gradients are in the published convention: of a loss averaged over 128 samples, whatever the batches
    were. Built by `diagnose`, from a log, or by hand from lists or arrays:

        Measurements(residual_norms=[8.7, 8.8], bp_grad_norms=[8e-3, 8e-3], headline_acc=0.61)
    """

    sites: tuple[str, ...] | None = None
    """What each site is in the network."""
    site_numbers: Counts | None = None
    """Which of the network's sites these are; None where they are all of them."""
    last_site: int | None = Field(default=None, ge=0)
    """The number of the network's last site, where not all were measured."""
    site_reduction: str | None = None
    """How a site of shape (B, …) became one vector per sample."""
    samples: int | None = Field(default=None, ge=0)

    residual_norms: Numbers | None = None
    """Median over samples of ‖h_l‖₂ at each site."""
    residual_norm_intervals: tuple[Interval, ...] | None = None
    """Simultaneous over the sites."""

    bp_grad_norms: Numbers | None = None
    """Median over samples of ‖g_l‖₂ at each site."""
    bp_grad_norm_intervals: tuple[Interval, ...] | None = None
    error_size: Number | None = None
    """Median over samples of ‖∂ℓ/∂logits‖₂."""
    scale_free_gradients: Numbers | None = None
    """Median over samples of ‖h_l‖·‖∂ℓ/∂h_l‖ / ‖∂ℓ/∂logits‖ at each site."""
    reference_fidelity: Numbers | None = None
    """Mean cosine between the working-precision gradient and the fp64 one at each site."""
    no_fidelity: str = ""
    """Why the reference fidelity was not measured."""
    reference_check: ReferenceCheck | None = None
    """Where the gradient comes from, and whether it is that of the network."""

    stability_layer: int | None = Field(default=None, ge=0)
    """The site at which (c) is judged."""
    cross_batch_stability: Number | None = None
    """Mean cosine over all pairs of 128-sample group-mean gradients at that site."""
    cross_batch_stability_interval: Interval | None = None
    site_stabilities: Numbers | None = None
    """The same at every site."""
    drift_shares: Numbers | None = None
    """ρ = ‖E g‖² / E‖g‖² at each site, from pairs of distinct samples."""
    drift_share_intervals: tuple[Interval, ...] | None = None
    groups: int | None = Field(default=None, ge=0)
    """How many whole groups of 128 samples (c) rests on."""

    headline_acc: ScoreNumber | None = None
    headline_samples: int | None = Field(default=None, ge=1)
    """Independent of each other, such as images or sequences: the interval of (d) rests on these."""
    headline_answers: int | None = Field(default=None, ge=1)
    """How many answers the accuracy is over, where a sample has several, as a sequence of tokens has."""
    perplexity: Number | None = None
    """Of language models: exp of the mean cross-entropy over all scored tokens, on the batches."""
    tokens: int | None = Field(default=None, ge=1)
    """How many scored tokens the perplexity is over; `samples` counts sequences then."""
    headline_score: Score | None = None
    """The headline in another unit than accuracy."""
    frozen_baseline_acc: ScoreNumber | None = None
    frozen_baseline_samples: int | None = Field(default=None, ge=1)
    frozen_baseline_answers: int | None = Field(default=None, ge=1)
    frozen_baseline_score: Score | None = None
    """The frozen baseline in another unit; where it is given, (d) is judged in that."""
    frozen: Frozen | None = None
    """What the baseline froze; None where that is not known."""
    headline_correct: Answered | None = None
    """Which samples the network answers rightly, in their order: of the headline where it says so, else of the
    batches."""
    frozen_baseline_correct: Answered | None = None
    """Which samples the frozen baseline answers rightly."""
    random_baseline_acc: ScoreNumber | None = None
    """Of a second baseline, whose blocks were drawn at random with the norms of the trained ones."""
    random_baseline_samples: int | None = Field(default=None, ge=1)
    random_baseline_correct: Answered | None = None

    classes: int | None = None
    """How many an answer is chosen from: guessing is right once in that many. Of language models, the tokens."""

    nonfinite_hiddens: Counts | None = None
    """How many samples have a NaN or Inf in h_l, at each site."""
    nonfinite_grads: Counts | None = None
    nonfinite_logits: int | None = None

    alignment: Alignment | None = None
    perturbation_rho: Numbers | None = None
    """Correlation of ⟨a_l, εv⟩ with the change of the loss over random directions v, ε = 1e-3, at each site."""
    perturbation_rho_intervals: tuple[Interval, ...] | None = None
    scaled_rho: Numbers | None = None
    """The same with a step in proportion to the stream, and credit of RMS 1 in each sample."""
    scaled_rho_intervals: tuple[Interval, ...] | None = None
    nudge: Numbers | None = None
    """Mean change of the loss by a step of 0.01 against the credit, at each site."""
    nudge_intervals: tuple[Interval, ...] | None = None
    functional_samples: int | None = Field(default=None, ge=1)
    """On how many samples those rest."""
    no_functional: str = ""
    """Why they were not measured, where they were asked for."""
    readouts: Readouts | None = None
    """Linear readouts of every site, cross-validated on the batches."""
    no_readouts: str = ""
    """Why there are none, where they were asked for."""
    total_growth: Number | None = None
    """Median over samples of ‖h_L‖/‖h_0‖, over all tokens."""
    total_growth_interval: Interval | None = None
    growth_from_init: Numbers | None = None
    """Median over samples of ‖h_l‖ against the same network before training, over all tokens, at each site."""
    growth_from_init_intervals: tuple[Interval, ...] | None = None
    """Simultaneous over the sites."""
    moved_blocks: tuple[str, ...] = ()
    """The blocks that hold parameters."""
    block_movement: Numbers | None = None
    """‖W − W_0‖/‖W_0‖ of each of them."""
    stem_movement: Number | None = None
    head_movement: Number | None = None
    no_initial: str = ""
    """Why there is no growth from init, where the network before training is known."""
    gradient_per_error: Number | None = None
    """Median over samples of ‖∂ℓ/∂h_L‖/‖∂ℓ/∂logits‖, divided by 128 as ‖g‖ is."""
    gradient_per_error_interval: Interval | None = None
    overlap: Overlap | None = None
    """Of the test samples with the training samples."""
    updates: UpdateProvenance | None = None
    """Which rule the change of the weights comes from."""
    extra: dict[str, Annotated[float | tuple[float, ...], BeforeValidator(plain)]] = Field(default_factory=dict)
    """Quantities that are no field of this record, by name: those of diagnostics beyond walkback's own."""

    def value_of(self, name: str) -> Any:
        """A quantity by its name, whether it is a field or among `extra`; None where it was not measured."""
        return getattr(self, name) if name in Measurements.model_fields else self.extra.get(name)

    @model_validator(mode="after")
    def _sites_agree(self) -> Measurements:
        lengths = {name: len(value) for name in per_site() if isinstance(value := self.value_of(name), tuple)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"one figure per site was expected, but the numbers of sites differ: {lengths}")
        count = next(iter(lengths.values()), None)
        if count == 0:
            raise ValueError("no sites: expected the figures of h_0 … h_L")
        if count is not None and self.stability_layer is not None and self.stability_layer >= count:
            raise ValueError(f"stability_layer {self.stability_layer} is not one of the {count} sites")
        for name in ("headline_acc", "frozen_baseline_acc", "random_baseline_acc"):
            if fault := out_of_range(name, getattr(self, name)):
                raise ValueError(fault)
        return self

    @property
    def block_growths(self) -> tuple[float, ...] | None:
        """‖h_l‖ / ‖h_{l−1}‖ of each block, as a ratio of medians; the geometric mean where sites were left out."""
        if self.residual_norms is None:
            return None
        ratios = [growth(before, after) for before, after in pairwise(self.residual_norms)]
        return tuple(ratio ** (1 / gap) for ratio, gap in zip(ratios, self.site_gaps, strict=True))

    @property
    def site_gaps(self) -> tuple[int, ...]:
        """How many blocks lie between neighbours among the measured sites: 1 each where none was left out."""
        if self.site_numbers is None:
            return (1,) * (len(self.residual_norms or ()) - 1)
        return tuple(after - before for before, after in pairwise(self.site_numbers))

    @property
    def max_per_block_growth(self) -> float | None:
        """The largest growth of any block; NaN where any growth is NaN."""
        growths = self.block_growths
        if not growths:
            return None
        return next((g for g in growths if g != g), max(growths))

    @model_validator(mode="after")
    def _can_be_true(self) -> Measurements:
        for contradiction in contradictions(self):
            raise ValueError(contradiction)
        return self


def per_site() -> tuple[str, ...]:
    """The names that hold one entry per site."""
    from walkback.protocol.diagnostics.known import quantities

    declared = [q for q in quantities().values() if q.per_site and q.name != "alignment"]
    return ("sites", "site_numbers", *(q.name for q in declared), *(q.interval for q in declared if q.interval))


def growth(before: float, after: float) -> float:
    """after / before, where a stream that stays at zero has not grown."""
    if before == 0:
        return 1.0 if after == 0 else (after if after != after else float("inf"))
    return after / before


class Reading(Record):
    """One diagnostic's word on one network."""

    letter: Letter
    """Of the diagnostic: (a) … (d) are those of the published protocol."""
    name: str
    state: State
    figure: Number | None = None
    unit: Unit = ""
    comparison: Literal[">", "<"] | None = None
    """The reading fires when `figure comparison threshold` holds."""
    threshold: Number | None = None
    site: int | None = None
    """The site that decides, where one does."""
    interval: Interval | None = None
    fragile: bool = False
    """The interval crosses the threshold: another sample could read the other way."""
    reason: str = ""
    """What a firing adds to the verdict."""
    case: str = ""
    """Which of several causes a firing has, where the diagnostic can tell them apart."""
    sentence: str = ""
    """What this reading means, for a reader who does not know the protocol."""


class PanelVerdict(Record):
    """What a panel makes of the readings."""

    panel: str
    version: int
    outcome: Outcome
    words: str
    """In the panel's own words, such as `needs walk-back: …` or `FAIL(D1+D2)`."""
    decided_by: tuple[str, ...] = ()
    """The letters behind the outcome: of what fired, of what is missing, or of all that passed."""
    warned_by: tuple[str, ...] = ()
    """The letters that fired and, in this panel, warn only."""


class StoredVerdict(Record):
    """What a record said of itself, where its measurements come to something else when they are judged again."""

    verdict: str
    version: str = ""
    """Of the walkback that stored it; empty where the record does not say."""
    differs: tuple[str, ...] = ()
    """In which readings: `(a) PASS there, FIRE here`."""


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
        return str(RENDERERS.load("text")(self))

    def render(self, renderer: str) -> str:
        """The report as a renderer writes it: `text`, `markdown`, `latex`, `html`, or one that was added."""
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
