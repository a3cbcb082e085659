"""What claims ask of the functional tests in a run's file; what is not there was not run."""

from __future__ import annotations

from walkback.lab.evidence.results import NotOnRecordError, Run
from walkback.lab.runs.functional_record import NUDGE, RHO, Path, mean_over_deep_blocks, training_loss


def deep_rho(run: Run) -> float:
    """ρ, the mean over the blocks behind the first: how credit told the change of the loss in random directions."""
    return _over_deep_blocks(run, RHO)


def deep_nudge(run: Run) -> float:
    """The change of the loss under h_l − η·a_l, η = 0.01, the mean over the blocks behind the first."""
    return _over_deep_blocks(run, NUDGE)


def loss_decrease(run: Run) -> float:
    """The training loss of epoch 1 minus that of the last epoch."""
    found = training_loss(run.result.get("trace") or [])
    if found is None:
        raise NotOnRecordError(f"{run.file} has no training loss of its first and last epoch")
    return found.decrease


def _over_deep_blocks(run: Run, path: Path) -> float:
    found = mean_over_deep_blocks(run.result, path)
    if found is None:
        raise NotOnRecordError(f"{run.file} has no {path[0]} per site")
    return found
