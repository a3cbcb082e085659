"""Feedback that is drawn anew as training goes on, where it is said to be fixed."""

from __future__ import annotations

import torch

from walkback.lab.validity.conditions.base import Condition, Evidence, Made
from walkback.lab.validity.config import NetworkConfig
from walkback.lab.validity.training import Run
from walkback.lab.zoo import BlockModel, Method, build_method
from walkback.protocol.numerics import cosines


class ResampledFeedback(Condition):
    """A matrix that nothing can align with."""

    name = "resampled_feedback"
    family = "credit"
    title = "Random feedback that is drawn anew at every step, or every few."
    made = "DFA or block-wise FA whose matrices are replaced every so many steps; the matrices handed in are the first."
    dial_is = "steps between two draws"
    dials = (1.0, 4.0, 16.0)
    found_by = ("update_provenance", "depth_gain")
    methods = ("dfa", "fa_block")

    def claimed(self, config: NetworkConfig, model: BlockModel, method: Method) -> Method:
        """The same rule with matrices that stay."""
        return build_method(config.method, model, torch.Generator().manual_seed(config.part_seed("feedback")))

    def before_step(self, run: Run) -> None:
        """Draw again when it is time."""
        if run.step % int(run.config.dial) == 0:
            run.method = run.method.redraw(run.generator)  # type: ignore[operator]
            run.notes["draws"] = run.notes.get("draws", 0.0) + 1

    def check(self, made: Made) -> Evidence:
        """The matrices were drawn as often as they should have been, and are not those handed in."""
        run = made.run
        expected = -(-run.steps // int(run.config.dial))
        pairs = list(zip(run.method.buffers(), run.claimed.buffers(), strict=True))
        cosine = max(abs(float(cosines(a.flatten(), b.flatten()))) for a, b in pairs)
        draws = run.notes["draws"]
        words = f"{draws:.0f} draws in {run.steps} steps; the last is at {cosine:.2f} to those handed in"
        return Evidence(draws == expected and cosine < 0.5, {"draws": draws, "cosine": cosine}, words)


CONDITION = ResampledFeedback()
