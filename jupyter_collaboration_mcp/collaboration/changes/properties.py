"""Changes of a cell's type, metadata, outputs and attachments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from ...documents.notebook import CellType, Notebook
from ...documents.protection import CellAction, metadata_actions
from .change import Change, OverwrittenCell, RestartedCell, UndoPlan, cell_name


@dataclass(frozen=True, slots=True)
class TypeChange(Change):
    before: dict[str, Any]
    """The whole cell, with the outputs that another type cannot hold."""
    after: str

    kind = "type"
    verb = "changed the type of"
    aspect = "type"

    @property
    def size(self) -> int:
        return len(str(self.before))

    def note(self, called: Callable[[str], str]) -> str | None:
        return f"type {self.before['cell_type']} → {self.after}"

    def plan_undo(self, plan: UndoPlan) -> None:
        if not plan.requires(self.cell_id):
            return
        notebook, current = plan.notebook, plan.types.get(self.cell_id)
        if current is None:
            current = notebook.cell_type(notebook.find(self.cell_id))
        if current != self.after:
            plan.notes.append(f"{cell_name(self.cell_id)} has been given another type since")
            return
        plan.types[self.cell_id] = before = str(self.before["cell_type"])
        plan.touch(self.cell_id, CellAction.RETYPE)
        plan.actions.append(lambda: self._restore(notebook))
        plan.changes.append(TypeChange(self.cell_id, {"cell_type": self.after}, before))

    def _restore(self, notebook: Notebook) -> None:
        index = notebook.find(self.cell_id)
        now = {"source": notebook.source(index), "metadata": notebook.metadata(index)}
        notebook.replace(index, {**self.before, **now})

    @classmethod
    def compare(cls, changes: Sequence[Self], cell: RestartedCell) -> Iterable[Callable[[], None]]:
        missing = cls._missing(changes, cell.document.cell_type(cell.index))
        if missing is not None and missing == cell.before.cell_type(cell.index_before):
            yield lambda: _set_type(cell.notebook, cell.index, missing)

    @classmethod
    def reapply(cls, changes: Sequence[Self], cell: OverwrittenCell) -> Iterable[Change]:
        missing = cls._missing(changes, cell.notebook.cell_type(cell.index))
        if missing is not None:
            _set_type(cell.notebook, cell.index, missing)
            cell.is_changed = True
        return changes

    @staticmethod
    def _missing(changes: Sequence[TypeChange], current: str) -> str | None:
        """The type that a cell lacks, if it has one again that it had before.

        None if it has the type that it was given, or one that somebody else gave it since.
        """
        wanted = changes[-1].after
        known = {str(change.before["cell_type"]) for change in changes}
        return wanted if current != wanted and current in known else None


def _set_type(notebook: Notebook, index: int, cell_type: str) -> None:
    if notebook.cell_type(index) != cell_type:
        notebook.set_type(index, cast("CellType", cell_type))


@dataclass(frozen=True, slots=True)
class MetadataChange(Change):
    before: dict[str, Any]
    """The previous values of the keys that were set; None for keys that did not exist."""
    after: dict[str, Any]

    kind = "metadata"
    verb = "changed the metadata of"
    aspect = "metadata"
    keys = ("metadata",)

    @property
    def size(self) -> int:
        return len(str(self.before)) + len(str(self.after))

    def note(self, called: Callable[[str], str]) -> str | None:
        return f"metadata: {', '.join(self.after)}"

    def plan_undo(self, plan: UndoPlan) -> None:
        if not plan.requires(self.cell_id):
            return
        notebook = plan.notebook
        if notebook.has(self.cell_id):
            now = plan.metadata.get(self.cell_id)
            if now is None:
                now = notebook.metadata(notebook.find(self.cell_id))
            restored = self._own(now)
            plan.touch(self.cell_id, *metadata_actions(now, restored))
            plan.metadata[self.cell_id] = {**now, **restored}
        plan.actions.append(lambda: self._restore(notebook))
        plan.changes.append(MetadataChange(self.cell_id, self.after, self.before))

    def _own(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """The keys that still have what it gave them, with their previous values."""
        return {key: self.before[key] for key, value in self.after.items() if now.get(key) == value}

    def _restore(self, notebook: Notebook) -> None:
        index = notebook.find(self.cell_id)
        notebook.set_metadata(index, self._own(notebook.metadata(index)))

    @classmethod
    def compare(cls, changes: Sequence[Self], cell: RestartedCell) -> Iterable[Callable[[], None]]:
        then = cell.before.metadata(cell.index_before)
        missing = cls._missing(changes, cell.document.metadata(cell.index))
        if wanted := {key: value for key, value in missing.items() if then.get(key) == value}:
            yield lambda: cell.notebook.set_metadata(cell.index, wanted)

    @classmethod
    def reapply(cls, changes: Sequence[Self], cell: OverwrittenCell) -> Iterable[Change]:
        if missing := cls._missing(changes, cell.notebook.metadata(cell.index)):
            cell.notebook.set_metadata(cell.index, missing)
            cell.is_changed = True
        return changes

    @staticmethod
    def _missing(changes: Sequence[MetadataChange], current: Mapping[str, Any]) -> dict[str, Any]:
        """The keys that have their old values again, with the values that they should have."""
        wanted: dict[str, Any] = {}
        known: dict[str, list[Any]] = {}
        for change in changes:
            wanted |= change.after
            for key, value in change.before.items():
                known.setdefault(key, []).append(value)
        return {
            key: value
            for key, value in wanted.items()
            if current.get(key) != value and current.get(key) in known[key]
        }


@dataclass(frozen=True, slots=True)
class OutputClearing(Change):
    before: dict[str, Any]
    """The whole cell as it was."""

    kind = "clearing"
    verb = "cleared the outputs of"
    aspect = "outputs"
    keys = ("outputs", "execution_count", "execution_state", "metadata")
    is_work = False

    @property
    def size(self) -> int:
        return len(str(self.before))

    def note(self, called: Callable[[str], str]) -> str | None:
        return "outputs cleared"

    def plan_undo(self, plan: UndoPlan) -> None:
        notebook = plan.notebook
        if not plan.has(self.cell_id) or not notebook.has(self.cell_id):
            return
        if not notebook.never_run(notebook.find(self.cell_id)):
            plan.notes.append(f"{cell_name(self.cell_id)} has been run since")
            return
        plan.touch(self.cell_id, CellAction.CLEAR)
        plan.actions.append(
            lambda: notebook.restore_outputs(notebook.find(self.cell_id), self.before)
        )


@dataclass(frozen=True, slots=True)
class ExtrasChange(Change):
    """A change of what a cell holds beside its source: outputs, execution count, attachments."""

    before: dict[str, Any]
    """The previous values of the keys that were set; None for keys that did not exist."""
    after: dict[str, Any]

    kind = "extras"
    verb = "changed the outputs of"
    aspect = "outputs"
    keys = ("outputs", "execution_count", "execution_state", "attachments")
    is_work = False

    @property
    def size(self) -> int:
        return len(str(self.before)) + len(str(self.after))

    def note(self, called: Callable[[str], str]) -> str | None:
        return "outputs changed"

    def plan_undo(self, plan: UndoPlan) -> None:
        notebook = plan.notebook
        if not plan.has(self.cell_id) or not notebook.has(self.cell_id):
            return
        now = plan.extras.setdefault(self.cell_id, {})
        unknown = [key for key in self.after if key not in now]
        now |= notebook.extras(notebook.find(self.cell_id), unknown)
        if any(now[key] != value for key, value in self.after.items()):
            plan.notes.append(f"{cell_name(self.cell_id)} has been run since")
            return
        now |= self.before
        plan.touch(self.cell_id, CellAction.CLEAR)
        plan.actions.append(lambda: notebook.set_extras(notebook.find(self.cell_id), self.before))
        plan.changes.append(ExtrasChange(self.cell_id, self.after, self.before))
