"""The published thresholds of the four diagnostics."""

from __future__ import annotations

from pydantic import Field

from walkback.protocol.schema import Record

RELIABLE_FIDELITY = 0.99
"""A mean cosine with the fp64 gradient below this makes a gradient numerically unreliable."""


class DiagnosticThresholds(Record):
    """Where each diagnostic fires. The defaults are the published ones."""

    g_norm_floor: float = Field(default=1e-7, gt=0, allow_inf_nan=False)
    """(b) fires when the median ‖g_L‖, for a loss averaged over 128 samples, is below this."""

    h_norm_explosion_ratio: float = Field(default=50.0, gt=0, allow_inf_nan=False)
    """(a) fires when one block multiplies the median ‖h‖ by more than this."""

    stability_drift_ceiling: float = Field(default=0.30, ge=-1, le=1, allow_inf_nan=False)
    """(c) fires when the mean cosine between batch-mean gradients is above this."""

    frozen_acc_margin_pp: float = Field(default=2.0, ge=-100, le=100, allow_inf_nan=False)
    """(d) fires when the margin over the frozen baseline, in percentage points, is below this."""

    frozen_margin: float | None = Field(default=None, allow_inf_nan=False)
    """(d) on scores in another unit than accuracy: it fires when the gain over the frozen baseline, in that unit, is
    below this. Nothing was published for other units, so there is no default."""

    drift_share_ceiling: float | None = Field(default=None, ge=-1, le=1, allow_inf_nan=False)
    """Given: (c) judges the drift share ρ against this instead, which does not depend on a batch size."""
