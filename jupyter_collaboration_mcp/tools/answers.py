"""The parts that answers about a notebook have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from ..workspace.workspace import OpenNotebook
from .registry import Answer

CellIds = Annotated[
    list[str | int] | None, Field(description="ids (a unique prefix is enough) or indexes")
]
Revisions = Annotated[
    str | list[str] | None, Field(description="expected revision, one for each cell")
]
Timeout = Annotated[float, Field(ge=0, description="seconds to wait; the run goes on after it")]

#: Lines of cells that an answer shows at most.
_SHOWN = 200


def about(here: OpenNotebook) -> dict[str, Any]:
    """Which notebook, and how current it is."""
    facts: dict[str, Any] = {"path": here.name, "version": here.peer.version}
    if here.peer.link.saved:
        facts["saved"] = True
    if here.peer.link.mode == "file":
        facts["mode"] = "file"
    return facts


def answer(here: OpenNotebook, lines: Sequence[str], facts: dict[str, Any], **more: Any) -> Answer:
    """An answer about a notebook ends with what others changed since this agent looked."""
    peer, seat = here.peer, here.seat
    lines = list(lines)
    notes, peer.notes[:] = list(peer.notes), []
    for notice in (*peer.link.notices(), *notes):
        lines.append(notice)
        facts.setdefault("notices", []).append(notice)
    if peer.link.mode == "file":
        lines.append("File mode: this server has no live collaboration; the file itself is used.")
    others = peer.changes.summary(seat.seen, seat.name, lambda cell: label(here, cell))
    if others is not None:
        lines.append(others)
        facts["others"] = others
    seat.seen = peer.version
    return Answer("\n".join(lines), facts, **more)


def label(here: OpenNotebook, cell_id: str) -> str:
    """A cell by index and id, as far as it is there."""
    notebook = here.peer.notebook
    return f"[{notebook.find(cell_id)}] {cell_id}" if notebook.has(cell_id) else cell_id


def cell_facts(here: OpenNotebook, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Index, id and revision of cells that are there."""
    notebook = here.peer.notebook
    facts = []
    for cell_id in ids:
        if notebook.has(cell_id):
            index = notebook.find(cell_id)
            facts.append({"index": index, "id": cell_id, "revision": notebook.revision(index)})
    return facts


def cell_lines(cells: Sequence[dict[str, Any]]) -> list[str]:
    """The same as text."""
    shown = cells[:_SHOWN]
    lines = [f"[{cell['index']}] {cell['id']} r:{cell['revision']}" for cell in shown]
    if len(cells) > _SHOWN:
        lines.append(f"... and {len(cells) - _SHOWN} more")
    return lines


def as_list(value: str | list[str] | None) -> list[str] | None:
    return [value] if isinstance(value, str) else value


def how_many(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
