"""Runs in an object store, such as s3://bucket/runs: the same runs, of whatever machine.

s3://bucket/runs/3f2a…/config.json                          what it is
                       epochs/00003.json                    the trace, an object per epoch
                       checkpoints/epoch-00003.safetensors  the newest two
                       lease.json                           who trains it
                       result.json                          when it is finished

Epochs and results are written once and never changed. An epoch's line goes before its checkpoint, so the newest
checkpoint and the lines up to it are a whole run so far, whatever a machine leaves when it dies. A process works on a
copy in a directory of its own, by the code that works on any directory, and takes the copy up epoch by epoch.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from walkback.lab.runs import epochs as trace
from walkback.lab.runs import lease
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.lease import Claim, Lease
from walkback.lab.runs.objects import Objects
from walkback.lab.runs.store import ARCHIVE, RunState, RunStore, StoredRun

BROUGHT = re.compile(r"[0-9a-f]{12}/(config|result)\.json")
"""Keys that become paths here, so no others do."""


@dataclass(frozen=True)
class RemoteRun(StoredRun):
    """One run in an object store, and this process's copy of it."""

    objects: Objects = field(kw_only=True)
    claim: Claim = field(kw_only=True)
    _lease: list[Lease] = field(kw_only=True, default_factory=list, compare=False, repr=False)

    @property
    def finished(self) -> bool:
        """Whether the run has its result, which is brought here."""
        return super().finished or self._bring("result.json")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """What `described` gave when the run was made."""
        if self.archived is None:
            self._bring("config.json")
        return super().settings

    @property
    def state(self) -> RunState:
        """Finished, being trained by someone who keeps its lease, or left behind."""
        if self.finished:
            return RunState.FINISHED
        return RunState.RUNNING if lease.is_alive(self.objects, self._key("lease.json")) else RunState.INTERRUPTED

    @property
    def taken(self) -> bool:
        """Whether someone keeps its lease, other than an earlier attempt of the same grid."""
        current = lease.read(self.objects, self._key("lease.json"))
        return super().taken and not self.claim.outranks(current)

    def trace(self) -> list[EpochRecord]:
        """The epochs so far."""
        if not self._lease and not super().finished:
            self._bring_trace()
        return super().trace()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training this run, and bring what there is of it here."""
        held = Lease(self.objects, self._key("lease.json"), f"run {self.run_id}", self.claim)
        with super().locked(), held.held():
            self._lease.append(held)
            try:
                self.fetch()
                yield
            finally:
                self._lease.clear()

    def fetch(self) -> None:
        """Bring the trace and the newest checkpoint that is whole; one of another version raises, as in a directory."""
        from walkback.lab.runs import checkpoint

        shutil.rmtree(self.checkpoints, ignore_errors=True)
        self.checkpoints.mkdir(parents=True)
        self._bring_trace()
        for key in reversed(self.objects.keys(self._key("checkpoints"))):
            target = self.checkpoints / key.rpartition("/")[2]
            target.write_bytes(self.objects.read(key) or b"")
            if checkpoint.if_whole(target) is not None:
                return
            target.unlink()

    def start_anew(self) -> None:
        """Here and in the store."""
        super().start_anew()
        self._keep_newest(0)
        for key in self.objects.keys(self._key("epochs")):
            self.objects.remove(key)

    def saved(self, epoch: int) -> None:
        """Take an epoch up: its line, then its checkpoint."""
        from walkback.lab.runs.checkpoint import KEPT, file_of

        for held in self._lease:
            held.check()
        record = trace.read(self.trace_file)[-1]
        self.objects.write(self._key(f"epochs/{epoch:05d}.json"), record.line().encode())
        path = file_of(self.checkpoints, epoch)
        self.objects.write(self._key(f"checkpoints/{path.name}"), path.read_bytes())
        self._keep_newest(KEPT)

    def finish(self, result: dict[str, Any]) -> None:
        """Take the result up; one that is there already stays."""
        super().finish(result)
        if not self.objects.create(self._key("result.json"), self._own_result.read_bytes()):
            self._bring("result.json", again=True)
        self._keep_newest(1)

    def forget(self) -> None:
        """Remove this process's copy."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _keep_newest(self, count: int) -> None:
        keys = self.objects.keys(self._key("checkpoints"))
        for key in keys[: len(keys) - count]:
            self.objects.remove(key)

    def _bring_trace(self) -> None:
        found = self.objects.read_all(self.objects.keys(self._key("epochs")))
        lines = [found[key].decode(errors="replace") + "\n" for key in sorted(found)]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.trace_file.write_text("".join(lines), encoding="utf-8")

    def _bring(self, name: str, again: bool = False) -> bool:
        """Copy one object here; whether it is there."""
        target = self.folder / name
        if target.exists() and not again:
            return True
        content = self.objects.read(self._key(name))
        if content is None:
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return True

    def _key(self, name: str) -> str:
        return f"{self.run_id}/{name}"


class RemoteRunStore(RunStore):
    """Runs under an address, and an archive of finished ones on this machine."""

    def __init__(self, address: str, archive: str | Path | None = None, claim: Claim | None = None) -> None:
        self.objects, self.claim = Objects(address), claim or Claim()
        copies = tempfile.mkdtemp(prefix="walkback-runs-")
        weakref.finalize(self, shutil.rmtree, copies, ignore_errors=True)
        super().__init__(copies, archive if archive is not None else ARCHIVE)

    @property
    def place(self) -> str:
        """Where the runs are."""
        return self.objects.address

    address = place

    def at(self, run_id: str) -> RemoteRun:
        """The place of the run with that whole id, whether it is there or not."""
        plain = super().at(run_id)
        return RemoteRun(plain.folder, plain.archived, objects=self.objects, claim=self.claim)

    def open(self, config: RunConfig) -> StoredRun:
        """The place of a run, made if it is not there."""
        run = super().open(config)
        self.objects.create(f"{run.run_id}/config.json", (run.folder / "config.json").read_bytes())
        return run

    def keep(self, run: StoredRun) -> None:
        """Copy the result of a finished run into the archive, once."""
        if run.finished:  # which brings the result here
            super().keep(run)

    def _ids(self) -> list[str]:
        """Of all runs; what is small of each is brought here, all at once."""
        wanted = [key for key in self.objects.keys("") if BROUGHT.fullmatch(key)]
        for key, content in self.objects.read_all(wanted).items():
            target = self.root / key
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
        return super()._ids()
