"""What a call did to each cell, and what the cell would say without it, as of now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pycrdt import Doc

from ..collaboration.changes import Change, Step
from ..collaboration.edits import LARGE_CELLS, LARGE_TEXT
from ..collaboration.panel.cell_changes import name_of, place_of
from ..collaboration.panel.entries import CellEntry
from ..collaboration.peer import RoomPeer
from ..collaboration.undo import plan_undo
from ..documents.languages import language_in, name_by_ending
from ..documents.notebook import Notebook
from ..documents.text_document import Document
from ..errors import CellError
from .undo_steps import AgentLog

#: Characters of all texts that one answer has.
_CHARACTERS = 4_000_000

Chosen = Callable[[str], bool]
"""Whether a cell, by its id, is meant."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is left of a call, as far as it can be undone."""

    peer: RoomPeer
    log: AgentLog
    steps: Sequence[Step]
    """Newest first."""
    later: Sequence[Step]
    """Steps of the same agent after them, newest first."""

    def of(self, cell_id: str) -> list[Step]:
        """What the steps did to a cell, and nothing else."""
        return self.only(cell_id.__eq__)

    def about(self, cell_id: str) -> list[Change]:
        """What the call did to a cell, oldest first."""
        changes = (change for step in reversed(self.steps) for change in step.changes)
        return [change for change in changes if change.cell_id == cell_id]

    def only(self, chosen: Chosen) -> list[Step]:
        """The steps with nothing but what they did to some cells."""
        parts = (
            replace(step, changes=tuple(each for each in step.changes if chosen(each.cell_id)))
            for step in self.steps
        )
        return [part for part in parts if part.changes]

    def without(self, chosen: Chosen) -> list[Step]:
        """What stays of the steps if that is undone."""
        return self.only(lambda cell_id: not chosen(cell_id))


def is_large(parts: Parts, cells: Sequence[CellEntry]) -> bool:
    """Whether it takes long to compare what a call did to some cells."""
    if len(cells) > LARGE_CELLS:
        return True
    ids = {cell.cell_id for cell in cells}
    changes = (change for step in parts.steps for change in step.changes)
    return sum(change.size for change in changes if change.cell_id in ids) > LARGE_TEXT


def diffs_on_copy(
    parts: Parts, kind: type[Document], state: bytes, path: str, cells: Sequence[CellEntry]
) -> list[dict[str, Any]]:
    """The diffs of some cells, made on a copy of the document, in any thread.

    Args:
        state: Of the document.
    """
    doc: Doc[Any] = Doc()
    document = kind(doc, follows=False)
    doc.apply_update(state)
    try:
        return diffs_in(parts, document, path, cells)
    finally:
        document.close()


def diffs_in(
    parts: Parts, document: Document, path: str, cells: Sequence[CellEntry]
) -> list[dict[str, Any]]:
    """The diffs of some cells; of many characters, those of the first."""
    shown, size = [], 0
    for cell in cells:
        try:
            shown.append(_diff(parts, document, path, cell))
        except CellError:  # several cells of a damaged notebook have its id
            shown.append(unknown(cell))
        size += sum(len(shown[-1][key] or "") for key in ("before", "after", "now", "undone"))
        if size > _CHARACTERS:
            break
    return shown


def _diff(parts: Parts, document: Document, path: str, cell: CellEntry) -> dict[str, Any]:
    changes = parts.about(cell.cell_id)

    def called(cell_id: str) -> str:
        index = place_of(cell_id, document)
        return "a cell that is gone" if index is None else name_of(document.source(index), index)

    has = not isinstance(document, Notebook) or document.has(cell.cell_id)
    now_text = document.source(document.find(cell.cell_id)) if has else None
    texts = [change for change in changes if change.texts()]
    before, after = _before(texts, now_text), _after(texts, now_text)
    undone, conflict = None, False
    if changes and cell.review == "open":
        plan = plan_undo(document, parts.of(cell.cell_id), True, parts.later, parts.log.name)
        conflict = bool(plan.conflicts)
        gone = cell.cell_id in plan.removed
        undone = None if gone else plan.sources.get(cell.cell_id, now_text)
        plan.actions.clear()  # they hold the document
    return {
        **_shown(cell),
        "language": _language(document, path, cell.cell_id),
        "before": before,
        "after": after,
        "now": now_text,
        "undone": undone,
        "conflict": conflict,
        "conflict_text": (
            {"base": after, "theirs": now_text or "", "yours": before} if conflict else None
        ),
        "notes": [note for change in changes if (note := change.note(called)) is not None],
    }


def _shown(cell: CellEntry) -> dict[str, Any]:
    return {
        "cell_id": cell.cell_id,
        "name": cell.name,
        "changes": list(cell.changes),
        "review": cell.review,
    }


def unknown(cell: CellEntry) -> dict[str, Any]:
    """A cell of which nothing is known any more but what the list says."""
    return {
        **_shown(cell),
        "language": "text",
        "before": "",
        "after": "",
        "now": None,
        "undone": None,
        "conflict": False,
        "conflict_text": None,
        "notes": ["what it was is not known any more"],
    }


def _before(changes: Sequence[Change], now_text: str | None) -> str:
    """What a cell said before a call."""
    if not changes:
        return now_text or ""
    first = changes[0]
    return "" if first.exists_after is True else next(iter(first.texts()))


def _after(changes: Sequence[Change], now_text: str | None) -> str:
    """What a cell said after a call."""
    if not changes:
        return now_text or ""
    last = changes[-1]
    return "" if last.exists_after is False else [*last.texts()][-1]


def _language(document: Document, path: str, cell_id: str) -> str:
    if not isinstance(document, Notebook):
        return name_by_ending(path) or "text"
    code = language_in(document.notebook_metadata) or "python"
    if not document.has(cell_id):
        return code
    kind = document.cell_type(document.find(cell_id))
    return code if kind == "code" else str(kind)
