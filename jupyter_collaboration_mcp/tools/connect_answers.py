"""What answers of the `connect` toolset have in common: tables, and cells with what is around."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..documents import render
from ..documents.addresses import Cell as CellAddress
from ..documents.addresses import CellOutput
from ..documents.cell_view import CellView
from ..documents.images import ImageLimits
from ..documents.output_summary import OutputSummary, summarize
from ..documents.text import beginning, size
from ..errors import InvalidArgument
from ..workspace import by_index
from ..workspace.cell_reading import read_cells, render_in_thread
from ..workspace.sites import SiteDocument
from .registry import DEFAULT_LENGTH

#: Characters of the first line of a cell.
_FIRST_LINE = 120

#: Cells before and after an edited one that its answer shows.
_AROUND = 5

#: Bytes that the frame of a cell and the other lines of an answer need.
_FRAME = 1_000

_HEADERS = ("Index", "Type", "Count", "First Line")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Tab-separated values. No value has a tab or ends a line."""
    return "\n".join("\t".join(map(_value, row)) for row in (headers, *rows))


def _value(value: object) -> str:
    return "".join(each if each.isprintable() else " " for each in str(value))


@dataclass(frozen=True, slots=True)
class Page:
    """Some cells of a notebook."""

    start: int
    end: int
    count: int
    """Of all cells."""

    @classmethod
    def of(cls, here: SiteDocument, start_index: int, limit: int) -> Page:
        """The cells from an index on, at most so many, or all if the limit is 0.

        Raises:
            InvalidArgument: There are no such cells.
        """
        count = len(here.peer.notebook)
        if limit < 0 or start_index < 0 or (start_index and start_index >= count):
            raise InvalidArgument(
                f"There are no cells from start_index {start_index} with limit {limit}; the "
                f"notebook has {count}.",
                "Start from an earlier cell; the first is 0. A limit of 0 means no limit.",
                cell_count=count,
            )
        return cls(start_index, min(start_index + limit, count) if limit else count, count)

    def note(self, shown: int) -> str:
        """How to continue, if not all cells from the start on are shown."""
        end = self.start + shown
        if end >= self.count:
            return ""
        return (
            f"Cells {self.start} to {end - 1} of {self.count} are shown; continue with "
            f"start_index={end}."
        )

    async def read(self, here: SiteDocument, enough: int | None = None) -> list[CellView]:
        """The cells, without outputs.

        Args:
            enough: Characters of their sources that the caller can use.
        """
        notebook = here.peer.notebook

        def chosen() -> range:
            return range(self.start, min(self.end, len(notebook)))

        return await read_cells(notebook, chosen, False, enough)


async def cell_table(here: SiteDocument, page: Page) -> str:
    """A line for each cell; the agent knows then which cell is at which index."""
    cells = await page.read(here)
    rows = await render_in_thread(cells, lambda: _fitting_rows(cells))
    here.seat.places.show((cell.index, cell.id) for cell in cells[: len(rows)])
    note = page.note(len(rows))
    shown = table(_HEADERS, rows)
    return f"{shown}\n\n{note}" if note and page.end - page.start else shown


def _fitting_rows(cells: Iterable[CellView]) -> list[Sequence[object]]:
    """A row for each cell, as many as fit into an answer."""
    rows: list[Sequence[object]] = []
    room = DEFAULT_LENGTH - _FRAME
    for cell in cells:
        count = "N/A" if cell.execution_count is None else cell.execution_count
        row = (cell.index, cell.cell_type, count, _first_line(cell.source))
        room -= size("\t".join(map(str, row))) + 1
        if room < 0:
            break
        rows.append(row)
    return rows


def _first_line(source: str) -> str:
    """The first line with something in it, as far as a table has room."""
    line = source.lstrip().partition("\n")[0].rstrip()
    return line if len(line) <= _FIRST_LINE else f"{line[: _FIRST_LINE - 3]}..."


async def surroundings(here: SiteDocument, index: int) -> list[str]:
    """The cells around an index, after something was inserted or deleted there."""
    count = len(here.peer.notebook)
    if not count:
        return ["The notebook has no cells now."]
    end = min(count, max(0, index - _AROUND) + 2 * _AROUND)
    page = Page(max(0, end - 2 * _AROUND), end, end)
    return ["Surrounding cells information:", await cell_table(here, page)]


def cell_lines(here: SiteDocument, cell: CellView, room: int) -> list[str]:
    """A cell and its source, cut if there is no room for all of it."""
    count = f", execution count {cell.execution_count}" if cell.cell_type == "code" else ""
    lines = [f"Cell {cell.index} ({cell.cell_type}{count}):"]
    source = cell.source
    if size(source) > room:
        source = beginning(source, room)
        link = here.peer.link
        uri = CellAddress(link.session_id, link.room_id.file_id, cell.id).format()
        lines.append(
            f"{len(source):,} of its {len(cell.source):,} characters are shown; {uri} has the "
            "whole. Do not write it back."
        )
    return [*lines, render.fenced(source)]


async def outputs_of(
    here: SiteDocument, cell: CellView, images: ImageLimits | None, room: int
) -> OutputSummary:
    """The outputs of a cell as they are in the notebook."""
    link = here.peer.link

    def address(index: int) -> str:
        file_id = link.room_id.file_id
        return CellOutput(link.session_id, file_id, cell.id, index).format()

    return await asyncio.to_thread(
        summarize, cell.outputs, link=address, max_length=room, images=images
    )


async def view_of(here: SiteDocument, index: int, outputs: bool) -> CellView:
    """The cell at an index, if it is the one that the caller was shown there."""
    at = by_index.cell_at(here, index)
    view = here.peer.notebook.view(at, outputs)
    by_index.show(here, [at])
    return view


def view_facts(cells: Sequence[CellView]) -> list[dict[str, object]]:
    """Cells as facts for programs."""
    return [{"index": cell.index, "id": cell.id, "revision": cell.revision} for cell in cells]


def diff_lines(diff: str) -> str:
    """A diff between fences that it cannot forge, marked as one."""
    fence, _, rest = render.fenced(diff).partition("\n")
    return f"{fence}diff\n{rest}"
