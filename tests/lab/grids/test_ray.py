"""Grids on a Ray cluster: the same audit as one process gives, also when a node dies in the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tiny_runs import tiny

from walkback.errors import InputError, MissingLibrary, RunError, WalkbackWarning
from walkback.lab.cli.grid_training import executor_from
from walkback.lab.grids import listening, ray_connection
from walkback.lab.grids.executors import Began, Ended, LocalProcesses, Reached
from walkback.lab.grids.grid import GridConfig
from walkback.lab.grids.presets.record import recorded
from walkback.lab.grids.ray_cluster import RayCluster
from walkback.lab.grids.ray_connection import use_token
from walkback.lab.grids.train_grid import train_missing
from walkback.lab.runs import lease
from walkback.lab.runs.store import open_store
from walkback.lab.studies.audit_of_grid import audit_of

# Ray's own modules leave sockets and files to the interpreter's end.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*:pytest.PytestUnraisableExceptionWarning")

GRID = GridConfig(
    architecture="resmlp", data="synthetic_teacher", rows=recorded(["dfa"]), seeds=(1, 2), epochs=12,
    settings={"architecture_options": {"width": 8, "depth": 1}, "data_options": {"samples": 1400}},
)  # fmt: skip
TIMES = {"seconds", "date", "commit"}


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key not in TIMES}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


def results(store):
    """All that a grid leaves: its audit, and every run's result with its trace."""
    runs = {path.stem: json.loads(path.read_text()) for path in store.archive.iterdir()}
    return without_times(audit_of("tiny", GRID, store, {})), without_times(runs)


def trained(store, executor, tell):
    assert train_missing(GRID.runs(), store, executor, tell, print) == {}
    return results(store)


@pytest.fixture(scope="module")
def by_one_process(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return trained(open_store(folder / "runs", folder / "archive"), LocalProcesses(1), lambda event: None)


@pytest.fixture
def cluster():
    """A cluster on this machine: a head with room for one run."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield nodes
    nodes.shutdown()


def node_of(process, nodes):
    """The node among these whose worker a process is."""
    while process > 1:
        for node in nodes:
            if process == node.all_processes["raylet"][0].process.pid:
                return node
        stat = Path(f"/proc/{process}/stat").read_text()
        process = int(stat.rpartition(")")[2].split()[1])
    return None


class NodeKiller:
    """Kills one node, once, when a run on it has ended its third epoch."""

    def __init__(self, cluster, victims, trainer_of):
        self.cluster, self.victims, self.trainer_of = cluster, victims, trainer_of
        self.events, self.killed = [], ""

    def __call__(self, event):
        self.events.append(event)
        if isinstance(event, Reached) and event.epoch.record.epoch == 3 and not self.killed:
            try:
                node = node_of(self.trainer_of(event.run_id), self.victims)
            except (OSError, ValueError, KeyError):  # the run has just ended
                return
            if node is not None:
                self.killed = event.run_id
                self.cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_a_node_dies_in_the_middle_and_the_audit_is_that_of_one_process(kind, by_one_process, tmp_path, request):
    # Before the cluster: its nodes inherit the server's address and keys.
    place = tmp_path / "runs" if kind == "folder" else f"{request.getfixturevalue('s3')}/{tmp_path.name}/runs"
    store = open_store(place, tmp_path / "archive")

    def trainer_of(run_id):
        if kind == "folder":
            return int((store.root / run_id / "lock").read_text())
        return lease.read(store.objects, f"{run_id}/lease.json")["process"]

    cluster = request.getfixturevalue("cluster")
    nodes = [cluster.head_node, *(cluster.add_node(num_cpus=1) for _ in range(2))]
    executor = RayCluster(cluster.address)
    with executor.ready() as places:
        assert places == 3
        # The grid's own process belongs to one of the nodes, and would die with it.
        own = executor.ray.get_runtime_context().get_node_id()
        victims = [node for node in nodes[1:] if node.node_id != own]
        assert own in [node.node_id for node in nodes]
        killer = NodeKiller(cluster, victims, trainer_of)
        found = trained(store, executor, killer)
    assert killer.killed
    assert found == by_one_process
    ended = [event for event in killer.events if isinstance(event, Ended)]
    assert Counter(event.run_id for event in ended) == Counter(config.run_id for config in GRID.runs())
    assert not any(event.error for event in ended)
    began = [event.done for event in killer.events if isinstance(event, Began) and event.run_id == killer.killed]
    assert len(began) == 2
    assert began[1] >= 2, "it went on from a checkpoint, not from the start"
    epochs = Counter((e.run_id, e.epoch.record.epoch) for e in killer.events if isinstance(e, Reached))
    twice = [run_epoch for run_epoch, times in epochs.items() if times > 1]
    assert all(run_id == killer.killed for run_id, _ in twice)
    assert len(twice) <= 1, "at most the epoch under way is trained again"
    # A letter may die with its node, but then the run went on from the epoch that it told of.
    known = epochs.keys() | {(killer.killed, epoch) for epoch in range(began[1] + 1)}
    assert len(known) == len(GRID.runs()) * 13


def test_ray_local_listens_on_loopback_alone_and_ctrl_c_ends_its_tasks(tmp_path):
    command = [sys.executable, "-m", "walkback", "lab", "audit", "--arch", "resmlp", "--data", "synthetic_teacher"]
    command += ["--methods", "bp", "--seeds", "1", "--epochs", "99999", "--set", "arch.width=8", "data.samples=1400"]
    command += ["--ray", "local"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*/checkpoints/*.safetensors")):
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    sockets = listening_sockets(process.pid)
    trainers = [int(path.read_text()) for path in tmp_path.glob("runs/*/lock") if path.read_text().strip()]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "run the same command again to resume" in process.stderr.read().decode()
    process.stderr.close()
    assert len(sockets) >= 4, "gcs_server, raylet, its agent and a worker listen somewhere"
    assert not {who: ip for who, ip in sockets.items() if not ip.startswith(("127.", "::ffff:127.")) and ip != "::1"}
    assert trainers
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{trainer}/cmdline").exists() for trainer in trainers):
        assert time.monotonic() < deadline, "a task goes on"
        time.sleep(0.1)


def listening_sockets(pid):
    """(name, port) → address of every socket on which a process and its descendants listen."""
    parent = psutil.Process(pid)
    found = {}
    for process in (parent, *parent.children(recursive=True)):
        with suppress(psutil.Error):  # one that has ended meanwhile
            for one in process.net_connections(kind="tcp"):
                if one.status == psutil.CONN_LISTEN:
                    found[process.name(), one.laddr.port] = one.laddr.ip
    return found


def test_a_socket_that_others_can_reach_is_found_and_told(monkeypatch):
    assert listening.open_to_others() == []
    with socket.socket() as inside, socket.socket() as outside, socket.socket(socket.AF_INET6) as both:
        inside.bind(("127.0.0.1", 0))
        outside.bind(("0.0.0.0", 0))
        both.bind(("::ffff:127.0.0.1", 0))
        for each in (inside, outside, both):
            each.listen()
        port = outside.getsockname()[1]
        assert [found.rpartition(" at ")[2] for found in listening.open_to_others()] == [f"0.0.0.0:{port}"]
        with pytest.warns(WalkbackWarning, match=rf"cannot be bound to 127\.0\.0\.1 .*0\.0\.0\.0:{port}"):
            ray_connection.tell_of_open_sockets()


@pytest.mark.slow
def test_a_run_that_fails_by_itself_is_told_once_and_the_rest_goes_on(cluster, tmp_path):
    store, events = open_store(tmp_path / "runs"), []
    store.root.mkdir()
    broken, sound = tiny(epochs=1), tiny(epochs=1, seed=8)
    (store.root / broken.run_id).write_text("a file where a folder should be")
    RayCluster(cluster.address).execute([broken, sound], store, events.append)
    ended = {event.run_id: event.error for event in events if isinstance(event, Ended)}
    assert "cannot make" in ended[broken.run_id]
    assert ended[sound.run_id] == ""
    assert store.run(sound).finished
    assert not list(store.root.glob(".grid-*"))
    with pytest.raises(InputError, match=r"no node .* can hold a run that needs 1 CPUs and 0\.25 GPUs"):
        RayCluster(cluster.address, gpus_per_run=0.25).execute([sound], store, events.append)


def test_options_that_cannot_work_are_refused(monkeypatch):
    with pytest.raises(InputError, match="more than 0 CPUs"):
        executor_from(None, "local", 0.0)
    with pytest.raises(InputError, match="Leave out --workers"):
        executor_from(2, "local")
    with pytest.raises(InputError, match="Add --ray ADDRESS"):
        executor_from(None, None, None, 0.25)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingLibrary, match=r'pip install "walkback\[ray\]"'):
        executor_from(None, "local")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:99999"])
def test_a_cluster_that_is_not_there_is_named(address, tmp_path):
    with pytest.raises(RunError, match=f"no Ray cluster answers at '{address}'"):
        RayCluster(address).execute([tiny()], open_store(tmp_path), print)


@pytest.mark.parametrize(
    ("address", "environment", "file", "mode"),
    [
        ("head:6379", {}, True, "token"),
        ("head:6379", {}, False, None),
        ("head:6379", {"RAY_AUTH_TOKEN": "abc"}, False, "token"),
        ("head:6379", {"RAY_AUTH_MODE": "disabled"}, True, "disabled"),
        ("local", {}, True, None),
    ],
)
def test_a_token_that_is_there_is_sent_unless_something_else_was_asked_for(
    address, environment, file, mode, tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if file:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("abc")
    use_token(address)
    assert os.environ.get("RAY_AUTH_MODE") == mode
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)


def test_a_process_that_uses_ray_already_keeps_its_mode(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "abc")
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setitem(sys.modules, "ray", ray_connection)
    use_token("head:6379")
    assert "RAY_AUTH_MODE" not in os.environ
