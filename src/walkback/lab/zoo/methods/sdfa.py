"""Error-sign direct feedback alignment: the signs of the output error reach every site by a fixed random matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from walkback.lab.zoo.methods.credit_forms import FactoredCredit
from walkback.lab.zoo.methods.dfa import DFA
from walkback.protocol.credit import Trace


class SDFA(DFA):
    """a_l = sign(e) B_l, with the matrices and the options of `dfa`.

    Where no probability is exactly 0 or 1 the signs of softmax − onehot are −1 at the target and +1 elsewhere: what a
    site is told is the target, as in `drtp`, with the other classes beside it.
    """

    paper: ClassVar[str] = (
        "Frenkel, Lefebvre and Bol, Learning without feedback: fixed random learning signals allow for feedforward "
        "training of deep neural networks, Frontiers in Neuroscience 15:629892, 2021"
    )
    gamma: ClassVar[str] = "How far sign(e) B_l points along the gradient at site l; the null draws every B_l."

    def credits_at(self, trace: Trace, sites: Sequence[int]) -> tuple[Sequence[FactoredCredit], None]:
        """sign(e) B_l in the shape of each site."""
        # Where a sample has several answers its loss is their mean, and so are its signs.
        signs = trace.error.sign() / trace.targets[0].numel()
        return super().credits_at(replace(trace, error=signs), sites)
