"""Forward-forward: a layer learns to be active where the label in the input is right, and quiet where it is wrong."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from walkback.errors import InputError
from walkback.lab.zoo.answers import output_error
from walkback.lab.zoo.contract import (
    Block,
    BlockModel,
    CreditlessMethod,
    MethodOptions,
    SkiplessBlock,
    StepResult,
    learns,
)
from walkback.lab.zoo.methods.input_symbols import reads_symbols
from walkback.lab.zoo.methods.local_step import LocalPass, local_pass
from walkback.lab.zoo.methods.penalty import branch_penalty
from walkback.lab.zoo.methods.site_readouts import written_sites
from walkback.lab.zoo.methods.step_draws import StepDraws, whole_like
from walkback.lab.zoo.options import require_at_least, require_at_most, require_positive
from walkback.lab.zoo.precision import backward, scales_gradients

SAME_TO = 1e-4
"""How far, relative to its size, a branch may answer otherwise to a longer input: what a norm's ε leaves over."""


@dataclass(frozen=True)
class ForwardForwardOptions(MethodOptions):
    """The goodness, the label in the input, and how a sample is answered."""

    threshold: float = 1.0
    """θ over the number of units of a layer: active is whose mean square is above this."""
    label_value: float = 1.0
    """What stands in the input at the place of its label; zeros stand at those of the other classes."""
    prediction: Literal["goodness", "softmax"] = "goodness"
    """`goodness`: the class whose label makes the layers behind the first most active, a pass for each class.
    `softmax`: the head, which learns to read h_L of the input with all labels at once, each 1/classes."""
    peer_normalisation: float = 0.0
    """How hard a unit is drawn to the mean activity of its layer; Hinton speaks of it, and 0.03 is others' value."""
    peer_memory: float = 0.9
    """How much of a unit's running mean activity stays at each step."""


class ForwardForward(CreditlessMethod):
    """p(right) = σ(Σ_j y_j² − θ) of a layer's activity y; each layer follows its own −log p, of right and wrong inputs.

    The label is written over the first `classes` values of the input: the true one for a positive sample, another
    one, drawn anew, for a negative one. A layer must not read how active the one below was. So the activity of a block
    is its branch, and the branch has to forget the length of what it reads; without a skip the branch is h_l, as in
    Hinton's networks. With a skip the stream adds the activities up. The penalty acts against it. A test sample is
    answered by the layers that learnt, all but the first where there are others.
    """

    paper: ClassVar[str] = (
        "Hinton, The forward-forward algorithm: some preliminary investigations, arXiv 2212.13345, 2022"
    )
    gamma: ClassVar[str] = (
        "N/A, because each layer follows its own goodness, and no error at the head reaches a site; (a) and the depth "
        "gain judge it."
    )
    defined_on: ClassVar[str] = (
        "networks of vectors whose blocks begin with a norm, such as resmlp, student_net and mlp with norm=length, so "
        "that none can read how active the layer below was"
    )
    options_type: ClassVar[type[MethodOptions]] = ForwardForwardOptions
    options: ForwardForwardOptions

    @classmethod
    def why_not(cls, model: BlockModel) -> str:
        """Refuse what has no place for a label, and what hands the goodness of one layer to the next."""
        if why := reads_symbols(model, "no label can be written over them"):
            return why
        if model.data.features < model.data.classes:
            return f"an input of {model.data.features} values has no place for {model.data.classes} labels."
        for site, shape in enumerate(model.site_shapes):
            if len(shape) > 1:
                return f"site {site} has the shape {shape}, and goodness is of the units of a vector."
        blocks = list(model.blocks)
        for index in written_sites(model)[:-1]:
            if not forgets_length(blocks[index], model.site_shapes[index]):
                return f"block {index + 1} reads the length of h_{index}, which is the goodness of the layer below."
        return ""

    def draw(self, generator: torch.Generator | None) -> None:
        """The seed of the wrong labels, and the units' running means."""
        options = self.options
        require_positive(self._name(), threshold=options.threshold, label_value=options.label_value)
        require_at_least(
            self._name(), 0, peer_normalisation=options.peer_normalisation, peer_memory=options.peer_memory
        )
        require_at_most(self._name(), 1, peer_memory=options.peer_memory)
        self.draws = StepDraws(generator)
        # What answers by goodness has no use for the head.
        self.model.head.requires_grad_(options.prediction == "softmax")
        blocks = list(self.model.blocks)
        self.adds = [not isinstance(block, SkiplessBlock) for block in blocks]
        layers = [site for site, module in enumerate([self.model.stem, *blocks]) if learns(module)]
        if not layers:
            raise InputError(f"{self._name()}: neither the stem nor a block learns. Train one block or more.")
        self.judging = layers[1:] or layers
        if options.peer_normalisation:
            for site, shape in enumerate(self.model.site_shapes):
                self.register_buffer(f"activity_{site}", torch.full(shape, 0.5))

    def labelled(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """The inputs with these labels, (B,), or with these shares of every label, (B, classes), written over them."""
        classes = self.model.data.classes
        shares = F.one_hot(labels, classes) if labels.ndim == 1 else labels
        flat = inputs.flatten(1).clone()
        flat[:, :classes] = self.options.label_value * shares.to(flat.dtype)
        return flat.view_as(inputs)

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """A pass with the right labels and the wrong ones; for `softmax` one more, with all labels at once."""
        labels = torch.cat([targets, self._wrong_labels(targets)])
        both = self.labelled(inputs.repeat(2, *[1] * (inputs.ndim - 1)), labels)
        local = local_pass(self.model, both, labels)
        losses = [self.layer_loss(site, _activities(local)[site]) for site in local.learning]
        own = torch.stack(losses).sum()
        scores = self._learn_to_read(inputs, targets) if self.options.prediction == "softmax" else None
        penalty = branch_penalty(self.model.blocks, local.branches, self.options.penalty)
        backward([own if penalty is None else own + penalty], [None])
        self.draws.advance()
        return StepResult(own.detach() / len(losses), self._tried(local, labels) if scores is None else scores)

    def _learn_to_read(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The head's own step on the last site of inputs with all labels at once; its logits."""
        logits: Tensor = self.model.head(self._sites(self._neutral(inputs))[-1])
        backward([logits], [output_error(logits, targets, self.model.output) / len(targets)])
        return logits.detach()

    def _tried(self, local: LocalPass, labels: Tensor) -> Tensor:
        """The goodness of the two labels that each sample was shown with, (B, classes); NaN for the others."""
        samples = len(labels) // 2
        goodness = self._goodness_of(local.trace.hiddens).view(2, samples)
        scores = goodness.new_full((samples, self.model.data.classes), torch.nan)
        return scores.scatter(1, labels.view(2, samples).T, goodness.T)

    def layer_loss(self, site: int, activity: Tensor) -> Tensor:
        """−log p of the first half, which is right, and −log(1 − p) of the second, as a mean over both."""
        half = len(activity) // 2
        active = evidence(activity, self.options.threshold)
        loss = torch.cat([F.softplus(-active[:half]), F.softplus(active[half:])]).mean()
        return loss + self._peer_loss(site, activity[:half]) if self.options.peer_normalisation else loss

    @torch.no_grad()
    def predict(self, inputs: Tensor) -> Tensor:
        """The summed squares that each label makes, or the head's logits, (B, …) → (B, classes)."""
        if self.options.prediction == "softmax":
            return self.model.head(self._sites(self._neutral(inputs))[-1])  # type: ignore[no-any-return]
        classes = torch.arange(self.model.data.classes, device=inputs.device)
        told = (self.labelled(inputs, label.expand(len(inputs))) for label in classes)
        return torch.stack([self._goodness_of(self._sites(labelled)) for labelled in told], dim=1)

    def _goodness_of(self, sites: Sequence[Tensor]) -> Tensor:
        """Σ y² over the layers that answer, (B,)."""
        return torch.stack([self._activity(sites, site).square().sum(dim=1) for site in self.judging]).sum(dim=0)

    def _activity(self, sites: Sequence[Tensor], site: int) -> Tensor:
        """What a layer wrote, from the stream alone: a test may put something else in the place of a block."""
        return sites[site] - sites[site - 1] if site and self.adds[site - 1] else sites[site]

    @torch.no_grad()
    def _sites(self, inputs: Tensor) -> list[Tensor]:
        sites = [self.model.stem(inputs)]
        for block in self.model.blocks:
            sites.append(block(sites[-1]))
        return sites

    def _neutral(self, inputs: Tensor) -> Tensor:
        classes = self.model.data.classes
        return self.labelled(inputs, inputs.new_full((len(inputs), classes), 1 / classes))

    def _wrong_labels(self, targets: Tensor) -> Tensor:
        """Each uniform over the other classes."""
        classes = self.model.data.classes
        return (targets + whole_like(targets, 1, classes, self.draws.generator(targets.device))) % classes

    def _peer_loss(self, site: int, activity: Tensor) -> Tensor:
        """How far the units' running means are from their common mean; the gradient is that of this step's share."""
        memory = self.options.peer_memory
        running = memory * self.get_buffer(f"activity_{site}") + (1 - memory) * activity.mean(dim=0)
        self.get_buffer(f"activity_{site}").copy_(running.detach())
        return self.options.peer_normalisation * (running.mean() - running).square().mean()


def evidence(activity: Tensor, threshold: float) -> Tensor:
    """Σ_j y_j² − θ with θ = threshold · units, the logit of p, (B, d) → (B,)."""
    return activity.square().sum(dim=1) - threshold * activity.shape[1]


def _activities(local: LocalPass) -> list[Tensor]:
    return [local.writes[0], *local.branches]


def forgets_length(block: Block, shape: tuple[int, ...]) -> bool:
    """Whether the branch answers an input as it answers three times the input, with weights drawn for the question."""
    # An example network may have no numbers, and its device be the default: all of this has a place of its own.
    cpu = torch.device("cpu")
    generator = torch.Generator(cpu).manual_seed(0)
    twin = copy.deepcopy(block).to_empty(device=cpu).double().eval()
    with torch.no_grad():
        for tensor in [*twin.parameters(), *(b for b in twin.buffers() if b.is_floating_point())]:
            tensor.copy_(torch.randn(tensor.shape, generator=generator, device=cpu).abs())
        hidden = 10 * torch.randn(4, *shape, generator=generator, dtype=torch.float64, device=cpu)
        once, thrice = twin.branch(hidden), twin.branch(3 * hidden)
    return bool((thrice - once).norm() <= SAME_TO * once.norm())
