"""What people do with the changes of agents: look at them as they are now, keep or undo them.

An undo here is an edit by a person: it goes to the history, the activity log and the news of agents
under their name. It is planned as any undo, so it keeps every character that others wrote, and it
takes what is undone from the agent's own list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.steps import StoredStep
from ..collaboration.activity.activity import Activity, how_many, now
from ..collaboration.carets import carets_in, people_in_texts, text_ids
from ..collaboration.changes.change import UndoPlan
from ..collaboration.changes.storage import stored
from ..collaboration.edits import LARGE_CELLS, LARGE_TEXT, CallRecord, Edit, Work
from ..collaboration.panel.entries import CallEntry, CellEntry, Review
from ..collaboration.panel.ledger import Ledger
from ..collaboration.peer import RoomPeer
from ..collaboration.presence import Profile
from ..collaboration.seats import Seat
from ..collaboration.undo import plan_undo
from ..documents.foreign_text import inline
from ..documents.members import Member
from ..documents.notebook import Notebook
from ..documents.protection import CellAction
from ..documents.text_document import WHOLE, Document
from ..errors import (
    AlreadyReviewed,
    CollaborationError,
    DocumentNotFound,
    ForkNotFound,
    NotInPanel,
    ReviewGone,
    UndoConflict,
)
from .call_diffs import Chosen, Parts, diffs_in, diffs_on_copy, is_large, unknown
from .oversight import Durable
from .turns import Turns
from .workspace import Workspace

#: What an undo by a person is called where the calls of agents have the names of tools.
UNDO = "panel_undo"

OnUndone = Callable[[CallEntry, str, Sequence[str], Sequence[StoredStep], str], None]
"""Takes the call, the agent's key, the steps that are gone, what is left of others, and a note."""

#: Cells whose texts one answer has.
_CELLS = 200

#: What puts another cell into the place of one, or none.
_REPLACING = (CellAction.MOVE, CellAction.RETYPE, CellAction.DELETE)


class Reviews:
    """Reviews of calls in the documents of one server."""

    def __init__(self, workspace: Workspace, ledger: Ledger, kept: Durable) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._kept = kept
        self._turns = Turns()
        """One person at a time reviews a call: the first one decides."""
        self.on_undone: OnUndone | None = None
        """Called with what was taken from an agent's own list."""

    def find(self, call_id: str) -> CallEntry:
        """A call by its id.

        Raises:
            NotInPanel: There is none.
        """
        call = self._ledger.calls.get(call_id)
        if call is None:
            raise NotInPanel.of("call", call_id)
        return call

    async def diffs(
        self, call: CallEntry, only: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """What a call did to each cell, and what the cell would say without it, as of now.

        Of a call that cannot be undone any more, there is nothing to show.

        Args:
            only: The cells that are wanted; None for all of them.
        """
        cells = [cell for cell in call.cells if only is None or cell.cell_id in only][:_CELLS]
        if not cells or not call.steps:
            return [unknown(cell) for cell in cells]
        try:
            parts = await self._parts(call)
        except ReviewGone:
            return [unknown(cell) for cell in cells]
        peer = parts.peer
        if is_large(parts, cells):
            state, path = peer.doc.get_update(), peer.link.path
            return await asyncio.to_thread(
                diffs_on_copy, parts, type(peer.document), state, path, cells
            )
        return diffs_in(parts, peer.document, peer.link.path, cells)

    async def keep(self, call_id: str, cell_id: str | None, by: Member) -> CallEntry:
        """Take a call, or what it did to one cell, off the list of what is to be reviewed.

        Raises:
            NotInPanel, AlreadyReviewed: There is no such thing to review.
        """
        call = self.find(call_id)
        async with self._turns.of(call.id):
            self._mark(call, self._open_cells(call, cell_id), "kept", by)
        await self._kept.flush()  # what cannot be stored holds until the server is restarted
        return call

    async def undo(self, call_id: str, cell_id: str | None, force: bool, by: Member) -> CallEntry:
        """Undo a call, or what it did to one cell.

        Args:
            force: Also where others have written into what the agent wrote; theirs stays.

        Raises:
            NotInPanel, AlreadyReviewed: There is no such thing to review.
            ReviewGone: The document or the cell is not there any more.
            UndoConflict: Others have changed what is to be undone.
        """
        call = self.find(call_id)
        async with self._turns.of(call.id):
            cells = self._open_cells(call, cell_id)
            parts = await self._parts(call)
            chosen = chosen_in(call, cell_id)
            lost = [each for each in cells if _is_gone(parts, each)]
            if len(lost) == len(cells):
                raise ReviewGone.cells([each.name for each in lost])
            seat = Seat(Profile(f"{by.name} <person:{by.id}>", by.name), person=by)
            names = {cell.cell_id: cell.name for cell in cells}
            check = None if force else partial(_refuse_busy, parts.peer, by, names)
            await parts.peer.perform(seat, UNDO, _undoing(parts, chosen, force, names, check))
            await parts.peer.wait_acknowledged()
            self._mark(call, cells, "undone", by)
            left = parts.without(chosen)
            kept = {step.id for step in left}
            call.steps = [step for step in call.steps if step in kept]
            note = self._tell(call, cells, parts, by)
            if self.on_undone is not None:
                gone = [step.id for step in parts.steps if step.id not in kept]
                self.on_undone(call, parts.log.agent, gone, [stored(step) for step in left], note)
        await self._kept.flush()
        return call

    def _open_cells(self, call: CallEntry, cell_id: str | None) -> list[CellEntry]:
        """What is left to review.

        Raises:
            NotInPanel: The call has not changed that cell.
            AlreadyReviewed: Somebody was first.
        """
        if cell_id is not None and call.cell(cell_id) is None:
            raise NotInPanel.cell(cell_id)
        cells = [each for each in call.open_cells() if cell_id in (None, each.cell_id)]
        if not cells:
            cell = None if cell_id is None else call.cell(cell_id)
            verdict = call.review if cell is None else cell.review
            raise AlreadyReviewed.by(call.reviewed_by, verdict)
        return cells

    def _mark(
        self, call: CallEntry, cells: Sequence[CellEntry], verdict: Review, by: Member
    ) -> None:
        for cell in cells:
            cell.review = verdict
        call.reviewed_by, call.reviewed_at = by.name, now()
        self._ledger.say_call(call)

    async def _parts(self, call: CallEntry) -> Parts:
        """What a call did, with the document as it is now. Do not await anything before its use.

        Raises:
            ReviewGone: The document, or what undoes the call, is gone.
        """
        if not call.steps:
            raise ReviewGone.too_old()
        room = RoomId(call.room)
        agent = self._ledger.agents[call.agent]
        log = await self._workspace.rooms.undo_steps.recall(room, agent.key)
        if self._workspace.path_of(room.file_id) is None:
            raise ReviewGone.document(call.path)
        try:
            peer = await self._workspace.peer(room)
        except (DocumentNotFound, ForkNotFound) as error:
            raise ReviewGone.document(call.path) from error
        steps = [step for step in log.log.last(len(log.log)) if step.id in call.steps]
        if not steps:
            raise ReviewGone.too_old()
        later = []
        for step in log.log.last(len(log.log)):
            if step.id == steps[-1].id:
                break
            if step.id not in call.steps:
                later.append(step)
        return Parts(peer, log, steps, later)

    def _tell(self, call: CallEntry, cells: Sequence[CellEntry], parts: Parts, by: Member) -> str:
        """Tell the agent and the activity log what a person has undone; returns what it is told."""
        what = how_many(len(cells), "cell") if cells[0].cell_id != WHOLE else "the text"
        note = f"{inline(by.name)} has undone what your call {call.tool} did to {what}."
        if parts.log.seat is not None:
            parts.log.seat.notes.append(note)
        self._workspace.activity.record(
            Activity.of(
                "edit",
                by,
                f"{by.name} undid what {parts.log.name} did to {what}",
                path=call.path or "",
                file_id=call.file_id or "",
                cells=[cell.cell_id for cell in cells],
                tool=UNDO,
            )
        )
        return note


def chosen_in(call: CallEntry, cell_id: str | None) -> Chosen:
    """What an undo is about: a cell, or all that nobody has reviewed. A call names only so many of
    the cells that it has changed."""
    if cell_id is not None:
        return cell_id.__eq__
    decided = {cell.cell_id for cell in call.cells if cell.review != "open"}
    return lambda each: each not in decided


def _undoing(
    parts: Parts,
    chosen: Chosen,
    force: bool,
    names: dict[str, str],
    check: Callable[[Document, CallRecord, UndoPlan], None] | None,
) -> Edit[UndoPlan]:
    """The edit that undoes a part of a call.

    Args:
        chosen: The cells.
        names: What people call them.
        check: Refuses a plan before it is carried out.
    """
    taken, left = parts.only(chosen), parts.without(chosen)

    def work(document: Document, record: CallRecord) -> UndoPlan:
        plan = plan_undo(document, taken, True, parts.later, parts.log.name)
        if plan.conflicting and not force:
            raise UndoConflict.over(_named(sorted(plan.conflicting), names))
        if check is not None:
            check(document, record, plan)
        plan.apply(record.pass_action)
        record.undone, record.reduced = [*parts.steps], left
        record.changes, record.undone_in = plan.changes, parts.log.log
        return plan

    def begin() -> Work[UndoPlan]:
        known = {step.id for step in parts.log.log}
        if not all(step.id in known for step in parts.steps):
            raise AlreadyReviewed.by(parts.log.name, "undone")
        return work

    large = (
        sum(len(step.changes) for step in taken) > LARGE_CELLS
        or sum(step.characters for step in taken) > LARGE_TEXT
    )
    return Edit(begin, large, merges=True)


def _refuse_busy(
    peer: RoomPeer,
    by: Member,
    names: Mapping[str, str],
    document: Document,
    record: CallRecord,
    plan: UndoPlan,
) -> None:
    """Refuse to replace or delete cells in which others than the reviewer have their carets: what
    they are typing would be lost, and their editors closed.

    Raises:
        UndoConflict: Somebody types in such a cell.
    """
    if not isinstance(document, Notebook):
        return
    replaced = [
        document.find(cell_id)
        for cell_id, actions in plan.touched.items()
        if not actions.isdisjoint(_REPLACING) and document.has(cell_id)
    ]
    texts = {text: document.id_at(index) for text, index in text_ids(document, replaced).items()}
    indexes = dict(zip(texts, range(len(texts)), strict=True))
    cells = list(texts.values())

    def check() -> None:
        carets = [each for each in carets_in(peer.link.states) if each.member.id != by.id]
        if people := people_in_texts(indexes, carets):
            where = _named([cells[index] for index in people], names)
            who = sorted({name for each in people.values() for name in each})
            raise UndoConflict.typing(who, where)

    check()
    if record.on_copy:  # people may come before it is applied
        record.recheck = lambda live, changed: check()


def _named(cells: Sequence[str], names: Mapping[str, str]) -> dict[str, str]:
    """What people call some cells, by id."""
    return {cell_id: names.get(cell_id, cell_id) for cell_id in cells}


def _is_gone(parts: Parts, cell: CellEntry) -> bool:
    """Whether there is nothing to undo because somebody has deleted a cell."""
    document, changes = parts.peer.document, parts.about(cell.cell_id)
    if not isinstance(document, Notebook) or document.has(cell.cell_id) or not changes:
        return False
    return changes[-1].exists_after is not False  # the call itself has not deleted it


async def review_all(
    reviews: Reviews, calls: Sequence[CallEntry], action: str, by: Member
) -> tuple[list[CallEntry], list[dict[str, Any]]]:
    """Keep or undo all of some calls, the newest first; what cannot be undone stays open."""
    done: list[CallEntry] = []
    conflicts: list[dict[str, Any]] = []
    for call in sorted(calls, key=lambda each: each.began, reverse=True):
        try:
            if action == "keep":
                done.append(await reviews.keep(call.id, None, by))
            else:
                done.append(await reviews.undo(call.id, None, False, by))
        except (AlreadyReviewed, NotInPanel):
            continue  # somebody was first
        except CollaborationError as error:
            conflicts.append({"call": call.id, "message": error.happened})
    return done, conflicts
