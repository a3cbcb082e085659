"""Every reproduction by name, in the order of the page: one file of `sources/` for each publication. No torch."""

from __future__ import annotations

from collections.abc import Iterable

from walkback.errors import UnknownName
from walkback.lab.reproductions.published import Reproduction
from walkback.lab.reproductions.sources import akrout, biotorch, drtp, forward_forward, local_losses, pepita
from walkback.registry import did_you_mean

REPRODUCTIONS: dict[str, Reproduction] = {
    each.name: each
    for source in (akrout, pepita, drtp, biotorch, forward_forward, local_losses)
    for each in source.REPRODUCTIONS
}
LOOKED_FOR = {
    "DRTP's own table (Frenkel, Lefebvre and Bol, Frontiers in Neuroscience 15:629892, 2021)": "the authors' "
    "repository has the code and no table; what stands above is what others measured with that code",
    "DTP (Meulemans et al., NeurIPS 33, 2020; Lee et al., ECML 2015)": "the repositories hold configurations and "
    "code, and no results",
    "DFA (Launay, Poli and Krzakala, arXiv 1906.04554; Launay et al., NeurIPS 33, 2020)": "the repositories hold code "
    "and no results",
}
"""Tables that could not be checked against anything at hand, and so are not compared with."""


def named(names: Iterable[str]) -> list[Reproduction]:
    """The reproductions of these names, or all of them where none is given; an unknown name is refused."""
    wanted = list(names)
    for name in wanted:
        if name not in REPRODUCTIONS:
            raise UnknownName(f"there is no reproduction called {name!r}. {did_you_mean(name, REPRODUCTIONS)}")
    return [REPRODUCTIONS[name] for name in wanted or REPRODUCTIONS]
