"""Credit Bridge: the credit of a site is the slope of a learnt value of that site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from walkback.lab.zoo.answers import sample_losses
from walkback.lab.zoo.contract import BlockModel, MethodOptions, StepResult
from walkback.lab.zoo.methods.bridge import why_no_bridge
from walkback.lab.zoo.methods.credit_forms import Credit, FactoredCredit, whole
from walkback.lab.zoo.methods.local_step import LocalMethod
from walkback.lab.zoo.methods.site_vectors import as_slope, as_vectors, read_vectors, vector_size
from walkback.lab.zoo.methods.value_bridge import Terminal, ValueBridge, ValueOptions, terminal_of
from walkback.lab.zoo.modes import seeded_by
from walkback.lab.zoo.options import require_at_least, require_at_most
from walkback.lab.zoo.precision import scales_gradients
from walkback.protocol.credit import Trace


@dataclass(frozen=True)
class CreditBridgeOptions(ValueOptions):
    """The value network, what it is trained on, and how long DFA stands in for it."""

    warm_up: float = 0.2
    """The share of the epochs, the first ones, that are plain DFA while the value network is trained already
    (source: 0.2; that it is trained meanwhile is ours)."""


class CreditBridge(LocalMethod):
    """a_l = ∇_{h_l} V(LayerNorm(h_l), l, e), where V is a scalar network: `ValueBridge` says how it is trained.

    The source study's definition. V is of the scale of a sample's own loss, so a_L would be that sample's ∂ℓ/∂h_L,
    not divided by a batch size. A site counts as one vector per sample, the mean over tokens of (B, T, d) and all of
    (B, C, H, W), and noise is added to that vector. V learns at every site, also at those of frozen blocks.

    In the warm-up the credit that blocks follow, and so the one that `credits` hands out, is DFA's: e B_l with
    B_l ~ N(0, 1/classes), one matrix for each block; h_l has that of the block that reads it, h_L that of the last
    block. The training loop tells by `at` how far the run is; a method that was never told is past its warm-up.
    """

    paper: ClassVar[str] = "the Credit Bridge of arXiv 2606.21126, 2026"
    gamma: ClassVar[str] = (
        "How far the slope of the value network points along the gradient; the null draws that network."
    )

    defined_on: ClassVar[str] = "every architecture with one answer per sample"
    credit_is_gradient: ClassVar[bool] = True
    options_type: ClassVar[type[MethodOptions]] = CreditBridgeOptions
    options: CreditBridgeOptions
    progress = 1.0

    @classmethod
    def why_not(cls, model: BlockModel) -> str:
        """Not where every token has an answer."""
        return why_no_bridge(model)

    def draw(self, generator: torch.Generator | None) -> None:
        """Initialise the value network and its average, and draw DFA's matrices."""
        name, shapes, classes = self._name(), self.model.site_shapes, self.model.data.classes
        require_at_least(name, 0, warm_up=self.options.warm_up)
        require_at_most(name, 1, warm_up=self.options.warm_up)
        sizes = [vector_size(shape) for shape in shapes]
        with seeded_by(generator):
            self.value = ValueBridge(sizes, classes, self.options, name)
            for site in dict.fromkeys(map(self._matrix_of, range(len(shapes)))):
                self.register_buffer(f"feedback_{site}", torch.randn(classes, sizes[site]) / classes**0.5)

    def redraw(self, generator: torch.Generator) -> CreditBridge:
        """The same rule at the same moment, with its value network and matrices drawn again."""
        fresh: CreditBridge = self._fresh(generator)
        fresh.at(self.progress)
        return fresh

    def at(self, progress: float) -> None:
        """Whether this is the warm-up hangs on it."""
        self.progress = progress

    @property
    def warming_up(self) -> bool:
        """Whether DFA stands in for the value network."""
        return self.progress < self.options.warm_up

    def credits(self, trace: Trace) -> Sequence[Tensor]:
        """a_0 … a_L: in the warm-up DFA's, after it the slopes of V."""
        sites = range(len(trace.hiddens))
        if self.warming_up:
            return [whole(self._direct(trace, site)) for site in sites]
        slopes = self.value.slopes([as_vectors(h) for h in trace.hiddens], sites, _error_of(trace))
        return [as_slope(slope, self.model.site_shapes[site]) for slope, site in zip(slopes, sites, strict=True)]

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Credit], Tensor]:
        """The credit of these sites, and the value network's objective over all sites."""
        vectors, bridged = [as_vectors(h) for h in trace.hiddens], () if self.warming_up else sites
        slopes, objective = self.value.learn(vectors, _error_of(trace), self._terminal(trace), bridged)
        if self.warming_up:
            return [self._direct(trace, site) for site in sites], objective
        shapes = self.model.site_shapes
        return [as_slope(slope, shapes[site]) for slope, site in zip(slopes, sites, strict=True)], objective

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """One step of the running average, then that of every local method."""
        self.value.update_average()
        return super().accumulate(inputs, targets)

    def _terminal(self, trace: Trace) -> Terminal:
        """Each sample's loss, and its gradient where the head reads the last site."""

        def losses(last: Tensor) -> Tensor:
            return sample_losses(self.model.head(last), trace.targets, self.model.output)

        found = terminal_of(losses, trace.hiddens[-1])
        return Terminal(found.losses, read_vectors(found.gradients))

    def _matrix_of(self, site: int) -> int:
        """The site whose matrix this one has: h_L that of the last block's read, if it is of the same size."""
        shapes, before = self.model.site_shapes, site - 1
        shared = 0 < site == len(shapes) - 1 and vector_size(shapes[before]) == vector_size(shapes[site])
        return before if shared else site

    def _direct(self, trace: Trace, site: int) -> FactoredCredit:
        feedback: Tensor = getattr(self, f"feedback_{self._matrix_of(site)}")
        return FactoredCredit(_error_of(trace), feedback, self.model.site_shapes[site])


def _error_of(trace: Trace) -> Tensor:
    return trace.error.to(trace.logits.dtype)
