"""What a run leaves behind: all that needs the weights, measured when the run ends and kept as JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from walkback.lab.runs.assembly import Assembly
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.correctness import packed
from walkback.lab.runs.depth_tests import depth_tests
from walkback.lab.runs.epochs import EpochRecord
from walkback.lab.runs.functional_tests import functional_tests
from walkback.lab.runs.measure import correct_on, held_out, report_if_possible, share_of
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.store import RESULT_VERSION, described
from walkback.lab.zoo.datasets import Dataset
from walkback.protocol.alignment import NULL_DRAWS
from walkback.protocol.records import DiagnosticReport
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
    correct, batches = correct_on(run.method, dataset.test), held_out(dataset)
    accuracy = share_of(correct)
    report = report_if_possible(config, run, batches, accuracy, null_draws=NULL_DRAWS)
    depth = depth_tests(config, run.method, dataset) if len(run.model.blocks) else None
    return {
        "result_version": RESULT_VERSION,
        **described(config),
        "ended": ended,
        "accuracy": accuracy.value,
        "train_samples": len(dataset.train),
        "test_samples": len(dataset.test),
        **({} if correct.ndim == 1 else {"test_answers": correct.numel()}),
        "trained_parameters": sum(parameter.numel() for parameter in run.trained.values()),
        "report": None if isinstance(report, str) else _compact(report),
        "unmeasured": report if isinstance(report, str) else "",
        "depth": rounded(depth),
        "functional": rounded(functional_tests(config, run, batches)),
        "correct": packed(correct.cpu().numpy()),
        "trace": [record.compact() for record in trace],
        "seconds": _seconds(trace, start),
        **stamp(),
        **made_by,
    }


def _compact(report: DiagnosticReport) -> dict[str, Any]:
    """The report in eight significant digits, but for the accuracy, from which a margin is taken."""
    compact: dict[str, Any] = rounded(report.to_dict(), DIGITS)
    return compact | {"headline_acc": report.headline_acc}


def _seconds(trace: Sequence[EpochRecord], start: float) -> dict[str, float]:
    epochs = sum(record.seconds for record in trace)
    return {"epochs": round(epochs, 1), "aftermath": round(time.perf_counter() - start, 1)}
