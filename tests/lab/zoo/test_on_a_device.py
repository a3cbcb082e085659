"""Every method on every architecture on a device that is not the CPU: nothing of a step is on the CPU, or waits for it.

There is no GPU here. `meta` has no values, and shows where a tensor of the CPU takes part; the numbers of a second
device are compared in test_other_devices.py.
"""

from __future__ import annotations

import copy

import pytest
import torch
from zoo_networks import PAIRS, batch, small

from meta_device import NoHost
from walkback.lab.registry import METHODS
from walkback.lab.runs.assembly import FUSED
from walkback.lab.zoo import build_method
from walkback.lab.zoo.datasets import Batches, Preparation, Split, evaluation_batches
from walkback.lab.zoo.modes import evaluating
from walkback.protocol import functional_meter
from walkback.protocol.alignment import AlignmentMeter
from walkback.protocol.batches import Batch
from walkback.protocol.capture import capture, capture_stream
from walkback.protocol.folding import Folding
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.reduction import TokenReduction
from walkback.protocol.sites import Parts
from walkback.protocol.thresholds import DiagnosticThresholds
from walkback.protocol.untouched import untouched
from walkback.watch.training_pass import TrainingPass

META = torch.device("meta")
every_pair = pytest.mark.parametrize(("name", "architecture"), PAIRS)
VARIANTS = [
    ("bp", {"credit_norm": "per_sample"}),
    ("bp", {"penalty": 0.01}),
    ("dfa", {"credit_norm": "rms", "penalty": 0.01, "feedback_of": "block"}),
    ("state_bridge", {"context": "error", "target": "layer_norm"}),
    ("state_bridge", {"credit_from": "prediction", "target": "scaled"}),
    ("credit_bridge", {"warm_up": 0.0, "consistency_share": 0.5}),
    ("credit_bridge_vector", {"target": "raw"}),
    ("ep", {"update": "displacement", "relaxation": "simultaneous", "first_state": "free"}),
    ("ep", {"update": "displacement", "first_state": "clamped"}),
    ("sign_symmetry", {"variant": "brsf"}),
    ("sign_symmetry", {"variant": "frsf"}),
    ("weight_mirror", {"growth": "response", "response": "sigmoid"}),
    ("pc", {"inference": "errors"}),
    ("pc", {"learning": "incremental", "steps": 3}),
    ("dtp", {"feedback": "layerwise", "inverse": "tanh"}),
    ("local_loss", {"loss": "sim"}),
    ("forward_forward", {"prediction": "softmax", "peer_normalisation": 0.03}),
    ("pepita", {"penalty": 0.01}),
    ("forward_gradient", {"perturb": "weights"}),
    ("forward_gradient", {"loss": "local", "directions": 2}),
]


def on_meta(name, architecture, **options):
    model, (inputs, targets) = small(architecture, dtype=torch.float32), batch(16, dtype=torch.float32)
    model.to(META)
    method = build_method(name, model, torch.Generator().manual_seed(0), **options)
    return method, inputs.to(META), targets.to(META)


def assert_stays(name, architecture, **options):
    method, inputs, targets = on_meta(name, architecture, **options)
    with NoHost():
        for _ in range(method.phases + 1):
            result = method.accumulate(inputs, targets)
        method.after_step()
    assert result.loss.device == result.logits.device == META
    learning = [*method.model.parameters(), *method.parameters()]
    assert any(parameter.grad is not None for parameter in learning)
    assert all(parameter.grad.device == META for parameter in learning if parameter.grad is not None)


@every_pair
def test_a_step_has_nothing_of_the_cpu_in_it(name, architecture):
    assert_stays(name, architecture)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_nor_has_any_variant_of_a_method(name, options):
    assert_stays(name, "resmlp", **options)


def test_every_method_that_has_options_of_its_own_is_among_the_variants():
    plain = {"fa", "fa_block", "kp", "drtp", "sdfa", "mono_forward"}
    assert {name for name, _ in VARIANTS} | plain == set(METHODS.own)


@every_pair
def test_an_answer_to_a_test_sample_stays_there_too(name, architecture):
    method, inputs, _ = on_meta(name, architecture)
    with NoHost(), evaluating(method.model), torch.no_grad():
        assert method.predict(inputs).device == META


def chain_of(model, inputs, targets):
    with untouched(model):
        return chain_of_independent(model, Batch(inputs, targets), Parts(blocks=list(model.blocks)), True)


def waits_of_a_capture(name, architecture, samples):
    """How often it waits for a value, by place."""
    model, (inputs, targets) = small(architecture, dtype=torch.float32), batch(samples, dtype=torch.float32)
    chain = chain_of(model, *(tensor[:4] for tensor in (inputs, targets)))
    model.to(META)
    method = build_method(name, model, torch.Generator().manual_seed(0))
    given, mode = Batch(inputs.to(META), targets.to(META)), NoHost(answers=True)
    with mode, untouched(model):
        seen = capture(model, chain, given, None, TokenReduction.FLATTEN)
        folding = Folding(chain)
        folding.add(seen)
        folding.add(seen)
        capture_stream(model, chain, given, None, TokenReduction.FLATTEN)
        if method.has_credit:
            meter = AlignmentMeter.of(method, 0)
            meter.add(seen)
            assert meter.unavailable or meter.cosines[0].device == META
            functional_meter.tester_of(method, 8).keep(given, seen)
    return mode.waits


@every_pair
def test_a_capture_mixes_no_devices_and_waits_as_often_whatever_its_samples(name, architecture):
    """Norms, sums and cosines are taken on the device; what waits there does so for a batch, not for a sample."""
    few, many = (waits_of_a_capture(name, architecture, samples) for samples in (16, 48))
    assert few
    assert many == few


@pytest.mark.parametrize("architecture", ["resmlp", "small_cnn", "gpt"])
def test_what_a_monitor_reads_in_training_passes_stays_on_the_device(architecture):
    model, (inputs, targets) = small(architecture, dtype=torch.float32), batch(16, dtype=torch.float32)
    chain = chain_of(model, *(tensor[:4] for tensor in (inputs, targets)))
    method = build_method("bp", model.to(META))
    watched = TrainingPass(model, chain, TokenReduction.FLATTEN, DiagnosticThresholds())
    watched.arm(True)
    mode = NoHost(answers=True)
    with mode:
        model.train()
        method.accumulate(inputs.to(META), targets.to(META))
    (seen,) = watched._passes
    assert seen.done
    assert {norms.device for norms in (*seen.hiddens, *seen.grads)} == {META}
    assert seen.samples == 16
    watched.detach()


def test_batches_are_made_where_the_data_is():
    """Crop, flip, normalisation and labels; what an epoch draws is moved once, before its first batch."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 8, 8, 3), generator=generator, dtype=torch.uint8)
    labels = torch.randint(0, 10, (40,), generator=generator)
    split = Split(images, labels, Preparation((0.5, 0.5, 0.5), (0.2, 0.2, 0.2), crop=2, flip=True)).to(META)
    batches = Batches(split, 16, augment=True, shuffle=True, random_labels=10)
    epoch = batches.epoch(0)
    list(evaluation_batches(split, 16))  # the constants of this device are made once
    with NoHost():
        assert [(inputs.device, targets.device) for inputs, targets in epoch] == [(META, META)] * 3
        assert all(inputs.device == META for inputs, _ in evaluation_batches(split, 16))


def test_a_torch_of_the_cpu_in_a_step_is_found():
    """What the mode is there for: each of these slips through on meta alone, and would on a GPU."""
    there = torch.ones(4, device=META)
    for slip in (
        lambda: there * torch.tensor(2.0),
        lambda: there[torch.tensor([0, 1])],
        lambda: there.copy_(torch.zeros(4)),
        lambda: torch.zeros(2).to(META),
    ):
        slip()
        with pytest.raises(AssertionError, match="cpu"), NoHost():
            slip()
    with pytest.raises(AssertionError, match="waits"), NoHost():
        bool(there.any())


def test_optimizers_in_one_kernel_are_asked_for_where_torch_has_them():
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    torch.optim.AdamW([parameter], fused="cpu" in FUSED).step()
    assert "meta" not in FUSED


def test_noise_of_a_step_is_drawn_where_it_is_used():
    """And on the CPU as it always was: the seed and the count of steps are numbers, saved as tensors."""
    method = build_method("dtp", small("resmlp", dtype=torch.float32), torch.Generator().manual_seed(3))
    draws = method.draws
    assert {name for name in method.state_dict() if name.startswith("draws.")} == {"draws.seed", "draws.step"}
    expected = torch.Generator().manual_seed(draws.seed).get_state()
    assert draws.generator(torch.device("cpu")).get_state().equal(expected)
    draws.advance()
    twin = build_method("dtp", small("resmlp", dtype=torch.float32), torch.Generator().manual_seed(4))
    twin.load_state_dict(copy.deepcopy(method.state_dict()))
    assert (twin.draws.seed, twin.draws.step) == (draws.seed, 1)
    with pytest.raises(RuntimeError, match=r"draws\.step"):
        twin.load_state_dict({k: v for k, v in method.state_dict().items() if k != "draws.step"})
