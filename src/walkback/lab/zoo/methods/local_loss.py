"""Local losses: every block has a readout and a similarity loss of its own, and no error from above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.zoo.contract import BlockModel, MethodOptions
from walkback.lab.zoo.methods.local_objectives import LocalObjectives
from walkback.lab.zoo.methods.site_readouts import per_site, positions_first, readouts, written_sites
from walkback.lab.zoo.methods.site_vectors import has_tokens
from walkback.lab.zoo.modes import seeded_by
from walkback.lab.zoo.options import require_at_least, require_at_most
from walkback.lab.zoo.precision import in_full

NORM_EPSILON = 1e-8
FEWEST_CHANNELS = 4
"""Of a map with fewer channels, all values are compared, not their deviation over positions."""


@dataclass(frozen=True)
class LocalLossOptions(MethodOptions):
    """Which losses a site has."""

    loss: Literal["predsim", "pred", "sim"] = "predsim"
    """`pred`: the cross-entropy of a linear readout. `sim`: how far the samples' similarities are from those of their
    labels. `predsim`: both."""
    similarity_share: float = 0.99
    """β of `predsim`: (1 − β) · pred + β · sim, the authors' value."""


class LocalLoss(LocalObjectives):
    """L_l = (1 − β) · CE(readout_l(h_l), y) + β · mean (S(u_l(h_l)) − S(onehot y))², no gradient between sites.

    S is the matrix of the cosines of centred samples over a batch; u_l is a learnt layer of the site's width, 3 × 3
    on maps, behind which a map is compared by its deviation over positions. Tokens are taken as the positions of a map
    with a layer of one token; the authors have no tokens. Readouts start at zero. The head learns from its own loss.
    """

    paper: ClassVar[str] = (
        "Nøkland and Eidnes, Training neural networks with local error signals, ICML 36, 2019 (arXiv 1901.06656)"
    )
    gamma: ClassVar[str] = "N/A, because each block follows a loss of its own, and no error at the head reaches a site."
    defined_on: ClassVar[str] = "every architecture with one answer per sample"
    options_type: ClassVar[type[MethodOptions]] = LocalLossOptions
    options: LocalLossOptions

    @classmethod
    def why_not(cls, model: BlockModel) -> str:
        """Not where every token has an answer."""
        if not model.data.target_shape:
            return ""
        return "samples are compared by their labels, and here every token has a label of its own."

    def draw(self, generator: torch.Generator | None) -> None:
        """The readouts at zero, and the layers whose outputs are compared."""
        require_at_least(self._name(), 0, similarity_share=self.options.similarity_share)
        require_at_most(self._name(), 1, similarity_share=self.options.similarity_share)
        sites = written_sites(self.model)
        if self.options.loss != "sim":
            self.readouts = readouts(self.model, generator, sites=sites)
            for readout in self.readouts.values():
                nn.init.zeros_(readout.weight)  # type: ignore[arg-type]
        if self.options.loss != "pred":
            with seeded_by(generator):
                self.compared = per_site({site: _compared_layer(self.model.site_shapes[site]) for site in sites})

    def local_loss(self, site: int, write: Tensor, targets: Tensor) -> Tensor:
        """L_l."""
        loss, share = self.options.loss, self.options.similarity_share
        if loss == "pred":
            return self._prediction(site, write, targets)
        if loss == "sim":
            return self._similarity(site, write, targets)
        return (1 - share) * self._prediction(site, write, targets) + share * self._similarity(site, write, targets)

    def _prediction(self, site: int, write: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(in_full(self.readouts[str(site)](write)), targets)

    def _similarity(self, site: int, write: Tensor, targets: Tensor) -> Tensor:
        labels = F.one_hot(targets, self.model.data.classes).to(write.dtype)
        found = similarities(compared_values(self.compared[str(site)](write)))
        return F.mse_loss(found, similarities(labels))


def _compared_layer(shape: tuple[int, ...]) -> nn.Module:
    if len(shape) == 1 or has_tokens(shape):
        return nn.Linear(shape[-1], shape[-1], bias=False)
    return nn.Conv2d(shape[0], shape[0], kernel_size=3, padding=1, bias=False)


def compared_values(hidden: Tensor) -> Tensor:
    """What is compared of each sample, (B, …) → (B, D): of several positions, each channel's deviation over them."""
    values = positions_first(hidden).flatten(2) if hidden.ndim > 2 else hidden
    if values.ndim == 2 or values.shape[1] < FEWEST_CHANNELS or values.shape[2] == 1:
        return values.flatten(1)
    centred = values - values.mean(dim=2, keepdim=True)
    # torch.std has no gradient at zero, where a dead map is; this has one, zero.
    deviations: Tensor = torch.linalg.vector_norm(centred, dim=2) / (values.shape[2] - 1) ** 0.5
    return deviations


def similarities(values: Tensor) -> Tensor:
    """The cosines between centred samples, (B, D) → (B, B)."""
    centred = values - values.mean(dim=1, keepdim=True)
    units: Tensor = centred / (NORM_EPSILON + torch.linalg.vector_norm(centred, dim=1, keepdim=True))
    return (units @ units.T).clamp(-1, 1)
