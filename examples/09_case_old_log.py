"""A verdict from a log that nobody can measure again: the penalised DFA runs of three seeds.

    python examples/09_case_old_log.py [--write PAGE]

The checkpoints are gone; what is left, as of many runs, is a log with the size of the residual stream at its two ends,
the gradient's at one site in the middle, and two accuracies. This makes such a log from the record of the runs
(`walkback lab audit --preset penalty`), judges it, and sets every reading beside that of the full measurement, which
the record also holds.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from pathlib import Path

import walkback
from walkback.present.numbers import written

RESULTS = Path(__file__).parent.parent / "results"
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


def old_log(target):
    """Write the few columns that the log would have had, one row per run and epoch."""
    rows = [row for row in json.loads((RESULTS / AUDIT).read_text())["runs"] if row["label"] == METHOD]
    with target.open("w", newline="") as file:
        log = csv.writer(file)
        log.writerow(COLUMNS.values())
        for row in rows:
            files = (RESULTS / "runs" / f"{row[key]}.json" for key in ("id", "baseline"))
            run, frozen = (json.loads(path.read_text()) for path in files)
            for epoch, baseline in zip(run["trace"], frozen["trace"], strict=True):
                stream, gradient = epoch["residual_norms"], epoch["bp_grad_norms"]
                figures = (stream[0], stream[-1], gradient[MIDDLE], epoch["accuracy"], baseline["accuracy"])
                log.writerow([f"seed {row['seed']}", epoch["epoch"], *figures])


def study():
    """What the log says of each seed, and what the full measurement says."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "old_log.csv"
        old_log(log)
        partly = walkback.replay(log, columns=COLUMNS, blocks=BLOCKS)
    entries = json.loads((RESULTS / AUDIT).read_text())["reports"]
    reports = map(walkback.DiagnosticReport.from_dict, entries)
    whole = {f"seed {report.seed}": report for report in reports if report.method_name == METHOD}
    return [(entry.name, entry.report, whole[entry.name]) for entry in partly]


def contradicted(found):
    """The readings that the log decides otherwise than the full measurement does."""
    decided = (walkback.State.PASS, walkback.State.FIRE)
    return [
        f"{name}, ({reading.letter})"
        for name, partly, whole in found
        for reading in partly.readings
        if reading.state in decided and reading.state is not whole.reading(reading.letter).state
    ]


def page(found):
    """The study as a page of the docs."""
    rows = "\n".join(
        f"| {name} | ({reading.letter}) | {reading.state.value} {written(reading.value)} | "
        f"{full.state.value} {written(full.value)} |"
        for name, partly, whole in found
        for reading, full in ((r, whole.reading(r.letter)) for r in partly.readings)
    )
    verdicts = "\n".join(f"- {name}: `{partly.verdict}` from the log, `{whole.verdict}` measured whole"
                         for name, partly, whole in found)  # fmt: skip
    _, example, _ = found[0]
    sentences = "\n".join(f"- ({reading.letter}) {reading.sentence}" for reading in example.readings)
    against = contradicted(found)
    said = f"{len(against)}: {'; '.join(against)}" if against else "0"
    mapped = ",".join(f"{key}={column}" for key, column in COLUMNS.items())
    return f"""# A verdict from an old log: penalised DFA, three seeds

Made by `python examples/09_case_old_log.py --write docs/case-studies/old-log.md` from
[{AUDIT}](../../results/{AUDIT}) and the runs that it refers to, which `walkback lab audit --preset penalty` trained:
textbook DFA with the penalty λ = 0.01 on a residual MLP, CIFAR-10.

## What is left

A CSV with one row per epoch: the size of the stream at h_0 and at h_{BLOCKS}, of the gradient at site {MIDDLE}, the
test accuracy, and that of the matched run with frozen blocks. No checkpoint, so nothing can be measured again.

```
walkback replay old_log.csv --map {mapped} --blocks {BLOCKS}
```

## What it proves

| run | | from the log | measured whole |
| --- | --- | --- | --- |
{rows}

{verdicts}

Readings of the log that the full measurement contradicts: {said}.

In the words of the report on {found[0][0]}:

{sentences}

(a) cannot come out as a pass of two numbers, and does not: the bound is a mean over the blocks, and one block may have
grown by more while others shrank the stream. (b) is read at site {MIDDLE} in place of the deepest one, and says so. (c)
was never logged. (d) needs two accuracies and has them: the log gives
the same margin.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help="write the page to this file")
    target = parser.parse_args().write
    if not (RESULTS / AUDIT).exists():
        sys.exit(f"there is no {RESULTS / AUDIT}. Make it: walkback lab audit --preset penalty")
    text = page(study())
    if target:
        target.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
