"""A verdict from records that lack some of the measurements, with what they do and do not prove. No torch.

(a) and (b) from norms at some sites only are read as `protocol.diagnostics.some_sites` says. (c) is not measured unless
it was recorded; (d) needs two accuracies, and is exact.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from walkback.errors import InputError
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Measurements, TrainingLoss
from walkback.protocol.schema import Number, Record
from walkback.protocol.thresholds import DiagnosticThresholds


class PartialMeasurements(Record):
    """What a record holds of one network: norms by site, as many as there are. h_0 … h_L are the L + 1 sites."""

    blocks: int = Field(ge=1)
    """L."""
    residual_norms: dict[int, Number] = Field(default_factory=dict)
    bp_grad_norms: dict[int, Number] = Field(default_factory=dict)
    """In the published convention: of a loss averaged over 128 samples."""
    cross_batch_stability: Number | None = None
    error_size: Number | None = None
    headline_acc: Number | None = None
    frozen_baseline_acc: Number | None = None
    training_loss: TrainingLoss | None = None

    def measurements(self) -> Measurements:
        """What is whole, for the exact judgement; figures of some sites only are kept under `extra`."""
        _check_sites(self)
        fields: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("cross_batch_stability", "error_size", "headline_acc", "frozen_baseline_acc", "training_loss")
        }
        extra: dict[str, float] = {}
        for name, letter in (("residual_norms", "h"), ("bp_grad_norms", "g")):
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


def partial_audit(
    known: PartialMeasurements,
    thresholds: DiagnosticThresholds | None = None,
    *,
    require_all: bool = False,
    **about: Any,
) -> DiagnosticReport:
    """Judge what is known; `about` goes to the report as it is."""
    return judge(known.measurements(), thresholds, require_all=require_all, **about)


def _check_sites(known: PartialMeasurements) -> None:
    for name in ("residual_norms", "bp_grad_norms"):
        beyond = [site for site in getattr(known, name) if not 0 <= site <= known.blocks]
        if beyond:
            raise InputError(
                f"{name} names site {beyond[0]}, but {known.blocks} blocks have the sites 0 … {known.blocks}."
            )
