"""TensorBoard: every measurement of a monitor as scalars per site, and the verdict as text.

    Monitor(model, batches, logs=[TensorBoardLog("runs/dfa")])

Needs `pip install "walkback[tensorboard]"`. `walkback replay` reads the event files back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from walkback.extras import optional
from walkback.integrations.scalars import scalars, verdict_text
from walkback.watch.event_files import PREFIX
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine


class TensorBoardLog:
    """Writes every measurement of a monitor to TensorBoard: scalars per site, and the verdict as text.

    Needs `pip install "walkback[tensorboard]"`. `walkback replay` reads the event files back.

    Args:
        writer: a directory, or a SummaryWriter that is open already.

    Raises:
        MissingLibrary: TensorBoard is not installed.

    Examples:
        >>> import tempfile, torch, walkback
        >>> from walkback.integrations.tensorboard import TensorBoardLog
        >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)])
        >>> batches = [(torch.randn(64, 8), torch.randint(8, (64,)))]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = TensorBoardLog(folder)
        ...     decision = walkback.Monitor(model, batches, logs=[log]).step(epoch=1)
        ...     log.close()
        >>> decision.measured
        True
    """

    def __init__(self, writer: str | Path | Any) -> None:
        if isinstance(writer, str | Path):
            optional("tensorboard")
            writer = optional("torch.utils.tensorboard").SummaryWriter(str(writer))
        self.writer = writer

    def __call__(self, line: TraceLine, decision: Decision) -> None:
        """Write one measurement, at its step or, where there is none, its epoch."""
        step = line.step if line.step is not None else int(line.epoch or 0)
        for name, value in scalars(line).items():
            self.writer.add_scalar(name, value, step)
        self.writer.add_text(f"{PREFIX}verdict", verdict_text(line), step)
        self.writer.flush()

    def close(self) -> None:
        """Close the writer."""
        self.writer.close()
