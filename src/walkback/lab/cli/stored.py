"""A run id, a run's directory or a checkpoint as the target of `diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from walkback.errors import RunError
from walkback.lab.runs.store import RunStore, StoredRun, open_store
from walkback.lab.runs.verbs import todays

if TYPE_CHECKING:
    from walkback.protocol.records import DiagnosticReport
    from walkback.protocol.thresholds import DiagnosticThresholds


NO_NETWORK = (
    "A checkpoint alone is no network: give my_script.py:function, where the function builds the model, loads the "
    "weights and returns (model, batches)."
)
WEIGHTS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")
"""What files of weights are called; no run id ends so."""


def is_stored(target: str) -> bool:
    """Whether the target is something that training left, and not a function to import."""
    return Path(target).exists() and not target.endswith(".py") if ":" in target else not target.endswith(".py")


def diagnose_stored(
    target: str,
    runs: str | None,
    thresholds: DiagnosticThresholds | None,
    require_all: bool,
    measuring: dict[str, Any],
) -> DiagnosticReport:
    """The report on a run or a checkpoint, with its matched baseline or the command that makes it.

    A finished run brings its measurements, which are judged again. A checkpoint, a run under way, and another
    way of measuring than the run's own need the weights.
    """
    from walkback.lab.runs.baselines import finished_report

    path = Path(target)
    if path.is_file():
        # A checkpoint in its place lies in runs/<id>/checkpoints, and its baseline in the same store.
        store = open_store(_store_around(path) if runs is None else runs)
        return _measured(path, store, thresholds, require_all, measuring)
    if path.is_dir():
        stored = _run_at(path)
        store = open_store(stored.folder.parent if runs is None else runs)
    else:
        store = open_store(runs)
        stored = _find(target, store)
    if stored.finished and not measuring:
        return finished_report(store, stored, thresholds, require_all=require_all)
    return _measured(_newest_file(stored), store, thresholds, require_all, measuring)


def _measured(
    path: Path,
    store: RunStore,
    thresholds: DiagnosticThresholds | None,
    require_all: bool,
    measuring: dict[str, Any],
) -> DiagnosticReport:
    """Measure the network in a checkpoint, as its run would have."""
    from walkback.lab.runs import checkpoint
    from walkback.lab.runs.assembly import assemble, dataset_of
    from walkback.lab.runs.baselines import baseline_result, join
    from walkback.lab.runs.measure import accuracy_on, held_out, report_on
    from walkback.lab.runs.store import described
    from walkback.lab.runs.validation import splits_of

    saved = checkpoint.load(path)
    dataset = splits_of(saved.config, dataset_of(saved.config)).at_the_end
    run = assemble(saved.config, dataset.spec)
    saved.restore_networks(run)
    accuracy = accuracy_on(run.method, dataset.test)
    report = report_on(saved.config, run, held_out(dataset), accuracy, **measuring)
    about = described(saved.config)
    baseline = baseline_result(store, about)
    return join(report, about, baseline, thresholds, epoch=saved.epoch, require_all=require_all)


def _store_around(path: Path) -> Path | None:
    in_place = path.parent.name == "checkpoints" and (path.parents[1] / "config.json").exists()
    return path.resolve().parents[2] if in_place else None


def _run_at(folder: Path) -> StoredRun:
    if not (folder / "config.json").is_file():
        raise RunError(
            f"{folder} is not a run's directory: it holds no config.json. Give one that `walkback lab train` made."
        )
    return StoredRun(folder.resolve())


def _find(target: str, store: RunStore) -> StoredRun:
    if target.endswith(WEIGHTS):
        raise RunError(f"there is no file {target}. {NO_NETWORK} Of the lab, give a run id or one of its checkpoints.")
    try:
        return store.find(target)
    except RunError as error:
        raise RunError(
            f"TARGET is {target!r}: {error} Or give a checkpoint of the lab, or my_script.py:function, which returns "
            "(model, batches)."
        ) from None


def _newest_file(stored: StoredRun) -> Path:
    from walkback.lab.runs.checkpoint import newest

    stored.fetch()
    found = newest(stored.checkpoints)
    if found is None:
        raise RunError(f"run {stored.run_id} has no checkpoint. Train it: {todays(stored.settings['command'])}")
    return found.path
