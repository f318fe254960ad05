"""Reapply what a change of the file on disk has taken from a room (B9).

The room goes on, and its history too: there is no other state to compare with, as there is after a
restart. What the cells said just before is all that is known; so what others had deleted of an
agent's work by then is not brought back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import cast

from ..documents.differ import Edit, edits, patch
from ..documents.notebook import CellType, Notebook
from ..documents.shared_cells import new_cell
from ..documents.text import apply
from ..documents.text_document import Document
from .own_edits import Reapplied, reapplied
from .reapply import Redone, by_cell, lost_metadata, lost_type, texts
from .undo import (
    Change,
    Deleted,
    Inserted,
    MetadataChanged,
    SourceChanged,
    Step,
    TypeChanged,
    named,
)

Merge = Callable[[tuple[SourceChanged, ...], str, str], Reapplied]
"""What `reapplied` does; one that remembers makes what was made before in no time."""


def redo(
    document: Document,
    steps: Sequence[Step],
    said: Mapping[str, str],
    find_astray: Callable[[], Mapping[str, Sequence[Edit]]],
    late: Collection[str],
    merge: Merge = reapplied,
) -> tuple[Redone, list[Change]]:
    """Reapply steps, as far as they are missing. The caller has a transaction.

    Args:
        said: What the cells said that the steps have changed, of those that were there.
        find_astray: Finds what came to the document after the file, as edits that remove it.
        late: The cells of steps that were not known to be with the room by then.
        merge: How a text is given what it lacks.

    Returns what was done, and what of the steps is in the document now and perhaps in no file.
    """
    done = Redone()
    left: list[Change] = []
    astray = cache(find_astray)  # which is rarely needed
    for cell_id, made in by_cell(steps).items():
        came_or_went = [change for change in made if isinstance(change, Inserted | Deleted)]
        latest = came_or_went[-1] if came_or_went else None
        if cell_id not in said:
            if isinstance(document, Notebook) and isinstance(latest, Deleted):
                left += _delete(done, document, latest, made)
        elif document.has(cell_id):
            if isinstance(latest, Inserted):
                left.append(latest)
            is_late = cell_id in late
            left += _change(done, document, cell_id, made, said[cell_id], astray, is_late, merge)
        elif isinstance(document, Notebook) and isinstance(latest, Inserted):
            left += _insert(done, document, latest, made, said[cell_id])
        else:
            done.lost.append(f"{named(cell_id)} is gone")
    return done, left


def _delete(
    done: Redone, notebook: Notebook, deleted: Deleted, made: Sequence[Change]
) -> Iterator[Change]:
    cell_id = str(deleted.value["id"])
    if notebook.has(cell_id):
        index = notebook.find(cell_id)
        if notebook.source(index) not in texts(made):
            done.lost.append(f"{named(cell_id)}, which was deleted, is back and was edited since")
            return
        notebook.delete([index])
        done.cells.append(cell_id)
    yield deleted


def _insert(
    done: Redone, notebook: Notebook, inserted: Inserted, made: Sequence[Change], source: str
) -> Iterator[Change]:
    follows = inserted.follows
    place = 0 if follows is None else len(notebook)
    if follows is not None and notebook.has(follows):
        place = notebook.find(follows) + 1
    cell = {**new_cell(inserted.cell_type, source), "id": inserted.cell_id}
    notebook.insert(place, [cell])
    _describe(notebook, inserted.cell_id, made)
    done.cells.append(inserted.cell_id)
    yield replace(inserted, source=source)
    yield from _descriptions(made)


def _change(
    done: Redone,
    document: Document,
    cell_id: str,
    made: Sequence[Change],
    said: str,
    astray: Callable[[], Mapping[str, Sequence[Edit]]],
    late: bool,
    merge: Merge,
) -> Iterator[Change]:
    index = document.find(cell_id)
    current = document.source(index)
    own = tuple(change for change in made if isinstance(change, SourceChanged))
    before, result = current, merge(own, said, current)
    fine = result.text == current and not result.clash
    if (late or not fine) and (removals := astray().get(cell_id)):
        again = merge(own, said, patch(current, removals))
        if (fine and again.text == current and not again.clash) or (
            not fine and not (again.clash and any(_replaces(change) for change in own))
        ):
            before, result = patch(current, removals), again
            # Not by comparing texts: the same letters beside it are of others, who may remove them.
            # And also where it is in its place: that it is in no file is only known of new ones.
            apply(document.shared_source(index), removals, current)
        elif not fine:
            # What they replaced is gone, too, and cannot be brought back.
            result = Reapplied(current, [], len(own), clash=True)
    if result.clash:
        done.lost.append(f"in {named(cell_id)} somebody wrote at the same place")
    changed = result.text != current
    apply(document.shared_source(index), result.edits, before)
    if isinstance(document, Notebook):
        changed = _describe(document, cell_id, made) or changed
    if changed:
        done.cells.append(cell_id)
    yield from own[: result.there]
    if result.text != before:
        yield SourceChanged(cell_id, before, result.text)
    yield from _descriptions(made)


def _replaces(change: SourceChanged) -> bool:
    return any(edit.start < edit.end for edit in edits(change.before, change.after))


def _describe(notebook: Notebook, cell_id: str, made: Sequence[Change]) -> bool:
    """Metadata and type; says whether something was missing."""
    index = notebook.find(cell_id)
    missing = lost_metadata(made, notebook.metadata(index))
    if missing:
        notebook.set_metadata(index, missing)
    cell_type = lost_type(made, notebook.cell_type(index))
    if cell_type is None:
        return bool(missing)
    notebook.set_type(index, cast("CellType", cell_type))
    return True


def _descriptions(made: Sequence[Change]) -> list[Change]:
    return [change for change in made if isinstance(change, MetadataChanged | TypeChanged)]
