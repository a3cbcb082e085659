"""A rule that is called DFA and hands out the true gradient, exactly or with noise."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.conditions.gradient_rule import GradientRule
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.zoo import BlockModel, Method
from walkback.lab.zoo.methods.bp import BP
from walkback.lab.zoo.methods.local_step import local_pass


class Disguised(GradientRule):
    """a_l = g_l + ν ‖g_l‖ u, with u a random unit vector for each sample, drawn at every call."""

    independent_feedback = True  # as DFA would say of itself

    def __init__(self, model: BlockModel, noise: float, seed: int) -> None:
        super().__init__(model, seed)
        self.noise = noise

    def changed(self, gradients: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        """The gradients with their noise."""
        return [noisy(gradient, self.noise, generator) for gradient in gradients]

    def redraw(self, generator: torch.Generator) -> Disguised:
        """Other noise: there is no feedback that could be drawn."""
        return Disguised(self.model, self.noise, int(torch.randint(2**31, (), generator=generator)))


def noisy(gradient: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """g + ν ‖g‖ u for each sample."""
    drawn = torch.randn(gradient.shape, generator=generator).to(gradient.dtype).flatten(1)
    flat = gradient.flatten(1)
    unit = drawn / drawn.norm(dim=1, keepdim=True)
    return torch.add(flat, noise * flat.norm(dim=1, keepdim=True) * unit).view_as(gradient)


class BPInDisguise(Condition):
    """The network is fine; what is said of the method is not."""

    name = "bp_in_disguise"
    family = "reporting"
    title = "Backpropagation under another name: the credit is the true gradient, exact or with noise."
    made = "A rule that says DFA hands out the gradient at every site plus noise of the dial's size."
    dial_is = "size of the noise relative to the gradient"
    dials = (0.0, 0.5, 1.0)
    found_by = ("update_provenance", "layer_cosine")
    tasks = ("product", "pairs", "fashion", "digits")

    def method(self, config: NetworkConfig, model: BlockModel, generator: torch.Generator) -> Method:
        """The rule that its authors hand in."""
        return Disguised(model, config.dial, int(torch.randint(2**31, (), generator=generator)))

    def claimed_name(self, config: NetworkConfig) -> str:
        """DFA."""
        return "dfa"

    def check(self, made: Made) -> Evidence:
        """Its credit lies at the angle to the gradient that the noise gives: cosine 1/√(1 + ν²)."""
        task, method = made.run.task, made.run.method
        trace = local_pass(made.run.model, task.test_inputs[:128], task.test_labels[:128]).trace
        exact = BP(made.run.model).credits(trace)[-1].detach().flatten(1)
        given = method.credits(trace)[-1].flatten(1)
        moving = exact.norm(dim=1) > 0
        cosine = float(torch.cosine_similarity(given[moving], exact[moving], dim=1, eps=0.0).mean())
        expected = (1 + made.run.config.dial**2) ** -0.5
        words = f"the credit at h_L has a cosine of {cosine:.3f} with the gradient, {expected:.3f} by the dial"
        return Evidence(abs(cosine - expected) < 0.05, {"cosine": cosine, "expected": expected}, words)


CONDITION = BPInDisguise()
