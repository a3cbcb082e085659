"""The waist of walkback: whatever measures ends in `Measurements`, and whatever judges starts from it. No torch."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from walkback.protocol.contradictions import contradictions
from walkback.protocol.found import Alignment, Overlap, Readouts, ReferenceCheck, TrainingLoss, UpdateProvenance
from walkback.protocol.pairing import Answered
from walkback.protocol.readings import Interval
from walkback.protocol.schema import Counts, Number, Numbers, Record, plain
from walkback.protocol.scores import Frozen, Score, ScoreNumber, out_of_range
from walkback.protocol.wording import counted


class Measurements(Record):
    """The numbers that the protocol judges, at the sites h_0 … h_L. What is None was not measured.

    `diagnose` and `replay` make one; it can also be made by hand, from lists or arrays. Norms, cosines and the like
    have one entry for each site. Gradients are in the published convention: of a loss averaged over 128 samples,
    whatever the batches were.

    Raises:
        InputError: a field is unknown, sites differ in number, or the numbers contradict each other.

    Examples:
        >>> import walkback
        >>> measured = walkback.Measurements(residual_norms=[8.0, 9.0, 18.0], bp_grad_norms=[1e-3] * 3)
        >>> measured.max_per_block_growth
        2.0
    """

    sites: tuple[str, ...] | None = None
    """What each site is in the network."""
    site_numbers: Counts | None = None
    """Which of the network's sites these are; None where they are all of them."""
    last_site: int | None = Field(default=None, ge=0)
    """The number of the network's last site, where not all were measured."""
    site_reduction: str | None = None
    """How a site of shape (B, …) became one vector per sample."""
    site_features: Counts | None = None
    """How many features a linear readout of each site has: of tokens and images after they were pooled."""
    samples: int | None = Field(default=None, ge=0)
    """How many samples were measured."""

    residual_norms: Numbers | None = None
    """Median over samples of ‖h_l‖₂ at each site."""
    residual_norm_intervals: tuple[Interval, ...] | None = None
    """Their intervals, simultaneous over the sites."""

    bp_grad_norms: Numbers | None = None
    """Median over samples of ‖g_l‖₂ at each site."""
    bp_grad_norm_intervals: tuple[Interval, ...] | None = None
    """Their intervals, simultaneous over the sites."""
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
    """Its interval."""
    site_stabilities: Numbers | None = None
    """The same at every site."""
    drift_shares: Numbers | None = None
    """ρ = ‖E g‖² / E‖g‖² at each site, from pairs of distinct samples."""
    drift_share_intervals: tuple[Interval, ...] | None = None
    """Their intervals."""
    groups: int | None = Field(default=None, ge=0)
    """How many whole groups of 128 samples (c) rests on."""

    headline_acc: ScoreNumber | None = None
    """The accuracy to defend, in [0, 1]."""
    headline_samples: int | None = Field(default=None, ge=1)
    """Over how many samples; they are independent of each other, such as images or sequences. The interval of (d)
    rests on them."""
    headline_answers: int | None = Field(default=None, ge=1)
    """How many answers the accuracy is over, where a sample has several, as a sequence of tokens has."""
    perplexity: Number | None = None
    """Of language models: exp of the mean cross-entropy over all scored tokens, on the batches."""
    tokens: int | None = Field(default=None, ge=1)
    """How many scored tokens the perplexity is over; `samples` counts sequences then."""
    headline_score: Score | None = None
    """The headline in another unit than accuracy."""
    frozen_baseline_acc: ScoreNumber | None = None
    """The accuracy of the frozen baseline, in [0, 1]."""
    frozen_baseline_samples: int | None = Field(default=None, ge=1)
    """Over how many independent samples."""
    frozen_baseline_answers: int | None = Field(default=None, ge=1)
    """Over how many answers, where a sample has several."""
    frozen_baseline_score: Score | None = None
    """The frozen baseline in another unit; where it is given, (d) is judged in that."""
    frozen: Frozen | None = None
    """What the baseline froze; None where that is not known."""
    headline_correct: Answered | None = None
    """Which samples the network answers rightly, in their order: of the headline where it says so, else of the
    batches."""
    counted_correct: Answered | None = None
    """Which samples of the batches the network answers rightly, where `headline_correct` is a list that was claimed."""
    frozen_baseline_correct: Answered | None = None
    """Which samples the frozen baseline answers rightly."""
    random_baseline_acc: ScoreNumber | None = None
    """Of a second baseline, whose blocks were drawn at random with the norms of the trained ones."""
    random_baseline_samples: int | None = Field(default=None, ge=1)
    """Over how many independent samples."""
    random_baseline_correct: Answered | None = None
    """Which samples that baseline answers rightly."""

    is_baseline: bool = False
    """Whether the network is itself a frozen baseline, to which (d) does not apply."""

    classes: int | None = None
    """How many an answer is chosen from: guessing is right once in that many. Of language models, the tokens."""

    nonfinite_hiddens: Counts | None = None
    """How many samples have a NaN or Inf in h_l, at each site."""
    nonfinite_grads: Counts | None = None
    """How many samples have a NaN or Inf in g_l, at each site."""
    nonfinite_logits: int | None = None
    """How many samples have a NaN or Inf in their logits."""

    alignment: Alignment | None = None
    """Γ, the cosine of the credit with the gradient."""
    perturbation_rho: Numbers | None = None
    """Correlation of ⟨a_l, εv⟩ with the change of the loss over random directions v, ε = 1e-3, at each site."""
    perturbation_rho_intervals: tuple[Interval, ...] | None = None
    """Their intervals."""
    perturbation_rho_mean_interval: Interval | None = None
    """The interval of the mean over the sites behind h_0."""
    scaled_rho: Numbers | None = None
    """The same with a step in proportion to the stream, and credit of RMS 1 in each sample."""
    scaled_rho_intervals: tuple[Interval, ...] | None = None
    """Their intervals."""
    scaled_rho_mean_interval: Interval | None = None
    """The interval of the mean over the sites behind h_0."""
    nudge: Numbers | None = None
    """Mean change of the loss by a step of 0.01 against the credit, at each site."""
    nudge_intervals: tuple[Interval, ...] | None = None
    """Their intervals."""
    nudge_mean_interval: Interval | None = None
    """The interval of the mean over the sites behind h_0."""
    unit_nudge: Numbers | None = None
    """The same by credit of RMS 1 in each sample."""
    unit_nudge_intervals: tuple[Interval, ...] | None = None
    """Their intervals."""
    unit_nudge_mean_interval: Interval | None = None
    """The interval of the mean over the sites behind h_0."""
    functional_samples: int | None = Field(default=None, ge=1)
    """How many samples ρ and nudge rest on."""
    no_functional: str = ""
    """Why ρ and nudge were not measured, where they were asked for."""
    readouts: Readouts | None = None
    """Linear readouts of every site, cross-validated on the batches."""
    no_readouts: str = ""
    """Why there are none, where they were asked for."""
    total_growth: Number | None = None
    """Median over samples of ‖h_L‖/‖h_0‖, over all tokens."""
    total_growth_interval: Interval | None = None
    """Its interval."""
    growth_from_init: Numbers | None = None
    """Median over samples of ‖h_l‖ against the same network before training, over all tokens, at each site."""
    growth_from_init_intervals: tuple[Interval, ...] | None = None
    """Simultaneous over the sites."""
    moved_blocks: tuple[str, ...] = ()
    """The blocks that hold parameters."""
    block_movement: Numbers | None = None
    """‖W − W_0‖/‖W_0‖ of each of them."""
    stem_movement: Number | None = None
    """‖W − W_0‖/‖W_0‖ of the stem."""
    head_movement: Number | None = None
    """‖W − W_0‖/‖W_0‖ of the head."""
    no_initial: str = ""
    """Why there is no growth from init, where the network before training is known."""
    gradient_per_error: Number | None = None
    """Median over samples of ‖∂ℓ/∂h_L‖/‖∂ℓ/∂logits‖, divided by 128 as ‖g‖ is."""
    gradient_per_error_interval: Interval | None = None
    """Its interval."""
    training_loss: TrainingLoss | None = None
    """The mean training loss of the first and the last epoch, where a trace or the record of a run says."""
    overlap: Overlap | None = None
    """How many test samples are among the training samples."""
    updates: UpdateProvenance | None = None
    """Which rule the change of the weights comes from."""
    claimed_rule: str = ""
    """What its authors call the rule that trained the network, such as DFA; empty where that is not known."""
    extra: dict[str, Annotated[float | tuple[float, ...], BeforeValidator(plain)]] = Field(default_factory=dict)
    """Quantities that are no field of this record, by name: those of diagnostics beyond walkback's own."""

    def value_of(self, name: str) -> Any:
        """A quantity by its name, whether it is a field or among `extra`.

        Args:
            name: what it is called in records.

        Returns:
            A number, one per site, or None where it was not measured.
        """
        return getattr(self, name) if name in Measurements.model_fields else self.extra.get(name)

    @property
    def answered(self) -> Answered | None:
        """Which samples the network was seen to answer rightly: those on the batches, where both are known."""
        return self.counted_correct or self.headline_correct

    @model_validator(mode="after")
    def _sites_agree(self) -> Measurements:
        lengths = {name: len(value) for name in per_site() if isinstance(value := self.value_of(name), tuple)}
        first = {length: name for name, length in reversed(lengths.items())}
        if len(first) > 1:
            found = " and ".join(f"{name} has {counted(length, 'value')}" for length, name in reversed(first.items()))
            raise ValueError(f"the numbers of sites differ: {found}; expected one value for each site in all of them")
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
    intervals = (q.interval for q in declared if q.interval)
    return ("sites", "site_numbers", "site_features", *(q.name for q in declared), *intervals)


def growth(before: float, after: float) -> float:
    """after / before, where a stream that stays at zero has not grown."""
    if before == 0:
        return 1.0 if after == 0 else (after if after != after else float("inf"))
    return after / before
