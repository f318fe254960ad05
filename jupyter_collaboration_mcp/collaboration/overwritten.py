"""Doing again what a change of the file on disk has taken from a room (B9).

The room goes on, and its history too: there is no other state to compare with, as there is after a
restart. What the cells said just before is all that is known; so what others had deleted of an
agent's work by then is not brought back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from ..documents.differ import Edit, edits, patch
from ..documents.notebook import CellType, Notebook, new_cell
from ..documents.text_document import Document
from .reapply import Redone, by_cell, texts
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

#: Texts of a cell that are compared with that of the file, beside its first one.
_TEXTS = 10


def redo(
    document: Document, steps: Sequence[Step], said: Mapping[str, str]
) -> tuple[Redone, list[Change]]:
    """Do steps again, as far as they are missing. The caller has a transaction.

    Args:
        said: What the cells said that the steps have changed, of those that were there.

    Returns what was done, and what of the steps is in the document now and perhaps in no file.
    """
    done = Redone()
    left: list[Change] = []
    for cell_id, made in by_cell(steps).items():
        came_or_went = [change for change in made if isinstance(change, Inserted | Deleted)]
        latest = came_or_went[-1] if came_or_went else None
        if cell_id not in said:
            if isinstance(document, Notebook) and isinstance(latest, Deleted):
                left += _delete(done, document, latest, made)
        elif document.has(cell_id):
            left += _change(done, document, cell_id, made, said[cell_id], latest)
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
    latest: Inserted | Deleted | None,
) -> Iterator[Change]:
    index = document.find(cell_id)
    current = document.source(index)
    texts = _texts(made) or [said]
    merged = _merged(texts[0], _base(texts, current), said, current)
    if merged.clash:
        done.lost.append(f"in {named(cell_id)} somebody wrote at the same place")
    changed = merged.text != current
    if changed:
        document.set_source(index, merged.text)
    if isinstance(document, Notebook):
        changed = _describe(document, cell_id, made) or changed
    if changed:
        done.cells.append(cell_id)
    if isinstance(latest, Inserted):
        yield replace(latest, source=merged.without)
    if merged.text != merged.without:
        yield SourceChanged(cell_id, merged.without, merged.text)
    yield from _descriptions(made)


def _texts(made: Sequence[Change]) -> list[str]:
    """What a cell said before and after each change, oldest first."""
    texts: list[str] = []
    for change in made:
        if isinstance(change, SourceChanged):
            texts += [change.before, change.after]
        elif isinstance(change, Inserted):
            texts.append(change.source)
    return texts


def _base(texts: Sequence[str], current: str) -> str:
    """What the file may have come from: some changes may have been saved without a word of it.

    This is the one with the fewest other lines, and of several the latest: nothing is made twice.
    """
    lines = Counter(current.splitlines())

    def others(text: str) -> int:
        theirs = Counter(text.splitlines())
        return (theirs - lines).total() + (lines - theirs).total()

    return min([*texts[:1], *texts[1:][-_TEXTS:]][::-1], key=others)


class _Merged(NamedTuple):
    text: str
    without: str
    """The same without what the room had and the file has not."""
    clash: bool
    """Whether something of the room could not be kept."""


def _merged(first: str, base: str, said: str, current: str) -> _Merged:
    """A text with what the room and what the file has made of a common one."""
    theirs = edits(base, current)
    missing: list[Edit] = []
    there: list[Edit] = []
    # What was made before the common text may have been saved; or the file never had it, and is
    # like that text by chance. What of it the file has not may be lost, whichever it was.
    clash = any(_overlaps(edit, theirs) for edit in edits(base, first))
    for line in _by_line(base, edits(base, said)):
        there += [edit for edit in line if edit in theirs]
        lacking = [edit for edit in line if edit not in theirs]
        if any(_clashes(base, edit, theirs) for edit in lacking):
            clash = True
        else:
            missing += lacking
    both = sorted(theirs + missing, key=lambda edit: edit[:2])  # theirs first at one place
    return _Merged(
        patch(base, both), patch(base, [edit for edit in theirs if edit not in there]), clash
    )


def _overlaps(written: Edit, theirs: Sequence[Edit]) -> bool:
    """Whether others changed something of what was written, or wrote into it."""
    return any(written.start < edit.end and edit.start < written.end for edit in theirs)


def _by_line(base: str, changes: Sequence[Edit]) -> list[list[Edit]]:
    """Changes of one line are made together or not at all."""
    lines: list[list[Edit]] = []
    for change in changes:
        if lines and "\n" not in base[lines[-1][-1].end : change.start]:
            lines[-1].append(change)
        else:
            lines.append([change])
    return lines


def _clashes(base: str, ours: Edit, theirs: Sequence[Edit]) -> bool:
    """Whether others changed the same lines; letters of two hands in one line make no sense."""
    start, end = _span(base, ours)
    spans = [_span(base, edit) for edit in theirs]
    return any(start < other_end and other_start < end for other_start, other_end in spans)


def _span(base: str, edit: Edit) -> tuple[int, int]:
    """The lines that an edit changes; new lines change none."""
    start, end, text = edit
    at_start = start == 0 or base[start - 1] == "\n"
    if at_start and (start == end or base[end - 1] == "\n") and (not text or text[-1] == "\n"):
        return start, end
    at_end = end == len(base) or base[end] == "\n"
    if at_end and (start == end or base[start] == "\n") and (not text or text[0] == "\n"):
        return min(start + 1, end), end
    newline = base.find("\n", end)
    return base.rfind("\n", 0, start) + 1, len(base) if newline < 0 else newline


def _describe(notebook: Notebook, cell_id: str, made: Sequence[Change]) -> bool:
    """Metadata and type; says whether something was missing."""
    index, now = notebook.find(cell_id), notebook.metadata(notebook.find(cell_id))
    wanted = {
        k: v for each in made if isinstance(each, MetadataChanged) for k, v in each.after.items()
    }
    missing = {key: value for key, value in wanted.items() if now.get(key) != value}
    if missing:
        notebook.set_metadata(index, missing)
    types = [each.after for each in made if isinstance(each, TypeChanged)]
    if not types or notebook.cell_type(index) == types[-1]:
        return bool(missing)
    notebook.set_type(index, cast("CellType", types[-1]))
    return True


def _descriptions(made: Sequence[Change]) -> list[Change]:
    return [change for change in made if isinstance(change, MetadataChanged | TypeChanged)]
