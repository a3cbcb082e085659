"""diagnose in a job of several processes: one report, that of one process on the same samples."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ranks
import torch

import walkback
from walkback.errors import InputError
from walkback.protocol import distributed
from walkback.protocol.distributed import Measured, _agreed, _merged_parts
from walkback.protocol.fidelity import Fidelity
from walkback.protocol.finite_differences import DIRECTIONS
from walkback.protocol.losses import Answers

SCRIPT = Path(ranks.__file__)


SAMPLES = 601
SCENES = ("dealt_out", "one_fails", "uneven", "sharded", "one_alone", "after_one_alone")


def run(folder, samples, processes, scenes):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"]
    done = subprocess.run(
        [*command, str(SCRIPT), str(samples), str(folder), *scenes],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        scene: [json.loads((folder / f"{scene}-{rank}.json").read_text()) for rank in range(processes)]
        for scene in scenes
    }


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """What each of two ranks got in each scene, all in one job."""
    return run(tmp_path_factory.mktemp("job"), SAMPLES, 2, SCENES)


def figures(value, place=""):
    """Every number in a report by where it stands."""
    if isinstance(value, dict):
        return {k: v for key, entry in value.items() for k, v in figures(entry, f"{place}.{key}").items()}
    if isinstance(value, list):
        return {k: v for i, entry in enumerate(value) for k, v in figures(entry, f"{place}[{i}]").items()}
    return {place: value}


@pytest.mark.slow
def test_three_ranks_too(tmp_path):
    same_as_one_process(run(tmp_path, 602, 3, ["dealt_out"])["dealt_out"], 602)


def test_the_report_is_that_of_one_process_on_every_rank(job):
    same_as_one_process(job["dealt_out"], SAMPLES)


def same_as_one_process(found, samples):
    network, x, y = ranks.everything(samples)
    expected = walkback.diagnose(network, ranks.batches(x, y, 128), **ranks.settings()).to_dict()
    assert all(report == found[0] for report in found)
    assert found[0]["provenance"].pop("ranks") == str(len(found))
    got, wanted = figures(found[0]), figures(expected)
    # The check of the reference takes a few samples of each rank, and so others than one process alone does.
    assert found[0]["reference_check"]["passed"]
    assert found[0]["reference_check"]["directions"] == DIRECTIONS * len(found)
    got, wanted = ({k: v for k, v in f.items() if not k.startswith(".reference_check")} for f in (got, wanted))
    assert got.keys() == wanted.keys()
    for place, value in wanted.items():
        if isinstance(value, float):
            assert got[place] == pytest.approx(value, rel=1e-9, abs=1e-12), place
        else:
            assert got[place] == value, place
    assert expected["groups"] == 4
    assert expected["alignment"]["null"]["draws"] == 4


def test_an_error_on_one_rank_is_an_error_on_all(job):
    first, second = job["one_fails"]
    assert "rank 1 could not measure: BatchError: eval_batches is empty" in first["error"]
    assert second["error"].startswith("BatchError: eval_batches is empty")


def test_ranks_with_more_samples_than_others_are_named(job):
    first, second = job["uneven"]
    assert first == second
    assert first["samples"] == 300
    assert first["groups"] == 1
    assert "the ranks brought 100, 200 samples" in " ".join(first["warnings"])


def test_one_rank_alone_is_asked_for_or_is_told_after_a_while(job):
    first, second = job["one_alone"]
    assert first["samples"] == SAMPLES
    assert "rank 0 of 2 did not call walkback.diagnose within" in second["error"]
    assert "gather=False" in second["error"]
    same_as_one_process(job["after_one_alone"], SAMPLES)


def test_the_fidelity_of_all_ranks_weighs_each_by_its_samples():
    known = [Fidelity((1.0, 0.5), samples=32), Fidelity((0.0, 0.5), samples=8)]
    assert distributed._mean_fidelity(known) == Fidelity((0.8, 0.5), samples=40)
    assert distributed._mean_fidelity([*known, Fidelity(None, "no fp64 pass")]).why_not == "no fp64 pass"


def test_a_sharded_model_is_refused_in_a_sentence(job):
    for result in job["sharded"]:
        assert "the model is sharded with FSDP" in result["error"]
        assert "Gather it first" in result["error"]


def test_gathering_needs_a_job():
    network, x, y = ranks.everything(10)
    with pytest.raises(InputError, match="gather=True needs a process group"):
        walkback.diagnose(network, [(x, y)], gather=True)


@pytest.mark.parametrize("ranks_", [1, 2, 3, 5, 200])
def test_samples_are_numbered_as_a_distributed_sampler_deals_them(ranks_):
    total = 1000
    sampler = torch.utils.data.DistributedSampler
    for rank in range(ranks_):
        share = list(sampler(range(total), ranks_, rank, shuffle=False, drop_last=True))
        token = distributed._DEALT.set((rank, ranks_))
        try:
            assert [distributed.number_of(i) for i in range(len(share))] == share
            for number in (0, 1, 127, 128, 129, 640):
                first = distributed.first_from(number)
                assert distributed.number_of(first) >= number
                assert first == 0 or distributed.number_of(first - 1) < number
        finally:
            distributed._DEALT.reset(token)


@pytest.fixture
def meeting_place(monkeypatch):
    """A store in which rank 0 of 2 meets, with a rank 1 that the test plays."""
    store = torch.distributed.HashStore()
    monkeypatch.setattr(distributed, "_store", lambda: store)
    monkeypatch.setattr(distributed.Ranks, "_meetings", 0)
    monkeypatch.setattr(distributed, "MEETING_MINUTES", 0.001)
    return store


def test_a_rank_that_gives_up_as_the_others_met_goes_on_with_them(meeting_place):
    meeting_place.set("walkback/0/outcome", "met")
    distributed.Ranks(0, 2)._meet()
    assert distributed.Ranks._meetings == 1


def test_a_rank_that_comes_as_the_others_gave_up_waits_at_the_next_meeting(meeting_place):
    meeting_place.set("walkback/0/1", "here")
    meeting_place.set("walkback/0/outcome", "given up")
    meeting_place.set("walkback/1/1", "here")
    distributed.Ranks(0, 2)._meet()
    assert meeting_place.get("walkback/1/outcome") == b"met"


def test_a_rank_that_waits_in_vain_says_for_whom_and_is_at_the_next_meeting_thereafter(meeting_place):
    with pytest.raises(InputError, match="rank 1 of 2 did not call"):
        distributed.Ranks(0, 2)._meet()
    assert meeting_place.get("walkback/0/outcome") == b"given up"
    assert distributed.Ranks._meetings == 1


def test_a_store_that_cannot_compare_is_no_reason_to_wait_for_ever(meeting_place, monkeypatch):
    def cannot(*_):
        raise RuntimeError("not implemented")

    monkeypatch.setattr(torch.distributed.HashStore, "compare_set", cannot)
    meeting_place.set("walkback/0/1", "here")
    distributed.Ranks(0, 2)._meet()
    with pytest.raises(InputError, match="rank 1 of 2 did not call"):
        distributed.Ranks(0, 2)._meet()


def test_the_check_of_all_ranks_is_as_good_as_the_worst():
    def check(passed, candidate="autograd", error=1e-9, **fields):
        return walkback.ReferenceCheck(candidate=candidate, passed=passed, error=error, directions=6, **fields)

    good = _agreed([check(True), check(True, error=1e-7, kinks_discarded=2)])
    assert (good.passed, good.error, good.directions, good.kinks_discarded) == (True, 1e-7, 12, 2)
    bad = _agreed([check(True), check(None, reason="why"), check(False, reason="where")])
    assert (bad.passed, bad.reason) == (False, "where")
    mixed = _agreed([check(True), check(True, "seen_through")])
    assert mixed.passed is None
    assert "different gradients for the true one: autograd, seen_through" in mixed.reason


def test_diagnostics_that_one_rank_could_not_measure_are_left_out():
    def measured(**parts):
        return Measured(1, (), "", parts, Fidelity(None), walkback.ReferenceCheck(candidate="autograd"), None)

    first, second = Answers(1, 2, 2), Answers(2, 3, 3)
    merged = _merged_parts([measured(frozen_margin=first, gradient_floor="b"), measured(frozen_margin=second)])
    assert merged == {"frozen_margin": first.plus(second)}
