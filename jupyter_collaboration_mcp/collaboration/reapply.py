"""Reapply what a server has lost: edits that it had, and had not saved when it went down.

A Jupyter server that crashes forgets what it has not saved, and says so to nobody. Where it came
back with an earlier state, it is given the same characters again: tabs that people left open bring
those back too, and new ones would stand beside them. Where it took over the file instead, what is
missing is found by comparing texts, so that nothing is done twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from pycrdt import Doc

from ..documents.differ import edits
from ..documents.foreign_text import first_of, listed
from ..documents.notebook import CellType, Notebook
from ..documents.text_document import Document
from ..documents.updates import decode_state, encode_state
from .own_edits import reapplied
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
    cell_of,
    named,
)


@dataclass(slots=True)
class Redone:
    """What became of the edits that a server had not saved."""

    cells: list[str] = field(default_factory=list)
    """Where something was reapplied."""
    lost: list[str] = field(default_factory=list)
    """What could not be reapplied, in words."""

    @classmethod
    def failed(cls, steps: Sequence[Step]) -> Redone:
        """Of an internal error in the middle of it: nothing was reapplied."""
        cells = listed([named(cell_id) for cell_id in by_cell(steps)])
        return cls(lost=[f"edits in {cells}, because of an internal error"])

    def __str__(self) -> str:
        said = []
        if self.cells:
            places = ", ".join(first_of(map(named, self.cells)))
            said.append(f"lost edits were reapplied in {places}")
        if self.lost:
            said.append(
                f"these could not be reapplied: {'; '.join(first_of(dict.fromkeys(self.lost)))}"
            )
        return ", and ".join(said)


def reapply(
    notebook: Document,
    before: Document,
    steps: Sequence[Step],
    authors: Collection[int],
    transaction: Callable[[str], AbstractContextManager[None]],
) -> Redone:
    """Reapply what a room lacks of some steps.

    Args:
        notebook: As it is now.
        before: As it was when the room went away.
        steps: What may be missing, oldest first.
        authors: The clients that made them.
        transaction: Begins one in the document, with an origin.
    """
    if _is_past(notebook, before):
        everybody = decode_state(before.doc.get_state())
        for writers in (authors, everybody):  # the authors' may stand on what others wrote
            given = _original(notebook, before, writers)
            if given is not None and _is_between(given.merged, notebook, before):
                return Redone(_give_back(notebook, given, transaction))
    wanted = _compare(notebook, before, steps)
    if wanted.cells:
        given = _original(notebook, before, authors)
        if given is not None and _changes_only(wanted.cells, given.merged, notebook, before):
            _give_back(notebook, given, transaction)
        with transaction(REAPPLY):
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


def _give_back(
    notebook: Document, given: _Given, transaction: Callable[[str], AbstractContextManager[None]]
) -> list[str]:
    """Returns the cells that it changed."""
    then = _contents(notebook)
    with transaction(REAPPLY):
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
    lacking = by_cell(steps[_kept(notebook, before, steps) :])
    for cell_id, made in by_cell(steps).items():
        if cell_id not in lacking:
            continue  # what it has not any more somebody has removed since
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


def _kept(notebook: Document, before: Document, steps: Sequence[Step]) -> int:
    """How many steps the room surely has, counted from the oldest.

    It got them one after another, and a file or a store holds the first of them or all. So it has
    all that came before one that it has.
    """
    kept = 0
    known: dict[str, list[Change]] = {}
    for number, step in enumerate(steps, 1):
        for cell_id, made in by_cell([step]).items():
            earlier = known.setdefault(cell_id, [])
            if notebook.has(cell_id) and before.has(cell_id):
                end = before.source(before.find(cell_id))
                same = notebook.source(notebook.find(cell_id)) == end
                is_new = not earlier and isinstance(made[0], Inserted)
                if is_new or (same and _has_new(end, made, texts(earlier))):
                    kept = number
            earlier += made
    return kept


def _has_new(text: str, made: Sequence[Change], earlier: Collection[str]) -> bool:
    """Whether a text has something that changes have written and that was not there earlier."""
    return any(
        edit.text.strip()
        and edit.text in text
        and not any(edit.text in other for other in (change.before, *earlier))
        for change in made
        if isinstance(change, SourceChanged)
        for edit in edits(change.before, change.after)
    )


def by_cell(steps: Sequence[Step]) -> dict[str, list[Change]]:
    """The changes of each cell, oldest first."""
    changes: dict[str, list[Change]] = {}
    for step in steps:
        for change in step.changes:
            if not isinstance(change, Moved | OutputsCleared):  # they lose nobody's work
                changes.setdefault(cell_of(change), []).append(change)
    return changes


def _compare_cell(
    wanted: _Wanted, notebook: Document, before: Document, cell_id: str, made: Sequence[Change]
) -> bool:
    """Look at a cell that is still there; says whether something is missing."""
    index, was = notebook.find(cell_id), before.find(cell_id)
    current = source = notebook.source(index)
    changes = [change for change in made if isinstance(change, SourceChanged)]
    if changes:
        result = reapplied(changes, before.source(was), current)
        source = result.text
        if result.clash:
            wanted.lost.append(f"in {named(cell_id)} somebody wrote at the same place")
    wanted.sources[cell_id] = source
    then = before.metadata(was)
    values = lost_metadata(made, notebook.metadata(index))
    if values := {key: value for key, value in values.items() if then.get(key) == value}:
        wanted.metadata[cell_id] = values
    if (cell_type := lost_type(made, notebook.cell_type(index))) == before.cell_type(was):
        wanted.types[cell_id] = cell_type
    return source != current or cell_id in wanted.metadata or cell_id in wanted.types


def lost_type(made: Sequence[Change], current: str) -> str | None:
    """The type that a cell lacks: it is of one again that it was of before.

    None if it has what it was given, or what somebody else gave it since.
    """
    changes = [change for change in made if isinstance(change, TypeChanged)]
    if not changes or current == changes[-1].after:
        return None
    known = {str(change.before["cell_type"]) for change in changes}
    return changes[-1].after if current in known else None


def lost_metadata(made: Sequence[Change], current: Mapping[str, Any]) -> dict[str, Any]:
    """The same for metadata: the keys that are as they were before, with what they should be."""
    wanted: dict[str, Any] = {}
    known: dict[str, list[Any]] = {}
    for change in made:
        if isinstance(change, MetadataChanged):
            wanted |= change.after
            for key, value in change.before.items():
                known.setdefault(key, []).append(value)
    return {
        key: value
        for key, value in wanted.items()
        if current.get(key) != value and current.get(key) in known.get(key, ())
    }


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
