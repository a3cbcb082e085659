"""bf16 and fp16 in the passes of a step: outcomes beside fp32's, what is refused, and what is on record.

bf16 is computed here in earnest, by autocast on the CPU. fp16 is for CUDA alone; its scaling of gradients is tried on
the CPU beneath that refusal.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from tiny_runs import DIGITS, InterruptAfter, assert_same_run, pairs, tiny

from walkback.errors import InputError
from walkback.lab.registry import METHODS
from walkback.lab.runs import checkpoint
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.baselines import finished_report, matched_baseline
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.ids import run_id_of
from walkback.lab.runs.mixed import FIRST_SCALE, Mixed, refuse_precision
from walkback.lab.runs.store import RunStore
from walkback.lab.runs.train import train_or_resume
from walkback.lab.zoo.datasets import Batches
from walkback.lab.zoo.precision import backward, scaled, scaled_by, scales_gradients

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
FP32_ONLY = {"ep", "pc", "pepita"}
TRAINED = [method for method in METHODS.own if method not in FP32_ONLY]


def gradients(config, inputs, targets, mixed=None):
    """What the first step of a run adds to `.grad`, by name."""
    run = assemble(config, dataset_of(config).spec)
    torch.manual_seed(0)
    accumulate = run.method.accumulate if mixed is None else partial(mixed.accumulate, run.method)
    accumulate(inputs, targets)
    return {name: p.grad.double() for name, p in run.trained.items() if p.grad is not None}


def part_of(name):
    """Stem, blocks, head, or the method."""
    owner, module = name.split(".")[:2]
    return owner if owner == "method" else module


def joined(gradients, part):
    return torch.cat([gradient.flatten() for name, gradient in gradients.items() if part_of(name) == part])


def first_batch(config, count=64):
    return next(Batches(dataset_of(config).train, count, seed=1, shuffle=True).epoch(0))


def cosine(one, other):
    return float(torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0))


@pytest.mark.parametrize(("name", "architecture"), [pair for pair in pairs() if pair[0] in TRAINED])
def test_a_step_in_bf16_points_where_one_in_fp32_does(name, architecture):
    """Of stem, blocks, head and method each."""
    config = tiny(name, architecture)
    inputs, targets = first_batch(config)
    full, half = gradients(config, inputs, targets), gradients(config, inputs, targets, Mixed("bf16", CPU))
    assert half.keys() == full.keys()
    assert all(gradient.isfinite().all() for gradient in half.values())
    for part in {part_of(name) for name in full}:
        assert cosine(joined(full, part), joined(half, part)) > 0.97, part


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_in_bf16_ends_where_one_in_fp32_does(name, tmp_path):
    """Another run by its id and its command, with the same outcome as far as eight bits tell."""
    options = {"architecture_options": {"width": 16, "depth": 2}, "epochs": 3, "batch_size": 128}
    runs = {p: train_or_resume(tiny(name, precision=p, **options), RunStore(tmp_path)) for p in ("fp32", "bf16")}
    full, half = (runs[p].result() for p in ("fp32", "bf16"))
    assert half["id"] != full["id"]
    assert "--precision bf16" in half["command"]
    assert "bf16" in half["name"]
    assert half["trained_on"] == [{"device": "cpu", "precision": "bf16"}]
    assert abs(half["accuracy"] - full["accuracy"]) < 0.1
    assert half["trace"][-1]["loss"] == pytest.approx(full["trace"][-1]["loss"], rel=0.1)
    assert half["trace"][-1]["loss"] != full["trace"][-1]["loss"]
    for figure in ("residual_norms", "bp_grad_norms"):
        if full["report"].get(figure):
            assert half["report"][figure] == pytest.approx(full["report"][figure], rel=0.5)
    assert "computed in bf16" in half["report"]["notes"]
    assert half["report"]["provenance"]["precision"] == "float32"


def test_weights_and_what_is_measured_stay_in_fp32(tmp_path):
    run = train_or_resume(tiny("bp", precision="bf16"), RunStore(tmp_path))
    tensors = checkpoint.newest(run.checkpoints).tensors
    kinds = {tensor.dtype for name, tensor in tensors.items() if name.startswith(("model/", "optimizer/"))}
    assert kinds == {torch.float32}


@pytest.mark.parametrize("name", ["credit_bridge", "dtp", "weight_mirror"])
def test_a_run_in_bf16_resumes_to_the_bit(name, tmp_path):
    config = tiny(name, precision="bf16", epochs=3)
    whole, cut = RunStore(tmp_path / "whole"), RunStore(tmp_path / "cut")
    train_or_resume(config, whole)
    with pytest.raises(KeyboardInterrupt):
        train_or_resume(config, cut, InterruptAfter(1))
    train_or_resume(config, cut)
    assert_same_run(whole.run(config), cut.run(config))


@pytest.mark.parametrize("name", sorted(FP32_ONLY))
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_what_learns_from_small_differences_is_refused_and_leaves_nothing(name, precision, tmp_path):
    with pytest.raises(InputError, match=f"method {name} is trained in fp32 alone"):
        train_or_resume(tiny(name, precision=precision), RunStore(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_that_they_are_refused_rightly():
    """What the refusal spares: in bf16 a step of these points elsewhere on some network."""
    for name in FP32_ONLY:
        lowest = 1.0
        for architecture in ("resmlp", "small_resnet", "small_cnn"):
            config = tiny(name, architecture)
            inputs, targets = first_batch(config)
            full, half = gradients(config, inputs, targets), gradients(config, inputs, targets, Mixed("bf16", CPU))
            lowest = min(lowest, cosine(joined(full, "blocks"), joined(half, "blocks")))
        assert lowest < 0.97, name


def test_fp16_is_for_cuda_and_for_methods_that_scale_what_they_add():
    with pytest.raises(InputError, match="expected a CUDA device"):
        refuse_precision(tiny("bp", precision="fp16"), CPU)
    with pytest.raises(InputError, match="expected a CUDA device"):
        refuse_precision(tiny("bp", precision="fp16"), torch.device("mps"))
    for name in TRAINED:
        refuse_precision(tiny(name, precision="fp16"), CUDA)


def test_a_method_of_others_that_does_not_scale_is_refused_in_fp16(monkeypatch):
    kind = METHODS.load("dfa")

    def own(self, inputs, targets):
        return kind.__mro__[1].accumulate(self, inputs, targets)

    monkeypatch.setattr(kind, "accumulate", own)
    refuse_precision(tiny("dfa", precision="bf16"), CUDA)
    with pytest.raises(InputError, match="does not say that it scales"):
        refuse_precision(tiny("dfa", precision="fp16"), CUDA)
    monkeypatch.setattr(kind, "accumulate", scales_gradients(own))
    refuse_precision(tiny("dfa", precision="fp16"), CUDA)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("options", [{}, {"penalty": 0.01}])
def test_every_gradient_is_scaled_by_as_much(name, options):
    """`scales_gradients` is true of each: with a scale of 8 all that a step adds is eight times what it was."""
    config = tiny(name, method_options=options)
    inputs, targets = first_batch(config)
    plain = gradients(config, inputs, targets)
    with scaled_by(torch.tensor(8.0)):
        eightfold = gradients(config, inputs, targets)
    assert eightfold.keys() == plain.keys()
    for key, gradient in plain.items():
        assert torch.allclose(eightfold[key], 8 * gradient, rtol=1e-4, atol=1e-9), key


def test_weights_that_are_perturbed_are_scaled_too():
    config = tiny("forward_gradient", method_options={"perturb": "weights"})
    inputs, targets = first_batch(config)
    plain = gradients(config, inputs, targets)
    with scaled_by(torch.tensor(8.0)):
        eightfold = gradients(config, inputs, targets)
    assert all(torch.allclose(eightfold[key], 8 * plain[key], rtol=1e-4) for key in plain)


def test_steps_in_fp16_move_weights_as_those_in_fp32():
    """Beneath the refusal: scaled on the way back, divided before the optimizer, skipped where it overflows."""
    config = tiny("dfa", optimizer="sgd", learning_rate=0.1)
    inputs, targets = first_batch(config)
    runs = [assemble(config, DIGITS) for _ in range(2)]
    before = {name: p.detach().clone() for name, p in runs[0].trained.items()}
    mixed = Mixed("fp16", CPU)
    runs[0].step(inputs, targets)
    mixed.accumulate(runs[1].method, inputs, targets)
    mixed.step(runs[1].optimizer)
    for name, start in before.items():
        moved, half = (run.trained[name].detach() - start for run in runs)
        assert torch.allclose(half, moved, rtol=0.02, atol=2e-3 * float(moved.abs().max())), name
    assert float(mixed.scaler.get_scale()) == FIRST_SCALE
    runs[1].optimizer.zero_grad()
    now = {name: p.detach().clone() for name, p in runs[1].trained.items()}
    mixed.accumulate(runs[1].method, inputs * 1e30, targets)
    mixed.step(runs[1].optimizer)
    assert all(p.equal(now[name]) for name, p in runs[1].trained.items())
    assert float(mixed.scaler.get_scale()) == FIRST_SCALE / 2
    again = Mixed("fp16", CPU)
    again.restore(mixed.tensors())
    assert again.tensors().keys() == mixed.tensors().keys()
    assert all(value.equal(mixed.tensors()[name]) for name, value in again.tensors().items())


def test_outside_a_scale_gradients_are_as_they_are():
    leaf = torch.ones(3, requires_grad=True)
    backward([leaf * 2], [torch.tensor([1.0, 2.0, 3.0])])
    assert leaf.grad.tolist() == [2.0, 4.0, 6.0]
    assert scaled(leaf.grad) is leaf.grad


def test_fp32_keeps_every_id_and_another_precision_is_another_run():
    recorded = json.loads((Path(__file__).parents[3] / "results/runs/ad17773fbfe5.json").read_text())
    assert "precision" not in recorded["config"]
    config = RunConfig.from_dict(recorded["config"])
    assert config.run_id == run_id_of(recorded["config"]) == run_id_of(config.to_dict()) == "ad17773fbfe5"
    half = config.changed(precision="bf16")
    assert half.run_id == run_id_of(half.to_dict()) != config.run_id
    with pytest.raises(InputError, match="precision"):
        config.changed(precision="fp8")


def test_the_baseline_of_a_run_has_its_precision(tmp_path):
    config = tiny("bp", precision="bf16")
    assert matched_baseline(config).precision == "bf16"
    store = RunStore(tmp_path)
    for each in (config, matched_baseline(config)):
        train_or_resume(each, store)
    assert finished_report(store, config).frozen_baseline_acc is not None
