"""A verdict from records that lack some of the measurements, with what they do and do not prove. No torch.

(a) and (b) from norms at some sites only are read as `protocol.diagnostics.some_sites` says. (c) is not measured unless
it was recorded; (d) needs two accuracies, and is exact.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from walkback.arguments import known_arguments
from walkback.errors import InputError
from walkback.protocol.contradictions import NORMS
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Measurements, TrainingLoss
from walkback.protocol.schema import Number, Record
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.wording import counted


class PartialMeasurements(Record):
    """What a record holds of one network: norms by site, as many as there are.

    A network of L blocks has the sites h_0 … h_L, numbered 0 to L.

    Raises:
        InputError: a field is none of those below, or has a value that it cannot have.

    Examples:
        >>> import walkback
        >>> walkback.PartialMeasurements(blocks=2, residual_norms={0: 8.0, 2: 9.0}).measurements().extra
        {'h_0': 8.0, 'h_2': 9.0}
    """

    blocks: int = Field(ge=1)
    """L, the number of blocks."""
    residual_norms: dict[int, Number] = Field(default_factory=dict)
    """Median over samples of ‖h_l‖₂, by site."""
    bp_grad_norms: dict[int, Number] = Field(default_factory=dict)
    """Median over samples of ‖g_l‖₂, by site, in the published convention: of a loss averaged over 128 samples."""
    cross_batch_stability: Number | None = None
    """The (c) that was recorded."""
    error_size: Number | None = None
    """Median over samples of ‖∂ℓ/∂logits‖₂."""
    headline_acc: Number | None = None
    """The accuracy, in [0, 1]."""
    frozen_baseline_acc: Number | None = None
    """The accuracy of the frozen baseline, in [0, 1]."""
    training_loss: TrainingLoss | None = None
    """The mean training loss of the first and the last epoch."""

    def measurements(self) -> Measurements:
        """The same as `Measurements`; norms that are not known at every site are kept under `extra`.

        Returns:
            The measurements.

        Raises:
            InputError: the values contradict each other, or a site is numbered beyond the blocks.
        """
        _check_sites(self)
        fields: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("cross_batch_stability", "error_size", "headline_acc", "frozen_baseline_acc", "training_loss")
        }
        extra: dict[str, float] = {}
        for letter, name in NORMS.items():
            known: dict[int, float] = getattr(self, name)
            if len(known) == self.blocks + 1:
                fields[name] = tuple(known[site] for site in range(self.blocks + 1))
            else:
                extra |= {f"{letter}_{site}": value for site, value in sorted(known.items())}
        if self.cross_batch_stability is not None:
            fields["stability_layer"] = self.blocks // 2
        if extra:
            fields["last_site"] = self.blocks
        return Measurements(**fields, extra=extra)


def _of_partial_measurements(name: str) -> str:
    """Where a number that is given by its name belongs."""
    return f"It takes walkback.PartialMeasurements({name}=…)." if name in PartialMeasurements.model_fields else ""


@known_arguments(_of_partial_measurements)
def partial_audit(
    known: PartialMeasurements,
    thresholds: DiagnosticThresholds | None = None,
    *,
    require_all: bool = False,
    **about: Any,
) -> DiagnosticReport:
    """Judge a record that has measurements at some sites only.

    (d) needs two accuracies, and is exact. (a) and (b) are judged as far as the known sites decide them, and are
    `UNDECIDED` where they do not. What is missing is not measured.

    Formula:
        Between two known sites i < j, the largest growth of a block is at least (‖h_j‖ / ‖h_i‖)^(1/(j−i)). That can
        prove that (a) fires, and never that it passes.

    Args:
        known: what the record holds.
        thresholds: where each diagnostic fires; the published values where not given.
        require_all: True makes the verdict `incomplete` where a diagnostic of the panel was not measured.
        **about: what else `judge` takes: `panel`, `method_name`, `notes`, `seed`, `warnings`, `provenance`.

    Returns:
        The report.

    Raises:
        InputError: a site is numbered beyond the blocks, or a value cannot be one.
        UnknownName: there is no such panel.

    Examples:
        >>> import walkback
        >>> known = walkback.PartialMeasurements(blocks=4, residual_norms={0: 8.0, 4: 8e8}, bp_grad_norms={4: 1e-3})
        >>> walkback.partial_audit(known, method_name="DFA").outcome
        'fail'
    """
    return judge(known.measurements(), thresholds, require_all=require_all, **about)


def _check_sites(known: PartialMeasurements) -> None:
    for name in NORMS.values():
        beyond = [site for site in getattr(known, name) if not 0 <= site <= known.blocks]
        if beyond:
            sites = f"the sites of {counted(known.blocks, 'block')} are 0 … {known.blocks}"
            raise InputError(f"{name} names site {beyond[0]}, but {sites}.")
