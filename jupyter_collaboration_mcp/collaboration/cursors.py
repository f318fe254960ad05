"""Where everybody's caret is in a document: cell, line and column."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..documents.awareness import name_of, user_of
from ..documents.positions import (
    RelativePosition,
    line_and_column,
    offset_in_copy,
    offset_of,
    position_in_copy,
    position_of,
    start_of,
)
from ..documents.text_document import WHOLE, Document, TextDocument
from .peer import RoomPeer

#: Cells that are looked at before others have a turn.
_SLICE = 200

#: Carets of one member that are looked at, and members.
_CARETS, _MEMBERS = 5, 200


@dataclass(frozen=True, slots=True)
class Cursor:
    """A caret, or a selection that ends at it. Lines and columns count from 0, in characters."""

    client: int
    user: str
    """The user name of whoever has it."""
    name: str
    part: str
    """The cell that it is in; empty for the text of a file."""
    line: int
    column: int
    start: tuple[int, int]
    end: tuple[int, int]
    """Where the selection is, by line and column; both the same for a caret."""
    selected: str
    """The selected text."""


async def cursors_in(peer: RoomPeer) -> list[Cursor]:
    """Everybody's cursors in a document, those of this process's agents included."""
    raw = list(_raw_cursors(peer.link.states))
    parts = await _parts_of(peer.document, {head.text for _, _, head in raw})
    found = []
    for client, anchor, head in raw:
        part = parts.get(head.text)
        state = peer.link.states.get(client)
        if part is None or state is None or not peer.document.has(part):
            continue
        ends = [await _offset(peer, part, each) for each in (anchor, head)]
        if not peer.document.has(part):
            continue
        source = peer.document.source(peer.document.find(part))
        at = min(ends[1], len(source))
        start, end = (min(each, len(source)) for each in sorted(ends))
        line, column = line_and_column(source, at)
        found.append(
            Cursor(
                client,
                str(user_of(state).get("username") or ""),
                name_of(state) or "Anonymous",
                part,
                line,
                column,
                line_and_column(source, start),
                line_and_column(source, end),
                source[start:end],
            )
        )
    return found


async def place(peer: RoomPeer, part: str, at: int) -> RelativePosition:
    """The place after so many characters of a cell, or of the text of a file."""
    index = peer.document.find(part)
    found = position_of(peer.document, index, at)
    if found is not None:
        return found
    return await asyncio.to_thread(
        position_in_copy, type(peer.document), peer.doc.get_update(), index, at
    )


async def _offset(peer: RoomPeer, part: str, position: RelativePosition) -> int:
    index = peer.document.find(part)
    found = offset_of(peer.document, index, position)
    if found is None:
        found = await asyncio.to_thread(
            offset_in_copy, type(peer.document), peer.doc.get_update(), index, position
        )
    return found or 0


def _raw_cursors(
    states: Mapping[int, Mapping[str, Any]],
) -> Iterator[tuple[int, RelativePosition, RelativePosition]]:
    for client, state in list(states.items())[:_MEMBERS]:
        cursors = state.get("cursors") if isinstance(state, Mapping) else None
        if not isinstance(cursors, list):
            continue
        for cursor in cursors[:_CARETS]:
            if isinstance(cursor, Mapping):
                anchor = RelativePosition.parse(cursor.get("anchor"))
                head = RelativePosition.parse(cursor.get("head"))
                if anchor is not None and head is not None:
                    yield client, anchor, head


async def _parts_of(document: Document, texts: Collection[Any]) -> dict[Any, str]:
    """The parts whose texts these are."""
    if isinstance(document, TextDocument):
        return dict.fromkeys(texts, WHOLE)
    found: dict[Any, str] = {}
    ids = list(document.ids)
    for number, cell_id in enumerate(ids):
        if len(found) == len(texts):
            break
        if number % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        if document.has(cell_id):
            text = start_of(document.shared_source(document.find(cell_id))).text
            if text in texts:
                found[text] = cell_id
    return found
