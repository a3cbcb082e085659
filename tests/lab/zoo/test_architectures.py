"""The architectures: shapes on every kind of data, initial scale, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from zoo_networks import DATA_OF, batch, small

from walkback.errors import InputError
from walkback.lab import SkiplessBlock
from walkback.lab.registry import ARCHITECTURES
from walkback.lab.zoo import DataSpec, build_model

CIFAR = DataSpec((3, 32, 32), 10)
KINDS = [CIFAR, DataSpec((1, 28, 28), 10), DataSpec((1, 8, 8), 10), DataSpec((64,), 10)]


READS_NUMBERS = [name for name in ARCHITECTURES if name not in DATA_OF]


@pytest.mark.parametrize("architecture", READS_NUMBERS)
@pytest.mark.parametrize("data", KINDS, ids=str)
def test_every_architecture_takes_every_kind_of_data(architecture, data):
    model = build_model(architecture, data)
    assert model(torch.randn(2, *data.input_shape)).shape == (2, 10)
    assert len(model.site_shapes) == len(model.blocks) + 1
    assert model.training


@pytest.mark.parametrize(
    ("architecture", "shapes"),
    [
        ("resmlp", [(256,)] * 5),
        ("student_net", [(128,)] * 5),
        ("vit_mini", [(17, 128)] * 5),
        ("small_cnn", [(32, 16, 16), (64, 8, 8), (128, 4, 4), (256,)]),
        ("small_resnet", [(32, 16, 16)] * 5),
        ("mlp", [(3072,), (500,), (500,)]),
        ("resnet", [(16, 32, 32)] * 4 + [(32, 16, 16)] * 3 + [(64, 8, 8)] * 3),
    ],
)
def test_default_sites_on_cifar(architecture, shapes):
    assert list(build_model(architecture, CIFAR).site_shapes) == shapes


def test_an_untrained_resmlp_starts_flat():
    torch.manual_seed(0)
    model = build_model("resmlp", CIFAR)
    hidden = model.stem(torch.randn(512, 3, 32, 32))
    for block in model.blocks:
        hidden = block(hidden)
    assert hidden.norm(dim=1).median().item() == pytest.approx(9.2, abs=0.3)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_block_joins_its_branch(architecture):
    model = small(architecture).eval()
    hidden = model.stem(batch(3)[0])
    for block in model.blocks:
        branch, output = block.branch(hidden), block(hidden)
        if isinstance(block, SkiplessBlock):
            expected = branch
        else:
            expected = torch.relu(block.shortcut(hidden) + branch) if architecture == "resnet" else hidden + branch
        torch.testing.assert_close(output, expected)
        hidden = output


def test_layers_that_write_into_the_stream_start_small():
    for architecture in ("resmlp", "student_net", "vit_mini"):
        for block in build_model(architecture, CIFAR).blocks:
            assert block.linear2.weight.std().item() == pytest.approx(0.01, rel=0.1)
            assert not block.linear2.bias.any()


def test_the_terminal_norm_can_be_left_out():
    norms = [m for m in build_model("resmlp", CIFAR).head.modules() if isinstance(m, nn.LayerNorm)]
    assert len(norms) == 1
    assert isinstance(build_model("resmlp", CIFAR, terminal_norm=False).head, nn.Linear)
    assert isinstance(build_model("student_net", CIFAR).head, nn.Linear)


def test_post_norm_normalises_what_it_writes():
    model = build_model("resmlp", CIFAR, width=32, depth=2, norm_position="post", expansion=3)
    hidden = model.stem(100 * torch.randn(4, 3, 32, 32))
    block = model.blocks[0]
    torch.testing.assert_close(block(hidden), block.norm(hidden + block.branch(hidden)))
    assert block.linear1.out_features == 96


@pytest.mark.parametrize("depth", [2, 16])
def test_depth_and_width_are_options(depth):
    model = build_model("resmlp", CIFAR, width=20, depth=depth)
    assert model.site_shapes == ((20,),) * (depth + 1)


def test_attention_mixes_tokens_as_torchs_own_does():
    attention = small("vit_mini").blocks[0].attention
    twin = nn.MultiheadAttention(12, 2, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        twin.in_proj_weight.copy_(attention.qkv.weight)
        twin.in_proj_bias.copy_(attention.qkv.bias)
        twin.out_proj.weight.copy_(attention.proj.weight)
        twin.out_proj.bias.copy_(attention.proj.bias)
    tokens = torch.randn(2, 5, 12, dtype=torch.float64)
    torch.testing.assert_close(attention(tokens), twin(tokens, tokens, tokens)[0])


def test_patches_are_a_quarter_of_the_side_unless_said():
    assert build_model("vit_mini", DataSpec((1, 28, 28), 10)).stem.patch == 7
    assert build_model("vit_mini", CIFAR, patch=4).site_shapes[0] == (65, 128)


@pytest.mark.parametrize(
    ("architecture", "data", "options", "message"),
    [
        ("vit_mini", DataSpec((65,), 2), {}, "length is a square"),
        ("small_cnn", DataSpec((3, 8, 9), 2), {}, "with H = W"),
        ("small_cnn", DataSpec((1, 4, 4), 2), {}, "side 4; expected 8 or more"),
        ("small_cnn", CIFAR, {"channels": (1, 2)}, "expected three numbers, one per stage"),
        ("vit_mini", CIFAR, {"patch": 5}, "do not tile images of side 32"),
        ("vit_mini", DataSpec((9,), 2), {}, "do not tile images of side 3"),
        ("vit_mini", CIFAR, {"heads": 3}, "not a multiple of heads 3"),
        ("resmlp", CIFAR, {"norm_position": "mid"}, "norm_position is 'mid'"),
        ("resmlp", CIFAR, {"depth": 0}, "depth is 0; expected 1 or more"),
        ("resmlp", CIFAR, {"depth": 10**9}, "depth is 1000000000; expected 10,000 or less"),
        ("vit_mini", CIFAR, {"depth": 10_001}, "depth is 10001; expected 10,000 or less"),
        ("resmlp", CIFAR, {"widht": 3}, "Did you mean 'width'"),
    ],
)
def test_what_cannot_be_built_is_refused(architecture, data, options, message):
    with pytest.raises(InputError, match=message):
        build_model(architecture, data, **options)
