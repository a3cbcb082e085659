"""11: the reference gradient is the method's own backward pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row

if TYPE_CHECKING:
    from torch import Tensor

WIDTHS, STEPS, BATCH, SEED = (64, 64, 64, 64, 10), 300, 128, 0
TRAINING, HELD_OUT = 1280, 512
STEP = 1e-4
"""Of the finite differences, in fp64."""

Linear = Callable[..., Any]


@dataclass(frozen=True)
class Layers:
    """The weights of a plain tanh network, and the random matrices that its backward pass takes in their place."""

    weights: Sequence[Tensor]
    feedback: Sequence[Tensor]

    def gradients(self, linear: Linear, inputs: Tensor, targets: Tensor) -> list[Tensor]:
        """∂ℓ/∂h of each sample's own loss at every hidden layer, as autograd gives it through `linear`."""
        import torch

        hiddens, logits = self.forward(linear, inputs)
        loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
        return list(torch.autograd.grad(loss, hiddens))

    def forward(self, linear: Linear, hidden: Tensor, first: int = 0) -> tuple[list[Tensor], Tensor]:
        """What each hidden layer hands on, and the logits; from a later layer on where asked."""
        layers = list(zip(self.weights, self.feedback, strict=True))[first:]
        hiddens = []
        for weight, matrix in layers[:-1]:
            hidden = linear(hidden, weight, matrix).tanh()
            hiddens.append(hidden)
        return hiddens, linear(hidden, *layers[-1])

    def double(self) -> Layers:
        """In fp64."""
        return Layers([w.detach().double() for w in self.weights], [b.double() for b in self.feedback])


def plain_linear(inputs: Tensor, weight: Tensor, _: Tensor) -> Tensor:
    """What the forward pass computes, and nothing else: its gradient is the true one."""
    return inputs @ weight.t()


def feedback_linear() -> Linear:
    """The same with a backward pass of its own, as feedback alignment is usually written."""
    import torch

    class FeedbackLinear(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, inputs: Tensor, weight: Tensor, matrix: Tensor) -> Tensor:
            ctx.save_for_backward(inputs, matrix)
            return inputs @ weight.t()

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Any:
            inputs, matrix = ctx.saved_tensors
            return grads[0] @ matrix, grads[0].t() @ inputs, None

    apply: Linear = FeedbackLinear.apply
    return apply


def trained(linear: Linear) -> tuple[Layers, Tensor, Tensor]:
    """A network trained by feedback alignment on made-up clusters, and held-out samples."""
    import torch

    from walkback.pitfalls.residual_mlp import clusters

    (x, y), (held, labels) = clusters(TRAINING, HELD_OUT)
    shapes = list(zip(WIDTHS[1:], WIDTHS[:-1], strict=True))
    weights = [(torch.randn(shape) / shape[1] ** 0.5).requires_grad_() for shape in shapes]
    layers = Layers(weights, [torch.randn(shape) / shape[1] ** 0.5 for shape in shapes])
    optimizer = torch.optim.Adam(weights, lr=1e-3)
    for _ in range(STEPS):
        index = torch.randint(len(x), (BATCH,))
        _, logits = layers.forward(linear, x[index])
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, y[index]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return layers.double(), held.double(), labels


def slope_error(layers: Layers, inputs: Tensor, targets: Tensor, gradient: Tensor) -> float:
    """How far the loss's slope along a claimed gradient at the first hidden layer is from what that gradient says.

    |(ℓ(h + εv) − ℓ(h − εv)) / 2ε − ‖g‖| / ‖g‖ with v = g/‖g‖, over all samples at once: 0 for the true gradient.
    """
    import torch

    (first, *_), _ = layers.forward(plain_linear, inputs)
    first, size = first.detach(), gradient.norm()

    @torch.no_grad()
    def loss(step: float) -> Tensor:
        _, logits = layers.forward(plain_linear, first + step * gradient / size, first=1)
        return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

    return float(((loss(STEP) - loss(-STEP)) / (2 * STEP) - size).abs() / size)


def reproduce() -> Reproduction:
    """Γ of feedback alignment against what autograd calls its gradient, and against that of a plain twin."""

    from walkback.pitfalls.residual_mlp import seeded
    from walkback.present.numbers import signed, written
    from walkback.protocol import numerics

    own = feedback_linear()
    with seeded(SEED):
        layers, inputs, targets = trained(own)
        for weight in layers.weights:
            weight.requires_grad_()
        credit, true = (layers.gradients(linear, inputs, targets) for linear in (own, plain_linear))
        naive = layers.gradients(own, inputs, targets)
        _, logits = layers.forward(plain_linear, inputs)
        wrong, right = (
            [float(numerics.cosines(a, g).mean()) for a, g in zip(credit, reference, strict=True)]
            for reference in (naive, true)
        )
        errors = [slope_error(layers, inputs, targets, gradient[0]) for gradient in (naive, true)]
    accuracy = float((logits.argmax(dim=1) == targets).double().mean())
    sizes = [float(numerics.norms(gradient[0]).median()) for gradient in (naive, true)]
    return Reproduction(
        f"A tanh network of three hidden layers on {TRAINING} made-up samples, trained by feedback alignment for "
        f"{STEPS} steps: {100 * accuracy:.1f} % on {len(targets)} held-out samples. Its layers are an "
        "autograd.Function whose backward takes random matrices; the plain twin has the same weights and torch's own "
        "backward.",
        (
            Row("Γ at the hidden layers", " ".join(map(signed, wrong)), " ".join(map(signed, right))),
            Row("median ‖g‖ at the first hidden layer", written(sizes[0]), written(sizes[1])),
            Row("error against finite differences of the loss", written(errors[0]), written(errors[1])),
        ),
        (
            Claim(
                "against its own backward Γ is 1 to six digits at every layer", all(abs(c - 1) < 1e-6 for c in wrong)
            ),
            Claim("against the twin's it is less than 0.9 at every layer", all(c < 0.9 for c in right)),
            Claim("finite differences of the loss bear out the twin to six digits", errors[1] < 1e-6),
            Claim("and miss the other by a tenth or more", errors[0] > 0.1),
        ),
    )


PITFALL = Pitfall(
    number=11,
    title="the reference gradient is the method's own backward pass",
    explanation="Feedback alignment is usually written as a torch.autograd.Function, a layer with its own backward, or "
    "a backward hook. On such a network loss.backward() gives the method's credit, not the gradient of what the "
    "network computes. Called the BP reference, it is compared with itself: Γ = 1, and a copy in fp64 agrees, because "
    "it has the same backward.",
    lies="loss = F.cross_entropy(fa_network(x), y)\nbp_grad = torch.autograd.grad(loss, h)",
    instead="twin.load_state_dict(fa_network.state_dict(), strict=False)   # the same weights, torch's own backward\n"
    "bp_grad = torch.autograd.grad(F.cross_entropy(twin(x), y), h_of_the_twin)",
    question="Is the reference gradient that of a network whose backward pass nobody has changed, and does it agree "
    "with finite differences of the loss?",
    avoided="Custom backward passes are seen through and hooks on them switched off; whichever gradient is taken is "
    "held against finite differences of the loss, and where none agrees, (b), (c) and Γ are not measured.",
    where="walkback.protocol.reference:find_reference",
    reproduce=reproduce,
)
