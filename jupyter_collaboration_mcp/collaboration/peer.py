"""The heart of the package: one peer per open document, shared by all agents of this process.

A peer has its own replica and is a member of the room like anybody else. It catches up with the
room before each read or edit, so that nobody acts on stale text, and every edit is one transaction
with no `await` in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pycrdt import Doc, create_update_message

from ..backends.protocols.rooms import RoomLink
from ..backends.protocols.steps import NoSteps, Steps
from ..documents.cell_mirror import Mark
from ..documents.notebook import Notebook
from ..documents.positions import start_of
from ..documents.text_document import Document, TextDocument
from ..errors import CollaborationError, DocumentBusy
from ..owned_tasks import OwnedTasks
from .change_log import ChangeLog
from .changes import Step
from .changes.storage import stored
from .edits import CallRecord, Edit, Kept, OnStep, PreparedEdit, no_step, prepare
from .presence import DocumentPresence, Ends
from .replica import Clocks, Contribution, EditIsLarge, Replica
from .room_sync import RoomSync
from .seats import Seat, Seats
from .seen_sources import SeenSources

#: How often a reader waits for a change of the file, and how many seconds each time: the server
#: checks the file once a second.
_LOOKS, _LOOK = 16, 0.2

#: Seconds before each retry of a large edit that was interrupted by others.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Attempt(Generic[T]):
    """An edit as it was made on a copy, and the moment of the copy."""

    edit: PreparedEdit[T]
    mark: Mark
    writes: int


class RoomPeer:
    """A collaborator in one room."""

    def __init__(self, link: RoomLink, steps: Steps | None = None) -> None:
        self.link = link
        self._steps = steps or NoSteps()
        self.seen_sources = SeenSources()
        self._replica = Replica(link)
        self.doc: Doc[Any] = self._replica.doc
        self.document: Document = self._replica.document
        self.changes: ChangeLog = self._replica.changes
        self._seats = Seats(link)
        self.notes: list[str] = self._seats.notes
        """Notes for the next answer, whichever agent gets it."""
        self._sync = RoomSync(link, self._replica, self._seats.notify)
        self._preparing = asyncio.Lock()
        self._replacing = False  # whether an edit is replacing the content
        self._tasks = OwnedTasks()
        self._on_members: Callable[[], None] | None = None
        self._on_look: Callable[[], None] | None = None
        link.attach(self.doc)
        self._sync.receive()  # the whole document; before anybody observes changes
        self._replica.follow()
        self._replica.meet()
        link.on_arrival(self._meet)

    def close(self) -> None:
        """Release a peer that is no longer used, whose link is closed."""
        self._replica.close()

    @property
    def notebook(self) -> Notebook:
        """The document of a room that is known to be a notebook's."""
        assert isinstance(self.document, Notebook)
        return self.document

    @property
    def text(self) -> TextDocument:
        """The document of a room that is known to be a text file's."""
        assert isinstance(self.document, TextDocument)
        return self.document

    @property
    def version(self) -> int:
        """Grows with every change; milliseconds, so that it stays comparable after a restart."""
        return self._replica.version

    @property
    def broken(self) -> bool:
        """Whether the document differs from the room's: an edit or an update failed halfway."""
        return self._replica.broken

    # -- catching up -------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Receive what the room has. Do not await anything between this and an edit."""
        await self._sync.catch_up()

    def receive(self) -> None:
        """Apply what has arrived from the room, without asking it whether there is more."""
        if not self.broken:
            self._sync.receive()

    async def catch_up_to_write(self) -> None:
        """Catch up in order to write at once; waits for a large edit that is being prepared.

        All writers here are one client of the room. An update that arrives in the meantime would
        make the prepared edit useless.
        """
        while True:
            if self._preparing.locked():
                async with self._preparing:
                    await self.catch_up()
                    return
            await self.catch_up()
            if not self._preparing.locked():
                return

    async def refresh(self) -> None:
        """Catch up with the file as well, if somebody has changed it on disk."""
        for _ in range(_LOOKS):
            if not await self.link.stale():
                break
            await asyncio.sleep(_LOOK)
            await self.catch_up()
        else:
            self.notes.append("The file was changed on disk; the server has not noticed it yet.")
        await self.catch_up()

    # -- editing -----------------------------------------------------------------------------

    @contextmanager
    def edit(self, seat: Seat, call: str, on_step: OnStep = no_step) -> Iterator[CallRecord]:
        """The changes of one call: one transaction, one step to undo, one author."""
        record = CallRecord()
        record.on_step = on_step
        self._replica.author = seat.member
        with self._replica.transaction(seat.agent):
            yield record
        self._finish(seat, call, record)

    async def perform(self, seat: Seat, call: str, edit: Edit[T], on_step: OnStep = no_step) -> T:
        """Make an edit, all or nothing, on an up-to-date document.

        Args:
            call: Names the step to undo: the tool, as its caller knows it.
            on_step: Called with what it has changed.

        Raises:
            DocumentBusy: Others kept changing the part that a large edit is about.
        """
        if not edit.large:
            if self._preparing.locked():
                await self.catch_up_to_write()
            with suppress(EditIsLarge):
                return self.perform_now(seat, call, edit, on_step, refuses_large=True)
        with self._alone(edit):
            for pause in (0.0, *_PAUSES):
                await asyncio.sleep(pause)
                async with self._preparing:
                    attempt = await self._prepare(edit)
                    attempt.edit.record.on_step = on_step
                    if not await self._apply(seat, call, attempt):
                        continue
                await asyncio.sleep(0)  # others first: the answer may be large, too
                return attempt.edit.result
        raise DocumentBusy.while_preparing()

    @contextmanager
    def _alone(self, edit: Edit[Any]) -> Iterator[None]:
        """Let only one such edit at a time be made."""
        if not edit.alone:
            yield
            return
        if self._replacing:
            raise DocumentBusy.while_replacing()
        self._replacing = True
        try:
            yield
        finally:
            self._replacing = False

    def perform_now(
        self,
        seat: Seat,
        call: str,
        edit: Edit[T],
        on_step: OnStep = no_step,
        refuses_large: bool = False,
    ) -> T:
        """Make an edit at once, however long it takes.

        Raises:
            EditIsLarge: It would take long, and that is refused.
        """
        with self.edit(seat, call, on_step) as record:
            record.refuses_large = refuses_large
            return edit.begin()(self.document, record)

    async def _prepare(self, edit: Edit[T]) -> _Attempt[T]:
        """Make an edit on a copy. Do not await anything between this and applying it."""
        await self.catch_up()
        work = edit.begin()
        mark, writes = self.document.mark(), self._replica.writes
        prepared = await asyncio.to_thread(
            prepare,
            type(self.document),
            self.doc.get_update(),
            self.doc.client_id,
            work,
            edit.merges,
        )
        if isinstance(prepared, CollaborationError):
            raise prepared
        await self.catch_up()
        return _Attempt(prepared, mark, writes)

    def _fits(self, attempt: _Attempt[Any]) -> bool:
        """Whether an edit that was prepared on a copy can be applied.

        Raises:
            CellError: People have protected what it is about, or are busy there.
        """
        # Our own writes use the same clocks as the prepared update.
        if self._replica.writes != attempt.writes or self._replica.broken:
            return False
        document, prepared = self.document, attempt.edit
        if not document.is_unchanged(attempt.mark, prepared.touched):
            return False
        changed = document.changed_since(attempt.mark)
        if prepared.record.recheck is not None and changed is not None:
            prepared.record.recheck(document, changed)
        return True

    async def _apply(self, seat: Seat, call: str, attempt: _Attempt[Any]) -> bool:
        """Apply an edit that was prepared on a copy; returns whether it still fitted."""
        prepared = attempt.edit
        if len(prepared.updates) > 1:
            # Whoever called may be gone in the middle of it.
            applying = self._tasks.start(self._apply_slices(seat, call, attempt))
            try:
                return await asyncio.shield(applying)
            except asyncio.CancelledError:
                await asyncio.wait([applying])
                raise
        if not self._fits(attempt):
            return False
        for update in prepared.updates:  # at most one
            self._apply_one(seat, update)
        self._finish(seat, call, prepared.record)
        return True

    def _apply_one(self, seat: Seat, update: bytes) -> None:
        self._replica.author = seat.member
        with self._replica.transaction(seat.agent):
            self.doc.apply_update(update)

    async def _apply_slices(self, seat: Seat, call: str, attempt: _Attempt[Any]) -> bool:
        """Apply an edit in slices, between which others have their turn.

        Nothing is received in between, so the slices fit here. Those that fail here are sent all
        the same: the room has the first ones.
        """
        prepared, record = attempt.edit, attempt.edit.record
        step = self._step(seat, call, record, self._replica.next_version())
        pends, begun = self.link.pends, False
        if pends:
            self._store(step, record)  # in the same commit as the slices
        try:
            async with self.link.as_one(prepared.updates), self._sync.closed():
                if not self._sync.receive_last() or not self._fits(attempt):
                    return False
                written = self._replica.attribute(
                    seat.member, call, prepared.clock, record.written_for
                )
                for update in prepared.updates:
                    self._apply_slice(seat, update, begun)
                    begun = True
                    self._replica.attribute(seat.member, call, prepared.clock)  # what was deleted
                    with self._replica.reserving():
                        await asyncio.sleep(0)
                self._replica.writes += 1
                self._keep(seat, record, step, written)
        finally:
            if pends and not begun:
                self._unstore(step, record)
        if not pends:
            self._store(step, record)
        return True

    def _apply_slice(self, seat: Seat, update: bytes, begun: bool) -> None:
        if self._replica.broken:
            self.link.send(create_update_message(update))
            return
        try:
            self._apply_one(seat, update)
        except Exception:
            if not begun:
                raise
            _log.exception("A slice of an edit failed in %s", self.link.room_id)
            self.link.send(create_update_message(update))

    def _step(self, seat: Seat, call: str, record: CallRecord, version: int) -> Step:
        # What a person does through us, people undo with the history.
        agent = seat.agent if seat.person is None else ""
        return Step(version, call, tuple(record.changes), agent)

    def _store(self, step: Step, record: CallRecord) -> None:
        """Keep what undoes an edit, or remove what was undone, in the next commit of the journal:
        without an await before or after the edit, both are in the same one."""
        if record.undone:
            self._steps.remove([undone.id for undone in record.undone])
            for left in record.reduced:
                self._steps.add(self.link.room_id, stored(left))
        elif record.changes and step.agent:
            self._steps.add(self.link.room_id, stored(step))

    def _unstore(self, step: Step, record: CallRecord) -> None:
        """Take that back, because the edit was not made."""
        for undone in record.undone:
            self._steps.add(self.link.room_id, stored(undone))
        self._steps.remove([step.id])

    def _finish(self, seat: Seat, call: str, record: CallRecord) -> None:
        """Record the author of a call's changes, how to undo them, and whom it may disturb."""
        self._replica.writes += 1
        written = self._replica.attribute(seat.member, call, written_for=record.written_for)
        step = self._step(seat, call, record, self.version)
        self._store(step, record)
        self._keep(seat, record, step, written)

    def _keep(self, seat: Seat, record: CallRecord, step: Step, written: Clocks) -> None:
        if record.changes or record.undone:
            if record.undone:
                log = seat.undo if record.undone_in is None else record.undone_in
                left = {step.id for step in record.reduced}
                log.replace(record.reduced)
                log.remove([step for step in record.undone if step.id not in left])
            else:
                seat.undo.push(step)
            self._sync.keep(step, self.link.at_once, written)
            self._report(Kept(self.link.room_id, self.document, step, record.undone), record)
        seat.people |= record.people
        if seat.presence is not None and record.changes:
            character = record.written
            if character is None and record.wrote_text:
                character = self.doc.client_id, written[1] - 1
            self._move_caret(seat.presence, record.changes[-1].cell_id, character)

    def _report(self, kept: Kept, record: CallRecord) -> None:
        try:
            record.on_step(kept)
        except Exception:  # the edit is made
            _log.exception("What was done in %s could not be shown", self.link.room_id)

    def _move_caret(
        self, presence: DocumentPresence, part: str, character: tuple[int, int] | None
    ) -> None:
        """Show an agent after a character, or at the start of a cell."""

        def find() -> Ends | None:
            if not self.document.has(part):
                return None
            start = start_of(self.document.shared_source(self.document.find(part)))
            place = start if character is None else replace(start, item=character)
            return place, place

        presence.move_soon(find)

    def point_at(self, seat: Seat, cell_id: str) -> None:
        """Show an agent at a cell that it works with."""
        if seat.presence is not None:
            self._move_caret(seat.presence, cell_id, None)

    @contextmanager
    def output(self, seat: Seat) -> Iterator[None]:
        """Write what a run shows in its cell: no step to undo, no caret."""
        self._replica.author = seat.member
        with self._replica.transaction(f"{seat.agent} run"):
            yield
        self._replica.attribute(seat.member, "run")

    # -- saving ------------------------------------------------------------------------------

    async def wait_acknowledged(self) -> None:
        """Wait until the room has all edits, and keeps them through what it promises to survive.

        Raises:
            RoomUnavailable: The room went away.
        """
        await self._sync.wait_acknowledged()
        await self._steps.durable()

    async def save(self) -> None:
        """Save the file, and return when it has everything that agents wrote until now.

        Raises:
            CollaborationError: The file does not have it.
        """
        await self._sync.save()

    async def between_saves(self) -> None:
        """Wait a moment if the document is being saved: any change would cancel the save."""
        await self._sync.between_saves()

    @property
    def unsaved(self) -> list[Step]:
        """Steps that are in no file yet: a change of the file or a crash may lose them."""
        return self._sync.unsaved.steps

    def has_unsaved_of(self, agent: str) -> bool:
        """Whether an agent wrote something here that is in no file yet, as far as known."""
        return self._sync.unsaved.has_of(agent)

    def on_edit(self, tell: Callable[[], None]) -> None:
        """Set a function to call when there is something that no file has yet."""
        self._sync.on_edit = tell

    def on_contribution(self, tell: Callable[[Contribution], None]) -> None:
        """Set a function to call with what others do to the document, once it is received."""
        self._replica.on_contribution = tell

    def on_members(self, tell: Callable[[], None]) -> None:
        """Set a function to call when somebody comes or goes."""
        self._on_members = tell

    def on_look(self, tell: Callable[[], None]) -> None:
        """Set a function to call when an agent has seen what others did."""
        self._on_look = tell

    def inherit(self, lost: RoomPeer) -> None:
        """Reapply what the room has lost of another peer's edits."""
        self._sync.inherit(lost._sync)

    # -- agents ------------------------------------------------------------------------------

    def tell_others(self, agent: str, note: str) -> None:
        """Add a note to the next answers of all other agents that are here."""
        self._seats.tell_others(agent, note)

    def take_notes(self, seat: Seat) -> Sequence[str]:
        """The notes for an answer to an agent; each is returned once."""
        return self._seats.take_notes(seat)

    def news(self, seat: Seat) -> str | None:
        """What others did since an agent last looked, in a line; it has looked now."""
        label = self.document.label
        absence, seat.absence = seat.absence, None
        away = None if absence is None else absence.describe(label)
        news = self.changes.summary(seat.seen, seat.member.id, label, away)
        seat.seen = self.version
        if self._on_look is not None:
            self._on_look()
        return news

    def seat(self, seat: Seat, visible: bool = True) -> None:
        """Seat an agent; people see it, unless it has already left."""
        self._replica.own_agents.add(seat.member.id)
        self._seats.add(seat, visible)

    def shows(self, seat: Seat) -> bool:
        """Whether an agent is here and people see it here, not in a room that is gone."""
        return seat in self._seats and seat.presence is not None

    def hide(self, seat: Seat) -> None:
        """Hide an agent from people; its seat is kept in case it comes back."""
        self._seats.hide(seat)

    def unseat(self, seat: Seat) -> None:
        """Remove an agent that has gone."""
        self._seats.remove(seat)

    def show_presence(self) -> None:
        """Announce who is here: regularly, and whenever somebody joins who cannot know."""
        self._seats.show_presence()

    def _meet(self) -> None:
        self._replica.meet()
        self.show_presence()
        if self._on_members is not None:
            self._on_members()
