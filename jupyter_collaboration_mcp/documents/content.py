"""What a shared document says, as plain values: the cells of a notebook, or a text.

A version of a document, or a fork, is a Yjs state. This reads one without the room, in any thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pycrdt import Doc

from .notebook import Notebook
from .text_document import TextDocument

#: What belongs to the moment and not to the content of a cell.
_MOMENTARY = ("execution_state",)


@dataclass(frozen=True)
class NotebookContent:
    """The cells of a notebook in order, each with id, cell_type, source, metadata and, if it has
    them, outputs, execution_count and attachments."""

    cells: Sequence[Mapping[str, Any]]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the notebook itself."""

    @cached_property
    def by_id(self) -> Mapping[str, Mapping[str, Any]]:
        return {str(cell["id"]): cell for cell in self.cells}


@dataclass(frozen=True)
class TextContent:
    """The text of a file."""

    text: str


Content = NotebookContent | TextContent


def content_of(document: Notebook | TextDocument) -> Content:
    """What a document says now; takes long for a large notebook."""
    if isinstance(document, TextDocument):
        return TextContent(str(document))
    with document.doc.transaction():
        cells = [_without_moment(document.value(index)) for index in range(len(document))]
    return NotebookContent(_with_own_ids(cells), document.notebook_metadata)


def read_content(kind: str, state: bytes) -> Content:
    """What a document said in a state, which is a Yjs update; for any thread.

    Args:
        kind: "notebook" or "file", as in a room id.
    """
    doc: Doc[Any] = Doc()
    doc.apply_update(state)
    document = (Notebook if kind == "notebook" else TextDocument)(doc, follows=False)
    try:
        return content_of(document)
    finally:
        document.close()


def longest_ascending(cell_ids: Sequence[str], index: Mapping[str, int]) -> set[str]:
    """The most cells that can stay where they are when all others move around them."""
    ends: list[int] = []  # the smallest last index of an ascending row of each length
    tails: list[str] = []
    before: dict[str, str | None] = {}
    for cell_id in cell_ids:
        length = bisect_left(ends, index[cell_id])
        before[cell_id] = tails[length - 1] if length else None
        ends[length : length + 1] = [index[cell_id]]
        tails[length : length + 1] = [cell_id]
    kept: set[str] = set()
    last = tails[-1] if tails else None
    while last is not None:
        kept.add(last)
        last = before[last]
    return kept


def _without_moment(cell: dict[str, Any]) -> dict[str, Any]:
    for key in _MOMENTARY:
        cell.pop(key, None)
    return cell


def _with_own_ids(cells: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Give cells of a damaged notebook that have the same id ids of their own, always the same."""
    seen: dict[str, int] = {}
    for cell in cells:
        cell_id = str(cell["id"])
        seen[cell_id] = seen.get(cell_id, 0) + 1
        if seen[cell_id] > 1:
            cell["id"] = f"{cell_id}-{seen[cell_id]}"
    return cells
