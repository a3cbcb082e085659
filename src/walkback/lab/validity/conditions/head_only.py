"""A network of which the head alone has learnt."""

from __future__ import annotations

import torch

from walkback.lab.validity.conditions.base import Condition, Evidence, Made, movements
from walkback.lab.validity.training import Run
from walkback.lab.zoo import BlockModel


class HeadOnly(Condition):
    """Stem and blocks learn at a rate that comes to nothing."""

    name = "head_only"
    family = "blocks"
    title = "Only the head has learnt; stem and blocks are as good as random."
    made = "After every step stem and blocks go back to where they were, but for a small share of the step."
    dial_is = "share of its steps that stem and blocks keep"
    dials = (0.0, 1e-4, 1e-3)
    found_by = ("movement", "depth_gain")
    methods = ("bp", "fa")

    def before_step(self, run: Run) -> None:
        """Remember where they are."""
        self._held = [(p, p.detach().clone()) for p in _body(run.model)]

    @torch.no_grad()
    def after_step(self, run: Run) -> None:
        """Keep the dial's share of the step."""
        for parameter, before in self._held:
            parameter.copy_(before + run.config.dial * (parameter - before))

    def check(self, made: Made) -> Evidence:
        """Blocks moved by less than 2 %, and the head did move."""
        most = max(movements(made))
        old, new = (
            torch.cat([p.detach().flatten() for p in m.head.parameters()]) for m in (made.start, made.run.model)
        )
        head = float((new - old).norm() / old.norm())
        words = f"blocks moved by {most:.2g} at the most, the head by {head:.2g}"
        return Evidence(most < 0.02 and head > 0.02, {"blocks": most, "head": head}, words)


def _body(model: BlockModel) -> list[torch.nn.Parameter]:
    return [p for module in (model.stem, model.blocks) for p in module.parameters() if p.requires_grad]


CONDITION = HeadOnly()
