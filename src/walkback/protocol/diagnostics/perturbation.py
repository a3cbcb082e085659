"""Perturbation ρ: does the credit tell how the loss moves in random directions?"""

from __future__ import annotations

from collections.abc import Sequence

from walkback.protocol.diagnostics.base import Diagnostic, ReadingMaker
from walkback.protocol.diagnostics.declare import Quantity, Scalar
from walkback.protocol.functional_fields import mean_behind_first
from walkback.protocol.records import Interval, Measurements, Reading
from walkback.protocol.wording import signed

NOT_ASKED = "It was not asked for: pass credit= and functional= (the number of samples)."


def mean_of(values: Sequence[float] | None) -> float | None:
    """The mean behind h_0 of what has a value at every site; None where that was not measured."""
    return None if values is None else mean_behind_first(values)


def reported_mean(
    make: ReadingMaker, values: Sequence[float], interval: Interval | None, what: str, meaning: str
) -> Reading:
    """The mean behind h_0 with its interval, and every site."""
    each = " ".join(signed(value) for value in values)
    reading = make.reported(mean_behind_first(values), f"{what} per site: {each}; {meaning}")
    return reading.model_copy(update={"interval": interval})


class Perturbation(Diagnostic):
    """ρ_l = corr(⟨a_l, εv⟩, ℓ(h_l + εv) − ℓ(h_l)) over samples and random unit directions v. It is reported.

    It needs no gradient, so it holds where the gradient is too small to be a reference, or is none.
    """

    letter = "p"
    title = "perturbation ρ"
    question = "Does the credit tell how the loss moves in random directions?"
    meaning = "the credit does not tell how the loss moves"
    subject = "whether the credit tells how the loss moves"
    quantities = (
        Quantity("perturbation_rho", "perturbation ρ", "cosine", per_site=True, traced=True, signed=True,
                 interval="perturbation_rho_intervals", mean_interval="perturbation_rho_mean_interval",
                 intervals_traced=True, heading="perturb. ρ", csv="rho", tex=r"perturbation $\rho$",
                 meaning="correlation of what the credit predicts with what the loss does, for steps of 0.001",
                 legend="1: the credit predicts every change of the loss; 0: it predicts none."),
        Quantity("scaled_rho", "perturbation ρ, scaled step", "cosine", per_site=True, traced=True, signed=True,
                 interval="scaled_rho_intervals", mean_interval="scaled_rho_mean_interval", intervals_traced=True,
                 heading="perturb. ρ, scaled", csv="scaled_rho", tex=r"perturb.\ $\rho$, scaled",
                 meaning="the same for steps in proportion to the stream, and credit of RMS 1 in each sample"),
    )  # fmt: skip
    scalars = (
        Scalar("perturbation_rho", "perturb. ρ", lambda measured: mean_of(measured.perturbation_rho),
               title="perturbation ρ, behind h_0", signed=True, live=True, tag="perturbation_rho", larger="better",
               tex=r"perturbation $\rho$"),
    )  # fmt: skip
    signed = True
    value_title = "perturbation ρ, behind h_0"
    needs_gradient = False
    listed = "measured"

    def judge(self, measured: Measurements) -> Reading:
        """The mean behind h_0, and every site."""
        make, sites = self.reading_maker(), measured.perturbation_rho
        if sites is None:
            return make.not_measured(measured.no_functional or NOT_ASKED)
        meaning = f"1: the credit predicts every change of the loss; 0: it predicts none.{_by_definition(sites)}"
        if measured.scaled_rho is not None:
            scaled = " ".join(signed(rho) for rho in measured.scaled_rho)
            meaning += f" With steps in proportion to the stream and credit of RMS 1: {scaled}."
        return reported_mean(make, sites, measured.perturbation_rho_mean_interval, "ρ", meaning)


def _by_definition(sites: Sequence[float]) -> str:
    """Where ρ is 0 because nothing moved by a step of that length, which says nothing of the credit."""
    zero = [str(site) for site, rho in enumerate(sites) if rho == 0]
    if not zero:
        return ""
    where = "every site" if len(zero) == len(sites) else f"site{'s' * (len(zero) > 1)} {', '.join(zero)}"
    return f" At {where} it is 0 by definition: the loss or the credit varies by less than 1e-12 over steps of 0.001."
