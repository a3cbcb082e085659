"""Weights & Biases: every measurement of a monitor in a run, online or offline.

    run = wandb.init(project="…", mode="offline")
    Monitor(model, batches, logs=[WandbLog(run)])

Needs `pip install "walkback[wandb]"`.
"""

from __future__ import annotations

from typing import Any

from walkback.errors import InputError
from walkback.extras import optional
from walkback.integrations.scalars import scalars, verdict_text
from walkback.watch.event_files import PREFIX
from walkback.watch.policy import Decision
from walkback.watch.trace_line import TraceLine


class WandbLog:
    """A log for `Monitor(logs=[...])`."""

    def __init__(self, run: Any = None) -> None:
        """`run` is what `wandb.init` returned; where not given, the run that is active."""
        self.run = run if run is not None else optional("wandb").run
        if self.run is None:
            raise InputError("no run of W&B is active. Call wandb.init(…) first, or pass WandbLog(run).")

    def __call__(self, line: TraceLine, decision: Decision) -> None:
        """Log one measurement; W&B counts its own steps, and the training step is a figure of its own."""
        step = {} if line.step is None else {f"{PREFIX}step": line.step}
        self.run.log(scalars(line) | step)
        self.run.summary[f"{PREFIX}verdict"] = verdict_text(line)
        for letter, at in decision.first_fired.items():
            self.run.summary[f"{PREFIX}first_fired/{letter}"] = str(at)
