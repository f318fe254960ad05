"""Reapply edits that a server had not saved when it went down.

A Jupyter server that crashes silently loses what it has not saved. If it comes back with an earlier
state, it gets the same characters again: tabs that people left open restore those too, and newly
written ones would be duplicates. If it loaded the file instead, what is missing is found by
comparing texts, so that nothing is reapplied twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pycrdt import Doc

from ..documents.notebook import Notebook
from ..documents.text_document import Document
from ..documents.updates import decode_state, encode_state
from .changes import Change, Step, by_cell, by_kind, existence, known_texts
from .changes.change import ReapplyReport, RestartedCell


def reapply_lost(
    document: Document,
    before: Document,
    steps: Sequence[Step],
    authors: Collection[int],
    transaction: Callable[[str], AbstractContextManager[None]],
) -> ReapplyReport:
    """Reapply what a room lacks of some steps.

    Args:
        document: The document as it is now.
        before: The document as it was when the room went away.
        steps: What may be missing, oldest first.
        authors: The clients that wrote them.
        transaction: Begins one in the document, with an origin.
    """
    if _is_past(document, before):
        everybody = decode_state(before.doc.get_state())
        for writers in (authors, everybody):  # the authors' text may depend on what others wrote
            given = _original(document, before, writers)
            if given is not None and _is_between(given.merged, document, before):
                return ReapplyReport(_give_back(document, given, transaction))
    repairs = _compare(document, before, steps)
    cells = repairs.report.cells
    if cells:
        given = _original(document, before, authors)
        if given is not None and _changes_only(cells, given.merged, document, before):
            _give_back(document, given, transaction)
        with transaction(REAPPLY):
            repairs.make(document, before)
    return repairs.report


#: The origin of these transactions.
REAPPLY = "reapply"


# -- the same characters ---------------------------------------------------------------------


class _Given(NamedTuple):
    """What authors wrote that a room lacks, exactly as they wrote it."""

    update: bytes
    merged: Document
    """The document as it would be with that."""


def _original(document: Document, before: Document, authors: Collection[int]) -> _Given | None:
    """None if what it depends on is missing, because the room has started another history."""
    clocks, known = decode_state(before.doc.get_state()), decode_state(document.doc.get_state())
    since = {c: known.get(c, 0) if c in authors else clock for c, clock in clocks.items()}
    update = before.doc.get_update(encode_state(since))
    merged = _merged(document, update)
    reached = decode_state(merged.doc.get_state())
    whole = all(reached.get(client, 0) >= clocks.get(client, 0) for client in authors)
    return _Given(update, merged) if whole else None


def _is_past(document: Document, before: Document) -> bool:
    """Whether it has nothing that was not there before."""
    merged = _merged(before, document.doc.get_update())
    return merged.ids == before.ids and _contents(merged) == _contents(before)


def _is_between(merged: Document, document: Document, before: Document) -> bool:
    """Whether each cell is as it is now, or as it was."""
    now, then, with_it = _sources(document), _sources(before), _sources(merged)
    return now.keys() & then.keys() <= with_it.keys() and all(
        source in (now.get(cell_id), then.get(cell_id)) for cell_id, source in with_it.items()
    )


def _changes_only(
    cells: Collection[str], merged: Document, document: Document, before: Document
) -> bool:
    """Whether no other cell changes, and restored cells return once and to their old place."""
    now, with_it = _sources(document), _sources(merged)
    others = [cell_id for cell_id in now.keys() | with_it.keys() if cell_id not in cells]
    order = [cell_id for cell_id in merged.ids if before.has(cell_id)]
    return all(now.get(cell_id) == with_it.get(cell_id) for cell_id in others) and order == [
        cell_id for cell_id in before.ids if merged.has(cell_id)
    ]


def _give_back(
    document: Document, given: _Given, transaction: Callable[[str], AbstractContextManager[None]]
) -> list[str]:
    """Apply the update. Returns the cells that it changed."""
    then = _contents(document)
    with transaction(REAPPLY):
        document.doc.apply_update(given.update)
    now = _contents(document)
    return [cell_id for cell_id in {**then, **now} if then.get(cell_id) != now.get(cell_id)]


def _merged(document: Document, update: bytes) -> Document:
    merged: Doc[Any] = Doc()
    merged.apply_update(document.doc.get_update())
    # "block parent": something else is in its place.
    with contextlib.suppress(RuntimeError):
        merged.apply_update(update)
    return type(document)(merged)


def _sources(document: Document) -> dict[str, str]:
    return {cell_id: document.source(index) for index, cell_id in enumerate(document.ids)}


def _contents(document: Document) -> dict[str, tuple[Any, ...]]:
    return {
        cell_id: (document.cell_type(n), document.source(n), document.metadata(n))
        for n, cell_id in enumerate(document.ids)
    }


# -- the same text ---------------------------------------------------------------------------


@dataclass(slots=True)
class _Repairs:
    """What the changed cells lack."""

    report: ReapplyReport = field(default_factory=ReapplyReport)
    """What is lost, and which cells lack something."""
    cells: list[RestartedCell] = field(default_factory=list)
    """The cells that exist now and existed before."""

    def make(self, document: Document, before: Document) -> None:
        """Make the repairs. The caller holds the transaction."""
        for cell_id in self.report.cells:
            is_there, was_there = document.has(cell_id), before.has(cell_id)
            if is_there and not was_there:
                _notebook(document).delete([document.find(cell_id)])
            elif was_there and not is_there:
                value = _notebook(before).value(before.find(cell_id))
                _notebook(document).insert(_place(document, before, cell_id), [value])
        for cell in self.cells:
            cell.repair()


def _compare(document: Document, before: Document, steps: Sequence[Step]) -> _Repairs:
    repairs = _Repairs()
    report = repairs.report
    lacking = by_cell(steps[_count_kept(document, before, steps) :])
    for cell_id, changes in by_cell(steps).items():
        if cell_id not in lacking:
            continue  # what it no longer has, somebody has removed since
        is_there, was_there = document.has(cell_id), before.has(cell_id)
        # Undoing an insertion deletes, and vice versa: only the outcome counts.
        came_or_went = existence(changes).exists_after is not None
        if is_there and was_there:
            cell = RestartedCell(cell_id, document, before, report)
            for kind, of_kind in by_kind(changes).items():
                cell.repairs += kind.compare(of_kind, cell)
            if cell.lacks_something:
                repairs.cells.append(cell)
                report.cells.append(cell_id)
        elif was_there and not came_or_went:
            report.report_gone(cell_id)
        elif is_there and document.source(document.find(cell_id)) not in known_texts(changes):
            report.report_edited_since(cell_id)
        elif is_there or was_there:
            report.cells.append(cell_id)
    return repairs


def _count_kept(document: Document, before: Document, steps: Sequence[Step]) -> int:
    """How many steps the room certainly has, counted from the oldest.

    It received them in order, and a file or a store holds the first of them or all. So it has all
    that came before one that it has.
    """
    kept = 0
    known: dict[str, list[Change]] = {}
    for number, step in enumerate(steps, 1):
        for cell_id, changes in by_cell([step]).items():
            earlier = known.setdefault(cell_id, [])
            if document.has(cell_id) and before.has(cell_id):
                end = before.source(before.find(cell_id))
                same = document.source(document.find(cell_id)) == end
                is_new = not earlier and changes[0].exists_after
                texts = known_texts(earlier)
                if is_new or (same and any(change.wrote(end, texts) for change in changes)):
                    kept = number
            earlier += changes
    return kept


def _place(document: Document, before: Document, cell_id: str) -> int:
    """The index after the nearest cell that it followed."""
    for previous in reversed(before.ids[: before.find(cell_id)]):
        if document.has(previous):
            return document.find(previous) + 1
    return 0


def _notebook(document: Document) -> Notebook:
    """The document, for changes that only a notebook can have."""
    assert isinstance(document, Notebook)
    return document
