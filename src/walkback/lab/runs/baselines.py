"""The matched frozen-blocks run of any run, and reports joined with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from walkback.errors import RunError
from walkback.lab.runs.classes import with_classes
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.functional_record import fields_on_record
from walkback.lab.runs.ids import frozen_settings
from walkback.lab.runs.verbs import todays
from walkback.protocol.judge import judge
from walkback.protocol.records import DiagnosticReport, Measurements
from walkback.protocol.schema import naming_source
from walkback.protocol.scores import Frozen
from walkback.protocol.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from walkback.lab.runs.store import RunStore, StoredRun


FROZEN = Frozen(blocks=("blocks.*",))
"""What the matched baseline of any run freezes: every block of a `BlockModel`, and nothing else."""


_IS_A_BASELINE = "Its blocks are frozen or left out: this run is itself a frozen baseline, and (d) does not apply."
_NOT_PREDICTED = "and the bridge did not learn to predict it there, so Γ at those sites says nothing of training"
_LEARNT_BEHIND_H_0 = {
    "state_bridge": _NOT_PREDICTED,
    "credit_bridge_vector": _NOT_PREDICTED,
    "credit_bridge": "but its value network learnt at every site, so Γ at those sites is of that network and of no "
    "block",
}
"""What an auxiliary network learns at the sites of frozen blocks, by method; others have none."""


def matched_baseline(config: RunConfig) -> RunConfig | None:
    """The same run with its blocks frozen at their initial weights; None for a run that is a baseline."""
    frozen = frozen_settings(config.to_dict())
    return None if frozen is None else RunConfig(**frozen)


def finished_report(
    store: RunStore,
    run: RunConfig | StoredRun,
    thresholds: DiagnosticThresholds | None = None,
    *,
    require_all: bool = False,
) -> DiagnosticReport:
    """The report of a finished run, judged with its matched frozen baseline if the store has that finished.

    Where it has not, (d) is not measured and the notes give the command that makes it.
    """
    stored = store.run(run) if isinstance(run, RunConfig) else run
    with naming_source(f"the result of run {stored.run_id}"):
        result = stored.result()
        return joined_report(result, baseline_result(store, result), thresholds, require_all=require_all)


def baseline_result(store: RunStore, described: Mapping[str, Any]) -> dict[str, Any] | None:
    """The result of a run's matched baseline, if it is there; `described` is its settings or its result."""
    baseline = described["baseline"]
    if baseline is None:
        return None
    stored = store.at(baseline["id"])
    return stored.result() if stored.finished else None


def joined_report(
    result: Mapping[str, Any],
    baseline: Mapping[str, Any] | None,
    thresholds: DiagnosticThresholds | None = None,
    *,
    require_all: bool = False,
) -> DiagnosticReport:
    """A result's report with its baseline's accuracy, judged again; both as `result.json` holds them."""
    if result["report"] is None:
        raise RunError(f"run {result['id']} has no report: {result['unmeasured']}")
    report = with_classes(DiagnosticReport.from_dict(result["report"], f"run {result['id']}"), _data_of(result))
    # A record that contradicts itself here is refused, as it is anywhere.
    measured = {name: getattr(report, name) for name in Measurements.model_fields} | fields_on_record(result)
    report = report.model_copy(update=dict(Measurements(**measured)))
    return join(report, result, baseline, thresholds, require_all=require_all)


def _data_of(result: Mapping[str, Any]) -> str | None:
    config = result.get("config")
    return config.get("data") if isinstance(config, Mapping) else None


def join(
    report: DiagnosticReport,
    described: Mapping[str, Any],
    baseline: Mapping[str, Any] | None,
    thresholds: DiagnosticThresholds | None = None,
    *,
    epoch: int | None = None,
    require_all: bool = False,
) -> DiagnosticReport:
    """A report with the baseline's accuracy at its end or at an epoch, or with a note on how to come by it."""
    scores = {} if baseline is None else _baseline_scores(baseline, epoch, described["baseline"]["id"])
    is_baseline = {"is_baseline": True} if described["baseline"] is None else {}
    no_gamma = report.alignment is not None and bool(report.alignment.unavailable)
    note = "" if scores else baseline_note(described, gamma=not no_gamma)
    judged = judge(
        report.measurements.model_copy(update=scores | is_baseline),
        thresholds or report.thresholds,
        method_name=report.method_name,
        notes=" ".join(filter(None, [report.notes, note])),
        seed=report.seed,
        require_all=require_all,
        warnings=report.warnings,
        provenance=report.provenance,
    )
    return judged.model_copy(update={"stored": report.stored})


def _baseline_scores(baseline: Mapping[str, Any], epoch: int | None, run_id: str) -> dict[str, Any]:
    """What the baseline had reached; a run that is under way is compared at its own epoch."""
    with naming_source(f"the result of run {run_id}"):
        if epoch is None:
            accuracy = baseline["accuracy"]
        elif epoch < len(baseline["trace"]):
            accuracy = baseline["trace"][epoch]["accuracy"]
        else:
            return {}
        scores = {"frozen_baseline_acc": float(accuracy), "frozen_baseline_samples": int(baseline["test_samples"])}
        if "test_answers" in baseline:
            scores["frozen_baseline_answers"] = int(baseline["test_answers"])
        return scores | {"frozen": FROZEN}


def baseline_note(described: Mapping[str, Any], *, gamma: bool = True) -> str:
    """What to do for (d); of a baseline, what its Γ is of, unless it has none."""
    if described["baseline"] is None:
        if not gamma:
            return _IS_A_BASELINE
        followed = "Nothing followed its credit behind h_0"
        learnt = _LEARNT_BEHIND_H_0.get((described.get("config") or {}).get("method", ""))
        says = f"{followed}, {learnt}." if learnt else f"{followed}, so Γ at those sites says nothing of training."
        return f"{_IS_A_BASELINE} {says}"
    return f"For (d), train the matched frozen baseline: {todays(described['baseline']['command'])}"
