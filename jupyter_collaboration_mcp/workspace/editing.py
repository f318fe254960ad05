"""Editing a live notebook: each function is one call, all or nothing, in one transaction.

Each function returns an edit, which the notebook's peer performs once it is current. The edit
resolves and checks everything before it changes anything, and nobody can change the notebook in
between. It works on the notebook that it is given: large edits are prepared on a copy.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..collaboration import changes
from ..collaboration.carets import carets_in
from ..collaboration.changes.change import UndoPlan
from ..collaboration.edits import LARGE_CELLS, LARGE_TEXT, CallRecord, Edit, Work
from ..collaboration.undo import plan_undo
from ..documents.differ import Differ
from ..documents.notebook import Notebook
from ..documents.protection import CellAction
from ..documents.shared_cells import new_cell
from ..documents.text_document import WHOLE, Document, TextDocument
from ..errors import InvalidArgument, KernelBusy, NotCode, StepNotFound
from ..remedies import Intent
from .call_limits import (
    Limits,
    check_cell_type,
    check_contents,
    check_count,
    check_room,
    check_source,
)
from .cell_selection import (
    CellRef,
    Targets,
    cell_before,
    code_indexes,
    insertion_point,
    insertion_points,
    targets,
)
from .cell_updates import CellChanges, apply_changes
from .etiquette import caret_line
from .guards import RunRequest, guard_cells, guard_place, guard_text
from .open_document import OpenDocument
from .undo_steps import AgentLog


@dataclass(frozen=True, slots=True)
class NewCell:
    content: str
    cell_type: str = "code"


def insert_cells(
    here: OpenDocument,
    cells: Sequence[NewCell],
    positions: Sequence[int] | None,
    start_position: int | None,
    after_cell: CellRef | None,
    limits: Limits,
    running: RunRequest,
) -> Edit[list[str]]:
    """Insert cells; returns their ids in the order given."""
    check_contents(limits, [cell.content for cell in cells], "cells")
    for cell in cells:
        check_cell_type(cell.cell_type)
        check_source(limits, cell.content)
        running.check(cell.cell_type)

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        check_room(limits, len(notebook), len(cells))
        places = insertion_points(notebook, len(cells), positions, start_position, after_cell)
        ids: list[str] = [""] * len(cells)
        groups: dict[int, list[int]] = {}
        anywhere = positions is None and after_cell is None
        filled = (
            anywhere
            and bool(cells[0].content)
            and _is_blank(notebook)
            and not here.etiquette.keeps_out(here.peer.link, notebook, 0)
        )
        if filled:  # and the others come after it
            here.check_cells(notebook, record, {0: [CellAction.EDIT]})
            ids[0] = notebook.id_at(0)
            wanted = CellChanges(cells[0].content, "", cells[0].cell_type)
            apply_changes(notebook, 0, wanted, Differ(), record)
            places = [1] * len(cells)
        for number, place in list(enumerate(places))[filled:]:
            groups.setdefault(place, []).append(number)
        for place in sorted(groups, reverse=True):  # so that lower positions stay valid
            numbers = groups[place]
            values = [new_cell(cells[n].cell_type, cells[n].content) for n in numbers]
            for number, cell_id in zip(numbers, notebook.insert(place, values), strict=True):
                ids[number] = cell_id
                index = notebook.find(cell_id)
                made = changes.CellInsertion(
                    cell_id,
                    cells[number].content,
                    cells[number].cell_type,
                    cell_before(notebook, index),
                )
                record(made, written=notebook.last_character(index))
        return ids

    def begin() -> Work[list[str]]:
        guard_place(here, after_cell)
        return work

    large = len(cells) > LARGE_CELLS
    return Edit(begin, large)


def delete_cells(
    here: OpenDocument, targets: Targets, limits: Limits, running: RunRequest
) -> Edit[list[str]]:
    """Delete cells; returns their ids."""
    check_count(limits, len(targets.indexes))
    chosen = _Selection(here, targets)

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        indexes = list(dict.fromkeys(chosen.indexes(notebook)))
        ids = [notebook.id_at(index) for index in indexes]
        for index in indexes:
            running.check(notebook.cell_type(index))
        here.check_cells(notebook, record, dict.fromkeys(indexes, (CellAction.DELETE,)))
        # Last first: when this is undone in reverse, each cell finds its predecessor in place.
        for index in sorted(indexes, reverse=True):
            value = notebook.value(index)
            if "execution_state" in value:
                value["execution_state"] = "idle"  # a run may be over when it is restored
            record(changes.CellDeletion(str(value["id"]), value, cell_before(notebook, index)))
        notebook.delete(indexes)
        return ids

    large = len(targets.indexes) > LARGE_CELLS
    return Edit(lambda: chosen.guarded(work), large)


def move_cells(
    here: OpenDocument,
    targets: Targets,
    to_index: int | None,
    after_cell: CellRef | None,
    limits: Limits,
) -> Edit[list[str]]:
    """Move cells, in the order given; returns their ids."""
    check_count(limits, len(targets.indexes))
    chosen = _Selection(here, targets)
    if len(set(targets.indexes)) != len(targets.indexes):
        raise InvalidArgument("A cell is named twice.", "Name each cell to move once.")
    if (to_index is None) == (after_cell is None):
        raise InvalidArgument(
            "Exactly one of to_index and after_cell_id says where to.", "Give one of them."
        )

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        target = insertion_point(notebook, to_index, after_cell)
        indexes = chosen.indexes(notebook)
        here.check_cells(notebook, record, dict.fromkeys(indexes, (CellAction.MOVE,)))
        for index in sorted(indexes, reverse=True):
            record(changes.CellMove(notebook.id_at(index), cell_before(notebook, index)))
        notebook.move(indexes, target)
        return chosen.ids

    def begin() -> Work[list[str]]:
        guard_place(here, after_cell)
        return chosen.guarded(work)

    large = len(targets.indexes) > LARGE_CELLS
    return Edit(begin, large)


@dataclass(frozen=True, slots=True)
class UndoResult:
    """What an undo did."""

    steps: int
    calls: list[str]
    """The tools that were called."""
    ids: list[str]
    """The ids of these calls."""
    cell_ids: list[str]
    """The cells that were changed or restored."""
    removed: list[str]
    notes: list[str]


def undo(
    here: OpenDocument,
    steps: int,
    since: int | None,
    force: bool,
    call: str | None = None,
    of: AgentLog | None = None,
) -> Edit[UndoResult]:
    """Undo an agent's latest calls, or one of them, and only what they did.

    Args:
        since: Undo all calls after this version instead.
        call: Undo only the call with this id, and keep later ones.
        of: The steps of another agent; by default those of this one.

    Raises:
        InvalidArgument: The arguments make no sense.
        StepNotFound: There is no such call.
    """
    if steps < 1:
        raise InvalidArgument(f"steps is {steps}.", "Give how many calls to undo, at least 1.")
    if since is not None and call is not None:
        raise InvalidArgument("Both since and call_id are given.", "Give one of them.")
    if since is not None and since > max(here.peer.version, time.time_ns() // 1_000_000):
        raise InvalidArgument(
            f"since is {since}, which is in the future.",
            "Give a version that an answer has shown.",
        )
    log, author = (here.seat.undo, "") if of is None else (of.log, of.name)

    def choose() -> tuple[list[changes.Step], list[changes.Step]]:
        """What to undo, and what came after it and stays; both newest first."""
        if call is None:
            return log.last(steps) if since is None else log.since(since), []
        if (found := log.find(call)) is None:
            raise StepNotFound.named(call)
        return [found[0]], found[1]

    def begin() -> Work[UndoResult]:
        guard_text(here, here.expected)
        taken, later = choose()

        def work(document: Document, record: CallRecord) -> UndoResult:
            made = plan_undo(document, taken, force, later, author)
            _check_undo(here, document, record, made)
            made.apply(record.pass_action)
            record.undone, record.changes, record.undone_in = taken, made.changes, log
            return UndoResult(
                steps=len(taken),
                calls=[step.call for step in taken],
                ids=[step.id for step in taken],
                cell_ids=[cell_id for cell_id in made.sources if document.has(cell_id)],
                removed=sorted(made.removed),
                notes=made.notes + ([*made.conflicts] if force else []),
            )

        return work

    pending, _ = choose()
    large = (
        sum(len(step.changes) for step in pending) > LARGE_CELLS
        or sum(step.characters for step in pending) > LARGE_TEXT
    )
    return Edit(begin, large, merges=True)


def to_clear(notebook: Notebook, cells: Sequence[CellRef] | None, limits: Limits) -> list[int]:
    """The code cells with outputs or a count, among all cells or those named.

    Raises:
        NotCode: A named cell is not a code cell.
        KernelBusy: A named cell is running and would produce more outputs.
        TooLarge: There are more than a call may change.
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
            Intent.WAIT_OR_INTERRUPT,
        )
    found = [index for index in indexes if index in running or notebook.was_run(index)]
    check_count(limits, len(found), "Name fewer cells in each call, by cell_ids.")
    return [index for index in found if index not in running]


def check_clear(here: OpenDocument, limits: Limits) -> None:
    """Check that the outputs of all cells may be cleared; changes nothing.

    Raises:
        CollaborationError: They may not.
    """
    notebook = here.peer.notebook
    indexes = to_clear(notebook, None, limits)
    here.check_cells(notebook, CallRecord(), dict.fromkeys(indexes, (CellAction.CLEAR,)))


def check_deletion(here: OpenDocument, indexes: Sequence[int]) -> dict[str, list[str]]:
    """Check that cells may be deleted; changes nothing. Returns people with carets in them.

    Raises:
        CellError: They may not.
    """
    record = CallRecord()
    touched = dict.fromkeys(indexes, (CellAction.DELETE,))
    here.check_cells(here.peer.notebook, record, touched)
    return record.people


def check_overwrite(here: OpenDocument) -> str:
    """Check that a whole notebook may be overwritten. Returns whose carets are in it, as a line.

    Raises:
        CellError: It has cells that may not be deleted.
    """
    notebook = here.peer.notebook
    return caret_line(notebook, check_deletion(here, range(len(notebook))))


def clear_outputs(
    here: OpenDocument, cells: Sequence[CellRef] | None, limits: Limits
) -> Edit[list[str]]:
    """Clear the outputs of the named code cells, or of all; returns the cells that had any."""

    def work(notebook: Notebook, record: CallRecord) -> list[str]:
        indexes = to_clear(notebook, cells, limits)
        here.check_cells(notebook, record, dict.fromkeys(indexes, (CellAction.CLEAR,)))
        ids = [notebook.id_at(index) for index in indexes]
        for index, cell_id in zip(indexes, ids, strict=True):
            record(changes.OutputClearing(cell_id, notebook.value(index)))
            notebook.clear_outputs(index)
        return ids

    def begin() -> Work[list[str]]:
        if cells is not None:
            guard_cells(here, targets(here.peer.notebook, None, None, cells))
        return work

    count = len(here.peer.notebook) if cells is None else len(cells)
    return Edit(begin, count > LARGE_CELLS)


def _check_undo(here: OpenDocument, document: Document, record: CallRecord, plan: UndoPlan) -> None:
    """Check what an undo is about to do. Cells that it restores were not protected."""
    if isinstance(document, TextDocument):
        if carets_in(here.peer.link.states):  # otherwise do not compare texts once more
            now = str(document)
            here.check_text(document, record, now, Differ().edits(now, plan.source(WHOLE)))
        return
    touched = {
        document.find(cell_id): actions
        for cell_id, actions in plan.touched.items()
        if document.has(cell_id)
    }
    here.check_cells(
        document, record, touched, "You set the mark yourself, but only a person can remove it."
    )


class _Selection:
    """The cells that a call means, wherever they are when the edit is performed."""

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
        """Refuse the work if the live cells no longer match what the caller has read."""
        now = self.indexes(self._here.peer.notebook)
        guard_cells(self._here, Targets(now, self._targets.revisions))
        return work


def _is_blank(notebook: Notebook) -> bool:
    """Whether there is only the empty cell that Jupyter puts into a new notebook."""
    return (
        len(notebook) == 1
        and not notebook.source(0)
        and notebook.never_run(0)
        and not notebook.metadata(0).keys() - {"trusted"}
    )
