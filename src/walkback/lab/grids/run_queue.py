"""The runs that a grid hands out: in their order, and those that others are training when these are done with them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunStore

LOOK_SECONDS = 1.0
"""How often runs that others train are looked at."""


class RunQueue:
    """What is left to hand out.

    A run that a process of nobody here is training is put aside. Once that one has ended, the run is handed out again:
    whoever gets it finds its result, or goes on from its last checkpoint.
    """

    def __init__(self, runs: Sequence[RunConfig], store: RunStore) -> None:
        self._configs = {config.run_id: config for config in runs}
        self._waiting, self._store = deque(runs), store
        self._aside: dict[str, None] = {}
        self._looked = time.monotonic()

    @property
    def watched(self) -> bool:
        """Whether runs that others train are to be looked at again."""
        return bool(self._aside)

    def next(self) -> RunConfig | None:
        """A run to hand out, if there is one at this moment."""
        if self._waiting:
            return self._waiting.popleft()
        if self._aside and time.monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = time.monotonic()
            free = [run_id for run_id in self._aside if not self._store.at(run_id).taken]
            for run_id in free:
                del self._aside[run_id]
                self._waiting.append(self._configs[run_id])
        return self._waiting.popleft() if self._waiting else None

    def put_aside(self, run_id: str) -> None:
        """Others are training it."""
        self._aside[run_id] = None
