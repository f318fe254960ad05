"""What the changes of a call did to each cell, as people see it in a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...documents.notebook import Notebook
from ...documents.text_document import WHOLE, Document
from ...errors import AmbiguousCell
from ..changes import Change
from .entries import CellEntry, Review

#: Cells that an entry names. What is done to the whole call is done to all of them.
MOST_CELLS = 1_000

#: Characters of the name of a cell, and of the text in which it is looked for.
_NAME, _LOOKED_AT = 40, 2_000

_DEFINITION = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)", re.MULTILINE)

#: What stands before the words of a heading or of a comment.
_MARKS = "#%/*-;=\"'<!>| \t"


@dataclass(frozen=True, slots=True)
class CellChanges:
    """The changes of one cell, and what its name is made of."""

    changes: Sequence[Change]
    source: str
    index: int | None


def collected(changes: Sequence[Change], document: Document) -> list[CellChanges]:
    """Changes by cell, of many cells the first, with what the document says of each."""
    by_cell: dict[str, list[Change]] = {}
    for change in changes:
        if change.cell_id in by_cell or len(by_cell) < MOST_CELLS:
            by_cell.setdefault(change.cell_id, []).append(change)
    return [_collect(cell_id, each, document) for cell_id, each in by_cell.items()]


def _collect(cell_id: str, changes: Sequence[Change], document: Document) -> CellChanges:
    index = place_of(cell_id, document)
    texts = [text for change in changes for text in change.texts() if text]
    if not texts and index is not None:
        texts.append(document.source(index))
    return CellChanges(changes, texts[-1] if texts else "", index)


def place_of(cell_id: str, document: Document) -> int | None:
    """The index of a cell; None if it is gone, or if several of a damaged notebook have its id."""
    if not isinstance(document, Notebook) or not document.has(cell_id):
        return None
    try:
        return document.find(cell_id)
    except AmbiguousCell:
        return None


def cell_entry(cell: CellChanges, review: Review) -> CellEntry:
    """What happened to a cell. To count lines of a long text takes a while."""
    first, last = cell.changes[0], cell.changes[-1]
    counts = [change.line_counts() for change in cell.changes]
    return CellEntry(
        cell_id=first.cell_id,
        name="the text" if first.cell_id == WHOLE else name_of(cell.source, cell.index),
        changes=list(dict.fromkeys(change.aspect for change in cell.changes)),
        added=sum(more for more, _ in counts),
        removed=sum(less for _, less in counts),
        review=review,
        after_cell=last.gap_after,
    )


def name_of(source: str, index: int | None) -> str:
    """A cell as people would call it: what it defines, its heading, its first words, its place."""
    start = source[:_LOOKED_AT]
    if found := _DEFINITION.search(start):
        return found[1][:_NAME]
    for line in start.splitlines():
        if words := " ".join(line.strip(_MARKS).split()):
            return words if len(words) <= _NAME else f"{words[: _NAME - 1]}…"
    return "an empty cell" if index is None else f"cell {index + 1}"
