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
    """Writes every measurement of a monitor to a run of Weights & Biases, online or offline.

    Needs `pip install "walkback[wandb]"`.

    Args:
        run: what `wandb.init` returned; the active run where not given.

    Raises:
        MissingLibrary: wandb is not installed, and no run was given.
        InputError: no run is active.

    Examples:
        >>> import torch, walkback
        >>> from types import SimpleNamespace
        >>> from walkback.integrations.wandb import WandbLog
        >>> model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(3)])
        >>> batches = [(torch.randn(64, 8), torch.randint(8, (64,)))]
        >>> run = SimpleNamespace(log=lambda scalars: None, summary={})  # in place of wandb.init(project="…")
        >>> decision = walkback.Monitor(model, batches, logs=[WandbLog(run)]).step(epoch=1)
        >>> run.summary["walkback/verdict"]
        'epoch 1: nothing fired'
    """

    def __init__(self, run: Any = None) -> None:
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
