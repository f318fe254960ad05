"""Doing again what a server has lost: edits that it had, and had not saved when it went down.

A Jupyter server that crashes forgets what it has not saved, and says so to nobody. Where it came
back with an earlier state, it is given the same characters again: tabs that people left open bring
those back too, and new ones would stand beside them. Where it took over the file instead, what is
missing is found by comparing texts, so that nothing is done twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pycrdt import Doc

from ..backends.updates import decode_state, encode_state
from ..documents.differ import edits
from ..documents.merge import revert
from ..documents.notebook import CellType, Notebook
from ..documents.text_document import Document
from .undo import (
    Change,
    Deleted,
    Inserted,
    MetadataChanged,
    Moved,
    OutputsCleared,
    SourceChanged,
    Step,
    TypeChanged,
    named,
)


@dataclass(slots=True)
class Redone:
    """What became of the edits that a server had not saved."""

    cells: list[str] = field(default_factory=list)
    """Where something was done again."""
    lost: list[str] = field(default_factory=list)
    """What could not be, in words."""

    def __str__(self) -> str:
        said = []
        if self.cells:
            places = ", ".join(map(named, self.cells))
            said.append(f"edits that it had lost were made again in {places}")
        if self.lost:
            said.append(f"these could not be: {'; '.join(dict.fromkeys(self.lost))}")
        return ", and ".join(said)


def reapply(
    notebook: Document, before: Document, steps: Sequence[Step], authors: Collection[int]
) -> Redone:
    """Do again what a room lacks of some steps.

    Args:
        notebook: As it is now.
        before: As it was when the room went away.
        steps: What may be missing, oldest first.
        authors: The clients that made them.
    """
    if _is_past(notebook, before):
        everybody = decode_state(before.doc.get_state())
        for writers in (authors, everybody):  # the authors' may stand on what others wrote
            given = _original(notebook, before, writers)
            if given is not None and _is_between(given.merged, notebook, before):
                return Redone(_give_back(notebook, given))
    wanted = _compare(notebook, before, steps)
    if wanted.cells:
        given = _original(notebook, before, authors)
        if given is not None and _changes_only(wanted.cells, given.merged, notebook, before):
            _give_back(notebook, given)
        with notebook.doc.transaction(origin=REAPPLY):
            wanted.make(notebook, before)
    return Redone(wanted.cells, wanted.lost)


#: The origin of these transactions.
REAPPLY = "reapply"


# -- the same characters ---------------------------------------------------------------------


class _Given(NamedTuple):
    """What authors wrote that a room lacks, exactly as they wrote it."""

    update: bytes
    merged: Document
    """As it would be with that."""


def _original(notebook: Document, before: Document, authors: Collection[int]) -> _Given | None:
    """None if what it stands on is not there, because the room has begun another history."""
    clocks, known = decode_state(before.doc.get_state()), decode_state(notebook.doc.get_state())
    since = {c: known.get(c, 0) if c in authors else clock for c, clock in clocks.items()}
    update = before.doc.get_update(encode_state(since))
    merged = _merged(notebook, update)
    reached = decode_state(merged.doc.get_state())
    whole = all(reached.get(client, 0) >= clocks.get(client, 0) for client in authors)
    return _Given(update, merged) if whole else None


def _is_past(notebook: Document, before: Document) -> bool:
    """Whether nothing is in it that was not there before."""
    merged = _merged(before, notebook.doc.get_update())
    return merged.ids == before.ids and _contents(merged) == _contents(before)


def _is_between(merged: Document, notebook: Document, before: Document) -> bool:
    """Whether each cell is as it is, or as it was."""
    now, then, with_it = _sources(notebook), _sources(before), _sources(merged)
    return now.keys() & then.keys() <= with_it.keys() and all(
        source in (now.get(cell_id), then.get(cell_id)) for cell_id, source in with_it.items()
    )


def _changes_only(
    cells: Collection[str], merged: Document, notebook: Document, before: Document
) -> bool:
    """Whether no other cell changes, and what comes comes where it was, once."""
    now, with_it = _sources(notebook), _sources(merged)
    others = [cell_id for cell_id in now.keys() | with_it.keys() if cell_id not in cells]
    order = [cell_id for cell_id in merged.ids if before.has(cell_id)]
    return all(now.get(cell_id) == with_it.get(cell_id) for cell_id in others) and order == [
        cell_id for cell_id in before.ids if merged.has(cell_id)
    ]


def _give_back(notebook: Document, given: _Given) -> list[str]:
    """Returns the cells that it changed."""
    then = _contents(notebook)
    with notebook.doc.transaction(origin=REAPPLY):
        notebook.doc.apply_update(given.update)
    now = _contents(notebook)
    return [cell_id for cell_id in {**then, **now} if then.get(cell_id) != now.get(cell_id)]


def _merged(document: Document, update: bytes) -> Document:
    merged: Doc[Any] = Doc()
    merged.apply_update(document.doc.get_update())
    # "block parent": something else is where it should stand.
    with contextlib.suppress(RuntimeError):
        merged.apply_update(update)
    return type(document)(merged)


def _sources(notebook: Document) -> dict[str, str]:
    return {cell_id: notebook.source(index) for index, cell_id in enumerate(notebook.ids)}


def _contents(notebook: Document) -> dict[str, tuple[Any, ...]]:
    return {
        cell_id: (notebook.cell_type(n), notebook.source(n), notebook.metadata(n))
        for n, cell_id in enumerate(notebook.ids)
    }


# -- the same text ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Wanted:
    """What the cells should be that some steps have changed."""

    cells: list[str] = field(default_factory=list)
    """Those that are not."""
    lost: list[str] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def make(self, notebook: Document, before: Document) -> None:
        """The caller has a transaction."""
        if isinstance(notebook, Notebook) and isinstance(before, Notebook):
            self._make_cells(notebook, before)
        for cell_id, source in self.sources.items():
            notebook.set_source(notebook.find(cell_id), source)
        if isinstance(notebook, Notebook):
            self._make_kinds(notebook)

    def _make_cells(self, notebook: Notebook, before: Notebook) -> None:
        for cell_id in self.cells:
            if not before.has(cell_id) and notebook.has(cell_id):
                notebook.delete([notebook.find(cell_id)])
            elif before.has(cell_id) and not notebook.has(cell_id):
                value = before.value(before.find(cell_id))
                notebook.insert(_place(notebook, before, cell_id), [value])

    def _make_kinds(self, notebook: Notebook) -> None:
        for cell_id, values in self.metadata.items():
            notebook.set_metadata(notebook.find(cell_id), values)
        for cell_id, cell_type in self.types.items():
            index = notebook.find(cell_id)
            if notebook.cell_type(index) != cell_type:
                notebook.set_type(index, cast("CellType", cell_type))


def _compare(notebook: Document, before: Document, steps: Sequence[Step]) -> _Wanted:
    wanted = _Wanted()
    for cell_id, made in by_cell(steps).items():
        # Taking back an insertion deletes, and the other way round: only the outcome counts.
        came_or_went = any(isinstance(change, Inserted | Deleted) for change in made)
        is_there, was_there = notebook.has(cell_id), before.has(cell_id)
        if is_there and was_there:
            if _compare_cell(wanted, notebook, before, cell_id, made):
                wanted.cells.append(cell_id)
        elif was_there and not came_or_went:
            wanted.lost.append(f"{named(cell_id)} is gone")
        elif is_there and notebook.source(notebook.find(cell_id)) not in texts(made):
            wanted.lost.append(f"{named(cell_id)}, which was deleted, is back and was edited since")
        elif is_there or was_there:
            wanted.cells.append(cell_id)
    return wanted


def by_cell(steps: Sequence[Step]) -> dict[str, list[Change]]:
    """The changes of each cell, oldest first."""
    changes: dict[str, list[Change]] = {}
    for step in steps:
        for change in step.changes:
            if not isinstance(change, Moved | OutputsCleared):  # they lose nobody's work
                cell_id = change.value["id"] if isinstance(change, Deleted) else change.cell_id
                changes.setdefault(str(cell_id), []).append(change)
    return changes


def _compare_cell(
    wanted: _Wanted, notebook: Document, before: Document, cell_id: str, made: Sequence[Change]
) -> bool:
    """Look at a cell that is still there; says whether something is missing."""
    index, was = notebook.find(cell_id), before.find(cell_id)
    current = source = notebook.source(index)
    if current != before.source(was):
        changes = [change for change in made if isinstance(change, SourceChanged)]
        standing = [
            c for n, c in enumerate(changes) if not _is_superseded(changes, n, before.source(was))
        ]
        for change in lacking(standing, current):
            # Taking back "after to before" from a text without the change is making the change.
            again = revert(change.after, change.before, source)
            if again.clean:
                source = again.text
            else:
                wanted.lost.append(f"in {named(cell_id)} somebody wrote at the same place")
    wanted.sources[cell_id] = source
    now, then = notebook.metadata(index), before.metadata(was)
    keys = {key for change in made if isinstance(change, MetadataChanged) for key in change.after}
    values = {key: then.get(key) for key in keys if now.get(key) != then.get(key)}
    if values:
        wanted.metadata[cell_id] = values
    retyped = any(isinstance(change, TypeChanged) for change in made)
    if retyped and notebook.cell_type(index) != before.cell_type(was):
        wanted.types[cell_id] = before.cell_type(was)
    return source != current or cell_id in wanted.metadata or cell_id in wanted.types


def _is_superseded(changes: Sequence[SourceChanged], number: int, end: str) -> bool:
    """Whether somebody else has removed what a change wrote: then it is not to be made again.

    Args:
        changes: To one text, oldest first.
        number: Which of them.
        end: What the text said in the end.
    """
    change, later = changes[number], changes[number + 1 :]
    return any(
        not _is_spread_over(edit.text, end)
        and not any(edit.text in own.before and edit.text not in own.after for own in later)
        for edit in edits(change.before, change.after)
    )


def _is_spread_over(written: str, text: str) -> bool:
    """Whether all characters are there in their order, whatever others wrote in between."""
    characters = iter(text)
    return all(character in characters for character in written)


def lacking(changes: Sequence[SourceChanged], current: str) -> Sequence[SourceChanged]:
    """The changes that are not in a text. They came one after another, so these are the last."""
    for number in reversed(range(len(changes))):
        if current == changes[number].after:
            return changes[number + 1 :]
        if current == changes[number].before:
            return changes[number:]
    # It was never just like this: others wrote in it, too.
    for count in range(len(changes), 0, -1):
        if _are_in(changes[:count], current):
            return changes[count:]
    return changes


def _are_in(changes: Sequence[SourceChanged], current: str) -> bool:
    """Whether changes can be taken back from a text, the newest first."""
    for number, change in enumerate(reversed(changes)):
        without = revert(change.before, change.after, current)
        # Others may have written over all but the newest; but something of each has to be there.
        if without.text == current or not (without.clean or number):
            return False
        current = without.text
    return True


def texts(made: Sequence[Change]) -> set[str]:
    """All that a cell has said since the steps began."""
    texts: set[str] = set()
    for change in made:
        if isinstance(change, SourceChanged):
            texts |= {change.before, change.after}
        elif isinstance(change, Inserted):
            texts.add(change.source)
        elif isinstance(change, Deleted):
            texts.add(str(change.value["source"]))
    return texts


def _place(notebook: Document, before: Document, cell_id: str) -> int:
    """Behind the nearest cell that it was behind."""
    for previous in reversed(before.ids[: before.find(cell_id)]):
        if notebook.has(previous):
            return notebook.find(previous) + 1
    return 0
