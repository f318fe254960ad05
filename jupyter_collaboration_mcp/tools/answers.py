"""The parts that answers about a document have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from ..backends.protocols.forks import fork_name
from ..documents.awareness import people_in
from ..documents.foreign_text import inline, listed
from ..documents.handles import cell_handle
from ..documents.render import fenced
from ..documents.text_diff import unified
from ..documents.text_document import TextView
from ..execution.run import Run
from ..workspace.etiquette import caret_facts, caret_line
from ..workspace.open_document import OpenDocument
from .registry import Answer

CellIds = Annotated[
    list[str | int] | None,
    Field(description="handles, ids, indexes, or text:WORDS"),
]
Revisions = Annotated[str | list[str] | None, Field(description="expected revision, one per cell")]
Propose = Annotated[str | None, Field(description="title: edit in a fork for it")]
Start = Annotated[int, Field(ge=0, description="where to continue")]
Timeout = Annotated[float, Field(ge=0, description="seconds to wait; the run continues after")]

#: Lines of cells that an answer shows at most.
_SHOWN = 200

#: Cells on one such line.
_A_LINE = 5

#: Cells of which an answer shows how they differ from what the agent knew.
_SURPRISES = 3


def about(here: OpenDocument) -> dict[str, Any]:
    """Which document, and how current it is."""
    facts: dict[str, Any] = {"path": here.name, "version": here.peer.version}
    if here.peer.link.saved:
        facts["saved"] = True
    if (limitation := here.peer.link.limitation) is not None:
        facts["mode"] = limitation.mode
    return facts


def on_disk(here: OpenDocument, facts: dict[str, Any]) -> str:
    """Whether the file has what this agent wrote; also added to the facts."""
    peer = here.peer
    facts["saved"] = not peer.has_unsaved_of(here.seat.agent)
    if here.is_fork:
        return "Only in the fork."
    if facts["saved"]:
        return "On disk."
    return "Not on disk yet." if peer.link.autosaves else "Not on disk: autosave is off."


def answer(here: OpenDocument, lines: Sequence[str], facts: dict[str, Any], **more: Any) -> Answer:
    """An answer about a document, ending with what others changed since this agent looked."""
    peer, seat = here.peer, here.seat
    lines = list(lines)
    for notice in (*peer.link.notices(), *peer.take_notes(seat)):
        lines.append(notice)
        facts.setdefault("notices", []).append(notice)
    if peer.link.limitation is not None:
        lines.append(peer.link.limitation.notice)
    if seat.people:
        lines.append(caret_line(peer.document, seat.people))
        facts["carets"] = caret_facts(peer.document, seat.people)
        seat.people = {}
    others = peer.news(seat)
    if others is not None:
        lines.append(others)
        facts["others"] = others
    return Answer("\n".join(lines), facts, **more)


def document_of(run: Run) -> str:
    """The path of the notebook of a run, or the name of the fork."""
    return fork_name(run.room_id) if run.room_id.is_fork else run.path


def joined(here: OpenDocument, size: str, **facts: Any) -> Answer:
    """The answer to an agent that has joined a room."""
    link = here.peer.link
    handle = {
        "path": here.name,
        "room_id": link.room_id,
        "file_id": link.room_id.file_id,
        "session_id": here.seat.session,
        "agent": here.seat.name,
    }
    text = (
        f"You are in the room of {here.label} as {inline(here.seat.name)} "
        f"(session {here.seat.session}, room {link.room_id}, {size})."
    )
    line, company_facts = company(here)
    handle["people"] = company_facts["people"]
    return answer(here, [text, *([line] if line else [])], {**handle, **about(here), **facts})


def company(here: OpenDocument) -> tuple[str, dict[str, Any]]:
    """Who else is in the room, as a line, if there is anybody, and as facts."""
    link = here.peer.link
    others = people_in(link.states, without=here.seat.profile.username)
    line = f"Here now: {listed(others)}." if others else ""
    return line, {"room_id": link.room_id, "people": others}


def cell_facts(here: OpenDocument, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Index, id and revision of existing cells."""
    notebook = here.peer.notebook
    facts = []
    with notebook.doc.transaction():  # one lookup for all: there may be a thousand
        for cell_id in ids:
            if notebook.has(cell_id):
                index = notebook.find(cell_id)
                facts.append({"index": index, "id": cell_id, "revision": notebook.revision(index)})
    return facts


def cell_lines(here: OpenDocument, cells: Sequence[dict[str, Any]]) -> list[str]:
    """The cells as handles, several to a line."""
    shown = [
        cell_handle(cell["index"], here.peer.notebook.short_id(cell["index"]), cell["revision"])
        for cell in cells[:_SHOWN]
    ]
    lines = [" ".join(shown[n : n + _A_LINE]) for n in range(0, len(shown), _A_LINE)]
    if len(cells) > _SHOWN:
        lines.append(f"... and {len(cells) - _SHOWN} more")
    return lines


def edited(
    here: OpenDocument, done: str, cells: Sequence[dict[str, Any]], facts: dict[str, Any]
) -> list[str]:
    """What an edit did to cells, in one line if they are few."""
    handles = cell_lines(here, cells)
    if len(handles) == 1:
        return [f"{done} {handles[0]}. {on_disk(here, facts)}"]
    return [f"{done} {how_many(len(cells))}. {on_disk(here, facts)}", *handles]


def learnt(here: OpenDocument, cells: Sequence[dict[str, Any]]) -> None:
    """Note that an agent knows what it has written."""
    notebook = here.peer.notebook
    revisions = {cell["index"]: cell["revision"] for cell in cells}  # one may occur often
    for cell in cells:
        here.seat.known.add(cell["id"], cell["revision"])
    here.peer.seen_sources.add(
        TextView(revisions[index], notebook.source(index)) for index in list(revisions)[:_SHOWN]
    )


def surprising(here: OpenDocument, unexpected: Mapping[str, str]) -> list[str]:
    """How cells differ from what the agent knew, where it changed what it did not know.

    Args:
        unexpected: By cell, what it said before.
    """
    notebook, lines = here.peer.notebook, []
    for cell_id in list(unexpected)[:_SURPRISES]:
        if notebook.has(cell_id):
            index = notebook.find(cell_id)
            known = here.peer.seen_sources.get(here.seat.known.get(cell_id) or "")
            if known is not None:
                diff = unified(known, notebook.source(index), limit=1_500)
                handle = notebook.handle(index)
                lines.append(f"Others had changed {handle} since you read it:\n{fenced(diff)}")
    return lines


def how_many(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"
