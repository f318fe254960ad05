"""Taking back what an agent did, and nothing that anybody else did.

Every call of an agent leaves a step: the inverse of what it changed. Taking a step back is
planned on plain values first, so the preview is exact and costs nothing: the plan either is
what will happen, or it is refused with the diff.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..documents.cell_mirror import Parts
from ..documents.differ import WORK, Differ
from ..documents.handles import brief_id
from ..documents.merge import revert
from ..documents.notebook import Notebook
from ..documents.text_diff import unified
from ..documents.text_document import Document
from ..errors import NothingToUndo, UndoRefused

#: How much an agent can take back in one document: steps, and characters they may hold.
MAX_STEPS = 200
MAX_CHARACTERS = 20_000_000


@dataclass(frozen=True, slots=True)
class SourceChanged:
    cell_id: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class TypeChanged:
    cell_id: str
    before: dict[str, Any]
    """The whole cell, with the outputs that another type cannot hold."""
    after: str


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    cell_id: str
    before: dict[str, Any]
    """The keys that were set, with what they were; None where there was nothing."""
    after: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inserted:
    cell_id: str
    source: str
    cell_type: str = "code"
    follows: str | None = None
    """The id of the cell before it; None at the top."""


@dataclass(frozen=True, slots=True)
class Deleted:
    value: dict[str, Any]
    follows: str | None
    """The id of the cell before it; None at the top."""


@dataclass(frozen=True, slots=True)
class Moved:
    cell_id: str
    follows: str | None
    """Where it came from: behind this cell."""


@dataclass(frozen=True, slots=True)
class OutputsCleared:
    cell_id: str
    before: dict[str, Any]
    """The whole cell as it was."""


Change = SourceChanged | TypeChanged | MetadataChanged | Inserted | Deleted | Moved | OutputsCleared


#: What a change reads and writes of its cell. All others concern the whole of it.
_KEYS: dict[type, tuple[str, ...]] = {
    SourceChanged: ("source",),
    MetadataChanged: ("metadata",),
    OutputsCleared: ("outputs", "execution_count", "execution_state", "metadata"),
}


def cell_of(change: Change) -> str:
    """The id of the cell that a change is about."""
    return str(change.value["id"]) if isinstance(change, Deleted) else change.cell_id


def touched(changes: Iterable[Change]) -> Parts:
    """The parts of a document that changes are about."""
    parts: dict[str, set[str] | None] = {}
    for change in changes:
        cell_id, keys = cell_of(change), _KEYS.get(type(change))
        known = parts.setdefault(cell_id, set())
        if keys is None:
            parts[cell_id] = None
        elif known is not None:
            known.update(keys)
    return parts


@dataclass(frozen=True, slots=True)
class Step:
    """What one call changed, in the order in which it did."""

    version: int
    call: str
    changes: tuple[Change, ...]
    agent: str = ""
    """Whose call it was; empty if several agents' changes were reapplied in it."""

    @property
    def characters(self) -> int:
        total = 0
        for change in self.changes:
            if isinstance(change, SourceChanged):
                total += len(change.before) + len(change.after)
            elif isinstance(change, Deleted):
                total += len(str(change.value))
            elif isinstance(change, MetadataChanged):
                total += len(str(change.before)) + len(str(change.after))
            elif isinstance(change, TypeChanged | OutputsCleared):
                total += len(str(change.before))
            elif isinstance(change, Inserted):
                total += len(change.source)
        return total


class UndoLog:
    """The steps of one agent in one document, newest last."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self.characters = 0
        """Of all steps."""

    def __len__(self) -> int:
        return len(self._steps)

    def push(self, step: Step) -> None:
        self._steps.append(step)
        self.characters += step.characters
        while len(self._steps) > MAX_STEPS or (
            self.characters > MAX_CHARACTERS and len(self._steps) > 1
        ):
            self.characters -= self._steps.popleft().characters

    def last(self, count: int) -> list[Step]:
        """The latest steps, newest first."""
        return list(reversed(list(self._steps)[-count:])) if count else []

    def since(self, version: int) -> list[Step]:
        """The steps after a version, newest first."""
        return [step for step in reversed(self._steps) if step.version > version]

    def pop(self, count: int) -> None:
        for _ in range(count):
            self.characters -= self._steps.pop().characters


@dataclass(slots=True)
class Plan:
    """What taking steps back would do."""

    actions: list[Callable[[Any], None]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """The text that each touched cell would have."""
    types: dict[str, str] = field(default_factory=dict)
    """The type that each retyped cell would have."""
    removed: set[str] = field(default_factory=set)
    added: dict[str, str] = field(default_factory=dict)
    """What each cell that comes back said when it went."""
    conflicts: list[str] = field(default_factory=list)
    """One text for each place where somebody else's work is in the way."""
    notes: list[str] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """The same as changes, which a server may lose before it saves them."""
    differ: Differ = field(default_factory=lambda: Differ(3 * WORK))
    """For all of it: as much work as one cell may take, which is compared three times."""


def plan(document: Document, steps: Sequence[Step], force: bool) -> Plan:
    """Plan to take back steps, the newest first, without touching the document.

    Raises:
        NothingToUndo: There is no step.
        UndoRefused: Somebody else's text is in the way, and `force` is not set.
    """
    if not steps:
        raise NothingToUndo(
            "There is no change of yours to take back here.",
            "Nothing to do; changes from before a restart of the server cannot be taken back.",
        )
    made = Plan()
    for step in steps:
        for change in reversed(step.changes):
            _PLANNERS[type(change)](made, document, change)
    for cell_id, source in made.sources.items():
        if cell_id not in made.removed:
            made.actions.append(_set_source(cell_id, source, made.differ))
            before = made.added.get(cell_id)
            if before is None:
                before = document.source(document.find(cell_id))
            if before != source:
                made.changes.append(SourceChanged(cell_id, before, source))
    if made.conflicts and not force:
        raise UndoRefused(
            "Taking this back would remove or tear apart what others wrote; nothing was changed.\n"
            + "\n".join(made.conflicts),
            "Leave it, edit by hand, or repeat with force=true: "
            "that keeps every character of the others and drops yours around them.",
        )
    return made


def named(cell_id: str) -> str:
    """A cell in a sentence; the text of a file has no id."""
    return f"cell {brief_id(cell_id)}" if cell_id else "the text"


def _plan_source(made: Plan, document: Document, change: Any) -> None:
    if not _exists(made, document, change.cell_id):
        made.notes.append(f"{named(change.cell_id)} is gone")
        return
    current = _current(made, document, change.cell_id)
    reverted = revert(change.before, change.after, current, made.differ)
    if not reverted.clean:
        made.conflicts.append(
            f"{named(change.cell_id)}, where others changed what you wrote:\n"
            + unified(current, reverted.text)
        )
    made.sources[change.cell_id] = reverted.text


def _plan_type(made: Plan, notebook: Notebook, change: Any) -> None:
    if not _exists(made, notebook, change.cell_id):
        made.notes.append(f"{named(change.cell_id)} is gone")
        return
    current = made.types.get(change.cell_id)
    if current is None:
        current = notebook.cell_type(notebook.find(change.cell_id))
    if current != change.after:
        made.notes.append(f"{named(change.cell_id)} has been given another type since")
        return
    made.types[change.cell_id] = before = str(change.before["cell_type"])
    made.actions.append(_set_type(change.cell_id, change.before))
    made.changes.append(TypeChanged(change.cell_id, {"cell_type": change.after}, before))


def _plan_metadata(made: Plan, notebook: Notebook, change: Any) -> None:
    if not _exists(made, notebook, change.cell_id):
        made.notes.append(f"{named(change.cell_id)} is gone")
        return
    made.actions.append(_set_metadata(change.cell_id, change.before, change.after))
    made.changes.append(MetadataChanged(change.cell_id, change.after, change.before))


def _plan_inserted(made: Plan, notebook: Notebook, change: Any) -> None:
    if not _exists(made, notebook, change.cell_id):
        return
    current = _current(made, notebook, change.cell_id)
    if current != change.source:
        made.conflicts.append(
            f"{named(change.cell_id)}, which you inserted and others edited, stays:\n"
            + unified(change.source, current)
        )
        return
    made.removed.add(change.cell_id)
    made.actions.append(_delete(change.cell_id))
    if notebook.has(change.cell_id):
        made.changes.append(Deleted(notebook.value(notebook.find(change.cell_id)), change.follows))


def _plan_deleted(made: Plan, notebook: Notebook, change: Any) -> None:
    cell_id = str(change.value["id"])
    if _exists(made, notebook, cell_id):
        return
    made.removed.discard(cell_id)
    made.added[cell_id] = source = str(change.value["source"])
    made.sources.setdefault(cell_id, source)
    made.types[cell_id] = str(change.value["cell_type"])
    made.actions.append(_insert(change.value, change.follows))
    made.changes.append(Inserted(cell_id, source, made.types[cell_id], change.follows))


def _plan_moved(made: Plan, notebook: Notebook, change: Any) -> None:
    if _exists(made, notebook, change.cell_id):
        made.actions.append(_move(change.cell_id, change.follows))


def _plan_outputs(made: Plan, notebook: Notebook, change: Any) -> None:
    if not _exists(made, notebook, change.cell_id) or not notebook.has(change.cell_id):
        return
    if not notebook.never_run(notebook.find(change.cell_id)):
        made.notes.append(f"{named(change.cell_id)} has been run since")
        return
    made.actions.append(_set_outputs(change.cell_id, change.before))


_PLANNERS: dict[type, Callable[[Plan, Any, Any], None]] = {
    SourceChanged: _plan_source,
    TypeChanged: _plan_type,
    MetadataChanged: _plan_metadata,
    Inserted: _plan_inserted,
    Deleted: _plan_deleted,
    Moved: _plan_moved,
    OutputsCleared: _plan_outputs,
}


def _exists(made: Plan, notebook: Document, cell_id: str) -> bool:
    if cell_id in made.removed:
        return False
    return cell_id in made.added or notebook.has(cell_id)


def _current(made: Plan, notebook: Document, cell_id: str) -> str:
    if cell_id in made.sources:
        return made.sources[cell_id]
    return notebook.source(notebook.find(cell_id))


# The actions find their cell when they run: those before them may have moved it.


def _set_source(cell_id: str, source: str, differ: Differ) -> Callable[[Document], None]:
    return lambda document: _discard(document.set_source(document.find(cell_id), source, differ))


def _set_type(cell_id: str, before: dict[str, Any]) -> Callable[[Notebook], None]:
    def act(notebook: Notebook) -> None:
        index = notebook.find(cell_id)
        value = {**before, "source": notebook.source(index), "metadata": notebook.metadata(index)}
        notebook.replace(index, value)

    return act


def _set_metadata(
    cell_id: str, before: dict[str, Any], after: dict[str, Any]
) -> Callable[[Notebook], None]:
    def act(notebook: Notebook) -> None:
        index = notebook.find(cell_id)
        now = notebook.metadata(index)
        ours = {key: before[key] for key, value in after.items() if now.get(key) == value}
        notebook.set_metadata(index, ours)

    return act


def _set_outputs(cell_id: str, before: dict[str, Any]) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.restore_outputs(notebook.find(cell_id), before)


def _delete(cell_id: str) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.delete([notebook.find(cell_id)])


def _insert(value: dict[str, Any], follows: str | None) -> Callable[[Notebook], None]:
    return lambda notebook: _discard(notebook.insert(_behind(notebook, follows), [value]))


def _move(cell_id: str, follows: str | None) -> Callable[[Notebook], None]:
    return lambda notebook: notebook.move([notebook.find(cell_id)], _behind(notebook, follows))


def _behind(notebook: Notebook, follows: str | None) -> int:
    if follows is None:
        return 0
    return notebook.find(follows) + 1 if notebook.has(follows) else len(notebook)


def _discard(_value: object) -> None:
    return None
