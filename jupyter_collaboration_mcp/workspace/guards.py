"""Refusing to change what the caller has not read in its current state: compares revisions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..documents import text
from ..documents.handles import parse_revision
from ..documents.render import fenced
from ..documents.text_diff import unified
from ..errors import (
    CollaborationError,
    InvalidArgument,
    StaleIndex,
    StaleRevision,
)
from ..remedies import Intent
from .cell_selection import CellRef, Targets, locate
from .open_document import OpenDocument

#: Characters of a cell that an error shows.
_SHOWN_SOURCE = 8000

#: Characters of a text that an error shows.
_SHOWN_TEXT = 4000


def guard_cells(here: OpenDocument, targets: Targets) -> None:
    """Check that cells are still as the caller has read them.

    Raises:
        StaleRevision: A cell has changed.
    """
    for index, wanted in zip(targets.indexes, targets.revisions, strict=True):
        if wanted is not None and wanted != here.peer.notebook.revision(index):
            raise _stale(here, index, wanted)


def guard_place(here: OpenDocument, after_cell: CellRef | None) -> None:
    if after_cell is not None:
        index, revision = locate(here.peer.notebook, after_cell)
        guard_cells(here, Targets([index], [revision]))


def guard_places(here: OpenDocument, indexes: Iterable[int]) -> None:
    """Check that the cells at some indexes are those that the caller was shown there.

    Raises:
        StaleIndex: Others have moved, inserted or deleted cells.
    """
    notebook, places = here.peer.notebook, here.seat.places
    for index in indexes:
        known = places.get(index)
        if known is None or notebook.is_at(known, index):
            continue
        now = f"now {notebook.find(known)}" if notebook.has(known) else "deleted"
        raise StaleIndex(
            f"The order of the cells has changed since you were shown them: the cell that was "
            f"{index} is {now}. Nothing was done.",
            Intent.SEE_CELLS,
            index=index,
            cell_id=known,
        )


def _stale(here: OpenDocument, index: int, wanted: str) -> StaleRevision:
    notebook = here.peer.notebook
    actual, source, cell_id = (
        notebook.revision(index),
        notebook.source(index),
        notebook.id_at(index),
    )
    handle = notebook.handle(index)
    seen = here.peer.seen_sources.get(wanted)
    diff = None if seen is None else unified(seen, source)
    changed = f"\nWhat changed since {wanted}:\n{fenced(diff)}" if diff else ""
    unknown = "" if seen is not None else f" Revision {wanted} was not shown here lately."
    shown = text.clip(source, _SHOWN_SOURCE)
    here.peer.seen_sources.add([notebook.view(index, outputs=False)])
    return StaleRevision(
        f"Cell {handle} is not at revision {wanted}. Nothing was applied.{unknown}{changed}\n"
        f"It now says:\n{fenced(shown)}",
        f"Redo it on this text with the handle {handle.partition(' ')[2]}.",
        index=index,
        cell_id=cell_id,
        revision=actual,
        source=shown,
        diff=diff,
    )


def expected_revision(here: OpenDocument, if_revision: str | None) -> str | None:
    """The revision that the caller has read, whether it gives it in the path or by itself."""
    given = None if if_revision is None else parse_revision(if_revision)
    if given and here.expected and given != here.expected:
        raise InvalidArgument(
            f"The path has the revision {here.expected}, and if_revision is {given}. "
            "Nothing was done.",
            "Give the revision once: the handle alone is enough.",
        )
    return here.expected or given


def guard_text(here: OpenDocument, wanted: str | None) -> None:
    """Check that the text is still as the caller has read it.

    Raises:
        StaleRevision: It has changed.
    """
    if wanted is None:
        return
    now = here.peer.text.view()
    if now.revision == wanted:
        return
    seen = here.peer.seen_sources.get(wanted)
    diff = None if seen is None else unified(seen, now.source)
    changed = f"\nWhat changed since {wanted}:\n{fenced(diff)}" if diff else ""
    unknown = "" if seen is not None else f" Revision {wanted} was not shown here lately."
    handle = f"{here.label}@{now.revision}"
    shown = text.clip(now.source, _SHOWN_TEXT)
    here.peer.seen_sources.add([now])
    raise StaleRevision(
        f"{handle} is not at revision {wanted}. Nothing was applied.{unknown}{changed}\n"
        f"It now says:\n{fenced(shown)}",
        f"Redo it on this text with the path {handle}.",
        revision=now.revision,
        source=shown,
        diff=diff,
    )


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Whether to run the code cells that a call touches, and why that is refused, if it is."""

    wanted: bool
    refusal: CollaborationError | None = None

    def check(self, cell_type: str) -> None:
        """Refuse a cell that would have to run; called before anything has changed."""
        if not self.wanted or cell_type != "code" or self.refusal is None:
            return
        raise type(self.refusal)(
            f"{self.refusal.happened} Nothing was changed.",
            "Repeat the call with exec=false: it edits without running.",
            **self.refusal.detail,
        )
