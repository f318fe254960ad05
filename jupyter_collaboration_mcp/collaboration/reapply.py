"""Doing again what a server has lost: edits that it had, and had not saved when it went down.

A Jupyter server that crashes forgets what it has not saved, and says so to nobody. Each change is
looked for first, so that nothing is done twice where it is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..documents.merge import revert
from ..documents.notebook import CellType, Notebook, new_cell
from .undo import Deleted, Inserted, MetadataChanged, SourceChanged, Step, TypeChanged


@dataclass(slots=True)
class Reapplied:
    """What became of the edits that a server had not saved."""

    cells: list[str] = field(default_factory=list)
    """Where something was done again."""
    lost: list[str] = field(default_factory=list)
    """What could not be, in words."""

    def __str__(self) -> str:
        said = []
        if self.cells:
            said.append(f"edits that it had lost were made again in {', '.join(self.cells)}")
        if self.lost:
            said.append(f"these could not be: {'; '.join(self.lost)}")
        return f"The Jupyter server was restarted: {', and '.join(said)}." if said else ""


def reapply(notebook: Notebook, steps: Sequence[Step]) -> Reapplied:
    """Do steps again, oldest first, as far as they are missing. The caller has a transaction."""
    done = Reapplied()
    for step in steps:
        for change in step.changes:
            again = _AGAIN.get(type(change))
            if again is not None:
                again(notebook, change, done)
    done.cells = list(dict.fromkeys(done.cells))
    return done


def _source(notebook: Notebook, change: Any, done: Reapplied) -> None:
    if not notebook.has(change.cell_id):
        done.lost.append(f"the cell {change.cell_id} is gone")
        return
    index = notebook.find(change.cell_id)
    current = notebook.source(index)
    if current == change.after or _is_there(change, current):
        return
    # Taking back "after to before" from a text without the change is making the change.
    wanted = revert(change.after, change.before, current)
    if not wanted.clean:
        done.lost.append(f"in cell {change.cell_id} somebody wrote at the same place")
        return
    notebook.set_source(index, wanted.text)
    done.cells.append(change.cell_id)


def _is_there(change: SourceChanged, current: str) -> bool:
    without = revert(change.before, change.after, current)
    return without.clean and without.text != current


def _inserted(notebook: Notebook, change: Any, done: Reapplied) -> None:
    if notebook.has(change.cell_id):
        return
    follows = change.follows
    place = notebook.find(follows) + 1 if follows and notebook.has(follows) else 0
    if follows is not None and not notebook.has(follows):
        place = len(notebook)
    cell = {**new_cell(change.cell_type, change.source), "id": change.cell_id}
    notebook.insert(place, [cell])
    done.cells.append(change.cell_id)


def _deleted(notebook: Notebook, change: Any, done: Reapplied) -> None:
    cell_id = str(change.value["id"])
    if not notebook.has(cell_id):
        return
    index = notebook.find(cell_id)
    if notebook.source(index) != change.value["source"]:
        done.lost.append(f"the cell {cell_id}, which was deleted, is back and was edited since")
        return
    notebook.delete([index])
    done.cells.append(cell_id)


def _metadata(notebook: Notebook, change: Any, done: Reapplied) -> None:
    if notebook.has(change.cell_id):
        index = notebook.find(change.cell_id)
        now = notebook.metadata(index)
        missing = {key: value for key, value in change.after.items() if now.get(key) != value}
        if missing:
            notebook.set_metadata(index, missing)
            done.cells.append(change.cell_id)


def _type(notebook: Notebook, change: Any, done: Reapplied) -> None:
    if notebook.has(change.cell_id):
        index = notebook.find(change.cell_id)
        if notebook.cell_type(index) != change.after:
            notebook.set_type(index, cast("CellType", change.after))
            done.cells.append(change.cell_id)


#: Moves and cleared outputs are not among them: they lose nobody's work.
_AGAIN: dict[type, Callable[[Notebook, Any, Reapplied], None]] = {
    SourceChanged: _source,
    Inserted: _inserted,
    Deleted: _deleted,
    MetadataChanged: _metadata,
    TypeChanged: _type,
}
