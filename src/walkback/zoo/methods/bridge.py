"""What the two bridges share: an auxiliary network that predicts something terminal from any site."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from walkback.zoo.contract import MethodOptions
from walkback.zoo.methods.local_step import CreditSite, LocalMethod, LocalOptions, sample_norms, zero_as_one
from walkback.zoo.methods.site_vectors import as_site, vector_size
from walkback.zoo.modes import seeded_by
from walkback.zoo.options import require_at_least


@dataclass(frozen=True)
class BridgeOptions(LocalOptions):
    """Options of both bridges; the defaults are the reading that behaves as published."""

    credit_norm: Literal["none", "per_sample"] = "per_sample"
    credit_site: CreditSite = "read"
    predictor_width: int = 256
    """Hidden units of the auxiliary network."""


class Predictor(nn.Module):
    """A vector for each site from (LayerNorm(h_l), layer, context): Linear, GELU, Linear.

    The first layer is a sum of three: a weight for the state, shared by the sites of one size, a vector for
    the layer ~ N(0, 1), and a weight for the context, if there is one.
    """

    def __init__(self, site_sizes: Sequence[int], context_size: int, width: int, output_size: int) -> None:
        super().__init__()
        sizes = sorted(set(site_sizes))
        self.read_state = nn.ModuleDict({str(size): nn.Linear(size, width) for size in sizes})
        self.read_layer = nn.Embedding(len(site_sizes), width)
        self.read_context = nn.Linear(context_size, width, bias=False) if context_size else None
        self.write = nn.Linear(width, output_size)

    def forward(
        self, states: Sequence[Tensor], layers: Sequence[int], context: Tensor | None = None
    ) -> Tensor:
        """(B, d_l) for each of these layers, and (B, c) if there is a context → (layers, B, output)."""
        read = [self.read_state[str(s.shape[1])](F.layer_norm(s, s.shape[1:])) for s in states]
        layer = self.read_layer(torch.as_tensor(layers, device=states[0].device))
        hidden = torch.stack(read) + layer.unsqueeze(1)
        if self.read_context is not None:
            hidden = hidden + self.read_context(context)
        return self.write(F.gelu(hidden))  # type: ignore[no-any-return]


class Bridge(LocalMethod):
    """A method whose credit comes from a `Predictor` that is trained beside the model.

    A site counts as one vector per sample: the mean over tokens of (B, T, d), all of (B, C, H, W). A vector
    of the last site's size is handed to a site of another size through a fixed random matrix ~ N(0, 1/size).
    """

    options_type: ClassVar[type[MethodOptions]] = BridgeOptions
    options: BridgeOptions

    def draw(self, generator: torch.Generator | None) -> None:
        """Initialise the predictor, and the matrices for the sites of another size than the last."""
        width = self.options.predictor_width
        require_at_least(self._name(), 1, predictor_width=width)
        sizes = [vector_size(shape) for shape in self.model.site_shapes]
        with seeded_by(generator):
            self.predictor = Predictor(sizes, self.context_size(), width, sizes[-1])
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
