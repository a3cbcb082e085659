"""The trace of a run: its identity, then one JSON line per measurement. No torch is needed to read it.

A line has the names that a run of the zoo writes for its epochs, so one reader serves both; fields that it does not
know are passed over. A file is only ever added to: a run that goes back to a checkpoint writes its epochs again, and
the later line counts. Traces of the zoo, whose directory says whose they are, and those of an earlier walkback begin
with no identity; of such a file that holds several runs, each is read by itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from walkback.errors import InputError, RecordError
from walkback.protocol.json_codec import SaidTwice
from walkback.protocol.records import Measurements
from walkback.protocol.schema import explain, parse_json
from walkback.watch.moment import At
from walkback.watch.trace_file import add_text, end_line, lines_to_add_to, run_name, whole_lines
from walkback.watch.trace_file import trace_in as trace_in
from walkback.watch.trace_identity import TRACE_VERSION, Identity, check_may_go_on, is_identity
from walkback.watch.trace_line import TraceLine
from walkback.watch.trace_line import line_of as line_of
from walkback.watch.trace_line import nonfinite_counts as nonfinite_counts
from walkback.watch.trace_line import rounded as rounded


class RunInTrace:
    """One run in a trace: what it is told by, and where it stands. Subclasses keep its lines, or what they need."""

    def __init__(self, identity: Identity | None = None, told_by: str = "") -> None:
        self.identity = identity
        """None in a file of the zoo, or of an earlier walkback."""
        self.told_by = told_by
        """What tells it from the run before it in the same file."""

    def add(self, line: TraceLine, measured: Measurements) -> None:
        """Take in the next line, which replaces those of the same or a later moment."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def first(self) -> At:
        """The first moment."""
        raise NotImplementedError

    @property
    def sites(self) -> int:
        """How many sites its lines have; 0 where none has any."""
        raise NotImplementedError

    def ends_before(self, line: TraceLine) -> str:
        """Why a line must be of another run; empty where it may be of this one.

        A run goes back to a checkpoint, and not to its start; and no run changes the number of its sites.
        """
        if self.identity is not None or not len(self):
            return ""
        if line.sites and self.sites and line.sites != self.sites:
            return f"the number of its sites, {line.sites} in place of {self.sites}"
        # A step that ends an epoch is written twice, in the second line with its epoch.
        if line.not_after(self.first) and (len(self) > 1 or not self.first.not_after(line)):
            return f"its numbers, which begin again at {line.at}"
        return ""


class TraceRun(RunInTrace):
    """One run in a trace with its lines, without those that a later start of it wrote anew."""

    def __init__(self, identity: Identity | None = None, told_by: str = "") -> None:
        super().__init__(identity, told_by)
        self.lines: list[TraceLine] = []

    def add(self, line: TraceLine, measured: Measurements) -> None:
        """Keep the line."""
        del measured
        while self.lines and line.not_after(self.lines[-1]):
            self.lines.pop()
        self.lines.append(line)

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def first(self) -> At:
        """The first moment."""
        return self.lines[0]

    @property
    def sites(self) -> int:
        """Of the last line that has any."""
        return next((line.sites for line in reversed(self.lines) if line.sites), 0)

    @property
    def held(self) -> str:
        """How much there is of it, in words."""
        count = len(self.lines)
        return f"{count} line{'' if count == 1 else 's'} up to {self.lines[-1].at}"


Run = TypeVar("Run", bound=RunInTrace)


class Runs(Generic[Run]):
    """The runs of a trace, told apart as its lines come in."""

    def __init__(self, path: str | Path, begin: Callable[[Identity | None, str], Run]) -> None:
        self.path, self._begin = path, begin
        self._runs: list[Run] = []

    def take(self, number: int, text: str) -> None:
        """The next line of the file: an identity, a measurement, or nothing."""
        where, runs = f"{self.path}, line {number}", self._runs
        identity = _identity(text, where)
        if identity is not None:
            known = runs[-1].identity if runs else None
            if known is None or not identity.is_of(known):
                runs.append(self._begin(identity, f"its identity, in line {number}"))
        elif text.strip():
            line, measured = _parsed(text, where)
            told_by = runs[-1].ends_before(line) if runs else "nothing"
            if told_by:
                runs.append(self._begin(None, f"{told_by} (line {number})"))
            runs[-1].add(line, measured)

    @property
    def found(self) -> list[Run]:
        """Every run that has a line."""
        return [run for run in self._runs if len(run)]


@dataclass(frozen=True)
class NamedRun(Generic[Run]):
    """A run in a trace with what it is called, and what a reader must know of the file that it is from."""

    name: str
    run: Run
    remark: str = ""


def read_trace(path: str | Path) -> list[TraceLine]:
    """The lines of a trace in their order; of several runs in one file, of the last."""
    runs = read_runs(path)
    return runs[-1].lines if runs else []


def read_runs(path: str | Path) -> list[TraceRun]:
    """Every run in a trace that has a line."""
    return _runs(whole_lines(path), path)


def named_runs(path: Path) -> list[NamedRun[TraceRun]]:
    """The same, each with a name; where there are several, it is remarked on."""
    return named(read_runs(path), path)


def named(runs: Sequence[Run], path: Path) -> list[NamedRun[Run]]:
    """The runs of a file with their names."""
    name = run_name(path)
    if len(runs) < 2:
        return [NamedRun(name, run) for run in runs]
    return [
        NamedRun(f"{name}, run {number} of {len(runs)}", run, _remark(path, runs, number))
        for number, run in enumerate(runs, 1)
    ]


def _remark(path: Path, runs: Sequence[RunInTrace], number: int) -> str:
    apart = "the first of them" if number == 1 else f"told from the one before by {runs[number - 1].told_by}"
    return f"{path} holds {len(runs)} runs: this is number {number}, {apart}."


def trace_of_result(data: dict[str, Any], path: Path) -> list[TraceLine]:
    """The trace in the result of a run of the lab."""
    if not isinstance(data.get("trace"), list):
        raise RecordError(f"{path} is the result of a run without its trace. Make it again, or give another.")
    run = TraceRun()
    for number, text in enumerate(map(json.dumps, data["trace"]), 1):
        run.add(*_parsed(text, f"{path}, line {number}"))
    reached = data.get("accuracy")
    if isinstance(reached, float) and not math.isfinite(reached) and run.lines and run.lines[-1].accuracy is not None:
        raise RecordError(
            f"{path} contradicts itself: the accuracy of its run is {reached}, and by its trace "
            f"{run.lines[-1].accuracy:.4f}. Train the run again."
        )
    return run.lines


def _runs(texts: Iterable[str], path: str | Path) -> list[TraceRun]:
    runs = Runs(path, TraceRun)
    for number, text in enumerate(texts, 1):
        runs.take(number, text)
    return runs.found


def _identity(text: str, where: str) -> Identity | None:
    if '"trace_version"' not in text:
        return None
    try:
        data = parse_json(text)
        if not is_identity(data):
            return None
        if data["trace_version"] != TRACE_VERSION:
            raise RecordError(
                f"{where} begins a trace of version {data['trace_version']!r}; this walkback reads {TRACE_VERSION}. "
                "Read it with the walkback that wrote it."
            )
        return Identity.model_validate(data)
    except ValidationError as error:
        raise RecordError(f"{where} is not what a trace begins with: {explain(error)}.") from None
    except ValueError:
        return None  # the line itself is told to be none


_NAMES = tuple(f'"{name}"' for name in TraceLine.model_fields)


def _parsed(text: str, where: str) -> tuple[TraceLine, Measurements]:
    """A line and its figures."""
    try:
        line = TraceLine.model_validate_json(text)
        if "\\" in text or any(text.count(name) > 1 for name in _NAMES):
            parse_json(text)  # which is slower, and looks for what is said twice
        return line, line.measurements()
    except SaidTwice as error:
        raise RecordError(f"{where} contradicts itself: {error}. Correct it, or remove it.") from None
    except ValidationError as error:
        raise RecordError(
            f"{where} is not a line of a trace: {explain(error)}. Other logs are read by `walkback replay`."
        ) from None
    except InputError as error:
        raise RecordError(f"{where}: {error}.") from None


class OpenTrace:
    """A trace that a run adds to: one of its own, or one that it goes on with."""

    def __init__(self, path: Path, own: Identity, *, named: bool = False, resume: bool = False) -> None:
        """Refuse a file that holds another run, or another network; nothing is written before the first line is."""
        runs = _runs(lines_to_add_to(path), path)
        self.path, self.own, self.run = path, own, runs[-1] if runs else TraceRun()
        if runs:
            sites = [line.sites for line in self.run.lines if line.sites]
            check_may_go_on(path, own, self.run.identity, sites, self.run.held, named, resume)
        end_line(path)
        self._begun = bool(runs)

    @property
    def lines(self) -> Sequence[TraceLine]:
        """What the run has written before."""
        return self.run.lines

    def append(self, line: TraceLine) -> None:
        """Add one line, after the identity where it is the first."""
        add_text(self.path, ("" if self._begun else self.own.line() + "\n") + line.line() + "\n")
        self._begun = True
