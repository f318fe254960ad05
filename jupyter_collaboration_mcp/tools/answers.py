"""The parts that answers about a document have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from ..documents.foreign_text import ID, inline, listed
from ..documents.render import people
from ..workspace.workspace import OpenDocument
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


def about(here: OpenDocument) -> dict[str, Any]:
    """Which document, and how current it is."""
    facts: dict[str, Any] = {"path": here.name, "version": here.peer.version}
    if here.peer.link.saved:
        facts["saved"] = True
    if here.peer.link.mode == "file":
        facts["mode"] = "file"
    return facts


def on_disk(here: OpenDocument, facts: dict[str, Any]) -> str:
    """Whether the file has what this agent wrote, said in the facts too."""
    peer = here.peer
    facts["saved"] = not peer.has_unsaved_of(here.seat.agent)
    if facts["saved"]:
        return "On disk."
    if peer.link.autosaves:
        return "Not on disk yet; saved in a moment, at the latest before your next run."
    return "Not on disk: autosave is off."


def answer(here: OpenDocument, lines: Sequence[str], facts: dict[str, Any], **more: Any) -> Answer:
    """An answer about a document ends with what others changed since this agent looked."""
    peer, seat = here.peer, here.seat
    lines = list(lines)
    for notice in (*peer.link.notices(), *peer.take_notes(seat)):
        lines.append(notice)
        facts.setdefault("notices", []).append(notice)
    if peer.link.mode == "file":
        lines.append("File mode: this server has no live collaboration; the file itself is used.")
    others = peer.changes.summary(seat.seen, seat.name, peer.document.label)
    if others is not None:
        lines.append(others)
        facts["others"] = others
    seat.seen = peer.version
    return Answer("\n".join(lines), facts, **more)


def joined(here: OpenDocument, size: str, **facts: Any) -> Answer:
    """The handle of a room that an agent has come into."""
    link = here.peer.link
    handle = {
        "path": here.name,
        "room_id": link.room_id,
        "file_id": link.room_id.rpartition(":")[2],
        "session_id": link.session_id,
        "agent": here.seat.name,
    }
    text = (
        f"You are in the room of {here.shown} as {inline(here.seat.name)} "
        f"(room {link.room_id}, session {link.session_id}, {size})."
    )
    return answer(here, [text], {**handle, **about(here), **facts})


def company(here: OpenDocument) -> tuple[str, dict[str, Any]]:
    """Who else is in the room, as a line and as facts."""
    link = here.peer.link
    me = here.seat.presence.display_name if here.seat.presence is not None else None
    others = [name for name in people(link.states) if name != me]
    line = f"Here now: {listed(others) or 'nobody else'}."
    return line, {"room_id": link.room_id, "people": others}


def cell_facts(here: OpenDocument, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Index, id and revision of cells that are there."""
    notebook = here.peer.notebook
    facts = []
    with notebook.doc.transaction():  # one for all: there may be a thousand
        for cell_id in ids:
            if notebook.has(cell_id):
                index = notebook.find(cell_id)
                facts.append({"index": index, "id": cell_id, "revision": notebook.revision(index)})
    return facts


def cell_lines(cells: Sequence[dict[str, Any]]) -> list[str]:
    """The same as text."""
    shown = cells[:_SHOWN]
    lines = [f"[{cell['index']}] {inline(cell['id'], ID)} r:{cell['revision']}" for cell in shown]
    if len(cells) > _SHOWN:
        lines.append(f"... and {len(cells) - _SHOWN} more")
    return lines


def as_list(value: str | list[str] | None) -> list[str] | None:
    return [value] if isinstance(value, str) else value


def how_many(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
