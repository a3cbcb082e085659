"""Networks with no gradient, no single chain, or no single output: an argument, or a refusal that asks for one."""

import copy
import itertools
import warnings
from dataclasses import replace

import models_as_written as written
import models_streams as streams
import numpy_mlp as by_hand
import torch
import torch.nn.functional as F
from foreign_case import Case, Subject, doubled, truth_of
from models_as_written import CLASSES, D
from models_feedback import BATCHES, MLP, STACK, WIDTHS
from models_feedback import CLASSES as MLP_CLASSES
from small_models import labelled
from torch import nn
from torch.autograd import Function

import walkback

PAIRS = (2, D)


# Steps, cuts and spikes.


class DetachedSkip(written.ParentSkip):
    """`detach` left in one skip, from an experiment of long ago."""

    def forward(self, x):
        h = self.stem(x)
        for number, f in enumerate(self.layers):
            h = (h.detach() if number == 1 else h) + f(h)
        return self.head(h.mean(1))


def detached():
    model, data = DetachedSkip(), labelled(23, 14, shape=streams.SEQUENCES)
    twin = written.ParentSkip()
    twin.load_state_dict(model.state_dict())
    return Subject(model, data, truth_of(doubled(twin).sites, data), "layers.*", {}, ({"reference": twin},))


class BinaryStep(Function):
    """sign(x), straight through where |x| ≤ 1."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1).to(grad.dtype)


class BinaryWeights(MLP):
    """BinaryConnect: the weights are signs, by a straight-through estimator; the activations are smooth."""

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.tanh(layer(x))
        return self.layers[-1](x)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, BinaryStep.apply(self.weight), self.bias)


def binary_weights():
    model = BinaryWeights(BinaryLinear)
    plain = copy.deepcopy(model.layers)
    for layer in plain:
        layer.weight = nn.Parameter(layer.weight.sign())
    return Subject(model, BATCHES, by_hand.NumpyMLP(plain).truth(BATCHES), STACK)


class BinaryActivations(nn.Module):
    """The activations are signs: the true gradient is zero almost everywhere."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = BinaryStep.apply(layer(x))
        return self.layers[-1](x)


def binary_activations():
    model = BinaryActivations()
    feedback = [torch.randn(MLP_CLASSES, width) for width in WIDTHS[1:-1]]
    declared = by_hand.NumpyMLP(model.layers, "sign").truth(BATCHES, by_hand.direct_feedback(feedback))

    @torch.enable_grad()
    def credit(hiddens, logits, targets):
        arrived = [(logits.softmax(-1) - F.one_hot(targets, MLP_CLASSES)) @ matrix for matrix in feedback]
        x = hiddens[0].detach().requires_grad_()
        (first,) = torch.autograd.grad(BinaryStep.apply(model.layers[0](x)), x, arrived[0])
        return [first, *arrived]

    truth = replace(declared, grads=None)
    remedies = ({"reference": "declared"},)
    return Subject(model, BATCHES, truth, STACK, {"credit": credit}, remedies, also=unchecked)


def unchecked(report):
    assert report.alignment.mark.startswith("unchecked: ")


class Spike(Function):
    """A threshold, with the slope of a fast sigmoid on the way back."""

    @staticmethod
    def forward(ctx, membrane):
        ctx.save_for_backward(membrane)
        return (membrane > 0).to(membrane.dtype)

    @staticmethod
    def backward(ctx, grad):
        (membrane,) = ctx.saved_tensors
        return grad / (1 + 10 * membrane.abs()) ** 2


class Spiking(nn.Module):
    """Leaky neurons over four steps of one input; the outputs are added up."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(D, 12), nn.Linear(12, 12), nn.Linear(12, CLASSES)

    def forward(self, x):
        mem1 = mem2 = torch.zeros(len(x), 12, dtype=x.dtype)
        total = 0
        for _ in range(4):
            mem1 = 0.9 * mem1 + self.fc1(x)
            spikes1 = Spike.apply(mem1 - 0.1)
            mem2 = 0.9 * mem2 + self.fc2(spikes1)
            spikes2 = Spike.apply(mem2 - 0.1)
            total = total + self.fc3(spikes2)
        return total

    def sites(self, x):
        """The input, which every step reads, and the spikes of both layers at the last step."""
        mem1, mem2, total = 0.0, 0.0, 0.0
        for _ in range(4):
            mem1 = 0.9 * mem1 + self.fc1(x)
            first = fired(mem1)
            mem2 = 0.9 * mem2 + self.fc2(first)
            second = fired(mem2)
            total = total + self.fc3(second)
        return [x, first, second], total


def fired(membrane):
    """The step, and a soft one on top that adds nothing but its slope, 1 / (1 + 10 |m|)²."""
    above = membrane - 0.1
    soft = above / (1 + 10 * above.abs())
    return (above > 0).double() + soft - soft.detach()


def spiking():
    model, data = Spiking(), labelled(23, 14, shape=(D,))
    matrices = [torch.randn(CLASSES, width) for width in (D, 12, 12)]

    def credit(hiddens, logits, targets):
        error = logits.softmax(-1) - F.one_hot(targets, CLASSES)
        return [error @ matrix.to(error.dtype) for matrix in matrices]

    truth = truth_of(doubled(model).sites, data, credit=credit, declared=True)
    remedies = ({"blocks": "fc1#4,fc2#4"}, {"reference": "declared"})
    return Subject(model, data, truth, "fc1#4,fc2#4", {"credit": credit}, remedies, also=unchecked)


# Networks that no loss is backpropagated through.


class Layer(nn.Linear):
    """Learns by itself, from the direction of what comes in: its length is the goodness of the layer before."""

    def forward(self, x):
        x = x.detach()
        return F.relu(super().forward(x / (x.norm(2, 1, keepdim=True) + 1e-4)))


class ForwardForward(nn.Module):
    """Layers that are trained one by one, and a readout of the last."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer(D, 9), Layer(9, 9), Layer(9, 9)])
        self.readout = nn.Linear(9, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.readout(x)

    def sites(self, x):
        sites = [x]
        for layer in self.layers:
            h = sites[-1] / (sites[-1].square().sum(1, keepdim=True).sqrt() + 1e-4)
            sites.append((h @ layer.weight.t() + layer.bias).clamp(min=0))
        return sites, self.readout(sites[-1])


def train_locally(model):
    """Goodness of real samples up, of noise down, each layer alone; frozen ones are skipped."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    for inputs, targets in labelled(32, 32, shape=(D,), seed=5):
        loss = F.cross_entropy(model(inputs), targets)
        h, noise = inputs, torch.randn_like(inputs)
        for layer in model.layers:
            h, noise = layer(h), layer(noise)
            loss = loss + F.softplus(noise.square().mean(1) - h.square().mean(1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def forward_forward():
    model, data = ForwardForward(), labelled(23, 14, shape=(D,))
    train_locally(model)
    baseline = walkback.frozen_baseline(train_locally, ForwardForward, data, seed=0, blocks="layers.*")
    torch.manual_seed(0)
    twin = ForwardForward()
    for layer in twin.layers:
        layer.requires_grad_(False)
    train_locally(twin)
    frozen = truth_of(doubled(twin).sites, data, gradients=False).accuracy
    truth = truth_of(doubled(model).sites, data, gradients=False)

    def also(report):
        assert abs(baseline.accuracy - frozen) < 1e-3
        assert abs(report.reading("d").value - 100 * (truth.accuracy - frozen)) < 1e-3
        assert report.alignment.unavailable.startswith("by design")

    arguments = {"gradients": False, "frozen_baseline_acc": baseline, "blocks": "layers.*"}
    return Subject(model, data, truth, "layers.*", arguments, also=also)


class Hebbian(nn.Module):
    """Oja's rule writes to the weights; the forward pass is under no_grad, with winners that take all."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in ((D, 8), (8, 8), (8, 8)))
        self.readout = nn.Linear(8, CLASSES)

    @torch.no_grad()
    def forward(self, x):
        for layer in self.layers:
            y = F.relu(layer(x))
            if self.training:
                layer.weight += 0.01 * (y.t() @ x - (y.t() @ y) @ layer.weight) / len(x)
            x = y
        return self.readout(x)

    def sites(self, x):
        sites = [x]
        for layer in self.layers:
            sites.append((sites[-1] @ layer.weight.t()).clamp(min=0))
        return sites, self.readout(sites[-1])


def hebbian():
    model, data = Hebbian(), labelled(23, 14, shape=(D,))
    model(data[0][0])
    truth = truth_of(doubled(model).sites, data, gradients=False)
    kept = copy.deepcopy(model.state_dict())

    def also(report):
        assert model.training
        assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())

    return Subject(model, data, truth, "layers.*", {"gradients": False}, also=also)


class ValueNode(nn.Module):
    """Predictive coding: in training a state of its own stands for the prediction, and pays for the difference."""

    def __init__(self):
        super().__init__()
        self.state = None

    def forward(self, prediction):
        if not self.training:
            return prediction
        if self.state is None or self.state.shape != prediction.shape:
            self.state = prediction.detach().clone().requires_grad_()
        self.energy = (self.state - prediction).square().sum()
        return self.state


class PredictiveCoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS))
        self.nodes = nn.ModuleList(ValueNode() for _ in self.layers[:-1])

    def forward(self, x):
        for layer, node in zip(self.layers, self.nodes, strict=False):
            x = node(torch.tanh(layer(x)))
        return self.layers[-1](x)


def predictive_coding():
    model = PredictiveCoding()
    logits = model(torch.randn(5, WIDTHS[0]))
    F.cross_entropy(logits, torch.randint(0, MLP_CLASSES, (5,))).backward()
    return Subject(model, BATCHES, by_hand.NumpyMLP(model.layers).truth(BATCHES), STACK)


# More than one chain, or output, or argument.


def siamese():
    model, data = written.Siamese(), labelled(23, 14, shape=PAIRS)
    chosen = "encoder.1#2,encoder.2#2,encoder.3#2"
    twin = doubled(model)
    return Subject(model, data, truth_of(lambda pair: twin.sites(pair, 1), data), chosen, {}, ({"blocks": chosen},))


def u_net():
    model, data = written.UNet(), labelled(23, 14, shape=streams.IMAGES)
    chosen = "down1,down2,middle,up2,up1"
    return Subject(model, data, truth_of(doubled(model).sites, data), chosen, {}, ({"blocks": chosen},))


def two_outputs():
    model, data = written.TwoOutputs(), labelled(23, 14, shape=(D,))
    return Subject(model, data, truth_of(doubled(model).sites, data), "blocks.*", {}, ({"logits": 1},))


def further_argument():
    model, data = written.FurtherArgument(), labelled(23, 14, shape=(D,))
    remedy = {"forward_kwargs": {"temperature": 0.5, "bias": torch.arange(3.0)}}
    return Subject(model, data, truth_of(doubled(model).sites, data), "blocks.*", {}, (remedy,))


def int8():
    model = written.Sequential(64, 32, 16, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    data = labelled(23, 14, shape=(64,), classes=10)
    return Subject(quantised, data, truth_of(doubled(model).sites, data), "net.0,net.2", {}, ({"model": model},))


class Chances(MLP):
    """A chance for each label, for BCELoss."""

    def forward(self, x):
        return torch.sigmoid(super().forward(x))


def several_labels():
    data = [(x, (torch.rand(len(x), MLP_CLASSES) < 0.3).float()) for x, _ in BATCHES]
    model = Chances()
    twin = doubled(model)

    def sites(x):
        hiddens = [x]
        for layer in twin.layers[:-1]:
            hiddens.append(torch.tanh(layer(hiddens[-1])))
        return hiddens, torch.sigmoid(twin.layers[-1](hiddens[-1]))

    def loss(chances, targets):
        return F.binary_cross_entropy(chances, targets, reduction="none").mean(dim=1)

    def checked(report):
        assert report.reference_check.passed is True

    truth = truth_of(sites, data, loss=lambda chances, target: -_log_chance(chances, target).mean())
    return Subject(model, data, truth, STACK, {"loss": loss}, also=checked)


def _log_chance(chances, target):
    return target * chances.log() + (1 - target) * (1 - chances).log()


CASES = [
    Case(
        "detach left in a forward pass",
        "Neither candidate is the gradient: the block is named, and a plain twin has it.",
        detached,
        refused=(r"block 2 \(layers\.1\) cuts or replaces it.*Pass reference= a plain copy",),
    ),
    Case(
        "Binary weights, straight through", "An estimator on weights leaves activations their gradient.", binary_weights
    ),
    Case(
        "Binary activations, straight through",
        "A step has no gradient to measure against; what is declared is kept for Γ, unchecked.",
        binary_activations,
        refused=(r"reference='declared'",),
    ),
    Case(
        "Spiking network with a surrogate",
        "Unrolled in time: a step is chosen, and spikes have no gradient.",
        spiking,
        refused=(r"Depth is layers: choose a call.*blocks='fc1#4,fc2#4'", r"reference='declared'"),
    ),
    Case("Forward-forward", "gradients=False, and a frozen baseline by names.", forward_forward),
    Case("Hebbian learning", "Weights that a forward pass in training mode moves stay as they are.", hebbian),
    Case("Predictive coding", "States that stand for activations in training only.", predictive_coding),
    Case(
        "Siamese",
        "One encoder, two inputs: its calls are told apart.",
        siamese,
        refused=(r"choose a call.*blocks='encoder\.1#2,encoder\.2#2,encoder\.3#2'",),
    ),
    Case(
        "U-Net",
        "Skips across: no one tensor is the stream.",
        u_net,
        refused=(r"pass blocks='down1,down2,middle,up2,up1'",),
    ),
    Case("Several labels, BCELoss", "Targets that are numbers go into fp64 with the logits.", several_labels),
    Case("(features, logits)", "An ambiguous output is refused.", two_outputs, refused=(r"logits=1",)),
    Case(
        "A further argument",
        "What forward needs is named.",
        further_argument,
        refused=(r"'temperature'.*forward_kwargs=",),
    ),
    Case(
        "int8, dynamic quantisation",
        "Integers have no gradient: the network that they were made from has.",
        int8,
        refused=(r"quantised.*floating-point",),
    ),
]
