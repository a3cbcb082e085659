"""Networks with backward passes of their own, written as people write them, and plain twins of the same weights."""

import torch
import torch.nn.functional as F
from small_models import INPUT, WIDTH, Residual, ResMLP
from torch import nn
from torch.autograd import Function


class ContextStyle(Function):
    """A linear layer whose error goes back through a matrix of its own."""

    @staticmethod
    def forward(ctx, x, weight, bias, feedback):
        ctx.save_for_backward(x, weight, feedback)
        ctx.needed = ctx.needs_input_grad[0]
        ctx.set_materialize_grads(False)
        return x @ weight.t() + bias

    @staticmethod
    def backward(ctx, grad):
        x, _weight, feedback = ctx.saved_tensors
        return grad @ feedback, grad.t() @ x, grad.sum(0), None


class SetupStyle(Function):
    @staticmethod
    def forward(x, weight, bias, feedback, scale=1.0):
        return F.linear(x, weight, bias) * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, _bias, feedback, _scale = inputs
        ctx.save_for_backward(x, weight, feedback)

    @staticmethod
    def backward(ctx, grad):
        x, _weight, feedback = ctx.saved_tensors
        return grad @ feedback, grad.t() @ x, grad.sum(0), None, None


class Nested(Function):
    """Calls another Function in its forward pass."""

    @staticmethod
    def forward(ctx, x, weight, bias, feedback):
        ctx.save_for_backward(feedback)
        return Doubling.apply(x @ weight.t() + bias) / 2

    @staticmethod
    def backward(ctx, grad):
        (feedback,) = ctx.saved_tensors
        return grad @ feedback, None, None, None


class Doubling(Function):
    """In place, with a backward pass that forgets the factor."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad


class Several(Function):
    """Several outputs, one of them no tensor and one not to be differentiated."""

    @staticmethod
    def forward(ctx, x, weight, bias, feedback):
        ctx.save_for_backward(feedback)
        largest = x.argmax(dim=1)
        ctx.mark_non_differentiable(largest)
        return x @ weight.t() + bias, largest, "words"

    @staticmethod
    def backward(ctx, grad, _index, _words):
        (feedback,) = ctx.saved_tensors
        return grad @ feedback, None, None, None


bound_at_import = ContextStyle.apply

STYLES = {
    "ctx": lambda *args: ContextStyle.apply(*args),
    "setup_context": lambda *args: SetupStyle.apply(*args),
    "setup_context with keywords": lambda x, w, b, f: SetupStyle.apply(x, w, b, f, scale=1.0),
    "bound at import": bound_at_import,
    "nested": lambda *args: Nested.apply(*args),
    "several outputs": lambda *args: Several.apply(*args)[0],
}


class FALinear(nn.Linear):
    def __init__(self, inputs, outputs, style):
        super().__init__(inputs, outputs)
        self.feedback = torch.randn(outputs, inputs) / inputs**0.5
        self.style = style

    def forward(self, x):
        return self.style(x, self.weight, self.bias, self.feedback)


class FABlock(Residual):
    def __init__(self, style):
        super().__init__()
        self.up = FALinear(WIDTH, 2 * WIDTH, style)
        self.down = FALinear(2 * WIDTH, WIDTH, style)


def fa_network(style="ctx"):
    torch.manual_seed(0)
    return ResMLP(block=lambda: FABlock(STYLES[style]))


def plain_twin(model, **options):
    """The network without any backward pass of its own."""
    twin = ResMLP(**options)
    twin.load_state_dict(model.state_dict())
    return twin


def own_credit(model):
    """What the network's own backward pass hands to each site, as a credit rule."""

    @torch.enable_grad()
    def credit(hiddens, logits, targets):
        sites = [hiddens[0].detach().requires_grad_()]
        for block in model.blocks:
            sites.append(block(sites[-1]))
        loss = F.cross_entropy(model.head(model.norm(sites[-1])), targets, reduction="sum")
        return torch.autograd.grad(loss, sites)

    return credit


class Activation(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def with_activation(function):
    torch.manual_seed(0)
    return ResMLP(block=lambda: Residual(activation=Activation(function)))


def sequential_fa():
    """Functions in an nn.Sequential, as modules."""
    torch.manual_seed(0)
    layers = [nn.Linear(INPUT, WIDTH)]
    for _ in range(3):
        layers += [FALinear(WIDTH, WIDTH, bound_at_import), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 3))


def plain_sequential_of(model):
    plain = nn.Sequential(*(nn.Linear(m.in_features, m.out_features) if hasattr(m, "weight") else m for m in model))
    plain.load_state_dict(model.state_dict())
    return plain
