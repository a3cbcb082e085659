"""Which device a word means, what is set and recorded there, and that a run goes to the device that it was given."""

from __future__ import annotations

import json

import pytest
import torch
from tiny_runs import InterruptAfter, tiny

from walkback.errors import InputError
from walkback.lab.grids import executors, ray_tasks
from walkback.lab.grids.executors import LocalProcesses
from walkback.lab.grids.ray_cluster import RayCluster
from walkback.lab.runs import checkpoint, hardware, train
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.hardware import as_reproducible, checked_word, device_of
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume


@pytest.fixture
def gpus(monkeypatch):
    """Let torch see so many GPUs; nothing is computed on them."""

    def there(count):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)

    return there


def test_auto_takes_what_is_there(gpus, monkeypatch):
    gpus(0)
    assert device_of("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert device_of("auto") == device_of("mps") == torch.device("mps")
    gpus(2)
    assert device_of("auto") == device_of("cuda") == torch.device("cuda", 0)
    assert device_of("cuda:1") == torch.device("cuda", 1)
    assert device_of("cpu") == torch.device("cpu")


def test_workers_of_one_machine_take_its_gpus_in_turn(gpus):
    gpus(2)
    assert [device_of("auto", worker).index for worker in range(4)] == [0, 1, 0, 1]
    assert device_of("cuda:0", 1).index == 0


@pytest.mark.parametrize("word", ["gpu", "cuda:", "cuda:x", "CUDA", "cpu:0", "tpu", "", "cuda:1234"])
def test_other_words_are_refused(word):
    with pytest.raises(InputError, match="expected auto, cpu, cuda"):
        checked_word(word)


@pytest.mark.parametrize(("word", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2)])
def test_a_device_that_is_not_there_is_refused(gpus, word, count):
    gpus(count)
    with pytest.raises(InputError, match="--device auto"):
        device_of(word)


def test_on_cuda_sums_have_one_order_and_fp32_is_fp32_and_all_is_put_back():
    """The settings are torch's own, which can be made without a GPU."""

    def settings():
        cuda, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        return (
            cuda.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic,
            torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled(),
        )  # fmt: skip

    before = settings()
    with as_reproducible(torch.device("cuda")):
        assert settings() == (False, False, False, True, True, True)
    assert settings() == before
    with as_reproducible(torch.device("cpu")):
        assert settings() == before


def test_what_is_recorded_of_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    with as_reproducible(torch.device("cuda")):
        told = hardware.hardware(torch.device("cuda", 1), "bf16")
    assert told["device"] == "cuda"
    assert told["name"] == "a GPU"
    assert (told["precision"], told["tf32"], told["deterministic_algorithms"]) == ("bf16", False, True)
    assert json.loads(json.dumps(told)) == told


def test_a_result_and_its_checkpoint_say_what_trained_the_run(tmp_path):
    config, store = tiny(epochs=1), RunStore(tmp_path)
    run = train_or_resume(config, store)
    assert run.result()["trained_on"] == [{"device": "cpu", "precision": "fp32"}]
    assert checkpoint.newest(run.checkpoints).trained_on == ({"device": "cpu", "precision": "fp32"},)


def test_a_run_that_goes_on_elsewhere_names_both(tmp_path, monkeypatch):
    config, store = tiny(epochs=2), RunStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(1))
    elsewhere = {"device": "cuda", "precision": "fp32", "name": "a GPU"}
    monkeypatch.setattr(train, "hardware", lambda device, precision: elsewhere)
    run = train_or_resume(config, store)
    assert run.result()["trained_on"] == [{"device": "cpu", "precision": "fp32"}, elsewhere]
    assert store.run(config).result()["id"] == config.run_id


def test_a_checkpoint_of_a_gpu_can_be_gone_on_from_without_one(tmp_path):
    """Its own generator is left out; the optimizer's state goes to where the weights are."""
    config = tiny("dfa")
    run = assemble(config, dataset_of(config).spec)
    inputs, targets = next(train.Batches(dataset_of(config).train, 64).epoch(0))
    run.step(inputs, targets)
    path = checkpoint.save(tmp_path, config, 1, run)
    found = checkpoint.load(path)
    tensors = dict(found.tensors) | {"random/cuda": torch.zeros(16, dtype=torch.uint8)}
    tensors["random/cuda_0"] = torch.zeros(16, dtype=torch.uint8)  # as written before there was a choice
    other = assemble(config, dataset_of(config).spec)
    checkpoint.Checkpoint(path, config, 1, tensors, found.random_words).restore(other)
    assert all(p.equal(run.trained[name]) for name, p in other.trained.items())
    assert {v.device.type for state in other.optimizer.state.values() for v in state.values()} == {"cpu"}


def test_where_there_is_no_fp64_a_copy_is_measured_on_the_cpu():
    config = tiny("credit_bridge")
    run = assemble(config, dataset_of(config).spec)
    assert run.copied_to(torch.device("cpu")) is run
    copied = run.copied_to(torch.device("meta"))
    assert copied.method.model is copied.model
    assert copied.device == torch.device("meta")
    assert {t.device.type for t in [*copied.model.state_dict().values(), *copied.method.state_dict().values()]} == {
        "meta"
    }
    assert run.device == torch.device("cpu")
    assert run.method.model is run.model


def test_workers_hear_which_device_they_are_to_use(gpus, monkeypatch, tmp_path):
    """What a worker is told reaches the training; a word that is none is refused before any starts."""
    gpus(2)
    taken = []
    monkeypatch.setattr(train, "train_or_resume", lambda config, store, progress, device: taken.append(device))
    for number in range(2):
        executors.trained(tiny().to_dict(), RunStore(tmp_path), lambda event: None, device="auto", number=number)
    assert taken == [torch.device("cuda", 0), torch.device("cuda", 1)]
    with pytest.raises(InputError, match="expected auto"):
        LocalProcesses(device="gpu")
    gpus(0)
    with pytest.raises(InputError, match="torch sees"):
        LocalProcesses(device="cuda").refuse([])
    with pytest.raises(InputError, match="fp32 alone"):
        LocalProcesses(device="cpu").refuse([tiny("bp", precision="bf16"), tiny("ep", precision="bf16")])


def test_a_ray_run_takes_the_gpu_that_it_was_given(monkeypatch):
    import ray

    class Context:
        def __init__(self, ids):
            self.ids = ids

        def get_accelerator_ids(self):
            return {"GPU": self.ids}

    for ids, device in ((["1"], "cuda"), ([], "cpu")):
        monkeypatch.setattr(ray, "get_runtime_context", lambda ids=ids: Context(ids))
        assert ray_tasks._given("auto") == device
        assert ray_tasks._given("cpu") == "cpu"
    with pytest.raises(InputError, match="Ray that hands them out"):
        RayCluster("local", device="cuda:1", gpus_per_run=1)
    with pytest.raises(InputError, match="--gpus-per-run"):
        RayCluster("local", device="cuda")
    cluster = RayCluster("local", gpus_per_run=0.5)
    cluster.refuse([tiny("bp", precision="fp16")])
    with pytest.raises(InputError, match="CUDA"):
        RayCluster("local").refuse([tiny("bp", precision="fp16")])
