"""Where everybody's caret is in a document: cell, line and column."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass

from ..documents.positions import (
    Id,
    RelativePosition,
    line_and_column,
    offset_in_copy,
    offset_of,
    position_in_copy,
    position_of,
)
from ..documents.text_document import WHOLE, Document, TextDocument
from .carets import all_carets
from .peer import RoomPeer

#: Cells that are looked at before others have a turn.
_SLICE = 200


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
    carets = list(all_carets(peer.link.states))
    parts = await _parts_of(peer.document, {caret.text for caret in carets})
    found = []
    for caret in carets:
        part = parts.get(caret.text)
        if part is None or not peer.document.has(part):
            continue
        ends = [await _offset(peer, part, each) for each in (caret.anchor, caret.head)]
        if not peer.document.has(part):  # it was deleted meanwhile
            continue
        source = peer.document.source(peer.document.find(part))
        start, end = (min(each, len(source)) for each in sorted(ends))
        line, column = line_and_column(source, min(ends[1], len(source)))
        found.append(
            Cursor(
                caret.client,
                caret.member.id,
                caret.member.name,
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


async def _parts_of(document: Document, texts: Collection[Id | None]) -> dict[Id | None, str]:
    """The parts whose texts these are."""
    if isinstance(document, TextDocument):
        return dict.fromkeys(texts, WHOLE)
    found: dict[Id | None, str] = {}
    for number, cell_id in enumerate(list(document.ids)):
        if len(found) == len(texts):
            break
        if number % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
        if document.has(cell_id) and (text := document.source_id(document.find(cell_id))) in texts:
            found[text] = cell_id
    return found
