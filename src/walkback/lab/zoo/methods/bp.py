"""Backpropagation: the credit of a site is the true gradient there."""

from __future__ import annotations

from walkback.lab.zoo.methods.error_chain import ErrorChain


class BP(ErrorChain):
    """a_l = ∂ℓ/∂h_l; the step is `loss.backward()`. It has no feedback, and so no null."""
