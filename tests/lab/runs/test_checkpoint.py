from __future__ import annotations

import json
import pickle

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_runs import InterruptAfter, assert_same_run, tiny

from walkback.errors import RunError, WalkbackError
from walkback.lab.runs import checkpoint, train
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume


class Malicious:
    """Unpickling this writes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


@pytest.fixture
def interrupted(tmp_path):
    config, store = tiny("state_bridge", epochs=3), RunStore(tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(2))
    return config, store


def newest_file(config, store):
    return checkpoint.stored(store.run(config).checkpoints)[0]


def test_the_last_two_are_kept_and_one_when_the_run_is_over(interrupted):
    config, store = interrupted
    folder = store.run(config).checkpoints
    assert [path.name for path in checkpoint.stored(folder)] == ["epoch-00002.safetensors", "epoch-00001.safetensors"]
    train_or_resume(config, store)
    assert [path.name for path in folder.iterdir()] == ["epoch-00003.safetensors"]


def test_it_holds_model_feedback_optimizer_random_states_and_config(interrupted):
    config, store = interrupted
    saved = checkpoint.load(newest_file(config, store))
    assert saved.config == config
    assert saved.epoch == 2
    assert any(name.startswith("predictor.") for name in saved.part("method"))
    assert {name.rpartition("/")[2] for name in saved.part("optimizer")} == {"step", "exp_avg", "exp_avg_sq"}
    assert saved.part("random")["cpu"].dtype == torch.uint8


@pytest.mark.parametrize("damage", ["cut short", "empty", "one byte"])
def test_a_damaged_newest_one_is_named_and_the_one_before_is_used(interrupted, tmp_path, damage):
    config, store = interrupted
    path = newest_file(config, store)
    content = bytearray(path.read_bytes())
    if damage == "one byte":
        content[-100] ^= 1
    path.write_bytes({"cut short": content[: len(content) // 2], "empty": b"", "one byte": content}[damage])
    with pytest.warns(UserWarning, match=r"epoch-00002\.safetensors.*corrupt"):
        resumed = train_or_resume(config, store)
    assert_same_run(resumed, train_or_resume(config, RunStore(tmp_path / "whole")))


def test_with_all_of_them_damaged_training_starts_anew(interrupted, tmp_path):
    config, store = interrupted
    for path in checkpoint.stored(store.run(config).checkpoints):
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="corrupt"):
        resumed = train_or_resume(config, store)
    assert_same_run(resumed, train_or_resume(config, RunStore(tmp_path / "whole")))


def test_a_run_that_starts_anew_keeps_its_own_checkpoints(interrupted):
    config, store = interrupted
    run = store.run(config)
    for path in checkpoint.stored(run.checkpoints):
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="corrupt"), pytest.raises(KeyboardInterrupt):
        train_or_resume(config, store, InterruptAfter(1))
    assert checkpoint.newest(run.checkpoints).epoch == 1


def test_a_checkpoint_knows_which_code_trained_it(interrupted, monkeypatch):
    config, store = interrupted
    monkeypatch.setattr(train, "commit", lambda: "another")
    first = checkpoint.newest(store.run(config).checkpoints).commits
    assert train_or_resume(config, store).result()["commit"] == ", ".join([*first, "another"])


@pytest.mark.parametrize("name", ["evil.pt", "evil.safetensors"])
@pytest.mark.parametrize("way", ["torch.save", "pickle"])
def test_a_pickle_is_refused_and_not_executed(tmp_path, name, way):
    sentinel, path = tmp_path / "executed", tmp_path / name
    if way == "pickle":
        path.write_bytes(pickle.dumps(Malicious(sentinel)))
    else:
        torch.save(Malicious(sentinel), path)
    with pytest.raises(RunError, match="pickle"):
        checkpoint.load(path)
    assert not sentinel.exists()


def test_a_header_whose_length_begins_as_a_pickle_does_is_still_a_checkpoint(interrupted):
    path = newest_file(*interrupted)
    with safe_open(path, framework="pt") as file:
        header, tensors = dict(file.metadata()), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    del header["digest"]
    for padding in range(0, 512, 8):
        padded = header | {"random": header["random"] + " " * padding}
        save_file(tensors, path, padded | {"digest": checkpoint.digest(tensors, padded)})
        assert checkpoint.load(path).epoch == 2
        if path.read_bytes()[0] == 0x80:
            break
    else:
        pytest.fail("no length began with 0x80")


def test_what_a_kill_left_half_written_is_cleared_away(interrupted):
    config, store = interrupted
    folder = store.run(config).checkpoints
    (folder / ".epoch-00003.safetensors.x1y2").write_bytes(b"half")
    train_or_resume(config, store)
    assert [path.name for path in folder.iterdir()] == ["epoch-00003.safetensors"]


def test_a_pickle_in_the_place_of_a_checkpoint_is_passed_over(interrupted, tmp_path):
    config, store = interrupted
    sentinel = tmp_path / "executed"
    newest_file(config, store).write_bytes(pickle.dumps(Malicious(sentinel)))
    with pytest.warns(UserWarning, match="pickle"):
        train_or_resume(config, store)
    assert not sentinel.exists()


def test_other_safetensors_files_and_missing_ones_are_refused(tmp_path):
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(RunError, match="not a walkback checkpoint"):
        checkpoint.load(tmp_path / "other.safetensors")
    with pytest.raises(RunError, match="cannot read"):
        checkpoint.load(tmp_path / "missing.safetensors")


def test_a_checkpoint_of_another_run_in_the_folder_is_refused(interrupted):
    config, store = interrupted
    other = tiny("state_bridge", epochs=3, seed=8)
    run = store.open(other)
    run.checkpoints.mkdir()
    path = newest_file(config, store)
    (run.checkpoints / path.name).write_bytes(path.read_bytes())
    run.trace_file.write_text(store.run(config).trace_file.read_text())
    with pytest.raises(RunError, match=f"belongs to run {config.run_id}"):
        train_or_resume(other, store)


def test_a_failed_write_leaves_the_checkpoints_as_they_were(interrupted, monkeypatch):
    config, store = interrupted
    before = {path: path.read_bytes() for path in checkpoint.stored(store.run(config).checkpoints)}

    def full_disk(_handle):
        raise OSError(28, "No space left on device")

    save = checkpoint.save

    def save_to_full_disk(*arguments):
        with monkeypatch.context() as disk:  # full only now: the trace before it was written
            disk.setattr("os.fsync", full_disk)
            return save(*arguments)

    monkeypatch.setattr(checkpoint, "save", save_to_full_disk)
    with pytest.raises(WalkbackError, match="No space left"):
        train_or_resume(config, store)
    folder = store.run(config).checkpoints
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("why", ["version", "permission"])
def test_what_is_whole_and_cannot_be_read_is_not_trained_over(interrupted, monkeypatch, why):
    config, store = interrupted
    run = store.run(config)
    before = {path: path.read_bytes() for path in (*run.checkpoints.iterdir(), run.trace_file)}
    if why == "version":
        monkeypatch.setattr(checkpoint, "VERSION", "3")
    else:

        def forbidden(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(checkpoint, "safe_open", forbidden)
    with pytest.raises((RunError, PermissionError), match=r"of version 2, and this walkback reads 3|Permission denied"):
        train_or_resume(config, store)
    assert {path: path.read_bytes() for path in (*run.checkpoints.iterdir(), run.trace_file)} == before


def signed_anew(path, header, tensors):
    """A checkpoint whose contents were changed, with the digest that they should have."""
    changed = {key: value for key, value in header.items() if key != "digest"}
    save_file(tensors, path, changed | {"digest": checkpoint.digest(tensors, changed)})


def contents(path):
    with safe_open(path, framework="pt") as file:
        return dict(file.metadata()), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize(
    ("field", "value"),
    [("epoch", "-1"), ("epoch", "two"), ("epoch", "1.5"), ("config", "{"), ("commits", "3"), ("random", None)],
)
def test_a_header_that_says_nothing_is_refused_though_its_digest_is_right(interrupted, field, value):
    path = newest_file(*interrupted)
    header, tensors = contents(path)
    header[field] = value
    signed_anew(path, {key: words for key, words in header.items() if words is not None}, tensors)
    with pytest.raises(RunError, match="does not say in its header what run and epoch"):
        checkpoint.load(path)


MOMENT = "/exp_avg"


def one(tensors, part):
    return next(key for key in tensors if part in key)


def below_zero(header, _tensors):
    words = json.loads(header["random"])
    words["numpy"][1][0] = -1
    header["random"] = json.dumps(words)


def no_moments(_header, tensors):
    for key in [key for key in tensors if key.startswith("optimizer/")]:
        del tensors[key]


MISFITS = {
    "optimizer of nothing": lambda _, tensors: tensors.update({"optimizer/model.nothing/step": torch.zeros(())}),
    "no random state": lambda _, tensors: tensors.pop("random/cpu"),
    "random words": lambda header, _: header.update(random='{"python": [3]}'),
    "a random number below zero": below_zero,
    "another shape": lambda _, tensors: tensors.update({one(tensors, "model/"): torch.zeros(3, 5, 7)}),
    "no moments": no_moments,
    "two numbers of steps": lambda _, tensors: tensors.update({one(tensors, "/step"): torch.ones(2)}),
    "a moment of another optimizer": lambda _, tensors: tensors.update(
        {(name := one(tensors, MOMENT)).replace(MOMENT, "/momentum_buffer"): tensors[name].clone()}
    ),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_does_not_fit_its_own_config_is_refused_and_left(interrupted, misfit):
    config, store = interrupted
    path = newest_file(config, store)
    header, tensors = contents(path)
    MISFITS[misfit](header, tensors)
    signed_anew(path, header, tensors)
    before = path.read_bytes()
    with pytest.raises(RunError, match="does not fit its own config"):
        train_or_resume(config, store)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _: torch.zeros(1), r"/exp_avg is torch.float32, \(1,\); expected torch.float32"),
        (lambda value: value.long(), "exp_avg is torch.int64"),
        (lambda value: value.double(), "exp_avg is torch.float64"),
        (lambda _: None, r"of m.* it holds \['exp_avg_sq', 'step'\], and adamw keeps \['exp_avg', 'exp_avg_sq'"),
    ],
    ids=["too short", "whole numbers", "too wide", "missing"],
)
def test_moments_that_a_fused_optimizer_would_read_beyond_are_refused(interrupted, change, said):
    config, store = interrupted
    path = newest_file(config, store)
    header, tensors = contents(path)
    changed = {key: change(value) if key.endswith(MOMENT) else value for key, value in tensors.items()}
    signed_anew(path, header, {key: value for key, value in changed.items() if value is not None})
    with pytest.raises(RunError, match=f"does not fit its own config.*{said}"):
        train_or_resume(config, store)


@pytest.mark.parametrize(("field", "value"), [("epoch", "5"), ("random", "[]"), ("config", "{}"), ("commits", '["x"]')])
def test_a_header_that_was_changed_is_damage_too(interrupted, field, value):
    path = newest_file(*interrupted)
    header, tensors = contents(path)
    save_file(tensors, path, header | {field: value})
    with pytest.raises(RunError, match="corrupt"):
        checkpoint.load(path)
    del header[field]
    save_file(tensors, path, header)
    with pytest.raises(RunError, match="corrupt"):
        checkpoint.load(path)
