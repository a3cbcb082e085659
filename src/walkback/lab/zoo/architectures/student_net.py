"""StudentNet: the residual MLP without a terminal norm, for data from a teacher network."""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

from torch import Tensor, nn

from walkback.errors import InputError
from walkback.lab.zoo.architectures.normalisation import normalised_by
from walkback.lab.zoo.architectures.resmlp import PreNormBlock, stacked
from walkback.lab.zoo.contract import BlockModel, DataSpec

Activation = Literal["gelu", "phi"]
FULL_TANH = 1.0


class Phi(nn.Module):
    """φ_α(z) = (1 − α) z + α tanh(z), entry by entry: the identity at α = 0, tanh at α = 1."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, inputs: Tensor) -> Tensor:
        """φ_α of each entry."""
        return (1 - self.alpha) * inputs + self.alpha * inputs.tanh()

    def extra_repr(self) -> str:
        """α, as `print(model)` shows it."""
        return f"alpha={self.alpha}"


@normalised_by("pre-norm LayerNorm in each block; no terminal norm")
def student_net(
    data: DataSpec,
    *,
    width: int = 128,
    depth: int = 4,
    expansion: int = 1,
    activation: Activation = "gelu",
    activation_alpha: float = FULL_TANH,
) -> BlockModel:
    """A pre-norm residual MLP whose linear head reads h_L as it is, so its scale reaches the logits.

    Any input is flattened. `activation` phi is φ_α(z) = (1 − α) z + α tanh(z) of the source study (arXiv
    2606.21126), with α = `activation_alpha`, 0 to 1. That it stands where GELU does, between the two Linear layers
    of a block, is a choice made here: where the study has it is not known.
    """
    _check_activation(activation, activation_alpha)
    phi = nn.GELU if activation == "gelu" else partial(Phi, activation_alpha)
    block = partial(PreNormBlock, activation=phi)
    return stacked("student_net", data, block, width=width, depth=depth, expansion=expansion, terminal_norm=False)


def _check_activation(activation: str, alpha: float) -> None:
    owner = "architecture student_net"
    if activation not in get_args(Activation):
        raise InputError(f"{owner}: activation is {activation!r}; expected 'gelu' or 'phi'.")
    if not 0 <= alpha <= 1:
        raise InputError(f"{owner}: activation_alpha is {alpha!r}; expected 0 (linear) to 1 (tanh).")
    if activation == "gelu" and alpha != FULL_TANH:
        # It would change nothing but the run's id.
        raise InputError(f"{owner}: activation_alpha is {alpha!r}, but GELU has no α. Set activation to 'phi' with it.")
