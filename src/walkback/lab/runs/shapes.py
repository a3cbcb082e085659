"""What files of runs and audits must hold before anything is read from them: names, kinds and where a list is empty.

A file that has its shape can be read without a slip; a slip all the same is a fault of walkback's own, and is shown as
one. So what is wrong with a file is found here, and nowhere by accident. Fields that are not named are let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from walkback.errors import RecordError
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.ids import ID_LENGTH, is_id
from walkback.protocol.contradictions import ROUNDING
from walkback.protocol.schema import corrupt

Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
Options = dict[str, Any]


def _id(value: str) -> str:
    if not is_id(value):
        raise ValueError(f"expected an id of {ID_LENGTH} hex digits")
    return value


RunId = Annotated[str, AfterValidator(_id)]
"""Files are looked for by it, so it must not lead anywhere else."""


class Shape(BaseModel):
    """Fields that must be there, of the kinds that they must have: no number is read from a word."""

    model_config = ConfigDict(extra="allow", strict=True)


class ConfigShape(Shape):
    """The settings of a run, as far as they are shown."""

    method: str
    architecture: str
    data: str
    freezing: str
    seed: int
    epochs: int
    method_options: Options
    architecture_options: Options
    data_options: Options


class BaselineShape(Shape):
    """The matched baseline of a run, by name."""

    id: RunId
    command: str


class RunShape(Shape):
    """What a run says of itself: `config.json`."""

    id: str
    name: str
    command: str = ""
    config: ConfigShape
    baseline: BaselineShape | None = None


class DepthShape(Shape):
    """The functional tests of depth."""

    blocks_removed: list[Share | None]
    blocks_rerandomised: list[list[Share]]
    linear_probes: Annotated[list[Share | None], Field(min_length=1)]


class CourseShape(Shape):
    """What a study reads of a finished run."""

    trace: Annotated[list[dict[str, Any]], Field(min_length=1)]
    test_samples: Annotated[int, Field(ge=1)]
    depth: DepthShape | None = None
    functional: Options | None = None


class HardwareShape(Shape):
    """What a run was trained on; runs from before there was a choice do not say."""

    device: str
    precision: str


class ResultShape(RunShape, CourseShape):
    """A finished run: `result.json`."""

    result_version: int
    command: str
    baseline: BaselineShape | None
    accuracy: Share
    report: dict[str, Any] | None
    unmeasured: str
    ended: str
    train_samples: Annotated[int, Field(ge=1)] = 1
    trained_parameters: Annotated[int, Field(ge=0)] = 0
    seconds: dict[str, FiniteFloat]
    versions: dict[str, str]
    commit: str
    date: str
    trained_on: Annotated[list[HardwareShape], Field(min_length=1)] | None = None


class RowShape(Shape):
    """One run of an audit."""

    label: str
    seed: int
    method: str
    id: RunId
    command: str
    error: str
    baseline: Annotated[str, AfterValidator(lambda value: value and _id(value))] = ""
    baseline_command: str = ""
    baseline_error: str = ""


class ReportShape(Shape):
    """A report of an audit, as far as it is told from the others."""

    method_name: str
    seed: int | None
    frozen_baseline_acc: Any


class GridRowShape(Shape):
    """One method of a grid, as far as its data set is looked up."""

    label: str
    settings: dict[str, Any]


class GridShape(Shape):
    """The grid of an audit, as far as its data sets are looked up."""

    data: str = ""
    rows: list[GridRowShape] = Field(default_factory=list)


class AuditShape(Shape):
    """An audit: `audit_NAME.json`."""

    config: GridShape | None = None
    reports: list[dict[str, Any]]
    runs: list[RowShape]
    name: Any


def require_shape(shape: type[Shape], data: Any, source: object) -> dict[str, Any]:
    """The data, if it has the shape; else a `RecordError` that says what is wrong with it."""
    try:
        shape.model_validate(data)
    except ValidationError as error:
        raise corrupt(source, error) from None
    assert isinstance(data, dict)
    return data


def require_result(data: Any, source: object, shape: type[CourseShape] = ResultShape) -> dict[str, Any]:
    """The result of a run, every line of its trace included."""
    result = require_shape(shape, data, source)
    lines = [
        require_line(line, f"{source}, entry {number} of its trace,") for number, line in enumerate(result["trace"])
    ]
    _require_one_accuracy(result, lines[-1].accuracy, source)
    return result


def _require_one_accuracy(result: dict[str, Any], last: float, source: object) -> None:
    """What a run reached is in its file up to three times: an edit of one of them is seen by the others."""
    report, config = result.get("report"), result.get("config") or {}
    said = {"accuracy": result.get("accuracy")}
    if not (config.get("validation") and config.get("tested", True)):  # its trace is of the validation samples
        said |= {"its trace": last}
    said |= {"its report": report.get("headline_acc")} if isinstance(report, dict) else {}
    known = {name: value for name, value in said.items() if isinstance(value, int | float)}
    if not max(known.values()) - min(known.values()) <= ROUNDING:
        told = ", ".join(f"{value:.4f} by {name}" for name, value in known.items())
        raise RecordError(f"{source} contradicts itself on the accuracy of its run: {told}. Train the run again.")


def require_line(line: Mapping[str, Any], source: object) -> EpochRecord:
    """One epoch in the result of a run."""
    try:
        return EpochRecord.model_validate(line)
    except ValidationError as error:
        raise corrupt(source, error) from None
