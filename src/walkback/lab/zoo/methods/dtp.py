"""Difference target propagation: targets come down by learnt inverses, corrected by how far these are off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.contract import Block, MethodOptions, StepResult
from walkback.lab.zoo.methods.local_step import LocalMethod, LocalOptions
from walkback.lab.zoo.methods.step_draws import StepDraws, normal_like
from walkback.lab.zoo.methods.terminal import terminal_gradient
from walkback.lab.zoo.modes import seeded_by, statistics_still
from walkback.lab.zoo.options import require_positive
from walkback.lab.zoo.precision import scales_gradients
from walkback.protocol.credit import Trace

MOST_AXES = 2
"""Of a site that a layerwise inverse reads: a vector, or tokens one by one."""


@dataclass(frozen=True)
class DTPOptions(LocalOptions):
    """How targets come down."""

    feedback: Literal["direct", "layerwise"] = "direct"
    """`direct`: a learnt matrix Q_l from the logits to every site (DDTP-linear, Meulemans et al. 2020). `layerwise`: a
    learnt inverse g_l of every block (Lee et al. 2015), on vectors and tokens."""
    inverse: Literal["linear", "tanh"] = "linear"
    """What a layerwise g_l is: a Linear, or tanh of one as in networks of tanh layers."""
    target_step: float = 0.1
    """η: the first target is this far down the gradient. What is learnt is divided by it, as the authors' code does;
    where every g is linear it cancels out."""
    noise: float = 0.1
    """σ of the noise that the feedback is trained to undo."""


class DTP(LocalMethod):
    """a_l = (h_l − ĥ_l)/η with the target ĥ_l = h_l + g_{l+1}(ĥ_{l+1}) − g_{l+1}(h_{l+1}), a step down ½‖h_l − ĥ_l‖²/η.

    `layerwise`: ĥ_L = h_L − η ∂ℓ/∂h_L, and g_{l+1} learns ‖g_{l+1}(block_{l+1}(h_l + σn)) − (h_l + σn)‖². `direct`:
    ĥ_l = h_l + Q_l(z − ηe) − Q_l z with the logits z, so that a_l = Q_l e, and Q_l learns the difference
    reconstruction loss ‖Q_l(z(h_l + σn) − z) − σn‖². Where every token has an answer, one Q_l takes each token's logits
    to that token. Both losses are means over entries, over σ². Feedback learns in the same steps as the network, by the
    same optimizer; the authors begin with epochs of feedback alone.
    """

    paper: ClassVar[str] = (
        "Lee, Zhang, Fischer and Bengio, Difference target propagation, ECML 2015 (arXiv 1412.7525); direct, linear: "
        "Meulemans et al., A theoretical framework for target propagation, NeurIPS 33, 2020 (arXiv 2006.14331)"
    )
    gamma: ClassVar[str] = (
        "How far the difference to a target points along the gradient; a target stands for the Gauss-Newton direction, "
        "so Γ below 1 is no fault of it."
    )
    no_null: ClassVar[str] = "its feedback is learnt, and a fresh draw of it would be feedback that has learnt nothing"
    options_type: ClassVar[type[MethodOptions]] = DTPOptions
    options: DTPOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """The matrices, or the inverses, and the seed of the noise."""
        require_positive(self._name(), target_step=self.options.target_step, noise=self.options.noise)
        shapes, classes = self.model.site_shapes, self.model.data.classes
        with seeded_by(generator):
            if self.options.feedback == "direct":
                of_tokens = bool(self.model.data.target_shape)
                sizes = [shape[-1] if of_tokens else prod(shape) for shape in shapes]
                self.feedback = nn.ParameterList(_xavier(classes, size) for size in sizes)
            else:
                self._require_rows(shapes)
                pairs = zip(shapes[1:], shapes[:-1], strict=True)
                self.inverses = nn.ModuleList(self._inverse(above[-1], below[-1]) for above, below in pairs)
        self.draws = StepDraws(generator)

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[Tensor], Tensor | None]:
        """(h_l − ĥ_l)/η, and what the feedback of these sites learns."""
        if not sites:
            return (), None
        if self.options.feedback == "direct":
            return self._direct_credits(trace, sites), self._direct_reconstruction(trace, sites)
        return self._layerwise_credits(trace, sites), self._layerwise_reconstruction(trace, min(sites))

    @scales_gradients
    def accumulate(self, inputs: Tensor, targets: Tensor) -> StepResult:
        """The shared local step; the next one has other noise."""
        result = super().accumulate(inputs, targets)
        self.draws.advance()
        return result

    def _direct_credits(self, trace: Trace, sites: Sequence[int]) -> list[Tensor]:
        error = trace.error.to(trace.logits.dtype)
        return [(error @ self.feedback[site].detach()).view_as(trace.hiddens[site]) for site in sites]

    def _direct_reconstruction(self, trace: Trace, sites: Sequence[int]) -> Tensor:
        generator, sigma, terms = self.draws.generator(trace.logits.device), self.options.noise, []
        for site, hidden in enumerate(trace.hiddens):
            noise = sigma * normal_like(hidden, generator)
            if site not in sites:
                continue
            with torch.no_grad(), statistics_still(self.model):
                moved = self._logits_from(site, hidden + noise) - trace.logits
            undone = (moved @ self.feedback[site]).view_as(hidden)
            terms.append((undone - noise).square().mean() / sigma**2)
        return torch.stack(terms).sum()

    def _logits_from(self, site: int, hidden: Tensor) -> Tensor:
        for block in list(self.model.blocks)[site:]:
            hidden = block(hidden)
        return self.model.head(hidden)  # type: ignore[no-any-return]

    @torch.no_grad()
    def _layerwise_credits(self, trace: Trace, sites: Sequence[int]) -> list[Tensor]:
        hiddens, step = trace.hiddens, self.options.target_step
        # ĥ_l − h_l is carried, not ĥ_l: of two large numbers the small difference would be lost.
        aims = [-step * terminal_gradient(self.model, trace)]
        for site in reversed(range(min(sites), len(hiddens) - 1)):
            aims.append(aim_below(self.inverses[site], hiddens[site + 1], aims[-1]))
        aims.reverse()
        return [-aims[site - min(sites)] / step for site in sites]

    def _layerwise_reconstruction(self, trace: Trace, lowest: int) -> Tensor | None:
        generator, sigma, terms = self.draws.generator(trace.logits.device), self.options.noise, []
        for site, block in enumerate(self.model.blocks):
            noisy = trace.hiddens[site] + sigma * normal_like(trace.hiddens[site], generator)
            if site >= lowest:
                terms.append((self._again(site, block, noisy) - noisy).square().mean() / sigma**2)
        return torch.stack(terms).sum() if terms else None

    def _again(self, site: int, block: Block, hidden: Tensor) -> Tensor:
        """g_{l+1}(block_{l+1}(h)), with a graph to g alone."""
        with torch.no_grad(), statistics_still(self.model):
            above = block(hidden)
        return self.inverses[site](above)  # type: ignore[no-any-return]

    def _inverse(self, above: int, below: int) -> nn.Module:
        linear = nn.Linear(above, below)
        return nn.Sequential(linear, nn.Tanh()) if self.options.inverse == "tanh" else linear

    def _require_rows(self, shapes: Sequence[tuple[int, ...]]) -> None:
        for site, shape in enumerate(shapes):
            if len(shape) > MOST_AXES or len(shape) != len(shapes[0]):
                raise InputError(
                    f"{self._name()}: feedback is 'layerwise', and site {site} has the shape {shape}; expected vectors "
                    "or tokens, whose inverse is a dense layer. Use feedback 'direct' on this network."
                )


def aim_below(inverse: nn.Module, above: Tensor, aim: Tensor) -> Tensor:
    """ĥ_l − h_l = g(ĥ_{l+1}) − g(h_{l+1}), from h_{l+1} and ĥ_{l+1} − h_{l+1}."""
    return inverse(above + aim) - inverse(above)  # type: ignore[no-any-return]


def _xavier(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_normal_(torch.empty(rows, columns)))
