"""The record of a comparison: every arm with its rates, its runs, its score, its differences and its verdicts.

One JSON file, `compare_NAME.json`. It says which runs read the test split and how often, from what the runs themselves
recorded. The same runs give the same record but for `date` and `commit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.lab.comparisons.choosing import NOT_FINISHED, best_of, criterion_of, edge_remark, tried
from walkback.lab.comparisons.differences import LEVEL, over_seeds, paired
from walkback.lab.comparisons.judged import judged_run
from walkback.lab.comparisons.plan import BP, FROZEN, TUNING_SEED, Comparison
from walkback.lab.grids.grid import GridRow
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.correctness import unpacked
from walkback.lab.runs.stamp import stamp
from walkback.lab.runs.store import RunStore
from walkback.protocol.json_codec import json_text, number
from walkback.protocol.schema import write_whole
from walkback.watch.what_is import Kind, require

COMPARISON_VERSION = 1
Results = Mapping[int, Mapping[str, Any]]
"""The results of the finished final runs of an arm, by seed."""
READS = (
    "Rates were chosen on validation samples, which were cut off the training split; runs that try a rate never read "
    "the test split. A final run reads it once, after its last step: nothing was chosen by it."
)


def comparison_file(results: Path, name: str) -> Path:
    """Where the record of a comparison is kept."""
    return results / f"compare_{name}.json"


def record_of(comparison: Comparison, store: RunStore, errors: Mapping[str, str], command: str) -> dict[str, Any]:
    """The record of whatever is finished; what is not is named in its place."""
    begun = [_begun(comparison, arm, store, errors) for arm in comparison.arms()]
    finished = {entry["label"]: found for entry, found in begun}
    arms = [_compared(entry, finished) for entry, _ in begun]
    final = [run for arm in arms for run in arm["runs"] if not run["error"]]
    tuning = [rate for arm in arms for rate in arm["rates"] if not rate["error"]]
    return {
        "comparison_version": COMPARISON_VERSION,
        "name": comparison.name,
        "command": command,
        "config": comparison.to_dict(),
        "validation": next((rate["validation"] for rate in tuning), None),
        "tuning_seed": TUNING_SEED,
        "seeds": list(comparison.seed_list),
        "multipliers": [float(f"{each:.4g}") for each in comparison.multipliers],
        "interval_level": LEVEL,
        "trained_on": "the training split without the validation samples, by tuning runs and final runs alike",
        "test_reads": {"how": READS, "tuning_runs": len(tuning), "reads_of_each_tuning_run": 0,
                       "final_runs": len(final), "reads_of_each_final_run": 1},
        "arms": [{**arm, "rates": [_without(rate, "validation") for rate in arm["rates"]]} for arm in arms],
        "undefined": comparison.undefined,
        **stamp(),
    }  # fmt: skip


def _begun(
    comparison: Comparison, arm: GridRow, store: RunStore, errors: Mapping[str, str]
) -> tuple[dict[str, Any], Results]:
    """An arm with its rates and the states of its runs, and the results of those that are finished."""
    rates = tried(comparison, arm, store, errors)
    best = best_of(rates)
    configs = comparison.final_runs(arm, best.rate) if best is not None else []
    found = {config.seed: _result(config, store) for config in configs if store.run(config).finished}
    entry: dict[str, Any] = {
        "label": arm.label,
        "method": arm.method,
        "options": arm.options,
        "default_rate": comparison.centre(arm),
        "rates": [
            {
                "rate": each.rate, "run": each.run, "command": each.command, "error": each.error,
                "accuracy": each.accuracy, "loss": each.loss, "ended": each.ended, "validation": each.cut,
            }
            for each in rates
        ],
        "chosen_by": criterion_of(rates) if best is not None else None,
        "best": None if best is None else best.rate,
        "remarks": list(filter(None, [edge_remark(rates, best)])),
        "runs": [_state(config, store, errors) for config in configs],
    }  # fmt: skip
    return entry, found


def _result(config: RunConfig, store: RunStore) -> dict[str, Any]:
    result = store.run(config).result()
    if result.get("test_reads") != 1:
        raise RecordError(f"run {config.run_id} does not say that it read the test split once. Train it again.")
    return result


def _state(config: RunConfig, store: RunStore, errors: Mapping[str, str]) -> dict[str, Any]:
    error = "" if store.run(config).finished else errors.get(config.run_id, NOT_FINISHED)
    return {"seed": config.seed, "run": config.run_id, "command": config.command, "error": error}


def _compared(entry: dict[str, Any], finished: Mapping[str, Results]) -> dict[str, Any]:
    """The arm with what its runs found, beside BP and the frozen arm."""
    own, frozen = finished[entry["label"]], finished[FROZEN]
    runs = [
        run | (judged_run(own[run["seed"]], frozen.get(run["seed"])) if run["seed"] in own else {})
        for run in entry["runs"]
    ]
    losses = [number(result["loss"]) for result in own.values() if result.get("loss") is not None]
    return entry | {
        "runs": runs,
        "accuracy": over_seeds([float(result["accuracy"]) for result in own.values()]) if own else None,
        "loss": over_seeds([loss for loss in losses if loss is not None]) if losses else None,
        "to_bp": _difference(own, finished[BP]) if entry["label"] != BP else None,
        "to_frozen": _difference(own, frozen) if entry["label"] != FROZEN else None,
    }


def _difference(own: Results, other: Results) -> dict[str, Any] | None:
    """Over the seeds that both have; None where there are none."""
    seeds = [seed for seed in own if seed in other]
    bits = [(unpacked(own[seed]), unpacked(other[seed])) for seed in seeds]
    pairs = [(one, two) for one, two in bits if one is not None and two is not None]
    return paired([one for one, _ in pairs], [two for _, two in pairs]) if pairs else None


def _without(entry: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != name}


def refuse_another(path: Path, comparison: Comparison) -> None:
    """Raise where the file holds the record of another comparison, which would be lost."""
    if path.exists() and load_comparison(path)["config"] != comparison.to_dict():
        raise InputError(f"{path} is of a comparison with other settings. Give this one another --name, or move that.")


def load_comparison(path: Path) -> dict[str, Any]:
    """A record from its file."""
    again = "Make it again with: walkback lab compare"
    found: dict[str, Any] = require(path, Kind.COMPARISON, again)
    if found["comparison_version"] != COMPARISON_VERSION or not found.keys() >= {"name", "config", "arms"}:
        raise RecordError(f"{path} is no comparison of version {COMPARISON_VERSION}. {again}")
    return found


def write_comparison(path: Path, record: Mapping[str, Any]) -> Path:
    """Write the record whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_whole(path, json_text(record))


def missing_runs_of(record: Mapping[str, Any]) -> list[str]:
    """What a record lacks, as `dfa 42` or `dfa, rate 0.001`."""
    found = []
    for arm in record["arms"]:
        found += [f"{arm['label']}, rate {rate['rate']:g}" for rate in arm["rates"] if rate["error"]]
        found += [f"{arm['label']} {run['seed']}" for run in arm["runs"] if run["error"]]
    return found


def failed_runs(record: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Runs that failed, with their errors."""
    every = [(arm["label"], run) for arm in record["arms"] for run in (*arm["rates"], *arm["runs"])]
    return [(f"{label} {run['run']}", run["error"]) for label, run in every if run["error"] not in ("", NOT_FINISHED)]
