"""A verdict from logs that nobody can measure again: the penalised DFA runs of three seeds.

    python examples/09_verdict_from_an_old_log.py [RESULTS]

The checkpoints are gone; what is left, as of many runs, is a log with the size of the residual stream at its two ends,
the gradient's at one site in the middle, and the accuracy. This script makes such a log from the record of the runs
(`walkback audit --preset penalty`), judges it, and sets every reading beside that of the full measurement, which the
record also holds.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

import walkback

AUDIT, METHOD, BLOCKS, MIDDLE = "audit_penalty_resmlp_d256.json", "dfa:penalty=0.01", 4, 2
COLUMNS = {
    "name": "run",
    "epoch": "epoch",
    "h_0": "stream_in",
    "h_L": "stream_out",
    f"g_{MIDDLE}": "grad_middle",
    "acc": "test_acc",
    "frozen_acc": "frozen_acc",
}
RESULTS = Path(__file__).parent.parent / "results"


def old_log(results: Path, target: Path) -> None:
    """Write the few columns that the log would have had, one row per run and epoch."""
    rows = [row for row in json.loads((results / AUDIT).read_text())["runs"] if row["label"] == METHOD]
    with target.open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(COLUMNS.values())
        for row in rows:
            files = (results / "runs" / f"{row[key]}.json" for key in ("id", "baseline"))
            run, frozen = (json.loads(file.read_text()) for file in files)
            for epoch, baseline in zip(run["trace"], frozen["trace"], strict=True):
                stream, gradient = epoch["residual_norms"], epoch["bp_grad_norms"]
                figures = (stream[0], stream[-1], gradient[MIDDLE], epoch["accuracy"], baseline["accuracy"])
                log.writerow([f"seed {row['seed']}", epoch["epoch"], *figures])


def full_reports(results: Path) -> dict[str, walkback.DiagnosticReport]:
    """What the measurement of every site said, by seed."""
    entries = json.loads((results / AUDIT).read_text())["reports"]
    found = [walkback.DiagnosticReport.from_dict(entry) for entry in entries]
    return {f"seed {report.seed}": report for report in found if report.method_name == METHOD}


def main() -> None:
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    if not (results / AUDIT).exists():
        sys.exit(f"there is no {results / AUDIT}. Make it: walkback audit --preset penalty")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "old_log.csv"
        old_log(results, log)
        judged = walkback.replay(log, columns=COLUMNS, blocks=BLOCKS)
    whole = full_reports(results)
    print(judged[0].report)
    print(f"{'':10}{'':4}{'from the log':16}{'all sites known':18}what the log's reading rests on")
    for entry in judged:
        for partly in entry.report.readings:
            fully = whole[entry.name].reading(partly.letter)
            words = partly.sentence.split(". ")[0].rstrip(".") + "."
            print(f"{entry.name:10}({partly.letter}) {partly.state.value:16}{fully.state.value:18}{words}")
    contradicted = sum(
        partly.state.value in ("PASS", "FIRE") and partly.state is not whole[entry.name].reading(partly.letter).state
        for entry in judged
        for partly in entry.report.readings
    )
    print(f"\nReadings of the log that the full measurement contradicts: {contradicted}.")


if __name__ == "__main__":
    main()
