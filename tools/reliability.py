"""Make docs/RELIABILITY.md from the records of make fuzz, mutants, torture and bench: python tools/reliability.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "RELIABILITY.md"
sys.path.insert(0, str(ROOT / "src"))

from walkback.present.page import Grid, Heading, Page  # noqa: E402

FUZZ, KILLS, SHARE = 100_000, 100, 0.90
"""The goal: so many inputs, so many kills, and this share of all mutants killed."""
PLACES = {"folder": "directory"}
"""What the page calls a case, where that is not its name on record."""


def on_record(name: str) -> dict[str, Any] | None:
    """A record, if there is one."""
    path = ROOT / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def page() -> Page:
    """All of it."""
    parts: list[Any] = [
        "How walkback was stress-tested, and what was found. This page is made by python tools/reliability.py from the "
        "records in the directory results; each line of the last table names its command. Where a test has not been "
        "run in full yet, the number beside it says so.",
        Heading("In short"),
        Grid(["test", "goal", "run so far", "result"], [_fuzz_row(), _kill_row(), _mutant_row(), _load_row()], "llll"),
        *_fuzz(),
        *_kills(),
        *_mutants(),
        *_load(),
        Heading("Records"),
        Grid(["record", "command", "date", "commit"], [_origin(name) for name in NAMES], "llll"),
    ]
    return Page("What walkback withstands", parts)


NAMES = ("fuzz", "torture", "mutants", "bench_load")
NOTHING = "not yet run"


def _origin(name: str) -> list[str]:
    found = on_record(name)
    if found is None:
        return [f"results/{name}.json", NOTHING, "", ""]
    return [f"results/{name}.json", found["command"], found["date"], found["commit"][:12]]


def _of(count: int, meant: int) -> str:
    return f"{count:,}" if count >= meant else f"{count:,} of {meant:,} (incomplete)"


def _fuzz_row() -> list[str]:
    found, what = on_record("fuzz"), "bad inputs"
    if found is None:
        return [what, f"{FUZZ:,}", NOTHING, ""]
    return [what, f"{FUZZ:,}, no failure", _of(found["inputs"], FUZZ), f"{len(found['findings'])} failures"]


def _kill_row() -> list[str]:
    found, what = on_record("torture"), "kills of a grid"
    if found is None:
        return [what, str(KILLS), NOTHING, ""]
    return [
        what,
        f"{KILLS}, nothing lost or trained twice",
        _of(found["kills"], KILLS),
        f"{len(found['wrong'])} failures",
    ]


def _mutant_row() -> list[str]:
    found, what = on_record("mutants"), "mutants of protocol and watch"
    if found is None or not found["made"]:
        return [what, f"{100 * SHARE:.0f} % killed", NOTHING, ""]
    return [what, f"all, {100 * SHARE:.0f} % killed", _sampled(found), f"{100 * found['share_killed']:.1f} % killed"]


def _sampled(found: dict[str, Any]) -> str:
    if found["made"] >= found["all_there_are"]:
        return f"{found['made']:,}"
    of = f" of {', '.join(found['modules'])}" if found["modules"] else ""
    return f"a sample of {found['made']:,}{of}, of {found['all_there_are']:,} in all (incomplete)"


def _load_row() -> list[str]:
    found, what = on_record("bench_load"), "load"
    if found is None:
        return [what, "linear", NOTHING, ""]
    rows = found["rows"].values()
    missed = [row["what"] for row in rows if row["ratio"] > row["limit"]]
    parts = f"{sum(row['items'] >= row['wanted'] for row in rows)} of 5 in full"
    return [what, "each linear in n", parts, f"not linear: {', '.join(missed)}" if missed else "linear"]


def _fuzz() -> list[Any]:
    found = on_record("fuzz")
    told = (
        "A fuzzer gives bad input to every file reader, every command (in process), judge, diagnose and plugins: valid "
        "files with bytes or values changed by a seeded generator, networks and batches that do not match, options "
        "that do not exist. For each input: only walkback's own exceptions may be raised; it must end within a limit "
        "of CPU time and of memory; it may change no input file and leave no half-written file; a record with "
        "NaN may not pass; and the output may hold nothing that a terminal or a browser would execute. make "
        "test-all tries a "
        "thousand inputs; make fuzz tries 100,000 and prints a command that repeats each failure."
    )
    if found is None:
        return [Heading("Bad input"), told, NOTHING]
    counts = [[name, f"{count:,}"] for name, count in found["by_target"].items()]
    again = [f"{each['target']}: {each['rule']} ({each['again']})" for each in found["findings"]]
    spent = f"{found['cpu_seconds']:,.0f} s of CPU time; the slowest input took {found['slowest']:.1f} s."
    return [Heading("Bad input"), told, Grid(["input", "tried"], counts, "lr"), spent, *again]


def _kills() -> list[Any]:
    found = on_record("torture")
    told = (
        "A grid of 8 runs with 12 epochs each is killed at random moments after its start. What is killed: its parent "
        "process alone, one worker, the whole process group, or a node of a Ray cluster. Where its runs are: in a "
        "directory, or in an object store on loopback. Other cases: two grids on one store, a full disk, a clock that "
        "jumps for one holder of a lease. Then the grid is resumed until it ends. No run may be lost, no saved epoch "
        "may be trained again, and the audit and the results must equal those of a grid that was never killed. A full "
        "disk or a clock jump counts as one kill; a kill that came after the grid had ended does not count."
    )
    if found is None:
        return [Heading("Kills"), told, NOTHING]
    rows = [[PLACES.get(name, name), f"{count}"] for name, count in found["by_kind"].items()]
    victims = "What was killed: " + ", ".join(f"{name} {count}" for name, count in found["by_victim"].items()) + "."
    return [Heading("Kills"), told, Grid(["where", "kills"], rows, "lr"), victims, *found["wrong"]]


def _mutants() -> list[Any]:
    found = on_record("mutants")
    told = (
        "A mutant is the source with one operator, number or condition changed; a test should fail on it. Mutants are "
        "made by cosmic-ray, which also mutates class bodies, where diagnostics declare their thresholds; mutmut 3 "
        "skips those and most decorated functions. Each mutant is run against the tests that reach its line. "
        "Survivors that are marked equivalent still count as survivors."
    )
    if found is None or not found["made"]:
        return [Heading("Mutants"), told, NOTHING]
    head = (
        f"{found['made']:,} tried (seed {found['seed']}): {found['killed']:,} killed ({found['timeouts']} by a "
        f"timeout), {found['survived']} survived ({found['called_equivalent']} marked equivalent). "
        "Not made: " + "; ".join(f"{count:,} ({why})" for why, count in found["not_made"].items()) + "."
    )  # fmt: skip
    rows = [
        [f"{each['module'].removeprefix('src/walkback/')}:{each['line']}", each["was"], each["became"],
         each["equivalent"] or each["why"]]
        for each in found["survivors"]
    ]  # fmt: skip
    survivors = [Grid(["survivor", "was", "became", "why"], rows, "llll")] if rows else []
    return [Heading("Mutants"), told, head, *survivors]


def _load() -> list[Any]:
    found = on_record("bench_load")
    told = "The ratio is the time per item at n items, over the time per item at n/8, in one run. Linear cost gives 1."
    if found is None:
        return [Heading("Load"), told, NOTHING]
    rows = [
        [r["what"], _of(r["items"], r["wanted"]), _spent(r["large"]), f"{r['ratio']:.2f}", _before(r)]
        for r in found["rows"].values()
    ]
    return [Heading("Load"), told, Grid(["what", "items", "time", "ratio", "before"], rows, "lrrrl")]


def _spent(large: dict[str, float]) -> str:
    return f"{large['cpu_seconds']:.1f} s of CPU" if "cpu_seconds" in large else f"{large['wall_seconds']:.1f} s"


def _before(row: dict[str, Any]) -> str:
    before = row.get("before")
    return f"{before['wall_seconds']:g} s (wall) at {before['commit']}" if before else ""


if __name__ == "__main__":
    PAGE.write_text(page().markdown())
    print(f"written to {PAGE.relative_to(ROOT)}")
