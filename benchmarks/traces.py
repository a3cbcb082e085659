"""Reading long traces: time per line at 20,000 and 200,000 lines over that at 5,000, and memory that a line adds.

Reports, replays and looks at a generated trace, each by the function behind the command; 1 is linear. A live look at a
trace that has grown by ten lines is set against reading all of it.
"""

from __future__ import annotations

import json
import random
import resource
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ratios import interleaved, ratio, write
from walkback.lab.present.networks import networks_in
from walkback.lab.runs.store import RunStore
from walkback.present.html import render_network
from walkback.watch.follow import TraceFollower
from walkback.watch.replay import replay

SHORT, LONG, LONGEST, GROWN = 5_000, 20_000, 200_000, 10
ROUNDS = 3
LIMIT = 1.3


def write_trace(path: Path, lines: int, seed: int = 0) -> Path:
    """A run of five sites that explodes at seven tenths of its steps."""
    chance = random.Random(seed)
    with path.open("w") as file:
        for step in range(1, lines + 1):
            scale = 80.0 if step > 0.7 * lines else 1.0
            norms = [8.0 * (1 + 0.2 * site) * chance.uniform(0.98, 1.02) for site in range(5)]
            line: dict[str, Any] = {"step": step, "accuracy": round(0.1 + 0.5 * step / lines, 4), "seconds": 0.01}
            line["residual_norms"] = [*norms[:3], *(scale * norm for norm in norms[3:])]
            line["bp_grad_norms"] = [chance.uniform(0.9, 1.1) * 1e-2 for _ in range(5)]
            line |= {"site_stabilities": [0.1] * 5, "drift_shares": [0.01] * 5, "samples": 256, "source": "probe"}
            file.write(json.dumps(line) + "\n")
    return path


def page_of(path: Path) -> str:
    (network,) = networks_in([str(path)], RunStore(path.parent / "runs"))
    return render_network(network)


READERS = {
    "report --html": page_of,
    "replay": replay,
    "watch": lambda path: TraceFollower(path).look(to_the_end=True),
}


def bytes_per_line(traces: dict[int, Path]) -> float:
    """What the peak of Python's memory grows by while a page is made, for each line more."""
    peaks = []
    for lines in (SHORT, LONG):
        tracemalloc.start()
        page_of(traces[lines])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (LONG - SHORT)


def per_line(reads: Callable[[Path], object], traces: dict[int, Path]) -> dict[str, dict[str, float]]:
    """The time for a line of a long trace over that for a line of the short one; the longest is read once."""
    seconds = interleaved({str(n): lambda n=n: reads(traces[n]) for n in (SHORT, LONG)}, ROUNDS)
    each = {name: [s / int(name) for s in times] for name, times in seconds.items()}
    started = time.process_time()
    reads(traces[LONGEST])
    longest = (time.process_time() - started) / LONGEST
    rows = {str(LONG): ratio(each, str(LONG), str(SHORT))}
    rows[str(LONGEST)] = {"ratio": longest / statistics.median(each[str(SHORT)]), "rounds": 1}
    return {lines: row | {"limit": LIMIT} for lines, row in rows.items()}


def grown(path: Path) -> dict[str, float]:
    """A look at ten new lines, over the first look at all."""
    more = path.read_text().splitlines(keepends=True)[-1]
    step = json.loads(more)["step"]
    follower = TraceFollower(path)
    follower.look()

    def again() -> None:
        nonlocal step
        with path.open("a") as file:
            for _ in range(GROWN):
                step += 1
                file.write(more.replace(f'"step": {LONG}', f'"step": {step}'))
        follower.look()

    return ratio(interleaved({"again": again, "all": lambda: TraceFollower(path).look()}, ROUNDS), "again", "all")


def main() -> None:
    rows: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        traces = {n: write_trace(Path(folder, f"t{n}.jsonl"), n) for n in (SHORT, LONG, LONGEST)}
        for name, reads in READERS.items():
            rows[name] = per_line(reads, traces)
            told = ", ".join(f"{row['ratio']:.2f} at {int(lines):,}" for lines, row in rows[name].items())
            print(f"  {name:16s} {told} × the time per line", flush=True)
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        memory, live = bytes_per_line(traces), grown(traces[LONG])
    print(f"  {memory:.0f} bytes a line; a look at {GROWN} new lines takes {live['ratio']:.4f} of one at all")
    content = {"what": f"time per line over that of {SHORT} lines", "ratios": rows}
    content |= {"bytes_per_line": memory, "resident_mib": resident}
    content |= {"live_look": live, "short": SHORT, "lines": LONG, "grown": GROWN}
    print(f"written to {write('bench_traces', content)}")


if __name__ == "__main__":
    main()
