"""6: the mean over sites hides that one of them carries it."""

from __future__ import annotations

from walkback.pitfalls.base import Claim, Pitfall, Reproduction, Row
from walkback.pitfalls.small_network import setup, small_network


def reproduce() -> Reproduction:
    """Γ of a network whose blocks were never trained: the mean says it is aligned."""
    from walkback.present.numbers import signed, written

    network = small_network("blocks")
    alignment = network.alignment
    assert alignment.sites is not None
    assert alignment.deep is not None
    assert alignment.null is not None
    mean, noise = sum(alignment.sites) / len(alignment.sites), alignment.null.deep_sd
    rows = (
        Row("mean over all sites against the deep sites alone", signed(mean), signed(alignment.deep), "+0.068, −0.022"),
        Row("site 0", "", signed(alignment.sites[0]), "+0.429"),
        Row("sites 1 … L", "", ", ".join(signed(site) for site in alignment.sites[1:]), "on ViT no site dominates"),
        Row("sd of the deep mean under fresh feedback", "", written(noise)),
    )
    return Reproduction(
        setup(network, ", its blocks frozen at random, so that no block could adapt to its feedback"),
        rows,
        (
            Claim("the mean over all sites is more than three null deviations above 0", mean > 3 * noise),
            Claim(
                "site 0 is larger than all others together, by size",
                alignment.sites[0] > 0.5 * sum(map(abs, alignment.sites)),
            ),
            Claim("the deep sites alone are within three null deviations of 0", abs(alignment.deep) < 3 * noise),
        ),
    )


PITFALL = Pitfall(
    number=6,
    title="the mean over layers hides which layer carries it",
    explanation="The first site learns directly from the input and can be well aligned while nothing behind it is. One "
    "mean over all sites is then positive for a network whose deep blocks never learnt anything.",
    lies="gamma = sum(cosine(a[l], g[l]) for l in range(layers)) / layers",
    instead="gamma = [cosine(a[l], g[l]) for l in range(layers)]   # and the mean over 1 … L beside it",
    question="Is Γ shown for every site, and is the summary taken over the deep sites alone?",
    avoided="Γ is a column of the table of sites; its summary leaves out site 0.",
    where="walkback.protocol.records:Alignment",
    reproduce=reproduce,
    published="site 0 +0.429, mean +0.068, hidden layers alone −0.022; on ViT no site dominates",
)
