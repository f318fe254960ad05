"""Editing a live notebook: each function is one call, all or nothing, in one transaction.

Each gives an edit, which the notebook's peer performs when it is current: everything is resolved
and checked before anything changes, and nobody comes in between. What such an edit reads and
changes is the notebook that it is given: a large one is prepared on a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ..collaboration import undo
from ..collaboration.prepared import LARGE_CELLS, LARGE_TEXT, CallRecord, Edit, Work
from ..documents import json_values, text
from ..documents.differ import Differ
from ..documents.handles import TEXT, Handle, parse_cell, parse_revision, revision
from ..documents.notebook import CellType, Notebook
from ..documents.render import fenced
from ..documents.shared_cells import new_cell
from ..documents.text_diff import unified
from ..documents.text_document import Document
from ..documents.text_search import replace_once
from ..errors import (
    AmbiguousCell,
    CellNotFound,
    CollaborationError,
    InvalidArgument,
    KernelBusy,
    NotCode,
    StaleRevision,
    TextMismatch,
    TooLarge,
)
from . import text_editing
from .workspace import Limits, OpenDocument

CellRef = str | int
"""A cell by its id, by the beginning of it, by its handle, or by its index."""

_Named = TypeVar("_Named", CellRef, CellRef | None)

_CELL_TYPES = ("code", "markdown", "raw")

#: Cells of a call that can be named by what they say: to look for them takes time.
_MOST_TEXTS = 20

#: Characters of a cell that an error shows.
_SHOWN_SOURCE = 8000


@dataclass(frozen=True, slots=True)
class CellUpdate:
    """What to change in one cell; what is None stays."""

    cell: CellRef | None = None
    content: str | None = None
    old_text: str | None = None
    new_text: str | None = None
    cell_type: str | None = None
    metadata: Mapping[str, Any] | None = None
    if_revision: str | None = None


@dataclass(frozen=True, slots=True)
class Targets:
    """Cells that a call names, with the revisions at which its caller has read them, if it says."""

    indexes: list[int]
    revisions: list[str | None]

    @classmethod
    def of(cls, named: Iterable[tuple[int, str | None]]) -> Targets:
        pairs = list(named)
        return cls([index for index, _ in pairs], [revision for _, revision in pairs])

    def expected(self, notebook: Notebook) -> dict[str, str]:
        """The same by id, of those with a revision."""
        pairs = zip(self.indexes, self.revisions, strict=True)
        return {notebook.id_at(index): revision for index, revision in pairs if revision}


@dataclass(frozen=True, slots=True)
class NewCell:
    content: str
    cell_type: str = "code"


@dataclass(frozen=True, slots=True)
class Running:
    """Whether the code cells that a call touches are to be run, and what forbids it."""

    wanted: bool
    refusal: CollaborationError | None = None

    def check(self, cell_type: str) -> None:
        """Refuse a cell that would have to be run; before anything has been changed."""
        if not self.wanted or cell_type != "code" or self.refusal is None:
            return
        raise type(self.refusal)(
            f"{self.refusal.happened} Nothing was changed.",
            "Repeat the call with exec=false: it edits without running.",
            **self.refusal.detail,
        )


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update did."""

    ids: list[str]
    """Of the cells, in the order of the updates."""
    unexpected: dict[str, str] = field(default_factory=dict)
    """By cell: what it said before, where the caller replaced a part of a text that others had
    changed since it read it."""


@dataclass(slots=True)
class _Pending:
    """All that one call wants of one cell."""

    source: str
    before: str
    cell_type: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    """Whether the caller has given all of it."""


# -- what a call does ------------------------------------------------------------------------


def update_cells(
    here: OpenDocument, updates: Sequence[CellUpdate], limits: Limits, running: Running
) -> Edit[Updated]:
    """Change cells."""
    contents = [update.content or update.new_text or "" for update in updates]
    _check_size(limits, contents, "updates")
    for number, update in enumerate(updates):
        json_values.require_storable(update.metadata, f"updates[{number}].metadata")

    guarded: set[str | None] = set()

    def begin() -> Work[Updated]:
        notebook = here.peer.notebook
        named = Targets.of(_named(notebook, each.cell, each.if_revision) for each in updates)
        guard(here, named)
        guarded.update(named.revisions)
        return work

    def work(notebook: Notebook, record: CallRecord) -> Updated:
        indexes = [_index(notebook, update.cell) for update in updates]
        pending: dict[int, _Pending] = {}
        for index, update in zip(indexes, updates, strict=True):
            _combine(notebook, pending, index, update)
        for index, wanted in pending.items():
            _check_cell(limits, wanted.source)
            running.check(wanted.cell_type or notebook.cell_type(index))
        ids = [notebook.id_at(index) for index in indexes]
        differ = Differ()
        unexpected = {}
        for index, wanted in pending.items():
            cell_id, known = notebook.id_at(index), here.seat.known
            before = revision(notebook.cell_type(index), wanted.before)
            if not wanted.whole and before not in (known.get(cell_id) or before, *guarded):
                unexpected[cell_id] = wanted.before
            _apply(notebook, index, wanted, differ, record)
        return Updated(ids, unexpected)

    named = [update.cell for update in updates]
    large = _is_large(here, named, sum(map(len, contents))) or _has_much(updates)
    return Edit("batch_update_notebook_cells", begin, large)


def insert_cells(
    here: OpenDocument,
    cells: Sequence[NewCell],
    positions: Sequence[int] | None,
    start_position: int | None,
    after_cell: CellRef | None,
    limits: Limits,
    running: Running,
) -> Edit[list[str]]:
    """Insert cells; gives their ids in the order given."""
    _check_size(limits, [cell.content for cell in cells], "cells")
    for cell in cells:
        _check_type(cell.cell_type)
        _check_cell(limits, cell.content)
        running.check(cell.cell_type)

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        places = _places(notebook, len(cells), positions, start_position, after_cell)
        ids: list[str] = [""] * len(cells)
        groups: dict[int, list[int]] = {}
        anywhere = positions is None and after_cell is None
        filled = anywhere and bool(cells[0].content) and _is_blank(notebook)
        if filled:  # and the others come after it
            ids[0] = notebook.id_at(0)
            wanted = _Pending(cells[0].content, "", cells[0].cell_type)
            _apply(notebook, 0, wanted, Differ(), record)
            places = [1] * len(cells)
        for number, place in list(enumerate(places))[filled:]:
            groups.setdefault(place, []).append(number)
        for place in sorted(groups, reverse=True):  # so that lower places keep their meaning
            numbers = groups[place]
            values = [new_cell(cells[n].cell_type, cells[n].content) for n in numbers]
            for number, cell_id in zip(numbers, notebook.insert(place, values), strict=True):
                ids[number] = cell_id
                index = notebook.find(cell_id)
                made = undo.Inserted(
                    cell_id,
                    cells[number].content,
                    cells[number].cell_type,
                    _follows(notebook, index),
                )
                record(made, written=notebook.last_character(index))
        return ids

    def begin() -> Work[list[str]]:
        _guard_place(here, after_cell)
        return work

    large = len(cells) > LARGE_CELLS
    return Edit("batch_insert_notebook_cells", begin, large)


def delete_cells(
    here: OpenDocument, targets: Targets, limits: Limits, running: Running
) -> Edit[list[str]]:
    """Delete cells; gives their ids."""
    check_count(limits, len(targets.indexes))
    chosen = _Chosen(here, targets)

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        indexes = list(dict.fromkeys(chosen.indexes(notebook)))
        ids = [notebook.id_at(index) for index in indexes]
        for index in indexes:
            running.check(notebook.cell_type(index))
        # Last first: taken back in reverse, each finds the one before it in place.
        for index in sorted(indexes, reverse=True):
            value = notebook.value(index)
            if "execution_state" in value:
                value["execution_state"] = "idle"  # a run may be over when it comes back
            record(undo.Deleted(value, _follows(notebook, index)))
        notebook.delete(indexes)
        return ids

    large = len(targets.indexes) > LARGE_CELLS
    return Edit("batch_delete_notebook_cells", lambda: chosen.guarded(work), large)


def move_cells(
    here: OpenDocument,
    targets: Targets,
    to_index: int | None,
    after_cell: CellRef | None,
    limits: Limits,
) -> Edit[list[str]]:
    """Move cells, in the order given; gives their ids."""
    check_count(limits, len(targets.indexes))
    chosen = _Chosen(here, targets)
    if len(set(targets.indexes)) != len(targets.indexes):
        raise InvalidArgument("A cell is named twice.", "Name each cell to move once.")
    if (to_index is None) == (after_cell is None):
        raise InvalidArgument(
            "Exactly one of to_index and after_cell_id says where to.", "Give one of them."
        )

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        target = _place(notebook, to_index, after_cell)
        indexes = chosen.indexes(notebook)
        for index in sorted(indexes, reverse=True):
            record(undo.Moved(notebook.id_at(index), _follows(notebook, index)))
        notebook.move(indexes, target)
        return chosen.ids

    def begin() -> Work[list[str]]:
        _guard_place(here, after_cell)
        return chosen.guarded(work)

    large = len(targets.indexes) > LARGE_CELLS
    return Edit("move_notebook_cells", begin, large)


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What an undo did."""

    steps: int
    calls: list[str]
    cell_ids: list[str]
    """The cells that were changed or came back."""
    removed: list[str]
    notes: list[str]


def take_back(here: OpenDocument, steps: int, since: int | None, force: bool) -> Edit[TakenBack]:
    """Take back this agent's latest calls, and only what they did."""
    if steps < 1:
        raise InvalidArgument(f"steps is {steps}.", "Give how many calls to take back, at least 1.")
    seat = here.seat

    def wanted() -> list[undo.Step]:
        return seat.undo.last(steps) if since is None else seat.undo.since(since)

    def begin() -> Work[TakenBack]:
        text_editing.guard(here, here.expected)
        taken = wanted()

        def work(document: Document, record: CallRecord) -> TakenBack:
            made = undo.plan(document, taken, force)
            for action in made.actions:
                action(document)
            record.undone, record.changes = taken, made.changes
            return TakenBack(
                steps=len(taken),
                calls=[step.call for step in taken],
                cell_ids=[cell_id for cell_id in made.sources if document.has(cell_id)],
                removed=sorted(made.removed),
                notes=made.notes + ([*made.conflicts] if force else []),
            )

        return work

    steps_wanted = wanted()
    large = (
        sum(len(step.changes) for step in steps_wanted) > LARGE_CELLS
        or sum(step.characters for step in steps_wanted) > LARGE_TEXT
    )
    return Edit("undo_agent_changes", begin, large)


def to_clear(notebook: Notebook, cells: Sequence[CellRef] | None, limits: Limits) -> list[int]:
    """The code cells that have outputs or a count, of all or of those named.

    Raises:
        NotCode: One that is named is no code cell.
        KernelBusy: One that is named is running: its outputs would go on coming.
        TooLarge: They are more than a call may change.
    """
    if cells is None:
        indexes = code_indexes(notebook, None, None, wanted=False)
    else:
        indexes = list(dict.fromkeys(targets(notebook, None, None, cells).indexes))
        for index in indexes:
            if notebook.cell_type(index) != "code":
                raise NotCode(
                    f"Cell {notebook.handle(index)} has no outputs: it is no code cell. "
                    "Nothing was changed.",
                    "Name code cells only.",
                )
    running = set(notebook.running())
    if cells is not None and (hit := running & set(indexes)):
        index = min(hit)
        raise KernelBusy(
            f"Cell {notebook.handle(index)} is running. Nothing was changed.",
            "Wait for it with get_run, or interrupt it.",
        )
    found = [index for index in indexes if index in running or notebook.was_run(index)]
    check_count(limits, len(found), "Name fewer cells in each call, by cell_ids.")
    return [index for index in found if index not in running]


def clear_outputs(
    here: OpenDocument, cells: Sequence[CellRef] | None, limits: Limits
) -> Edit[list[str]]:
    """Clear the outputs of code cells, of all if none is named; gives those that had any."""

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        indexes = to_clear(notebook, cells, limits)
        ids = [notebook.id_at(index) for index in indexes]
        for index, cell_id in zip(indexes, ids, strict=True):
            record(undo.OutputsCleared(cell_id, notebook.value(index)))
            notebook.clear_outputs(index)
        return ids

    def begin() -> Work[list[str]]:
        if cells is not None:
            guard(here, targets(here.peer.notebook, None, None, cells))
        return work

    count = len(here.peer.notebook) if cells is None else len(cells)
    return Edit("clear_notebook_outputs", begin, count > LARGE_CELLS)


class _Chosen:
    """Cells that a call means, wherever they are when it is their turn."""

    def __init__(self, here: OpenDocument, targets: Targets) -> None:
        self._here = here
        self._targets = targets
        self.ids = [here.peer.notebook.id_at(index) for index in targets.indexes]

    def indexes(self, notebook: Notebook) -> list[int]:
        places = zip(self._targets.indexes, self.ids, strict=True)
        return [
            # A damaged notebook has the same id twice, which `find` refuses.
            index if notebook.is_at(cell_id, index) else notebook.find(cell_id)
            for index, cell_id in places
        ]

    def guarded(self, work: Work[list[str]]) -> Work[list[str]]:
        """The work, if the live cells still say what the caller has read."""
        now = self.indexes(self._here.peer.notebook)
        guard(self._here, Targets(now, self._targets.revisions))
        return work


def _is_blank(notebook: Notebook) -> bool:
    """Whether there is nothing but the empty cell that Jupyter puts into a new notebook."""
    return (
        len(notebook) == 1
        and not notebook.source(0)
        and notebook.never_run(0)
        and not notebook.metadata(0).keys() - {"trusted"}
    )


def _is_large(here: OpenDocument, cells: Sequence[CellRef | None], written: int) -> bool:
    """Whether to change cells takes so long that others would notice."""
    if len(cells) > LARGE_CELLS or written > LARGE_TEXT:
        return True
    notebook = here.peer.notebook
    there = [_index(notebook, cell) for cell in cells if cell is not None]
    return sum(notebook.size(index) for index in there) > LARGE_TEXT


def _has_much(updates: Sequence[CellUpdate]) -> bool:
    return any(len(str(update.metadata)) > LARGE_TEXT for update in updates if update.metadata)


# -- which cells a call means ----------------------------------------------------------------


def targets(
    notebook: Notebook,
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[CellRef] | None,
    if_revision: str | Sequence[str] | None = None,
    count: int = 1,
) -> Targets:
    """The cells that a changing call names: by ids or handles, or by a half-open range.

    Args:
        if_revision: One for each cell.
        count: How many cells a range without an end means.
    """
    chosen = _found(notebook, _chosen(notebook, start_index, end_index, cell_ids, count))
    if if_revision is None:
        revisions: Sequence[str | None] = [None] * len(chosen)
    else:
        revisions = [if_revision] if isinstance(if_revision, str) else if_revision
    if len(revisions) != len(chosen):
        raise InvalidArgument(
            f"{len(chosen)} cells but {len(revisions)} revisions.",
            "Give one revision for each cell, in the same order.",
        )
    return Targets.of(_named(notebook, *pair) for pair in zip(chosen, revisions, strict=True))


def _found(notebook: Notebook, cells: Sequence[_Named]) -> list[_Named | str]:
    """The same cells, with ids in place of what they say: looked for once."""
    texts = {
        cell: cell.removeprefix(TEXT)
        for cell in cells
        if isinstance(cell, str) and cell.startswith(TEXT) and not notebook.has(cell)
    }
    found = with_texts(notebook, [said for said in texts.values() if said])
    ids = {
        cell: notebook.id_at(_only(notebook, said, found.get(said, [])))
        for cell, said in texts.items()
    }
    return [ids.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]


def _chosen(
    notebook: Notebook,
    start_index: int | None,
    end_index: int | None,
    cell_ids: Sequence[CellRef] | None,
    count: int,
) -> Sequence[CellRef]:
    if (cell_ids is None) == (start_index is None):
        raise InvalidArgument(
            "Name the cells either by cell_ids or by start_index and end_index.",
            "Give exactly one of the two.",
        )
    if cell_ids is not None:
        if not cell_ids:
            raise InvalidArgument("cell_ids is empty.", "Name at least one cell.")
        return cell_ids
    assert start_index is not None
    start = notebook.position(start_index)
    if end_index is None:
        end = start + count
    else:
        end = end_index + len(notebook) if end_index < 0 else end_index
    if not start < end <= len(notebook):
        raise InvalidArgument(
            f"The range from {start_index} to {end} (excluded) is not one of existing cells; "
            f"the notebook has {len(notebook)}.",
            "Give start_index < end_index <= number of cells.",
        )
    return range(start, end)


def code_indexes(
    notebook: Notebook, start_index: int | None, end_index: int | None, wanted: bool = True
) -> list[int]:
    """The code cells of a half-open range, or of the whole notebook.

    Raises:
        InvalidArgument: There are none, and some are wanted.
    """
    if start_index is None and end_index is None:
        indexes: Sequence[int] = range(len(notebook))
    elif start_index is None:
        raise InvalidArgument("end_index is given without start_index.", "Give both.")
    else:
        indexes = targets(notebook, start_index, end_index, None).indexes
    found = [index for index in indexes if notebook.cell_type(index) == "code"]
    if wanted and not found:
        raise NotCode("There is no code cell among these; nothing was run.", "Name code cells.")
    return found


def code_cells(notebook: Notebook) -> list[str]:
    """The ids of all code cells."""
    return [notebook.id_at(index) for index in code_indexes(notebook, None, None)]


def _named(
    notebook: Notebook, cell: CellRef | None, if_revision: str | None = None
) -> tuple[int, str | None]:
    """The index of a cell, and the revision at which the caller has read it."""
    if cell is None:
        raise InvalidArgument(
            "An update does not say which cell it is for.",
            "Give cell_id or index in each update, or cell_ids, or start_index; or old_text that "
            "only one cell has.",
        )
    given = parse_revision(if_revision) if if_revision is not None else None
    if isinstance(cell, int):
        return notebook.position(cell), given
    # Ids have no at-sign and no colon, unless a program made them that does not care.
    if cell.startswith(TEXT) and not notebook.has(cell):
        return _only_with(notebook, cell.removeprefix(TEXT)), given
    handle = Handle(cell) if notebook.has(cell) else parse_cell(cell)
    if given and handle.revision and given != handle.revision:
        raise InvalidArgument(
            f"{cell[:80]!r} has another revision than if_revision={given}. Nothing was done.",
            "Give the revision once: the handle alone is enough.",
        )
    return notebook.find(handle.name), handle.revision or given


def by_old_text(
    notebook: Notebook, cells: Sequence[CellRef | None], old_texts: Sequence[str | None]
) -> list[CellRef | None]:
    """The cells of updates, of which some are only named by what they say.

    Raises:
        TextMismatch: No cell has such a text.
        AmbiguousCell: Several have it.
    """
    pairs = list(zip(cells, old_texts, strict=True))
    found = with_texts(notebook, [old for cell, old in pairs if cell is None and old])
    named: list[CellRef | None] = []
    for cell, old in pairs:
        if cell is not None or not old:
            named.append(cell)
        elif places := found[old]:
            named.append(notebook.id_at(_only(notebook, old, places)))
        else:
            raise TextMismatch(
                f"old_text {old[:80]!r} is in no cell. Nothing was changed.",
                "Read the cell again, and quote its text as it is.",
                matches=0,
            )
    return list(_found(notebook, named))


def _only_with(notebook: Notebook, wanted: str) -> int:
    """The one cell whose source has a text in it."""
    return _only(notebook, wanted, with_texts(notebook, [wanted])[wanted] if wanted else [])


def _only(notebook: Notebook, wanted: str, found: Sequence[int]) -> int:
    if len(found) == 1:
        return found[0]
    if not found:
        raise CellNotFound(
            f"No cell has the text {wanted[:80]!r}.",
            "Call get_notebook with format=outline to see the cells.",
            cell_id=wanted,
        )
    handles = ", ".join(map(notebook.handle, found[:5]))
    raise AmbiguousCell(
        f"{len(found)} cells have the text {wanted[:80]!r}: {handles}.",
        "Repeat with the handle of the one you mean, or with more of its text.",
        cell_id=wanted,
        candidates=[notebook.id_at(index) for index in found[:5]],
    )


def with_texts(notebook: Notebook, wanted: Sequence[str]) -> dict[str, list[int]]:
    """The cells whose source has each of some texts in it, literally.

    Raises:
        TooLarge: They are more than can be looked for while everybody waits.
    """
    if len(wanted) > _MOST_TEXTS:
        raise TooLarge(
            f"{len(wanted)} cells are named by their text; at most {_MOST_TEXTS} can be.",
            "Name the others by their handles.",
        )
    found: dict[str, list[int]] = {text: [] for text in wanted}
    with notebook.doc.transaction():  # one for all of them
        for index in range(len(notebook) if wanted else 0):
            source = notebook.source(index)
            for text, places in found.items():
                if text in source:
                    places.append(index)
    return found


def _index(notebook: Notebook, cell: CellRef | None) -> int:
    return _named(notebook, cell)[0]


def _places(
    notebook: Notebook,
    count: int,
    positions: Sequence[int] | None,
    start_position: int | None,
    after_cell: CellRef | None,
) -> list[int]:
    if sum(given is not None for given in (positions, start_position, after_cell)) > 1:
        raise InvalidArgument(
            "More than one of positions, start_position and after_cell_id is given.",
            "Say where to insert in one way only.",
        )
    if positions is not None:
        if len(positions) != count:
            raise InvalidArgument(
                f"{count} cells but {len(positions)} positions.", "Give one position for each cell."
            )
        return [_place(notebook, position, None) for position in positions]
    if start_position is None and after_cell is None:
        start_position = len(notebook)
    return [_place(notebook, start_position, after_cell)] * count


def _place(notebook: Notebook, position: int | None, after_cell: CellRef | None) -> int:
    """Where to insert; -1 is the end."""
    if after_cell is not None:
        return _index(notebook, after_cell) + 1
    assert position is not None
    place = position + len(notebook) + 1 if position < 0 else position
    if not 0 <= place <= len(notebook):
        raise InvalidArgument(
            f"Position {position} is outside of the notebook, which has {len(notebook)} cells.",
            f"Give 0 (the top) to {len(notebook)} (the end), or -1 for the end.",
        )
    return place


def _follows(notebook: Notebook, index: int) -> str | None:
    return notebook.id_at(index - 1) if index else None


# -- checks ----------------------------------------------------------------------------------


def guard(here: OpenDocument, targets: Targets) -> None:
    """See that cells still say what the caller has read.

    Raises:
        StaleRevision: One does not.
    """
    for index, wanted in zip(targets.indexes, targets.revisions, strict=True):
        if wanted is not None and wanted != here.peer.notebook.revision(index):
            raise _stale(here, index, wanted)


def _guard_place(here: OpenDocument, after_cell: CellRef | None) -> None:
    if after_cell is not None:
        index, revision = _named(here.peer.notebook, after_cell)
        guard(here, Targets([index], [revision]))


def _stale(here: OpenDocument, index: int, wanted: str) -> StaleRevision:
    notebook = here.peer.notebook
    actual, source, cell_id = (
        notebook.revision(index),
        notebook.source(index),
        notebook.id_at(index),
    )
    handle = notebook.handle(index)
    seen = here.peer.shown.get(wanted)
    diff = None if seen is None else unified(seen, source)
    changed = f"\nWhat changed since {wanted}:\n{fenced(diff)}" if diff else ""
    unknown = "" if seen is not None else f" Revision {wanted} was not shown here lately."
    shown = text.clip(source, _SHOWN_SOURCE)
    here.peer.shown.add([notebook.view(index, outputs=False)])
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


def _check_size(limits: Limits, contents: Sequence[str], what: str) -> None:
    if not contents:
        raise InvalidArgument(
            f"{what} is empty; nothing was changed.", f"Give at least one of {what}."
        )
    check_count(limits, len(contents))
    for content in contents:
        text.require_storable(content)
    total = sum(map(len, contents))
    if total > limits.source_length:
        raise _too_long(total, limits)


def check_count(limits: Limits, count: int, next_step: str = "Split the call.") -> None:
    """Refuse to change more cells than one call may.

    Raises:
        TooLarge: They are more.
    """
    if count > limits.cells_per_call:
        raise TooLarge(
            f"{count:,} cells in one call; at most {limits.cells_per_call:,} are allowed. "
            "Nothing was changed.",
            next_step,
        )


def _check_cell(limits: Limits, source: str) -> None:
    if len(source) > limits.source_length:
        raise _too_long(len(source), limits)


def _too_long(length: int, limits: Limits) -> TooLarge:
    return TooLarge(
        f"{length:,} characters of source; at most {limits.source_length:,} are allowed. "
        "Nothing was changed.",
        "Put large data in a file and load it from the cell.",
    )


def _check_type(cell_type: str) -> None:
    if cell_type not in _CELL_TYPES:
        raise InvalidArgument(
            f"There is no cell type {cell_type!r}.", f"Use one of {', '.join(_CELL_TYPES)}."
        )


# -- applying --------------------------------------------------------------------------------


def _combine(
    notebook: Notebook, pending: dict[int, _Pending], index: int, update: CellUpdate
) -> None:
    """Check one update and add it to what is wanted of its cell."""
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
        wanted = pending[index] = _Pending(source, source)
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
            raise _placed(error, notebook, index, update.old_text) from error
    if update.cell_type is not None:
        _check_type(update.cell_type)
        wanted.cell_type = update.cell_type
    if update.metadata:
        wanted.metadata.update(update.metadata)


def _placed(error: TextMismatch, notebook: Notebook, index: int, old_text: str) -> TextMismatch:
    """The same error, with the handle of the cell that was meant, if there is only one."""
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


def _apply(
    notebook: Notebook, index: int, wanted: _Pending, differ: Differ, record: CallRecord
) -> None:
    cell_id = notebook.id_at(index)
    if wanted.source != wanted.before:
        inserted = notebook.set_source(index, wanted.source, differ)
        record(undo.SourceChanged(cell_id, wanted.before, wanted.source), inserted)
    if wanted.metadata:
        now = notebook.metadata(index)
        before = {key: now.get(key) for key in wanted.metadata}
        notebook.set_metadata(index, wanted.metadata)
        record(undo.MetadataChanged(cell_id, before, dict(wanted.metadata)))
    if wanted.cell_type is not None and wanted.cell_type != notebook.cell_type(index):
        # Last: it replaces the cell, with whatever it holds by then.
        record(undo.TypeChanged(cell_id, notebook.value(index), wanted.cell_type))
        notebook.set_type(index, cast("CellType", wanted.cell_type))
