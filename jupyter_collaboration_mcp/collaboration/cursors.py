"""Where everybody's caret is in a document: cell, line and column."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice

from ..documents.positions import (
    Id,
    RelativePosition,
    has_arrived,
    line_and_column,
    offset_of,
    offsets_in_copy,
    position_in_copy,
    position_of,
)
from ..documents.text_document import WHOLE, Document, TextDocument
from .carets import Caret, all_carets
from .peer import RoomPeer

#: Cells that are looked at before others have a turn.
_SLICE = 200

#: Carets that are looked at.
_MOST = 200

#: Characters from which on others have a turn between two carets.
_LARGE = 500_000


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
    """Everybody's cursors in a document, those of this process's agents included.

    One whose place is not known is left out: its text has not arrived, or is gone.
    """
    carets = list(islice(all_carets(peer.link.states), _MOST))
    parts = await _parts_of(peer.document, {caret.text for caret in carets})
    found = []
    for part in dict.fromkeys(parts.values()):
        here = [caret for caret in carets if parts.get(caret.text) == part]
        if peer.document.has(part):
            found += await _cursors_at(peer, part, here)
    return found


async def _cursors_at(peer: RoomPeer, part: str, carets: Sequence[Caret]) -> list[Cursor]:
    document, index = peer.document, peer.document.find(part)
    source = document.source(index)
    places = {place for caret in carets for place in (caret.anchor, caret.head)}
    offsets = {place: offset_of(document, index, place, source) for place in places}
    unknown = {
        place.item
        for place, offset in offsets.items()
        if offset is None and place.item is not None and has_arrived(peer.doc, place)
    }
    if unknown and not source.isascii():
        state = peer.doc.get_update()
        at = await asyncio.to_thread(offsets_in_copy, type(document), state, index, unknown)
        for place in places:
            if place.item in at:
                offsets[place] = at[place.item] + (1 if place.assoc < 0 else 0)
    found = []
    for caret in carets:
        anchor, head = offsets[caret.anchor], offsets[caret.head]
        if anchor is None or head is None:
            continue
        if len(source) > _LARGE:
            await asyncio.sleep(0)  # counting its lines takes a millisecond
        start, end = sorted((anchor, head))
        line, column = line_and_column(source, head)
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
