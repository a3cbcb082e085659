"""mlp and resnet: each against its definition in plain NumPy, their sizes, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from plain_layers import batch_norm, linear, plain, relu
from torch import nn
from zoo_networks import batch, small

from walkback.errors import InputError
from walkback.lab.zoo import DataSpec, build_model, freeze

CIFAR, MNIST = DataSpec((3, 32, 32), 10), DataSpec((1, 28, 28), 10)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("data", "widths", "expected"),
    [
        (MNIST, (500,), 784 * 500 + 500 + 500 * 10 + 10),
        (CIFAR, (1024,), 3072 * 1024 + 1024 + 1024 * 10 + 10),
        (DataSpec((20,), 2), (3, 5, 4), 20 * 3 + 3 + 3 * 5 + 5 + 5 * 4 + 4 + 4 * 2 + 2),
    ],
)
def test_an_mlp_has_the_parameters_of_its_widths(data, widths, expected):
    model = build_model("mlp", data, widths=widths)
    assert parameters(model) == expected
    assert model.site_shapes == ((data.features,), *((width,) for width in widths))


PHI = {"tanh": np.tanh, "relu": relu, "sigmoid": lambda z: 1 / (1 + np.exp(-z))}


@pytest.mark.parametrize("activation", PHI)
def test_an_mlp_is_its_definition(activation):
    model = small("mlp", activation=activation)
    inputs, _ = batch()
    hidden = plain(inputs).reshape(len(inputs), -1)
    for block in model.blocks:
        hidden = PHI[activation](linear(block.linear, hidden))
    np.testing.assert_allclose(plain(model(inputs)), linear(model.head, hidden), rtol=1e-12)


def test_an_mlp_has_neither_skip_nor_norm():
    model = build_model("mlp", MNIST, widths=(30, 30))
    assert not [m for m in model.modules() if "Norm" in type(m).__name__]
    hidden = torch.randn(2, 30)
    assert torch.equal(model.blocks[1](hidden), model.blocks[1].branch(hidden))
    assert not list(model.stem.parameters())


def conv(layer: nn.Conv2d, images: np.ndarray) -> np.ndarray:
    """3×3 with a border of zeros and a stride, one output at a time."""
    kernel, stride = plain(layer.weight), layer.stride[0]
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    side = (images.shape[2] + stride - 1) // stride
    out = np.zeros((len(images), len(kernel), side, side))
    for row in range(side):
        for column in range(side):
            window = padded[:, :, stride * row : stride * row + 3, stride * column : stride * column + 3]
            out[:, :, row, column] = np.einsum("bchw,ochw->bo", window, kernel)
    return out


def shortcut(images: np.ndarray, channels: int, side: int) -> np.ndarray:
    """Option A: pixel by pixel, zeros where there is no channel."""
    stride = images.shape[2] // side
    out = np.zeros((len(images), channels, side, side))
    for row in range(side):
        for column in range(side):
            out[:, : images.shape[1], row, column] = images[:, :, stride * row, stride * column]
    return out


@pytest.mark.parametrize("training", [True, False])
def test_a_resnet_is_its_definition(training):
    model = small("resnet", blocks_per_stage=2).train(training)
    inputs, _ = batch(4)
    if not training:  # running statistics off their start
        model.train()(batch(9, seed=5)[0])
        model.eval()
    _, stem_conv, stem_norm, _ = model.stem
    hidden = relu(batch_norm(stem_norm, conv(stem_conv, plain(inputs))))
    for block in model.blocks:
        branch = relu(batch_norm(block.norm1, conv(block.conv1, hidden)))
        branch = batch_norm(block.norm2, conv(block.conv2, branch))
        hidden = relu(shortcut(hidden, branch.shape[1], branch.shape[2]) + branch)
    expected = linear(model.head[2], hidden.mean(axis=(2, 3)))
    np.testing.assert_allclose(plain(model(inputs)), expected, rtol=1e-9, atol=1e-12)


def test_resnet_20_is_the_papers_in_size_and_layers():
    model = build_model("resnet", CIFAR)
    assert parameters(model) == 269_722  # table 6 says 0.27 million
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) + 1 == 20  # and the readout
    assert [c.out_channels for c in convolutions] == [16] * 7 + [32] * 6 + [64] * 6
    assert [c.stride[0] for c in convolutions] == [1] * 7 + [2] + [1] * 5 + [2] + [1] * 5
    assert parameters(build_model("resnet", CIFAR, blocks_per_stage=9)) == 853_018  # ResNet-56, 0.85 million there


def test_convolutions_of_a_resnet_start_as_in_the_paper():
    torch.manual_seed(0)
    for conv_layer in [m for m in build_model("resnet", CIFAR).modules() if isinstance(m, nn.Conv2d)][1:]:
        weight = conv_layer.weight
        assert weight.std().item() == pytest.approx((2 / weight[0].numel()) ** 0.5, rel=0.06)


def test_an_odd_side_is_rounded_up_on_both_ways():
    model = build_model("resnet", DataSpec((1, 7, 7), 3), channels=2, blocks_per_stage=1)
    assert model.site_shapes == ((2, 7, 7), (2, 7, 7), (4, 4, 4), (8, 2, 2))


def test_frozen_blocks_of_a_resnet_still_follow_the_data_with_their_statistics():
    model = freeze(small("resnet"), "blocks")
    before = model.blocks[0].norm1.running_mean.clone()
    model.train()(batch()[0])
    assert not torch.equal(before, model.blocks[0].norm1.running_mean)


@pytest.mark.parametrize(
    ("architecture", "data", "options", "message"),
    [
        ("mlp", MNIST, {"widths": ()}, "widths is empty; expected one number for each hidden layer"),
        ("mlp", MNIST, {"widths": (5, 0)}, "widths is 0; expected 1 or more"),
        (
            "mlp",
            MNIST,
            {"activation": "gelu"},
            "activation is 'gelu'; expected one of 'tanh', 'relu', 'sigmoid', 'leaky_relu'",
        ),
        ("mlp", MNIST, {"widths": (1,) * 10_001}, "layers is 10001; expected 10,000 or less"),
        ("resnet", DataSpec((3, 3, 3), 2), {}, "side 3; expected 4 or more"),
        ("resnet", DataSpec((3, 8, 9), 2), {}, "with H = W"),
        ("resnet", CIFAR, {"blocks_per_stage": 0}, "blocks_per_stage is 0; expected 1 or more"),
        ("resnet", CIFAR, {"blocks_per_stage": 10**6}, "blocks_per_stage is 1000000; expected 3,333 or less"),
    ],
)
def test_what_cannot_be_built_is_refused(architecture, data, options, message):
    with pytest.raises(InputError, match=message):
        build_model(architecture, data, **options)
