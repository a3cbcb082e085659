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
"""What is meant: so many inputs, so many kills, and this share of all mutants killed."""


def on_record(name: str) -> dict[str, Any] | None:
    """A record, if there is one."""
    path = ROOT / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def page() -> Page:
    """All of it."""
    parts: list[Any] = [
        "What walkback is put through so that it may be relied on, and what came of it. The page is made by python "
        "tools/reliability.py from records in the folder results; each line of the last table names its command. What "
        "was not yet run in full is said where its number is.",
        Heading("In short"),
        Grid(["what", "meant", "on record", "found"], [_fuzz_row(), _kill_row(), _mutant_row(), _load_row()], "llll"),
        *_fuzz(),
        *_kills(),
        *_mutants(),
        *_load(),
        Heading("When and where"),
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
    return f"{count:,}" if count >= meant else f"{count:,} of {meant:,}: not yet in full"


def _fuzz_row() -> list[str]:
    found, what = on_record("fuzz"), "inputs that are wrong"
    if found is None:
        return [what, f"{FUZZ:,}", NOTHING, ""]
    return [what, f"{FUZZ:,}, no finding", _of(found["inputs"], FUZZ), f"{len(found['findings'])} findings"]


def _kill_row() -> list[str]:
    found, what = on_record("torture"), "kills of a grid"
    if found is None:
        return [what, str(KILLS), NOTHING, ""]
    return [what, f"{KILLS}, nothing lost or twice", _of(found["kills"], KILLS), f"{len(found['wrong'])} rounds wrong"]


def _mutant_row() -> list[str]:
    found, what = on_record("mutants"), "mutants of protocol and watch"
    if found is None or not found["made"]:
        return [what, f"{100 * SHARE:.0f} % killed", NOTHING, ""]
    return [what, f"all, {100 * SHARE:.0f} % killed", _sampled(found), f"{100 * found['share_killed']:.1f} % killed"]


def _sampled(found: dict[str, Any]) -> str:
    if found["made"] >= found["all_there_are"]:
        return f"{found['made']:,}"
    of = f" of {', '.join(found['modules'])}" if found["modules"] else ""
    return f"a sample of {found['made']:,}{of}, of {found['all_there_are']:,} in all: not yet in full"


def _load_row() -> list[str]:
    found, what = on_record("bench_load"), "load"
    if found is None:
        return [what, "linear", NOTHING, ""]
    rows = found["rows"].values()
    missed = [row["what"] for row in rows if row["ratio"] > row["limit"]]
    parts = f"{sum(row['items'] >= row['wanted'] for row in rows)} of 5 in full"
    return [what, "each linear", parts, f"not linear: {', '.join(missed)}" if missed else "linear"]


def _fuzz() -> list[Any]:
    found = on_record("fuzz")
    told = (
        "Every reader, every verb in process, judge, diagnose and plugins are handed input that is wrong: sound files "
        "with bytes or values changed by a seeded generator, networks and batches that do not fit, words that are no "
        "options. Each is held to this: no exception but walkback's own, an end within a limit of CPU time, no input "
        "changed, no passing outcome from a record with NaN, no file half-written, memory under a limit, nothing that "
        "a terminal or a browser would obey. A thousand inputs are part of make test-all; make fuzz tries 100,000, and "
        "prints one command for each that does not hold."
    )
    if found is None:
        return [Heading("Input that is wrong"), told, NOTHING]
    counts = [[name, f"{count:,}"] for name, count in found["by_target"].items()]
    again = [f"{each['target']}: {each['rule']} ({each['again']})" for each in found["findings"]]
    spent = f"{found['cpu_seconds']:,.0f} s of CPU time; the slowest input took {found['slowest']:.1f} s."
    return [Heading("Input that is wrong"), told, Grid(["input", "tried"], counts, "lr"), spent, *again]


def _kills() -> list[Any]:
    found = on_record("torture")
    told = (
        "A grid of 8 runs with 12 epochs each is killed at random moments after its start: its first process alone, "
        "one worker, the whole group; in a folder, in an object store on loopback, on a Ray cluster whose node is "
        "killed; two grids on one store; a disk that is full; a clock that jumps on one side of a lease. Then it is "
        "let to its end. No run may be lost, no epoch that was saved may be trained again, and audit and results must "
        "be those of the undisturbed grid. A full disk and a jump of a clock count as one kill each; a strike that "
        "came when the grid had ended does not count."
    )
    if found is None:
        return [Heading("Kills"), told, NOTHING]
    rows = [[name, f"{count}"] for name, count in found["by_kind"].items()]
    victims = "What was struck: " + ", ".join(f"{name} {count}" for name, count in found["by_victim"].items()) + "."
    return [Heading("Kills"), told, Grid(["where", "kills"], rows, "lr"), victims, *found["wrong"]]


def _mutants() -> list[Any]:
    found = on_record("mutants")
    told = (
        "A mutant is the source with one operator, number or condition changed; a test should fail on it. They are "
        "made by cosmic-ray, which also changes what stands in the body of a class, where diagnostics declare their "
        "thresholds; mutmut 3 leaves that alone, and most decorated functions too. Each mutant is tried by the tests "
        "that reach its line. Survivors that are called equivalent stay in the count."
    )
    if found is None or not found["made"]:
        return [Heading("Mutants"), told, NOTHING]
    head = (
        f"{found['made']:,} tried (seed {found['seed']}): {found['killed']:,} killed, {found['timeouts']} by running "
        f"out of time, {found['survived']} survived, {found['called_equivalent']} of these called equivalent. "
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
    told = "The time per item at n over that at n/8, in one run; 1 is linear."
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
