"""Who is told of every measurement of a monitor: its trace, its logs, and the one-line view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from walkback.protocol.records import Measurements, Reading
from walkback.watch.budget import Clock
from walkback.watch.live import live_view
from walkback.watch.policy import Decision
from walkback.watch.trace import OpenTrace
from walkback.watch.trace_identity import Identity
from walkback.watch.trace_line import TraceLine, line_of

Log = Callable[[TraceLine, Decision], None]
"""Something that is told of every measurement, such as `walkback.integrations.tensorboard.TensorBoardLog`."""


class Journal:
    """Writes one line for each measurement, and hands it to the logs."""

    def __init__(self, clock: Clock, logs: Sequence[Log], live: bool) -> None:
        self.clock = clock
        self.logs: tuple[Log, ...] = (*logs, live_view()) if live else tuple(logs)
        self.last: TraceLine | None = None
        """The last line, of this process or of the trace that it resumed."""
        self._last_written = clock.now()
        self._open_trace: OpenTrace | None = None

    def open(self, trace: Path, own: Identity, *, named: bool, resume: bool) -> Sequence[TraceLine]:
        """Begin a trace, or go on with it; the lines that it holds of this run."""
        self._open_trace = OpenTrace(trace, own, named=named, resume=resume)
        lines = self._open_trace.lines
        self.last = lines[-1] if lines else None
        return lines

    def tell(
        self,
        measured: Measurements,
        readings: Sequence[Reading],
        decision: Decision,
        source: str,
        unmeasured: str = "",
        loss: float | None = None,
    ) -> None:
        """Write down one measurement, made at the moment of its decision."""
        now, training = self.clock.now(), self.clock.training
        self.last = line = line_of(
            measured, readings, epoch=decision.at.epoch, step=decision.at.step, source=source, unmeasured=unmeasured,
            action=decision.action, reason=decision.reason, seconds=now - self._last_written, loss=loss,
            overhead=self.clock.measuring / training if training > 0 else None,
        )  # fmt: skip
        self._last_written = now
        if self._open_trace is not None:
            self._open_trace.append(line)
        for log in self.logs:
            log(line, decision)
