"""Per-layer cosine: does each block follow the gradient, or does one of them carry the mean?"""

from __future__ import annotations

from walkback.protocol.carrying import in_sentences
from walkback.protocol.diagnostics.base import Diagnostic
from walkback.protocol.diagnostics.declare import Quantity, Scalar
from walkback.protocol.records import Measurements, Reading
from walkback.protocol.wording import signed


class LayerCosine(Diagnostic):
    """The cosine between credit and gradient at every site. It is reported, and never fires.

    The June 2026 edition requires it per layer: an aggregate hides that credit sits at one end of the network.
    """

    letter = "g"
    title = "per-layer cosine"
    question = "Does each block follow the gradient, or does one of them carry the mean?"
    meaning = "credit and gradient point elsewhere"
    subject = "the alignment of each layer"
    quantities = (
        Quantity("alignment", "Γ", "cosine", per_site=True, signed=True, tex=r"$\Gamma$", place=1, csv="gamma",
                 meaning="mean cosine of credit and gradient",
                 of=lambda measured: measured.alignment.sites if measured.alignment else None),
    )  # fmt: skip
    scalars = (
        Scalar("alignment", "Γ", lambda measured: measured.alignment.deep if measured.alignment else None,
               title="Γ, deep alignment", tabled=False, tag="deep_alignment"),
    )  # fmt: skip
    listed = "never"

    def judge(self, measured: Measurements) -> Reading:
        """Reported where there is a cosine for every site."""
        make, alignment = self.reading_maker(), measured.alignment
        if alignment is None:
            return make.not_measured("No credit rule was given; pass credit=.")
        if not alignment.sites:
            return make.not_measured(alignment.unavailable or "There are no cosines per site.")
        listed = " ".join(signed(cosine) for cosine in alignment.sites)
        mean = f"The mean behind h_0 is {signed(alignment.deep)}."
        return make.reported(alignment.deep, f"Γ per site: {listed}. {mean} {in_sentences(alignment.sites)}".strip())
