"""Where people's carets are: in which cells of a notebook, in which lines of a text file.

A caret is a relative position in the awareness state of a person's tab, as JupyterLab sends it:
`{"type": ID | null, "tname": name | null, "item": ID | null, "assoc": 0 | -1}`. In a cell, `type`
is always the id of the cell's shared text, so a cell is found by comparing ids. The text of a file
has a name instead, and its lines are found by asking pycrdt for the character. It counts in a mix
of bytes and UTF-16 units, so this is only done where all text is ASCII; in any other file, nobody's
line is known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pycrdt import StickyIndex, Text

from ..documents.awareness import is_agent, name_in
from ..documents.differ import Edit
from ..documents.notebook import Notebook
from ..documents.text_document import TextDocument
from ..documents.updates import decode_state
from ..panics import is_panic
from .peer import RoomPeer

#: Carets of one person that count: a state may contain anything.
_MOST_CARETS = 20

#: A person whose tab gives no name.
_NAMELESS = "Somebody"

TextId = tuple[int, int]
"""A shared text or a character, by client and clock."""

States = Mapping[int, Mapping[str, Any]]
"""The awareness states of a room, by client."""


@dataclass(frozen=True, slots=True)
class Caret:
    """One caret or selection of a person."""

    name: str
    text: TextId | None
    """The shared text of a cell; None if it is in the text of a file."""
    ends: Sequence[Mapping[str, Any]]
    """The relative positions of its two ends; of the caret itself last."""


def people_at(peer: RoomPeer, cell_ids: Iterable[str]) -> dict[str, list[str]]:
    """The people whose carets are in some cells, by cell; cells without any are left out."""
    notebook = peer.notebook
    indexes = {notebook.find(cell_id): cell_id for cell_id in cell_ids if notebook.has(cell_id)}
    found = people_in_cells(notebook, indexes, carets_in(peer.link.states))
    return {indexes[index]: names for index, names in found.items()}


def carets_in(states: States) -> list[Caret]:
    """The carets of all people in a room; those of agents do not count.

    The states of those who left, or whose connection broke, are dropped by whoever keeps them.
    """
    # A copy: this may be called in a thread, while somebody joins.
    return [
        caret
        for state in dict(states).values()
        if isinstance(state, Mapping) and not is_agent(state)
        for caret in _carets_of(state)
    ]


def people_in_cells(
    notebook: Notebook, indexes: Collection[int], carets: Sequence[Caret]
) -> dict[int, list[str]]:
    """The people whose carets are in some cells of a notebook, by index."""
    people: dict[TextId, list[str]] = {}
    for caret in carets:
        if caret.text is not None:
            names = people.setdefault(caret.text, [])
            if caret.name not in names:
                names.append(caret.name)
    if not people:
        return {}
    with notebook.doc.transaction():  # one for all: there may be a thousand cells
        found = {index: people.get(notebook.source_id(index)) for index in indexes}
    return {index: names for index, names in found.items() if names}


def people_in_lines(
    document: TextDocument, source: str, edits: Sequence[Edit], carets: Sequence[Caret]
) -> dict[int, list[str]]:
    """The people whose carets or selections are in lines that edits touch, by line from 1.

    Args:
        source: What the document says before the edits.
    """
    found: dict[int, list[str]] = {}
    carets = [caret for caret in carets if caret.text is None]
    if not carets or not edits or not source.isascii():
        return found
    known = decode_state(document.doc.get_state())
    for caret in carets:
        places = [_offset(document.shared_source(0), known, end) for end in caret.ends]
        offsets = [place for place in places if place is not None]
        if not offsets:
            continue
        start = source.rfind("\n", 0, min(offsets)) + 1
        end = source.find("\n", max(offsets))
        end = len(source) if end < 0 else end
        if any(edit.start <= end and edit.end >= start for edit in edits):
            names = found.setdefault(source.count("\n", 0, offsets[-1]) + 1, [])
            if caret.name not in names:
                names.append(caret.name)
    return found


def _carets_of(state: Mapping[str, Any]) -> Iterator[Caret]:
    cursors = state.get("cursors")
    if not isinstance(cursors, list):
        return
    name = name_in(state) or _NAMELESS
    for cursor in cursors[:_MOST_CARETS]:
        if not isinstance(cursor, Mapping):
            continue
        ends = [end for key in ("anchor", "head") if isinstance(end := cursor.get(key), Mapping)]
        if ends:
            text = _id_in(ends[-1].get("type"))
            if text is not None or isinstance(ends[-1].get("tname"), str):
                yield Caret(name, text, ends)


def _id_in(value: object) -> TextId | None:
    if not isinstance(value, Mapping):
        return None
    client, clock = value.get("client"), value.get("clock")
    if type(client) is int and type(clock) is int and client >= 0 and clock >= 0:
        return client, clock
    return None


def _offset(text: Text, known: Mapping[int, int], end: Mapping[str, Any]) -> int | None:
    """The position of one end of a caret in an ASCII text; None if it cannot be known."""
    before = end.get("assoc") == -1
    if end.get("item") is None:
        return 0 if before else len(text)
    item = _id_in(end["item"])
    if item is None or item[1] >= known.get(item[0], 0):
        return None  # pycrdt panics at a character that it does not have
    position = {"item": {"client": item[0], "clock": item[1]}, "assoc": -1 if before else 0}
    try:
        return StickyIndex.from_json(position, text).get_index()
    except BaseException as error:
        if not is_panic(error):
            raise
        return None
