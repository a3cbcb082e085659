"""Backpropagation: the credit of a site is the true gradient there."""

from __future__ import annotations

from typing import ClassVar

from walkback.lab.zoo.methods.error_chain import ErrorChain


class BP(ErrorChain):
    """a_l = ∂ℓ/∂h_l; the step is `loss.backward()`. It has no feedback, and so no null."""

    paper: ClassVar[str] = (
        "Rumelhart, Hinton and Williams, Learning representations by back-propagating errors, Nature 323, 1986"
    )
    gamma: ClassVar[str] = "1 by definition, because its credit is the gradient."
