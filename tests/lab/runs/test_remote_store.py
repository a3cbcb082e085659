"""Runs in an object store: the same as in a folder, whoever dies when; and leases, where there are no locks."""

from __future__ import annotations

import importlib
import json
import socket
import sys
import threading
import time

import pytest
from tiny_runs import InterruptAfter, lines_of, tiny, without_times

from walkback.cli.main import app
from walkback.errors import InputError, MissingLibrary, RunError, RunTaken, WalkbackWarning
from walkback.lab.grids.executors import Elsewhere, trained
from walkback.lab.present.networks import networks_in
from walkback.lab.runs import checkpoint, lease
from walkback.lab.runs.lease import Claim, Lease
from walkback.lab.runs.objects import Objects
from walkback.lab.runs.remote_store import RemoteRunStore
from walkback.lab.runs.store import RunState, RunStore, open_store
from walkback.lab.runs.train import train_or_resume


@pytest.fixture(params=["memory", "s3"])
def address(request, tmp_path):
    root = request.getfixturevalue("s3") if request.param == "s3" else "memory://bucket"
    return f"{root}/{tmp_path.name}/runs"


@pytest.fixture
def store(address, tmp_path):
    return RemoteRunStore(address, tmp_path / "archive")


@pytest.fixture
def whole(tmp_path):
    """The run without a break, in a folder."""
    return train_or_resume(tiny(epochs=3), RunStore(tmp_path / "whole"))


def again(store):
    """The store as another process on another machine sees it."""
    return RemoteRunStore(store.address, store.archive)


def interrupted(store, after):
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(tiny(epochs=3), store, InterruptAfter(after))


def test_a_run_goes_on_on_another_machine_and_ends_like_one_in_a_folder(store, whole):
    interrupted(store, 1)
    assert store.run(tiny(epochs=3)).state is RunState.INTERRUPTED
    elsewhere = again(store)
    run = train_or_resume(tiny(epochs=3), elsewhere)
    assert without_times(run.result()) == without_times(whole.result())
    first = lines_of(store.run(tiny(epochs=3)))
    # The first two epochs were not trained again: even their times are those that were measured then.
    assert [line["seconds"] for line in first] == [line["seconds"] for line in run.result()["trace"][:2]]
    one, other = checkpoint.newest(run.checkpoints), checkpoint.newest(whole.checkpoints)
    assert all(tensor.equal(other.tensors[name]) for name, tensor in one.tensors.items())


def test_what_is_in_the_store(store):
    run_id = train_or_resume(tiny(epochs=3), store).run_id
    keys = store.objects.keys(run_id)
    assert keys == [
        f"{run_id}/checkpoints/epoch-00003.safetensors",
        f"{run_id}/config.json",
        *(f"{run_id}/epochs/{epoch:05d}.json" for epoch in range(4)),
        f"{run_id}/result.json",
    ]


def test_a_line_without_its_checkpoint_and_a_damaged_checkpoint_are_passed_over(store, whole):
    interrupted(store, 2)
    run_id = tiny(epochs=3).run_id
    store.objects.write(f"{run_id}/epochs/00003.json", b'{"epoch":3,"accuracy":0.9,"learning_rate":1,"seconds":1}')
    store.objects.write(f"{run_id}/checkpoints/epoch-00002.safetensors", b"half a checkp")
    with pytest.warns(WalkbackWarning, match=r"epoch-00002\.safetensors is corrupt"):
        run = train_or_resume(tiny(epochs=3), again(store))
    assert without_times(run.result()) == without_times(whole.result())


def test_a_checkpoint_of_another_version_is_not_trained_over(store, monkeypatch):
    interrupted(store, 2)
    before = store.objects.keys("")
    monkeypatch.setattr(checkpoint, "VERSION", "3")
    with pytest.raises(RunError, match="of version 2, and this walkback reads 3"):
        train_or_resume(tiny(epochs=3), again(store))
    assert store.objects.keys("") == before


def test_a_key_that_leads_elsewhere_is_not_brought_here(store):
    train_or_resume(tiny(epochs=0), store)
    store.objects.write("aaaaaaaaaaa./config.json", b"{}")
    other = again(store)
    assert [run.run_id for run in other] == [tiny(epochs=0).run_id]
    assert not (other.root / "aaaaaaaaaaa.").exists()


def test_the_first_result_stays(store):
    config = tiny(epochs=1)
    run = train_or_resume(config, store)
    late = again(store).run(config)
    late.folder.mkdir(parents=True)
    late.finish({"date": "later"})
    assert json.loads(late.result_file.read_text()) == run.result()
    assert json.loads(store.objects.read(f"{config.run_id}/result.json")) == run.result()


def test_finished_runs_are_listed_found_and_kept(store, tmp_path):
    configs = [tiny(epochs=0, seed=seed) for seed in (1, 2)]
    for config in configs:
        train_or_resume(config, store)
    fresh = again(store)
    assert {run.run_id for run in fresh} == {config.run_id for config in configs}
    found = fresh.find(configs[0].run_id[:6])
    assert found.finished
    assert found.config == configs[0]
    fresh.keep(found)
    assert [path.stem for path in (tmp_path / "archive").iterdir()] == [configs[0].run_id]
    with pytest.raises(RunError, match=f"no run 'ffff' in {store.address}"):
        fresh.find("ffff")


def test_the_commands_take_an_address(s3, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = tiny(epochs=1)
    place = f"{s3}/{tmp_path.name}/commands"
    words = config.command.split()[1:]
    assert app([*words, "--runs", place]) == 0
    assert app(["lab", "runs", "--runs", place]) == 0
    assert config.run_id in capsys.readouterr().out
    monkeypatch.setenv("WALKBACK_RUNS", place)
    measured = app(["diagnose", config.run_id, "--tokens", "flatten"])
    assert measured in (0, 1)
    assert not (tmp_path / "runs").exists()


def test_an_unfinished_run_under_an_address_is_shown(store):
    interrupted(store, 1)
    (shown,) = networks_in([tiny(epochs=3).run_id], again(store))
    assert list(shown.positions) == [0, 1]


def test_an_object_that_is_gone_is_left_out_and_one_that_cannot_be_read_is_an_error(store, monkeypatch):
    objects = store.objects
    objects.write("a", b"1")
    objects.write("b", b"2")
    assert objects.read_all(["a", "gone", "b"]) == {"a": b"1", "b": b"2"}
    read = objects._files.cat

    def refused(places, **options):
        return read(places, **options) | {places[1]: PermissionError("denied")}

    monkeypatch.setattr(objects._files, "cat", refused)
    with pytest.raises(RunError, match="cannot read"):
        objects.read_all(["a", "b"])


@pytest.mark.parametrize("address", ["nonsense://place", "s3://", "s3:///"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(InputError, match=f"{address} is not an address of runs"):
        open_store(address)


def test_a_store_that_cannot_be_reached_is_told_as_that():
    with socket.socket() as closed:  # bound, and nobody listens
        closed.bind(("127.0.0.1", 0))
        address = f"ftp://127.0.0.1:{closed.getsockname()[1]}/runs"
        with pytest.raises(RunError, match=f"cannot open {address}: .*refused.* Is the address right"):
            open_store(address)


def test_addresses_that_cannot_work_are_refused(s3, tmp_path):
    with pytest.raises(RunError, match="cannot write s3://no-such-bucket"):
        train_or_resume(tiny(epochs=0), open_store("s3://no-such-bucket/runs"))
    assert type(open_store(f"file://{tmp_path}/runs")) is RunStore
    assert open_store(f"file://{tmp_path}/runs").root == tmp_path / "runs"


def test_a_store_whose_library_is_missing_says_how_to_install_it(monkeypatch):
    # The registry of fsspec keeps what it imported once.
    monkeypatch.setattr("fsspec.core.get_filesystem_class", lambda name: importlib.import_module("s3fs"))
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingLibrary, match=r'pip install "walkback\[s3\]"'):
        open_store("s3://bucket/runs")


def lease_on(address, claim=None):
    return Lease(Objects(address), "run/lease.json", "run x", claim or Claim())


def test_a_lease_keeps_others_out_and_is_let_go(address):
    with lease_on(address).held(0.4):
        assert lease.is_alive(Objects(address), "run/lease.json")
        with pytest.raises(RunError, match="run x is being trained by process"), lease_on(address).held(2.0):
            pass
    assert not lease.is_alive(Objects(address), "run/lease.json")
    with lease_on(address).held():
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b'{"renewed": "yesterday"}', b"[" * 100_000, b'{"a":' * 100_000,
        b'{"renewed": 1e99, "attempt": "x"}', b"\xff", b'{"renewed": 1, "x": ' + b"[" * 99 + b"]" * 99 + b"}",
    ],
    ids=lambda content: content[:20],
)  # fmt: skip
def test_what_is_no_lease_keeps_nobody_out(address, content):
    Objects(address).write("run/lease.json", content)
    with lease_on(address).held(0.4):
        assert lease.is_alive(Objects(address), "run/lease.json")


def test_a_lease_that_its_owner_stopped_writing_to_is_taken_over(address):
    dead = lease_on(address)
    dead._write(first=True)
    started = time.monotonic()
    with lease_on(address).held(0.4):
        assert time.monotonic() - started > 0.4


def set_clock(monkeypatch, ahead):
    genuine = time.time
    monkeypatch.setattr(lease.time, "time", lambda: genuine() + ahead)


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_a_clock_that_jumps_takes_no_run_from_a_living_owner(address, ahead, monkeypatch):
    owner = lease_on(address)
    owner._write(first=True)
    done = threading.Event()

    def write_on():  # by the owner's own clock
        while not done.wait(0.1):
            content = lease.read(owner.objects, owner.key)
            owner.objects.write(owner.key, json.dumps(content | {"renewed": content["renewed"] + 0.1}).encode())

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        set_clock(monkeypatch, ahead)
        with pytest.raises(RunTaken, match="run x is being trained by process"), lease_on(address).held(1.0):
            pass
    finally:
        done.set()
        writer.join()
    assert lease.read(owner.objects, owner.key)["token"] == owner.token


@pytest.mark.parametrize("ahead", [-7200.0, 7200.0])
def test_a_dead_owners_lease_is_not_waited_for_until_the_clocks_agree(address, ahead, monkeypatch):
    lease_on(address)._write(first=True)
    set_clock(monkeypatch, ahead)
    assert not lease.is_alive(Objects(address), "run/lease.json")
    started = time.monotonic()
    with lease_on(address).held(0.6):
        assert time.monotonic() - started > 0.25


def test_a_later_attempt_of_one_grid_does_not_wait_and_the_earlier_one_notices(address):
    first, second = lease_on(address, Claim("grid", 1)), lease_on(address, Claim("grid", 2))
    with first.held(0.4):
        started = time.monotonic()
        with second.held():
            assert time.monotonic() - started < 5
            assert first.lost.wait(10)
            with pytest.raises(RunError, match="taken over by another process"):
                first.check()
            second.check()
    assert not lease.is_alive(Objects(address), "run/lease.json")


def test_a_run_that_others_train_is_left_to_them_and_an_earlier_attempt_is_not_waited_for(address, tmp_path):
    def run(claim):
        return RemoteRunStore(address, tmp_path / "archive", claim).run(tiny())

    first = run(Claim("grid", 1))
    assert not first.taken
    held = Lease(Objects(address), f"{first.run_id}/lease.json", "run x", Claim("grid", 1))
    with held.held():
        assert run(Claim()).taken
        assert not run(Claim("grid", 2)).taken
        stranger = RemoteRunStore(address, tmp_path / "archive")
        assert trained(tiny().to_dict(), stranger, print) == Elsewhere(first.run_id)
    assert not run(Claim()).taken


def test_of_two_that_ask_at_once_at_most_one_trains(address):
    training, most, errors = [], [], []

    def ask():
        try:
            with lease_on(address).held(3.0):
                training.append(1)
                most.append(len(training))
                time.sleep(0.2)
                training.pop()
        except RunError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
