"""The cells of the `connect` toolset: read, edit and run them by index, in named notebooks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ..documents import render, text
from ..documents.cell_view import CellView
from ..documents.text_diff import unified
from ..errors import InvalidArgument
from ..workspace import by_index, cell_updates, editing
from ..workspace.cell_runs import run_edited, run_targets
from ..workspace.cell_selection import Targets
from ..workspace.guards import RunRequest
from ..workspace.permissions import Level
from ..workspace.permits import Call
from .answers import Timeout, about, answer, cell_facts, learnt, on_disk
from .connect import Name, NamedTools
from .connect_answers import (
    Page,
    cell_lines,
    cell_table,
    diff_lines,
    outputs_of,
    surroundings,
    view_facts,
    view_of,
)
from .registry import DEFAULT_LENGTH, Answer, tool

#: Characters of a deleted cell that the answer repeats, and of the diff of an overwritten one.
_DELETED, _DIFF = 4_000, 8_000

#: Bytes of the source and of the outputs of one cell.
_SOURCE, _OUTPUTS = 24_000, 12_000

CellType = Literal["code", "markdown"]
Limit = Annotated[int, Field(description="0: no limit")]


class ConnectCellTools(NamedTools):
    """What an agent does with the cells of a connected notebook."""

    @tool("Read a notebook", Level.read)
    async def read_notebook(
        self, call: Call, notebook_name: Name, start_index: int = 0, limit: Limit = 20
    ) -> Answer:
        """Read the source of a notebook's cells, without outputs, page by page. To look for a
        cell, list_cell is cheaper."""
        here = await self._connected(call, Level.read, notebook_name)
        page = Page.of(here, start_index, limit)
        room = DEFAULT_LENGTH - 2_000
        lines: list[str] = []
        shown: list[CellView] = []
        for cell in await page.read(here, DEFAULT_LENGTH):
            made = cell_lines(here, cell, room if not shown else DEFAULT_LENGTH)
            room -= sum(text.size(line) + 1 for line in made)
            if room < 0 and shown:
                break
            lines += made
            shown.append(cell)
        by_index.show(here, [cell.index for cell in shown])
        here.peer.seen_sources.add(shown)
        for cell in shown:
            here.seat.known.add(cell.id, cell.revision)
        note = page.note(len(shown))
        facts = {**about(here), "cell_count": page.count, "cells": view_facts(shown)}
        return answer(here, [*([note] if note else []), *lines], facts)

    @tool("List cells", Level.read)
    async def list_cell(
        self, call: Call, notebook_name: Name, start_index: int = 0, limit: Limit = 50
    ) -> Answer:
        """List a notebook's cells as a table: index, type, execution count, first line. Use it to
        find indexes before you edit."""
        here = await self._connected(call, Level.read, notebook_name)
        shown = await cell_table(here, Page.of(here, start_index, limit))
        return answer(here, [shown], {**about(here), "cell_count": len(here.peer.notebook)})

    @tool("Read a cell", Level.read)
    async def read_cell(
        self, call: Call, notebook_name: Name, cell_index: int, return_output: bool = True
    ) -> Answer:
        """Read one cell: source, execution count, and its outputs with images."""
        here = await self._connected(call, Level.read, notebook_name)
        cell = await view_of(here, cell_index, return_output)
        lines, pictures = cell_lines(here, cell, _SOURCE), []
        if return_output and cell.outputs:
            summary = await outputs_of(here, cell, self._images, _OUTPUTS)
            lines += ["Outputs:", summary.text]
            pictures = summary.pictures
        here.peer.seen_sources.add([cell])
        here.seat.known.add(cell.id, cell.revision)
        facts = {**about(here), "cells": view_facts([cell])}
        return answer(here, lines, facts, pictures=pictures)

    @tool("Delete a cell", Level.write)
    async def delete_cell(self, call: Call, notebook_name: Name, cell_index: int) -> Answer:
        """Delete one cell. Returns what it said, and the cells around it with their new
        indexes."""
        here = await self._connected(call, Level.write, notebook_name)
        at = by_index.cell_at(here, cell_index)
        source = text.clip(here.peer.notebook.source(at), _DELETED)
        gone = await by_index.delete_at(here, [at])
        await here.peer.wait_acknowledged()
        facts = {**about(here), "deleted": gone, "cell_count": len(here.peer.notebook)}
        lines = [
            f"Delete successful! {on_disk(here, facts)}",
            "Deleted cell content:",
            render.fenced(source),
            *await surroundings(here, at),
        ]
        return answer(here, lines, facts)

    @tool("Insert a cell", Level.write, only_adds=True)
    async def insert_cell(
        self,
        call: Call,
        notebook_name: Name,
        cell_index: Annotated[int, Field(description="-1: the end")],
        cell_type: CellType,
        cell_content: str,
    ) -> Answer:
        """Insert a cell before the one at an index, without running it. Returns the cells around
        it with their new indexes."""
        here = await self._connected(call, Level.write, notebook_name)
        new = [editing.NewCell(cell_content, cell_type)]
        ids = await by_index.insert_at(here, new, cell_index, RunRequest(False))
        await here.peer.wait_acknowledged()
        cells = cell_facts(here, ids)
        learnt(here, cells)
        facts = {**about(here), "cells": cells}
        head = f"Insert successful! {on_disk(here, facts)}"
        at = cells[0]["index"] if cells else 0
        return answer(here, [head, *await surroundings(here, at)], facts)

    @tool("Run a cell", Level.execute)
    async def execute_cell(
        self, call: Call, notebook_name: Name, cell_index: int, timeout: Timeout = 60
    ) -> Answer:
        """Run one code cell in the notebook's own kernel; people see it run. Returns its
        output."""
        here = await self._connected(call, Level.execute, notebook_name)
        await call.permit(here.site, Level.write, here.path)  # outputs are written to it
        targets = Targets([by_index.cell_at(here, cell_index)], [None])
        runs = await run_targets(here, targets, stop_on_error=True)
        return await self._runs.answer(call, here, runs, timeout)

    @tool("Overwrite a cell", Level.write, idempotent=True)
    async def overwrite_cell(
        self, call: Call, notebook_name: Name, cell_index: int, cell_content: str
    ) -> Answer:
        """Replace the source of one cell, without running it. Returns a diff."""
        here = await self._connected(call, Level.write, notebook_name)
        notebook = here.peer.notebook
        at = by_index.cell_at(here, cell_index)
        cell_id, before = notebook.id_at(at), notebook.source(at)
        update = [cell_updates.CellUpdate(cell_id, cell_content)]
        limits = here.site.workspace.limits
        await here.perform(cell_updates.update_cells(here, update, limits, RunRequest(False)))
        await here.peer.wait_acknowledged()
        cells = cell_facts(here, [cell_id])
        learnt(here, cells)
        facts = {**about(here), "cells": cells}
        diff = unified(before, cell_content, limit=_DIFF)
        head = f"Overwrite successful! {on_disk(here, facts)}"
        same = "The cell said this already."
        return answer(here, [head, diff_lines(diff) if diff else same], facts)

    @tool("Append a cell and run it", Level.execute)
    async def append_execute_cell(
        self,
        call: Call,
        notebook_name: Name,
        cell_type: CellType,
        cell_content: str,
        timeout: Timeout = 60,
    ) -> Answer:
        """Append a cell to a notebook and run it if it is code, in the notebook's own kernel.
        Returns its index and output."""
        here = await self._connected(call, Level.execute, notebook_name)
        await call.permit(here.site, Level.write, here.path)
        if cell_type == "code":
            await here.site.runs.available(here)
            await here.peer.catch_up()
        new = [editing.NewCell(cell_content, cell_type)]
        limits = here.site.workspace.limits
        # Without a position, it fills the empty cell of a new notebook.
        edit = editing.insert_cells(here, new, None, None, None, limits, RunRequest(False))
        ids = await here.perform(edit)
        await here.peer.wait_acknowledged()
        cells = cell_facts(here, ids)
        learnt(here, cells)
        facts = {**about(here), "cells": cells}
        runs, refusal = await run_edited(here, cells)
        by_index.show(here, [cell["index"] for cell in cells])
        at = cells[0]["index"] if cells else "deleted"
        head = f"Appended as cell index {at}. {on_disk(here, facts)}"
        if not runs:
            return answer(here, [head], facts, error=refusal)
        return await self._runs.answer(call, here, runs, timeout, [head], facts)

    @tool("Append code and run it", Level.execute)
    async def append_execute_code_cell(
        self, call: Call, notebook_name: Name, cell_content: str, timeout: Timeout = 60
    ) -> Answer:
        """Append a code cell to a notebook and run it; append_execute_cell with
        cell_type=code."""
        return await self.append_execute_cell(call, notebook_name, "code", cell_content, timeout)

    @tool("Run code", Level.execute)
    async def execute_temporary_cell(
        self, call: Call, notebook_name: Name, cell_content: str, timeout: Timeout = 60
    ) -> Answer:
        """Run code in the notebook's own kernel without storing it in the notebook: to inspect,
        try or install. Returns its output."""
        if not cell_content.strip():
            raise InvalidArgument(
                "cell_content is empty; nothing was run.", "Give the code to run."
            )
        here = await self._connected(call, Level.execute, notebook_name)
        run = await here.site.runs.run_code(here, cell_content)
        return await self._runs.answer(call, here, [run], timeout)

    @tool("Run code", Level.execute)
    async def execute_temporary_code(
        self, call: Call, notebook_name: Name, cell_content: str, timeout: Timeout = 60
    ) -> Answer:
        """Run code without storing it; the same as execute_temporary_cell."""
        return await self.execute_temporary_cell(call, notebook_name, cell_content, timeout)
