"""The `notebook` toolset: read and edit the cells of live notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..backends.base import Listing
from ..documents import render
from ..errors import InvalidArgument, PermissionRefused
from ..workspace import editing
from ..workspace.permissions import Level, clean_path
from ..workspace.workspace import OpenNotebook, Workspace
from .registry import Answer, Call, tool

CellIds = Annotated[
    list[str | int] | None, Field(description="ids (a unique prefix is enough) or indexes")
]
Revisions = Annotated[
    str | list[str] | None, Field(description="expected revision, one for each cell")
]
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
    metadata: Annotated[dict[str, Any] | None, Field(description="keys to set; null removes")] = (
        None
    )
    if_revision: str | None = None


class Cell(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: str
    cell_type: Literal["code", "markdown", "raw"] = "code"


class NotebookTools:
    """What an agent does with notebooks."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    @tool("List notebooks", Level.read, core=True)
    async def list_notebooks(
        self,
        call: Call,
        path_prefix: str = "",
        max_results: Annotated[int, Field(ge=1, le=1000)] = 50,
    ) -> Answer:
        """List notebooks below a path: size, last change, who has them open. Start here."""
        path_prefix = clean_path(path_prefix)
        await call.authorize(Level.read, path_prefix)
        listing = await self._workspace.list_notebooks(path_prefix, max_results)
        return _listing(listing, path_prefix)

    @tool("Read a notebook", Level.read, core=True)
    async def get_notebook(
        self,
        call: Call,
        path: str,
        include_collaboration_state: bool = True,
        max_content_length: Annotated[int, Field(ge=200)] = 100_000,
        format: Literal["outline", "source", "full"] = "source",  # noqa: A002
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        query: Annotated[str | None, Field(description="find text in source and outputs")] = None,
        include_outputs: bool = False,
    ) -> Answer:
        """Read live cells with index, id and revision. outline: a line a cell, cheapest; source:
        text; full: with outputs and metadata. Choose cells by range, ids or query."""
        here = await self._open(call, Level.read, path)
        indexes = _reading(here, start_index, end_index, cell_ids)
        limit = min(max_content_length, self._workspace.limits.answer_length)
        wanted = _Reading(format, include_outputs, query, limit)
        return _read(here, indexes, wanted, include_collaboration_state)

    @tool("Join a notebook", Level.read)
    async def create_notebook_session(self, call: Call, path: str) -> Answer:
        """Join a notebook's collaboration room ahead of time. Other tools join by themselves."""
        here = await self._open(call, Level.read, path)
        link = here.peer.link
        facts = {
            "path": here.path,
            "room_id": link.room_id,
            "file_id": link.room_id.rpartition(":")[2],
            "session_id": link.session_id,
            "agent": here.seat.name,
            "cell_count": len(here.peer.notebook),
        }
        text = (
            f"You are in the room of {here.path} as {here.seat.name} "
            f"(room {link.room_id}, session {link.session_id}, "
            f"{len(here.peer.notebook)} cells)."
        )
        return _answer(here, [text], facts)

    @tool("Edit cells", Level.write, core=True, destructive=True)
    async def batch_update_notebook_cells(
        self,
        call: Call,
        path: str,
        updates: list[Update],
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        exec: Exec = True,  # noqa: A002
        timeout: float = 30,
    ) -> Answer:
        """Change cells, all or nothing: whole content, or old_text to new_text. Name the cell in
        each update, or by cell_ids or a range (half-open). if_revision refuses a cell that
        changed since you read it. Returns new revisions."""
        running = await self._running(call, exec, path)
        here = await self._open(call, Level.write, path)
        named = _name_cells(here, updates, start_index, end_index, cell_ids)
        ids = editing.update_cells(here, named, self._workspace.limits, running)
        return await _edited(here, "Updated", ids)

    @tool("Insert cells", Level.write, core=True)
    async def batch_insert_notebook_cells(
        self,
        call: Call,
        path: str,
        cells: list[Cell],
        start_position: Annotated[int | None, Field(description="default: the end")] = None,
        positions: Annotated[list[int] | None, Field(description="one for each cell")] = None,
        after_cell_id: str | None = None,
        exec: Exec = True,  # noqa: A002
        timeout: float = 30,
    ) -> Answer:
        """Insert cells at the end, at a position, or after a cell. Positions mean the notebook
        before the call. Returns ids, indexes and revisions."""
        running = await self._running(call, exec, path)
        here = await self._open(call, Level.write, path)
        new = [editing.NewCell(cell.content, cell.cell_type) for cell in cells]
        ids = editing.insert_cells(
            here, new, positions, start_position, after_cell_id, self._workspace.limits, running
        )
        return await _edited(here, "Inserted", ids)

    @tool("Delete cells", Level.write, core=True, destructive=True)
    async def batch_delete_notebook_cells(
        self,
        call: Call,
        path: str,
        start_index: int | None = None,
        end_index: int | None = None,
        cell_ids: CellIds = None,
        if_revision: Revisions = None,
        exec: Annotated[bool, Field(description="run them first")] = False,  # noqa: A002
    ) -> Answer:
        """Delete cells by ids or by a half-open range; without end_index only that one cell."""
        running = await self._running(call, exec, path)
        here = await self._open(call, Level.write, path)
        indexes = editing.target_indexes(here.peer.notebook, start_index, end_index, cell_ids)
        gone = editing.delete_cells(here, indexes, _list(if_revision), running)
        await here.peer.link.acknowledged()
        left = len(here.peer.notebook)
        facts = {**_about(here), "deleted": gone, "cell_count": left}
        text = f"Deleted {_cells(len(gone))} ({', '.join(gone[:20])}); {left} left."
        return _answer(here, [text], facts)

    @tool("Move cells", Level.write, destructive=True, idempotent=True)
    async def move_notebook_cells(
        self,
        call: Call,
        path: str,
        cell_ids: list[str | int],
        to_index: Annotated[
            int | None, Field(description="before what is there now; -1: the end")
        ] = None,
        after_cell_id: str | None = None,
        if_revision: Revisions = None,
    ) -> Answer:
        """Move cells, with outputs and metadata, to before an index or after a cell."""
        here = await self._open(call, Level.write, path)
        indexes = editing.target_indexes(here.peer.notebook, None, None, cell_ids)
        ids = editing.move_cells(here, indexes, to_index, after_cell_id, _list(if_revision))
        return await _edited(here, "Moved", ids)

    @tool("Undo your changes", Level.write, core=True, destructive=True)
    async def undo_agent_changes(
        self,
        call: Call,
        path: str,
        steps: Annotated[int, Field(ge=1)] = 1,
        since: Annotated[int | None, Field(description="version: undo all yours after it")] = None,
        force: Annotated[bool, Field(description="keep others' text, drop yours")] = False,
    ) -> Answer:
        """Take back your own latest calls, one step a call. Other people's text stays as it is;
        where that is impossible nothing happens and you get the diff."""
        here = await self._open(call, Level.write, path)
        done = editing.take_back(here, steps, since, force)
        await here.peer.link.acknowledged()
        head = f"Took back {done.steps} of your calls ({', '.join(done.calls)}); {done.left} left."
        cells = _cell_facts(here, done.cell_ids)
        lines = [head, *_cell_lines(cells)]
        if done.removed:
            lines.append(f"Removed again: {', '.join(done.removed)}")
        facts = {
            **_about(here),
            "steps": done.steps,
            "left": done.left,
            "cells": cells,
            "removed": done.removed,
        }
        return _answer(here, [*lines, *done.notes], facts)

    async def _running(self, call: Call, wanted: bool, path: str) -> editing.Running:
        """Whether code cells are to be run, and what forbids it."""
        if not wanted:
            return editing.Running(False)
        try:
            await call.authorize(Level.execute, self._workspace.resolve(path))
        except PermissionRefused as refusal:
            return editing.Running(True, refusal)
        return editing.Running(True)

    async def _open(self, call: Call, level: Level, path: str) -> OpenNotebook:
        path = self._workspace.resolve(path)
        await call.authorize(level, path)
        return await self._workspace.open(call.agent, path)


# -- reading ---------------------------------------------------------------------------------


class _Reading:
    """How a reader wants to see cells."""

    def __init__(self, form: str, outputs: bool, query: str | None, limit: int) -> None:
        self.form, self.outputs, self.query, self.limit = form, outputs, query, limit

    def render(
        self, cells: Sequence[render.CellView], prefixes: Mapping[str, int]
    ) -> render.Rendered:
        limit = self.limit
        if self.query is not None:
            return render.matches(cells, self.query, max_length=limit, prefixes=prefixes)
        if self.form == "outline":
            return render.outline(cells, max_length=limit, prefixes=prefixes)
        if self.form == "full":
            return render.full(cells, max_length=limit, prefixes=prefixes)
        return render.source(
            cells, include_outputs=self.outputs, max_length=limit, prefixes=prefixes
        )


def _reading(
    here: OpenNotebook,
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[str | int] | None,
) -> list[int]:
    notebook = here.peer.notebook
    if cell_ids is not None:
        if start_index is not None or end_index is not None:
            raise InvalidArgument("Both cell_ids and a range are given.", "Give one of them.")
        return editing.target_indexes(notebook, None, None, cell_ids)
    start = 0 if start_index is None else start_index
    end = len(notebook) if end_index is None else end_index
    return list(range(*slice(start, end).indices(len(notebook))))


def _read(here: OpenNotebook, indexes: list[int], wanted: _Reading, state: bool) -> Answer:
    notebook = here.peer.notebook
    needs_outputs = wanted.form != "source" or wanted.outputs or wanted.query is not None
    cells = list(notebook.views(indexes, outputs=needs_outputs))
    rendered = wanted.render(cells, render.id_prefixes(notebook.ids))
    here.peer.shown.add(cells)
    head = f"{here.path}: {_cells(len(notebook))}, version {here.peer.version}"
    lines = [head, rendered.text]
    if rendered.next_index is not None:
        lines.append(
            f"Cut at {wanted.limit:,} characters. "
            f"Continue with get_notebook(start_index={rendered.next_index})."
        )
    facts: dict[str, Any] = {
        **_about(here),
        "cell_count": len(notebook),
        "cells": rendered.facts,
    }
    if rendered.next_index is not None:
        facts["next_index"] = rendered.next_index
    if state:
        link = here.peer.link
        me = here.seat.presence.display_name if here.seat.presence is not None else None
        people = [name for name in render.people(link.states) if name != me]
        facts["collaboration"] = {"room_id": link.room_id, "people": people}
        lines.append(f"Here now: {', '.join(people) if people else 'nobody else'}.")
    return _answer(here, lines, facts)


def _listing(listing: Listing, prefix: str) -> Answer:
    lines = []
    for entry in listing.entries:
        open_by = f", open by {', '.join(entry.people)}" if entry.people else ", open"
        size = "" if entry.size is None else f" {entry.size:,} bytes"
        lines.append(
            f"{entry.path}{size}, changed {entry.last_modified}{open_by if entry.open else ''}"
        )
    if not listing.entries:
        lines.append(f"No notebooks below {prefix or 'the root'!r}.")
    if not listing.complete:
        lines.append("There are more; raise max_results or narrow path_prefix.")
    notebooks = [
        {
            "path": entry.path,
            "last_modified": entry.last_modified,
            "size": entry.size,
            "open": entry.open,
            "people": list(entry.people),
        }
        for entry in listing.entries
    ]
    return Answer("\n".join(lines), {"notebooks": notebooks, "complete": listing.complete})


# -- editing ---------------------------------------------------------------------------------


def _name_cells(
    here: OpenNotebook,
    updates: Sequence[Update],
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[str | int] | None,
) -> list[editing.CellUpdate]:
    cells: list[str | int | None] = [
        update.index if update.cell_id is None else update.cell_id for update in updates
    ]
    if start_index is not None or cell_ids is not None:
        if any(cell is not None for cell in cells):
            raise InvalidArgument(
                "Cells are named both in the updates and for the whole call.",
                "Name them in one place only.",
            )
        notebook = here.peer.notebook
        indexes = editing.target_indexes(
            notebook, start_index, end_index, cell_ids, count=len(updates)
        )
        if len(indexes) != len(updates):
            raise InvalidArgument(
                f"{len(updates)} updates for {_cells(len(indexes))}.",
                "Give one update for each cell.",
            )
        cells = list(indexes)
    return [
        editing.CellUpdate(
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


async def _edited(here: OpenNotebook, done: str, ids: Sequence[str]) -> Answer:
    await here.peer.link.acknowledged()
    cells = _cell_facts(here, ids)
    lines = [f"{done} {_cells(len(ids))}; version {here.peer.version}.", *_cell_lines(cells)]
    return _answer(here, lines, {**_about(here), "cells": cells})


def _about(here: OpenNotebook) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": here.path, "version": here.peer.version}
    if here.peer.link.saved:
        facts["saved"] = True
    return facts


def _cell_facts(here: OpenNotebook, ids: Sequence[str]) -> list[dict[str, Any]]:
    notebook = here.peer.notebook
    facts = []
    for cell_id in ids:
        if notebook.has(cell_id):
            index = notebook.find(cell_id)
            facts.append({"index": index, "id": cell_id, "revision": notebook.revision(index)})
    return facts


#: Lines of cells that an answer to an edit shows at most.
_SHOWN = 200


def _cell_lines(cells: Sequence[dict[str, Any]]) -> list[str]:
    shown = cells[:_SHOWN]
    lines = [f"[{cell['index']}] {cell['id']} r:{cell['revision']}" for cell in shown]
    if len(cells) > _SHOWN:
        lines.append(f"... and {len(cells) - _SHOWN} more")
    return lines


def _answer(here: OpenNotebook, lines: Sequence[str], facts: dict[str, Any]) -> Answer:
    """An answer about a notebook ends with what others changed since this agent looked."""
    peer, seat = here.peer, here.seat
    lines = list(lines)
    for notice in peer.link.notices():
        lines.append(notice)
        facts.setdefault("notices", []).append(notice)
    others = peer.changes.summary(seat.seen, seat.name, lambda cell: _label(here, cell))
    if others is not None:
        lines.append(others)
        facts["others"] = others
    seat.seen = peer.version
    return Answer("\n".join(lines), facts)


def _label(here: OpenNotebook, cell_id: str) -> str:
    notebook = here.peer.notebook
    return f"[{notebook.find(cell_id)}] {cell_id}" if notebook.has(cell_id) else cell_id


def _list(value: str | list[str] | None) -> list[str] | None:
    return [value] if isinstance(value, str) else value


def _cells(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
