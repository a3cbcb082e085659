"""Grids: what they hold, and that training one can be interrupted at will and gives the same audit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from tiny_runs import tiny

from walkback.cli.main import app
from walkback.errors import InputError, UnknownName, WalkbackError
from walkback.lab.grids.executors import Began, Elsewhere, Ended, LocalProcesses
from walkback.lab.grids.grid import GridConfig, row_of, rows_named, unique_runs
from walkback.lab.grids.presets import preset
from walkback.lab.grids.presets.record import recorded
from walkback.lab.runs import lock
from walkback.lab.runs.store import RunStore
from walkback.lab.studies.audit_of_grid import audit_of
from walkback.protocol.records import DiagnosticReport
from walkback.protocol.schema import file_name

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
    "3",
]
GRID += ["--set", "arch.width=8", "arch.depth=1", "data.samples=1400", "--name", "tiny"]
TIMES = {"seconds", "date", "commit"}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def audit(folder, *arguments):
    """The command in this process, which has torch already; its workers are processes of their own."""
    out, err, status = io.StringIO(), io.StringIO(), 2
    before = Path.cwd()
    os.chdir(folder)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = app(["lab", "audit", *arguments])
        except WalkbackError as error:
            print(error, file=sys.stderr)
        finally:
            os.chdir(before)
    return Done(status, out.getvalue(), err.getvalue())


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in TIMES}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


def audited(folder):
    return without_times(json.loads((folder / "results" / "audit_tiny.json").read_text()))


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """The grid trained without a break, by one worker."""
    folder = tmp_path_factory.mktemp("clean")
    done = audit(folder, *GRID, "--workers", "1")
    assert done.returncode == 1, done.stderr
    return folder, done


@pytest.fixture
def copy(clean, tmp_path):
    """A folder that has the archive of the clean grid and nothing else, like a fresh clone."""
    shutil.copytree(clean[0] / "results", tmp_path / "results")
    return tmp_path


def test_every_method_that_is_asked_for_is_one_row_and_every_run_has_its_baseline():
    grid = GridConfig(architecture="resmlp", data="digits", rows=rows_named(["bp", "dfa"]), seeds=(1, 2))
    labels = [(cell.label, cell.config.seed) for cell in grid.cells()]
    assert labels == [(label, seed) for label in ("bp", "dfa") for seed in (1, 2)]
    assert grid.cells()[2].config.method_options["credit_norm"] == "none"
    assert {cell.baseline.freezing for cell in grid.cells()} == {"blocks"}
    assert len(grid.runs()) == 8
    assert [config.seed for config in grid.runs()] == [1] * 4 + [2] * 4


def test_the_record_has_dfa_with_both_norms():
    rows = recorded(["bp", "dfa"])
    assert [row.label for row in rows] == ["bp", "dfa", "dfa_textbook"]
    assert [row.options["credit_norm"] for row in rows[1:]] == ["per_sample", "none"]


def test_the_record_is_seven_rows_and_three_long_ones():
    short, long = preset("resmlp_d256")
    assert (short.name, long.name) == ("resmlp_d256", "resmlp_d256_100ep")
    assert [row.label for row in short.rows] == [
        "bp", "fa", "dfa", "dfa_textbook", "state_bridge", "credit_bridge", "ep",
    ]  # fmt: skip
    assert (short.epochs, long.epochs, short.seeds) == (30, 100, (42, 123, 456))
    assert (short.published_epochs, long.published_epochs) == (None, 100)
    bridges = [cell.config for cell in short.cells() if "bridge" in cell.label]
    assert {config.method_options["credit_norm"] for config in bridges} == {"per_sample"}
    # The label is the record's; the method behind it is called otherwise since its source's own is in the zoo.
    assert [(row.label, row.method) for row in short.rows if row.label != row.method] == [
        ("dfa_textbook", "dfa"), ("credit_bridge", "credit_bridge_vector"),
    ]  # fmt: skip
    assert len(unique_runs([short, long])) == 7 * 3 * 2 + 3 * 3 * 2


def test_names_tell_grids_apart():
    def name(**changes):
        settings = {"architecture": "resmlp", "data": "cifar10", "rows": rows_named(["bp"])}
        return GridConfig(**settings | changes).name

    others = [
        name(),
        name(epochs=5),
        name(data="digits"),
        name(architecture="small_cnn"),
        name(settings={"architecture_options": {"width": 512}}),
        name(settings={"learning_rate": 0.1}),
        name(settings={"architecture_options": {"terminal_norm": False}}),
        name(architecture="small_cnn", settings={"architecture_options": {"channels": (4, 4, 8)}}),
    ]
    assert others[0] == "resmlp_d256"
    assert [file_name(each, "the name") for each in others] == others
    assert len(set(others)) == len(others)


def test_a_ladder_is_a_grid_whose_rungs_share_the_frozen_baseline():
    rungs = [row_of(f"bp ladder {last}", "bp", {}, freezing=f"ladder:{last}") for last in (1, 2, 3)]
    grid = GridConfig(architecture="resmlp", data="digits", rows=(*rungs, *rows_named(["bp"])), seeds=(1, 2))
    assert [cell.config.freezing for cell in grid.cells()][::2] == ["ladder:1", "ladder:2", "ladder:3", "none"]
    assert {cell.baseline.freezing for cell in grid.cells()} == {"blocks"}
    assert len(grid.runs()) == 2 * (4 + 1)
    whole = GridConfig(
        architecture="resmlp", data="cifar10", rows=rows_named(["bp"]), settings={"freezing": "ladder:2"}
    )
    assert file_name(whole.name, "the name") == "resmlp_d256_freezing_ladder-2"


def test_bad_grids_are_refused():
    with pytest.raises(UnknownName, match="Did you mean 'dfa'"):
        rows_named(["dffa"])
    with pytest.raises(InputError, match="bp is given more than once"):
        GridConfig(architecture="resmlp", data="digits", rows=rows_named(["bp", "bp"]))
    with pytest.raises(InputError, match="frozen baselines by itself"):
        GridConfig(
            architecture="resmlp", data="digits", rows=rows_named(["bp"]), settings={"freezing": "blocks"}
        ).cells()
    with pytest.raises(UnknownName, match="Did you mean 'resmlp_d256'"):
        preset("resmlp_256")
    with pytest.raises(InputError, match="1 or more"):
        LocalProcesses(0)


def test_the_audit_holds_reports_runs_summaries_and_config(clean):
    folder, done = clean
    found = audited(folder)
    rows = [(label, seed) for label in ("dfa", "dfa:credit_norm=per_sample") for seed in (1, 2)]
    assert [(r["method_name"], r["seed"]) for r in found["reports"]] == rows
    assert [(r["label"], r["seed"], r["error"]) for r in found["runs"]] == [(*row, "") for row in rows]
    assert [s["method_name"] for s in found["summaries"]] == ["dfa", "dfa:credit_norm=per_sample"]
    for report, row in zip(found["reports"], found["runs"], strict=True):
        assert DiagnosticReport.from_dict(report).complete
        run = json.loads((folder / "results" / "runs" / f"{row['id']}.json").read_text())
        baseline = json.loads((folder / "results" / "runs" / f"{row['baseline']}.json").read_text())
        assert report["headline_acc"] == run["accuracy"]
        assert report["frozen_baseline_acc"] == baseline["accuracy"]
        assert report["alignment"]["sites"] is not None
    assert GridConfig(**found["config"]).seeds == (1, 2)
    assert "8 of 8 runs done" in done.stderr
    assert "epoch 3/3" in done.stderr
    assert "DFA, 2 seeds:" in done.stdout


@pytest.mark.slow
def test_two_workers_give_the_same_audit_as_one(clean, tmp_path):
    assert audit(tmp_path, *GRID).returncode == 1
    assert audited(tmp_path) == audited(clean[0])


def test_whoever_has_the_archive_does_not_train_again(clean, copy):
    done = audit(copy, *GRID)
    assert "all 8 runs are finished already" in done.stderr
    assert not (copy / "runs").exists()
    assert audited(copy) == audited(clean[0])
    listed = audit(copy, *GRID, "--list")
    assert listed.returncode == 0
    assert "8 of 8 runs finished, 0 missing" in listed.stdout


def test_what_is_finished_can_be_judged_before_the_rest_is(copy):
    missing = audited(copy)["runs"][1]["id"]
    (copy / "results" / "runs" / f"{missing}.json").unlink()
    on_record = copy / "results" / "audit_tiny.json"
    whole = on_record.read_bytes()
    done = audit(copy, *GRID, "--no-train")
    assert done.returncode == 2
    assert "holds reports of runs that are not here: dfa 2" in done.stderr
    assert on_record.read_bytes() == whole
    on_record.unlink()
    done = audit(copy, *GRID, "--no-train")
    assert done.returncode == 1
    assert "missing: dfa 2: not finished" in done.stdout
    assert len(audited(copy)["reports"]) == 3
    for file in (copy / "results" / "runs").iterdir():
        file.unlink()
    on_record.unlink()
    assert audit(copy, *GRID, "--no-train").returncode == 3


def test_an_audit_with_d_is_not_replaced_by_one_without(copy):
    lost = audited(copy)["runs"][0]["baseline"]
    (copy / "results" / "runs" / f"{lost}.json").unlink()
    whole = (copy / "results" / "audit_tiny.json").read_bytes()
    done = audit(copy, *GRID, "--no-train")
    assert done.returncode == 2
    assert "holds (d) by baselines that are not here: dfa 1" in done.stderr
    assert (copy / "results" / "audit_tiny.json").read_bytes() == whole


def test_a_file_that_is_no_audit_is_not_replaced(copy):
    on_record = copy / "results" / "audit_tiny.json"
    on_record.write_text("{}")
    done = audit(copy, *GRID, "--no-train")
    assert done.returncode == 2
    assert "is not an audit" in done.stderr
    assert on_record.read_text() == "{}"


def test_fewer_rows_do_not_replace_an_audit_on_record(copy):
    fewer = [word for word in GRID if word != "2"]
    before = (copy / "results" / "audit_tiny.json").read_bytes()
    done = audit(copy, *fewer)
    assert done.returncode == 2
    assert "holds runs that this grid has not: dfa 2, dfa:credit_norm=per_sample 2" in done.stderr
    assert (copy / "results" / "audit_tiny.json").read_bytes() == before


def test_other_runs_under_the_same_name_do_not_replace_an_audit_on_record(copy):
    before = (copy / "results" / "audit_tiny.json").read_bytes()
    done = audit(copy, *GRID, "--set", "weight_decay=0.5")
    assert done.returncode == 2
    assert "holds runs that this grid has not: dfa 1, " in done.stderr
    assert (copy / "results" / "audit_tiny.json").read_bytes() == before


def lose_two_runs(folder):
    """One can be trained again, the other has a file where its folder should be."""
    rows = audited(folder)["runs"]
    broken, missing = rows[0]["id"], rows[3]["id"]
    for run_id in (broken, missing):
        (folder / "results" / "runs" / f"{run_id}.json").unlink()
    (folder / "runs").mkdir()
    (folder / "runs" / broken).write_text("a file where a folder should be")


def test_a_run_that_fails_does_not_take_its_report_off_the_record(copy):
    lose_two_runs(copy)
    before = (copy / "results" / "audit_tiny.json").read_bytes()
    done = audit(copy, *GRID, "--workers", "1")
    assert done.returncode == 2
    assert "holds reports of runs that are not here: dfa 1 (cannot make" in done.stderr
    assert (copy / "results" / "audit_tiny.json").read_bytes() == before


def test_a_failed_run_is_a_row_with_its_error_and_the_rest_goes_on(clean, copy):
    lose_two_runs(copy)
    (copy / "results" / "audit_tiny.json").unlink()
    done = audit(copy, *GRID, "--workers", "1")
    assert done.returncode == 2
    assert "failed: dfa 1: " in done.stdout
    found = audited(copy)
    assert "cannot make" in found["runs"][0]["error"]
    assert found["runs"][3]["error"] == ""
    assert found["reports"] == audited(clean[0])["reports"][1:]


def test_a_failed_baseline_leaves_d_unmeasured(clean):
    folder, _ = clean
    config = json.loads((folder / "results" / "audit_tiny.json").read_text())["config"]
    store = RunStore(folder / "elsewhere", folder / "results" / "runs")
    grid = GridConfig(**config)
    away = store.archive / f"{grid.cells()[0].baseline.run_id}.json"
    content = away.read_bytes()
    away.unlink()
    try:
        made = audit_of("tiny", grid, store, {grid.cells()[0].baseline.run_id: "the disk is full"})
    finally:
        away.write_bytes(content)
    assert made["runs"][0]["baseline_error"] == "the disk is full"
    assert made["reports"][0]["frozen_baseline_acc"] is None
    assert not made["reports"][0]["complete"]
    assert made["reports"][1]["complete"]


def locked(folder):
    return [path for path in (folder / "runs").glob("*/lock") if lock.is_held(path)]


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def start(folder, *arguments):
    command = [sys.executable, "-m", "walkback", "lab", "audit", *GRID, *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_killed_grid_leaves_no_worker_behind_and_goes_on(clean, tmp_path):
    process = start(tmp_path, "--workers", "1")
    wait_for(lambda: list((tmp_path / "runs").glob("*/trace.jsonl")), 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_for(lambda: not locked(tmp_path), 5)
    assert audit(tmp_path, *GRID, "--workers", "1").returncode == 1
    assert audited(tmp_path) == audited(clean[0])


def holder(folder):
    """The process that holds the lock of a run in the store, once there is one."""
    wait_for(lambda: [path for path in locked(folder) if path.read_text().strip()], 60)
    return int(next(path for path in locked(folder) if path.read_text().strip()).read_text())


@pytest.mark.slow
def test_two_audits_on_one_store_share_its_runs_and_both_end_with_the_verdict(clean, tmp_path):
    # Their results are apart, so that neither finds the other's in its archive.
    first = start(tmp_path, "--workers", "1", "--results", "first")
    os.kill(stopped := holder(tmp_path), signal.SIGSTOP)
    command = [sys.executable, "-m", "walkback", "lab", "audit", *GRID, "--workers", "1", "--results", "second"]
    second = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = [
            next(line for line in second.stderr if "trained by another process, waiting" in line or "failed" in line)
        ]
        os.kill(stopped, signal.SIGCONT)
        said += second.stderr.readlines()
        assert not any("failed" in line for line in said), said
        assert (second.wait(60), first.wait(60)) == (1, 1), "as an audit by itself ends"
    finally:
        for process in (first, second):
            process.kill()
            process.wait()
        second.stderr.close()
    expected = audited(clean[0])
    for out in ("first", "second"):
        assert without_times(json.loads((tmp_path / out / "audit_tiny.json").read_text())) == expected
    for path in (tmp_path / "runs").glob("*/trace.jsonl"):
        assert len(path.read_text().splitlines()) == 4, "each epoch was trained once"


def test_a_run_is_taken_over_when_the_other_audit_dies(tmp_path):
    endless, store, events = tiny(epochs=99_999), RunStore(tmp_path / "runs"), []
    holding = subprocess.Popen([sys.executable, "-c", HOLDING, json.dumps(endless.to_dict()), str(store.root)])
    folder = store.run(endless).folder
    try:
        wait_for(lambda: list(folder.glob("checkpoints/*.safetensors")), 60)

        def hear(event):
            events.append(event)
            if isinstance(event, Elsewhere):
                holding.kill()
                holding.wait()
            elif isinstance(event, Began) and event.run_id == endless.run_id:
                # It goes on from what the other left; to see that is enough.
                os.kill(int((folder / "lock").read_text()), signal.SIGKILL)

        LocalProcesses(1, niceness=0).execute([endless, tiny(epochs=1)], store, hear)
    finally:
        holding.kill()
        holding.wait()
    assert [type(event) for event in events if event.run_id == endless.run_id][:2] == [Elsewhere, Began]
    assert next(event for event in events if isinstance(event, Began) and event.run_id == endless.run_id).done > 0
    ended = [event.run_id for event in events if isinstance(event, Ended)]
    assert ended == [tiny(epochs=1).run_id, endless.run_id], "other runs are trained meanwhile"


HOLDING = """
import json, sys
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
train_or_resume(RunConfig.from_dict(json.loads(sys.argv[1])), RunStore(sys.argv[2]))
"""


@pytest.mark.slow
def test_killed_at_three_random_moments_it_gives_the_same_audit(clean, tmp_path):
    chance = random.Random(3)
    for _ in range(3):
        process = start(tmp_path)
        time.sleep(chance.uniform(2, 9))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert audit(tmp_path, *GRID).returncode == 1
    assert audited(tmp_path) == audited(clean[0])
    assert not locked(tmp_path)


def test_a_worker_that_dies_costs_its_run_alone(tmp_path):
    endless, short = tiny(epochs=99_999), tiny(epochs=1)
    store, events = RunStore(tmp_path / "runs"), []

    def kill():
        path = store.run(endless).folder / "lock"
        wait_for(lambda: path.exists() and path.read_text().strip(), 60)
        os.kill(int(path.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    LocalProcesses(1, niceness=0).execute([endless, short], store, events.append)
    killer.join()
    ended = [event for event in events if isinstance(event, Ended)]
    assert [event.run_id for event in ended] == [endless.run_id, short.run_id]
    assert "exit status -9" in ended[0].error
    assert ended[1].error == ""
    assert store.run(short).finished


def test_an_archived_run_is_finished_and_read_from_there(clean, copy):
    store = RunStore(copy / "runs")
    first = audited(copy)["runs"][0]["id"]
    run = store.find(first[:6])
    assert run.finished
    assert run.config.method == "dfa"
    assert [record.epoch for record in run.trace()] == [0, 1, 2, 3]
    assert len(list(store)) == 8
    assert Path(run.result_file).parent == copy / "results" / "runs"
