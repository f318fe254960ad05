"""Places in shared texts as Yjs names them: by a character next to the place, not by a number, so
that they stay where they are while others type.

pycrdt mixes bytes and UTF-16 units when it converts between the two, so its answers are right only
in ASCII (B8), and it panics at the end of a text (B10). Elsewhere we delete characters in a copy of
the document: the updates name them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pycrdt import Assoc, Doc, StickyIndex, Text

from .text_document import Document
from .updates import decode_state, deletions

#: Characters that are deleted at once to find out whether one that is looked for is among them.
_CHUNK = 4_096

#: What Yjs has for clients and clocks.
_CLIENTS, _CLOCKS = 1 << 53, 1 << 32

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
        name, assoc = value.get("tname"), value.get("assoc")
        try:
            text, item = _from_json(value.get("type")), _from_json(value.get("item"))
            before = assoc is not None and int(assoc) < 0
        except (TypeError, ValueError, KeyError, OverflowError):
            return None
        # yrs knows two values and panics over others.
        return cls(text, None if name is None else str(name), item, -1 if before else 0)

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
        if not at:
            return start
        before = len(copy.source[: at - 1].encode())
        ((client, clocks),) = copy.delete(before, copy.source[at - 1])
        return _after(start, (client, clocks[-1]))  # one beyond U+FFFF has two clocks


# -- and back --------------------------------------------------------------------------------


def offset_of(
    document: Document, index: int, position: RelativePosition, source: str | None = None
) -> int | None:
    """After how many characters of a part a place is; None if only a copy can tell, or nothing.

    Args:
        source: The text of the part, if the caller has it: to get a large one takes time.
    """
    if source is None:
        source = document.source(index)
    if position.item is None:
        return 0 if position.assoc < 0 else len(source)
    if not source.isascii() or not has_arrived(document.doc, position):
        return None
    with document.doc.transaction() as transaction:
        json = {"item": _to_json(position.item), "assoc": position.assoc}
        found = StickyIndex.from_json(json).get_index(transaction)
    return min(max(found, 0), len(source))


def has_arrived(doc: Doc[Any], position: RelativePosition) -> bool:
    """Whether a document has a place's character; pycrdt panics over one that it does not have."""
    if position.item is None:
        return True
    client, clock = position.item
    return clock < decode_state(doc.get_state()).get(client, 0)


def offsets_in_copy(
    kind: type[Document], state: bytes, index: int, items: Collection[Id]
) -> dict[Id, int]:
    """Before which characters of a part some characters are, by way of copies of the document; in
    any thread. What is not there any more is left out."""
    with _Copy(kind, state, index) as copy:
        source = copy.source
        hits = {
            start: here
            for start in range(0, len(source), _CHUNK)
            if (here := _among(items, copy.delete(0, source[start : start + _CHUNK])))
        }
    found: dict[Id, int] = {}
    with _Copy(kind, state, index) as copy:
        for start in sorted(hits, reverse=True):  # so that what comes before stays where it is
            left, before = set(hits[start]), len(source[:start].encode())
            for number, character in enumerate(source[start : start + _CHUNK]):
                if not left:
                    break
                for item in _among(left, copy.delete(before, character)):
                    found[item] = start + number
                    left.remove(item)
    return found


def _among(items: Collection[Id], deleted: Sequence[tuple[int, range]]) -> list[Id]:
    return [
        (client, clock)
        for client, clock in items
        if any(client == other and clock in clocks for other, clocks in deleted)
    ]


class _Copy:
    """A copy of a document, in which characters of one part can be deleted to learn their names."""

    def __init__(self, kind: type[Document], state: bytes, index: int) -> None:
        self._doc: Doc[Any] = Doc()
        self._document = kind(self._doc, follows=False)
        self._doc.apply_update(state)
        self.shared = self._document.shared_source(index)
        self.source = self._document.source(index)
        self._updates: list[bytes] = []
        self._subscription = self._doc.observe(lambda event: self._updates.append(event.update))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._doc.unobserve(self._subscription)
        self._document.close()

    def delete(self, before: int, text: str) -> list[tuple[int, range]]:
        """Delete a text that begins after some bytes; returns the clients and clocks of it."""
        del self.shared[before : before + len(text.encode())]
        return deletions(self._updates.pop())


# -- lines and columns -----------------------------------------------------------------------


def line_and_column(source: str, at: int) -> tuple[int, int]:
    """A place in a text by its line and the characters before it there, both from 0."""
    return source.count("\n", 0, at), at - (source.rfind("\n", 0, at) + 1)


def _to_json(value: Id | None) -> dict[str, int] | None:
    return None if value is None else {"client": value[0], "clock": value[1]}


def _from_json(value: object) -> Id | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise TypeError("not an id")
    client, clock = int(value["client"]), int(value["clock"])
    if not (0 <= client < _CLIENTS and 0 <= clock < _CLOCKS):
        raise ValueError("not an id")
    return client, clock
