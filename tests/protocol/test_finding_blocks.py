"""The blocks: found, named, chosen between, refused."""

import warnings

import pytest
import torch
from agreement import agrees
from small_models import (
    CLASSES,
    INPUT,
    WIDTH,
    Branch,
    Residual,
    ResMLP,
    Shared,
    Towers,
    labelled,
    plain_sequential,
    sites_of,
)
from torch import nn

import walkback
from walkback.errors import BlocksError, InputError
from walkback.protocol.batches import read_batches
from walkback.protocol.independence import chain_of_independent
from walkback.protocol.untouched import untouched

BLOCKS = sites_of("blocks.0", "blocks.1", "blocks.2")


@pytest.mark.parametrize(
    "blocks",
    [
        lambda model: "blocks.*",
        lambda model: "blocks.[0-2]",
        lambda model: "blocks.0, blocks.1,blocks.2",
        lambda model: ["blocks.0", "blocks.1", "blocks.2"],
        lambda model: ("blocks.0", "blocks.[12]"),
        lambda model: model.blocks,
        lambda model: list(model.blocks),
        lambda model: nn.Sequential(*model.blocks),
        lambda model: nn.ModuleDict({"a": model.blocks[0], "b": model.blocks[1], "c": model.blocks[2]}),
        lambda model: ["blocks.0", model.blocks[1], "blocks.2"],
        lambda model: [["blocks.0"], ("blocks.1", "blocks.2")],
        lambda model: "blocks.*, !blocks.*.up",
        lambda model: ["blocks.*", "!head.*"],
        lambda model: "blocks.*#1",
    ],
)
def test_ways_to_name_them(blocks):
    model = ResMLP()
    report = agrees(model, labelled(20), BLOCKS, blocks=blocks(model))
    assert report.provenance["blocks"] == "blocks.* (given)"


def test_one_block_of_many():
    model = ResMLP()
    for blocks in (model.blocks[1], "blocks.1", ["blocks.1"]):
        report = agrees(model, labelled(20), sites_of("blocks.1"), blocks=blocks)
        assert report.provenance["blocks"] == "blocks.1 (given)"


def test_what_the_report_names_can_be_passed_back():
    for model in (ResMLP(), plain_sequential()):
        found = walkback.diagnose(model, labelled(20))
        named = found.provenance["blocks"].removesuffix(" (found by structure)")
        given = walkback.diagnose(model, labelled(20), blocks=named)
        assert given.measurements == found.measurements


def test_exclusions_alone_leave_the_rest_to_be_found():
    model = ResMLP(depth=4)
    report = agrees(model, labelled(20), sites_of("blocks.1", "blocks.2", "blocks.3"), blocks="!blocks.0")
    assert report.provenance["blocks"] == "blocks.1,blocks.2,blocks.3 (found by structure)"
    assert report.provenance["parts"] == (
        "stem: stem, blocks.0; blocks: blocks.1,blocks.2,blocks.3 (3); between: nothing; head: norm, head"
    )


def test_some_calls_of_a_block():
    report = agrees(Shared(), labelled(20), sites_of("blocks.0", "blocks.0"), blocks="blocks.0#1,blocks.0#2")
    assert report.sites == ("input of blocks.0#1", "blocks.0#1", "blocks.0#2")
    assert report.provenance["blocks"] == "blocks.0#1,blocks.0#2 (given)"
    again = walkback.diagnose(Shared(), labelled(20), blocks=report.provenance["blocks"].removesuffix(" (given)"))
    assert again.sites == report.sites


def test_blocks_that_do_not_follow_one_another():
    with pytest.raises(
        BlocksError, match=r"what right\.0 reads was not computed from what left\.2 wrote\. Pass one of"
    ):
        walkback.diagnose(Towers(), labelled(20), blocks=["left.*", "right.*"])


def test_two_chains_of_one_length_are_a_choice_for_the_caller():
    model, batches = Towers(), labelled(20)
    both = r"Pass one of: blocks='left\.\*' \(3 blocks\); blocks='right\.\*' \(3 blocks\)"
    with pytest.raises(BlocksError, match=both):
        walkback.diagnose(model, batches)
    for side in ("left", "right"):
        taps = sites_of(f"{side}.0", f"{side}.1", f"{side}.2")
        agrees(model, batches, taps, blocks=f"{side}.*")


def test_the_longer_of_two_chains_is_taken():
    model = Towers()
    model.left.append(Residual())
    model.right.append(nn.Identity())
    report = walkback.diagnose(model, labelled(20))
    assert report.provenance["blocks"] == "left.* (found by structure)"


def test_of_nested_chains_the_outer_is_taken():
    class Nested(ResMLP):
        def __init__(self):
            super().__init__(block=lambda: nn.Sequential(Residual()))

    report = walkback.diagnose(Nested(), labelled(20))
    assert report.provenance["blocks"] == "blocks.* (found by structure)"


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(BlocksError, match=r"'block\.0' matches no module of ResMLP\. Did you mean 'blocks\.0'\?"):
        walkback.diagnose(ResMLP(), labelled(20), blocks="block.0")
    with pytest.raises(BlocksError, match=r"'layer\.\*' matches no module of ResMLP\..*Known: blocks, blocks\.0"):
        walkback.diagnose(ResMLP(), labelled(20), blocks="layer.*")


def test_an_unknown_name_in_a_large_model_gets_a_short_suggestion():
    with pytest.raises(BlocksError) as caught:
        walkback.diagnose(ResMLP(depth=12), labelled(20), blocks="block.3")
    assert "Did you mean one like 'blocks.3'" in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "blocks= is empty"),
        ("", "blocks= is empty"),
        (Residual(), "holds a Residual .*part of ResMLP"),
        ([3], "holds int 3; expected dotted names"),
        (7, "blocks=7 is int; expected names"),
        ("unused", "never calls unused with a floating tensor"),
        ("blocks.*#2", r"never calls blocks\.0#2, blocks\.1#2, blocks\.2#2 with a floating tensor"),
        ("blocks.0#x", "names the call 'x'; expected a number from 1 on after '#'"),
        ("blocks.0#0", "names the call '0'; expected a number from 1 on"),
        ("blocks.0,!blocks.*", "leaves out everything that it names"),
        ("!block.*", r"'block\.\*' matches no module"),
        ("blocks.0,blocks.0.up", r"names blocks\.0 and blocks\.0\.up inside it.*'!blocks\.0\.up' leaves the inner"),
    ],
)
def test_blocks_that_are_none(blocks, message):
    model = ResMLP()
    model.unused = nn.Linear(3, 3)
    with pytest.raises(BlocksError, match=message):
        walkback.diagnose(model, labelled(20), blocks=blocks)


@pytest.mark.parametrize("model", [nn.Linear(INPUT, CLASSES), nn.Sequential(nn.Linear(INPUT, CLASSES))])
def test_a_model_without_blocks(model):
    """No argument would help, so none is asked for."""
    with pytest.raises(BlocksError, match=r"has no hidden layer: .* at least one layer before the last\.$"):
        walkback.diagnose(model, labelled(20))


def test_layers_whose_weights_alone_are_used():
    class Functional(nn.Module):
        def __init__(self, call):
            super().__init__()
            self.first, self.second = nn.Linear(INPUT, WIDTH), nn.Linear(WIDTH, CLASSES)
            self.call = call

        def forward(self, inputs):
            return self.call(self.second, torch.tanh(self.call(self.first, inputs)))

    with pytest.raises(BlocksError, match=r"bare parameters such as first\.weight.*Let forward call a module"):
        walkback.diagnose(Functional(lambda layer, x: nn.functional.linear(x, layer.weight, layer.bias)), labelled(20))
    assert len(walkback.diagnose(Functional(lambda layer, x: layer(x)), labelled(20)).residual_norms) == 2


def test_blocks_that_the_output_does_not_depend_on():
    class StemOnly(ResMLP):
        def forward(self, inputs):
            hidden = self.stem(inputs)
            self.body(hidden)
            return self.head(hidden.detach())

    with pytest.raises(BlocksError, match="the loss does not reach the blocks"):
        walkback.diagnose(StemOnly(), labelled(20), blocks="blocks.*")


def test_a_side_branch_that_the_output_does_not_depend_on():
    class SideBranch(ResMLP):
        def forward(self, inputs):
            hidden = self.stem(inputs)
            self.body(hidden)
            return self.head(hidden)

    with pytest.raises(BlocksError, match=r"the loss does not reach site 'blocks\.0'"):
        walkback.diagnose(SideBranch(), labelled(20), blocks="blocks.*")


def test_a_stream_that_is_cut():
    class Cut(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                hidden = block(hidden.detach())
            return hidden

    report = walkback.diagnose(Cut(), labelled(20))
    assert report.reading("a").state is walkback.State.PASS
    assert report.bp_grad_norms is None
    for letter in "bc":
        assert report.reading(letter).state is walkback.State.NOT_MEASURED
        assert "no gradient back to h_1" in report.reading(letter).sentence
        assert "block 2 (blocks.1) cuts it (it calls detach)" in report.reading(letter).sentence


def test_a_block_that_is_cut():
    class CutBlock(Residual):
        def forward(self, hidden):
            return super().forward(hidden).detach()

    report = walkback.diagnose(ResMLP(block=CutBlock), labelled(20), blocks="blocks.*")
    assert "block 1 (blocks.0) cuts it" in report.reading("b").sentence


def test_a_path_that_changes_between_batches():
    class EarlyExit(ResMLP):
        def body(self, hidden):
            for block in self.blocks[: 2 if len(hidden) == 7 else 3]:
                hidden = block(hidden)
            return hidden

    with pytest.raises(BlocksError, match=r"reached 3 of 4 sites, up to 'blocks\.1'"):
        walkback.diagnose(EarlyExit(), labelled(20, 7))


def test_a_stream_that_is_the_output_itself():
    class Headless(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Branch() for _ in range(3))

        def forward(self, hidden):
            for block in self.blocks:
                hidden = hidden + block(hidden)
            return hidden

    batches = labelled(20, shape=(WIDTH,), classes=WIDTH)
    given = walkback.diagnose(Headless(), batches, blocks="blocks.*")
    assert given.sites == ("input of blocks.0", "input of blocks.1", "input of blocks.2", "add after blocks.2")
    # Unaided, the last one is what writes the output.
    assert walkback.diagnose(Headless(), batches).sites[-1] == "input of blocks.2"


def test_sites_without_a_batch_axis():
    class Merged(ResMLP):
        def body(self, hidden):
            return super().body(hidden.reshape(-1, WIDTH)).reshape(hidden.shape)

    with pytest.raises(walkback.errors.BatchError, match=r"site 'input of blocks\.0' has the shape \(.*one row per"):
        walkback.diagnose(Merged(), labelled(20, shape=(5, INPUT)), loss=lambda out, y: out.mean(dim=(1, 2)))


def test_interleaved_towers_of_different_length():
    class Interleaved(Towers):
        def __init__(self):
            super().__init__()
            self.left.insert(0, Residual())

        def forward(self, inputs):
            left, right = (part + 0 for part in self.stem(inputs).chunk(2, dim=-1))
            left = self.left[0](left)
            for one, other in zip(self.left[1:], self.right, strict=True):
                right, left = other(right), one(left)
            return self.head(left + right)

    report = agrees(Interleaved(), labelled(20), sites_of("left.0", "left.1", "left.2", "left.3"))
    assert report.provenance["blocks"] == "left.* (found by structure)"


def test_block_outputs_as_dataclasses():
    from dataclasses import dataclass

    @dataclass
    class Output:
        weights: None
        hidden: torch.Tensor

    class Wrapped(Residual):
        def forward(self, hidden):
            return Output(None, super().forward(hidden))

    class Net(ResMLP):
        def body(self, hidden):
            for block in self.blocks:
                hidden = block(hidden).hidden
            return hidden

    model, plain = Net(block=Wrapped), ResMLP()
    plain.load_state_dict(model.state_dict())
    agrees(model, labelled(20), BLOCKS, reference=plain)


def test_the_report_names_what_it_took_in_one_line():
    report = walkback.diagnose(ResMLP(), labelled(20))
    line = "stem: stem; blocks: blocks.* (3); between: nothing; head: norm, head"
    assert report.provenance["parts"] == line
    assert line in report.to_text().splitlines()
    assert line.replace("*", r"\*") in report.to_markdown()
    plain = walkback.diagnose(plain_sequential(), labelled(20))
    assert plain.provenance["parts"] == "stem: none; blocks: 0,2,4,6 (4); between: ReLU; head: 8"


def quantised():
    layers = nn.Sequential(nn.Linear(INPUT, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}), layers


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_integer_weights_are_named():
    model, plain = quantised()
    with pytest.raises(InputError, match=r"0 is a quantised Linear: its weights are integers.*Pass gradients=False"):
        walkback.diagnose(model, labelled(20))
    with untouched(model):
        (batch,) = read_batches(labelled(4), model)
        chain = chain_of_independent(model, batch, gradients=False)
    assert chain.blocks == ("0", "2")
    assert list(map(str, chain.taps)) == list(walkback.diagnose(plain, labelled(20)).sites)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_integers_passed_on_have_no_sites():
    class Integers(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.leave = torch.ao.quantization.QuantStub(), torch.ao.quantization.DeQuantStub()
            self.net = nn.Sequential(nn.Linear(INPUT, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))

        def forward(self, x):
            return self.leave(self.net(self.enter(x)))

    model = Integers().eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.qconfig = torch.ao.quantization.default_qconfig
        torch.ao.quantization.prepare(model, inplace=True)
        model(labelled(20)[0][0])
        torch.ao.quantization.convert(model, inplace=True)
    with untouched(model):
        (batch,) = read_batches(labelled(4), model)
        with pytest.raises(BlocksError, match=r"is quantised: net\.0 and its like pass integers on"):
            chain_of_independent(model, batch, gradients=False)


def test_a_network_without_modules():
    class Parameters(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList([torch.randn(WIDTH, INPUT), torch.randn(CLASSES, WIDTH)])

        def forward(self, x):
            return (x @ self.weights[0].T).relu() @ self.weights[1].T

    with pytest.raises(BlocksError, match="no chain of blocks was found in Parameters"):
        walkback.diagnose(Parameters(), labelled(20))


def test_packed_sequences_have_no_row_per_sample():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.LSTM(INPUT, INPUT, batch_first=True) for _ in range(2))
            self.head = nn.Linear(INPUT, CLASSES)

        def forward(self, x):
            h = nn.utils.rnn.pack_padded_sequence(x, torch.full((len(x),), x.shape[1]), batch_first=True)
            for layer in self.layers:
                h, (last, _) = layer(h)
            return self.head(last[-1])

    with pytest.raises(walkback.errors.BatchError, match=r"one row per sample.*packed"):
        walkback.diagnose(Packed(), labelled(20, shape=(5, INPUT)))
