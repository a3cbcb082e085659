"""The rule of sites, held by a table of networks as people write them: h_l and g_l are those of the forward pass
written out by hand, to 1e-6."""

import copy
import re

import models_as_written as written
import pytest
import torch
import torch.nn.functional as F
from models_as_written import CLASSES, TOKENS, D
from small_models import labelled
from torch import nn

import walkback
from walkback.errors import BatchError, BlocksError

VECTORS, SEQUENCES, IMAGES, PAIRS = (D,), (TOKENS, 5), (2, 8, 8), (2, D)


def truth(model, batches, loss=F.cross_entropy, **which):
    """(median ‖h_l‖, median ‖g_l‖) by the forward pass written out by hand, one sample at a time in fp64."""
    model = copy.deepcopy(model).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    norms, grads = [], []
    for inputs, targets in batches:
        for i in range(len(targets)):
            x = inputs[i : i + 1]
            x = x.clone().requires_grad_() if x.is_floating_point() else x
            sites, logits = model.sites(x, **which)
            found = torch.autograd.grad(loss(logits, targets[i : i + 1]).sum(), sites)
            norms.append([float(site.detach().norm()) for site in sites])
            grads.append([float(grad.norm()) / 128 for grad in found])
    return [torch.tensor(rows, dtype=torch.float64).quantile(0.5, dim=0).tolist() for rows in (norms, grads)]


def agrees(model, shape, pattern, *, which=None, given=None, batches=None, plain=None, loss=F.cross_entropy, **options):
    """Diagnose unaided, or with `given` blocks; hold blocks, norms and gradients against the truth."""
    torch.manual_seed(1)
    model = model.double()
    batches = batches or labelled(9, 5, shape=shape, classes=CLASSES, dtype=torch.float64)
    options |= {"loss": loss} if loss is not F.cross_entropy else {}
    report = walkback.diagnose(model, batches, **{"blocks": given, "tokens": "flatten"} | options)
    norms, grads = truth((plain or model).double(), batches, loss, **(which or {}))
    assert report.residual_norms == pytest.approx(norms, rel=1e-6)
    assert report.bp_grad_norms == pytest.approx(grads, rel=1e-6)
    how = "given" if given else "found by structure"
    assert report.provenance["blocks"] == f"{pattern} ({how})"
    return report


PLAIN = {
    "64-63-63-63-10": (lambda: written.Sequential(64, 63, 63, 63, 10), (64,), "net.0,net.2,net.4"),
    "64-64-64-64-10": (lambda: written.Sequential(64, 64, 64, 64, 10), (64,), "net.0,net.2,net.4"),
    "64-65-65-65-10": (lambda: written.Sequential(64, 65, 65, 65, 10), (64,), "net.0,net.2,net.4"),
    "64-32-16-10": (lambda: written.Sequential(64, 32, 16, 10), (64,), "net.0,net.2"),
    "one hidden layer": (lambda: written.Sequential(D, 4, CLASSES), VECTORS, "net.0"),
    "one hidden layer of the input's width": (lambda: written.Sequential(D, D, CLASSES), VECTORS, "net.0"),
    "tanh": (lambda: written.Sequential(D, 5, 4, CLASSES, activation=nn.Tanh), VECTORS, "net.0,net.2"),
    "ReLU in place": (lambda: written.Sequential(D, 5, 4, CLASSES, inplace=True), VECTORS, "net.0,net.2"),
    "norm before the activation": (
        lambda: written.Sequential(D, 5, 4, CLASSES, norm=nn.LayerNorm),
        VECTORS,
        "net.0,net.3",
    ),
    "norm before the only activation": (
        lambda: written.Sequential(D, 5, CLASSES, norm=nn.LayerNorm),
        VECTORS,
        "net.0",
    ),
    "functions": (written.FunctionalMLP, (2, D), "fc1,fc2"),
    "first layer with a name of its own": (written.NamedEnds, VECTORS, "input,hidden.0,hidden.1"),
    "norm after each activation": (written.NormAfter, VECTORS, "layers.*"),
    "norm at the end alone": (written.TerminalNorm, VECTORS, "layers.*"),
    "LeNet": (written.LeNet, IMAGES, "conv1,conv2,fc1"),
    "flat CNN": (written.FlatCNN, IMAGES, "features.0,features.4"),
    "flat CNN of one stage": (lambda: written.FlatCNN(1), IMAGES, "features.0"),
    "flat CNN without pooling": (lambda: written.FlatCNN(3, pool=False), IMAGES, "features.0,features.3,features.6"),
    "pooling that leaves space": (lambda: written.PoolToSpace(2), IMAGES, "convs.*"),
    "pooling that leaves space, one stage": (lambda: written.PoolToSpace(1), IMAGES, "convs.0"),
    "stages of growing width": (written.Stages, IMAGES, "stages.*"),
    "gates beside convolutions": (written.SqueezeExcite, IMAGES, "convs.*"),
    "VGG": (written.VGG, IMAGES, "block1.0,block2.0,block2.2,classifier.0"),
    "maxout": (written.Maxout, VECTORS, "fc1,fc2"),
    "a head that is no module": (written.Prototypes, VECTORS, "features.0,features.2"),
    "activations inside the layers, and squares behind the last": (written.Goodness, VECTORS, "layers.*"),
    "an activation inside the layer, and squares behind it": (lambda: written.Goodness(1), VECTORS, "layers.0"),
    "softmax of the only layer": (lambda: written.OneActivation("softmax"), VECTORS, "fc"),
    "the largest of the only layer": (lambda: written.OneActivation("largest"), VECTORS, "fc"),
    "an activation with a slope behind the only layer": (lambda: written.OneActivation("swish"), VECTORS, "fc"),
    "a classifier on each layer": (written.ClassifierPerLayer, VECTORS, "layers.*"),
    "the input joins again": (written.SkipIn, VECTORS, "layers.*"),
    "edges from the input": (written.NeighboursByLikeness, SEQUENCES, "w*"),
    "graph layers": (written.GraphNet, SEQUENCES, "layers.*"),
}

STREAMS = {
    **{
        f"parent's skip, {end}": (lambda end=end: written.ParentSkip(end), SEQUENCES, "layers.*")
        for end in written.ENDS
    },
    "parent's skip in place": (lambda: written.ParentSkip(inplace=True), SEQUENCES, "layers.*"),
    "parent's skip, mean over space": (lambda: written.ParentSkipConv("mean"), IMAGES, "convs.*"),
    "parent's skip, pooled and indexed": (lambda: written.ParentSkipConv("index"), IMAGES, "convs.*"),
    "parent's skip, pooled and flattened": (lambda: written.ParentSkipConv("flat"), IMAGES, "convs.*"),
    "parent's skip and activation": (lambda: written.ParentSkipConv("mean", 3, nn.ReLU), IMAGES, "convs.*"),
    "parent's norm and skip": (written.ParentPreNorm, SEQUENCES, "branches.*"),
    "norms as functions": (lambda: written.ParentPreNorm(modules=False), SEQUENCES, "branches.*"),
    "the input is the stream": (lambda: written.ParentPreNorm(False, stem=False), (TOKENS, D), "branches.*"),
    "norm after the skip": (written.ParentPostNorm, SEQUENCES, "branches.*"),
    "layer scale": (written.LayerScale, VECTORS, "branches.*"),
    "DenseNet": (written.DenseNet, IMAGES, "layers.*"),
    "a skip around all": (written.GlobalSkip, VECTORS, "body.*"),
    "ViT, class token": (written.VisionTransformer, IMAGES, "blocks.*"),
    "ViT, average": (lambda: written.VisionTransformer("avg"), IMAGES, "blocks.*"),
    "ResNet": (written.ResNet, IMAGES, "layer*.*"),
    "Swin": (written.Swin, SEQUENCES, "stages.*.*"),
    "ModuleDict": (written.HeldInDict, VECTORS, "blocks.*"),
    "nested lists": (written.NestedLists, VECTORS, "groups.*.*"),
    "another order": (written.OtherOrder, VECTORS, "blocks.*"),
    "tied": (written.Tied, VECTORS, "blocks.0"),
    "tuples": (written.Tuples, VECTORS, "blocks.*"),
    "keywords": (written.Keywords, VECTORS, "blocks.*"),
    "checkpointed": (written.CheckpointedTower, VECTORS, "blocks.*"),
    "checkpointed branches": (written.CheckpointedParentSkip, SEQUENCES, "layers.*"),
    "stochastic depth": (written.StochasticDepth, VECTORS, "blocks.*"),
    "two kinds of blocks": (written.OtherKinds, VECTORS, "blocks.*"),
    "mixture of experts": (written.Mixture, SEQUENCES, "layers.*"),
    "selective scan": (written.StateSpace, SEQUENCES, "mixers.*"),
    "LSTM layers": (written.LSTMStack, SEQUENCES, "layers.*"),
    "nn.TransformerEncoder": (written.Encoder, SEQUENCES, "encoder.layers.*"),
    "layers in dictionaries": (written.LayersInDicts, SEQUENCES, "layers.*.attn"),
    "torchvision's DenseNet": (written.TorchvisionDenseNet, IMAGES, "features.1,features.3"),
    "ReZero": (written.ReZero, VECTORS, "layers.*"),
    "neural ODE": (written.NeuralODE, VECTORS, "field"),
    "a buffer": (written.InABuffer, VECTORS, "blocks.*"),
    "TorchScript between blocks": (written.Scripted, VECTORS, "blocks.*"),
    "a fixed point from nothing": (written.FixedPoint, VECTORS, "layer#2,layer#3,layer#4"),
    "conditioned": (written.Conditioned, (2, D), "blocks.*"),
    "low-rank layers beside the others": (written.LowRank, VECTORS, "net.0,net.2"),
    "skips around two layers of two lists": (written.SkipAroundTwo, VECTORS, "up.*"),
    "skips around two layers of one list": (
        lambda: written.SkipAroundTwo(1),
        VECTORS,
        "layers.0,layers.2,layers.4",
    ),
    "Runge-Kutta": (written.RungeKutta, VECTORS, "field#1,field#5"),
    "stages of one block, and a stem in a container like theirs": (written.ShallowStages, IMAGES, "layer*.0"),
    "branches of two layers without an activation": (written.LinearBranches, VECTORS, "branches.*"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_layers_of_a_plain_network(name):
    build, shape, blocks = PLAIN[name]
    agrees(build(), shape, blocks)


@pytest.mark.parametrize("name", STREAMS)
def test_residual_streams(name):
    build, shape, blocks = STREAMS[name]
    agrees(build(), shape, blocks)


def test_there_are_enough_of_them():
    assert len(PLAIN) + len(STREAMS) >= 50


def test_an_autoencoder_and_a_loss_of_its_own():
    batches = [(x, x) for x, _ in labelled(9, 5, shape=VECTORS, dtype=torch.float64)]

    def loss(out, target):
        return (out - target).square().sum(dim=1)

    agrees(written.Autoencoder(), VECTORS, "encoder.0,encoder.2,decoder.0", batches=batches, loss=loss)


@pytest.mark.parametrize("shape", [(D,), (TOKENS, D)])
def test_a_view_that_is_written_to_later(shape):
    """The stream is the left half of what the stem wrote, and each skip is added in place."""

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Linear(D, 2 * D), nn.Linear(D, CLASSES)
            self.layers = nn.ModuleList(written.Branch() for _ in range(2))

        def forward(self, x):
            start = self.stem(x)
            h, rest = start[..., :D], start[..., D:]
            for f in self.layers:
                h += f(h)
            h = h * torch.sigmoid(rest)
            return self.head(h.mean(1) if h.ndim > 2 else h)

        def sites(self, x):
            start = self.stem(x)
            h0, rest = start[..., :D] + 0, start[..., D:]
            h1 = h0 + self.layers[0](h0)
            h2 = h1 + self.layers[1](h1)
            out = h2 * torch.sigmoid(rest)
            return [h0, h1, h2], self.head(out.mean(1) if out.ndim > 2 else out)

    agrees(Half(), shape, "layers.*")


def test_a_recurrent_layer_of_which_the_last_state_alone_is_used():
    batches = [(torch.randint(0, 10, (n, TOKENS)), torch.randint(0, CLASSES, (n,))) for n in (9, 5)]
    agrees(written.GRULastState(), None, "gru", batches=batches)


def test_the_last_site_is_after_the_activation_with_one_block_as_with_two():
    for depth, after in ((1, nn.ReLU), (1, nn.Identity), (2, nn.ReLU), (3, nn.ReLU)):
        model = written.ParentSkipConv("mean", depth, after)
        blocks = "convs.0" if depth == 1 else "convs.*"
        agrees(model, IMAGES, blocks, given=blocks)
    for depth in (1, 2):
        agrees(written.ParentSkip(depth=depth), SEQUENCES, "layers.0" if depth == 1 else "layers.*", given="layers.*")
        model = written.ParentPreNorm(depth=depth)
        agrees(model, SEQUENCES, "branches.0" if depth == 1 else "branches.*", given="branches.*")


@pytest.mark.parametrize("end", written.ENDS)
def test_a_last_block_that_explodes_in_front_of_the_pooling_fires(end):
    model = written.ParentSkip(end)
    with torch.no_grad():
        model.layers[-1].down.weight.mul_(1000)
        model.layers[-1].down.bias.mul_(1000)
    report = agrees(model, SEQUENCES, "layers.*")
    assert report.max_per_block_growth > 50
    assert "residual stream exploded" in report.verdict


def test_compiled():
    model = written.ParentSkip()
    compiled = torch.compile(copy.deepcopy(model).double(), backend="eager")
    agrees(compiled, SEQUENCES, "layers.*", plain=model)


def test_data_parallel():
    model = written.ParentSkip()
    agrees(nn.DataParallel(model), SEQUENCES, "layers.*", plain=model)


# What is a matter of choice is refused, and every option that is offered works.


def offered(error):
    """The arguments that an error names."""
    found = re.findall(r"(?:blocks='([^']+)' \(\d+ block|logits=([^ ,]+))", str(error.value))
    return [blocks or logits for blocks, logits in found]


CHOICES = {
    "siamese": (written.Siamese, PAIRS, ["encoder.1#1,encoder.2#1,encoder.3#1", "encoder.1#2,encoder.2#2,encoder.3#2"]),
    "siamese MLP": (written.SiameseMLP, PAIRS, ["encoder.0#1,encoder.2#1", "encoder.0#2,encoder.2#2"]),
    "two towers": (written.TwoTowers, VECTORS, ["left.*", "right.*"]),
    "encoder and decoder": (written.EncoderDecoder, SEQUENCES, ["encoder.*", "decoder.*"]),
    "highway": (written.Highway, VECTORS, ["gates.*", "layers.*"]),
    "side by side": (written.Parallel, SEQUENCES, ["attn.*", "mlp.*"]),
    "gated": (written.Gated, VECTORS, ["values.*", "gates.*"]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_options_that_are_offered_work(name):
    build, shape, options = CHOICES[name]
    model = build()
    with pytest.raises(BlocksError) as error:
        walkback.diagnose(model, labelled(9, shape=shape))
    assert offered(error) == options
    for side, option in enumerate(options):
        agrees(model, shape, option, given=option, which={"side": side})


def test_a_u_net_is_refused_and_the_option_works():
    model = written.UNet()
    with pytest.raises(BlocksError, match=r"between down1 and down2 no one tensor is all of the stream") as error:
        walkback.diagnose(model, labelled(9, shape=IMAGES))
    (option,) = offered(error)
    agrees(model, IMAGES, option, given=option)


@pytest.mark.parametrize(
    ("build", "shape"),
    [(written.Coupled, VECTORS), (written.WaveNet, VECTORS), (written.SequenceToSequence, SEQUENCES)],
)
def test_a_stream_that_is_not_one_tensor(build, shape):
    model, batches = build(), labelled(9, shape=shape)
    with pytest.raises(BlocksError, match=r"no one tensor is all of the stream.*hands on more than one") as error:
        walkback.diagnose(model, batches)
    (option,) = offered(error)
    assert walkback.diagnose(model, batches, blocks=option).provenance["blocks"] == f"{option} (given)"


UNROLLED = {
    "spiking": (written.SpikingMLP, VECTORS, ["fc1#1,fc2#1", "fc1#2,fc2#2", "fc1#3,fc2#3"]),
    "a cell for each token": (written.CellRNN, SEQUENCES, ["cell#4", "cell"]),
    "recurrence by hand": (written.HandRNN, SEQUENCES, ["x*#4", "h1#2,h1#3,h1#4"]),
    "an output at each step": (
        written.TwoReadouts,
        SEQUENCES,
        ["to_state#3", "to_state#1,to_state#2,to_state#3"],
    ),
}


@pytest.mark.parametrize("name", UNROLLED)
def test_networks_unrolled_in_time(name):
    build, shape, options = UNROLLED[name]
    model, batches = build(), labelled(9, shape=shape)
    with pytest.raises(BlocksError, match=r"[Dd]epth is layers") as error:
        walkback.diagnose(model, batches)
    assert offered(error) == options
    for option in options:
        report = walkback.diagnose(model, batches, blocks=option)
        assert report.provenance["blocks"] == f"{option} (given)"
        assert len(report.residual_norms) == len(report.sites) > 1


def test_the_steps_of_a_cell():
    """blocks='cell' counts the steps as depth: h_0 is the first token, for the state is empty; then come the states."""
    torch.manual_seed(0)
    model, batches = written.CellRNN().double(), labelled(9, shape=SEQUENCES, dtype=torch.float64)
    report = walkback.diagnose(model, batches, blocks="cell")
    x, h, states = batches[0][0], torch.zeros(9, D, dtype=torch.float64), []
    for t in range(TOKENS):
        h = model.cell(x[:, t], h)
        states.append(float(h.detach().norm(dim=1).quantile(0.5)))
    first = float(x[:, 0].norm(dim=1).quantile(0.5))
    assert report.residual_norms == pytest.approx([first, *states], rel=1e-9)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_the_layers_at_a_step_are_read_behind_the_state_that_each_keeps(step):
    """A layer's own state from the step before joins what it wrote: the last layer's site is behind that, like all."""
    torch.manual_seed(0)
    model, batches = written.SpikingMLP().double(), labelled(9, shape=VECTORS, dtype=torch.float64)
    report = walkback.diagnose(model, batches, blocks=f"fc1#{step},fc2#{step}")
    x, mem1, mem2 = batches[0][0], 0, 0
    for _ in range(step):
        mem1 = 0.9 * mem1 + model.fc1(x)
        mem2 = 0.9 * mem2 + model.fc2(torch.sigmoid(mem1))
    # Before the last step the membranes lead on to the next one, so that not everything passes their outputs.
    last = step == 3
    sites = [x, torch.sigmoid(mem1) if last else mem1, torch.sigmoid(mem2) if last else mem2]
    norms = [float(site.detach().norm(dim=1).quantile(0.5)) for site in sites]
    assert report.residual_norms == pytest.approx(norms, rel=1e-9)


def test_the_layers_of_a_recurrence_by_hand_at_its_last_step():
    torch.manual_seed(0)
    model, batches = written.HandRNN().double(), labelled(9, shape=SEQUENCES, dtype=torch.float64)
    report = walkback.diagnose(model, batches, blocks="h1#4,x2#4")
    x, a, b, states = batches[0][0], torch.zeros(9, D).double(), torch.zeros(9, D).double(), []
    for t in range(TOKENS):
        before = a
        a = torch.tanh(model.x1(x[:, t]) + model.h1(a))
        b = torch.tanh(model.x2(a) + model.h2(b))
        states = [before, a, b]
    norms = [float(state.detach().norm(dim=1).quantile(0.5)) for state in states]
    assert report.residual_norms == pytest.approx(norms, rel=1e-9)


def test_several_recurrent_layers_in_one_module():
    class Fused(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(5, D, num_layers=3, batch_first=True), nn.Linear(D, CLASSES)

        def forward(self, x):
            return self.head(self.lstm(x)[0][:, -1])

    model, batches = Fused(), labelled(9, shape=SEQUENCES)
    with pytest.raises(BlocksError, match=r"nn\.LSTM of 3 layers in one module.*Stack single-layer ones") as error:
        walkback.diagnose(model, batches)
    (option,) = offered(error)
    assert walkback.diagnose(model, batches, blocks=option).sites == ("input of lstm", "lstm")


def test_one_block_alone_is_offered():
    model = written.ParentSkip(depth=1)
    with pytest.raises(BlocksError, match="no chain of blocks") as error:
        walkback.diagnose(model, labelled(9, shape=SEQUENCES))
    (option,) = offered(error)
    agrees(model, SEQUENCES, option, given=option)


def test_a_network_that_writes_weights_is_no_chain_of_blocks():
    with pytest.raises(BlocksError, match=r"it computes with bare parameters such as codes.*a module for each layer"):
        walkback.diagnose(written.Hypernetwork(), labelled(9, shape=VECTORS))


@pytest.mark.parametrize("first", [False, True])
def test_layers_that_are_no_modules_are_not_left_out_in_silence(first):
    model, batches = written.HalfBare(first), labelled(9, shape=VECTORS)
    with pytest.raises(
        BlocksError, match=r"only fc was found in HalfBare: .* bare parameters such as weights\.0"
    ) as error:
        walkback.diagnose(model, batches)
    assert offered(error) == ["fc"]
    assert walkback.diagnose(model, batches, blocks="fc").provenance["blocks"] == "fc (given)"


# The ends, where they are named.


def test_a_named_head_and_stem():
    model, layers = written.VGG(), "block1.0,block2.0,block2.2"
    for named in ({"head": "classifier"}, {"head": model.classifier}, {"blocks": "!classifier"}):
        report = agrees(model, IMAGES, layers, which={"blocks": slice(4)}, **named)
        assert report.provenance["parts"].endswith("head: classifier")
    later = {"stem": "block1", "head": ["classifier"]}
    report = agrees(model, IMAGES, "block2.0,block2.2", which={"blocks": slice(1, 4)}, **later)
    assert report.provenance["parts"].startswith("stem: block1; blocks: block2.0,block2.2 (2);")


def test_a_named_head_ends_the_last_stage():
    """A norm that stands after every layer belongs to the stages; named as the head, the last one does not."""
    model = written.NormAfter()
    report = walkback.diagnose(model, labelled(9, shape=VECTORS), head="norms.1")
    assert report.sites == ("input of layers.0", "input of layers.1", "input of norms.1")


@pytest.mark.parametrize("end", ["stem", "head"])
def test_ends_that_are_none(end):
    model = written.VGG()
    model.unused = nn.Linear(3, 3)
    with pytest.raises(BlocksError, match=rf"never calls what {end}= names"):
        walkback.diagnose(model, labelled(9, shape=IMAGES), **{end: "unused"})
    with pytest.raises(BlocksError, match=rf"{end}='heads' matches no module"):
        walkback.diagnose(model, labelled(9, shape=IMAGES), **{end: "heads"})


@pytest.mark.parametrize("named", [{"blocks": "!*,!*.*"}, {"head": "block1"}, {"stem": "classifier.0"}])
def test_ends_that_leave_nothing_between_them(named):
    with pytest.raises(BlocksError, match=r"take all of VGG's layers, so that none is left.*Name less in them"):
        walkback.diagnose(written.VGG(), labelled(9, shape=IMAGES), **named)


@pytest.mark.parametrize(("end", "side"), [("stem", "behind"), ("head", "before")])
def test_a_block_that_is_an_end_too(end, side):
    message = rf"block2\.0 is named in blocks= and does not lie {side} what {end}= names"
    with pytest.raises(BlocksError, match=message):
        walkback.diagnose(written.VGG(), labelled(9, shape=IMAGES), blocks="block2.0", **{end: "block2.0"})


# What a model returns, and what it is called with.


def test_features_and_logits():
    model, batches = written.TwoOutputs(), labelled(9, 5, shape=VECTORS)
    with pytest.raises(BatchError, match=r"tuple of 0: \(4, 6\), 1: \(4, 3\), and any of these") as error:
        walkback.diagnose(model, batches)
    assert offered(error) == ["0", "1"]
    for logits in (1, -1, lambda output: output[1]):
        agrees(model, VECTORS, "blocks.*", logits=logits)
    features = walkback.diagnose(model, batches, logits=0, loss=lambda out, y: out.sum(1), blocks="blocks.*")
    assert features.sites[-1] == "blocks.2"


def test_early_exits():
    model = written.EarlyExit()
    with pytest.raises(BatchError, match="logits=0, logits=1, logits=2"):
        walkback.diagnose(model, labelled(9, shape=VECTORS))
    agrees(model, VECTORS, "blocks.*", logits=-1)


@pytest.mark.parametrize(
    "output",
    [
        lambda logits: (logits, logits.mean()),
        lambda logits: (logits, None),
        lambda logits: [logits],
        lambda logits: {"logits": logits, "features": logits * 2},
        lambda logits: {"out": logits, "loss": logits.mean()},
        lambda logits: (logits.mean(), logits, (logits, logits)),
    ],
)
def test_outputs_in_which_the_logits_are_plain(output):
    class Returns(written.Tower):
        def forward(self, x):
            return output(super().forward(x))

    agrees(Returns(), VECTORS, "blocks.*")


def test_keys_and_names():
    class Returns(written.Tower):
        kind = None

        def forward(self, x):
            h = self.body(self.stem(x))
            return self.kind(h, self.head(self.norm(h)))

    from collections import namedtuple
    from dataclasses import make_dataclass

    model = Returns()
    kinds = [lambda h, y: {"h": h, "y": y}, namedtuple("Output", "h y"), make_dataclass("Output", ["h", "y"])]
    for kind in kinds:
        Returns.kind = staticmethod(kind)
        with pytest.raises(BatchError, match=r"logits='h', logits='y'"):
            walkback.diagnose(model, labelled(9, shape=VECTORS))
        agrees(model, VECTORS, "blocks.*", logits="y")


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (2, r"logits=2 picks no tensor of it. Pass one of logits=0, logits=1"),
        ("y", r"logits='y' picks no tensor"),
        (True, "is bool; expected an index, a key or a function"),
        (lambda output: 3, "logits= gave int"),
    ],
)
def test_picks_that_pick_nothing(logits, message):
    with pytest.raises(BatchError, match=message):
        walkback.diagnose(written.TwoOutputs(), labelled(9, shape=VECTORS), logits=logits)


def test_a_pick_where_there_is_nothing_to_pick():
    with pytest.raises(BatchError, match="returned a tensor, of which logits=1 picks nothing"):
        walkback.diagnose(written.Tower(), labelled(9, shape=VECTORS), logits=1)


def test_further_arguments():
    model, batches = written.FurtherArgument(), labelled(9, shape=VECTORS)
    with pytest.raises(BatchError, match=r"missing a required argument: 'temperature'.*forward_kwargs="):
        walkback.diagnose(model, batches)
    with pytest.raises(BatchError, match=r"unexpected keyword argument 'heat'"):
        walkback.diagnose(model, batches, forward_kwargs={"heat": 1.0, "temperature": 0.5})
    with pytest.raises(BatchError, match=r"forward_kwargs is list"):
        walkback.diagnose(model, batches, forward_kwargs=[1.0])
    agrees(model, VECTORS, "blocks.*", forward_kwargs={"temperature": 0.5, "bias": torch.arange(3.0)})
    named = [{"x": x, "temperature": 0.5, "labels": y} for x, y in batches]
    with pytest.raises(BatchError, match="forward_kwargs and the batches both hold temperature"):
        walkback.diagnose(model, named, forward_kwargs={"temperature": 0.5})


def test_a_type_error_inside_the_model_is_its_own():
    class Wrong(written.Tower):
        def forward(self, x):
            return super().forward(x) + None

    with pytest.raises(TypeError, match="unsupported operand"):
        walkback.diagnose(Wrong(), labelled(9, shape=VECTORS))
