"""Insertions, deletions and moves of cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ...documents.merge import revert
from ...documents.notebook import Notebook
from ...documents.protection import CellAction
from ...documents.shared_cells import new_cell
from ...documents.text_diff import unified
from ...documents.text_document import Document
from .change import Change, OverwrittenCell, UndoPlan, count_lines


@dataclass(frozen=True, slots=True)
class CellInsertion(Change):
    source: str
    cell_type: str = "code"
    follows: str | None = None
    """The id of the cell before it; None at the top."""
    cell: dict[str, Any] | None = None
    """The whole cell, if it came with more than its source."""

    kind = "insertion"
    verb = "inserted"
    aspect = "inserted"
    exists_after = True

    @property
    def size(self) -> int:
        return len(self.source) + (0 if self.cell is None else len(str(self.cell)))

    def texts(self) -> Collection[str]:
        return (self.source,)

    def line_counts(self) -> tuple[int, int]:
        return count_lines("", self.source)

    def plan_undo(self, plan: UndoPlan) -> None:
        if not plan.has(self.cell_id):
            return
        notebook, current = plan.notebook, plan.source(self.cell_id)
        if current != self.source:
            others = plan.others(self.cell_id)
            what = f"which {plan.wrote} inserted and {others} edited, stays"
            plan.conflict(self.cell_id, what, unified(self.source, current))
            reverted = revert("", self.source, current, plan.differ)
            if reverted.text != current:  # only what others wrote stays
                plan.sources[self.cell_id] = reverted.text
            return
        plan.removed.add(self.cell_id)
        plan.touch(self.cell_id, CellAction.DELETE)
        plan.actions.append(lambda: notebook.delete([notebook.find(self.cell_id)]))
        if notebook.has(self.cell_id):
            cell = notebook.value(notebook.find(self.cell_id))
            plan.changes.append(CellDeletion(self.cell_id, cell, self.follows))

    def replay(self, texts: dict[str, str], document: Document) -> None:
        texts[self.cell_id] = self.source

    def amount_in(self, lines: Counter[str] | None) -> int:
        return int(lines is not None)

    def insert_again(self, cell: OverwrittenCell) -> Iterable[Change]:
        value = self.cell or new_cell(self.cell_type, "")
        value = {**value, "source": cell.text_before, "id": self.cell_id}
        cell.notebook.insert(_behind(cell.notebook, self.follows), [value])
        cell.is_inserted = cell.is_changed = True
        yield replace(self, source=cell.text_before)


@dataclass(frozen=True, slots=True)
class CellDeletion(Change):
    cell: dict[str, Any]
    """The whole cell as it was."""
    follows: str | None
    """The id of the cell before it; None at the top."""

    kind = "deletion"
    verb = "deleted"
    aspect = "deleted"
    exists_after = False

    @property
    def size(self) -> int:
        return len(str(self.cell))

    def texts(self) -> Collection[str]:
        return (str(self.cell["source"]),)

    def line_counts(self) -> tuple[int, int]:
        return count_lines(str(self.cell["source"]), "")

    @property
    def gap_after(self) -> str | None:
        return self.follows

    def plan_undo(self, plan: UndoPlan) -> None:
        if plan.has(self.cell_id):
            return
        notebook, source = plan.notebook, str(self.cell["source"])
        plan.removed.discard(self.cell_id)
        plan.added[self.cell_id] = source
        plan.sources.setdefault(self.cell_id, source)
        plan.types[self.cell_id] = cell_type = str(self.cell["cell_type"])
        plan.actions.append(
            lambda: _discard(notebook.insert(_behind(notebook, self.follows), [self.cell]))
        )
        plan.changes.append(CellInsertion(self.cell_id, source, cell_type, self.follows))

    def replay(self, texts: dict[str, str], document: Document) -> None:
        texts.pop(self.cell_id, None)

    def amount_in(self, lines: Counter[str] | None) -> int:
        return int(lines is None)

    def delete_again(self, cell: OverwrittenCell, texts: Collection[str]) -> Iterable[Change]:
        notebook = cell.notebook
        if notebook.has(self.cell_id):
            index = notebook.find(self.cell_id)
            if notebook.source(index) not in texts:
                cell.report.report_edited_since(self.cell_id)
                return
            notebook.delete([index])
            cell.is_changed = True
        yield self


@dataclass(frozen=True, slots=True)
class CellMove(Change):
    follows: str | None
    """The id of the cell that it followed before; None at the top."""

    kind = "move"
    verb = "moved"
    aspect = "moved"
    is_work = False

    @property
    def size(self) -> int:
        return 0

    def note(self, called: Callable[[str], str]) -> str | None:
        where = "at the top" if self.follows is None else f"after {called(self.follows)}"
        return f"moved; it stood {where}"

    def plan_undo(self, plan: UndoPlan) -> None:
        if plan.has(self.cell_id):
            plan.touch(self.cell_id, CellAction.MOVE)
            plan.actions.append(lambda: self._move_back(plan.notebook))

    def _move_back(self, notebook: Notebook) -> None:
        notebook.move([notebook.find(self.cell_id)], _behind(notebook, self.follows))


def _behind(notebook: Notebook, follows: str | None) -> int:
    """The index after a cell; the end of the notebook if the cell is gone."""
    if follows is None:
        return 0
    return notebook.find(follows) + 1 if notebook.has(follows) else len(notebook)


def _discard(_value: object) -> None:
    return None
