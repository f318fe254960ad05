"""Where people's carets are: in which cells of a notebook, in which lines of a text file.

A caret is a relative position in the awareness state of a member's tab, as JupyterLab sends it. In
a cell, `type` is always the id of the cell's shared text, so a cell is found by comparing ids. The
text of a file has a name instead; its lines are known here where all text is ASCII only, because
more would need a copy of the document (`cursors.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..documents.differ import Edit
from ..documents.members import Member, member_of
from ..documents.notebook import Notebook
from ..documents.positions import Id, RelativePosition, offset_of
from ..documents.text_document import TextDocument

#: Carets of one member that count, and members: a state may contain anything.
_MOST_CARETS, _MOST_MEMBERS = 20, 500

#: A person whose tab gives no name.
_NAMELESS = "Somebody"

States = Mapping[int, Mapping[str, Any]]
"""The awareness states of a room, by client."""


@dataclass(frozen=True, slots=True)
class Caret:
    """One caret or selection."""

    client: int
    member: Member
    anchor: RelativePosition
    head: RelativePosition
    """Where the caret itself is; the anchor is the other end of a selection."""

    @property
    def text(self) -> Id | None:
        """The shared text of a cell; None if it is in the text of a file."""
        return self.head.type


def carets_in(states: States) -> list[Caret]:
    """The carets of all people in a room; those of agents do not count."""
    return list(all_carets(states, people_only=True))


def all_carets(states: States, people_only: bool = False) -> Iterator[Caret]:
    """The carets of everybody in a room.

    The states of those who left, or whose connection broke, are dropped by whoever keeps them.
    """
    # A copy: this may be called in a thread, while somebody joins.
    for client, state in list(dict(states).items())[:_MOST_MEMBERS]:
        cursors = state.get("cursors") if isinstance(state, Mapping) else None
        if not isinstance(cursors, list):
            continue
        member = member_of(state) or Member("", _NAMELESS)
        if people_only and member.is_agent:
            continue
        for cursor in cursors[:_MOST_CARETS]:
            if isinstance(cursor, Mapping):
                head = RelativePosition.parse(cursor.get("head"))
                anchor = RelativePosition.parse(cursor.get("anchor")) or head
                if head is not None and anchor is not None and any(head.text):
                    yield Caret(client, member, anchor, head)


def people_in_cells(
    notebook: Notebook, indexes: Collection[int], carets: Sequence[Caret]
) -> dict[int, list[str]]:
    """The people whose carets are in some cells of a notebook, by index."""
    carets = [caret for caret in carets if caret.text is not None]
    return people_in_texts(text_ids(notebook, indexes), carets) if carets else {}


def text_ids(notebook: Notebook, indexes: Collection[int]) -> dict[Id, int]:
    """Which shared text belongs to which of some cells, for `people_in_texts`."""
    with notebook.doc.transaction():  # one for all: there may be a thousand cells
        return {notebook.source_id(index): index for index in indexes}


def people_in_texts(texts: Mapping[Id, int], carets: Sequence[Caret]) -> dict[int, list[str]]:
    """The people whose carets are in some shared texts, by the index of their cells."""
    people: dict[int, list[str]] = {}
    for caret in carets:
        if caret.text is not None and (index := texts.get(caret.text)) is not None:
            names = people.setdefault(index, [])
            if caret.member.name not in names:
                names.append(caret.member.name)
    return dict(sorted(people.items()))


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
    for caret in carets:
        places = [offset_of(document, 0, end, source) for end in (caret.anchor, caret.head)]
        offsets = [place for place in places if place is not None]
        if not offsets:
            continue
        start = source.rfind("\n", 0, min(offsets)) + 1
        end = source.find("\n", max(offsets))
        end = len(source) if end < 0 else end
        if any(edit.start <= end and edit.end >= start for edit in edits):
            names = found.setdefault(source.count("\n", 0, offsets[-1]) + 1, [])
            if caret.member.name not in names:
                names.append(caret.member.name)
    return found
