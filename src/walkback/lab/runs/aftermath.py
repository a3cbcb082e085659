"""What a run leaves behind: all that needs the weights, measured when the run ends and kept as JSON."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.runs.assembly import Assembly, initial_model
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.correctness import packed
from walkback.lab.runs.depth_tests import depth_tests
from walkback.lab.runs.derive import derived_seed
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.functional_tests import functional_tests
from walkback.lab.runs.measure import correct_on, held_out, loss_on, report_if_possible, share_of
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.store import RESULT_VERSION, described
from walkback.lab.runs.token_credit import gamma_by_token
from walkback.lab.runs.validation import NOT_TESTED
from walkback.lab.zoo.datasets import Dataset
from walkback.protocol.alignment import NULL_DRAWS
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.scores import Score
from walkback.watch.trace_line import rounded

DIGITS = 8


def result_of(
    config: RunConfig,
    run: Assembly,
    dataset: Dataset,
    trace: Sequence[EpochRecord],
    ended: str,
    made_by: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole record of a finished run.

    `ended` says why it stopped before its last epoch, if it did; `made_by` is the `commit` of the code that trained it
    and what it was `trained_on`, several of each where it was resumed by or on another.
    """
    start = time.perf_counter()
    correct = correct_on(run.method, dataset.test)
    accuracy, loss = share_of(correct), loss_on(run.method, dataset.test)
    measured = _measured(config, run, dataset, accuracy) if config.tested else dict(_NOTHING_ELSE)
    if config.tested:
        measured["correct"] = packed(correct.cpu().numpy())
    return {
        "result_version": RESULT_VERSION,
        **described(config),
        "ended": ended,
        "accuracy": accuracy.value,
        "loss": rounded(loss, DIGITS),
        **({} if correct.ndim == 1 else {"perplexity": _perplexity(loss), "test_answers": correct.numel()}),
        "train_samples": len(dataset.train),
        "test_samples": len(dataset.test),
        "trained_parameters": sum(parameter.numel() for parameter in run.trained.values()),
        **measured,
        "trace": [record.compact() for record in trace],
        "seconds": _seconds(trace, start),
        **stamp(),
        **made_by,
    }


_NOTHING_ELSE = {"report": None, "unmeasured": NOT_TESTED, "depth": None, "functional": {"unmeasured": NOT_TESTED}}


def _measured(config: RunConfig, run: Assembly, dataset: Dataset, accuracy: Score) -> dict[str, Any]:
    """All that is asked of a network beside its score."""
    batches = held_out(dataset)
    report = report_if_possible(
        config, run, batches, accuracy, null_draws=NULL_DRAWS, **_asked_besides(config, run, dataset)
    )
    depth = depth_tests(config, run.method, dataset) if len(run.model.blocks) else None
    by_token = gamma_by_token(run, batches)
    return {
        "report": None if isinstance(report, str) else _compact(report),
        "unmeasured": report if isinstance(report, str) else "",
        "depth": rounded(depth),
        "functional": rounded(functional_tests(config, run, batches)),
        **({} if by_token is None else {"gamma_by_token": rounded(by_token)}),
    }


def _asked_besides(config: RunConfig, run: Assembly, dataset: Dataset) -> dict[str, Any]:
    """What `calibrated` decides by beside the published four; runs from before there was a validation share lack it."""
    if not config.validation:
        return {}
    start = initial_model(config, dataset.spec, derived_seed(config.seed, "weights")).to(run.device)
    return {"initial": start, "readouts": not dataset.spec.target_shape}


def _perplexity(loss: float | None) -> float | None:
    """e to the mean loss of a token; none where there is no loss, or it is beyond what a float holds."""
    if loss is None or not loss < math.log(sys.float_info.max):
        return None
    perplexity: float = rounded(math.exp(loss), DIGITS)
    return perplexity


def _compact(report: DiagnosticReport) -> dict[str, Any]:
    """The report in eight significant digits, but for the accuracy, from which a margin is taken."""
    compact: dict[str, Any] = rounded(report.to_dict(), DIGITS)
    return compact | {"headline_acc": report.headline_acc}


def _seconds(trace: Sequence[EpochRecord], start: float) -> dict[str, float]:
    epochs = sum(record.seconds for record in trace)
    return {"epochs": round(epochs, 1), "aftermath": round(time.perf_counter() - start, 1)}
