"""Places in a network by the names of its blocks: one naming in a report, whatever its sentences were written with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from walkback.present.plain import NAME_LENGTH, middle_out, one_line
from walkback.protocol.records import DiagnosticReport, Measurements

INPUT = "input of "
"""What the name of the first site begins with, where that is what the first block reads."""
_NUMBER = re.compile(rf"({INPUT})?(\d[\d.]*)")
_NAMED_BLOCK = re.compile(r"\b[Bb]lock \d+ \(([^()]+)\)")
_BLOCK = re.compile(r"\b[Bb]lock (\d+)\b")
_NORM = re.compile(r"‖([hg])_(\d+)‖")
_STATE = re.compile(r"\b([hg])_(\d+)\b")
_SITES = re.compile(r"\bsites? (\d+(?:(?:, | and | or | to )\d+)*)\b(?! of )")


def place(report: Measurements, site: int) -> str:
    """A site by the name of the block that hands it on; by the block's number where the record has no names."""
    names = report.sites or ()
    if site < len(names):
        return middle_out(_with_kind(names[site]), NAME_LENGTH)
    return unnamed(report.site_numbers[site] if report.site_numbers and site < len(report.site_numbers) else site)


def unnamed(site: int) -> str:
    """A site of a record without names: `block 3`, and what block 1 reads."""
    return f"block {site}" if site else f"{INPUT}block 1"


def table_name(name: str) -> str:
    """The name of a site as a table shows it."""
    return _with_kind(one_line(name))


def _with_kind(name: str) -> str:
    """`2` of an nn.Sequential is a number like any other, and becomes `module 2`."""
    number = _NUMBER.fullmatch(name)
    return f"{number[1] or ''}module {number[2]}" if number else name


def places(report: Measurements, sites: Sequence[int]) -> str:
    """Several sites, neighbours joined: `blocks.0 to blocks.3, blocks.5`."""
    spans: list[list[int]] = []
    for site in sites:
        if spans and site == spans[-1][-1] + 1:
            spans[-1][1:] = [site]
        else:
            spans.append([site])
    return ", ".join(" to ".join(place(report, site) for site in span) for span in spans)


def in_block_names(report: DiagnosticReport, text: str) -> str:
    """A sentence with block names in the place of numbers: `Block 2`, `h_2` and `site 2` are one place.

    Where sites were left out, numbers in sentences are the network's, and stay.
    """
    if report.site_numbers is not None:
        return text
    last = max(len(report.sites or ()), len(report.residual_norms or ())) - 1

    def at(number: str) -> str | None:
        return place(report, int(number)) if last < 0 or int(number) <= last else None

    def block(found: re.Match[str]) -> str:
        named = at(found[1]) or found[0]
        # A name keeps its letters; a word that opens a sentence does not.
        opens = found[0][0] == "B" and named.startswith(("module ", "block "))
        return named[0].upper() + named[1:] if opens else named

    def state(found: re.Match[str]) -> str:
        named = at(found[2])
        if named is None:
            return found[0]
        where = f"the {named}" if named.startswith(INPUT) else f"the output of {named}"
        return where if found[1] == "h" else f"the gradient at {where}"

    def listed(found: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda number: at(number[0]) or f"site {number[0]}", found[1])

    text = _NAMED_BLOCK.sub(lambda found: _with_kind(found[1]), text)
    text = _BLOCK.sub(block, text)
    text = _NORM.sub(lambda found: f"‖{found[1]}‖ at {at(found[2])}" if at(found[2]) else found[0], text)
    text = _STATE.sub(state, text)
    return _SITES.sub(listed, text)
