"""Which sites the values of a log are of: `h_0`, `g_L`, lists of all (`h`) or of some (`g_1..L`). No torch.

How many blocks there are follows from lists that go up to the last site, and from sites that are numbered from 0 on. A
run whose values disagree on it is refused: a gradient at the wrong site is a wrong verdict, and nothing shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.protocol.wording import counted
from walkback.watch.moment import At

_SITE = re.compile(r"([hg])(?:_(?:(\d{1,6})\.\.(\d{1,6}|L)|(\d{1,6}|L)))?")


@dataclass(frozen=True)
class SiteName:
    """What a map calls a site, or a list of sites that follow each other."""

    letter: str
    """h or g."""
    first: int | None
    """The number of the first site; None is L."""
    last: int | None
    """The number of the last one; None is L."""
    listed: bool
    """Whether the column holds lists."""

    def sites(self, blocks: int) -> range:
        """The numbers of the sites in a network of so many blocks."""
        first, last = (blocks if number is None else number for number in (self.first, self.last))
        return range(first, last + 1)


def site_named(name: str) -> SiteName | None:
    """The sites that a name is of; None where it names none."""
    match = _SITE.fullmatch(name)
    if match is None:
        return None
    letter, start, end, single = match.groups()
    if single is not None:
        return SiteName(letter, _number(single), _number(single), listed=False)
    found = SiteName(letter, int(start or 0), _number(end or "L"), listed=True)
    return None if found.last is not None and found.last < int(start or 0) else found


def _number(text: str) -> int | None:
    return None if text == "L" else int(text)


def _named(values: Mapping[str, Any]) -> Iterator[tuple[str, SiteName, Any]]:
    for key, value in values.items():
        name = site_named(key)
        if name is not None:
            yield key, name, value


def norms_by_site(values: Mapping[str, Any], letter: str, blocks: int, where: str) -> dict[int, float]:
    """The norms of one kind at one moment, by the number of their site."""
    found: dict[int, float] = {}
    for key, name, value in _named(values):
        if name.letter != letter:
            continue
        sites, norms = name.sites(blocks), value if name.listed else [value]
        if len(sites) != len(norms):
            raise RecordError(
                f"{where}: {key} holds {counted(len(norms), 'value')}; expected {len(sites)}, for the sites "
                f"{sites[0]} to {sites[-1]}. Name the sites that the list is of, such as {letter}_0..3."
            )
        twice = found.keys() & set(sites)
        if twice:
            raise RecordError(f"{where}: the map gives {letter}_{min(twice)} twice. Give each site one column.")
        found |= dict(zip(sites, norms, strict=True))
    return found


def blocks_of(moments: Mapping[At, Mapping[str, Any]], given: int | None, where: str) -> int | None:
    """L of a run, as it is given or as the values show it; None where there are no sites."""
    if not any(True for values in moments.values() for _ in _named(values)):
        return None
    shown, advice = {} if given is None else {given: f"--blocks is {given}"}, _OF_LISTS
    for blocks, how in _by_lists(moments):
        if blocks < 1:
            raise RecordError(f"{where}: {how}; expected one for each site, from 0 to L, of one block or more.")
        shown.setdefault(blocks, how)
    if not shown:
        shown, advice = dict(_by_numbers(moments)), _OF_NUMBERS
    if not shown:
        raise InputError(f"{where}: the number of blocks is not known from the columns. Give it with --blocks.")
    if len(shown) > 1:
        found = [f"{how}, for {counted(blocks, 'block')}" for blocks, how in shown.items()]
        raise RecordError(f"{where}: {found[0]}, but {found[1]}. {advice}")
    return next(iter(shown))


_OF_LISTS = (
    "Expected one value for each site, 0 to L, in every list that the map calls h or g. Call a list of some sites by "
    "their numbers: g_1..L=COLUMN for the gradients behind each block, without g_0."
)
_OF_NUMBERS = (
    "So the number of blocks is not known. Give it with --blocks. The gradients behind each block are g_1 to g_L; g_0 "
    "is the one before the first."
)


def _by_lists(moments: Mapping[At, Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """L by each list that goes up to the last site, and the words for where it stands."""
    for at, values in moments.items():
        for key, name, value in _named(values):
            if name.listed and name.last is None:
                yield (name.first or 0) + len(value) - 1, f"{key} at {at} is a list of {counted(len(value), 'value')}"


def _by_numbers(moments: Mapping[At, Mapping[str, Any]]) -> Iterator[tuple[int, str]]:
    """L by each kind of norm that is there at every site from 0 to the last, by its number."""
    named = {key: name for values in moments.values() for key, name, _ in _named(values)}
    for letter in "hg":
        of_kind = [name for name in named.values() if name.letter == letter]
        if any(name.last is None for name in of_kind):
            continue
        sites = sorted(site for name in of_kind for site in name.sites(0))
        if len(sites) > 1 and sites == list(range(len(sites))):
            yield sites[-1], f"{letter} is recorded at the sites 0 to {sites[-1]}"
