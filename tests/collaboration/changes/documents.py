"""Small documents, and what changes are handed, for tests of single changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pycrdt import Doc, Text

from jupyter_collaboration_mcp.collaboration.changes.change import (
    Change,
    OverwrittenCell,
    ReapplyReport,
    RestartedCell,
    UndoPlan,
)
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.documents.text_document import Document, TextDocument


def notebook(*cells: str | Mapping[str, Any]) -> Notebook:
    """Cells `a`, `b`, `c`, ...; a text is the source of a code cell."""
    made = Notebook(Doc())
    with made.doc.transaction():
        for number, cell in enumerate(cells):
            given = {"source": cell} if isinstance(cell, str) else cell
            value = {**new_cell("code", ""), "id": "abcdefgh"[number], **given}
            made.insert(number, [value])
    return made


def text_file(content: str) -> TextDocument:
    made = TextDocument(Doc())
    shared: Text = made.doc.get("source", type=Text)
    shared += content
    return made


def sources(document: Document) -> dict[str, str]:
    return {cell_id: document.source(n) for n, cell_id in enumerate(document.ids)}


def planned(document: Document, *changes: Change) -> UndoPlan:
    """A plan to undo changes, the last one first."""
    plan = UndoPlan(document)
    for change in reversed(changes):
        change.plan_undo(plan)
    return plan


def undone(document: Document, *changes: Change) -> UndoPlan:
    """The same, after it was done."""
    plan = planned(document, *changes)
    with document.doc.transaction():
        plan.apply()
    return plan


def restarted(now: Document, before: Document, changes: Sequence[Change]) -> RestartedCell:
    """A cell after a restart, with what it lacks of changes of one kind."""
    cell = RestartedCell(changes[0].cell_id, now, before, ReapplyReport())
    cell.repairs += type(changes[0]).compare(changes, cell)
    return cell


def repaired(now: Document, before: Document, changes: Sequence[Change]) -> RestartedCell:
    """The same, after it was given that."""
    cell = restarted(now, before, changes)
    with now.doc.transaction():
        cell.repair()
    return cell


def overwritten(
    document: Document, text_before: str, changes: Sequence[Change], **given: Any
) -> tuple[OverwrittenCell, list[Change]]:
    """A cell that a file has overwritten, after changes of one kind were reapplied in it."""
    cell = OverwrittenCell(changes[0].cell_id, document, text_before, ReapplyReport(), **given)
    with document.doc.transaction():
        left = list(type(changes[0]).reapply(changes, cell))
    return cell, left
