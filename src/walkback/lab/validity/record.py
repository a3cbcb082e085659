"""The record of one network of the bench: everything that a diagnostic may ask of it later. No torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from walkback.errors import RecordError
from walkback.lab.validity.config import NetworkConfig
from walkback.protocol.records import DiagnosticReport, UpdateProvenance
from walkback.protocol.schema import FROM_RECORD, Record, explain, parse_json, read_json

RECORD_VERSION = 2
"""Raised when a field comes, goes or changes its meaning."""

NumbersByName = dict[str, tuple[float, ...]]


class Truth(Record):
    """What the network is, and how that was checked."""

    holds: bool
    """Whether it is what its condition says; a network that is not is no part of any rate."""
    values: dict[str, float] = Field(default_factory=dict)
    words: str = ""


class Answers(Record):
    """A network's answers on the test split."""

    accuracy: float
    correct: dict[str, Any]
    """One bit per test sample, in the split's order, as `walkback.lab.runs.correctness` packs them."""


class Readouts(Record):
    """Ridge readouts at each site h_0 … h_L."""

    accuracies: tuple[float | None, ...]
    """On the test split; None where a feature is not finite."""
    correct: tuple[dict[str, Any] | None, ...]
    """One bit per test sample, for each site."""
    how: str


class Provenance(Record):
    """A few steps replayed from a checkpoint: cosines per part, stem, block 1 … block L, head, mean over the steps.

    None where a part does not move under one of the two.
    """

    at: str
    """`middle` or `end` of training."""
    steps: int
    claimed_step_with_real: tuple[float | None, ...]
    """cos(ΔW of the claimed rule, ΔW), both with the optimizer and its moments."""
    real_step_with_gradient: tuple[float | None, ...]
    """cos(ΔW, −true gradient of the batch)."""
    claimed_update_with_real: tuple[float | None, ...]
    """cos of what the two rules hand to the optimizer."""
    real_update_with_gradient: tuple[float | None, ...]


class NetworkRecord(Record):
    """One network: how it was made, what it is, what is said of it, and what was measured."""

    record_version: int = RECORD_VERSION
    id: str
    config: NetworkConfig
    truth: Truth
    claimed: str
    """The rule that its authors say they follow."""
    headline: float
    """The accuracy that its authors report."""
    own: Answers
    """What the network handed in can do."""
    frozen_twin: Answers
    """Blocks left at their random start, everything else trained by the same steps."""
    random_twin: Answers | None
    """Blocks at random with the norms of the trained ones; None where those are not finite."""
    chance: float
    classes: int
    train_accuracy: float
    report: DiagnosticReport | None
    """By `walkback.diagnose`, of the network as it was handed in, with everything that it can be asked: the reported
    headline, the claimed credit, both twins, readouts, the network before training, the training samples, and steps
    made again half-way through training."""
    unmeasured: str = ""
    """Why there is no report, where there is none."""
    updates: dict[str, UpdateProvenance] = Field(default_factory=dict)
    """Beside the one in the report: `end`, made again at the end of training; `credit`, half-way through, with the
    claimed rule as a credit and not as a step."""
    not_replayed: dict[str, str] = Field(default_factory=dict)
    """Why one of them is missing."""
    readouts: Readouts | None
    """Fitted on the training split."""
    norms: dict[str, NumbersByName]
    """`start` and `end`: medians over test samples per site of ‖h‖: `flat`, of the whole site; `first_token` and
    `mean_token` where sites have tokens."""
    start_gradients: NumbersByName
    """The same of the untrained network: `norms`, medians of ‖g_l‖ for a loss averaged over 128; `per_error`, of
    ‖∂ℓ/∂h_l‖ / ‖∂ℓ/∂logits‖; `error`, of ‖∂ℓ/∂logits‖, one number."""
    end_gradients: NumbersByName
    movement: dict[str, tuple[float, ...]]
    """`parts`: ‖W − W_0‖/‖W_0‖ of stem, blocks and head; `blocks`: of the blocks; `tensors`: of every tensor in the
    blocks, in the order of `named_parameters`."""
    provenance: tuple[Provenance, ...]
    overlap: dict[str, int]
    """`test` samples, `in_train` of them by hash, `same_label` of those."""
    cpu_seconds: dict[str, float]
    stamp: dict[str, Any]


def load(path: Path) -> NetworkRecord:
    """A record from its file."""
    return parsed(read_json(path), str(path))


def from_line(line: str, source: str) -> NetworkRecord:
    """A record from its line in a packed file."""
    try:
        return parsed(parse_json(line), source)
    except ValueError as error:
        raise RecordError(f"{source} is not JSON ({error}). Restore the file from the repository.") from None


def parsed(data: Any, source: str) -> NetworkRecord:
    """A record from what was read; one of another version is refused."""
    version = data.get("record_version") if isinstance(data, dict) else None
    if version != RECORD_VERSION:
        raise RecordError(
            f"{source} has record_version {version!r}; expected {RECORD_VERSION}. Remove it, and make the network "
            "again."
        )
    try:
        return NetworkRecord.model_validate(data, context={FROM_RECORD: True})
    except ValidationError as error:
        raise RecordError(f"{source} is not a record of the bench: {explain(error)}.") from None
