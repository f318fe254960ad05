"""A document that rows are replayed on: what each row changes, and what a version changed.

All of it is used in one thread: a Doc of pycrdt must not even be dropped in another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pycrdt import Assoc, Doc, Map

from ....documents.cell_mirror import CellChange
from ....documents.differ import Differ
from ....documents.notebook import Notebook
from ....documents.text_document import WHOLE, Document, TextDocument
from ....documents.updates import decode_state
from ...protocols.room_ids import Kind
from ...protocols.versions import ChangeCounts

Text = tuple[str, str]
"""The type and the source of a cell; of a text file, "file" and the text."""

#: Stands for the metadata of a whole notebook, which is no cell.
METADATA = "\0metadata"

Changes = dict[str, set[str]]
"""What was changed, by the id of the cell: the kinds of `CellChange`."""


Written = Mapping[int, tuple[int, int]]
"""What is new in a row: clients, and from which clock up to which."""

#: Characters of a cell that are searched for one that is new.
_SEARCHED = 10_000


class ReplayedDocument:
    """A document as it was after some row."""

    def __init__(self, kind: Kind, state: bytes | None = None) -> None:
        self.doc: Doc[Any] = Doc()
        if state is not None:
            self.doc.apply_update(state)
        self._kind = kind
        self._document: Document | None = None
        self._heard: Changes = {}
        self._meta: Any = None
        self._clocks: dict[int, int] = {}

    def skip(self, updates: Iterable[bytes]) -> None:
        """Apply rows without looking at what they change; only before `follow`."""
        for update in updates:
            self.doc.apply_update(update)

    def follow(self) -> None:
        """Report what is changed from now on."""
        self._clocks = decode_state(self.doc.get_state())
        if self._kind == "file":
            self._document = TextDocument(self.doc)
            return
        self._document = notebook = Notebook(self.doc)
        notebook.on_change = self._on_cells
        self._meta = self.doc.get("meta", type=Map).integrated.observe_deep(self._on_metadata)

    def close(self) -> None:
        """Stop observing, or the document would never be freed (B28)."""
        if self._meta is not None:
            self._meta.drop()
        if self._document is not None:
            self._document.close()

    def apply(self, update: bytes) -> tuple[Changes, dict[int, tuple[int, int]]]:
        """Apply a row; returns what it changes, and which clocks of which clients are new in it."""
        assert self._document is not None
        self._heard, mark = {}, self._document.mark()
        self.doc.apply_update(update)
        before, after = self._clocks, decode_state(self.doc.get_state())
        self._clocks = after
        written = {
            client: (before.get(client, 0), clock)
            for client, clock in after.items()
            if clock > before.get(client, 0)
        }
        if isinstance(self._document, TextDocument) and self._document.mark() != mark:
            self._heard = {WHOLE: {"edited"}}
        return self._heard, written

    def texts(self) -> dict[str, Text]:
        """What all cells say, by id."""
        assert self._document is not None
        return {cell: self.text(cell) for cell in self._document.ids}

    def has(self, cell: str) -> bool:
        """Whether a cell exists."""
        assert self._document is not None
        return self._document.has(cell)

    def text(self, cell: str) -> Text:
        """What a cell says."""
        assert self._document is not None
        # The ids of a damaged notebook may not be unique.
        index = self._document._index_of(cell) if isinstance(self._document, Notebook) else 0
        return self._document.cell_type(index), self._document.source(index)

    def new_in(self, cell: str, written: Written) -> tuple[int, int] | None:
        """Something in a cell that is new, by client and clock, if it can be found."""
        assert self._document is not None
        if not isinstance(self._document, Notebook):
            return None
        index = self._document._index_of(cell)
        source = self._document.source(index)
        if not source.isascii():  # pycrdt counts wrong (B8)
            source = ""
        shared = self._document.shared_source(index)
        for place in (-1, *range(min(len(source), _SEARCHED))):
            if place < 0:
                found = self._document.source_id(index)
            else:
                item = shared.sticky_index(place, Assoc.AFTER).to_json()["item"]
                found = int(item["client"]), int(item["clock"])
            start, end = written.get(found[0], (0, 0))
            if start <= found[1] < end:
                return found
        return None

    def _on_cells(self, changes: list[CellChange]) -> None:
        for change in changes:
            self._heard.setdefault(change.cell_id, set()).add(change.kind)

    def _on_metadata(self, events: Any) -> None:
        self._heard.setdefault(METADATA, set()).add("metadata")


def count_changes(
    changes: Mapping[str, Iterable[str]],
    before: Mapping[str, Text | None],
    after: Mapping[str, Text | None],
) -> ChangeCounts:
    """What a version has changed, in numbers.

    Args:
        changes: What has happened to which cells.
        before: What these cells said, None for those that did not exist.
        after: The same at the end.
    """
    counts = dict.fromkeys(("added", "edited", "deleted", "moved", "outputs"), 0)
    lines = {"lines_added": 0, "lines_removed": 0}
    differ = Differ()
    for cell, kinds in changes.items():
        old, new = before.get(cell), after.get(cell)
        if cell == METADATA or (old is None and new is None):
            continue
        plus, minus = _changed_lines(old, new, differ)
        lines["lines_added"] += plus
        lines["lines_removed"] += minus
        if cell != WHOLE and (kind := _kind(old, new, set(kinds))) is not None:
            counts[kind] += 1
    return ChangeCounts(**counts, **lines)


def _kind(old: Text | None, new: Text | None, kinds: set[str]) -> str | None:
    if old is None or new is None:
        return "added" if old is None else "deleted"
    if old != new or "metadata" in kinds:
        return "edited"
    return "moved" if "moved" in kinds else "outputs" if "outputs" in kinds else None


def _changed_lines(old: Text | None, new: Text | None, differ: Differ) -> tuple[int, int]:
    """How many lines came and went."""
    if old is not None and new is not None:
        if old[1] == new[1]:
            return 0, 0
        gaps = differ.gaps(_lines(old[1]), _lines(new[1]))
        return (
            sum(gap.new_end - gap.new_start for gap in gaps),
            sum(gap.old_end - gap.old_start for gap in gaps),
        )
    return (len(_lines(new[1])), 0) if new else (0, len(_lines(old[1])) if old else 0)


def _lines(source: str) -> list[str]:
    # An empty cell has no line, and a line break at the end of a file begins none.
    return source.removesuffix("\n").split("\n") if source else []
