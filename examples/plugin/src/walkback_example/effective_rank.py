"""(e) Effective rank: how many directions do the states of the last site use?"""

from __future__ import annotations

import math

from walkback import Diagnostic, Quantity, Threshold


class EffectiveRank(Diagnostic):
    """exp of the entropy of the centred h_L's singular values, as shares of their sum (Roy and Vetterli 2007)."""

    letter = "e"
    title = "effective rank"
    question = "How many directions do the states of the last site use?"
    meaning = "all samples lie along one direction of the last site"
    remedy = "Look at the credit of the last blocks: it may be the same for every sample."
    thresholds = {"rank_floor": Threshold(2.0, "<", "effective rank of h_L", least=1, axis="log")}  # noqa: RUF012
    quantities = (Quantity("effective_rank", axis="log", traced=True),)
    needs_gradient = False
    least_samples = 2

    @staticmethod
    def measure(capture):
        """h_L as one vector per sample, (B, D)."""
        return capture.reduction.vectors(capture.hiddens[-1]).double().cpu()

    @staticmethod
    def summarise(part):
        """One number, from 1 to the smaller of samples and width."""
        import torch  # here: judging a record loads this class, and needs no torch

        if not part.isfinite().all():
            return {"effective_rank": math.nan}
        sizes = torch.linalg.svdvals(part - part.mean(dim=0))
        shares = sizes / sizes.sum().clamp_min(1e-300)
        return {"effective_rank": float(torch.special.entr(shares).sum().exp())}
