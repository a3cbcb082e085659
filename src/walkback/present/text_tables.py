"""Tables of sites for a terminal: cut into parts where they do not fit, never into half a number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from walkback.present.numbers import written
from walkback.present.plain import site_label
from walkback.present.site_table import Column, SiteTable
from walkback.present.sparkline import sparkline

GAP = 2
"""Blanks between two columns."""
_HEADING = "block"
_LEAST_NAME, _MOST_NAME = 6, 24
_MOST_SPARKS = 80


def ruled_table() -> Table:
    """A table with one rule under its headings and no other lines, which survives being pasted."""
    # The box puts one blank between columns, the padding the other.
    return Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, GAP - 1), header_style="")


def site_blocks(table: SiteTable | None, width: int) -> Iterator[RenderableType]:
    """The table in as many parts as the width asks for, what was left out, and how the sizes run."""
    if table is None:
        return
    for part, columns in enumerate(parts(table, width)):
        if part:
            yield Text()
        yield _drawn(table, columns, width)
    yield from (Text(line, style="dim") for line in _below(table, width))
    yield Text()


def parts(table: SiteTable, width: int) -> list[list[Column]]:
    """The columns in groups that fit the width; a column never loses digits to fit beside another."""
    groups: list[list[Column]] = [[]]
    room = width - _name_width(table)
    for column in table.columns:
        need = _column_width(table, column) + GAP
        if need > room and groups[-1]:
            groups.append([])
            room = width - _name_width(table)
        groups[-1].append(column)
        room -= need
    return groups


def _column_width(table: SiteTable, column: Column) -> int:
    return max(len(column.heading), *(len(column.cell(site)) for site in table.shown))


def _name_width(table: SiteTable) -> int:
    """What the names ask for, and no more than leaves room for the numbers."""
    longest = max(cell_len(table.name(site)) for site in table.shown)
    return min(max(longest, len(_HEADING)), _MOST_NAME)


def _drawn(table: SiteTable, columns: Sequence[Column], width: int) -> Table:
    taken = sum(_column_width(table, c) + GAP for c in columns)
    name_width = max(width - taken, _LEAST_NAME)
    drawn = ruled_table()
    drawn.add_column(Text(_HEADING), no_wrap=True, max_width=name_width)
    for column in columns:
        drawn.add_column(Text(column.heading), justify="right", no_wrap=True)
    for site in table.shown:
        if table.after_gap(site):
            drawn.add_row("⋮")
        drawn.add_row(Text(site_label(table.name(site), name_width)), *(Text(c.cell(site)) for c in columns))
    return drawn


def _below(table: SiteTable, width: int) -> Iterator[str]:
    if table.left_out:
        yield table.left_out
    for column in table.columns:
        if not column.quantity.profiled or not 2 <= table.count <= min(_MOST_SPARKS, width - 10):
            continue
        values = [v for v in column.values if v is not None]
        ends = f"{written(values[0])} before the blocks to {written(values[-1])} after them, log scale"
        yield f"{column.heading}  {sparkline(column.values)}  {ends}"
