"""A comparison as tables: scores and differences, and what is known of credit, depth and health. No torch."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from walkback.lab.comparisons.plan import BP, FROZEN
from walkback.present.page import Grid, Links
from walkback.protocol.json_codec import number

Record = Mapping[str, Any]
Linked = Callable[[str], str]
"""The address of a run's record, by its id."""
PANELS = ("april2026", "june2026", "calibrated")
NONE = "–"
BASELINE = "is the baseline"
"""Of the frozen arm: with blocks left at random it has no depth gain, and (d) is the margin over itself."""


def finished(arm: Record) -> list[Record]:
    """The runs of an arm that are finished."""
    return [run for run in arm["runs"] if not run["error"]]


def scores(record: Record, address: str = "", linked: Linked | None = None) -> Grid:
    """Rates tried, the best, the score with its interval, and the differences in pairs.

    Args:
        record: the comparison.
        address: where its file is, for links; empty on a terminal.
        linked: where the file of a run is.
    """
    tokens = any("perplexity" in run for arm in record["arms"] for run in finished(arm))
    more = ("loss (perplexity)",) if tokens else ()
    rows = [
        [
            arm["label"],
            ", ".join(f"{rate['rate']:g}" for rate in arm["rates"]),
            _led(best_words(arm), address),
            _led(_score(arm["accuracy"]), address),
            *([_led(_loss(arm), address)] if tokens else []),
            _led(difference(arm["to_bp"]), address),
            _led(difference(arm["to_frozen"]), address),
            _runs(arm, linked),
        ]
        for arm in record["arms"]
    ]
    headings = ("method", "rates tried", "best rate", "test accuracy, %", *more, "minus BP, points",
                "minus frozen, points", "runs, by seed")  # fmt: skip
    return Grid(headings, rows, "llrr" + "r" * len(more) + "rrl")


def health(record: Record, address: str = "") -> Grid:
    """Per method: does it use depth, is its credit aligned, is its network broken; with the verdict of each panel."""
    rows = [
        [
            arm["label"],
            _led(depth_words(arm), address),
            _led(gamma_words(arm), address),
            _led(_mean(finished(arm), "rho"), address),
            _led(_largest(finished(arm), "growth"), address),
            *(_led(outcomes(arm, panel), address) for panel in PANELS),
        ]
        for arm in record["arms"]
    ]
    headings = ("method", "depth gain", "Γ (above fresh feedback)", "ρ", "growth of one block", *PANELS)
    return Grid(headings, rows, "lrrrrlll")


def best_words(arm: Record) -> str:
    """The best rate, with a mark where it is at the end of the grid."""
    if arm["best"] is None:
        return "not chosen"
    return f"{arm['best']:g}" + (" (!)" if arm["remarks"] else "")


def _score(found: Record | None) -> str:
    return NONE if found is None else percent(found["mean"]) + _between(found, percent)


def percent(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.2f}"


def points(value: float) -> str:
    """A difference in points, with its sign."""
    return f"{100 * value:+.2f}"


def _between(found: Record, write: Callable[[float], str]) -> str:
    return "" if found.get("low") is None else f" ({write(found['low'])} to {write(found['high'])})"


def difference(found: Record | None) -> str:
    """The mean, and its interval over seeds; over samples where there is one seed alone."""
    if found is None:
        return NONE
    if found["seeds"]["low"] is not None:
        return points(found["mean"]) + _between(found["seeds"], points)
    return points(found["mean"]) + _between(found["samples"], points) + " over samples"


def _loss(arm: Record) -> str:
    if arm["loss"] is None:
        return NONE
    known = [run["perplexity"] for run in finished(arm) if run.get("perplexity") is not None]
    return f"{arm['loss']['mean']:.3f}" + (f" ({statistics.fmean(known):.2f})" if known else "")


def depth_words(arm: Record) -> str:
    """The share of the frozen arm's errors that training the blocks removes, and in how many seeds that is shown."""
    if arm["label"] == FROZEN:
        return BASELINE
    runs = [run for run in finished(arm) if run.get("depth_gain") is not None]
    if not runs:
        return NONE
    shown = sum(run["depth_case"] == "gains" for run in runs)
    mean = statistics.fmean(float(number(run["depth_gain"]) or 0) for run in runs)
    return f"{100 * mean:.0f} % ({shown} of {len(runs)} gain)"


def gamma_of(arm: Record) -> float | None:
    """Γ behind h_0, its mean over seeds; None where the method has no credit, or nothing is known."""
    known = [number(run["gamma"]) for run in finished(arm) if run.get("gamma") is not None]
    finite = [value for value in known if value is not None and value == value]
    return statistics.fmean(finite) if finite else None


def gamma_words(arm: Record) -> str:
    """Γ, and by how many standard deviations it is above that of fresh feedback, where there is such a null."""
    mean, runs = gamma_of(arm), finished(arm)
    if mean is None:
        return "no credit" if any(run.get("no_gamma") for run in runs) else NONE
    known = [number(run["gamma_z"]) for run in runs if run.get("gamma_z") is not None]
    deviations = [value for value in known if value is not None and value == value]
    return f"{mean:.3f}" + (f" (z {statistics.fmean(deviations):.1f})" if deviations else "")


def outcomes(arm: Record, panel: str) -> str:
    """What a panel says of the seeds: `pass`, or `fail 2, pass 1`. The frozen arm is not judged."""
    if arm["label"] == FROZEN:
        return NONE
    found = [run["verdicts"][panel]["outcome"] for run in finished(arm) if panel in run.get("verdicts", {})]
    if not found:
        return NONE
    counts = {word: found.count(word) for word in ("fail", "incomplete", "pass") if word in found}
    return next(iter(counts)) if len(counts) == 1 else ", ".join(f"{word} {count}" for word, count in counts.items())


def failing(arm: Record, panel: str) -> tuple[int, int]:
    """How many runs of an arm a panel fails, of those that it speaks of."""
    found = [run["verdicts"][panel]["outcome"] for run in finished(arm) if panel in run.get("verdicts", {})]
    return found.count("fail"), len(found)


def _mean(runs: Sequence[Record], name: str) -> str:
    known = [number(run[name]) for run in runs if run.get(name) is not None]
    return f"{statistics.fmean([value for value in known if value is not None]):.3f}" if known else NONE


def _largest(runs: Sequence[Record], name: str) -> str:
    known = [value for run in runs if run.get(name) is not None and (value := number(run[name])) is not None]
    return f"{max(known):.3g}×" if known else NONE


def remarks(record: Record) -> list[str]:
    """What has to be said beside the tables: rates at the end of the grid, runs that diverged or failed."""
    found = [f"{arm['label']}: {remark}" for arm in record["arms"] for remark in arm["remarks"]]
    for arm in record["arms"]:
        found += [f"{arm['label']}, rate {each['rate']:g}: {each['ended']}." for each in arm["rates"] if each["ended"]]
        found += [f"{arm['label']}, seed {run['seed']}: {run['ended']}." for run in finished(arm) if run["ended"]]
    return found


def read_words(record: Record) -> str:
    """Which runs read the test split, and how often."""
    reads = record["test_reads"]
    return (
        f"{reads['how']} Finished so far: {reads['tuning_runs']} runs that try a rate, with "
        f"{reads['reads_of_each_tuning_run']} reads of the test split; {reads['final_runs']} final runs, with "
        f"{reads['reads_of_each_final_run']} read each."
    )


def bp_of(record: Record) -> Record:
    """The arm of backpropagation."""
    return next(arm for arm in record["arms"] if arm["label"] == BP)


def _runs(arm: Record, linked: Linked | None) -> str:
    runs = [(str(run["seed"]) + (" missing" if run["error"] else ""), run) for run in arm["runs"]]
    if linked is None:
        return " ".join(words for words, _ in runs) or NONE
    return Links([(words, "" if run["error"] else linked(run["run"])) for words, run in runs] or [(NONE, "")])


def _led(words: str, address: str) -> str:
    """A cell that leads to the record, where it says something."""
    return Links([(words, address)]) if address and words != NONE else words
