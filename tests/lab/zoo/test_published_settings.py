"""What published settings need of the zoo: sigmoid outputs, fixed biases, initial weights, dropout, norms, LeNet."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_layers import plain
from torch import nn
from zoo_networks import DATA, METHODS, batch, gradients, small

from walkback.errors import InputError
from walkback.lab.runs.assembly import assemble, dataset_of
from walkback.lab.runs.config import RunConfig
from walkback.lab.runs.functional_tests import functional_tests
from walkback.lab.runs.measure import accuracy_on, held_out, report_on
from walkback.lab.zoo import DataSpec, build_method, build_model
from walkback.lab.zoo.answers import mean_loss, output_error, sample_losses, summed_loss
from walkback.lab.zoo.datasets.splits import Preparation, scaled
from walkback.lab.zoo.methods import pepita

MNIST = DataSpec((1, 28, 28), 10)


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def one_hot(targets, classes=DATA.classes):
    return np.eye(classes)[plain(targets).astype(int)]


def test_a_sigmoid_output_has_a_binary_cross_entropy_for_each_class():
    torch.manual_seed(0)
    logits, targets = 3 * torch.randn(7, 5, dtype=torch.float64), torch.randint(5, (7,))
    told, wanted = sigmoid(plain(logits)), one_hot(targets)
    each = -(wanted * np.log(told) + (1 - wanted) * np.log(1 - told)).sum(axis=1)
    np.testing.assert_allclose(plain(sample_losses(logits, targets, "sigmoid")), each, rtol=1e-12)
    assert float(mean_loss(logits, targets, "sigmoid")) == pytest.approx(each.mean(), rel=1e-12)
    assert float(summed_loss(logits, targets, "sigmoid")) == pytest.approx(each.sum(), rel=1e-12)
    np.testing.assert_allclose(plain(output_error(logits, targets, "sigmoid")), told - wanted, rtol=1e-12)
    assert not np.allclose(plain(output_error(logits, targets)), told - wanted)


def test_the_losses_of_several_answers_are_means_over_a_samples_own():
    torch.manual_seed(0)
    logits, targets = torch.randn(3, 4, 5, dtype=torch.float64), torch.randint(5, (3, 4))
    each = torch.stack(
        [sample_losses(told, wanted, "sigmoid").mean() for told, wanted in zip(logits, targets, strict=True)]
    )
    torch.testing.assert_close(sample_losses(logits, targets, "sigmoid"), each)
    torch.testing.assert_close(summed_loss(logits, targets, "sigmoid"), each.sum())
    asked = logits.clone().requires_grad_()
    (slope,) = torch.autograd.grad(sample_losses(asked, targets, "sigmoid").sum(), asked)
    torch.testing.assert_close(output_error(logits, targets, "sigmoid"), slope)


def plain_step(model, inputs, targets, feedback):
    """Twin: the gradients of W_1 and W_2 of a perceptron of sigmoids with sigmoid outputs, B in place of W_2."""
    layer, head = model.blocks[0].linear, model.head
    flat = plain(inputs).reshape(len(inputs), -1)
    hidden = sigmoid(flat @ plain(layer.weight).T + plain(layer.bias))
    error = (sigmoid(hidden @ plain(head.weight).T + plain(head.bias)) - one_hot(targets)) / len(inputs)
    below = (error @ feedback) * hidden * (1 - hidden)
    return below.T @ flat, error.T @ hidden


@pytest.mark.parametrize("method", ["bp", "fa", "kp", "weight_mirror"])
def test_the_classical_step_is_that_of_the_twin(method):
    model = small("mlp", widths=(11,), activation="sigmoid", output="sigmoid", bias="fixed", init="sizes")
    rule, (inputs, targets) = build_method(method, model, torch.Generator().manual_seed(3)), batch()
    feedback = model.head.weight if method == "bp" else rule.feedback("head")
    expected = plain_step(model, inputs, targets, plain(feedback.detach()))
    rule.accumulate(inputs, targets)
    for layer, wanted in zip((model.blocks[0].linear, model.head), expected, strict=True):
        np.testing.assert_allclose(plain(layer.weight.grad), wanted, rtol=1e-10)
        assert layer.bias.grad is None


OF_ITS_OWN = {"local_loss", "forward_forward"}
"""Methods in which no loss at the head reaches a block."""


@pytest.mark.parametrize("method", [name for name in METHODS.own if name not in OF_ITS_OWN])
def test_every_method_hears_of_the_loss(method):
    """Mutant: a method that takes softmax − onehot whatever the network's output is."""
    options = {"warm_up": 0.0} if method == "credit_bridge" else {}
    found = []
    for output in ("softmax", "sigmoid"):
        model = small("mlp", output=output, widths=(9, 9))
        rule, (inputs, targets) = build_method(method, model, torch.Generator().manual_seed(3), **options), batch()
        torch.manual_seed(5)
        result = rule.accumulate(inputs, targets)
        assert float(result.loss) == pytest.approx(float(mean_loss(result.logits, targets, output)))
        found.append(gradients(model))
    for name, gradient in found[0].items():
        # The target, and the signs of the error, are the same under both.
        told_nothing = method in {"drtp", "sdfa"} and not name.startswith("head")
        assert torch.allclose(gradient, found[1][name]) == told_nothing, name


def test_a_run_of_a_sigmoid_network_is_measured_with_its_own_loss():
    """Mutant: a report that takes the gradient of the softmax for the true one; BP's credit would not be along it."""
    options = {"output": "sigmoid", "widths": [12, 9]}
    config = RunConfig(method="bp", architecture="mlp", data="digits", seed=1, epochs=0, architecture_options=options)
    dataset = dataset_of(config)
    run = assemble(config, dataset.spec)
    batches = held_out(dataset)
    report = report_on(config, run, batches, accuracy_on(run.method, dataset.test), null_draws=0)
    assert report.alignment.sites == pytest.approx([1.0] * 3)
    found = functional_tests(config, run, batches)
    assert found["perturbation"]["absolute"]["credit"]["raw"]["rho"] == pytest.approx([1.0] * 3, abs=1e-3)


@pytest.mark.parametrize("bias", ["learnt", "fixed", "none"])
def test_biases_are_learnt_fixed_or_not_there(bias):
    model = build_model("mlp", MNIST, widths=(6,), bias=bias)
    for layer in (model.blocks[0].linear, model.head):
        assert (layer.bias is None) == (bias == "none")
        assert layer.bias is None or layer.bias.requires_grad == (bias == "learnt")


@torch.no_grad()
def test_initial_weights_have_the_law_that_is_asked_for():
    torch.manual_seed(0)
    torchs, he, sizes = (build_model("mlp", MNIST, widths=(300,), init=i) for i in ("torch", "he_uniform", "sizes"))
    assert float(torchs.blocks[0].linear.weight.abs().max()) == pytest.approx(784**-0.5, rel=1e-3)
    assert float(he.blocks[0].linear.weight.abs().max()) == pytest.approx((6 / 784) ** 0.5, rel=1e-3)
    assert not he.blocks[0].linear.bias.any()
    drawn = sizes.blocks[0].linear
    assert float(drawn.weight.std()) == pytest.approx((784 + 300) ** -0.5, rel=0.01)
    assert float(drawn.bias.std()) == pytest.approx((784 + 300) ** -0.5, rel=0.2)
    # Uniform draws do not go beyond √3 deviations; a normal law does.
    assert float(drawn.weight.abs().max()) > 3.5 * (784 + 300) ** -0.5


def test_the_default_network_is_what_it_was():
    torch.manual_seed(0)
    model = build_model("mlp", MNIST, widths=(6, 5))
    torch.manual_seed(0)
    layers = [nn.Linear(784, 6), nn.Linear(6, 5), nn.Linear(5, 10)]
    own = [*(block.linear for block in model.blocks), model.head]
    for made, expected in zip(own, layers, strict=True):
        assert torch.equal(made.weight, expected.weight)
        assert torch.equal(made.bias, expected.bias)


@pytest.mark.parametrize("method", ["fa", "kp", "weight_mirror"])
def test_feedback_is_as_large_as_is_asked_for(method):
    model = build_model("mlp", MNIST, widths=(300,))
    by_fan_in, by_sizes = (
        build_method(method, model, torch.Generator().manual_seed(0), feedback_variance=variance)
        for variance in ("fan_in", "sizes")
    )
    same = by_fan_in.feedback("head") * (3 * 300) ** 0.5 / (300 + 10) ** 0.5
    torch.testing.assert_close(by_sizes.feedback("head"), same)


def test_a_norm_of_length_forgets_the_length_and_a_batch_norm_stands_before_the_activation():
    model = small("mlp", norm="length")
    hidden = torch.randn(4, 12, dtype=torch.float64)
    torch.testing.assert_close(model.blocks[1](hidden), model.blocks[1](7 * hidden), rtol=1e-6, atol=0)
    model = small("mlp", norm="batch").train()
    block, inputs = model.blocks[0], torch.randn(50, 64, dtype=torch.float64)
    expected = block.activation(F.batch_norm(block.linear(inputs), None, None, *block.between.parameters(), True))
    torch.testing.assert_close(block(inputs), expected)


def test_dropout_leaves_a_share_out_in_training_alone():
    model = build_model("mlp", MNIST, widths=(4000,), dropout=0.25)
    inputs = torch.randn(20, 784)
    plainly = build_model("mlp", MNIST, widths=(4000,))
    plainly.load_state_dict(model.state_dict())
    whole = plainly.blocks[0](inputs)
    active = whole > 0
    dropped = model.train().blocks[0](inputs)
    kept = dropped[active] > 0
    assert float(kept.double().mean()) == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(dropped[active][kept], whole[active][kept] / 0.75)
    assert torch.equal(model.eval().blocks[0](inputs), whole)


def pepita_twin(model, inputs, targets, feedback, mask):
    """Their rule with one mask in both passes and no derivative of activation or mask."""
    (first, _), (head, _) = ((plain(layer.weight), None) for layer in (model.blocks[0].linear, model.head))
    flat = plain(inputs).reshape(len(inputs), -1)

    def passed(values):
        hidden = np.maximum(values @ first.T, 0) * mask
        exped = np.exp(hidden @ head.T)
        return hidden, exped / exped.sum(axis=1, keepdims=True) - one_hot(targets)

    hidden, error = passed(flat)
    moved = flat + error @ feedback.T
    again, error = passed(moved)
    return (hidden - again).T @ moved / len(inputs), error.T @ again / len(inputs)


def pepita_agrees():
    model = small("mlp", widths=(40,), activation="relu", bias="none", dropout=0.4).train()
    rule, (inputs, targets) = build_method("pepita", model, feedback_scale=2.0), batch()
    torch.manual_seed(7)
    rule.accumulate(inputs, targets)
    torch.manual_seed(7)
    kept = torch.native_dropout(torch.ones(len(inputs), 40, dtype=torch.float64), 0.4, True)[0]
    expected = pepita_twin(model, inputs, targets, plain(rule.feedback), plain(kept))
    layers = (model.blocks[0].linear, model.head)
    return all(np.allclose(plain(layer.weight.grad), g, rtol=1e-9) for layer, g in zip(layers, expected, strict=True))


def test_pepita_leaves_out_the_same_units_in_both_passes():
    assert pepita_agrees()


def test_the_test_of_it_finds_other_units_and_a_second_mask(monkeypatch):
    monkeypatch.setattr(pepita, "ELEMENTWISE", pepita.ELEMENTWISE - {"NativeDropoutBackward0"})
    assert not pepita_agrees()
    monkeypatch.undo()
    monkeypatch.setattr(torch, "set_rng_state", lambda state: None)
    assert not pepita_agrees()


@pytest.mark.parametrize(
    ("option", "value"),
    [("norm", "layer"), ("bias", "no"), ("init", "he"), ("output", "linear"), ("dropout", 1.0), ("dropout", -0.1)],
)
def test_an_option_that_is_none_is_refused(option, value):
    with pytest.raises(InputError, match=option):
        build_model("mlp", MNIST, **{option: value})


def test_lenet_has_the_sizes_of_lenet_5():
    model = build_model("lenet", MNIST)
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    counted = [sum(p.numel() for p in layer.parameters()) for layer in layers]
    assert counted == [6 * 25 + 6, 16 * 6 * 25 + 16, 120 * 16 * 25 + 120, 120 * 84 + 84, 84 * 10 + 10]
    assert model.site_shapes == ((1, 32, 32), (6, 14, 14), (16, 5, 5), (120, 1, 1), (84,))
    images = torch.rand(2, 3, 32, 32)
    assert torch.equal(build_model("lenet", DataSpec((3, 32, 32), 10)).stem(images), images)


def test_pixels_are_standardised_or_from_0_to_1():
    preparation = Preparation(mean=(0.5, 0.2), std=(0.1, 0.3), crop=4, flip=True)
    assert scaled("some", preparation, "standardised") is preparation
    assert scaled("some", preparation, "unit") == Preparation(mean=(0.0, 0.0), std=(1.0, 1.0), crop=4, flip=True)
    with pytest.raises(InputError, match="scaling"):
        scaled("some", preparation, "raw")
