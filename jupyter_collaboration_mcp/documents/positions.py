"""Places in shared texts as Yjs names them: by a character next to the place, not by a number, so
that they stay where they are while others type.

pycrdt mixes bytes and UTF-16 units when it converts between the two, so its answers are right only
in ASCII (B8), and it panics at the end of a text (B10). Elsewhere we delete characters in a copy of
the document: the updates name them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from pycrdt import Assoc, Doc, StickyIndex, Text

from .text_document import Document
from .updates import decode_state, sole_deletion

#: Characters that are compared with the one that is looked for.
_STEPS = 20_000

Id = tuple[int, int]
"""What a client wrote at one clock."""


@dataclass(frozen=True, slots=True)
class RelativePosition:
    """A place in a shared text."""

    type: Id | None = None
    """The text, if it is part of something else, as a cell's is."""
    tname: str | None = None
    """The text, if it is one of the document's own."""
    item: Id | None = None
    """The character beside it; None at an end of the text."""
    assoc: int = 0
    """Below 0: after that character, or at the start. Otherwise before it, or at the end."""

    def to_json(self) -> dict[str, Any]:
        """All keys, also those without a value: JupyterLab's editor throws without them (B11)."""
        return {
            "type": _to_json(self.type),
            "tname": self.tname,
            "item": _to_json(self.item),
            "assoc": self.assoc,
        }

    @classmethod
    def parse(cls, value: object) -> Self | None:
        """What somebody else has sent; None if it is not a position."""
        if not isinstance(value, Mapping):
            return None
        try:
            name, assoc = value.get("tname"), value.get("assoc")
            return cls(
                _from_json(value.get("type")),
                None if name is None else str(name),
                _from_json(value.get("item")),
                0 if assoc is None else int(assoc),
            )
        except (TypeError, ValueError, KeyError, OverflowError):
            return None

    @property
    def text(self) -> tuple[Id | None, str | None]:
        """Which text it is in."""
        return self.type, self.tname


def start_of(text: Text) -> RelativePosition:
    """The start of a text, which also tells which text it is."""
    with text.doc.transaction():
        found = RelativePosition.parse(text.sticky_index(0, Assoc.BEFORE).to_json())
    assert found is not None
    return found


def _after(start: RelativePosition, item: Id | None) -> RelativePosition:
    return RelativePosition(start.type, start.tname, item, -1)


# -- from numbers to places ------------------------------------------------------------------


def position_of(document: Document, index: int, at: int) -> RelativePosition | None:
    """The place after so many characters of a part; None if only a copy can tell."""
    shared = document.shared_source(index)
    start = start_of(shared)
    if at == 0:
        return start
    if not document.source(index)[:at].isascii():
        return None
    with document.doc.transaction():
        found = RelativePosition.parse(shared.sticky_index(at, Assoc.BEFORE).to_json())
    assert found is not None
    return _after(start, found.item)


def position_in_copy(kind: type[Document], state: bytes, index: int, at: int) -> RelativePosition:
    """The same, by way of a copy of the document; in any thread."""
    with _Copy(kind, state, index) as copy:
        start = start_of(copy.shared)
        deleted = copy.delete_at(at - 1)
        return start if deleted is None else _after(start, deleted.last)


# -- and back --------------------------------------------------------------------------------


def offset_of(document: Document, index: int, position: RelativePosition) -> int | None:
    """After how many characters of a part a place is; None if only a copy can tell, or nothing."""
    source = document.source(index)
    if position.item is None:
        return 0 if position.assoc < 0 else len(source)
    if not source.isascii() or not _has_arrived(document.doc, position.item):
        return None
    with document.doc.transaction() as transaction:
        found = StickyIndex.from_json(_sticky(position)).get_index(transaction)
    return min(max(found, 0), len(source))


def offset_in_copy(
    kind: type[Document], state: bytes, index: int, position: RelativePosition
) -> int | None:
    """The same, by way of a copy of the document; None if the character is not there any more."""
    assert position.item is not None
    client, clock = position.item
    with _Copy(kind, state, index) as copy:
        if not _has_arrived(copy.doc, position.item):
            return None
        with copy.doc.transaction() as transaction:
            near = StickyIndex.from_json(_sticky(position)).get_index(transaction)
        # `near` counts characters of one piece as single bytes, so it is not too far.
        content = copy.source.encode()
        first = max(0, len(content[:near].decode(errors="ignore")) - 2)
        for at in range(first, min(first + _STEPS, len(copy.source))):
            deleted = copy.delete_at(first)  # the next one takes its place
            if deleted is not None and deleted.client == client and clock in deleted.clocks:
                return at + 1 if position.assoc < 0 else at
    return None


def _has_arrived(doc: Doc[Any], item: Id) -> bool:
    """Whether a document has a character; pycrdt panics over one that it does not have."""
    client, clock = item
    return clock < decode_state(doc.get_state()).get(client, 0)


class _Deleted(NamedTuple):
    """A character, which has two clocks if it is beyond U+FFFF."""

    client: int
    clocks: range

    @property
    def last(self) -> Id:
        return self.client, self.clocks[-1]


class _Copy:
    """A copy of a document, in which characters of one part can be deleted to learn their names."""

    def __init__(self, kind: type[Document], state: bytes, index: int) -> None:
        self.doc: Doc[Any] = Doc()
        self._document = kind(self.doc, follows=False)
        self.doc.apply_update(state)
        self.shared = self._document.shared_source(index)
        self.source = self._document.source(index)
        self._left = self.source
        self._updates: list[bytes] = []
        self._subscription = self.doc.observe(lambda event: self._updates.append(event.update))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.doc.unobserve(self._subscription)
        self._document.close()

    def delete_at(self, at: int) -> _Deleted | None:
        """Delete a character of what is left; None if there is none."""
        if not 0 <= at < len(self._left):
            return None
        start = len(self._left[:at].encode())  # pycrdt deletes bytes
        del self.shared[start : start + len(self._left[at].encode())]
        self._left = self._left[:at] + self._left[at + 1 :]
        return _Deleted(*sole_deletion(self._updates.pop()))


# -- lines and columns -----------------------------------------------------------------------


def line_and_column(source: str, at: int) -> tuple[int, int]:
    """A place in a text by its line and the characters before it there, both from 0."""
    before = source[:at]
    return before.count("\n"), at - (before.rfind("\n") + 1)


def _sticky(position: RelativePosition) -> dict[str, Any]:
    """What pycrdt needs to know: the character is enough."""
    return {"item": _to_json(position.item), "assoc": position.assoc}


def _to_json(value: Id | None) -> dict[str, int] | None:
    return None if value is None else {"client": value[0], "clock": value[1]}


def _from_json(value: object) -> Id | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError("not an id")
    return int(value["client"]), int(value["clock"])
