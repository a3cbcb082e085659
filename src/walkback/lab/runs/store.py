"""Runs on disk: one directory per run id. Importing this imports no torch.

runs/3f2a…/config.json         what it is
           trace.jsonl         one line per epoch so far
           checkpoints/        the newest two
           result.json         when it is finished: all that the studies need

A copy of result.json in the archive, such as results/runs/3f2a….json under version control, makes a run
finished too: whoever has the archive need not train again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RecordError, RunError, WalkbackWarning
from walkback.lab.runs import epochs as trace
from walkback.lab.runs import lock
from walkback.lab.runs.baselines import matched_baseline
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.ids import checked_id, held_to_id, is_id
from walkback.lab.runs.own_files import refuse_link
from walkback.lab.runs.shapes import RunShape, require_line, require_result, require_shape
from walkback.lab.runs.verbs import todays
from walkback.protocol.json_codec import json_text
from walkback.protocol.schema import read_json, write_whole

ENVIRONMENT = "WALKBACK_RUNS"
DEFAULT_FOLDER = "runs"
ARCHIVE = Path("results", "runs")
SHORTEST_PREFIX = 3


def described(config: RunConfig) -> dict[str, Any]:
    """A run's id, name, command and config, and the same of the frozen run that (d) compares it with."""
    baseline = matched_baseline(config)
    return {
        "id": config.run_id,
        "name": config.name,
        "command": config.command,
        "config": config.to_dict(),
        "baseline": {"id": baseline.run_id, "command": baseline.command} if baseline else None,
    }


class RunState(str, Enum):
    """Where a run stands."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class StoredRun:
    """One run's directory, and the copy of its result in the archive if there is one."""

    folder: Path
    archived: Path | None = None

    @property
    def run_id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.folder.name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What `described` gave when the run was made; reading it needs no torch, unlike `config`."""
        settings = read_json(self._settings_file)
        if not isinstance(settings, dict) or not isinstance(settings.get("config"), dict):
            raise RecordError(f"{self._settings_file} does not say what its run is. Remove it, or train the run again.")
        held_to_id(settings, self.run_id if is_id(self.run_id) else None, self._settings_file)
        return {"command": "", "baseline": None} | require_shape(RunShape, settings, self._settings_file)

    @property
    def _settings_file(self) -> Path:
        own = self.folder / "config.json"
        # A result says of its run all that the settings do.
        return own if self.archived is None or own.exists() else self.archived

    @cached_property
    def config(self) -> RunConfig:
        """The run's config."""
        return RunConfig.from_dict(self.settings["config"], str(self._settings_file))

    @property
    def trace_file(self) -> Path:
        """Where the trace is."""
        return self.folder / "trace.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The directory of checkpoints."""
        return self.folder / "checkpoints"

    @property
    def result_file(self) -> Path:
        """Where the result is, once there is one: in the run's directory, or in the archive alone."""
        return self._own_result if self.archived is None or self._own_result.exists() else self.archived

    @property
    def _own_result(self) -> Path:
        return self.folder / "result.json"

    @property
    def finished(self) -> bool:
        """Whether the run has its result."""
        return self.result_file.exists()

    @property
    def state(self) -> RunState:
        """Finished, being trained by a living process, or left behind by one that ended."""
        if self.finished:
            return RunState.FINISHED
        return RunState.RUNNING if lock.is_held(self._lock_file) else RunState.INTERRUPTED

    @property
    def taken(self) -> bool:
        """Whether a process trains the run that whoever wants to train it has to wait for."""
        return self.state is RunState.RUNNING

    @property
    def _lock_file(self) -> Path:
        return self.folder / "lock"

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from training this run."""
        return lock.held(self._lock_file, f"run {self.run_id}")

    def fetch(self) -> None:
        """Bring the trace and a checkpoint to where they can be read; in a directory they are there."""

    def start_anew(self) -> None:
        """Drop what cannot be resumed: old checkpoints would otherwise outlast those of the new epochs."""
        from walkback.lab.runs import checkpoint

        checkpoint.keep_newest(self.checkpoints, 0)
        trace.rewrite(self.trace_file, [])

    def saved(self, epoch: int) -> None:
        """An epoch has its line and its checkpoint; in a directory there is nothing left to do."""

    def forget(self) -> None:
        """This process is done with the run; a directory stays."""

    def trace(self) -> list[EpochRecord]:
        """The epochs so far."""
        if self.archived is not None and not self.trace_file.exists():
            return [require_line(entry, self.result_file) for entry in self.result()["trace"]]
        return trace.read(self.trace_file)

    def result(self) -> dict[str, Any]:
        """What the finished run left; a run that is not finished is refused."""
        if not self.finished:
            raise RunError(f"run {self.run_id} is not finished. Resume it with: {todays(self.settings['command'])}")
        result = read_json(self.result_file)
        if not isinstance(result, dict) or not result.keys() >= RESULT_PARTS:
            raise RecordError(f"{self.result_file} is not the result of a run. Remove it, and train the run again.")
        if result.get("result_version") != RESULT_VERSION:
            raise RecordError(
                f"{self.result_file} is the result of a run, version {result.get('result_version')}; expected version "
                f"{RESULT_VERSION}. Remove it, and train the run again."
            )
        return require_result(held_to_id(result, self.run_id, self.result_file), f"the result of run {self.run_id}")

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result, which is what makes a run finished."""
        refuse_link(self._own_result)
        write_whole(self._own_result, json_text(result, compact=True))


RESULT_VERSION = 1
"""Raised when a part of a result changes its meaning or goes."""
RESULT_PARTS = {"id", "name", "config", "trace", "accuracy", "report", "unmeasured", "baseline", "ended"}
"""Without these a file is no result."""


class RunStore:
    """A directory of runs, and an archive of finished ones.

    The default is $WALKBACK_RUNS, or `runs` in the current directory; the archive is `results/runs` beside it.
    """

    def __init__(self, root: str | Path | None = None, archive: str | Path | None = None) -> None:
        self.root = Path(root or default_place())
        self.archive = Path(archive) if archive is not None else self.root.parent / ARCHIVE

    @property
    def place(self) -> str:
        """Where the runs are, as the user gave it."""
        return str(self.root)

    @property
    def address(self) -> str:
        """Where the runs are, in one word that `open_store` takes in any directory."""
        return str(self.root.resolve())

    @property
    def folders(self) -> list[Path]:
        """Where files of runs are on this machine."""
        return [self.root, self.archive]

    def run(self, config: RunConfig) -> StoredRun:
        """The place of a run, whether it is there or not."""
        return self.at(config.run_id)

    def at(self, run_id: str) -> StoredRun:
        """The place of the run with that whole id, whether it is there or not; what is no id makes no path."""
        checked_id(run_id, f"the store {self.place}")
        archived = self.archive / f"{run_id}.json"
        return StoredRun(self.root / run_id, archived if archived.exists() else None)

    def open(self, config: RunConfig) -> StoredRun:
        """The place of a run, made if it is not there."""
        run = self.run(config)
        try:
            run.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"cannot make the directory {run.folder}: {error.strerror}. Choose another with --runs."
            ) from None
        settings = run.folder / "config.json"
        if not settings.exists():
            refuse_link(settings)
            write_whole(settings, json_text(described(config)))
        return run

    def keep(self, run: StoredRun) -> None:
        """Copy the result of a finished run into the archive, once."""
        copy = self.archive / f"{run.run_id}.json"
        if not copy.exists():
            self.archive.mkdir(parents=True, exist_ok=True)
            write_whole(copy, run.result_file.read_bytes())

    def __iter__(self) -> Iterator[StoredRun]:
        """All runs, by name; one that cannot be read is named in a warning and passed over."""
        named: list[tuple[str, StoredRun]] = []
        for run_id in self._ids():
            run = self.at(run_id)
            try:
                named.append((str(run.settings.get("name")), run))
            except RecordError as error:
                warnings.warn(str(error), WalkbackWarning, stacklevel=2)
        return iter(run for _, run in sorted(named, key=lambda pair: pair[0]))

    def _ids(self) -> list[str]:
        names = {path.parent.name for path in self.root.glob("*/config.json")}
        return sorted(filter(is_id, names | {path.stem for path in self.archive.glob("*.json")}))

    def find(self, prefix: str) -> StoredRun:
        """The run whose id starts like this; none or several are refused."""
        if len(prefix) < SHORTEST_PREFIX:
            raise RunError(f"{prefix!r} is too short for a run id; give {SHORTEST_PREFIX} digits or more.")
        found = [self.at(run_id) for run_id in self._ids() if run_id.startswith(prefix)]
        whole = [run for run in found if run.run_id == prefix]
        if whole or len(found) == 1:
            return (whole or found)[0]
        if not found:
            raise RunError(f"there is no run {prefix!r} in {self.place}. `walkback lab runs` lists what there is.")
        ids = ", ".join(run.run_id for run in found)
        raise RunError(f"{prefix!r} could be any of {ids}. Give more digits.")


def default_place() -> str:
    """Where runs are kept unless somebody says otherwise."""
    return os.environ.get(ENVIRONMENT) or DEFAULT_FOLDER


def open_store(place: str | Path | None = None, archive: str | Path | None = None) -> RunStore:
    """The store in a directory, or at an address such as s3://bucket/runs; the default is that of `RunStore`."""
    from walkback.lab.runs.objects import is_address

    chosen = default_place() if place is None else str(place)
    local = chosen.removeprefix("file://")
    if not local:
        raise InputError(
            f"the place of runs is {chosen!r}; expected a directory, or an address such as s3://bucket/runs."
        )
    if local == chosen and is_address(chosen):
        from walkback.lab.runs.remote_store import RemoteRunStore

        return RemoteRunStore(chosen, archive)
    # A directory has what an object store lacks: a rename that no reader sees half of, and locks.
    return RunStore(local, archive)
