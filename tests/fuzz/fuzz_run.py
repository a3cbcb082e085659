"""Input that is wrong, by the thousand: python tests/fuzz/fuzz_run.py [--inputs N] [--seed S] [--jobs J] [--case K].

Input K of seed S is the same on every machine. Inputs are tried in chunks, each in a process of its own with limits
on its memory and on the CPU time of each input, and under the eyes of this one, which ends a process that hangs. What
was tried is in the record after every chunk, so the same command goes on where it was stopped; a commit that is not
the record's begins anew. `--case K` tries one input again and prints what does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
RECORD = ROOT / "results" / "fuzz.json"
CHUNK = 500
WALL_SECONDS = 300.0
"""Without a new input for so long, a process hangs where no alarm of its own reaches it."""


def tried(seed: int, case: int, folder: Path) -> tuple[str, list[Any]]:
    """Try one input: (its kind, what does not hold)."""
    from fuzz_held import findings_of
    from fuzz_targets import TARGETS, Case, pick

    chance = Random(f"{seed}:{case}")
    name = pick(chance)
    inputs, outputs = folder / "in", folder / "out"
    inputs.mkdir(parents=True)
    outputs.mkdir()
    before = Path.cwd()
    os.chdir(outputs)
    try:
        act = TARGETS[name].make(Case(chance, inputs, outputs))
        return name, findings_of(act, inputs, outputs)
    finally:
        os.chdir(before)


def work(seed: int, first: int, last: int, notes: Path) -> None:
    """What a process of a chunk does: a line for every input, before it and after it."""
    import shutil

    from fuzz_held import limit_memory
    from fuzz_targets import quiet_libraries

    quiet_libraries()
    limit_memory()
    with notes.open("a", buffering=1) as said, tempfile.TemporaryDirectory(prefix="walkback-fuzz-") as scratch:
        for case in range(first, last):
            said.write(json.dumps({"case": case}) + "\n")
            folder = Path(scratch, str(case))
            started = time.process_time()
            name, found = tried(seed, case, folder)
            shutil.rmtree(folder, ignore_errors=True)
            line = {"case": case, "target": name, "seconds": round(time.process_time() - started, 3)}
            said.write(json.dumps(line | {"found": [list(each) for each in found]}) + "\n")


class Chunk:
    """A process that tries some inputs, seen from outside."""

    def __init__(self, seed: int, first: int, last: int, folder: Path) -> None:
        self.seed, self.first, self.last = seed, first, last
        self.notes = folder / f"{first}.jsonl"
        self.start(first)

    def start(self, first: int) -> None:
        words = ["--work", str(first), str(self.last), str(self.notes), "--seed", str(self.seed)]
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "fuzz_run.py"), *words],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self.looked, self.size = time.monotonic(), -1

    def end(self) -> None:
        """Stop it, with whatever it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def lines(self) -> list[dict[str, Any]]:
        """What it said so far; a last line that is cut off is none."""
        found = []
        for text in self.notes.read_text().splitlines() if self.notes.exists() else ():
            try:
                found.append(json.loads(text))
            except ValueError:
                break
        return found

    def ended(self) -> bool:
        """Whether all its inputs were tried; one that ended the process, or hangs, is a finding."""
        size = self.notes.stat().st_size if self.notes.exists() else 0
        if size != self.size:
            self.looked, self.size = time.monotonic(), size
        hangs = time.monotonic() - self.looked > WALL_SECONDS
        if self.process.poll() is None and not hangs:
            return False
        if hangs and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        _, said = self.process.communicate()
        status = self.process.returncode
        lines = self.lines()
        if status == 0 and not hangs:
            return True
        if not lines:
            raise SystemExit(f"the fuzzer itself cannot run: {said[-2000:]}")
        case = lines[-1]["case"]
        rule = "no hang" if hangs else "no crash"
        what = f"nothing for {WALL_SECONDS:g} s" if hangs else f"exit status {status}: {said[-300:]}"
        with self.notes.open("a") as notes:
            notes.write(json.dumps({"case": case, "target": _kind(self.seed, case), "found": [[rule, what]]}) + "\n")
        if case + 1 >= self.last:
            return True
        self.start(case + 1)
        return False


def _kind(seed: int, case: int) -> str:
    from fuzz_targets import pick

    return pick(Random(f"{seed}:{case}"))


def reproducer(seed: int, case: int) -> str:
    """The one command that tries an input again."""
    return f"python tests/fuzz/fuzz_run.py --seed {seed} --case {case}"


def commit() -> str:
    """The last that changed what is tried; changes that are in none count as another."""
    paths = ["--", "src", "tests/fuzz"]
    last, changed = _git("log", "-1", "--format=%H", *paths), _git("status", "--porcelain", *paths)
    return (last or "unknown") + ("+" if changed else "")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def fuzz(seed: int, inputs: int, jobs: int, record: Path | None) -> dict[str, Any]:
    """Try the inputs from 0 on that the record has not; the record after them."""
    state = _known(record, seed) or {
        "what": "inputs that are wrong, tried by tests/fuzz", "command": "make fuzz", "seed": seed, "commit": commit(),
        "inputs": 0, "wanted": inputs, "cpu_seconds": 0.0, "slowest": 0.0, "by_target": {}, "chunks": [],
        "findings": [],
    }  # fmt: skip
    state["wanted"] = max(inputs, state["inputs"])
    starts = [first for first in range(0, inputs, CHUNK) if [first, min(first + CHUNK, inputs)] not in state["chunks"]]
    with tempfile.TemporaryDirectory(prefix="walkback-fuzz-notes-") as folder:
        running: list[Chunk] = []
        try:
            while starts or running:
                while starts and len(running) < jobs:
                    first = starts.pop(0)
                    running.append(Chunk(seed, first, min(first + CHUNK, inputs), Path(folder)))
                time.sleep(0.2)
                for chunk in [each for each in running if each.ended()]:
                    running.remove(chunk)
                    if commit() != state["commit"]:
                        raise SystemExit("the source was changed meanwhile: what was tried last is of no commit")
                    _add(state, chunk)
                    if record is not None:
                        _write(record, state)
        finally:
            for chunk in running:  # of one that is interrupted, no process may go on
                chunk.end()
    return state


def _known(record: Path | None, seed: int) -> dict[str, Any] | None:
    if record is None or not record.exists():
        return None
    found: dict[str, Any] = json.loads(record.read_text())
    return found if found["seed"] == seed and found["commit"] == commit() else None


def _add(state: dict[str, Any], chunk: Chunk) -> None:
    done = [line for line in chunk.lines() if "target" in line]
    state["chunks"].append([chunk.first, chunk.last])
    state["inputs"] += len(done)
    counts = Counter(state["by_target"]) + Counter(line["target"] for line in done)
    state["by_target"] = dict(sorted(counts.items()))
    seconds = [line.get("seconds", 0.0) for line in done]
    state["cpu_seconds"] = round(state["cpu_seconds"] + sum(seconds), 1)
    state["slowest"] = max([state["slowest"], *seconds])
    state["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    for line in done:
        for rule, what in line["found"]:
            again = reproducer(chunk.seed, line["case"])
            state["findings"].append({"target": line["target"], "rule": rule, "what": what, "again": again})
            print(f"{line['target']}: {rule}: {what}\n    {again}", flush=True)


def _write(record: Path, state: dict[str, Any]) -> None:
    beside = record.with_suffix(".tmp")
    beside.write_text(json.dumps(state, indent=1) + "\n")
    beside.replace(record)


def one(seed: int, case: int, keep: Path | None) -> int:
    """Try one input, and print what does not hold; 1 where something does not."""
    from fuzz_held import limit_memory
    from fuzz_targets import quiet_libraries

    quiet_libraries()
    limit_memory()
    with tempfile.TemporaryDirectory(prefix="walkback-fuzz-") as scratch:
        folder = keep.resolve() if keep else Path(scratch, str(case))
        name, found = tried(seed, case, folder)
        print(f"{name}: {len(found)} findings" + (f"; its files are in {folder}" if keep else ""))
        for rule, what in found:
            print(f"  {rule}: {what}")
    return 1 if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--record", type=Path, help="default: results/fuzz.json; - for none")
    parser.add_argument("--case", type=int, help="try this one again")
    parser.add_argument("--keep", type=Path, help="with --case: a folder for its files")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        first, last, notes = options.work
        work(options.seed, int(first), int(last), Path(notes))
        return 0
    if options.case is not None:
        return one(options.seed, options.case, options.keep)
    record = None if str(options.record) == "-" else options.record or RECORD
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    state = fuzz(options.seed, options.inputs, options.jobs, record)
    print(f"{state['inputs']:,} inputs, {len(state['findings'])} findings, {state['cpu_seconds']:.0f} s of CPU time")
    return 1 if state["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
