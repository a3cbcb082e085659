"""What a file is: the one place that looks, for every verb that is handed a path. No torch.

found = what_is(Path("results/audit_resmlp_d256.json"))
found.kind is Kind.AUDIT; found.content["reports"]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from walkback.errors import RecordError
from walkback.protocol.json_codec import parse_json, read_json
from walkback.watch.trace_file import trace_in
from walkback.watch.trace_identity import is_identity


class Kind(Enum):
    """What there is, in the words of a sentence."""

    REPORT = "a report"
    REPLAYED = "what `walkback replay --json` wrote"
    AUDIT = "an audit of the lab"
    PUBLISHED = "an audit of another program"
    ROWS = "a list of rows with h_norms"
    RESULT = "the result of a run"
    STUDY = "the answer of a study"
    COMPARISON = "a comparison of methods"
    TRACE = "a trace"
    TABLE = "a table of another program"
    LINES = "a log of another program, an object in each line"
    EVENTS = "event files of TensorBoard"
    WANDB = "an offline run of W&B"
    RUN = "the directory of a run"
    OTHER = "JSON of no kind that walkback writes"


@dataclass(frozen=True)
class Found:
    """A file, or a directory of files, and what it is."""

    kind: Kind
    path: Path
    """The file to read: of a directory that holds nothing but a trace, the trace."""
    content: Any = None
    """The value of a file that is one JSON text; nothing of the others, which may be long."""

    @property
    def told(self) -> str:
        """What came, as a message names it."""
        if self.kind is not Kind.OTHER:
            return str(self.kind.value)
        if isinstance(self.content, dict):
            names = ", ".join(map(str, list(self.content)[:5]))
            return f"JSON with {names}" if names else "an empty JSON object"
        return f"JSON, a {type(self.content).__name__}"


def what_is(path: Path) -> Found:
    """Look at a path; what cannot be read, or is no JSON where it should be, raises `RecordError`."""
    if (path / "config.json").is_file():
        return Found(Kind.RUN, path)
    path = trace_in(path)
    if path.suffix == ".wandb" or (path.is_dir() and any(path.glob("*.wandb"))):
        return Found(Kind.WANDB, path)
    if "tfevents" in path.name or (path.is_dir() and any(path.glob("*tfevents*"))):
        return Found(Kind.EVENTS, path)
    if path.suffix in (".csv", ".tsv"):
        return Found(Kind.TABLE, path)
    if not path.is_file():
        _refuse(path)
    first = _first_object(path)
    if _is_line_of_trace(first):  # without reading the rest, which may be long
        return Found(Kind.TRACE, path)
    try:
        data = read_json(path)
    except RecordError:
        if first is None:
            raise
        return Found(Kind.LINES, path)
    return Found(kind_of(data), path, data)


def _refuse(path: Path) -> None:
    """What is no file, and no directory of a kind that is read; a pipe is neither, and can be read."""
    expected = (
        "expected a report, an audit or a trace of walkback, the directory of a run, a log as CSV or JSON lines, or "
        "event files of TensorBoard"
    )
    if path.is_dir():
        raise RecordError(f"cannot read {path}: it is a directory, and holds no run, trace or event files; {expected}.")
    if not path.exists():
        raise RecordError(f"cannot read {path}: there is no such file; {expected}.")


def require(path: Path, kind: Kind, otherwise: str) -> Any:
    """The content of a file of this kind; of any other, `RecordError` with what came and what to do."""
    found = what_is(path)
    if found.kind is not kind:
        raise RecordError(f"{path} is {found.told}; expected {kind.value}. {otherwise}")
    return found.content


def kind_of(data: Any) -> Kind:
    """What a JSON value is."""
    if isinstance(data, dict):
        return next((kind for kind, fits in _OBJECTS if fits(data)), Kind.OTHER)
    if isinstance(data, list) and all(isinstance(row, dict) and "h_norms" in row for row in data):
        return Kind.ROWS
    if isinstance(data, list) and all(isinstance(entry, dict) and "readings" in entry for entry in data):
        return Kind.REPLAYED
    return Kind.OTHER


_OBJECTS: tuple[tuple[Kind, Callable[[dict[str, Any]], bool]], ...] = (
    (Kind.RESULT, lambda data: "result_version" in data),
    (Kind.AUDIT, lambda data: "audit_version" in data),
    (Kind.STUDY, lambda data: "study_version" in data),
    (Kind.COMPARISON, lambda data: "comparison_version" in data),
    (Kind.REPORT, lambda data: "schema_version" in data and "readings" in data),
    (Kind.PUBLISHED, lambda data: isinstance(data.get("reports"), dict | list)),
)


def _first_object(path: Path) -> Any:
    """The JSON object in the first line of a file, if there is one."""
    try:
        with path.open(encoding="utf-8") as file:
            first = parse_json(file.readline())
    except (OSError, ValueError):
        return None
    return first if isinstance(first, dict) else None


MARKS = ("residual_norms", "bp_grad_norms", "unmeasured")
"""What a line of a trace has at least one of."""


def _is_line_of_trace(first: Any) -> bool:
    """Whether the first line of a file is one of a trace, and the file no report or result in one line."""
    if first is None or "schema_version" in first or kind_of(first) is Kind.RESULT:
        return False
    return is_identity(first) or any(name in first for name in MARKS)
