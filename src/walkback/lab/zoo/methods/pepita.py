"""PEPITA: a second forward pass with the error added to the input, and learning from how the activity has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from walkback.lab.zoo.contract import BlockModel, Method, MethodOptions, StepResult
from walkback.lab.zoo.methods.input_symbols import reads_symbols
from walkback.lab.zoo.methods.local_step import LocalPass, follow, local_pass
from walkback.lab.zoo.methods.penalty import branch_penalty
from walkback.lab.zoo.methods.site_vectors import has_tokens
from walkback.lab.zoo.modes import evaluating, statistics_still
from walkback.lab.zoo.options import require_positive
from walkback.lab.zoo.precision import FROM_DIFFERENCES
from walkback.protocol.credit import Trace

ELEMENTWISE = {
    f"{name}Backward0"
    for name in ("Relu", "Tanh", "Sigmoid", "Gelu", "Silu", "Elu", "LeakyRelu", "Softplus", "Hardtanh", "NativeDropout")
}
"""What stands between a layer's weights and its activity, by the names of the nodes in a graph."""


@dataclass(frozen=True)
class PepitaOptions(MethodOptions):
    """How the error reaches the input."""

    feedback_scale: float = 0.05
    """F ~ U(−s, s) with s = this · √(6/n), n the size of an input; the authors' value."""


class Pepita(Method):
    """a_l = h_l − h′_l, where h′ is the pass with x + Fe as input; a module follows it in that second pass.

    For a layer W that writes h_l = φ(W h_{l−1}) this is ΔW = −η (h_l − h′_l) h′_{l−1}ᵀ, of the first layer with x + Fe
    as h′, and without φ′, as in the authors' code: the input of an activation that ends a module is what follows. The
    head's ΔW is −η e′ h′_Lᵀ with the error e′ of the second pass. The authors have chains of such layers and of
    convolutions; in a block of several layers, the ones inside it follow a_l by the block's own gradient, and a
    skip is a part of the block. Where the network has dropout, both passes leave out the same units, as the authors do.
    """

    paper: ClassVar[str] = (
        "Dellaferrera and Kreiman, Error-driven input modulation: solving the credit assignment problem without a "
        "backward pass, ICML 39, 2022 (arXiv 2201.11665)"
    )
    fp32_only: ClassVar[str] = FROM_DIFFERENCES
    gamma: ClassVar[str] = (
        "How far the change of the activity, h_l − h′_l, points along the gradient; the null draws F."
    )
    defined_on: ClassVar[str] = "networks of vectors or maps that read numbers, to which an error can be added"
    options_type: ClassVar[type[MethodOptions]] = PepitaOptions
    options: PepitaOptions
    feedback: Tensor

    @classmethod
    def why_not(cls, model: BlockModel) -> str:
        """Refuse what reads symbols, and what has a part that no input reaches."""
        if why := reads_symbols(model, "no error can be added to them"):
            return why
        if has_tokens(model.site_shapes[0]):
            return "its sites are tokens, and a class token is the same for every input, so it would learn nothing."
        return ""

    def draw(self, generator: torch.Generator | None) -> None:
        """F, (size of an input, classes)."""
        require_positive(self._name(), feedback_scale=self.options.feedback_scale)
        size = self.model.data.features
        reach = self.options.feedback_scale * (6 / size) ** 0.5
        uniform = torch.rand(size, self.model.data.classes, generator=generator)
        self.register_buffer("feedback", (2 * uniform - 1) * reach)

    def redraw(self, generator: torch.Generator) -> Pepita:
        """The same rule with another F."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def modulated(self, inputs: Tensor, error: Tensor) -> Tensor:
        """x + Fe, in the shape of the inputs."""
        return inputs + (error.to(self.feedback.dtype) @ self.feedback.T).view_as(inputs)

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """h_l − h′_l, in eval mode."""
        with evaluating(self.model), torch.no_grad():
            second = local_pass(self.model, self.modulated(trace.inputs, trace.error), trace.targets)
        return [first - now for first, now in zip(trace.hiddens, second.trace.hiddens, strict=True)]

    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """Two forward passes; the graph is that of the second, module by module."""
        state = torch.get_rng_state()
        with torch.no_grad():
            first = local_pass(self.model, inputs, targets)
        modulated = self.modulated(inputs, first.trace.error)
        torch.set_rng_state(state)
        with statistics_still(self.model):
            second = local_pass(self.model, modulated, targets)
        _unbend(second)
        pairs = enumerate(zip(first.trace.hiddens, second.trace.hiddens, strict=True))
        change = {site: before - now for site, (before, now) in pairs}
        follow(self.model, second, change, replace(self.options, penalty=0.0))
        self._penalise(modulated, targets)
        return first.result

    def _penalise(self, inputs: Tensor, targets: Tensor) -> None:
        """The penalty's own gradient in the second pass, on a graph that nothing was left out of."""
        if self.options.penalty:
            with statistics_still(self.model):
                branches = local_pass(self.model, inputs, targets).branches
            penalty = branch_penalty(self.model.blocks, branches, self.options.penalty)
            if penalty is not None:
                penalty.backward()  # type: ignore[no-untyped-call]


def _unbend(local: LocalPass) -> None:
    """Let what is followed go past the activation that ends a module, to what it read."""
    for write in local.writes:
        node = write.grad_fn
        while node is not None and node.name() in ELEMENTWISE:
            # A mask that is left out here is in h − h′ already.
            node.register_hook(lambda below, above: above[:1])
            node = node.next_functions[0][0]
