"""Which column of a log holds which value of the protocol: `h_0=a,h_L=b,g_2=c,acc=val_acc,epoch=epoch`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from walkback.errors import InputError, RecordError
from walkback.protocol.schema import shortened
from walkback.registry import did_you_mean

SINGLE = (
    "acc", "acc_percent", "frozen_acc", "frozen_acc_percent", "c", "error", "loss", "epoch", "step", "seconds", "name",
)  # fmt: skip
_SITE = re.compile(r"([hg])(?:_(\d+|L))?")
KNOWN = ("h_0", "h_L", "g_L", "h", "g", *SINGLE)
"""What a message lists; any site may be named."""
_LISTED = 40
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
    return _SITE.fullmatch(name) is not None


def is_value(name: str) -> bool:
    """Whether a map can name such a value."""
    return name in SINGLE or is_site(name)


@dataclass(frozen=True)
class ColumnMap:
    """Value → column. Sites are `h_0` … `h_L` and `g_0` … `g_L`; `h` or `g` alone is a column of lists."""

    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        for key in self.columns:
            if not is_value(key):
                raise InputError(f"the map names an unknown value {key!r}. {did_you_mean(key, KNOWN)}")
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
            columns[key.strip()] = column.strip()
        return cls(columns)

    def check(self, rows: Iterable[Row], where: str) -> None:
        """Raise if no row has a column that the map names."""
        there = list(dict.fromkeys(column for row in rows for column in row.values))
        missing = [column for column in self.columns.values() if column not in there]
        if missing:
            listed = ", ".join(there[:_LISTED]) + (f" and {len(there) - _LISTED} more" if len(there) > _LISTED else "")
            raise RecordError(
                f"{where} has no column {', '.join(map(repr, missing))}. Its columns: {listed or 'none'}."
            )

    def values(self, row: Row, where: str) -> dict[str, Any]:
        """The values in one row, as numbers; empty cells are left out."""
        found: dict[str, Any] = {}
        for key, column in self.columns.items():
            value = row.values.get(column)
            if value is not None and value != "":
                found[key] = str(value) if key == "name" else _number(value, key, f"{where}, column {column!r}")
        return found


def norms_by_site(values: Mapping[str, Any], letter: str, blocks: int) -> dict[int, float]:
    """The norms of one kind, by the number of their site."""
    found: dict[int, float] = {}
    for key, value in values.items():
        match = _SITE.fullmatch(key)
        if match is None or match[1] != letter:
            continue
        if match[2] is None:
            found |= dict(enumerate(value))
        else:
            found[blocks if match[2] == "L" else int(match[2])] = value
    return found


def blocks_in(values: Mapping[str, Any]) -> int | None:
    """L, where the values show it: a list of all sites, or every site from 0 to the last by its number."""
    sites = [match for match in map(_SITE.fullmatch, values) if match is not None]
    lists = [len(values[match[0]]) - 1 for match in sites if match[2] is None]
    if lists:
        return lists[0]
    for letter in "hg":
        numbers = sorted(int(m[2]) for m in sites if m[1] == letter and m[2] != "L")
        named_last = any(m[2] == "L" for m in sites)
        if len(numbers) > 1 and numbers == list(range(len(numbers))) and not named_last:
            return numbers[-1]
    return None


def _number(value: Any, key: str, where: str) -> Any:
    match = _SITE.fullmatch(key)
    try:
        if match is not None and match[2] is None:
            if isinstance(value, str):  # whose entries are letters
                raise TypeError
            return [float(entry) for entry in value]
        number = float(value)
        if key in ("epoch", "step") and not math.isfinite(number):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        kind = "a list of numbers" if match is not None and match[2] is None else "a number"
        advice = " Write decimals with a point." if isinstance(value, str) and "," in value else ""
        raise RecordError(f"{where} holds {shortened(value)}; expected {kind}.{advice}") from None
