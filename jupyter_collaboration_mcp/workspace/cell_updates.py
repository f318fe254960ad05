"""Changing cells: their source, type and metadata, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ..collaboration import changes
from ..collaboration.edits import LARGE_CELLS, LARGE_TEXT, CallRecord, Edit, Work
from ..collaboration.replica import EditIsLarge
from ..documents import json_values
from ..documents.differ import Differ
from ..documents.handles import revision
from ..documents.notebook import CellType, Notebook
from ..documents.protection import CellAction, metadata_actions
from ..documents.text_search import replace_once
from ..errors import (
    InvalidArgument,
    TextMismatch,
)
from .call_limits import Limits, check_cell_type, check_contents, check_source
from .cell_selection import CellRef, Targets, index_of, locate, with_texts
from .guards import RunRequest, guard_cells
from .open_document import OpenDocument


@dataclass(frozen=True, slots=True)
class CellUpdate:
    """What to change in one cell; a field that is None is left alone."""

    cell: CellRef | None = None
    content: str | None = None
    old_text: str | None = None
    new_text: str | None = None
    cell_type: str | None = None
    metadata: Mapping[str, Any] | None = None
    if_revision: str | None = None


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What an update did."""

    ids: list[str]
    """Ids of the cells, in the order of the updates."""
    unexpected: dict[str, str] = field(default_factory=dict)
    """By cell: the text before the update, for cells in which the caller replaced a part of a text
    that others had changed since it read it."""


@dataclass(slots=True)
class CellChanges:
    """Everything that one call changes in one cell."""

    source: str
    before: str
    cell_type: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    """Whether the caller gave the whole text."""

    def actions(self, notebook: Notebook, index: int) -> set[CellAction]:
        """What they do to the cell; nothing if it is like that already."""
        done = {CellAction.EDIT} if self.source != self.before else set()
        if self.cell_type is not None and self.cell_type != notebook.cell_type(index):
            done.add(CellAction.RETYPE)
        if self.metadata:
            done |= metadata_actions(notebook.metadata(index), self.metadata)
        return done


def update_cells(
    here: OpenDocument, updates: Sequence[CellUpdate], limits: Limits, running: RunRequest
) -> Edit[UpdateResult]:
    """Change cells."""
    contents = [update.content or update.new_text or "" for update in updates]
    check_contents(limits, contents, "updates")
    for number, update in enumerate(updates):
        json_values.require_storable(update.metadata, f"updates[{number}].metadata")

    guarded: set[str | None] = set()

    def begin() -> Work[UpdateResult]:
        notebook = here.peer.notebook
        named = Targets.of(locate(notebook, each.cell, each.if_revision) for each in updates)
        guard_cells(here, named)
        guarded.update(named.revisions)
        return work

    def work(notebook: Notebook, record: CallRecord) -> UpdateResult:
        indexes = [index_of(notebook, update.cell) for update in updates]
        pending: dict[int, CellChanges] = {}
        for index, update in zip(indexes, updates, strict=True):
            _combine(notebook, pending, index, update)
            if record.refuses_large and _characters(pending) > LARGE_TEXT:
                raise EditIsLarge  # before the next long text is read
        for index, wanted in pending.items():
            check_source(limits, wanted.source)
            if running.wanted:
                running.check(wanted.cell_type or notebook.cell_type(index))
        touched = {index: wanted.actions(notebook, index) for index, wanted in pending.items()}
        here.check_cells(notebook, record, touched, "Agents can set marks, but not remove them.")
        ids = [notebook.id_at(index) for index in indexes]
        differ = Differ()
        unexpected = {}
        for index, wanted in pending.items():
            if not wanted.whole:
                cell_id, known = notebook.id_at(index), here.seat.known
                before = revision(notebook.cell_type(index), wanted.before)
                if before not in (known.get(cell_id) or before, *guarded):
                    unexpected[cell_id] = wanted.before
            apply_changes(notebook, index, wanted, differ, record)
        return UpdateResult(ids, unexpected)

    much = sum(map(len, contents)) > LARGE_TEXT or _has_much(updates)
    return Edit(begin, much or len(updates) > LARGE_CELLS)


def _characters(pending: Mapping[int, CellChanges]) -> int:
    return sum(len(wanted.before) for wanted in pending.values())


def _has_much(updates: Sequence[CellUpdate]) -> bool:
    return any(len(str(update.metadata)) > LARGE_TEXT for update in updates if update.metadata)


def _combine(
    notebook: Notebook, pending: dict[int, CellChanges], index: int, update: CellUpdate
) -> None:
    """Check one update and add it to the changes of its cell."""
    replaces = update.old_text is not None or update.new_text is not None
    if replaces and update.content is not None:
        raise InvalidArgument(
            "An update has both content and old_text/new_text.", "Give one of them."
        )
    if not replaces and update.content is None and not (update.cell_type or update.metadata):
        raise InvalidArgument(
            "An update changes nothing.",
            "Give content, old_text and new_text, cell_type or metadata.",
        )
    wanted = pending.get(index)
    if wanted is None:
        source = notebook.source(index)
        wanted = pending[index] = CellChanges(source, source)
    elif update.content is not None:
        raise InvalidArgument(
            f"Cell {notebook.handle(index)} is given new content twice.",
            "Give each cell one content, or several old_text/new_text.",
        )
    if update.content is not None:
        wanted.source, wanted.whole = update.content, True
    elif replaces:
        if update.old_text is None or update.new_text is None:
            raise InvalidArgument("old_text and new_text belong together.", "Give both.")
        try:
            wanted.source = replace_once(wanted.source, update.old_text, update.new_text)
        except TextMismatch as error:
            raise _with_handle(error, notebook, index, update.old_text) from error
    if update.cell_type is not None:
        check_cell_type(update.cell_type)
        wanted.cell_type = update.cell_type
    if update.metadata:
        wanted.metadata.update(update.metadata)


def _with_handle(
    error: TextMismatch, notebook: Notebook, index: int, old_text: str
) -> TextMismatch:
    """The same error, with the handle of the cell that the caller probably meant."""
    if error.detail.get("matches"):
        return error
    found = with_texts(notebook, [old_text])[old_text]  # it is not in the cell itself
    if len(found) != 1:
        return error
    handle = notebook.handle(found[0])
    return TextMismatch(
        f"old_text is not in cell {notebook.handle(index)}, but it is in {handle}. "
        "Nothing was changed.",
        f"If you meant that one, repeat with {handle.partition(' ')[2]}.",
        **{**error.detail, "found_in": notebook.id_at(found[0])},
    )


def apply_changes(
    notebook: Notebook, index: int, wanted: CellChanges, differ: Differ, record: CallRecord
) -> None:
    cell_id = notebook.id_at(index)
    if wanted.source != wanted.before:
        inserted = notebook.set_source(index, wanted.source, differ, wanted.before)
        record(changes.SourceChange(cell_id, wanted.before, wanted.source), inserted)
    if wanted.metadata:
        now = notebook.metadata(index)
        before = {key: now.get(key) for key in wanted.metadata}
        notebook.set_metadata(index, wanted.metadata)
        record(changes.MetadataChange(cell_id, before, dict(wanted.metadata)))
    if wanted.cell_type is not None and wanted.cell_type != notebook.cell_type(index):
        # Last: it replaces the cell with whatever it holds at that point.
        record(changes.TypeChange(cell_id, notebook.value(index), wanted.cell_type))
        notebook.set_type(index, cast("CellType", wanted.cell_type))
