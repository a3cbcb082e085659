"""What a grid costs beside its training: python benchmarks/grid.py [--runs 200] [--ray-runs 16].

Tiny runs, so that whatever is done per run, and not per step, shows. A loop in one process that trains the same runs
one after the other is what they cost by themselves. A grid's first process does nothing but schedule: its CPU time over
that of the loop is the overhead. Whole grids are beside it, in CPU time, children included, and in wall time. Ray nodes
on one machine are a check that the results are the same, and of what Ray adds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from ratios import write
from walkback.cli.main import app
from walkback.lab.grids.executors import Executor, LocalProcesses
from walkback.lab.grids.grid import GridConfig, row_of
from walkback.lab.grids.train_grid import train_missing
from walkback.lab.runs.assembly import keep_dataset
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunStore

LIMIT = 0.05
RAY_NODES = (1, 2, 4)
TIMES = {"seconds", "date", "commit"}


def tiny(runs: int) -> list[RunConfig]:
    """Half of the runs are the frozen baselines of the others."""
    settings = {"architecture_options": {"width": 16, "depth": 2}, "data_options": {"samples": 1400}}
    place = {"architecture": "resmlp", "data": "synthetic_teacher", "epochs": 2, "settings": settings}
    return GridConfig(rows=(row_of("bp", "bp", {}),), seeds=tuple(range(runs // 2)), **place).runs()


def store_in(folder: Path) -> RunStore:
    return RunStore(folder / "runs", folder / "archive")


def loop(runs: list[RunConfig], folder: Path) -> None:
    """The runs one after the other in this process, their results put on record."""
    from walkback.lab.runs.train import train_or_resume

    keep_dataset()
    for config in runs:
        store_in(folder).keep(train_or_resume(config, store_in(folder)))


def by(executor: Executor, runs: list[RunConfig], folder: Path) -> None:
    """By an executor, with what this process, which does nothing but schedule, took of the CPU."""
    start = time.process_time()
    errors = train_missing(runs, store_in(folder), executor, lambda event: None, lambda line: None)
    assert not errors, errors
    (folder / "scheduling").write_text(str(time.process_time() - start))


@contextlib.contextmanager
def ray_nodes(count: int) -> Iterator[Executor]:
    from ray.cluster_utils import Cluster

    from walkback.lab.grids.ray_cluster import RayCluster

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(num_cpus=1)
        yield RayCluster(cluster.address)
    finally:
        cluster.shutdown()


def measured(variant: str, runs: int, folder: Path) -> dict[str, float]:
    """CPU and wall seconds of a whole process that trains them."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, __file__, "--variant", variant, "--runs", str(runs), "--folder", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"runs": runs, "cpu_seconds": cpu, "wall_seconds": time.perf_counter() - start}


def carry_out(variant: str, runs: list[RunConfig], folder: Path) -> None:
    """What a measured process does."""
    if variant == "nothing":
        importlib.import_module("walkback.lab.runs.train")
    elif variant == "loop":
        loop(runs, folder)
    elif variant.startswith("ray"):
        with ray_nodes(int(variant.removeprefix("ray"))) as executor, executor.ready():
            by(executor, runs, folder)
    else:
        by(LocalProcesses(int(variant.removeprefix("workers")), niceness=0), runs, folder)


def results(folder: Path) -> dict[str, Any]:
    """Every run's result without times."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(entry) for key, entry in value.items() if key not in TIMES}
        return [plain(entry) for entry in value] if isinstance(value, list) else value

    return {path.stem: plain(json.loads(path.read_text())) for path in (folder / "archive").glob("*.json")}


def listed(runs: int, folder: Path) -> dict[str, float]:
    """How long the store takes to list and filter the runs."""
    seconds = {}
    for name, words in {"list all": [], "filter": ["--method", "bp", "--state", "finished"]}.items():
        start, out = time.process_time(), io.StringIO()
        with contextlib.redirect_stdout(out):
            app(["lab", "runs", "--runs", str(folder / "runs"), *words])
        seconds[name] = time.process_time() - start
        assert out.getvalue().count("2/2") == runs
    return seconds


def compare(runs: int, ray_runs: int, folder: Path) -> dict[str, Any]:
    rows: dict[str, Any] = {
        name: measured(name, runs, folder / name) for name in ("nothing", "loop", "workers1", "workers2")
    }
    assert results(folder / "loop") == results(folder / "workers1") == results(folder / "workers2")
    listing = listed(runs, folder / "workers2")
    start = rows["nothing"]["cpu_seconds"]
    for count in RAY_NODES if ray_runs else ():
        name = f"ray{count}"
        rows[name] = measured(name, ray_runs, folder / name)
        expected = results(folder / "loop")
        rows[name]["same_results"] = all(expected[run] == found for run, found in results(folder / name).items())
        rows[name]["finished"] = len(results(folder / name))
    for name, row in rows.items():
        if (folder / name / "scheduling").exists():
            row["scheduling_cpu_seconds"] = float((folder / name / "scheduling").read_text())
    spent = {name: rows[name]["cpu_seconds"] for name in ("loop", "workers1", "workers2")}
    return {
        "rows": rows,
        "listing_cpu_seconds": listing,
        "overhead_of_scheduling": rows["workers2"]["scheduling_cpu_seconds"] / (spent["loop"] - start),
        "whole_grid_over_loop": spent["workers1"] / spent["loop"],
        "overhead_limit": LIMIT,
        "two_workers_over_one_wall": rows["workers2"]["wall_seconds"] / rows["workers1"]["wall_seconds"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--ray-runs", type=int, default=16)
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        carry_out(options.variant, tiny(options.runs), options.folder)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = compare(options.runs, options.ray_runs, Path(folder))
    for name, row in found["rows"].items():
        print(f"  {name:10s} {row['runs']:4d} runs  CPU {row['cpu_seconds']:7.1f} s  wall {row['wall_seconds']:7.1f} s")
    share = found["overhead_of_scheduling"]
    print(f"scheduling: {100 * share:.1f} % of the runs' own CPU time (limit {100 * LIMIT:.0f} %)")
    print(f"listing {options.runs} runs: {found['listing_cpu_seconds']}")
    about = {"what": "a grid over the loop that trains the same runs"}
    print(f"written to {write('bench_grid', about | found)}")


if __name__ == "__main__":
    main()
