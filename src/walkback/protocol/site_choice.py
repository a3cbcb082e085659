"""The `sites=` argument: measure some of a deep network's sites, and hold the activations of those alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from walkback.errors import InputError
from walkback.protocol.sites import Chain

Sites = Iterable[int] | slice | None
"""Numbers of sites, 0 … L, negative ones counted from the end; None for all."""


def chosen_sites(chain: Chain, sites: Sites, with_credit: bool = False) -> Chain:
    """The chain with the taps of the chosen sites alone; the graph begins at the first of them."""
    if sites is None:
        return chain
    count = len(chain.taps)
    numbers = _numbers(sites, count)
    if len(numbers) == count:
        return chain
    if with_credit:
        raise InputError(
            "credit= hands a credit to every site, and sites= leaves some out. Give one of the two: all sites for "
            "alignment, or some sites without it."
        )
    values = max(chain.values_per_sample * len(numbers) // count, 1)
    return replace(
        chain,
        taps=tuple(chain.taps[number] for number in numbers),
        read_at=tuple(chain.read_at[number] for number in numbers),
        values_per_sample=values,
        numbers=numbers,
        last=count - 1,
    )


def _numbers(sites: Iterable[int] | slice, count: int) -> tuple[int, ...]:
    """The chosen numbers in order, each checked."""
    if isinstance(sites, slice):
        given: list[object] = list(range(count)[sites])
    else:
        given = list(sites) if isinstance(sites, Iterable) and not isinstance(sites, str | bytes) else [sites]
    numbers = set()
    for number in given:
        if not isinstance(number, int) or isinstance(number, bool) or not -count <= number < count:
            raise InputError(
                f"sites= holds {number!r}; expected numbers of sites from 0 to {count - 1}, or -{count} to -1 from the "
                "end: a list, a range or a slice."
            )
        numbers.add(number % count)
    if not numbers:
        raise InputError(f"sites= names no site; the network has {count}, numbered 0 to {count - 1}.")
    return tuple(sorted(numbers))
