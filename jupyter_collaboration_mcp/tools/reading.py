"""Cells of a notebook as an answer: which, how much of them, and how to continue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..backends.protocols.versions import CellAuthor
from ..documents import render
from ..documents.cell_view import CellView
from ..documents.foreign_text import quoted
from ..documents.images import ImageLimits, Picture
from ..documents.output_summary import summarize
from ..documents.render import Rendering
from ..errors import InvalidArgument
from ..workspace import cell_selection
from ..workspace.cell_reading import read_cells, render_in_thread
from ..workspace.open_document import OpenDocument
from .answers import about, answer, company, how_many
from .registry import Answer
from .running import has_pictures
from .version_lines import author_facts, author_notes

#: Characters of the cells of an outline that is kept.
_KEPT = 2_000_000

#: Cells whose pictures an answer shows, if their outputs are wanted.
_WITH_PICTURES = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """Which cells to read: a range, or those that are named."""

    start_index: int | None
    end_index: int | None
    cell_ids: Sequence[str | int] | None

    def indexes(self, here: OpenDocument) -> list[int]:
        """Where they are now. A handle names a cell even if it has changed since."""
        notebook = here.peer.notebook
        if self.cell_ids is not None:
            if self.start_index is not None or self.end_index is not None:
                raise InvalidArgument("Both cell_ids and a range are given.", "Give one of them.")
            found = cell_selection.targets(notebook, None, None, self.cell_ids).indexes
            return list(dict.fromkeys(found))
        start = 0 if self.start_index is None else self.start_index
        if start and start >= len(notebook):
            raise InvalidArgument(
                f"start_index is {start}, but {here.label} has only {how_many(len(notebook))}.",
                "Read from an earlier cell; the first one is 0.",
                cell_count=len(notebook),
            )
        end = len(notebook) if self.end_index is None else self.end_index
        return list(range(*slice(start, end).indices(len(notebook))))


@dataclass(frozen=True, slots=True)
class Reading:
    """How a reader wants to see cells."""

    format: str
    query: str | None
    outputs: bool
    metadata: bool
    start_position: int
    length: int
    cells: Choice
    images: ImageLimits | None
    authors: Mapping[str, CellAuthor] | None = None
    """Who wrote each cell last, if the reader wants to know."""

    async def answer(self, here: OpenDocument, state: bool) -> Answer:
        """The cells as they are now, as many as fit."""
        notebook = here.peer.notebook
        rendered = await self.render_cells(here)
        facts: dict[str, Any] = {
            **about(here),
            "cell_count": len(notebook),
            "cells": rendered.facts,
        }
        if self.authors is not None:
            shown = (cell.id for cell in rendered.cells)
            facts["authors"] = author_facts(shown, self.authors)
        lines = [self._head(here) + self._more(rendered, facts)]
        if rendered.text:
            lines.append(rendered.text)
        elif self.query is not None:
            lines.append(f"Nothing contains {quoted(self.query, 80)}.")
        if state:
            line, facts["collaboration"] = company(here)
            lines += [line] if line else []
        return answer(here, lines, facts, pictures=await self.pictures(rendered.cells))

    async def render_cells(self, here: OpenDocument) -> Rendering:
        """The text made of the cells; of an outline the same if nothing has changed since."""
        notebook, outline = here.peer.notebook, self.format == "outline"
        wish = (self.cells.start_index, self.cells.end_index, self.length)
        plain = self.query is None and self.cells.cell_ids is None and not self.start_position
        whole = outline and plain and self.authors is None
        if whole and notebook.outline is not None:
            mark, wished, made = notebook.outline
            if (mark, wished) == (notebook.mark(), wish):
                kept: Rendering = made
                here.peer.seen_sources.add(kept.cells)
                return kept
        needs_outputs = self.format != "source" or self.outputs or self.query is not None
        enough = None if self.query is not None or outline else self.length
        mark = notebook.mark()
        cells = await read_cells(notebook, lambda: self.cells.indexes(here), needs_outputs, enough)
        self._check_position(cells)
        rendered = await render_in_thread(cells, lambda: self._render(cells))
        if whole and mark == notebook.mark() and sum(cell.weight for cell in cells) < _KEPT:
            notebook.outline = (mark, wish, rendered)
        here.peer.seen_sources.add(rendered.cells)
        self._remember(here, rendered)
        return rendered

    def _head(self, here: OpenDocument) -> str:
        """What is read. The version is for an agent that starts work: undo may go back to it."""
        head = f"{here.label}: {how_many(len(here.peer.notebook))}"
        begins = self.query is None and self.cells.cell_ids is None
        return f"{head}, version {here.peer.version}" if begins else head

    def _render(self, cells: Sequence[CellView]) -> Rendering:
        length, start = self.length, self.start_position
        if self.query is not None:
            wanted = self.outputs or self.format == "full"
            return render.matches(cells, self.query, max_length=length, include_outputs=wanted)
        notes = author_notes(self.authors or {})
        if self.format == "outline":
            return render.outline(cells, max_length=length, notes=notes)
        if self.format == "full":
            return render.full(
                cells, max_length=length, start=start, all_metadata=self.metadata, notes=notes
            )
        return render.source(
            cells, include_outputs=self.outputs, max_length=length, start=start, notes=notes
        )

    def _remember(self, here: OpenDocument, shown: Rendering) -> None:
        """Note what the agent knows now. Seeing one line of a cell is not knowing it."""
        whole = self.query is None and self.format != "outline" and shown.next_position is None
        if whole and not self.start_position:
            for cell in shown.cells:
                here.seat.known.add(cell.id, cell.revision)

    def _check_position(self, cells: Sequence[CellView]) -> None:
        if not self.start_position:
            return
        if len(cells) != 1 or self.query is not None or self.format == "outline":
            raise InvalidArgument(
                "start_position is for one cell, read with format source or full.",
                "Name that cell in cell_ids.",
            )
        length = len(cells[0].source)
        if self.start_position >= length:
            raise InvalidArgument(
                f"start_position is {self.start_position:,}, but {cells[0].handle} has only "
                f"{length:,} characters.",
                "Read from an earlier character.",
                length=length,
            )

    def _more(self, rendered: Rendering, facts: dict[str, Any]) -> str:
        """What is shown of how much, and how to continue, if not all is shown."""
        said = ""
        if rendered.next_position is not None:
            facts["next_position"] = rendered.next_position
            first = rendered.cells[0]
            said += (
                f"; of {first.handle} characters {self.start_position:,} to "
                f"{rendered.next_position:,} of {len(first.source):,}, continue with "
                f'cell_ids=["{first.short_id}"], start_position={rendered.next_position}'
            )
        if rendered.next_index is not None:
            facts["next_index"] = rendered.next_index
            what = "matching cells" if self.query is not None else "cells"
            if rendered.cells:
                said += f"; {what} {rendered.cells[0].index} to {rendered.cells[-1].index} shown"
            if self.cells.cell_ids is not None:
                said += f", continue with the cell_ids from [{rendered.next_index}] on"
            else:
                said += f", continue with start_index={rendered.next_index}"
        return said

    async def pictures(self, cells: Sequence[CellView]) -> list[Picture]:
        """The pictures in the outputs of a few cells."""
        wanted = self.format == "full" or (self.format == "source" and self.outputs)
        outputs = [output for cell in cells for output in cell.outputs if has_pictures([output])]
        images = self.images
        if not wanted or self.query is not None or len(cells) > _WITH_PICTURES or not outputs:
            return []
        made = await asyncio.to_thread(summarize, outputs, link=lambda _: None, images=images)
        return made.pictures
