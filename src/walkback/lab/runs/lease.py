"""One process per run, where there is no lock: an object that its owner keeps writing to.

A lease says who trains a run. Its owner writes to it every few seconds; one that has stopped doing so has lost it,
and whoever waits for the run takes it over. This keeps two processes from the same work; it is not what makes
results right. Should two train one run all the same (a machine that was cut off and comes back), both write the same
epochs, because a run depends on its config alone, and the first result stays.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from walkback.errors import RunError, RunTaken
from walkback.lab.runs.objects import Objects
from walkback.protocol.schema import parse_json

LEASE_SECONDS = 30.0
"""How long a lease that is not written to is good for."""
LONG_AGO = 20 * LEASE_SECONDS
"""A lease that was written to so long ago, by this machine's clock, is watched half as long: two machines' clocks may
differ by any amount, or jump, and its owner writes twice in that time."""


@dataclass(frozen=True)
class Claim:
    """Who asks for a run. A later attempt of the same session outranks an earlier one, whose process is gone."""

    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    attempt: int = 0

    def outranks(self, other: dict[str, Any]) -> bool:
        """Whether this claim need not wait for the lease of another."""
        return bool(self.session == other.get("session") and self.attempt > other.get("attempt", 0))


class Lease:
    """A process's hold on one run."""

    def __init__(self, objects: Objects, key: str, what: str, claim: Claim) -> None:
        self.objects, self.key, self.what, self.claim = objects, key, what, claim
        self.token = uuid.uuid4().hex
        self.lost = threading.Event()

    @contextmanager
    def held(self, seconds: float = LEASE_SECONDS) -> Iterator[None]:
        """Hold the lease and keep writing to it; a living owner is waited for once its lease could have ended."""
        self._take(seconds)
        done = threading.Event()
        writer = threading.Thread(target=self._renew, args=(done, seconds / 4), daemon=True)
        writer.start()
        try:
            yield
        finally:
            done.set()
            writer.join()
            self._let_go()

    def check(self) -> None:
        """Raise where someone else has the run by now."""
        if self.lost.is_set():
            raise RunTaken(f"{self.what} was taken over by another process, which continues it.")

    def _take(self, seconds: float) -> None:
        """Watch the lease until it is free, or has not been written to for as long as it lasts."""
        seen, since, renewals, started = None, 0.0, -1, time.monotonic()
        while not self._free(current := parsed(content := self.objects.read(self.key))):
            if current != seen:
                seen, since, renewals = current, time.monotonic(), renewals + 1
            if time.monotonic() - since > (seconds / 2 if _is_long_ago(current) else seconds):
                break
            # Alive is who was seen to write; a store that answers slowly says nothing of it.
            if renewals and time.monotonic() - started > 2 * seconds:
                raise RunTaken(f"{self.what} is being trained by {holder(current)}. Wait for it, or end it first.")
            time.sleep(min(1.0, seconds / 20))
        # Where there was nothing, one of several that saw it so gets it; what is there and is no lease, as a write that
        # broke off leaves it, is written over.
        self._write(first=content is None)
        while (now := read(self.objects, self.key)).get("token") != self.token:
            if not self.claim.outranks(now):
                raise RunTaken(f"{self.what} was taken at the same moment by another process, which continues it.")
            self._write()  # an earlier attempt renewed it meanwhile, and will notice

    def _free(self, current: dict[str, Any]) -> bool:
        return not current or self.claim.outranks(current)

    def _write(self, first: bool = False) -> None:
        content = {
            "token": self.token, "session": self.claim.session, "attempt": self.claim.attempt,
            "host": socket.gethostname(), "process": os.getpid(), "renewed": time.time(),
        }  # fmt: skip
        write = self.objects.create if first else self.objects.write
        write(self.key, json.dumps(content).encode())

    def _renew(self, done: threading.Event, seconds: float) -> None:
        while not done.wait(seconds):
            # A store that does not answer now may answer next time; the lease has three more chances.
            with suppress(RunError):
                if read(self.objects, self.key).get("token") != self.token:
                    self.lost.set()
                    return
                self._write()

    def _let_go(self) -> None:
        with suppress(RunError):
            if read(self.objects, self.key).get("token") == self.token:
                self.objects.remove(self.key)


def read(objects: Objects, key: str) -> dict[str, Any]:
    """What a lease says; empty where there is none."""
    return parsed(objects.read(key))


def parsed(content: bytes | None) -> dict[str, Any]:
    """A lease from what an object holds; empty where that is no lease."""
    try:
        found = parse_json(content or b"{}")
    except ValueError:
        return {}
    whole = isinstance(found, dict) and isinstance(found.get("attempt", 0), int)
    return found if whole and isinstance(found.get("renewed"), int | float) else {}


def _is_long_ago(current: dict[str, Any]) -> bool:
    return bool(time.time() - current["renewed"] > LONG_AGO)


def is_alive(objects: Objects, key: str) -> bool:
    """Whether a lease was written to lately, by this machine's clock.

    One from the future is of a clock that was set back since, or of one that goes wrong: nothing can be told from it,
    and whoever wants the run finds out by watching it.
    """
    found = read(objects, key)
    return bool(found) and abs(time.time() - found["renewed"]) < 2 * LEASE_SECONDS


def holder(lease: dict[str, Any]) -> str:
    """Who has a lease, in words."""
    return f"process {lease.get('process')} on {lease.get('host')}"
