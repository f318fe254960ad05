"""Tables in few words: their shape, their columns and the first rows, from what a kernel sends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from .outputs import TABLE, compact, joined, says_something


@dataclass(frozen=True, slots=True)
class Table:
    """The beginning of a table; `...` stands where the kernel itself left columns out."""

    rows: int | None
    """In the whole table, as far as known."""
    columns: int
    """In the whole table, without those of the index."""
    names: list[str]
    sample: list[list[str]]
    """The first rows, each with the values of the index before the others."""
    types: list[str] = field(default_factory=list)
    """As many as names, or none."""
    index_names: list[str] = field(default_factory=list)
    """One for each column of the index; empty if it has no name."""
    whole: bool = False
    """Whether every value of the table is here, unshortened."""


def table(data: Mapping[str, Any]) -> Table | None:
    """The table in a mime bundle, if it holds one."""
    resource = data.get(TABLE)
    if isinstance(resource, Mapping) and (found := _from_resource(resource, data)):
        return found
    return _from_html(joined(data.get("text/html")), says_something(data))


def described(table: Table, limit: int) -> str:
    """A line with the shape, then columns and rows with tabs between the cells."""
    for rows in range(len(table.sample), -1, -1):
        lines = list(_lines(table, rows, _MOST_COLUMNS))
        if sum(map(len, lines)) + len(lines) - 1 <= limit:
            return "\n".join(lines)
    # Not even the names fit: as many as do.
    columns = min(len(table.names), _MOST_COLUMNS)
    while columns and len("\n".join(_lines(table, 0, columns))) > limit:
        columns -= 1
    return "\n".join(_lines(table, 0, columns))


def shown_whole(table: Table, text: str) -> bool:
    """Whether `described` had room for all of the table."""
    return table.whole and text == described(table, _UNBOUNDED)


_MOST_ROWS = 5
#: Twenty and the one that stands for those the kernel left out.
_MOST_COLUMNS = 21
_LONGEST_CELL = 60
_UNBOUNDED = 1 << 40
_LEFT_OUT = frozenset({"...", "…", "⋮", "⋯", "⋱"})


# A table in words


def _lines(table: Table, rows: int, columns: int) -> Iterator[str]:
    index = len(table.index_names)
    shown = [name for name in table.names[:columns] if name not in _LEFT_OUT]
    width = len(table.names) if table.names else table.columns
    yield _headline(table, rows, len(shown) if table.names else min(width, columns))
    if not columns:
        return
    if _has_names(table):
        types = [f" ({name})" if name else "" for name in table.types] or [""] * len(table.names)
        names = [name + type_ for name, type_ in zip(table.names, types, strict=False)]
        yield "\t".join([*table.index_names, *names[:columns]])
    for row in table.sample[:rows]:
        yield "\t".join(row[: index + columns])


def _headline(table: Table, rows: int, columns: int) -> str:
    named = f"{table.columns:,} column{'' if table.columns == 1 else 's'}"
    if table.rows is None:
        shape = f"table of {named}"
    else:
        shape = f"table {table.rows:,} row{'' if table.rows == 1 else 's'} x {named}"
    parts = []
    if rows and (table.rows is None or rows < table.rows):
        parts.append("the first row" if rows == 1 else f"the first {rows:,} rows")
    elif not rows and table.rows != 0:
        parts.append("none of the rows")
    if columns < table.columns:
        parts.append(f"{columns:,} of the columns")
    return ": ".join(part for part in (shape, " and ".join(parts)) if part)


def _has_names(table: Table) -> bool:
    return bool(table.names or any(table.index_names))


def _cell(text: str) -> str:
    """A cell in one line without tabs: it must not look like two cells or two rows."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 3] + "..."


def _is_short(text: str) -> bool:
    return len(text) <= _LONGEST_CELL or len(" ".join(text.split())) <= _LONGEST_CELL


# The table schema of frictionless data, which pandas can be told to send


def _from_resource(resource: Mapping[str, Any], data: Mapping[str, Any]) -> Table | None:
    schema, records = resource.get("schema"), resource.get("data")
    fields = schema.get("fields") if isinstance(schema, Mapping) else None
    if not isinstance(fields, list) or not isinstance(records, list):
        return None
    types = {
        str(entry.get("name")): str(entry.get("type") or "")
        for entry in fields
        if isinstance(entry, Mapping)
    }
    keys = schema.get("primaryKey") if isinstance(schema, Mapping) else None
    keys = [keys] if isinstance(keys, str) else keys if isinstance(keys, list) else []
    index = [str(key) for key in keys if str(key) in types]
    names = [name for name in types if name not in index]
    if not types:
        return None
    order = [*index, *names]
    values = [
        [_value(record.get(name)) for name in order]
        for record in records[:_MOST_ROWS]
        if isinstance(record, Mapping)
    ]
    # pandas sends at most as many rows as it would show; the other forms say how many there are.
    shape = _shape_after(joined(data.get("text/html"))) or _shape_in_plain(data)
    rows = shape[0] if shape else len(records)
    return Table(
        rows=rows,
        columns=len(names),
        names=[_cell(name) for name in names],
        sample=[[_cell(value) for value in row] for row in values],
        types=[_cell(types[name]) for name in names],
        index_names=["" if name == "index" else _cell(name) for name in index],
        whole=rows == len(values)
        and len(names) <= _MOST_COLUMNS
        and all(_is_short(value) for row in [order, *values] for value in row),
    )


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (list, dict)):
        return compact(value)
    return str(value)


def _shape_in_plain(data: Mapping[str, Any]) -> tuple[int, int] | None:
    found = re.search(r"\[(\d+) rows x (\d+) columns\]\s*$", joined(data.get("text/plain"))[-200:])
    return (int(found[1]), int(found[2])) if found else None


# Tables in HTML

#: Five rows of a table seldom take more, and an attack shall not take longer.
_LONGEST_PARSED = 300_000
_CHUNK = 8_000
_MOST_CELLS = 20_000
_OF_A_FRAME = re.compile(r"<table[^<>]{0,500}class\s*=\s*[\"']?[^\"'<>]*\bdata-?frame\b", re.I)
# pandas and old Julia; polars; R; Julia.
_SHAPE_AFTER = re.compile(r"([\d,_]{1,20}) rows? (?:\xd7|&times;|x) ([\d,_]{1,20}) columns?")
_SHAPES_BEFORE = (
    re.compile(r"<small>shape: \(([\d,_]{1,20}?),(?: ([\d,_]{1,20}))?\)"),
    _SHAPE_AFTER,
    re.compile(r"<span>([\d,_]{1,20})\xd7([\d,_]{1,20}) \w*DataFrame"),
)
_SHAPE_IN_CAPTION = re.compile(r": ([\d,_]{1,20}) (?:\xd7|&times;|x) ([\d,_]{1,20})$")


def _from_html(html: str, otherwise_said: bool) -> Table | None:
    start = html.find("<table")
    if start < 0:
        start = html.find("<TABLE")
    if start < 0 or html.rfind("<script", 0, start) > html.rfind("</script", 0, start):
        return None
    of_a_frame = _OF_A_FRAME.match(html, start)
    # Many objects are laid out with tables; of those the text says more than a table would.
    if otherwise_said and not of_a_frame:
        return None
    parser = _Rows()
    parser.read(html[start : start + _LONGEST_PARSED])
    header, body = _split(parser.rows)
    if not header and not body:
        return None
    if not of_a_frame and max(len(row.cells) for row in [*header, *body]) < 2:
        return None
    shape = _shape_before(html, start, parser.caption) or _shape_after(html)
    several = html.find("<table", start + 1) > 0
    return _assembled(header, body, shape, _row_count(html, start, parser, len(header), several))


def _row_count(
    html: str, start: int, parser: _Rows, header: int, several: bool
) -> tuple[int | None, bool]:
    """How many rows the body has in this HTML, and whether that is all there is."""
    if parser.ended:
        count = sum(bool(row.cells) for row in parser.rows) - header
        # A script will fill it.
        return (None, False) if not count and "<script" in html else (count, not several)
    left_out = any(f">{mark}</td>" in html for mark in _LEFT_OUT)
    if several or left_out or "&hellip;" in html:
        return None, False
    return max(0, html.count("<tr", start) + html.count("<TR", start) - header), True


def _shape_before(html: str, start: int, caption: str) -> tuple[int, int] | None:
    before = html[max(0, start - 500) : start]
    for pattern in _SHAPES_BEFORE:
        if found := pattern.search(before):
            return _numbers(found)
    found = _SHAPE_IN_CAPTION.search(caption)
    return _numbers(found) if found else None


def _shape_after(html: str) -> tuple[int, int] | None:
    """Only what stands after the table, where no cell can say it."""
    found = _SHAPE_AFTER.search(html[-300:].rpartition("</table>")[2])
    return _numbers(found) if found else None


def _numbers(found: re.Match[str]) -> tuple[int, int] | None:
    rows, columns = (re.sub(r"\D", "", group or "1") for group in found.groups())
    return (int(rows), int(columns)) if rows and columns else None


@dataclass(slots=True)
class _Row:
    in_head: bool
    cells: list[str] = field(default_factory=list)
    headings: list[bool] = field(default_factory=list)
    """For each cell whether it is a <th>."""


def _split(rows: Sequence[_Row]) -> tuple[list[_Row], list[_Row]]:
    """Header and body; a table without a <thead> may still begin with rows of headings."""
    rows = [row for row in rows if row.cells]
    first = next((n for n, row in enumerate(rows) if not row.in_head), len(rows))
    if first == 0 and len(rows) > 1:
        first = next((n for n, row in enumerate(rows) if not all(row.headings)), 0)
    return rows[:first], rows[first:]


def _assembled(
    header: Sequence[_Row],
    body: Sequence[_Row],
    shape: tuple[int, int] | None,
    counted: tuple[int | None, bool],
) -> Table:
    ellipsis = next((n for n, row in enumerate(body) if _is_left_out(row)), len(body))
    shown = body[: min(ellipsis, _MOST_ROWS)]
    index = min((_leading_headings(row) for row in shown), default=_blank_corner(header))
    names, types, index_names = _names(header, index)
    width = max((len(row.cells) for row in [*header, *shown]), default=0) - index
    rows, complete = counted
    if ellipsis < len(body):
        rows, complete = None, False
    columns = width
    if shape:
        rows, columns = shape
    cells = [cell for row in [*header, *shown] for cell in row.cells]
    whole = (
        complete
        and rows == len(shown)
        and columns == width <= _MOST_COLUMNS
        and all(_is_short(cell) for cell in cells)
    )
    return Table(
        rows=rows,
        columns=columns,
        names=[_cell(name) for name in names],
        sample=[[_cell(cell) for cell in row.cells] for row in shown],
        types=[_cell(name) for name in types],
        index_names=[_cell(name) for name in index_names],
        whole=whole,
    )


def _is_left_out(row: _Row) -> bool:
    return bool(row.cells) and all(cell.strip() in _LEFT_OUT for cell in row.cells)


def _leading_headings(row: _Row) -> int:
    if all(row.headings):
        return 0
    return row.headings.index(False)


def _blank_corner(header: Sequence[_Row]) -> int:
    """The columns of the index of a table without rows, where pandas names no column."""
    return int(bool(header) and not header[0].cells[0].strip())


def _names(header: Sequence[_Row], index: int) -> tuple[list[str], list[str], list[str]]:
    """Names, types if the table has them (polars, R), and the names of the index."""
    levels: list[list[str]] = []
    types: list[str] = []
    index_names = [""] * index
    for number, row in enumerate(header):
        own, corner = row.cells[index:], row.cells[:index]
        if levels and not any(cell.strip() for cell in own):
            index_names = corner
        elif number == 1 and (not any(row.headings) or all(map(_is_r_type, own))):
            types = [cell.strip("<>") for cell in own]
        else:
            levels.append(own)
            index_names = [name.strip() for name in corner] if len(header) == 1 else index_names
    width = max(map(len, levels), default=0)
    names = []
    for column in range(width):
        parts = [level[column].strip() for level in levels if column < len(level)]
        names.append(" / ".join(dict.fromkeys(part for part in parts if part)))
    if len(types) != width:
        types = []
    return names, types, [name.strip() for name in index_names]


def _is_r_type(text: str) -> bool:
    return text.startswith("<") and text.endswith(">")


class _Rows(HTMLParser):
    """Reads the first rows of the first table; a table in a cell is text to it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[_Row] = []
        self.caption = ""
        self.ended = False
        self._depth = 0
        self._in_head = False
        self._in_caption = False
        self._silent = 0
        self._cell: list[str] | None = None
        self._spans = (1, 1)
        self._heading = False
        #: By column: how many more rows a cell reaches down to, its text and its sort.
        self._hanging: dict[int, tuple[int, str, bool]] = {}
        self._cells = 0
        self._body = 0

    def read(self, html: str) -> None:
        """As much of `html` as is needed."""
        try:
            for place in range(0, len(html), _CHUNK):
                self.feed(html[place : place + _CHUNK])
                if self.ended or self._enough():
                    break
        except AssertionError:
            # html.parser gives up on malformed declarations; what was read so far is a table.
            pass
        if not self.ended:
            # The last one may be there in part only.
            self._cell = None
            self.rows = self.rows[:-1]

    def _enough(self) -> bool:
        # Some more, for a header without <thead>, and as the last one may be unfinished.
        return self._body > _MOST_ROWS + 3 or self._cells > _MOST_CELLS

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.ended or self._enough():
            return
        if tag == "table":
            self._depth += 1
        if tag in ("style", "script"):
            self._silent += 1
        if self._depth != 1:
            return
        match tag:
            case "thead" | "tbody" | "tfoot":
                self._in_head = tag == "thead"
            case "caption":
                self._in_caption = True
            case "tr":
                self._end_cell()
                self.rows.append(_Row(self._in_head))
                self._body += not self._in_head
                self._cells += 1
                self._hang()
            case "td" | "th":
                self._end_cell()
                found = dict(attrs)
                self._cell = []
                self._heading = tag == "th"
                self._spans = (_span(found.get("colspan")), _span(found.get("rowspan")))
            case "br" if self._cell is not None:
                self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("style", "script"):
            self._silent = max(0, self._silent - 1)
        if tag == "table":
            self._depth -= 1
            if self._depth <= 0 and not self._enough():
                self._end_cell()
                self.ended = True
        if self._depth != 1:
            return
        match tag:
            case "td" | "th" | "tr":
                self._end_cell()
            case "caption":
                self._in_caption = False
            case "thead":
                self._end_cell()
                self._in_head = False

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._in_caption:
            self.caption += data[:200]
        if self._cell is not None and len(self._cell) < 100:
            self._cell.append(data[:1_000])

    def _end_cell(self) -> None:
        if self._cell is None:
            return
        if not self.rows:
            self.rows.append(_Row(self._in_head))
        text, self._cell = "".join(self._cell).strip(), None
        columns, rows = self._spans
        for _ in range(columns):
            row = self.rows[-1]
            if rows > 1:
                self._hanging[len(row.cells)] = (rows - 1, text, self._heading)
            row.cells.append(text)
            row.headings.append(self._heading)
            self._cells += 1
            self._hang()

    def _hang(self) -> None:
        """Takes over the cells of earlier rows that reach down to this place."""
        row = self.rows[-1]
        while (place := len(row.cells)) in self._hanging:
            more, text, heading = self._hanging.pop(place)
            if more > 1:
                self._hanging[place] = (more - 1, text, heading)
            row.cells.append(text)
            row.headings.append(heading)


def _span(value: str | None) -> int:
    return min(int(value), 100) if value and re.fullmatch(r"[1-9][0-9]{0,5}", value) else 1
