"""Which column of a log holds which value of the protocol: `h_0=a,h_L=b,g_2=c,acc=val_acc,epoch=epoch`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from walkback.errors import InputError, RecordError, nearest
from walkback.protocol.schema import shortened
from walkback.registry import did_you_mean
from walkback.watch.log_sites import SiteName, site_named

SINGLE = (
    "acc", "acc_percent", "frozen_acc", "frozen_acc_percent", "c", "error", "loss", "epoch", "step", "seconds", "name",
)  # fmt: skip
KNOWN = ("h_0", "h_L", "g_L", "h", "g", "g_1..L", *SINGLE)
"""What a message lists; any site may be named, and any list of sites that follow each other."""
_LISTED = 40
_OWN_SITE = re.compile(r"([hg])_(0|[1-9]\d{0,5})")
_COMMA = re.compile(r"(?<!\\),")


@dataclass(frozen=True)
class Row:
    """One row of a log."""

    place: str
    """Where it stands, as a message says it: `line 3`."""
    values: Mapping[str, Any]
    """What it holds, by column."""


def is_site(name: str) -> bool:
    """Whether a map can name such a site."""
    return site_named(name) is not None


def is_value(name: str) -> bool:
    """Whether a map can name such a value."""
    return name in SINGLE or is_site(name)


@dataclass(frozen=True)
class ColumnMap:
    """Value → column. Sites are `h_0` … `h_L` and `g_0` … `g_L`, and lists of them as `log_sites` says."""

    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        for key, column in self.columns.items():
            if not is_value(key):
                reversed_ = _reversed(key, column) if is_value(column) else ""
                raise InputError(reversed_ or f"the map names an unknown value {key!r}. {did_you_mean(key, KNOWN)}")
        if not any(map(is_site, self.columns)):
            raise InputError("the map names no site; expected at least one of h_0 … h_L and g_0 … g_L.")

    @classmethod
    def parse(cls, text: str) -> ColumnMap:
        """A map from `value=column` pairs, separated by commas; a comma of a column's own name is written `\\,`."""
        columns: dict[str, str] = {}
        for pair in filter(None, (part.strip() for part in _COMMA.split(text))):
            key, equals, column = pair.replace("\\,", ",").partition("=")
            if not equals or not column:
                raise InputError(
                    f"--map has {pair!r}; expected name=column pairs such as h_L=stream,g_L=gradient. A comma in the "
                    "name of a column is written \\,"
                )
            if key.strip() in columns:
                raise InputError(f"--map gives {key.strip()} twice. Give each value one column.")
            columns[key.strip()] = column.strip()
        return cls(columns)

    @classmethod
    def by_names(cls, rows: Iterable[Row]) -> ColumnMap | None:
        """The map of a log whose columns are called by walkback's own words, all of them and nothing else.

        These are h_0 to h_L without a gap, the g_l that there are with g_L among them, and acc, epoch. A column of any
        other name, or another order of sites, is for the caller to explain: then there is no map.
        """
        there = list(dict.fromkeys(column for row in rows for column in row.values))
        sites = [found for column in there if (found := _OWN_SITE.fullmatch(column))]
        hidden = {int(found[2]) for found in sites if found[1] == "h"}
        gradients = {int(found[2]) for found in sites if found[1] == "g"}
        last = max(hidden, default=0)
        whole = last > 0 and hidden == set(range(last + 1)) and max(gradients, default=0) in (0, last)
        named = {"acc", "epoch", *(found[0] for found in sites)}
        if not whole or gradients == {0} or not set(there) <= named:
            return None
        return cls({column: column for column in there})

    def check(self, rows: Iterable[Row], where: str) -> None:
        """Raise if no row has a column that the map names."""
        there = list(dict.fromkeys(column for row in rows for column in row.values))
        missing = {column: key for key, column in self.columns.items() if column not in there}
        if missing:
            for column, key in missing.items():
                if key in there and is_value(column):
                    raise RecordError(f"{where}: {_reversed(key, column)}")
            listed = ", ".join(there[:_LISTED]) + (f" and {len(there) - _LISTED} more" if len(there) > _LISTED else "")
            near = "".join(nearest(column, there) for column in missing)
            raise RecordError(
                f"{where} has no column {', '.join(map(repr, missing))}. {near}Its columns: {listed or 'none'}."
            )

    def values(self, row: Row, where: str) -> dict[str, Any]:
        """The values in one row, as numbers; empty cells are left out."""
        found: dict[str, Any] = {}
        for key, column in self.columns.items():
            value = row.values.get(column)
            if value is not None and value != "":
                found[key] = str(value) if key == "name" else _number(value, key, f"{where}, column {column!r}")
        return found


def _reversed(key: str, column: str) -> str:
    """Of a pair that is written the other way round."""
    return f"the map has {key}={column}; expected NAME=COLUMN. Did you reverse them? Write {column}={key}."


def _number(value: Any, key: str, where: str) -> Any:
    name = site_named(key)
    listed = name is not None and name.listed
    try:
        if listed:
            if isinstance(value, str):  # whose entries are letters
                raise TypeError
            return [float(entry) for entry in value]
        number = float(value)
        if key in ("epoch", "step") and not math.isfinite(number):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        kind = "a list of numbers" if listed else "a number"
        raise RecordError(f"{where} holds {shortened(value)}; expected {kind}.{_advice(value, name)}") from None


def _advice(value: Any, name: SiteName | None) -> str:
    if name is not None and name.listed:
        cell = "A cell of a table holds one number" if isinstance(value, str) else "A column without lists has one site"
        return f" {cell}: give each site a column of its own, such as {name.letter}_0=COLUMN."
    if name is not None and isinstance(value, list):
        return (
            f" A list of all sites is called {name.letter}, one of some by their numbers, such as {name.letter}_1..L."
        )
    return " Write decimals with a point." if isinstance(value, str) and "," in value else ""
