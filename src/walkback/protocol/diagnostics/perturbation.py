"""Perturbation ρ: does the credit tell how the loss moves in random directions?"""

from __future__ import annotations

from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import signed

NOT_ASKED = "It was not asked for: pass credit= and functional=, on how many samples."


class Perturbation(Diagnostic):
    """ρ_l = corr(⟨a_l, εv⟩, ℓ(h_l + εv) − ℓ(h_l)) over samples and random unit directions v. It is reported.

    It needs no gradient, so it holds where the gradient is too small to be a reference, or is none.
    """

    letter = "p"
    title = "perturbation ρ"
    question = "Does the credit tell how the loss moves in random directions?"
    meaning = "the credit does not tell how the loss moves"
    quantities = (
        Quantity("perturbation_rho", "ρ", "cosine", per_site=True, traced=True, interval="perturbation_rho_intervals"),
        Quantity("scaled_rho", "ρ, scaled step", "cosine", per_site=True, traced=True,
                 interval="scaled_rho_intervals"),
    )  # fmt: skip
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """The mean behind h_0, and every site."""
        make, sites = self.reading_maker(), measured.perturbation_rho
        if sites is None:
            return make.not_measured(measured.no_functional or NOT_ASKED)
        deep = sites[1:] or sites
        mean = sum(deep) / len(deep)
        each = " ".join(signed(rho) for rho in sites)
        return make.reported(mean, f"ρ per site: {each}; 1 is a credit that tells every change of the loss, 0 none.")
