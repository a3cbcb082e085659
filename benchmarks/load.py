"""Much at once: python benchmarks/load.py [--ray-runs 1000] [--only NAME…].

2,000 runs listed, 500 networks on a page, 200,000 lines of a trace watched and drawn, 1,000 tiny runs on Ray whose
workers are killed. Of each the time per item at n over that at n/8, in one run: 1 is linear. Sizes that were not run in
full are told in the record by what was. Parts that are not asked for stay on record as they were.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ratios import RESULTS, write
from traces import write_trace
from walkback.cli.main import app
from walkback.lab.runs.ids import frozen_settings, run_id_of
from walkback.lab.runs.store import RunStore

PARTS = 8
LIMIT = 1.5
"""Of the time per item at n over that at n/8."""
RUNS, NETWORKS, LINES, RAY_RUNS = 2_000, 500, 200_000, 1_000
EVERY_SECONDS = 4.0
"""How often a worker of Ray is killed."""


def spent(act: Callable[[], object]) -> dict[str, float]:
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    act()
    return {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}


def compared(count: int, act: Callable[[int], object]) -> dict[str, Any]:
    """The whole and an eighth of it; the eighth twice, of which the first warms up."""
    act(count // PARTS)
    small, large = spent(lambda: act(count // PARTS)), spent(lambda: act(count))
    each = [small["cpu_seconds"] / (count // PARTS), large["cpu_seconds"] / count]
    return {"items": count, "ratio": each[1] / each[0], "limit": LIMIT, "small": small, "large": large}


def stored(folder: Path, count: int) -> RunStore:
    """So many finished runs, each of a seed of its own, made from one on record."""
    pattern = json.loads(next(iter(sorted((RESULTS / "runs").glob("*.json")))).read_text())
    store = RunStore(folder / "runs", folder / "archive")
    store.archive.mkdir(parents=True)
    for seed in range(count):
        result = copy.deepcopy(pattern)
        result["config"]["seed"] = 10_000 + seed
        result["id"] = run_id_of(result["config"])
        result["baseline"] = {"id": run_id_of(frozen_settings(result["config"])), "command": "walkback lab train"}
        if result.get("report"):
            result["report"]["seed"] = result["config"]["seed"]
        (store.archive / f"{result['id']}.json").write_text(json.dumps(result))
    return store


def listed(folder: Path) -> dict[str, Any]:
    """`walkback lab runs` over the archive."""
    stores = {count: stored(folder / str(count), count) for count in (RUNS // PARTS, RUNS)}

    def act(count: int) -> None:
        out = io.StringIO()
        place = folder / str(count) / "results"
        if not place.exists():  # where the command looks for the archive
            place.mkdir()
            stores[count].archive.rename(place / "runs")
        with contextlib.redirect_stdout(out):
            app(["lab", "runs", "--runs", str(folder / str(count) / "runs"), "--json", str(folder / "rows.json")])
        assert len(json.loads((folder / "rows.json").read_text())) == count

    return compared(RUNS, act)


def on_a_page(folder: Path) -> dict[str, Any]:
    """Reports of networks as one page."""
    stored(folder, NETWORKS)
    files = sorted(map(str, (folder / "archive").glob("*.json")))

    def act(count: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            app(["report", *files[:count], "--runs", str(folder / "runs"), "--html", str(folder / "page.html")])
        assert (folder / "page.html").read_text().count("<tr") >= count

    return compared(NETWORKS, act)


def watched(folder: Path) -> dict[str, Any]:
    """`walkback watch --once` on a long trace."""
    traces = {count: write_trace(folder / f"{count}.jsonl", count) for count in (LINES // PARTS, LINES)}

    def act(count: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            app(["watch", str(traces[count]), "--once"])

    return compared(LINES, act)


def drawn(folder: Path) -> dict[str, Any]:
    """`walkback watch --plot` on the same."""
    traces = {count: write_trace(folder / f"{count}.jsonl", count) for count in (LINES // PARTS, LINES)}

    def act(count: int) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            app(["watch", str(traces[count]), "--plot", str(folder / "o.png")])
        assert (folder / "o.png").stat().st_size

    return compared(LINES, act)


def on_ray(folder: Path, runs: int) -> dict[str, Any]:
    """Tiny runs on a Ray of this machine, a worker of which is killed every few seconds; none is lost."""
    from grid import ray_nodes, store_in, tiny
    from walkback.lab.grids.executors import Ended, Event, Reached
    from walkback.lab.grids.train_grid import train_missing

    chance = random.Random(0)
    kills: dict[int, int] = {}
    seconds: dict[int, float] = {}

    def act(count: int) -> None:
        place = folder / str(count)
        store, configs = store_in(place), tiny(count)
        ended: list[str] = []
        last, kills[count] = time.monotonic(), 0

        def heard(event: Event) -> None:
            nonlocal last
            if isinstance(event, Ended):
                assert not event.error, event.error
                ended.append(event.run_id)
            if isinstance(event, Reached) and time.monotonic() - last > EVERY_SECONDS:
                last = time.monotonic()
                kills[count] += _kill_a_trainer(store, chance)

        with ray_nodes(2) as executor, executor.ready():
            started = time.perf_counter()
            errors = train_missing(configs, store, executor, heard, lambda line: None)
            seconds[count] = time.perf_counter() - started
        assert not errors, errors
        assert sorted(ended) == sorted(config.run_id for config in configs), "a run was lost, or ended twice"

    act(runs // PARTS)
    act(runs)
    small, large = seconds[runs // PARTS], seconds[runs]
    return {
        "items": runs, "ratio": (large / runs) / (small / (runs // PARTS)), "limit": LIMIT, "clock": "wall",
        "small": {"wall_seconds": small}, "large": {"wall_seconds": large}, "killed": sum(kills.values()),
    }  # fmt: skip


def _kill_a_trainer(store: RunStore, chance: random.Random) -> int:
    """Kill a process that holds the lock of a run; how many it was."""
    from walkback.lab.runs import lock

    for path in chance.sample(found := list(store.root.glob("*/lock")), len(found)):
        with contextlib.suppress(OSError, ValueError):
            if lock.is_held(path):
                os.kill(int(path.read_text()), signal.SIGKILL)
                return 1
    return 0


MEASURED: dict[str, tuple[str, int]] = {
    "listed": ("runs listed", RUNS), "page": ("networks on a page", NETWORKS),
    "watched": ("lines of a trace watched", LINES), "drawn": ("lines of a trace drawn", LINES),
    "ray": ("tiny runs on Ray, workers killed", RAY_RUNS),
}  # fmt: skip
BEFORE = {"page": {"commit": "2cece9c", "wall_seconds": 31.0}}
"""What was measured before the code was made faster."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray-runs", type=int, default=RAY_RUNS)
    parser.add_argument("--only", nargs="*", choices=list(MEASURED), default=list(MEASURED))
    options = parser.parse_args()
    place = RESULTS / "bench_load.json"
    rows: dict[str, Any] = json.loads(place.read_text())["rows"] if place.exists() else {}
    acts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "listed": listed, "page": on_a_page, "watched": watched, "drawn": drawn,
        "ray": lambda folder: on_ray(folder, options.ray_runs),
    }  # fmt: skip
    for name in options.only:
        what, wanted = MEASURED[name]
        with tempfile.TemporaryDirectory() as folder:
            row = acts[name](Path(folder)) | {"what": what, "wanted": wanted, "before": BEFORE.get(name)}
        rows[name] = row
        print(
            f"  {row['items']:>7,} {what}: {row['large']['wall_seconds']:.1f} s, {row['ratio']:.2f} × the time per item"
        )
        print(f"written to {write('bench_load', {'what': 'time per item at n over that at n/8', 'rows': rows})}")


if __name__ == "__main__":
    main()
