"""Plain networks, convolutions, residual streams and recurrent layers, measured as they come."""

import models_as_written as written
import torch
import torch.nn.functional as F
from foreign_case import Case, Subject, doubled, truth_of
from models_as_written import CLASSES, TOKENS, D
from small_models import labelled, shift_running_statistics
from torch import nn
from torch.nn.utils import parametrizations

VECTORS, SEQUENCES, IMAGES = (D,), (TOKENS, 5), (2, 8, 8)


def measured(build, shape, blocks, *, batches=None, token=None, plain=None, tolerance=1e-3, **arguments):
    """A case's subject: the network in fp32, and its forward pass written out by hand in fp64."""

    def subject():
        model = build()
        data = batches() if batches else labelled(23, 14, shape=shape, classes=CLASSES)
        twin = doubled(plain(model) if plain else model)
        truth = truth_of(twin.sites, data, token=token, loss=arguments.get("loss") or truth_loss)
        return Subject(model, data, truth, blocks, arguments, tolerance=tolerance)

    return subject


def truth_loss(logits, target):
    return F.cross_entropy(logits, target)


def resnet():
    model = written.ResNet()
    shift_running_statistics(model)
    return model


def exploding():
    """The last block writes 1000 times too much, in front of the pooling."""
    model = written.ParentSkip("mean")
    with torch.no_grad():
        model.layers[-1].down.weight.mul_(1000)
    return model


def reconstruction(out, target):
    return (out - target).square().sum(dim=-1)


def reconstructed():
    return [(x, x) for x, _ in labelled(23, 14, shape=VECTORS)]


def ids():
    return [(torch.randint(0, 10, (n, TOKENS)), torch.randint(0, CLASSES, (n,))) for n in (23, 14)]


class WeightNorm(written.ParentSkip):
    """weight = g v / ‖v‖, computed anew at each call."""

    def __init__(self):
        super().__init__("mean")
        for branch in self.layers:
            parametrizations.weight_norm(branch.up)
            parametrizations.spectral_norm(branch.down)
        self.eval()


def without_parametrizations(model):
    """The same weights, as they come out."""
    plain = written.ParentSkip("mean")
    plain.stem, plain.head = model.stem, model.head
    with torch.no_grad():
        for branch, normed in zip(plain.layers, model.layers, strict=True):
            for name in ("up", "down"):
                getattr(branch, name).weight.copy_(getattr(normed, name).weight)
                getattr(branch, name).bias.copy_(getattr(normed, name).bias)
    return plain


class ConfidentExit(written.Tower):
    """Each sample leaves at the first exit that is sure enough of it."""

    sure = 0.6

    def __init__(self):
        super().__init__()
        self.exits = nn.ModuleList(nn.Linear(D, CLASSES) for _ in range(2))

    def forward(self, x):
        h, left = self.stem(x), torch.zeros(len(x), 1, dtype=torch.bool)
        logits = x.new_zeros(len(x), CLASSES)
        for number, block in enumerate(self.blocks):
            h = block(h)
            here = self.exits[number](h) if number < len(self.exits) else self.head(self.norm(h))
            goes = here.softmax(-1).amax(-1, keepdim=True) > self.sure
            goes = ~left & (goes | (number == len(self.blocks) - 1))
            logits, left = torch.where(goes, here, logits), left | goes
        return logits

    def sites(self, x):
        """One sample."""
        sites = [self.stem(x)]
        for block in self.blocks:
            sites.append(block(sites[-1]))
        for leave, h in zip(self.exits, sites[1:], strict=False):
            if leave(h).softmax(-1).max().item() > self.sure:
                return sites, leave(h)
        return sites, self.head(self.norm(sites[-1]))


class Mixer(nn.Module):
    """MLP-Mixer: tokens and channels are mixed in turn, with transposes in between."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(5, D)
        self.blocks = nn.Sequential(*(MixerBlock() for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, CLASSES)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.embed(x))).mean(dim=1))

    def sites(self, x):
        sites = [self.embed(x)]
        for block in self.blocks:
            h = sites[-1]
            h = h + torch.einsum("st,btd->bsd", block.tokens.weight, h) + block.tokens.bias[None, :, None]
            sites.append(h + F.gelu(block.channels(block.norm(h))))
        return sites, self.head(self.norm(sites[-1]).mean(1))


class MixerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.channels, self.norm = nn.Linear(TOKENS, TOKENS), nn.Linear(D, D), nn.LayerNorm(D)

    def forward(self, h):
        h = h + self.tokens(h.transpose(1, 2)).transpose(1, 2)
        return h + F.gelu(self.channels(self.norm(h)))


class TiedAutoencoder(nn.Module):
    """The decoder is the encoder's weight, transposed."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.ModuleList([nn.Linear(D, 5), nn.Linear(5, 4)])
        self.decoder = nn.ModuleList([Transposed(self.encoder[1]), Transposed(self.encoder[0])])

    def forward(self, x):
        for layer in self.encoder:
            x = torch.tanh(layer(x))
        return self.decoder[1](torch.tanh(self.decoder[0](x)))

    def sites(self, x):
        first, second = self.encoder
        h1 = torch.tanh(x @ first.weight.t() + first.bias)
        h2 = torch.tanh(h1 @ second.weight.t() + second.bias)
        h3 = torch.tanh(h2 @ second.weight + self.decoder[0].bias)
        return [x, h1, h2, h3], h3 @ first.weight + self.decoder[1].bias


class Transposed(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.weight, self.bias = layer.weight, nn.Parameter(torch.randn(layer.in_features))

    def forward(self, x):
        return F.linear(x, self.weight.t(), self.bias)


def compiled():
    return torch.compile(written.ParentSkip(), backend="eager")


def half(dtype):
    """Weights and samples in half precision: the truth is what the network computes in it, reduced in fp64."""

    def build():
        model = written.ParentSkip().to(dtype).eval()
        data = labelled(23, 14, shape=SEQUENCES, classes=CLASSES, dtype=dtype)
        # In bf16 no two orders of the same sums agree to 1e-3: its unit of rounding is 2⁻⁸.
        tolerance = 2**-8 if dtype is torch.bfloat16 else 1e-3
        return Subject(model, data, truth_of(model.sites, data, dtype=dtype), "layers.*", tolerance=tolerance)

    return build


CASES = [
    Case(
        "MLP 64-63-63-63-10",
        "Hidden layers are blocks whatever their widths.",
        measured(lambda: written.Sequential(64, 63, 63, 63, 10), (64,), "net.0,net.2,net.4"),
    ),
    Case(
        "MLP 64-64-64-64-10",
        "A first layer of the input's width changes nothing.",
        measured(lambda: written.Sequential(64, 64, 64, 64, 10), (64,), "net.0,net.2,net.4"),
    ),
    Case(
        "MLP 64-512-256-10",
        "Falling widths; ReLU in place.",
        measured(lambda: written.Sequential(64, 512, 256, 10, inplace=True), (64,), "net.0,net.2"),
    ),
    Case(
        "MLP of one hidden layer",
        "The last site is after the activation, with one block too.",
        measured(lambda: written.Sequential(D, 7, CLASSES), VECTORS, "net.0"),
    ),
    Case("LeNet", "Stages of two kinds, pooling in between.", measured(written.LeNet, IMAGES, "conv1,conv2,fc1")),
    Case(
        "CNN as one flat list",
        "Pooling belongs to the stage before it, the average over space to the head.",
        measured(written.FlatCNN, IMAGES, "features.0,features.4"),
    ),
    Case("ResNet as in torchvision", "Downsampling stages are one chain.", measured(resnet, IMAGES, "layer*.*")),
    Case(
        "ViT as in timm",
        "A class token of 1e-6 at h_0 is the site, next to large patches.",
        measured(written.VisionTransformer, IMAGES, "blocks.*", token=0),
    ),
    Case(
        "Parent's skip, mean over tokens",
        "An explosion in the last block is seen in front of the pooling.",
        measured(exploding, SEQUENCES, "layers.*"),
    ),
    Case(
        "Parent's skip, last token",
        "h[:, -1] comes after the last site.",
        measured(lambda: written.ParentSkip("last token"), SEQUENCES, "layers.*"),
    ),
    Case(
        "Parent's skip, mean over space",
        "mean((2, 3)) comes after the last site.",
        measured(lambda: written.ParentSkipConv("mean"), IMAGES, "convs.*"),
    ),
    Case(
        "Parent's norm and skip",
        "Sites are what is added up.",
        measured(written.ParentPreNorm, SEQUENCES, "branches.*"),
    ),
    Case("DenseNet", "The stream grows by concatenation.", measured(written.DenseNet, IMAGES, "layers.*")),
    Case("MLP-Mixer", "Tokens are mixed inside the block.", measured(Mixer, SEQUENCES, "blocks.*")),
    Case("Mixture of experts", "Routing by the data.", measured(written.Mixture, SEQUENCES, "layers.*")),
    Case("Mamba-like scan", "A scan over time inside the block.", measured(written.StateSpace, SEQUENCES, "mixers.*")),
    Case("LSTM layers", "Depth is layers, not time.", measured(written.LSTMStack, SEQUENCES, "layers.*")),
    Case(
        "GRU, last state",
        "The last state alone is handed on.",
        measured(written.GRULastState, None, "gru", batches=ids),
    ),
    Case(
        "Autoencoder",
        "A loss of the caller's, and no accuracy.",
        measured(
            written.Autoencoder, VECTORS, "encoder.0,encoder.2,decoder.0", batches=reconstructed, loss=reconstruction
        ),
    ),
    Case(
        "Autoencoder with tied weights",
        "One parameter in two modules.",
        measured(TiedAutoencoder, VECTORS, "encoder.0,encoder.1,decoder.0", batches=reconstructed, loss=reconstruction),
    ),
    Case("One block, three times", "Depth is the calls of one module.", measured(written.Tied, VECTORS, "blocks.0")),
    Case(
        "Checkpointed blocks",
        "Activations that are computed again are no backward pass of the network's own.",
        measured(written.CheckpointedTower, VECTORS, "blocks.*"),
    ),
    Case(
        "Weight norm and spectral norm",
        "Parametrised weights hold no state that measuring moves.",
        measured(WeightNorm, SEQUENCES, "layers.*", plain=without_parametrizations),
    ),
    Case("Early exit", "Control flow that depends on the data.", measured(ConfidentExit, VECTORS, "blocks.*")),
    Case(
        "Compiled",
        "torch.compile is looked through.",
        measured(compiled, SEQUENCES, "layers.*", plain=lambda m: m._orig_mod),
    ),
    Case("bf16", "Reduction in fp64; the check runs in fp64.", half(torch.bfloat16)),
    Case("fp16", "As bf16, with less range.", half(torch.float16)),
]
