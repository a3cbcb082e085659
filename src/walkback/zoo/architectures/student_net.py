"""StudentNet: the residual MLP without a terminal norm, for data from a teacher network."""

from __future__ import annotations

from walkback.zoo.architectures.resmlp import resmlp
from walkback.zoo.contract import BlockModel, DataSpec


def student_net(data: DataSpec, *, width: int = 128, depth: int = 4, expansion: int = 1) -> BlockModel:
    """A pre-norm residual MLP whose linear head reads h_L as it is, so its scale reaches the logits.

    Any input is flattened.
    """
    return resmlp(data, width=width, depth=depth, expansion=expansion, terminal_norm=False)
