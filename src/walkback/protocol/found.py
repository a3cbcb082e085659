"""What is measured beside plain numbers, each a record of its own inside `Measurements`. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from walkback.protocol.pairing import Answered
from walkback.protocol.schema import SCHEMA_VERSION, Counts, Number, Numbers, Record, load_record, read_json


class NullAlignment(Record):
    """Γ under fresh draws of the feedback: what chance alone gives on this network.

    Formula:
        z = (measured Γ − mean over draws) / standard deviation over draws.
    """

    draws: int
    """How many draws of the feedback."""
    site_means: Numbers
    """Mean of Γ over the draws, at each site."""
    site_sds: Numbers
    """Standard deviation over the draws, at each site."""
    site_z: Numbers
    """z at each site."""
    deep_mean: Number
    """Mean over the draws of Γ behind h_0."""
    deep_sd: Number
    """Its standard deviation over the draws."""
    deep_z: Number
    """Its z."""


class Alignment(Record):
    """Γ: the cosine between the credit a_l and the true gradient g_l at each site.

    Formula:
        Γ_l = mean over samples of ⟨a_l, g_l⟩ / (‖a_l‖ ‖g_l‖).

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Caveat:
        Γ is never replaced by 1.0 or 0.0. Where it could not be measured, `unavailable` says why.

    Examples:
        >>> import walkback
        >>> gamma = walkback.Alignment(sites=[1.0, 0.1, 0.2], deep=0.15)
        >>> gamma.deep
        0.15
    """

    sites: Numbers | None = None
    """Γ at each site: the mean over samples of cos(a_l, g_l)."""
    site_medians: Numbers | None = None
    """The median over samples, at each site."""
    deep: Number | None = None
    """The mean of Γ over the sites 1 … L. Site 0 is left out: it alone can carry the mean."""
    orders: dict[str, float] = Field(default_factory=dict)
    """The same cosines aggregated in other valid orders; where they disagree in sign, one number misleads."""
    null: NullAlignment | None = None
    """Γ under fresh draws of the feedback; None where it was not measured."""
    no_null: str = ""
    """Why there is no null, where there is none."""
    neighbours: Numbers | None = None
    """Mean cosine between the credits of neighbouring sites; near 0 for independent feedback."""
    mark: str = ""
    """What a reader must know before using Γ, such as a fired gradient floor."""
    unavailable: str = ""
    """Why Γ was not measured."""


class ReferenceCheck(Record):
    """Which gradient stands for the true one, and how it compares with finite differences of the loss.

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Examples:
        >>> import walkback
        >>> check = walkback.ReferenceCheck(candidate="autograd", passed=True, error=1e-7, directions=16)
        >>> check.passed
        True
    """

    candidate: Literal["autograd", "seen_through", "declared", "none"]
    """`autograd`: as it is. `seen_through`: with the network's own backward passes seen through. `declared`: with
    them as they are declared. `none`: there is none."""
    passed: bool | None = None
    """Whether it is the gradient of the network; None where that could not be checked, or was not to be."""
    error: Number | None = None
    """The largest difference over the directions, relative to what a gradient of that size gives along them."""
    sites: Counts = ()
    """Where finite differences were taken."""
    directions: int = 0
    """How many directions `error` rests on."""
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
    """Which samples a linear readout of each site answers rightly, and which the network does."""

    correct: tuple[Answered, ...] = Field(min_length=1)
    """Which samples the readout of each site h_0 … h_L answers rightly."""
    own: Answered
    """Which samples the network's own head answers rightly."""
    folds: int = Field(ge=2)
    """How many folds the samples were cut into; each readout is fitted on all but one."""
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
    """Of the first epoch."""
    last: Number
    """Of the last epoch."""
    last_epoch: int = Field(ge=1)
    """The number of the last epoch."""
    first_epoch: int = Field(default=1, ge=0, le=1)
    """The number of the first epoch: 1, or 0 in runs that count from 0."""

    @model_validator(mode="after")
    def _in_order(self) -> TrainingLoss:
        if self.last_epoch <= self.first_epoch:
            raise ValueError(f"the last epoch is {self.last_epoch}, and the first is {self.first_epoch}")
        return self

    @property
    def decrease(self) -> float:
        """The loss of the first epoch minus that of the last."""
        return self.first - self.last


class Overlap(Record):
    """How many test samples are, bit for bit, among the training samples."""

    test_samples: int = Field(ge=1)
    """How many test samples there are."""
    train_samples: int = Field(ge=1)
    """How many training samples there are."""
    count: int = Field(ge=0)
    """How many test samples are among the training samples."""
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
        """The share of the test samples that are among the training samples."""
        return self.count / self.test_samples


class UpdateProvenance(Record):
    """Which rule the change of the weights comes from, layer by layer. Made by `walkback.provenance`.

    Every number is a cosine with the real change of the weights, as a mean over a few steps. With the claimed rule, and
    with other random numbers, it is 0 where one of the two changes nothing and the other does. It is None where neither
    changes anything; with the true gradient, where either does not.

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Examples:
        >>> from walkback.protocol.records import UpdateProvenance
        >>> found = UpdateProvenance(
        ...     steps=1, layers=["fc"], hidden=[True], claim="none", optimizer=True, true_gradient=[0.2], repeated=[1.0]
        ... )
        >>> found.true_gradient
        (0.2,)
    """

    schema_version: int = SCHEMA_VERSION
    """The version of the record's format."""
    steps: int = Field(ge=1)
    """How many steps were made again."""
    layers: tuple[str, ...] = Field(min_length=1)
    """The names of the layers that learn."""
    hidden: tuple[bool, ...]
    """Whether a layer comes before the head, which follows the error at the logits under every rule."""
    claim: Literal["credit", "claimed_step", "none"]
    """What said which rule is claimed."""
    optimizer: bool
    """Whether gradients went through the user's own optimizer."""
    claimed: tuple[Number | None, ...] | None = None
    """The cosine with the change by the claimed rule."""
    claimed_range: tuple[tuple[float, float] | None, ...] | None = None
    """The smallest and the largest over the steps, which are not independent: so there is no interval."""
    true_gradient: tuple[Number | None, ...]
    """The cosine with the change by the true gradient."""
    true_gradient_range: tuple[tuple[float, float] | None, ...] | None = None
    """The smallest and the largest over the steps."""
    repeated: tuple[Number | None, ...]
    """The cosine with the same step under other random numbers."""
    repeated_range: tuple[tuple[float, float] | None, ...] | None = None
    """The smallest and the largest over the steps."""
    still: tuple[bool, ...] | None = None
    """Whether the real steps left a layer as it was which the true gradient or the claimed rule changes; None in older
    records, where a layer without a cosine may be one of these."""
    empty_steps: int = Field(default=0, ge=0)
    """How many steps changed no weight at all; they have no part in the cosines."""
    broken_steps: int = Field(default=0, ge=0)
    """How many made NaN or Inf; nor have these."""
    other_optimizer: str = ""
    """What else than the given optimizer, and than plain SGD, the steps of training stepped with."""

    @model_validator(mode="after")
    def _one_for_each_layer(self) -> UpdateProvenance:
        for name in ("hidden", "claimed", "true_gradient", "repeated", "still"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.layers):
                raise ValueError(f"{name} has {len(column)} entries for {len(self.layers)} layers")
        for name in ("claimed", "true_gradient", "repeated"):
            if any(value is not None and abs(value) > 1.0001 for value in getattr(self, name) or ()):
                raise ValueError(f"{name} holds no cosine; expected numbers in [-1, 1]")
        return self

    @classmethod
    def load(cls, path: str | Path) -> UpdateProvenance:
        """Read what `save` wrote.

        Args:
            path: the file.

        Returns:
            The record.

        Raises:
            RecordError: the file is missing, corrupt, or no such record.
        """
        return load_record(cls, read_json(path), str(path))
