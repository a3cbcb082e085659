"""Kill a grid at random moments: python tools/torture.py [--kills N] [--seed S] [--only KIND…].

A small grid is trained without a break once, and again and again while its processes are killed: its first process
alone, one worker, the whole group; in a directory, in an object store (S3 on loopback), on a local Ray cluster
whose nodes are killed, two grids on one store, on a disk that is full, with a clock that is wrong on one side of a
lease. After the last kill the grid is let to its end. Then no run may be lost, no epoch that was saved before a kill
may have been trained again, no process may be left, and audit and results must be those of the undisturbed grid.

Rounds are drawn by the seed and put on record one by one in results/torture.json, so the same command goes on where
it was stopped; another commit begins anew. Needs Linux, and for the full disk the right to mount a tmpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "results" / "torture.json"
GRID = [
    "--arch",
    "resmlp",
    "--data",
    "synthetic_teacher",
    "--methods",
    "dfa",
    "dfa:credit_norm=per_sample",
    "--seeds",
    "1",
    "2",
    "--epochs",
    "12",
    "--set",
    "arch.width=8",
    "arch.depth=1",
    "data.samples=1400",
    "--name",
    "tiny",
]
EPOCHS, RUNS = 12, 8
TIMES = {"seconds", "date", "commit", "baseline_commit"}
MISSED = ("after its end", "full too late")
"""What came when there was nothing left to strike, and does not count."""
VICTIMS = ("parent", "worker", "group")
PATIENCE = 900.0
"""Seconds that one start of a grid may take, on a machine that does other work too."""
KINDS = {"folder": 50, "s3": 20, "ray": 10, "two grids": 10, "full disk": 5, "clock": 5}
"""Of a hundred kills, how many are of each kind; a full disk and a wrong clock count as one each."""
CLOCK = """
import os, time
_ahead, _genuine, _begun = float(os.environ["TORTURE_AHEAD"]), time.time, time.monotonic()
time.time = lambda: _genuine() + (_ahead if time.monotonic() - _begun > 3 else 0.0)
"""
"""A clock that is right for three seconds and then jumps, in this process and in those that it starts."""


@functools.cache
def source() -> Path:
    """A copy of the source as it is at the start: it may be worked on while this goes on."""
    place = ROOT / ".torture" / commit()[:12] / "src"
    if not place.exists():
        shutil.copytree(ROOT / "src", place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


class Wrong(AssertionError):
    """Something was lost, done twice, left behind, or came out otherwise."""


def plan(kills: int, seed: int) -> list[dict[str, Any]]:
    """The rounds: each of one kind, with one to five kills, as many of each kind as its share."""
    chance = random.Random(seed)
    rounds = []
    for kind, share in KINDS.items():
        left = max(1, round(kills * share / 100))
        while left:
            count = 1 if kind in ("full disk", "clock") else min(left, chance.randint(1, 5))
            moments = [round(chance.uniform(0.0, 6.0), 2) for _ in range(count)]
            victims = [chance.choice(VICTIMS) for _ in range(count)]
            rounds.append({"kind": kind, "moments": moments, "victims": victims, "seed": chance.randrange(2**31)})
            left -= count
    return rounds


# A grid, from outside.


def without_times(value: Any) -> Any:
    """A JSON value without what may differ between two equal grids."""
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in TIMES}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


class Grid:
    """One grid and its place: started, killed, looked at."""

    def __init__(self, folder: Path, runs: str = "runs", results: str = "results", workers: int = 2) -> None:
        self.folder, self.runs, self.results, self.workers = folder, runs, folder / results, workers
        self.environment = os.environ | {"PYTHONPATH": str(source()), "OMP_NUM_THREADS": "1"}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """Start it; what it says goes to a file."""
        words = ["lab", "audit", *GRID, "--workers", str(self.workers), "--runs", self.runs]
        words += ["--results", str(self.results)]
        with (self.folder / "said.txt").open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "walkback", *words], cwd=self.folder, env=self.environment | environment,
                stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        return self.process

    def to_its_end(self, **environment: str) -> int:
        """Let it train what is missing; its exit status."""
        process = self.start(**environment)
        try:
            return process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise Wrong(f"it had not ended after {PATIENCE:g} s") from None

    def outcome(self) -> tuple[Any, dict[str, Any]]:
        """The audit, and every result, without times."""
        audit = without_times(json.loads((self.results / "audit_tiny.json").read_text()))
        runs = {path.stem: without_times(json.loads(path.read_text())) for path in (self.results / "runs").iterdir()}
        return audit, runs

    def last_words(self) -> str:
        """What it said last."""
        return (self.folder / "said.txt").read_text(errors="replace")[-600:]


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """What a condition gives, once it gives anything."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise Wrong(f"waited {seconds:g} s in vain for {what}")
        time.sleep(0.02)
    return found


def trainers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The workers of a grid."""
    with contextlib.suppress(psutil.Error):
        inner = psutil.Process(process.pid).children(recursive=True)
        return [each for each in inner if "spawn_main" in " ".join(each.cmdline())]
    return []


def kill(grid: Grid, victim: str, chance: random.Random) -> str:
    """Kill what is to be killed, and see that nothing goes on without its parent; what was killed."""
    process = grid.process
    assert process is not None
    family = trainers(process)
    if victim == "worker" and family and process.poll() is None:
        with contextlib.suppress(psutil.Error):
            chance.choice(family).kill()
        process.wait(PATIENCE)  # the others go on, and the audit names the run that failed
        return "worker"
    if process.poll() is None:
        (os.killpg if victim == "group" else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=60)
    if alive:
        for each in alive:
            each.kill()
        raise Wrong(f"{len(alive)} workers went on without their parent")
    return victim


# What was there when a kill came, and what must still be there at the end.


def saved_in_folder(store: Path) -> dict[tuple[str, int], float]:
    """The epochs up to the newest checkpoint: (run, epoch) → how long it took, to the last digit."""
    found = {}
    for run in sorted(store.glob("*/config.json")):
        folder = run.parent
        numbers = [int(path.stem.rpartition("-")[2]) for path in folder.glob("checkpoints/epoch-*.safetensors")]
        lines = [json.loads(line) for line in _lines(folder / "trace.jsonl")]
        found |= {
            (folder.name, line["epoch"]): line["seconds"] for line in lines if line["epoch"] <= max(numbers, default=-1)
        }
    return found


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")  # the last one may not be whole
    return whole.splitlines()


def saved_in_bucket(files: Any, place: str) -> dict[tuple[str, int], float]:
    """The same of an object store."""
    keys = files.find(place.removeprefix("s3://"))
    newest: dict[str, int] = {}
    for key in keys:
        if "/checkpoints/epoch-" in key:
            run, number = key.split("/")[-3], int(key.rpartition("-")[2].partition(".")[0])
            newest[run] = max(number, newest.get(run, -1))
    found = {}
    for key in keys:
        run, kind, name = key.split("/")[-3:] if key.count("/") > 2 else ("", "", "")
        if kind == "epochs" and int(name.partition(".")[0]) <= newest.get(run, -1):
            with contextlib.suppress(FileNotFoundError):
                line = json.loads(files.cat_file(key))
                found[run, line["epoch"]] = line["seconds"]
    return found


def require_kept(before: dict[tuple[str, int], float], results: Path) -> None:
    """Every epoch that was saved is in the result as it was then: it was not trained again."""
    traces = {}
    for path in (results / "runs").glob("*.json"):
        traces |= {(path.stem, line["epoch"]): line["seconds"] for line in json.loads(path.read_text())["trace"]}
    again = sorted(epoch for epoch, seconds in before.items() if traces.get(epoch) != seconds)
    if again:
        raise Wrong(f"{len(again)} epochs that were saved before a kill were lost or trained again, first {again[0]}")


def require_same(grid: Grid, undisturbed: Any) -> None:
    """The audit and all results are those of the undisturbed grid, and each has every epoch once."""
    audit, runs = grid.outcome()
    expected_audit, expected_runs = undisturbed
    if sorted(runs) != sorted(expected_runs):
        raise Wrong(f"{len(runs)} of {len(expected_runs)} runs are there")
    for run_id, result in runs.items():
        if [line["epoch"] for line in result["trace"]] != list(range(EPOCHS + 1)):
            raise Wrong(f"run {run_id} has the epochs {[line['epoch'] for line in result['trace']]}")
    if audit != expected_audit or runs != expected_runs:
        other = [run_id for run_id in runs if runs[run_id] != expected_runs[run_id]]
        raise Wrong(f"other results: {', '.join(other) or 'the audit'}")


# The rounds, one function for each kind.


def in_folder(work: Path, round_: dict[str, Any], undisturbed: Any) -> list[str]:
    """Kills of one grid in a directory."""
    grid, store = Grid(work), work / "runs"
    return _killed_again_and_again(grid, round_, undisturbed, lambda: saved_in_folder(store), _lock_is_held(store))


def _lock_is_held(store: Path) -> Callable[[], bool]:
    from walkback.lab.runs import lock

    return lambda: any(lock.is_held(path) for path in store.glob("*/lock"))


def in_bucket(work: Path, round_: dict[str, Any], undisturbed: Any) -> list[str]:
    """Kills of one grid in an object store: leases, and no locks."""
    with bucket() as (files, address):
        place = f"{address}/{work.name}/runs"
        grid = Grid(work, place)

        def has_lease() -> bool:
            time.sleep(0.2)  # the server has other things to answer
            return any(key.endswith("/lease.json") for key in files.find(place.removeprefix("s3://")))

        return _killed_again_and_again(grid, round_, undisturbed, lambda: saved_in_bucket(files, place), has_lease)


def _killed_again_and_again(
    grid: Grid, round_: dict[str, Any], undisturbed: Any, saved: Callable[[], Any], begun: Callable[[], bool]
) -> list[str]:
    chance, done = random.Random(round_["seed"]), []
    before: dict[tuple[str, int], float] = {}
    for moment, victim in zip(round_["moments"], round_["victims"], strict=True):
        process = grid.start()
        with contextlib.suppress(Wrong):  # nothing may be left to train
            wait_for(lambda process=process: begun() or process.poll() is not None, PATIENCE, "the first run")
        time.sleep(moment)
        ended = process.poll() is not None
        done.append("after its end" if ended else kill(grid, victim, chance))
        # What was saved stays as it was saved first.
        before = saved() | before
    if grid.to_its_end() != 1:
        raise Wrong(f"the last start did not end with the verdict: {grid.last_words()}")
    require_kept(before, grid.results)
    require_same(grid, undisturbed)
    return done


@contextlib.contextmanager
def bucket() -> Iterator[tuple[Any, str]]:
    """A bucket of an S3 server on loopback; whatever is started meanwhile inherits the way to it."""
    import s3fs
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    before = {name: os.environ.get(name) for name in settings}
    os.environ |= settings
    try:
        files = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
        files.makedirs("bucket", exist_ok=True)  # the server forgets nothing while this process lives
        yield files, "s3://bucket"
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            os.environ |= {} if value is None else {name: value}
        server.stop()


def two_grids(work: Path, round_: dict[str, Any], undisturbed: Any) -> list[str]:
    """Two grids on one store, of which one is killed again and again; both end with the same audit."""
    chance, done = random.Random(round_["seed"]), []
    steady, struck = Grid(work, results="steady", workers=1), Grid(work, results="struck", workers=1)
    held = _lock_is_held(work / "runs")
    first = steady.start()
    for moment, victim in zip(round_["moments"], round_["victims"], strict=True):
        struck.start()
        wait_for(lambda: held() or first.poll() is not None, PATIENCE, "the first run")
        time.sleep(moment)
        done.append(kill(struck, victim, chance))
    if struck.to_its_end() != 1 or first.wait(PATIENCE) != 1:
        raise Wrong(f"one of the two did not end with the verdict: {steady.last_words()}")
    for grid in (steady, struck):
        require_same(grid, undisturbed)
    return done


def full_disk(work: Path, round_: dict[str, Any], undisturbed: Any) -> list[str]:
    """A disk that is full at some moment: an error in a sentence, no file half-written, and it goes on with room."""
    disk = work / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(disk)], check=True)
    try:
        grid = Grid(work, str(disk / "runs"))
        grid.start()
        process = grid.process
        assert process is not None
        wait_for(lambda: list(disk.glob("runs/*/trace.jsonl")) or process.poll() is not None, PATIENCE, "a trace")
        time.sleep(round_["moments"][0] / 4)
        with contextlib.suppress(OSError), (disk / "balloon").open("wb") as balloon:
            while True:
                balloon.write(b"\0" * 4096)
                balloon.flush()
        status = process.wait(PATIENCE)
        said = grid.last_words()
        if status not in (1, 2) or "Traceback" in said:
            raise Wrong(f"exit status {status} on a full disk: {said}")
        for path in disk.rglob("*.json"):
            json.loads(path.read_text())
        (disk / "balloon").unlink()
        before = saved_in_folder(disk / "runs")
        if grid.to_its_end() != 1:
            raise Wrong(f"with room again it did not end with the verdict: {grid.last_words()}")
        require_kept(before, grid.results)
        require_same(grid, undisturbed)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
    return ["full" if status == 2 else "full too late"]


def wrong_clock(work: Path, round_: dict[str, Any], undisturbed: Any) -> list[str]:
    """Two grids on one object store, and the clock of one jumps two hours, ahead or back, while both train."""
    ahead = random.Random(round_["seed"]).choice((7200.0, -7200.0))
    aside = work / "clock"
    aside.mkdir()
    (aside / "sitecustomize.py").write_text(CLOCK)
    with bucket() as (_, address):
        place = f"{address}/{work.name}/runs"
        right = Grid(work, place, "right", workers=1)
        wrong = Grid(work, place, "wrong", workers=1)
        path = f"{aside}{os.pathsep}{wrong.environment['PYTHONPATH']}"
        first = right.start()
        status = wrong.to_its_end(PYTHONPATH=path, TORTURE_AHEAD=str(ahead))
        if status != 1 or first.wait(PATIENCE) != 1:
            raise Wrong(f"one of the two did not end with the verdict: {right.last_words()}")
        for grid in (right, wrong):
            require_same(grid, undisturbed)
    return [f"clock {ahead:+g} s"]


def on_ray(work: Path, round_: dict[str, Any], undisturbed: Any) -> list[str]:
    """A Ray cluster of this machine whose nodes are killed, one after the other, while it trains; in a new process."""
    words = [sys.executable, str(Path(__file__)), "--ray-round", str(work), json.dumps(round_)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=4 * PATIENCE)
    if done.returncode:
        raise Wrong(f"{done.stdout[-300:]} {done.stderr[-600:]}")
    grid = Grid(work)
    if grid.to_its_end() != 1:  # finds every run finished, and judges them
        raise Wrong(f"the audit of the runs did not end with the verdict: {grid.last_words()}")
    if f"all {RUNS} runs are finished already" not in (work / "said.txt").read_text(errors="replace"):
        raise Wrong(f"a run was lost: {grid.last_words()}")
    require_same(grid, undisturbed)
    return list(json.loads(done.stdout.splitlines()[-1]))


def ray_round(work: Path, round_: dict[str, Any]) -> None:
    """What the process of a round on Ray does."""
    from ray.cluster_utils import Cluster

    from walkback.lab.grids.executors import Ended, Event, Reached
    from walkback.lab.grids.ray_cluster import RayCluster
    from walkback.lab.grids.train_grid import train_missing
    from walkback.lab.runs.store import open_store

    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    here = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=here)
    spare = [cluster.add_node(num_cpus=1)]
    chance, done = random.Random(round_["seed"]), []
    due = sorted(chance.sample(range(3, RUNS * EPOCHS - 20), len(round_["moments"])))
    reached, ended = 0, Counter[str]()

    def heard(event: Event) -> None:
        nonlocal reached
        if isinstance(event, Ended):
            ended[event.run_id] += 1
        reached += isinstance(event, Reached)
        if due and reached >= due[0]:
            due.pop(0)
            cluster.remove_node(spare.pop(), allow_graceful=False)
            done.append("node")
            spare.append(cluster.add_node(num_cpus=1))

    try:
        store = open_store(work / "runs", work / "results" / "runs")
        errors = train_missing(configs(), store, RayCluster(cluster.address), heard, print)
        assert not errors, errors
        assert set(ended.values()) == {1}, "a run ended twice"
        assert len(ended) == RUNS, "a run was lost"
    finally:
        cluster.shutdown()
    print(json.dumps(done))


def configs() -> list[Any]:
    """The runs of the grid."""
    from walkback.lab.cli.grid_options import rows_from
    from walkback.lab.grids.grid import GridConfig

    settings = {"architecture_options": {"width": 8, "depth": 1}, "data_options": {"samples": 1400}}
    rows = (*rows_from("dfa"), *rows_from("dfa:credit_norm=per_sample"))
    place: dict[str, Any] = {"architecture": "resmlp", "data": "synthetic_teacher", "settings": settings}
    return list(GridConfig(rows=rows, seeds=(1, 2), epochs=EPOCHS, **place).runs())


ROUNDS: dict[str, Callable[[Path, dict[str, Any], Any], list[str]]] = {
    "folder": in_folder, "s3": in_bucket, "ray": on_ray, "two grids": two_grids, "full disk": full_disk,
    "clock": wrong_clock,
}  # fmt: skip


def commit() -> str:
    """The last that changed the code that is tortured."""
    words = ["git", "log", "-1", "--format=%H", "--", "src"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def known(kills: int, seed: int) -> dict[str, Any]:
    """The record so far, or a new one."""
    if RECORD.exists():
        found: dict[str, Any] = json.loads(RECORD.read_text())
        if (found["seed"], found["commit"], found["wanted"]) == (seed, commit(), kills):
            return found
    return {
        "what": "a grid whose processes are killed at random moments", "command": f"make torture KILLS={kills}",
        "seed": seed, "commit": commit(), "wanted": kills, "kills": 0, "by_kind": {}, "by_victim": {}, "rounds": [],
        "wrong": [],
    }  # fmt: skip


def write(record: dict[str, Any]) -> None:
    """Put it on record, counted anew."""
    done = [one for each in record["rounds"] for one in each["done"]]
    record["kills"] = sum(one not in MISSED for one in done)
    record["by_victim"] = dict(sorted(Counter(done).items()))
    kinds = Counter[str]()
    for each in record["rounds"]:
        kinds[each["kind"]] += sum(one not in MISSED for one in each["done"])
    record["by_kind"] = dict(sorted(kinds.items()))
    record["wrong"] = [f"{each['kind']}: {each['wrong']}" for each in record["rounds"] if each["wrong"]]
    record["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    beside = RECORD.with_suffix(".tmp")
    beside.write_text(json.dumps(record, indent=1) + "\n")
    beside.replace(RECORD)


def undisturbed_grid(place: Path) -> Any:
    """What the grid comes to when nothing happens to it; trained once."""
    place.mkdir(parents=True, exist_ok=True)
    grid = Grid(place)
    if not (grid.results / "audit_tiny.json").exists() and grid.to_its_end() != 1:
        raise SystemExit(f"the grid cannot be trained here: {grid.last_words()}")
    return grid.outcome()


def torture(kills: int, seed: int, only: list[str]) -> dict[str, Any]:
    """Carry out the rounds that the record has not."""
    record = known(kills, seed)
    keep = ROOT / ".torture" / commit()[:12]
    undisturbed = undisturbed_grid(keep / "undisturbed")
    done = [{name: each[name] for name in ("kind", "moments", "victims", "seed")} for each in record["rounds"]]
    for round_ in plan(kills, seed):
        if round_ in done or (only and round_["kind"] not in only):
            continue
        started = time.monotonic()
        work = Path(tempfile.mkdtemp(prefix="walkback-torture-"))
        found: dict[str, Any] = {"done": [], "wrong": ""}
        try:
            found["done"] = ROUNDS[round_["kind"]](work, dict(round_), undisturbed)
        except Wrong as error:
            found["wrong"] = f"{error}; its files are in {work}"
        else:
            shutil.rmtree(work, ignore_errors=True)
        record["rounds"].append(round_ | found | {"wall_seconds": round(time.monotonic() - started, 1)})
        write(record)
        print(f"{round_['kind']}: {', '.join(found['done']) or '–'}  {found['wrong']}", flush=True)
    write(record)
    return record


def main() -> int:
    """Kill, and say what did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], choices=list(KINDS))
    parser.add_argument("--ray-round", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(source()))
    os.environ["PYTHONPATH"] = str(source())
    if options.ray_round:
        ray_round(Path(options.ray_round[0]), json.loads(options.ray_round[1]))
        return 0
    record = torture(options.kills, options.seed, options.only)
    print(f"{record['kills']} of {record['wanted']} kills, {len(record['wrong'])} rounds that came out wrong")
    return 1 if record["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
