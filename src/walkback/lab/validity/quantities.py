"""The numbers of a record that could tell a fault: by name, with the side that fires. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from walkback.lab.validity.record import Answers, NetworkRecord, Provenance
from walkback.protocol.records import growth

STEP, UPDATE = "claimed_step_with_real", "claimed_update_with_real"


@dataclass(frozen=True)
class Candidate:
    """A quantity of a record."""

    name: str
    of: Callable[[NetworkRecord], float | None]
    high: bool
    """Whether large values are those that fire."""
    diagnostic: str
    """The diagnostic that measures it; a fault is its to find where the fault says so."""


def _growth(record: NetworkRecord) -> float | None:
    return record.report.max_per_block_growth if record.report else None


def _last_gradient(record: NetworkRecord) -> float | None:
    norms = record.report.bp_grad_norms if record.report else None
    return norms[-1] if norms else None


def _drift(record: NetworkRecord) -> float | None:
    return record.report.cross_batch_stability if record.report else None


def _margin(record: NetworkRecord) -> float:
    return 100 * (record.headline - record.frozen_twin.accuracy)


def error_reduction(record: NetworkRecord, baseline: Answers | None) -> float | None:
    """1 − error / error of a baseline; None where the baseline makes none."""
    if baseline is None or baseline.accuracy == 1:
        return None
    return 1 - (1 - record.own.accuracy) / (1 - baseline.accuracy)


def _readout(record: NetworkRecord, site: int) -> float | None:
    return record.readouts.accuracies[site] if record.readouts is not None else None


def over_readout(record: NetworkRecord) -> float | None:
    """Headline accuracy minus that of the ridge readout of h_0: the bar to beat."""
    first = _readout(record, 0)
    return None if first is None else record.headline - first


def _readout_gain(record: NetworkRecord) -> float | None:
    first, last = _readout(record, 0), _readout(record, -1)
    return None if first is None or last is None else last - first


def _head_gain(record: NetworkRecord) -> float | None:
    last = _readout(record, -1)
    return None if last is None else record.own.accuracy - last


def _growth_from_init(record: NetworkRecord) -> float:
    """The largest ‖h_l‖ at the end over ‖h_l‖ at the start, over sites and, of tokens, over both ways to take them."""
    ratios = [
        growth(before, after)
        for name, ends in record.norms["end"].items()
        if name != "first_token"
        for before, after in zip(record.norms["start"][name], ends, strict=True)
    ]
    return next((ratio for ratio in ratios if math.isnan(ratio)), max(ratios))


def _total_growth(record: NetworkRecord) -> float:
    ends, starts = (record.norms[when].get("mean_token", record.norms[when]["flat"]) for when in ("end", "start"))
    return growth(growth(starts[0], starts[-1]), growth(ends[0], ends[-1]))


def _per_error(record: NetworkRecord) -> float:
    return record.end_gradients["per_error"][-1]


def _replay(record: NetworkRecord) -> Provenance | None:
    return record.provenance[0] if record.provenance else None


def _claimed_with_real(record: NetworkRecord, which: str) -> float | None:
    """The least cosine between what the claimed rule does and what is done, over the blocks, half-way through."""
    replay = _replay(record)
    known = [c for c in getattr(replay, which)[1:-1] if c is not None] if replay else []
    return min(known, default=None)


def _gradient_under_another_name(record: NetworkRecord) -> float | None:
    """The least cosine of the real update with the true gradient over the blocks, where the rule is not called BP."""
    replay = _replay(record)
    known = [c for c in replay.real_update_with_gradient[1:-1] if c is not None] if replay else []
    return None if record.claimed == "bp" else min(known, default=None)


def _overlap(record: NetworkRecord) -> float:
    return record.overlap["in_train"] / record.overlap["test"]


def _headline_gap(record: NetworkRecord) -> float:
    return record.headline - record.own.accuracy


def _reference_error(record: NetworkRecord) -> float | None:
    """0 for autograd's gradient as it is, found right; 1 where it had to be seen through, or did not pass; 1 − fidelity
    where that is larger."""
    if record.report is None or record.report.reference_check is None:
        return None
    check = record.report.reference_check
    doubt = 0.0 if check.candidate == "autograd" and check.passed is not False else 1.0
    fidelity = record.report.reference_fidelity
    return max(doubt, 1 - min(fidelity)) if fidelity else doubt


QUANTITIES: tuple[Candidate, ...] = (
    Candidate("growth of one block", _growth, True, "residual_growth"),
    Candidate("last gradient", _last_gradient, False, "gradient_floor"),
    Candidate("direction drift", _drift, True, "direction_drift"),
    Candidate("frozen margin, pp", _margin, False, "depth_gain"),
    Candidate("depth gain", lambda r: error_reduction(r, r.frozen_twin), False, "depth_gain"),
    Candidate("depth gain, trained norms", lambda r: error_reduction(r, r.random_twin), False, "depth_gain"),
    Candidate("accuracy − readout of h_0", over_readout, False, "linear_readouts"),
    Candidate("readout of h_L − of h_0", _readout_gain, False, "linear_readouts"),
    Candidate("accuracy − readout of h_L", _head_gain, False, "linear_readouts"),
    Candidate("least movement of a block", lambda r: min(r.movement["blocks"]), False, "movement"),
    Candidate("growth from init", _growth_from_init, True, "growth_from_init"),
    Candidate("total growth from init", _total_growth, True, "growth_from_init"),
    Candidate("last gradient per error", _per_error, False, "error_free_floor"),
    Candidate("claimed step with the real one", partial(_claimed_with_real, which=STEP), False, "update_provenance"),
    Candidate(
        "claimed update with the real one", partial(_claimed_with_real, which=UPDATE), False, "update_provenance"
    ),
    Candidate("gradient under another name", _gradient_under_another_name, True, "update_provenance"),
    Candidate("reference error", _reference_error, True, "reference_check"),
    Candidate("test samples in training", _overlap, True, "overlap"),
    Candidate("headline − accuracy", _headline_gap, True, "headline_check"),
)
BY_NAME = {candidate.name: candidate for candidate in QUANTITIES}
