"""The `notebook` toolset: read and edit the cells of live notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..backends.protocols.files import Listing
from ..backends.protocols.versions import CellAuthor
from ..errors import CellError, InvalidArgument
from ..execution.run import RunState
from ..workspace import call_limits, cell_selection, cell_updates, editing, guards
from ..workspace.cell_runs import run_edited, run_request, run_targets
from ..workspace.open_document import OpenDocument
from ..workspace.permissions import Level
from ..workspace.permits import Call, Permit
from ..workspace.sites import Site, SiteDocument
from .answers import (
    CellIds,
    Propose,
    Revisions,
    Start,
    Timeout,
    about,
    answer,
    cell_facts,
    cell_lines,
    edited,
    how_many,
    joined,
    learnt,
    on_disk,
    surprising,
)
from .listings import list_files
from .parts import Parts
from .places import SiteTools
from .reading import Choice, Reading
from .registry import DEFAULT_LENGTH, MOST_CONTENT, Answer, tool
from .running import RunAnswers

#: Seconds that cells have to run before they are deleted.
_DELETE_WAIT = 30.0

Exec = Annotated[bool, Field(description="run the touched code cells afterwards")]


# Without docstrings: they would go into the schema, where every word costs a token.
class Update(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: Annotated[str | None, Field(description="whole new source")] = None
    cell_type: Literal["code", "markdown", "raw"] | None = None
    cell_id: str | None = None
    index: int | None = None
    old_text: Annotated[str | None, Field(description="literal, must match once")] = None
    new_text: str | None = None
    metadata: Annotated[
        dict[str, Any] | None, Field(description="keys to set; null removes one")
    ] = None
    if_revision: str | None = None


class Cell(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: str
    cell_type: Literal["code", "markdown", "raw"] = "code"


class NotebookTools(SiteTools):
    """What an agent does with notebooks."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._images = parts.images
        self._runs = RunAnswers(parts)

    @tool("List notebooks", Level.read, core=True)
    async def list_notebooks(
        self,
        call: Call,
        path_prefix: str = "",
        max_results: Annotated[int, Field(ge=1, le=1000)] = 50,
        start_index: Start = 0,
    ) -> Answer:
        """Find notebooks below a path: size, last change, who has them open. Start here."""

        async def ask(site: Site, prefix: Permit, left: int) -> Listing:
            return await site.workspace.filing.listings.notebooks(prefix, left)

        files = await list_files(call, self._sites, path_prefix, start_index, max_results, ask)
        notebooks = [
            {
                "path": site.name(entry.path),
                "last_modified": entry.last_modified,
                "size": entry.size,
                "open": entry.open,
                "people": list(entry.people),
            }
            for site, entry in files.entries
        ]
        nothing = f"No notebooks below {path_prefix or 'the root'!r}."
        return Answer(files.text(nothing), {"notebooks": notebooks, **files.facts})

    @tool("Read a notebook", Level.read, core=True)
    async def get_notebook(
        self,
        call: Call,
        path: str,
        include_collaboration_state: bool = True,
        max_content_length: Annotated[int, Field(ge=200)] = DEFAULT_LENGTH,
        format: Literal["outline", "source", "full"] = "source",  # noqa: A002
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        query: Annotated[str | None, Field(description="find text in source and outputs")] = None,
        include_outputs: bool = False,
        include_metadata: Annotated[bool, Field(description="in full: all of it")] = False,
        start_position: Annotated[
            int, Field(ge=0, description="first character, in one long cell")
        ] = 0,
        authors: Annotated[bool, Field(description="who wrote each cell last")] = False,
    ) -> Answer:
        """Read a notebook's live cells, each with its handle. outline: one line per cell, cheapest;
        source: text; full: also outputs, images and metadata. Choose cells by range, cell_ids or
        query."""
        here = await self._open(call, Level.read, path)
        reading = Reading(
            format=format,
            query=query,
            outputs=include_outputs,
            metadata=include_metadata,
            start_position=start_position,
            length=min(max_content_length, MOST_CONTENT),
            cells=Choice(start_index, end_index, cell_ids),
            images=self._images,
            authors=await _authors(here) if authors else None,
        )
        return await reading.answer(here, include_collaboration_state)

    @tool("Join a notebook", Level.read)
    async def create_notebook_session(self, call: Call, path: str) -> Answer:
        """Join a notebook's room ahead of time; other tools join automatically."""
        here = await self._open(call, Level.read, path)
        count = len(here.peer.notebook)
        return joined(here, how_many(count), cell_count=count)

    @tool("Edit cells", Level.write, up_to=Level.execute, core=True)
    async def batch_update_notebook_cells(
        self,
        call: Call,
        path: str,
        updates: list[Update],
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        exec: Exec = True,  # noqa: A002
        timeout: Timeout = 30,
        propose: Propose = None,
    ) -> Answer:
        """Change cells, all or nothing, and run them unless exec=false. Give whole content, or
        old_text and new_text. Name the cell in each update, or by cell_ids or a half-open range,
        unless only one has old_text. A handle refuses a cell that changed since you read it."""
        here = await self._open(call, Level.write, path, propose=propose)
        running = await run_request(call, exec, here)
        named = _name_cells(here, updates, start_index, end_index, cell_ids)
        update = cell_updates.update_cells(here, named, here.site.workspace.limits, running)
        done = await here.perform(update)
        return await self._edited(call, here, "Updated", done.ids, exec, timeout, done.unexpected)

    @tool("Insert cells", Level.write, up_to=Level.execute, core=True)
    async def batch_insert_notebook_cells(
        self,
        call: Call,
        path: str,
        cells: list[Cell],
        start_position: Annotated[int | None, Field(description="default: the end")] = None,
        positions: Annotated[list[int] | None, Field(description="one per cell")] = None,
        after_cell_id: str | None = None,
        exec: Exec = True,  # noqa: A002
        timeout: Timeout = 30,
        propose: Propose = None,
    ) -> Answer:
        """Insert cells at the end, at a position, or after a cell, and run them unless exec=false.
        Positions refer to the notebook before the call. Returns handles."""
        here = await self._open(call, Level.write, path, propose=propose)
        running = await run_request(call, exec, here)
        new = [editing.NewCell(cell.content, cell.cell_type) for cell in cells]
        insertion = editing.insert_cells(
            here,
            new,
            positions,
            start_position,
            after_cell_id,
            here.site.workspace.limits,
            running,
        )
        ids = await here.perform(insertion)
        return await self._edited(call, here, "Inserted", ids, exec, timeout)

    @tool("Delete cells", Level.write, up_to=Level.execute, core=True)
    async def batch_delete_notebook_cells(
        self,
        call: Call,
        path: str,
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        if_revision: Revisions = None,
        exec: Annotated[bool, Field(description="run the cells first")] = False,  # noqa: A002
        propose: Propose = None,
    ) -> Answer:
        """Delete cells by id or by a half-open range; without end_index, only that one cell."""
        here = await self._open(call, Level.write, path, propose=propose)
        running = await run_request(call, exec, here)
        notebook = here.peer.notebook
        targets = cell_selection.targets(notebook, start_index, end_index, cell_ids, if_revision)
        if exec:
            return await self._run_then_delete(call, here, targets, running)
        deletion = editing.delete_cells(here, targets, here.site.workspace.limits, running)
        return await self._deleted(here, await here.perform(deletion))

    async def _execute(
        self,
        call: Call,
        path: str,
        cell_ids: Sequence[str | int] | None,
        start_index: int | None,
        end_index: int | None,
        timeout: float,
        stop_on_error: bool,
        if_revision: str | list[str] | None,
    ) -> Answer:
        # Outputs are written to the notebook, so that needs permission too.
        await self._place(call, Level.write, path, forks=True)
        here = await self._open(call, Level.execute, path)
        notebook = here.peer.notebook
        if cell_ids is None and (start_index is None or end_index != start_index + 1):
            cell_ids = cell_selection.code_indexes(notebook, start_index, end_index)
            start_index = end_index = None
        targets = cell_selection.targets(notebook, start_index, end_index, cell_ids, if_revision)
        runs = await run_targets(here, targets, stop_on_error)
        return await self._runs.answer(call, here, runs, timeout)

    async def _run_then_delete(
        self,
        call: Call,
        here: SiteDocument,
        targets: cell_selection.Targets,
        running: guards.RunRequest,
    ) -> Answer:
        """Run cells, then delete them if all completed and nobody has changed them meanwhile."""
        notebook, limits, indexes = here.peer.notebook, here.site.workspace.limits, targets.indexes
        call_limits.check_count(limits, len(indexes))
        guards.guard_cells(here, targets)
        editing.check_deletion(here, indexes)  # before anything runs
        before = {notebook.id_at(i): notebook.revision(i) for i in indexes}
        code = [notebook.id_at(i) for i in indexes if notebook.cell_type(i) == "code"]
        for _ in code:
            running.check("code")
        if not code:
            deletion = editing.delete_cells(here, targets, limits, running)
            return await self._deleted(here, await here.perform(deletion))
        runs = await here.site.runs.run_cells(here, code, True, before)
        ran = await self._runs.answer(call, here, runs, _DELETE_WAIT)
        if any(run.state is not RunState.completed for run in runs):
            text = f"{ran.text}\nNothing was deleted: not all of these cells ran to completion."
            return replace(ran, text=text, facts={**ran.facts, "deleted": []})
        await here.peer.catch_up()
        there = [notebook.find(cell_id) for cell_id in before if notebook.has(cell_id)]
        # Nobody may have changed them until the end.
        unchanged = cell_selection.Targets(
            there, [before[notebook.id_at(index)] for index in there]
        )
        deletion = editing.delete_cells(here, unchanged, limits, guards.RunRequest(False))
        try:
            gone = await here.perform(deletion)
        except CellError as refusal:  # they ran all the same, and whoever reads it has to know
            return replace(ran, facts={**ran.facts, "deleted": []}, error=refusal)
        done = await self._deleted(here, gone)
        facts = {**done.facts, "runs": ran.facts["runs"]}
        return replace(ran, text=f"{ran.text}\n{done.text}", facts=facts)

    async def _deleted(self, here: SiteDocument, gone: list[str]) -> Answer:
        await here.peer.wait_acknowledged()
        left = len(here.peer.notebook)
        facts = {**about(here), "deleted": gone, "cell_count": left}
        text = f"Deleted {how_many(len(gone))}; {left} left."
        return answer(here, [f"{text} {on_disk(here, facts)}"], facts)

    @tool("Move cells", Level.write)
    async def move_notebook_cells(
        self,
        call: Call,
        path: str,
        cell_ids: list[str | int],
        to_index: Annotated[
            int | None, Field(description="before the cell there now; -1: the end")
        ] = None,
        after_cell_id: str | None = None,
        if_revision: Revisions = None,
        propose: Propose = None,
    ) -> Answer:
        """Move cells, with outputs and metadata, to before an index or after a cell."""
        here = await self._open(call, Level.write, path, propose=propose)
        targets = cell_selection.targets(here.peer.notebook, None, None, cell_ids, if_revision)
        limits = here.site.workspace.limits
        move = editing.move_cells(here, targets, to_index, after_cell_id, limits)
        ids = await here.perform(move)
        return await self._edited(call, here, "Moved", ids)

    @tool("Run a cell", Level.execute)
    async def execute_notebook_cell(
        self,
        call: Call,
        path: str,
        cell_id: Annotated[str | int, Field(description="handle, id, index, or text:WORDS")],
        timeout: Timeout = 30,
        if_revision: str | None = None,
    ) -> Answer:
        """Run one cell in the notebook's kernel; people see it run. Returns its output, or a
        run_id if it takes longer than timeout."""
        return await self._execute(call, path, [cell_id], None, None, timeout, True, if_revision)

    @tool("Run cells", Level.execute, core=True)
    async def batch_execute_notebook_cells(
        self,
        call: Call,
        path: str,
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        timeout: Timeout = 30,
        stop_on_error: bool = True,
        if_revision: Revisions = None,
    ) -> Answer:
        """Run cells in order: those named, a half-open range, or all code cells if none is named.
        Stops at the first error. Returns outputs (summarised if many) and run_ids of unfinished
        runs."""
        return await self._execute(
            call, path, cell_ids, start_index, end_index, timeout, stop_on_error, if_revision
        )

    async def _edited(
        self,
        call: Call,
        here: SiteDocument,
        done: str,
        ids: Sequence[str],
        run: bool = False,
        timeout: float = 0,
        unexpected: Mapping[str, str] | None = None,
    ) -> Answer:
        """What an edit did, after it is durable; and what came of running the cells."""
        await here.peer.wait_acknowledged()
        with here.peer.doc.transaction():  # one for all that is read
            cells = cell_facts(here, ids)
            surprises = surprising(here, unexpected or {})
            learnt(here, cells)
        facts = {**about(here), "cells": cells}
        runs, refusal = await run_edited(here, cells) if run else ([], None)
        if not runs:
            lines = [*edited(here, done, cells, facts), *surprises]
            return answer(here, lines, facts, error=refusal)
        started = {run.cell_id for run in runs}
        rest = [cell for cell in cells if cell["id"] not in started]
        head = f"{done} {how_many(len(ids))}. {on_disk(here, facts)}"
        lines = [head, *cell_lines(here, rest), *surprises]
        return await self._runs.answer(call, here, runs, timeout, lines, facts)


# -- editing ---------------------------------------------------------------------------------


def _name_cells(
    here: OpenDocument,
    updates: Sequence[Update],
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[str | int] | None,
) -> list[cell_updates.CellUpdate]:
    cells: list[str | int | None] = [
        update.index if update.cell_id is None else update.cell_id for update in updates
    ]
    if start_index is None and cell_ids is None:
        cells = cell_selection.by_old_text(
            here.peer.notebook, cells, [each.old_text for each in updates]
        )
    if start_index is not None or cell_ids is not None:
        if any(cell is not None for cell in cells):
            raise InvalidArgument(
                "Cells are named both in the updates and for the whole call.",
                "Name them in one place only.",
            )
        notebook = here.peer.notebook
        count = len(updates)
        targets = cell_selection.targets(notebook, start_index, end_index, cell_ids, count=count)
        if len(targets.indexes) != count:
            raise InvalidArgument(
                f"{count} updates for {how_many(len(targets.indexes))}.",
                "Give one update for each cell.",
            )
        # By name, where a name is given: it may have a revision, and indexes shift.
        cells = list(targets.indexes) if cell_ids is None else list(cell_ids)
    return [
        cell_updates.CellUpdate(
            cell=cell,
            content=update.content,
            old_text=update.old_text,
            new_text=update.new_text,
            cell_type=update.cell_type,
            metadata=update.metadata,
            if_revision=update.if_revision,
        )
        for cell, update in zip(cells, updates, strict=True)
    ]


async def _authors(here: SiteDocument) -> Mapping[str, CellAuthor]:
    return await here.site.workspace.versions.authors(here.peer.link.room_id)
