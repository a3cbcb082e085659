"""What the bridges share: an auxiliary network that predicts something terminal from any site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.lab.zoo.contract import BlockModel, CreditNorm, MethodOptions
from walkback.lab.zoo.methods.credit_forms import sample_norms, zero_as_one
from walkback.lab.zoo.methods.local_step import CreditSite, LocalMethod, LocalOptions
from walkback.lab.zoo.methods.site_vectors import as_site, vector_size
from walkback.lab.zoo.modes import seeded_by
from walkback.lab.zoo.options import require_at_least


@dataclass(frozen=True)
class BridgeOptions(LocalOptions):
    """Options of every bridge."""

    credit_norm: CreditNorm = "per_sample"
    credit_site: CreditSite = "read"
    predictor_width: int = 256
    """Hidden units of each layer of the auxiliary network."""
    predictor_layers: int = 1
    """Its hidden layers."""


class Predictor(nn.Module):
    """A vector for each site from LayerNorm(h_l), the layer as one-hot, and the context.

    So many times Linear and GELU, then a Linear. The sites of one size share their first Linear; all share the rest.
    One-hot loses nothing: whatever a depth is coded by, the first Linear makes of it one vector for each depth.
    """

    def __init__(
        self, site_sizes: Sequence[int], context_size: int, width: int, output_size: int, hidden_layers: int = 1
    ) -> None:
        super().__init__()
        layers = len(site_sizes)
        totals = {str(size): size + layers + context_size for size in sorted(set(site_sizes))}
        self.read = nn.ModuleDict({size: nn.Linear(total, width) for size, total in totals.items()})
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(hidden_layers - 1))
        self.write = nn.Linear(width, output_size)
        self.register_buffer("layer_codes", torch.eye(layers), persistent=False)

    def forward(self, states: Sequence[Tensor], layers: Sequence[int], *context: Tensor) -> Tensor:
        """(B, d_l) for each of these layers, and (B, c) if there is a context → (layers, B, output)."""
        read = [self._read(state, layer, *context) for state, layer in zip(states, layers, strict=True)]
        features = F.gelu(torch.stack(read))
        for layer in self.hidden:
            features = F.gelu(layer(features))
        return self.write(features)  # type: ignore[no-any-return]

    def _read(self, state: Tensor, layer: int, *context: Tensor) -> Tensor:
        code = self.get_buffer("layer_codes")[layer].expand(len(state), -1)
        seen = [F.layer_norm(state, state.shape[1:]), code, *context]
        return self.read[str(state.shape[1])](torch.cat(seen, dim=1))  # type: ignore[no-any-return]


NOTHING_FOLLOWS: tuple[tuple[Tensor, ...], None] = ((), None)
"""The credits and the objective where no site is in use: all blocks are frozen, and the stem has nothing to learn."""


def why_no_bridge(model: BlockModel) -> str:
    """Why a network has nothing for a bridge to predict, in one sentence; empty where it has."""
    if not model.data.target_shape:
        return ""
    return "A bridge predicts what the head reads of a sample as one vector, and here every token has an answer."


class Bridge(LocalMethod):
    """A method whose credit comes from a `Predictor` that is trained beside the model.

    A site counts as one vector per sample: the mean over tokens of (B, T, d), all of (B, C, H, W). A vector
    of the last site's size is handed to a site of another size through a fixed random matrix ~ N(0, 1/size).
    """

    options_type: ClassVar[type[MethodOptions]] = BridgeOptions
    options: BridgeOptions

    @classmethod
    def why_not(cls, model: BlockModel) -> str:
        """Not where every token has an answer."""
        return why_no_bridge(model)

    def draw(self, generator: torch.Generator | None) -> None:
        """Initialise the predictor, and the matrices for the sites of another size than the last."""
        width, layers = self.options.predictor_width, self.options.predictor_layers
        require_at_least(self._name(), 1, predictor_width=width, predictor_layers=layers)
        sizes = [vector_size(shape) for shape in self.model.site_shapes]
        with seeded_by(generator):
            self.predictor = Predictor(sizes, self.context_size(), width, sizes[-1], layers)
            for site, size in enumerate(sizes):
                if size != sizes[-1]:
                    self.register_buffer(f"carry_{site}", torch.randn(sizes[-1], size) / size**0.5)

    def redraw(self, generator: torch.Generator) -> Bridge:
        """The same rule with its predictor initialised again."""
        return self._fresh(generator)  # type: ignore[no-any-return]

    def context_size(self) -> int:
        """How many values the predictor sees beside the state and the layer."""
        return 0

    def as_credit(self, vectors: Tensor, site: int) -> Tensor:
        """A vector of the last site's size in the shape of this site, (B, d_L) → (B, …)."""
        shape = self.model.site_shapes[site]
        if vector_size(shape) != vectors.shape[1]:
            vectors = vectors @ self.get_buffer(f"carry_{site}")
        return as_site(vectors, shape)


def scale_of(target: Tensor, kind: Literal["raw", "scaled"]) -> Tensor:
    """What the target is divided by: 1, or the batch's mean norm, so that the scaled target's is 1."""
    if kind == "raw":
        return target.new_ones(())
    return zero_as_one(sample_norms(target).mean())


def squared_error(predictions: Tensor, target: Tensor) -> Tensor:
    """Mean over sites and samples of ‖prediction − target‖², from (sites, B, d) and (B, d)."""
    return (predictions - target).square().sum(dim=-1).mean()
