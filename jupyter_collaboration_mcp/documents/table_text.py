"""A table as text: a small one whole, of a large one the shape, the columns and the first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .text import quantity


@dataclass(frozen=True, slots=True)
class Table:
    """A table as far as the kernel sent it; `...` stands where it left columns out."""

    rows: int | None
    """In the whole table, as far as known."""
    columns: int
    """In the whole table, without those of the index."""
    names: list[str]
    first: list[list[str]]
    """The first rows, each with the values of the index before the others."""
    last: list[list[str]] = field(default_factory=list)
    """The last rows, if the kernel left out some before them."""
    types: list[str] = field(default_factory=list)
    """As many as names, or none."""
    index_names: list[str] = field(default_factory=list)
    """One for each column of the index; empty if it has no name."""
    complete: bool = False
    """Whether everything that the kernel sent is here."""


class TableText(NamedTuple):
    """A table in words."""

    title: str
    """A line with its shape, and what of it follows."""
    body: str
    """Columns and rows with tabs between the cells."""
    whole: bool
    """Whether the body has everything that the kernel sent."""


def describe(table: Table, limit: int) -> TableText:
    """A small table whole, the first rows of a large one, in a body of at most `limit` characters.

    Where that is too little, columns are left out as long as lines stay readable, and then rows.
    """
    rows = _wanted(table)
    columns = _width(table)
    for count in range(len(rows), -1, -1):
        cells = _lines(table, rows[:count], _LONGEST_CELL)
        columns, widest = _fitting(cells, len(table.index_names), limit)
        if columns == _width(table) or widest >= _READABLE:
            break
    lines = _cut(cells, len(table.index_names), columns)
    everything = entire(table)
    whole = everything is not None and lines == everything.body.split("\n")
    return TableText(_title(table, count, False, columns, whole), "\n".join(lines), whole)


def entire(table: Table) -> TableText | None:
    """All that the kernel sent; None if that is not known."""
    if not table.complete:
        return None
    columns = _width(table)
    rows = [*table.first, *([[_DOTS]] if table.last else []), *table.last]
    lines = _cut(_lines(table, rows, None), len(table.index_names), columns)
    title = _title(table, len(table.first), bool(table.last), columns, True)
    return TableText(title, "\n".join(lines), True)


#: A table of so many rows is shown whole, ...
_SMALL = 20


#: ... and of a larger one so many.
_FEW = 5


#: Characters of a line, and those that a line has before rows are given up for columns.
_WIDEST = 300


_READABLE = 100


_LONGEST_CELL = 60


_DOTS = "..."


ELLIPSES = frozenset({"...", "…", "⋮", "⋯", "⋱"})


# A table in words


def _wanted(table: Table) -> list[list[str]]:
    all_there = not table.last and table.rows is not None and table.rows <= len(table.first)
    return table.first if all_there and len(table.first) <= _SMALL else table.first[:_FEW]


def _width(table: Table) -> int:
    """The columns that the kernel sent."""
    cells = max((len(row) for row in table.first), default=0) - len(table.index_names)
    return max(len(table.names), cells)


def _lines(table: Table, rows: Sequence[Sequence[str]], longest: int | None) -> list[list[str]]:
    """The cells of the header, if there is one, and of some rows."""
    lines = [list(row) for row in rows]
    if table.names or any(table.index_names):
        types = [f" ({name})" if name else "" for name in table.types] or [""] * len(table.names)
        names = [name + type_ for name, type_ in zip(table.names, types, strict=False)]
        lines.insert(0, [*table.index_names, *names])
    return [[_clipped(cell, longest) for cell in line] for line in lines]


def _fitting(lines: Sequence[Sequence[str]], index: int, limit: int) -> tuple[int, int]:
    """How many columns fit, and how long the longest line is with them."""
    lengths = [sum(len(cell) + 1 for cell in line[:index]) for line in lines]
    columns = 0
    most = max((len(line) for line in lines), default=index) - index
    while columns < most:
        place = index + columns
        wider = [
            length + (len(line[place]) + 1 if place < len(line) else 0)
            for length, line in zip(lengths, lines, strict=True)
        ]
        if sum(wider) - 1 > limit or (columns and max(wider) > _WIDEST):
            # One more would make it too wide: that is as readable as it gets.
            widest = max(wider) if columns and max(wider) > _WIDEST else max(lengths, default=0)
            return columns, widest
        lengths, columns = wider, columns + 1
    return columns, max(lengths, default=0)


def _cut(lines: Sequence[Sequence[str]], index: int, columns: int) -> list[str]:
    return ["\t".join(line[: index + columns]) for line in lines] if columns else []


def _title(table: Table, first: int, with_last: bool, columns: int, whole: bool) -> str:
    named = quantity(table.columns, "column")
    shape = (
        f"table of {named}" if table.rows is None else f"{quantity(table.rows, 'row')} x {named}"
    )
    shape = shape if table.rows is None else f"table {shape}"
    parts = []
    if with_last:
        parts.append(f"the first {first:,} and the last {len(table.last):,} rows")
    elif first and (table.rows is None or first < table.rows):
        parts.append("the first row" if first == 1 else f"the first {first:,} rows")
    elif not first and table.rows != 0:
        parts.append("none of the rows")
    names = table.names[:columns]
    left_out = sum(name in ELLIPSES for name in names)
    if columns - left_out < table.columns:
        shown = f"{columns - left_out:,}"
        parts.append(f"{shown} of the columns" if left_out else f"the first {shown} columns")
    said = ": ".join(part for part in (shape, " and ".join(parts)) if part)
    return f"{said}; the kernel sent no more, select others in code" if parts and whole else said


def one_line(text: str) -> str:
    """A cell in one line without tabs: it must not look like two cells or two rows."""
    return " ".join(text.split())


def _clipped(cell: str, longest: int | None) -> str:
    return cell if longest is None or len(cell) <= longest else cell[: longest - 3] + "..."
