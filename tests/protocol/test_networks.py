"""Networks of many kinds: their blocks are found unaided, and every figure is the slow twin's."""

import copy

import pytest
import torch
from agreement import agrees
from small_models import (
    CLASSES,
    INPUT,
    WIDTH,
    Attributes,
    Branch,
    Checkpointed,
    ConvNet,
    DropoutResMLP,
    Encoder,
    FlatConvNet,
    PreNormOutside,
    Regression,
    Residual,
    ResMLP,
    Shared,
    SkipOutside,
    SkipOutsideInPlace,
    Stages,
    TokenNet,
    TupleNet,
    labelled,
    plain_sequential,
    sites_of,
)
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import walkback
from reference import twin

IMAGES = (3, 6, 6)
TOKENS = (5, INPUT)
BLOCKS = sites_of("blocks.0", "blocks.1", "blocks.2")


def inputs_of(*names):
    return [("input", name) for name in names]


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float32, 1e-4), (torch.float64, 1e-9)])
def test_own_residual_mlp(dtype, rtol):
    report = agrees(ResMLP().to(dtype), labelled(100, 128, 60, dtype=dtype), BLOCKS, rtol=rtol)
    assert report.sites == ("input of blocks.0", "blocks.0", "blocks.1", "blocks.2")
    assert report.provenance["blocks"] == "blocks.* (found by structure)"
    assert report.groups == 2
    assert min(report.reference_fidelity) > 0.999999


def test_plain_sequential():
    report = agrees(plain_sequential(), labelled(20, 7), inputs_of("0", "2", "4", "6", "8"))
    assert report.provenance["blocks"] == "0,2,4,6 (found by structure)"


def test_an_activation_in_place_changes_no_figure():
    plain, in_place = plain_sequential(), plain_sequential(inplace=True)
    in_place.load_state_dict(plain.state_dict())
    agrees(in_place, labelled(20, 7), inputs_of("0", "2", "4", "6", "8"), reference=plain)


@pytest.mark.parametrize("log_softmax", [False, True])
def test_layers_as_attributes(log_softmax):
    report = agrees(Attributes(log_softmax), labelled(20, 7), inputs_of("fc1", "fc2", "fc3", "fc4"))
    assert report.provenance["blocks"] == "fc1,fc2,fc3 (found by structure)"


def test_skip_outside_the_block():
    report = agrees(SkipOutside(), labelled(20, 7), inputs_of("blocks.0", "blocks.1", "blocks.2", "norm"))
    assert report.provenance["blocks"] == "blocks.* (found by structure)"


def test_skip_outside_the_block_in_place():
    model, reference = SkipOutsideInPlace(), SkipOutside()
    reference.load_state_dict(model.state_dict())
    taps = inputs_of("blocks.0", "blocks.1", "blocks.2", "norm")
    agrees(model, labelled(20, 7), taps, reference=reference)


def test_skip_around_a_norm_outside_the_block():
    # The blocks read norm(h), whose size never changes: only the norms read the stream itself.
    model = PreNormOutside()
    with torch.no_grad():
        model.blocks[1].down.weight.mul_(1e4)
    report = agrees(model, labelled(20, 7), inputs_of("norms.0", "norms.1", "norms.2", "norm"))
    assert report.provenance["blocks"] == "blocks.* (found by structure)"
    assert "residual stream exploded" in report.verdict


def test_skip_outside_where_the_input_itself_is_the_stream():
    class NoStem(SkipOutsideInPlace):
        def __init__(self):
            super().__init__()
            self.stem = nn.Identity()

    model = NoStem()
    reference = SkipOutside()
    reference.stem = nn.Identity()
    reference.load_state_dict(model.state_dict())
    batches = labelled(20, shape=(WIDTH,))
    before = batches[0][0].clone()
    taps = inputs_of("blocks.0", "blocks.1", "blocks.2", "norm")
    agrees(model, batches, taps, reference=reference)
    inputs = batches[0][0]
    assert inputs.grad_fn is None
    assert not inputs.requires_grad
    assert torch.equal(inputs, before)


def test_alternating_modules_on_one_stream():
    class Alternating(ResMLP):
        def __init__(self):
            super().__init__(depth=0)
            self.layers = nn.ModuleList(nn.ModuleList([Branch(), Residual()]) for _ in range(3))

        def body(self, hidden):
            for mix, refine in self.layers:
                hidden = hidden + mix(hidden)
                hidden = hidden + refine(hidden)
            return hidden

    report = agrees(Alternating(), labelled(20), inputs_of("layers.0.0", "layers.1.0", "layers.2.0", "norm"))
    assert report.provenance["blocks"] == "layers.*.0 (found by structure)"


def test_own_cnn_with_batchnorm():
    agrees(ConvNet(), labelled(20, 7, shape=IMAGES), sites_of("features.0", "features.1", "features.2"))


def test_flat_cnn_with_batchnorm():
    taps = inputs_of("features.0", "features.3", "features.6", "pool")
    report = agrees(FlatConvNet(), labelled(20, shape=IMAGES), taps)
    assert report.provenance["blocks"] == "features.0,features.3,features.6 (found by structure)"


def test_stages_with_something_in_between_are_joined():
    names = [f"stages.{stage}.{block}" for stage in range(3) for block in range(2)]
    report = agrees(Stages(), labelled(20), inputs_of(*names, "head"))
    assert report.provenance["blocks"] == "stages.*.* (found by structure)"


@pytest.mark.parametrize("padded", [False, True])
def test_transformer_encoder(padded):
    batches = labelled(20, 7, shape=TOKENS)
    if padded:
        padding = [torch.arange(5) >= torch.randint(2, 6, (len(y), 1)) for _, y in batches]
        batches = [((x, mask), y) for (x, y), mask in zip(batches, padding, strict=True)]
    report = agrees(Encoder(), batches, sites_of("encoder.layers.0", "encoder.layers.1"))
    assert report.site_reduction == "all tokens, flattened of (B, T, d)"
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("length", [5, 4, 20])
def test_transformer_encoder_with_the_sequence_first(length):
    # 4 samples are looked at first: a sequence of 4 must not be taken for them, nor one of 20 for the batch.
    batches = [(x.transpose(0, 1), y) for x, y in labelled(20, 7, shape=(length, INPUT))]
    agrees(Encoder(batch_first=False), batches, sites_of("encoder.layers.0", "encoder.layers.1"), sequence_first=True)


def test_dropout():
    agrees(DropoutResMLP(), labelled(20, 7), BLOCKS)


def test_tied_weights():
    model = ResMLP()
    model.blocks[2].up.weight = model.blocks[0].up.weight
    agrees(model, labelled(20, 7), BLOCKS)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_activation_checkpointing(reentrant, training):
    model = Checkpointed(reentrant).train(training)
    plain = ResMLP()
    plain.load_state_dict(model.state_dict())
    report = agrees(model, labelled(20, 7), BLOCKS, reference=plain)
    assert min(report.reference_fidelity) > 0.999999
    assert torch.utils.checkpoint.CheckpointFunction.__name__ == "CheckpointFunction"


def test_a_block_used_three_times_is_three_blocks():
    report = agrees(Shared(), labelled(20, 7), sites_of("blocks.0", "blocks.0", "blocks.0"))
    assert report.sites == ("input of blocks.0#1", "blocks.0#1", "blocks.0#2", "blocks.0#3")
    assert report.provenance["blocks"] == "blocks.0 (found by structure)"


def test_a_module_that_is_used_before_the_stream_begins():
    class Early(PreNormOutside):
        """The first norm also normalises the embedding."""

        def body(self, hidden):
            return super().body(self.norms[0](hidden) + hidden)

    model, batches = Early(), labelled(20)
    report = walkback.diagnose(model, batches)
    sites, _ = twin.run(model, batches[0][0], inputs_of("norms.0", "norms.0", "norms.1", "norms.2", "norm"))
    norms = [site.detach().double().norm(dim=1).quantile(0.5).item() for site in sites]
    assert report.residual_norms == pytest.approx(norms[1:], rel=1e-4)


def test_a_shared_activation():
    activation = nn.ReLU()
    model = nn.Sequential(nn.Linear(INPUT, WIDTH), *(Branch(activation) for _ in range(3)), nn.Linear(WIDTH, CLASSES))
    agrees(model, labelled(20), sites_of("1", "2", "3"))


def test_blocks_that_add_in_place():
    class AddsInPlace(Residual):
        def forward(self, hidden):
            branch = self.down(self.activation(self.up(self.norm(hidden))))
            branch += hidden
            return branch

    model, reference = ResMLP(block=AddsInPlace), ResMLP()
    reference.load_state_dict(model.state_dict())
    agrees(model, labelled(20, 7), BLOCKS, reference=reference)


def test_blocks_that_overwrite_what_backpropagation_would_need():
    class Overwrites(Residual):
        def forward(self, hidden):
            hidden += self.down(self.activation(self.up(self.norm(hidden))))
            return hidden

    model, reference = ResMLP(block=Overwrites), ResMLP()
    reference.load_state_dict(model.state_dict())
    with pytest.raises(RuntimeError, match="inplace"):
        model(torch.randn(3, INPUT)).sum().backward()
    agrees(model, labelled(20, 7), BLOCKS, reference=reference)


def test_blocks_with_keyword_arguments_and_nested_outputs():
    # A float mask comes first among the arguments; it is not the stream.
    report = agrees(TupleNet(), labelled(20, 7), BLOCKS, reference=_as_plain(TupleNet))
    assert report.provenance["blocks"] == "blocks.* (found by structure)"


def _as_plain(kind):
    torch.manual_seed(0)
    model = kind()
    plain = ResMLP()
    plain.load_state_dict(model.state_dict())
    return plain


def test_weight_norm_parametrization():
    model = ResMLP()
    for block in model.blocks:
        weight_norm(block.up)
    agrees(model, labelled(20, 7), BLOCKS)


def test_parametrized_layers_in_a_row():
    # Every parametrized module has a class of its own.
    model = nn.Sequential(*(weight_norm(m) if isinstance(m, nn.Linear) else m for m in plain_sequential()))
    report = walkback.diagnose(model, labelled(20))
    assert report.provenance["blocks"] == "0,2,4,6 (found by structure)"


def test_frozen_parameters():
    model = ResMLP()
    reference = copy.deepcopy(model)
    model.requires_grad_(False)
    agrees(model, labelled(20, 7), BLOCKS, reference=reference)


def test_half_frozen_parameters():
    model = ResMLP()
    model.stem.requires_grad_(False)
    model.blocks[1].requires_grad_(False)
    agrees(model, labelled(20, 7), BLOCKS)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_around_it(mode):
    model, batches = ResMLP(), labelled(20, 7)
    expected = walkback.diagnose(model, batches)
    with mode():
        made_inside = [(x.clone(), y.clone()) for x, y in batches]
        report = walkback.diagnose(model, made_inside)
        assert not torch.is_grad_enabled()
        assert torch.is_inference_mode_enabled() == (mode is torch.inference_mode)
    assert report == expected
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_float_targets_made_under_inference_mode():
    model, batches = Regression(), [(x, torch.randn(len(y))) for x, y in labelled(20)]

    def loss(out, target):
        return out * target  # autograd has to save the target, which it refuses to do with inference tensors

    expected = walkback.diagnose(model, batches, loss=loss)
    with torch.inference_mode():
        report = walkback.diagnose(model, [(x.clone(), y.clone()) for x, y in batches], loss=loss)
    assert report == expected


def test_a_stem_without_gradients():
    class FrozenStem(SkipOutside):
        def forward(self, inputs):
            with torch.no_grad():
                hidden = self.stem(inputs).view(len(inputs), WIDTH)
            return self.head(self.norm(self.body(hidden)))

    model, reference = FrozenStem(), SkipOutside()
    reference.load_state_dict(model.state_dict())
    agrees(model, labelled(20), inputs_of("blocks.0", "blocks.1", "blocks.2", "norm"), reference=reference)


def test_a_stream_that_begins_as_a_parameter():
    class Latents(ResMLP):
        def __init__(self):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(1, WIDTH))
            self.read = nn.Bilinear(WIDTH, INPUT, WIDTH)

        def forward(self, inputs):
            hidden = self.body(self.latents.expand(len(inputs), -1))
            return self.head(self.norm(hidden + self.read(hidden, inputs)))

    model = Latents()
    agrees(model, labelled(20), BLOCKS)
    assert model.latents.is_leaf
    assert model.latents.requires_grad


def compiled_whole(model, backend):
    return torch.compile(model, backend=backend)


def compiled_in_place(model, backend):
    model.compile(backend=backend)
    return model


def compiled_block(model, backend):
    model.blocks[1] = torch.compile(model.blocks[1], backend=backend)
    return model


def compiled_function(model, backend):
    for block in model.blocks:
        block.activation.forward = torch.compile(block.activation.forward, backend=backend)
    return model


# torch's own compiler looks at .grad of the tensors that enter a compiled block, and torch warns about that.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("compiled", [compiled_whole, compiled_in_place, compiled_block, compiled_function])
def test_compiled_models(compiled, used):
    compilations = []

    def backend(graph, _inputs):
        compilations.append(graph)
        return graph.forward

    model = ResMLP()
    reference = copy.deepcopy(model)
    model = compiled(model, backend)
    if used:
        model(torch.randn(3, INPUT)).sum().backward()
    before = len(compilations)
    implementations = [m.__dict__.get("_compiled_call_impl") for m in model.modules()]
    report = agrees(model, labelled(20, 7), BLOCKS, reference=reference)
    assert report.provenance["blocks"] == "blocks.* (found by structure)"
    # To compile for the sake of a measurement would cost more than the measurement.
    assert len(compilations) == before
    assert [m.__dict__.get("_compiled_call_impl") for m in model.modules()] == implementations
    x = torch.randn(3, INPUT)
    torch.testing.assert_close(model(x), reference(x))
    assert compilations


def test_data_parallel_is_looked_into():
    model = ResMLP()
    report = agrees(nn.DataParallel(model), labelled(20), BLOCKS, reference=model)
    assert report.provenance["model"] == "ResMLP"


def test_distributed_data_parallel_is_looked_into(tmp_path):
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = ResMLP()
        wrapped = nn.parallel.DistributedDataParallel(model)
        agrees(wrapped, labelled(20), BLOCKS, reference=model)
    finally:
        torch.distributed.destroy_process_group()


def test_regression_with_a_loss_of_ones_own():
    batches = [(x, torch.randn(len(y))) for x, y in labelled(20, 7)]
    report = agrees(Regression(), batches, BLOCKS, loss=lambda out, target: (out - target) ** 2)
    assert report.headline_acc is None


def test_binary_labels_with_a_loss_of_ones_own():
    def loss(logits, target):
        return nn.functional.binary_cross_entropy_with_logits(logits, target.float(), reduction="none")

    batches = [(x, y > 0) for x, y in labelled(20, 7)]
    agrees(Regression(), batches, BLOCKS, loss=loss)


def test_token_level_targets_with_ignored_tokens():
    batches = []
    for x, _ in labelled(20, 7, shape=TOKENS):
        targets = torch.randint(0, CLASSES, x.shape[:2])
        targets[:, 1:][torch.rand(len(x), 4) < 0.4] = -100
        batches.append((x, targets))
    report = agrees(TokenNet(reads="each"), batches, sites_of("blocks.0", "blocks.1"))
    assert report.headline_samples == sum(len(y) for _, y in batches)  # sequences are what is independent
    assert report.headline_answers == sum(int((y != -100).sum()) for _, y in batches)


def test_alignment():
    torch.manual_seed(3)
    feedback = [torch.randn(CLASSES, WIDTH, dtype=torch.float64) for _ in range(4)]

    def credit(hiddens, logits, targets):
        error = logits.double().softmax(-1) - nn.functional.one_hot(targets, CLASSES)
        return [error @ matrix for matrix in feedback]

    report = agrees(ResMLP(), labelled(20, 7), BLOCKS, credit=credit)
    assert report.alignment.deep == pytest.approx(sum(report.alignment.sites[1:]) / 3)


def test_recurrent_layers():
    class Stacked(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Linear(INPUT, WIDTH)
            self.layers = nn.ModuleList(nn.LSTM(WIDTH, WIDTH, batch_first=True) for _ in range(3))
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, tokens):
            hidden = self.embed(tokens)
            for layer in self.layers:
                hidden, _ = layer(hidden)
            return self.head(hidden[:, -1])

    report = agrees(Stacked(), labelled(20, shape=TOKENS), sites_of("layers.0", "layers.1", "layers.2"))
    assert min(report.reference_fidelity) > 0.999999


def test_token_ids_and_several_inputs():
    class Embedded(ResMLP):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, WIDTH, max_norm=1.0)
            with torch.no_grad():
                self.embed.weight.mul_(3)

        def forward(self, ids, scale, flag=None):
            assert flag is None
            return self.head(self.norm(self.body(self.embed(ids) * scale)))

    model = Embedded()
    before = model.embed.weight.detach().clone()
    batches = [((torch.randint(0, 10, (n,)), torch.rand(n, 1)), torch.randint(0, CLASSES, (n,))) for n in (20, 7)]
    agrees(model, batches, BLOCKS)
    assert torch.equal(model.embed.weight, before)


@pytest.mark.parametrize("how", ["in place", "through .data"])
def test_a_stream_that_is_written_to_in_some_batches_alone(how):
    """The first batch shows nothing of it, so no copies are made at first."""

    class Spoils(Residual):
        def forward(self, hidden):
            out = super().forward(hidden)
            with torch.no_grad():
                late = bool((hidden.detach()[:, 0] > 0).all())
                if late and how == "in place":
                    hidden.mul_(3.0)
                elif how == "through .data":
                    hidden.data.mul_(3.0)
            return out

    torch.manual_seed(0)
    plain, spoils = ResMLP(), ResMLP(block=Spoils)
    spoils.load_state_dict(plain.state_dict())
    with torch.no_grad():
        for model in (plain, spoils):
            model.stem.bias[0] = 0.0
            model.stem.weight[0] = torch.eye(INPUT)[0]
    (early, targets), (late, _) = labelled(300, 300)
    late[:, 0] = 5.0
    batches = [(early, targets), (late, targets)]
    assert walkback.diagnose(spoils, batches).residual_norms == walkback.diagnose(plain, batches).residual_norms


def test_what_the_stem_makes_besides_the_stream_is_in_fp64_too_where_it_has_to_be():
    class Mixes(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = None
            self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)

        def forward(self, hidden):
            return hidden + (hidden @ self.mix) @ self.weight

    class MadeByTheStem(ResMLP):
        def forward(self, inputs):
            for block in self.blocks:
                block.mix = torch.eye(WIDTH) + self.stem.weight[:, :WIDTH]
            return super().forward(inputs)

    torch.manual_seed(0)
    report = walkback.diagnose(MadeByTheStem(block=Mixes), labelled(20))
    assert min(report.reference_fidelity) > 0.999999
    assert report.no_fidelity == ""
