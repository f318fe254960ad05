"""The first table in a piece of HTML, as far as it takes little time to read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from .table_text import ELLIPSES, Table, one_line

#: Rows that are read; pandas sends up to sixty.
MOST_ROWS = 60


# Tables in HTML

#: Sixty rows of a table seldom take more, and an attack shall not take longer.
_LONGEST_PARSED = 300_000


_CHUNK = 8_000


_MOST_CELLS = 20_000


DATA_FRAME = re.compile(r"<table[^<>]{0,500}class\s*=\s*[\"']?[^\"'<>]*\bdata-?frame\b", re.I)


# pandas and old Julia; polars; R; Julia.
_SHAPE_AFTER = re.compile(r"([\d,_]{1,20}) rows? (?:\xd7|&times;|x) ([\d,_]{1,20}) columns?")


_SHAPES_BEFORE = (
    re.compile(r"<small>shape: \(([\d,_]{1,20}?),(?: ([\d,_]{1,20}))?\)"),
    _SHAPE_AFTER,
    re.compile(r"<span>([\d,_]{1,20})\xd7([\d,_]{1,20}) \w*DataFrame"),
)


_SHAPE_IN_CAPTION = re.compile(r": ([\d,_]{1,20}) (?:\xd7|&times;|x) ([\d,_]{1,20})$")


def from_html(html: str, otherwise_said: bool) -> Table | None:
    start = html.find("<table")
    if start < 0:
        start = html.find("<TABLE")
    if start < 0 or html.rfind("<script", 0, start) > html.rfind("</script", 0, start):
        return None
    of_a_frame = DATA_FRAME.match(html, start)
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
    shape = _shape_before(html, start, parser.caption) or shape_after(html)
    several = html.find("<table", start + 1) > 0
    rows, counted = _row_count(html, start, parser, len(header), several)
    complete = counted and parser.ended and not parser.shortened
    return _assembled(header, body, shape, rows, complete)


def _row_count(
    html: str, start: int, parser: _Rows, header: int, several: bool
) -> tuple[int | None, bool]:
    """How many rows the body has in this HTML, and whether that is all there is."""
    if parser.ended:
        count = sum(bool(row.cells) for row in parser.rows) - header
        # A script will fill it.
        return (None, False) if not count and "<script" in html else (count, not several)
    left_out = any(f">{mark}</td>" in html for mark in ELLIPSES)
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


def shape_after(html: str) -> tuple[int, int] | None:
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
    rows: int | None,
    complete: bool,
) -> Table:
    dots = next((n for n, row in enumerate(body) if _is_left_out(row)), len(body))
    first, last = body[: min(dots, MOST_ROWS)], body[dots + 1 :][:MOST_ROWS]
    shown = [*first, *last]
    index = min((_leading_headings(row) for row in shown), default=_blank_corner(header))
    names, types, index_names = _names(header, index)
    width = max((len(row.cells) for row in [*header, *shown]), default=0) - index
    if len(shown) < len(body) - (dots < len(body)) or any(map(_is_left_out, last)):
        complete = False
    if dots < len(body):
        rows = None
    columns = width
    if shape:
        rows, columns = shape
    return Table(
        rows=rows,
        columns=columns,
        names=[one_line(name) for name in names],
        first=[[one_line(cell) for cell in row.cells] for row in first],
        last=[[one_line(cell) for cell in row.cells] for row in last],
        types=[one_line(name) for name in types],
        index_names=[one_line(name) for name in index_names],
        complete=complete,
    )


def _is_left_out(row: _Row) -> bool:
    return bool(row.cells) and all(cell.strip() in ELLIPSES for cell in row.cells)


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
        self.shortened = False
        """Whether a cell has more than is kept of it."""
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
        return self._body > MOST_ROWS + 3 or self._cells > _MOST_CELLS

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
        if self._cell is not None:
            if len(self._cell) < 100:
                self._cell.append(data[:1_000])
            self.shortened |= len(self._cell) == 100 or len(data) > 1_000

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
