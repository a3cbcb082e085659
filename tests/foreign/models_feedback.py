"""Feedback alignment and its kin, as repositories write them: Functions, hooks, updates by hand."""

import functools
import itertools

import numpy_mlp as by_hand
import torch
import torch.nn.functional as F
from foreign_case import Case, Subject
from small_models import labelled
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

INPUT, CLASSES, WIDTHS = 12, 4, (12, 9, 7, 8, 4)
STACK = "layers.0,layers.1,layers.2"
BATCHES = [(x, y) for x, y in labelled(70, 50, shape=(INPUT,), classes=CLASSES)]


# Functions.


class FAFunction(Function):
    """The textbook one: forward(ctx, …), and the error goes back through `feedback`."""

    @staticmethod
    def forward(ctx, x, weight, bias, feedback):
        ctx.save_for_backward(x, weight, bias, feedback)
        return x.mm(weight.t()) + bias.unsqueeze(0)

    @staticmethod
    def backward(ctx, grad):
        x, _weight, _bias, feedback = ctx.saved_tensors
        return grad.mm(feedback), grad.t().mm(x), grad.sum(0), None


class FASetup(Function):
    """The newer style."""

    @staticmethod
    def forward(x, weight, bias, feedback):
        return F.linear(x, weight, bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], inputs[3])

    @staticmethod
    def backward(ctx, grad):
        x, feedback = ctx.saved_tensors
        return grad @ feedback, grad.t() @ x, grad.sum(0), None


class SignFunction(Function):
    """Sign-symmetry: weights of one size, with the signs of the forward ones."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return torch.addmm(bias, x, weight.t())

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.sign(), grad.t() @ x, grad.sum(0)


fa_linear = FAFunction.apply


class OwnLinear(nn.Linear):
    """nn.Linear with a backward pass of its own."""

    def __init__(self, inputs, outputs, style):
        super().__init__(inputs, outputs)
        self.register_buffer("feedback", torch.randn(outputs, inputs) / inputs**0.5)
        self.style = style

    def forward(self, x):
        if self.style == "sign":
            return SignFunction.apply(x, self.weight, self.bias)
        style = {"ctx": FAFunction.apply, "setup": FASetup.apply, "bound": fa_linear}[self.style]
        return style(x, self.weight, self.bias, self.feedback)


class MLP(nn.Module):
    """Linear layers and tanh; what a layer is, and what happens to what it hands on, is for subclasses to say."""

    def __init__(self, layer=nn.Linear):
        super().__init__()
        self.layers = nn.ModuleList(layer(WIDTHS[i], WIDTHS[i + 1]) for i in range(len(WIDTHS) - 1))

    def hand_on(self, number, h):
        return h

    def forward(self, x):
        for number, layer in enumerate(self.layers[:-1]):
            x = self.hand_on(number, torch.tanh(layer(x)))
        return self.layers[-1](x)


def own_credit(model):
    """The method's own backward pass, read at each site: what its author hands to `credit=`."""

    @torch.enable_grad()
    def credit(hiddens, logits, targets):
        sites = [hiddens[0].detach().requires_grad_()]
        for layer in model.layers[:-1]:
            sites.append(torch.tanh(layer(sites[-1])))
        loss = F.cross_entropy(model.layers[-1](sites[-1]), targets, reduction="sum")
        return torch.autograd.grad(loss, sites)

    return credit


def feedback_of(model):
    return [layer.feedback for layer in model.layers]


def fa(style):
    def build():
        model = MLP(lambda i, o: OwnLinear(i, o, style))
        rule = by_hand.sign_symmetry() if style == "sign" else by_hand.feedback_alignment(feedback_of(model))
        truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, rule)
        return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {"credit": own_credit(model)})

    return build


class FAExtras(Function):
    """Saves what is needed, hands on more than the output, and has no second derivative."""

    @staticmethod
    def forward(ctx, x, weight, bias, feedback):
        ctx.set_materialize_grads(False)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(x, feedback)
        output = torch.addmm(bias, x, weight.t())
        winners = output.argmax(dim=1)
        ctx.mark_non_differentiable(winners)
        return output, winners

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        x, feedback = ctx.saved_tensors
        return grad @ feedback, grad.t() @ x, grad.sum(0), None


class PartialLinear(OwnLinear):
    """Calls its Function by way of functools.partial."""

    def forward(self, x):
        output, self.winners = functools.partial(FAExtras.apply, x, self.weight)(self.bias, self.feedback)
        return output


class WithFeatures(MLP):
    """(features, logits), over a temperature."""

    def forward(self, x, temperature=1.0):
        return x, super().forward(x) / temperature


def with_features():
    model = WithFeatures(lambda i, o: PartialLinear(i, o, "extras"))
    truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, by_hand.feedback_alignment(feedback_of(model)))
    called = {"logits": 1, "forward_kwargs": {"temperature": 1.0}}

    def checked(report):
        assert report.reference_check.passed is True

    return Subject(model, BATCHES, truth, STACK, {"credit": own_credit(model), **called}, also=checked)


class BiotorchLinear(nn.Module):
    """A layer as that library has it: weights, backward weights and an initialisation, on top of a Function."""

    class Grad(Function):
        """input, weight, weight_backward, bias, bias_backward."""

        @staticmethod
        def forward(ctx, input, weight, weight_backward, bias=None, bias_backward=None):
            ctx.save_for_backward(input, weight, weight_backward, bias, bias_backward)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx, grad_output):
            input, _weight, weight_backward, bias, _bias_backward = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output.mm(weight_backward)
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[3]:
                grad_bias = grad_output.sum(0).squeeze(0)
            return grad_input, grad_weight, None, grad_bias, None

    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(out_features, in_features)))
        self.bias = nn.Parameter(torch.rand(out_features) - 0.5)
        self.weight_backward = nn.Parameter(
            nn.init.xavier_uniform_(torch.empty(out_features, in_features)), requires_grad=False
        )
        self.bias_backward = nn.Parameter(torch.rand(out_features), requires_grad=False)

    @property
    def feedback(self):
        return self.weight_backward

    def forward(self, x):
        return BiotorchLinear.Grad.apply(x, self.weight, self.weight_backward, self.bias, self.bias_backward)


def biotorch():
    model = MLP(BiotorchLinear)
    rule = by_hand.feedback_alignment(feedback_of(model))
    truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, rule)
    return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {"credit": own_credit(model)})


class Checkpointed(MLP):
    """Function layers whose activations are computed again on the way back."""

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.tanh(checkpoint(layer, x, use_reentrant=False))
        return self.layers[-1](x)


def checkpointed():
    model = Checkpointed(lambda i, o: OwnLinear(i, o, "ctx"))
    return Subject(model, BATCHES, by_hand.NumpyMLP(model.layers).truth(BATCHES), "layers.0,layers.1,layers.2")


class Keep(Function):
    """The last layer of DFA: passes on, and notes the error for the others."""

    @staticmethod
    def forward(ctx, logits, holder):
        ctx.holder = holder
        return logits.view_as(logits)

    @staticmethod
    def backward(ctx, grad):
        ctx.holder["error"] = grad
        return grad, None


class Direct(Function):
    """Passes on; what comes back is thrown away for the noted error, projected."""

    @staticmethod
    def forward(ctx, h, feedback, holder):
        ctx.holder = holder
        ctx.save_for_backward(feedback)
        return h.view_as(h)

    @staticmethod
    def backward(ctx, grad):
        (feedback,) = ctx.saved_tensors
        return ctx.holder["error"] @ feedback, None, None


class DFA(MLP):
    """Direct feedback alignment by Functions behind each hidden layer."""

    def __init__(self):
        super().__init__()
        self.holder = {}
        self.feedback = [torch.randn(CLASSES, width) / CLASSES**0.5 for width in WIDTHS[1:-1]]

    def hand_on(self, number, h):
        return Direct.apply(h, self.feedback[number], self.holder)

    def forward(self, x):
        return Keep.apply(super().forward(x), self.holder)


def direct_credit(model):
    """DFA's credit as its author computes it: the error by each layer's matrix."""

    @torch.enable_grad()
    def credit(hiddens, logits, targets):
        error = logits.softmax(-1) - F.one_hot(targets, CLASSES)
        arrived = [error @ matrix for matrix in model.feedback]
        x = hiddens[0].detach().requires_grad_()
        (first,) = torch.autograd.grad(torch.tanh(model.layers[0](x)), x, arrived[0])
        return [first, *arrived]

    return credit


def dfa(network):
    def build():
        model = network()
        # A training step first: what Functions and hooks keep is then that of another batch, of another size.
        F.cross_entropy(model(torch.randn(5, INPUT)), torch.randint(0, CLASSES, (5,))).backward()
        truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, by_hand.direct_feedback(model.feedback))
        return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {"credit": direct_credit(model)})

    return build


class Targets(Function):
    """DRTP: passes on; the targets of the training batch, projected, come back."""

    @staticmethod
    def forward(ctx, h, targets, feedback):
        ctx.save_for_backward(targets, feedback)
        return h.view_as(h)

    @staticmethod
    def backward(ctx, grad):
        targets, feedback = ctx.saved_tensors
        return targets @ feedback, None, None


class DRTP(MLP):
    """Its training loop hands it the targets; at test time those of the last training batch are still there."""

    def __init__(self):
        super().__init__()
        self.targets = F.one_hot(torch.randint(0, CLASSES, (5,)), CLASSES).float()
        self.feedback = [torch.randn(CLASSES, width) for width in WIDTHS[1:-1]]

    def hand_on(self, number, h):
        return Targets.apply(h, self.targets, self.feedback[number])


def drtp():
    model = DRTP()
    truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, by_hand.random_targets(model.feedback))

    @torch.enable_grad()
    def credit(hiddens, logits, targets):
        arrived = [F.one_hot(targets, CLASSES).float() @ matrix for matrix in model.feedback]
        x = hiddens[0].detach().requires_grad_()
        (first,) = torch.autograd.grad(torch.tanh(model.layers[0](x)), x, arrived[0])
        return [first, *arrived]

    return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {"credit": credit})


# Hooks.


class HookedFA(MLP):
    """Each layer's backward hook replaces what the layer sends back."""

    def __init__(self):
        super().__init__()
        for layer in self.layers:
            layer.feedback = torch.randn_like(layer.weight)
            layer.register_full_backward_hook(lambda module, grad_in, grad_out: (grad_out[0] @ module.feedback,))


def hooked_fa():
    model = HookedFA()
    rule = by_hand.feedback_alignment(feedback_of(model))
    truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, rule)
    return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {"credit": own_credit(model)})


class HookedDFA(MLP):
    """Hooks in front of each activation, and one behind the output that notes the error."""

    def __init__(self):
        super().__init__()
        self.feedback = [torch.randn(CLASSES, width) for width in WIDTHS[1:-1]]
        self.output_grad = torch.zeros(1, CLASSES)
        self.layers[-1].register_full_backward_hook(self.note)
        for layer, matrix in zip(self.layers[1:], self.feedback, strict=True):
            layer.register_full_backward_hook(lambda _m, _i, _o, matrix=matrix: (self.output_grad @ matrix,))

    def note(self, module, grad_in, grad_out):
        self.output_grad = grad_out[0]


class TensorHookedDFA(MLP):
    """register_hook on each hidden tensor, inside the forward pass."""

    def __init__(self):
        super().__init__()
        self.feedback = [torch.randn(CLASSES, width) for width in WIDTHS[1:-1]]
        self.error = None

    def hand_on(self, number, h):
        if h.requires_grad:
            h.register_hook(lambda grad: self.error @ self.feedback[number])
        return h

    def forward(self, x):
        logits = super().forward(x)
        if logits.requires_grad:
            logits.register_hook(self.note)
        return logits

    def note(self, grad):
        self.error = grad


# Updates by hand.


class ManualFA(nn.Module):
    """No backward pass at all: activations are kept, and `update` writes to the weights."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS))
        self.feedback = [torch.randn(CLASSES, width) for width in WIDTHS[1:-1]]
        self.requires_grad_(False)

    def forward(self, x):
        self.kept = [x]
        for layer in self.layers[:-1]:
            self.kept.append(layer(self.kept[-1]).tanh_())
        return self.layers[-1](self.kept[-1])

    def update(self, targets, logits):
        error = (logits.softmax(-1) - F.one_hot(targets, CLASSES)) / len(targets)
        for number, layer in enumerate(self.layers):
            last = number == len(self.layers) - 1
            delta = error if last else (error @ self.feedback[number]) * (1 - self.kept[number + 1] ** 2)
            layer.weight -= 0.1 * delta.t() @ self.kept[number]
            layer.bias -= 0.1 * delta.sum(0)


def manual():
    model = ManualFA()
    for inputs, targets in BATCHES:
        model.update(targets, model(inputs))
    truth = by_hand.NumpyMLP(model.layers).truth(BATCHES, by_hand.direct_feedback(model.feedback))
    return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {"credit": direct_credit(model)})


class RawParameters(nn.Module):
    """Weights in a ParameterList, and no module for any layer."""

    def __init__(self):
        super().__init__()
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS)]
        self.weights = nn.ParameterList(layer.weight for layer in layers)
        self.biases = nn.ParameterList(layer.bias for layer in layers)

    def forward(self, x):
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = torch.relu(x @ weight.t() + bias)
        return x @ self.weights[-1].t() + self.biases[-1]


class InModules(nn.Module):
    """The same network, with a module for each layer."""

    def __init__(self, raw):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(WIDTHS))
        for layer, weight, bias in zip(self.layers, raw.weights, raw.biases, strict=True):
            layer.weight, layer.bias = weight, bias

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def raw_parameters():
    model = RawParameters()
    modules = InModules(model)
    truth = by_hand.NumpyMLP(modules.layers, "relu").truth(BATCHES)
    return Subject(model, BATCHES, truth, "layers.0,layers.1,layers.2", {}, ({"model": modules},))


CASES = [
    Case("FA, Function with ctx", "Custom backward passes are seen through.", fa("ctx")),
    Case("FA, Function with setup_context", "The newer style of Function is seen through.", fa("setup")),
    Case(
        "FA, apply bound at import", "A bound apply is seen through, where a class attribute is not asked.", fa("bound")
    ),
    Case("Sign-symmetry, Function", "A backward pass near the true one is not taken for it.", fa("sign")),
    Case(
        "FA, Function with extras, (features, logits)",
        "The check calls the network with the arguments that it is measured with.",
        with_features,
    ),
    Case("FA, layers as in biotorch", "Function and module with backward weights of its own.", biotorch),
    Case(
        "FA, Function under checkpointing", "torch's own Function stays, the network's is seen through.", checkpointed
    ),
    Case("DFA, Functions that share the error", "Functions with state from another batch.", dfa(DFA)),
    Case("DRTP, Function with kept targets", "Targets of another batch size in the backward pass.", drtp),
    Case("FA, module backward hooks", "Backward hooks are left out of the reference, not of the credit.", hooked_fa),
    Case("DFA, module backward hooks", "Hooks that keep the error of another batch.", dfa(HookedDFA)),
    Case(
        "DFA, tensor hooks in the forward pass", "register_hook inside forward is seen through.", dfa(TensorHookedDFA)
    ),
    Case("DFA, updates by hand", "Parameters without requires_grad; activations kept and changed in place.", manual),
    Case(
        "Updates by hand on bare parameters",
        "Layers that are no modules cannot be sites; the sentence says so.",
        raw_parameters,
        refused=(r"bare parameters such as weights\.0.*Let forward call a module for each layer",),
    ),
]
