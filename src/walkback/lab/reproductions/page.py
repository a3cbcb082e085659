"""docs/REPRODUCTIONS.md: published numbers, the runs meant to give them, and the differences. No torch."""

from __future__ import annotations

from collections.abc import Sequence

from walkback.lab.reproductions.catalogue import LOOKED_FOR
from walkback.lab.reproductions.comparing import WORDS, Compared, Measured
from walkback.lab.reproductions.published import POINTS, SEED, OneFactor
from walkback.present.page import Code, Grid, Heading, Page, Part

TITLE = "Numbers that others published, and the same runs here"
INTRODUCTION = (
    "Methods of the zoo, held to numbers that stand in their authors' code, logs or tables. A number is reproduced "
    f"where the run here is within {POINTS:g} points of it, or within {POINTS:g} degrees of an angle; the rule and the "
    f"settings were fixed before the runs. Every run has seed {SEED}, and every accuracy is that of the whole test "
    "split. Where a number differs, runs with one factor changed show what from, and all that were made are listed. "
    "Of errors of one per cent two points are no hard test; the difference stands beside each. Where a table could not "
    "be checked, it is not compared with."
)


def page_of(found: Sequence[Compared]) -> Page:
    """The whole page."""
    parts: list[Part] = [
        INTRODUCTION,
        "Made by walkback lab reproduce --write docs/REPRODUCTIONS.md from results/runs. To train what is missing of "
        "one of them, and to list them:",
        Code("walkback lab reproduce NAME\nwalkback lab reproduce --list"),
        overview(found),
    ]
    parts += sections(found)
    parts += [Heading("Looked for, and not compared with")]
    parts += [Grid(("what", "why not"), list(LOOKED_FOR.items()), "ll")]
    return Page(TITLE, parts)


def overview(found: Sequence[Compared]) -> Grid:
    """One row for each reproduction."""
    rows = [
        [each.published.name, each.published.title, WORDS[each.state], _within(each), _largest(each), _hours(each)]
        for each in found
    ]
    return Grid(("name", "what", "state", "within two", "largest difference", "core-hours"), rows, "lllrrr")


def sections(found: Sequence[Compared]) -> list[Part]:
    """What each is, what was published, what came of it, and what was tried."""
    return [part for each in found for part in _section(each)]


def _section(each: Compared) -> list[Part]:
    published = each.published
    parts: list[Part] = [
        Heading(published.name),
        f"{published.title}. {published.source}.",
        Code(each.runs[""]["command"] if "" in each.runs else f"walkback lab reproduce {published.name}"),
        _numbers(each),
    ]
    parts += [f"In what the run is not theirs: {' '.join(published.differs)}"] if published.differs else []
    if published.has_angles and "" in each.runs:
        parts += [_over_samples(each)]
    parts += [part for factor in published.one_factor for part in _one_factor(each, factor)]
    return parts


def _numbers(each: Compared) -> Grid:
    rows = each.numbers.get("") or [Measured(number, None) for number in each.published.numbers]
    return Grid(
        ("", "after epoch", "published", "here", "difference", "", "where it stands"),
        [
            [
                row.number.quantity, str(row.number.epoch), _value(row, row.number.value), _value(row, row.here),
                _difference(row), _verdict(row, "" in each.runs), row.number.where,
            ]
            for row in rows
        ],
        "lrrrrll",
    )  # fmt: skip


def _one_factor(each: Compared, factor: OneFactor) -> list[Part]:
    if factor.name not in each.runs:
        return [f"One factor changed, {factor.name}: {factor.why} Not run."]
    rows = [
        [
            row.number.quantity, str(row.number.epoch), _value(row, row.number.value), _value(row, plain.here),
            _value(row, row.here), _difference(row),
        ]
        for row, plain in zip(each.numbers[factor.name], each.numbers[""], strict=True)
    ]  # fmt: skip
    headings = ("", "after epoch", "published", "the run above", "with this changed", "difference from published")
    return [
        f"One factor changed, {factor.name}: {factor.why}",
        Code(each.runs[factor.name]["command"]),
        Grid(headings, rows, "lrrrrr"),
    ]


def _over_samples(each: Compared) -> str:
    asked = each.angles.get(each.runs[""]["id"])
    if asked is None:
        return "Its angles were not measured: they are asked of the weights, which are not on record."
    spread = asked["delta angle of other samples"]
    return (
        "The published delta angle is that of one sample, the first in the files of the training split, as is ours. "
        f"Over {spread['samples']:,} other training samples it is {spread['median']:.1f}° in the median here, and from "
        f"{spread['5 %']:.1f}° to {spread['95 %']:.1f}° for nine in ten."
    )


def _value(row: Measured, value: float | None) -> str:
    return "–" if value is None else f"{value:.2f} {row.number.unit}".replace(" °", "°")


def _difference(row: Measured) -> str:
    return "–" if row.difference is None else f"{row.difference:+.2f}"


def _verdict(row: Measured, ran: bool) -> str:
    if row.here is None:
        return "not measured" if ran else "not run"
    return "within two" if row.within else "differs"


def _within(each: Compared) -> str:
    found = each.numbers.get("", [])
    return f"{sum(row.within for row in found)} of {len(found)}" if found else "–"


def _largest(each: Compared) -> str:
    found = [row for row in each.numbers.get("", []) if row.difference is not None]
    if not found:
        return "–"
    largest = max(found, key=lambda row: abs(row.difference or 0))
    return f"{_difference(largest)}{'°' if largest.number.unit == '°' else ''}"


def _hours(each: Compared) -> str:
    hours = each.hours.get(each.published.name)
    return "–" if hours is None else f"{hours:.2f}"
