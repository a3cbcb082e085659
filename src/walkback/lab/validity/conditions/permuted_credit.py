"""Credit that reaches the wrong samples."""

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


class PermutedGradient(GradientRule):
    """a_l of sample i is the true gradient of sample π(i) for a share of the samples; π is drawn at every step."""

    def __init__(self, model: BlockModel, share: float, seed: int) -> None:
        super().__init__(model, seed)
        self.share = share

    def changed(self, gradients: Sequence[Tensor], generator: torch.Generator) -> list[Tensor]:
        """The gradients with their rows exchanged."""
        order = permutation(len(gradients[0]), self.share, generator)
        return [gradient[order] for gradient in gradients]


def permutation(samples: int, share: float, generator: torch.Generator) -> Tensor:
    """Row numbers (N,) of which the given share is rotated among itself; the others stay."""
    order = torch.arange(samples)
    chosen = torch.randperm(samples, generator=generator)[: max(2, round(share * samples))]
    order[chosen] = chosen.roll(1)
    return order


class PermutedCredit(Condition):
    """An index that went wrong: sample i learns from the error of another."""

    name = "permuted_credit"
    family = "credit"
    title = "Credit of one sample used for another: stem and blocks follow errors that are not theirs."
    made = "The exact gradient at every site, with its rows exchanged within the batch; the head learns rightly."
    dial_is = "share of the samples whose credit is another's"
    dials = (1.0, 0.95, 0.9)
    found_by = ("depth_gain", "update_provenance")
    tasks = ("product", "pairs")

    def method(self, config: NetworkConfig, model: BlockModel, generator: torch.Generator) -> Method:
        """The rule with its fault."""
        return PermutedGradient(model, config.dial, int(torch.randint(2**31, (), generator=generator)))

    def claimed(self, config: NetworkConfig, model: BlockModel, method: Method) -> Method:
        """Backpropagation, site by site."""
        return BP(model)

    def check(self, made: Made) -> Evidence:
        """On a batch, this share of the rows of the credit is not the sample's own gradient."""
        run = made.run
        trace = local_pass(run.model, run.task.test_inputs[:512], run.task.test_labels[:512]).trace
        given, own = run.method.credits(trace)[-1].flatten(1), run.claimed.credits(trace)[-1].flatten(1)
        moved = float((given != own).any(dim=1).double().mean())
        words = f"{moved:.2f} of the samples get a credit that is not their own"
        return Evidence(abs(moved - run.config.dial) < 0.05, {"moved": moved}, words)


CONDITION = PermutedCredit()
