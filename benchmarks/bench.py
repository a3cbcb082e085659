"""All benchmarks, one table: python benchmarks/bench.py [NAME …] [--page-only].

Runs each benchmark (or the named ones) in a process of its own, then puts what `results/bench_*.json` hold into one
table of ratios, on the terminal and in `docs/BENCHMARKS.md`. A figure that misses its limit is marked, on both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from ratios import RESULTS, exponent
from walkback.present.page import Grid, Heading, Page

NAMES = ("startup", "diagnose", "jax", "monitor", "train", "large", "step", "grid", "traces", "load")
SCRIPTS = {"jax": "jax_measure"}
"""Where a benchmark has another file than its name: jax.py would stand in the library's place."""
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "BENCHMARKS.md"


class Row(NamedTuple):
    """One ratio, and what it should be at most."""

    what: str
    against: str
    value: float
    limit: float | None = None
    spread: str = ""

    def cells(self) -> list[str]:
        verdict = "" if self.limit is None else "met" if self.value <= self.limit else "missed"
        limit = "" if self.limit is None else f"≤ {self.limit:.3g}"
        return [self.what, self.against, f"{self.value:.3f}", self.spread, limit, verdict]


def spread(figures: dict[str, Any]) -> str:
    low, high = figures.get("lower_quartile"), figures.get("upper_quartile")
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def of_startup(found: dict[str, Any]) -> list[Row]:
    return [
        Row(name, "python -c pass", r["ratio"], r.get("limit"))
        for name, r in found["ratios"].items()
        if r["ratio"] != 1
    ]


def of_diagnose(found: dict[str, Any]) -> list[Row]:
    rows = [
        Row(f"diagnose, {name}", "bare forward + backward", r["ratio"], r.get("limit"), spread(r))
        for name, r in found["ratios"].items()
    ]
    return rows + [
        Row(f"diagnose with {name}, {found['of']}", "diagnose without", r["ratio"], None, spread(r))
        for name, r in found.get("on_request", {}).items()  # records of before have none
    ]


def of_jax(found: dict[str, Any]) -> list[Row]:
    return [
        Row(
            f"walkback.jax.measure, {name}", "jax.value_and_grad over all parameters", r["ratio"], r["limit"], spread(r)
        )
        for name, r in found["ratios"].items()
    ]


def of_monitor(found: dict[str, Any]) -> list[Row]:
    def row(name: str, r: dict[str, Any]) -> Row:
        if "share_by_its_own_clock" in r:  # a budget is spent in few rounds, which a median does not show
            return Row(
                f"training step, {name}, all rounds together", "plain training", r["ratio_of_totals"], r["limit"]
            )
        return Row(f"training step, {name}", "plain training", r["ratio"], r.get("limit"), spread(r))

    return [row(name, r) for name, r in found["ratios"].items()]


def of_train(found: dict[str, Any]) -> list[Row]:
    rows = [
        Row(f"step of {r['name']}", r["against"], r["ratio"], r["target"], spread(r))
        for r in found["rows"]
        if r.get("target")
    ]
    return rows + [
        Row(f"products of dfa over bp's, counted: {how}", "", ratio) for how, ratio in found["counted"].items()
    ]


def of_large(found: dict[str, Any]) -> list[Row]:
    rows = []
    for row in [*found["by_depth"], *found["by_width"]]:
        size = f"{row['depth']} blocks of width {row['width']}"
        rows.append(Row(f"diagnose, {size}: time", "one training step", row["time_over_step"]))
        rows.append(Row(f"diagnose, {size}: peak memory", "one training step", row["memory_over_step"]))
    time = exponent(found["by_depth"], "depth", "diagnose: seconds")
    rows.append(Row("growth of diagnose's time with depth (exponent)", "1 is linear", time, 1.1))
    for over in ("depth", "width"):
        sizes = found[f"by_{over}"]
        mine, step = (exponent(sizes, over, f"{what}: peak MiB") for what in ("diagnose", "step"))
        rows.append(Row(f"growth of diagnose's memory with {over} (exponent)", f"{step:.2f}, a step's", mine, step))
        added, step = (sizes[-1][f"{what}: peak MiB"] - sizes[-2][f"{what}: peak MiB"] for what in ("diagnose", "step"))
        larger = f"memory that the largest {over} takes more than the one before"
        rows.append(Row(larger, "what a step takes more", added / step, 1.0))
    return rows


def of_step(found: dict[str, Any]) -> list[Row]:
    rows = [
        Row(*name.split(" over "), r["ratio"], None, spread(r)) for name, r in found["ratios"].items() if "ratio" in r
    ]
    return [row._replace(what=f"BP step, {row.what}") for row in rows]


def of_grid(found: dict[str, Any]) -> list[Row]:
    own = found["rows"]["loop"]
    whole = found["rows"]["workers1"]["cpu_seconds"] / own["cpu_seconds"]
    against = "a loop over the runs in one"
    rows = [Row(f"grid of {own['runs']} tiny runs, CPU time of both processes", against, whole, 1.05)]
    if "scheduling_cpu_seconds" in found["rows"]["workers2"]:
        share = found["overhead_of_scheduling"]
        rows.append(Row("CPU time of the process that schedules them", "the runs' own", share, found["overhead_limit"]))
    rows.append(Row("grid with two processes, wall time", "with one", found["two_workers_over_one_wall"]))
    ray = {name: row for name, row in found["rows"].items() if name.startswith("ray")}
    for name, row in ray.items():
        same = "same results" if row["same_results"] and row["finished"] == row["runs"] else "OTHER RESULTS"
        against = "Ray with one node" + f"; {same}"
        rows.append(
            Row(
                f"Ray with {name[3:]} node{'s' * (name != 'ray1')}, wall time",
                against,
                row["wall_seconds"] / ray["ray1"]["wall_seconds"],
            )
        )
    return rows


def of_traces(found: dict[str, Any]) -> list[Row]:
    lines, grown, short = found["lines"], found["grown"], f"of {found['short']:,} lines"
    rows = [
        Row(f"{name} of a trace of {int(n):,} lines, time per line", short, r["ratio"], r["limit"], spread(r))
        for name, lengths in found["ratios"].items()
        for n, r in lengths.items()
    ]
    live = found["live_look"]
    return [*rows, Row(f"live watch: {grown} new lines", f"the first look at {lines:,}", live["ratio"], 0.05)]


def of_load(found: dict[str, Any]) -> list[Row]:
    def row(r: dict[str, Any]) -> Row:
        part = "" if r["items"] >= r["wanted"] else f" (of {r['wanted']:,} that are meant)"
        killed = f", {r['killed']} killed" if "killed" in r else ""
        what = f"{r['items']:,} {r['what']}{killed}{part}: {_seconds(r)}, time per item"
        return Row(what, f"at {r['items'] // 8:,}", r["ratio"], r["limit"])

    return [row(r) for r in found["rows"].values()]


def _seconds(row: dict[str, Any]) -> str:
    before = row.get("before")
    told = f" ({before['wall_seconds']:g} s of wall time at {before['commit']})" if before else ""
    large = row["large"]
    spent = f"{large['cpu_seconds']:.1f} s of CPU time" if "cpu_seconds" in large else f"{large['wall_seconds']:.1f} s"
    return spent + told


READERS = {
    "startup": of_startup, "diagnose": of_diagnose, "jax": of_jax, "monitor": of_monitor, "train": of_train,
    "large": of_large, "step": of_step, "grid": of_grid, "traces": of_traces,
    "load": of_load,
}  # fmt: skip


def page() -> Page:
    """The table of everything on record, and where the time of a run goes."""
    found = {name: json.loads(path.read_text()) for name in NAMES if (path := RESULTS / f"bench_{name}.json").exists()}
    rows = [row for name, content in found.items() for row in READERS[name](content)]
    missed = [row for row in rows if row.limit is not None and row.value > row.limit]
    headings = ["what", "against", "ratio", "quartiles", "limit", ""]
    parts: list[Any] = [
        "Ratios on one machine, made by make bench; the JSON behind them is in the directory results. Both sides of a "
        "ratio take turns in one run, in CPU time unless wall time is named, with one thread. Two cores cannot show "
        "what more nodes gain: the rows on Ray check that the results are the same, and what Ray costs.",
        Grid(headings, [row.cells() for row in rows], "llrrrl"),
        _missed(missed),
    ]
    if "train" in found:
        parts += [Heading("A training step of each method"), STEPS, _steps(found["train"])]
    if "step" in found:
        parts += [Heading("Where the time of a training run goes"), PROFILE, _profile(found["step"])]
    if "large" in found:
        parts += [Heading("Depth and width"), _sizes_words(), _sizes(found["large"])]
    parts += [
        Heading("When and where"),
        Grid(["benchmark", "date", "commit", "load"], list(map(_origin, found.values())), "llll"),
    ]
    return Page("What walkback costs", parts)


STEPS = (
    "One step on ResMLP (d = 256, four blocks) with a batch of 128, in CPU time over that of what it is compared with, "
    "and beside it the multiplications in its matrix products, counted as it runs, over those of backpropagation. "
    "Methods have their default options, which say for most how many sweeps, draws or phases a step has."
)


def _steps(found: dict[str, Any]) -> Grid:
    rows = [
        [
            r["name"], r["against"], f"{r['ratio']:.3f}", spread(r), f"{r['products']:.3f}" if "products" in r else "",
            f"{r['milliseconds']:.1f} ms", str(r["rounds"]),
        ]
        for r in found["rows"]
    ]  # fmt: skip
    return Grid(["step of", "against", "time", "quartiles", "products", "one step", "rounds"], rows, "llrrrrr")


PROFILE = (
    "Shares of one epoch of CIFAR-10's size (391 steps of 128; then test accuracy, diagnostics and a checkpoint), in "
    "CPU time of each part timed by itself."
)


def _missed(rows: list[Row]) -> str:
    if not rows:
        return "Every limit is met."
    said = [f"{row.what} ({row.value:.3f}, limit {row.limit:.3g}){_why(row.what)}" for row in rows]
    return "Missed: " + "; ".join(said) + "."


WHY = {
    "diagnose, resmlp": "most of it is the forward pass and the way back to h_0, which it cannot do without; what is "
    "over the limit are costs that a network this small does not hide: the fp64 pass, the look at the structure, "
    "intervals",
    "diagnose, vit_mini": "most of it is the forward pass and the way back to h_0; attention and norms have few weight "
    "gradients, which are all that it saves",
    "diagnose, Hugging Face ViT": "as for vit_mini; and the check of the gradient in fp64, which is made once, weighs "
    "more on few samples than on the 1,280 of the protocol",
    "training step, walkback, default budget": "the budget is kept by the monitor's own clock, which does not see what "
    "its passes cost the training after them, in caches gone cold",
    "growth of diagnose's memory": "a peak has a part that does not grow, smaller here than in a step, and of two "
    "straight lines the one that starts lower has the larger exponent; what a larger network takes more is the row "
    "below it",
    "grid of": "it holds the start of a second Python with torch; what scheduling itself costs is the row below",
}
"""What was found out about limits that are missed, by how the row begins."""


def _why(what: str) -> str:
    return next((f": {why}" for start, why in WHY.items() if what.startswith(start)), "")


def _profile(found: dict[str, Any]) -> Grid:
    parts = list(next(iter(found["profile"].values()))["share"])
    rows = [
        [name, *(f"{100 * row['share'][part]:.1f} %" for part in parts), f"{sum(row['cpu_seconds'].values()):.1f} s"]
        for name, row in found["profile"].items()
    ]
    return Grid(["network, method", *parts, "epoch"], rows, "l" + "r" * (len(parts) + 1))


def _sizes_words() -> str:
    return (
        "A residual MLP on one batch of 512, each size in a process of its own. Peaks are over the model and batch; "
        "a training step's includes gradients and AdamW's state. What micro-batches leave is the fp64 copy, for the "
        "reference fidelity, of the weights behind the first site that is measured; fewer sites, fewer weights."
    )


def _sizes(found: dict[str, Any]) -> Grid:
    headings = ["blocks", "width", "diagnose", "peak", "in micro-batches of 64", "last four sites", "one step", "peak"]
    rows = [
        [
            str(r["depth"]), str(r["width"]), f"{r['diagnose: seconds']:.3f} s", f"{r['diagnose: peak MiB']:.0f} MiB",
            f"{r['diagnose, micro_batch=64: peak MiB']:.0f} MiB", f"{r['diagnose, last four sites: peak MiB']:.0f} MiB",
            f"{r['step: seconds']:.3f} s", f"{r['step: peak MiB']:.0f} MiB",
        ]
        for r in [*found["by_depth"], *found["by_width"]]
    ]  # fmt: skip
    return Grid(headings, rows, "r" * len(headings))


def _origin(content: dict[str, Any]) -> list[str]:
    load = content.get("load_average")
    busy = "not recorded" if load is None else f"{load:g} on {content['cores']} cores at its start"
    if load is not None and load > content["cores"]:
        busy += ": shared with other work"
    return [content["command"], content["date"], content["commit"][:12], busy]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--page-only", action="store_true", help="run nothing, make the table of what is on record")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    failed = []
    for name in () if options.page_only else options.names or NAMES:
        print(f"== {name}", flush=True)
        # One thread from the start: what torch is told later does not reach every library under it.
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        if subprocess.run(
            [sys.executable, str(HERE / f"{SCRIPTS.get(name, name)}.py")], check=False, env=environment
        ).returncode:
            failed.append(name)
    made = page()
    PAGE.write_text(made.markdown())
    console = Console(highlight=False)
    for block in made.blocks():
        console.print(block)
    print(f"written to {PAGE}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}; their last figures on record are shown")


if __name__ == "__main__":
    main()
