"""What is measured beside plain numbers, each a record of its own inside `Measurements`. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from walkback.protocol.pairing import Answered
from walkback.protocol.schema import SCHEMA_VERSION, Counts, Number, Numbers, Record, load_record, read_json


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


class TrainingLoss(Record):
    """The mean training loss of the first epoch of a run, and of the last that is known."""

    first: Number
    last: Number
    last_epoch: int = Field(ge=1)
    first_epoch: int = Field(default=1, ge=0, le=1)
    """1, or 0 in runs that count from 0."""

    @model_validator(mode="after")
    def _in_order(self) -> TrainingLoss:
        if self.last_epoch <= self.first_epoch:
            raise ValueError(f"the last epoch is {self.last_epoch}, and the first is {self.first_epoch}")
        return self

    @property
    def decrease(self) -> float:
        """Of the first epoch minus that of the last."""
        return self.first - self.last


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
