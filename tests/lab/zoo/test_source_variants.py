"""The source study's networks: forward passes against NumPy, sizes by hand, and every method on each of them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import plain_layers as plain
import pytest
import torch
from torch import nn
from zoo_networks import (
    assert_same,
    backprop_gradients,
    batch,
    feedback_from_weights,
    gradients,
    named_learning,
    sites_of,
    small,
    true_gradients,
)

from walkback.errors import InputError
from walkback.lab.registry import METHODS
from walkback.lab.zoo import BlockModel, DataSpec, MethodOptions, build_method, build_model
from walkback.lab.zoo.methods.local_step import follow, local_pass

CIFAR = DataSpec((3, 32, 32), 10)
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "resmlp without skips": ("resmlp", {"residual_add": False, "w2_std": 0.5}),
    "student_net with phi": ("student_net", {"activation": "phi", "activation_alpha": 0.7}),
    "small_cnn without the first pool": ("small_cnn", {"pool_first": False}),
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def varied(variant: str, dtype: torch.dtype = torch.float64) -> BlockModel:
    architecture, options = VARIANTS[variant]
    return small(architecture, dtype=dtype, **options)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("terminal_norm", [True, False])
@pytest.mark.parametrize("residual_add", [True, False])
def test_resmlp_with_and_without_skips_computes_what_its_formula_says(residual_add, terminal_norm):
    options = {"residual_add": residual_add, "w2_std": 0.5, "terminal_norm": terminal_norm}
    model = small("resmlp", width=6, expansion=2, **options)
    inputs, _ = batch(4)
    hidden = plain.linear(model.stem[1], inputs.numpy().reshape(4, -1))
    sites = [hidden]
    for block in model.blocks:
        inner = plain.gelu(plain.linear(block.linear1, plain.layer_norm(block.norm, hidden)))
        branch = plain.linear(block.linear2, inner)
        hidden = hidden + branch if residual_add else branch
        sites.append(hidden)
    readout = model.head[1] if terminal_norm else model.head
    normed = plain.layer_norm(model.head[0], hidden) if terminal_norm else hidden
    for site, twin in zip(sites_of(model, inputs)[0], sites, strict=True):
        np.testing.assert_allclose(site.detach().numpy(), twin, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(model(inputs).detach().numpy(), plain.linear(readout, normed), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("std", [0.01, 0.5])
def test_the_last_layer_of_each_block_starts_with_the_deviation_asked_for(std):
    torch.manual_seed(0)
    model = build_model("resmlp", CIFAR, w2_std=std)
    for block in model.blocks:
        # 65,536 weights: the deviation is known to 1/√(2·65536), and four of these are allowed.
        assert block.linear2.weight.std().item() == pytest.approx(std, rel=4 / (2 * 65_536) ** 0.5)
        assert not block.linear2.bias.any()


def test_the_deviation_changes_the_last_layers_alone_and_only_their_scale():
    def drawn(**options):
        torch.manual_seed(3)
        return build_model("resmlp", CIFAR, width=8, depth=2, **options).state_dict()

    usual, wide = drawn(), drawn(w2_std=0.5, residual_add=False)
    for name, value in usual.items():
        expected = 50 * value if name.endswith("linear2.weight") else value
        torch.testing.assert_close(wide[name], expected)


def test_skips_have_no_parameters():
    assert parameters(build_model("resmlp", CIFAR)) == parameters(build_model("resmlp", CIFAR, residual_add=False))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_phi_stands_where_gelu_does(alpha):
    model = small("student_net", width=6, activation="phi", activation_alpha=alpha)
    inputs, _ = batch(4)
    hidden = plain.linear(model.stem[1], 5 * inputs.numpy().reshape(4, -1))
    for block in model.blocks:
        inner = plain.phi(alpha, plain.linear(block.linear1, plain.layer_norm(block.norm, hidden)))
        hidden = hidden + plain.linear(block.linear2, inner)
    expected = plain.linear(model.head, hidden)
    np.testing.assert_allclose(model(5 * inputs).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


def test_the_activation_draws_nothing_and_has_nothing_to_train():
    def drawn(**options):
        torch.manual_seed(3)
        return build_model("student_net", CIFAR, **options)

    with_gelu, with_phi = drawn(), drawn(activation="phi")
    assert with_phi.site_shapes == ((128,),) * 5
    assert all(torch.equal(a, b) for a, b in zip(with_gelu.parameters(), with_phi.parameters(), strict=True))
    assert "Phi(alpha=1.0)" in repr(with_phi)


def test_without_its_first_pool_small_cnn_has_the_sizes_of_the_source_study():
    model = build_model("small_cnn", CIFAR, pool_first=False)
    assert list(model.site_shapes) == [(32, 32, 32), (64, 16, 16), (128, 8, 8), (256,)]
    assert model.blocks[2].body[1].in_features == 128 * 8 * 8 == 8192
    convolutions = (3 * 9 * 32 + 32) + (32 * 9 * 64 + 64) + (64 * 9 * 128 + 128)
    norms = 2 * (32 + 64 + 128)
    assert parameters(model) == convolutions + norms + (8192 * 256 + 256) + (256 * 10 + 10)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("pool_first", [True, False])
def test_small_cnn_with_and_without_its_first_pool_computes_what_it_says(pool_first, training):
    model = small("small_cnn", pool_first=pool_first)
    inputs, _ = batch(3)
    model(inputs)  # moves the running statistics off their initial values
    model.train(training)

    def stage(layers, images, pool=True):
        made = plain.relu(plain.batch_norm(layers[1], plain.conv(layers[0], images)))
        return plain.max_pool(made) if pool else made

    hidden = stage(model.stem[1], inputs.numpy(), pool=pool_first)
    for block in list(model.blocks)[:2]:
        hidden = stage(block.body, hidden)
    hidden = plain.relu(plain.linear(model.blocks[2].body[1], hidden.reshape(3, -1)))
    expected = plain.linear(model.head, hidden)
    np.testing.assert_allclose(model(inputs).detach().numpy(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("side", [4, 5, 6, 7])
def test_without_its_first_pool_small_cnn_takes_smaller_images(side):
    model = build_model("small_cnn", DataSpec((1, side, side), 3), pool_first=False)
    assert model(torch.randn(2, 1, side, side)).shape == (2, 3)


def test_small_resnet_has_the_sizes_that_its_page_says():
    model = build_model("small_resnet", CIFAR)
    assert list(model.site_shapes) == [(32, 16, 16)] * 5
    stem, block = (3 * 9 * 32 + 32) + 2 * 32, 2 * (32 * 9 * 32) + 2 * 2 * 32
    assert parameters(model) == stem + 4 * block + (32 * 10 + 10)
    assert not [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert not [module for module in model.head.modules() if isinstance(module, nn.BatchNorm2d)]


@pytest.mark.parametrize("training", [True, False])
def test_small_resnet_computes_what_its_formula_says(training):
    model = small("small_resnet", channels=3, depth=2)
    inputs, _ = batch(3)
    model(inputs)  # moves the running statistics off their initial values
    model.train(training)
    conv, norm = model.stem[1][0], model.stem[1][1]
    hidden = plain.max_pool(plain.relu(plain.batch_norm(norm, plain.conv(conv, inputs.numpy()))))
    sites = [hidden]
    for block in model.blocks:
        inner = plain.relu(plain.batch_norm(block.norm1, plain.conv(block.conv1, hidden)))
        hidden = hidden + plain.batch_norm(block.norm2, plain.conv(block.conv2, inner))
        sites.append(hidden)
    for site, twin in zip(sites_of(model, inputs)[0], sites, strict=True):
        np.testing.assert_allclose(site.detach().numpy(), twin, rtol=1e-9, atol=1e-11)
    expected = plain.linear(model.head[2], hidden.mean(axis=(2, 3)))
    np.testing.assert_allclose(model(inputs).detach().numpy(), expected, rtol=1e-9, atol=1e-11)


@every_variant
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("options", [{}, {"credit_norm": "per_sample", "penalty": 0.01}])
def test_two_steps_of_every_method_move_every_parameter(name, variant, options):
    model, (inputs, targets) = varied(variant, torch.float32), batch(dtype=torch.float32)
    if METHODS.load(name).why_not(model) or (options and not METHODS.load(name).has_credit):
        with pytest.raises(InputError, match=r"is not defined on this network|has no credit to scale"):
            build_method(name, model, **options)
        return
    method = build_method(name, model, **options)
    names = named_learning(model, method)
    own = [parameter for parameter in method.parameters() if parameter.requires_grad]
    learning = [*(p for key, p in model.named_parameters() if key in names), *own]
    before = copy.deepcopy(learning)
    optimizer = torch.optim.AdamW(learning, lr=1e-3, weight_decay=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        method.accumulate(inputs, targets)
        optimizer.step()
    assert all(torch.isfinite(parameter).all() for parameter in learning)
    assert all(not torch.equal(old, new) for old, new in zip(before, learning, strict=True))


@every_variant
def test_the_true_gradient_as_credit_is_backprop(variant):
    model, (inputs, targets) = varied(variant), batch()
    expected = backprop_gradients(model, inputs, targets)
    credits = dict(enumerate(true_gradients(model, inputs, targets)))
    follow(model, local_pass(model, inputs, targets), credits, MethodOptions())
    assert_same(gradients(model), expected)


@every_variant
def test_feedback_alignment_with_the_weights_as_feedback_is_backprop(variant):
    model, (inputs, targets) = varied(variant), batch()
    expected = backprop_gradients(model, inputs, targets)
    method = build_method("fa", model)
    feedback_from_weights(method, model)
    method.accumulate(inputs, targets)
    assert_same(gradients(model), expected)


@pytest.mark.parametrize(
    ("architecture", "data", "options", "message"),
    [
        ("resmlp", CIFAR, {"residual_add": False, "norm_position": "post"}, "without residual_add there is no sum"),
        ("resmlp", CIFAR, {"residual_add": False, "norm_position": "mid"}, "norm_position is 'mid'"),
        ("resmlp", CIFAR, {"w2_std": 0.0}, r"w2_std is 0\.0; expected a finite number above 0"),
        ("resmlp", CIFAR, {"w2_std": -0.5}, r"w2_std is -0\.5; expected a finite number above 0"),
        ("resmlp", CIFAR, {"w2_std": float("inf")}, "w2_std is inf; expected a finite number above 0"),
        ("resmlp", CIFAR, {"w2_std": float("nan")}, "w2_std is nan; expected a finite number above 0"),
        ("student_net", CIFAR, {"depth": 0}, "architecture student_net: depth is 0; expected 1 or more"),
        ("student_net", CIFAR, {"activation": "tanh"}, "activation is 'tanh'; expected 'gelu' or 'phi'"),
        ("student_net", CIFAR, {"activation_alpha": 0.5}, r"activation_alpha is 0\.5, but GELU has no α"),
        ("student_net", CIFAR, {"activation": "phi", "activation_alpha": 1.5}, r"is 1\.5; expected 0 \(linear\) to 1"),
        ("student_net", CIFAR, {"activation": "phi", "activation_alpha": float("nan")}, "is nan; expected 0"),
        ("small_cnn", DataSpec((1, 3, 3), 2), {"pool_first": False}, "side 3; expected 4 or more, because 2 of its 3"),
        ("small_cnn", DataSpec((1, 7, 7), 2), {}, "side 7; expected 8 or more, because 3 of its 3"),
        ("small_resnet", DataSpec((3, 1, 1), 2), {}, "side 1; expected 2 or more"),
        ("small_resnet", DataSpec((65,), 2), {}, "length is a square"),
        ("small_resnet", CIFAR, {"channels": 0}, "channels is 0; expected 1 or more"),
        ("small_resnet", CIFAR, {"depth": 10_001}, "depth is 10001; expected 10,000 or less"),
    ],
)
def test_what_cannot_be_built_is_refused(architecture, data, options, message):
    with pytest.raises(InputError, match=message):
        build_model(architecture, data, **options)
