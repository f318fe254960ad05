"""The heart: one peer for each open document, shared by all agents of this process.

A peer has a Doc of its own and sits in the room like anybody else. It catches up with the room
before each read or edit, so that nobody acts on a stale text, and every edit is one transaction
with no `await` in it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, TypeVar

from pycrdt import Doc, TransactionEvent, create_update_message

from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.rooms import Authorship, RoomLink
from ..documents.cell_mirror import CellChange
from ..documents.notebook import Notebook
from ..documents.text_document import Document, TextDocument
from ..documents.updates import decode_state, sole_author
from ..errors import CollaborationError, DocumentBusy, FileFailed, InternalError
from ..panics import contained, is_panic
from .astray import find_astray
from .changes import REDONE, ChangeLog
from .overwritten import Merge, redo
from .own_edits import reapplied
from .prepared import CallRecord, Edit, Prepared, prepare
from .presence import Presence
from .reapply import REAPPLY, Redone, by_cell, reapply
from .shown import KnownRevisions, ShownSources
from .undo import Change, Step, UndoLog
from .unsaved import Clocks, Entry, Texts, Unsaved

#: How often, and each how many seconds, a reader waits for a change of the file: the server looks
#: at it once a second.
_LOOKS, _LOOK = 16, 0.2

#: Seconds before each new attempt to prepare a large edit that others came in between of.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)

#: How often a file is saved anew because somebody else wrote it meanwhile.
_SAVES = 3

#: Seconds that output may have to wait for a save.
_SAVE_TIME = 2.0

#: Why something had to be reapplied.
_RESTART = "The Jupyter server was restarted"
_OVERWRITE = "The file was changed on disk"

#: The origin of what comes from the room; an agent's own is its key.
_ROOM = "room"

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Seat:
    """One agent at one document: what it has seen and what it could take back."""

    agent: str
    """The agent's key, which is also the origin of its transactions."""
    name: str
    """The agent's name as people see it."""
    undo: UndoLog = field(default_factory=UndoLog)
    seen: int = 0
    """The version of the document that the agent last looked at."""
    used: float = field(default_factory=time.monotonic)
    presence: Presence | None = None
    """How people see it, while it is there."""
    bound: bool = False
    """Whether the agent is there as long as this process is."""
    runs: int = 0
    """Runs that it waits for: it does not leave before they are over."""
    notes: list[str] = field(default_factory=list)
    """What its next answer should say once."""
    known: KnownRevisions = field(default_factory=KnownRevisions)
    """What the agent knows of the document's text."""


class RoomPeer:
    """A collaborator in one room."""

    def __init__(self, link: RoomLink) -> None:
        self.link = link
        self.doc: Doc[Any] = Doc()
        self.document = _document(link.room_id, self.doc)
        self.version = _now()
        """Grows with every change; milliseconds, so that it means the same after a restart."""
        self.changes = ChangeLog(self.version)
        self.shown = ShownSources()
        self._author: str | None = None
        self._clock = 0
        self._seats: dict[str, Seat] = {}
        self._receiving = False
        self._withholding = False
        self._unsaved = Unsaved(self.document)
        self._updates = 0
        self._writes = 0  # of this peer's own, and calls that made none
        self._preparing = asyncio.Lock()
        self._redoing = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._unproven = -1  # updates after which nothing but the word of a save is believed
        self._overwritten: Texts | None = None
        """What the cells with unsaved changes said before the file came over them."""
        self.broken = False
        """Whether the Doc is not what the room has: an edit failed halfway, or an update did."""
        self._met: Sequence[Entry] = ()  # unsaved then, and as far as it was known to the room
        self._clients = {self.doc.client_id}  # as whom it has written, in rooms before too
        self.notes: list[str] = []
        """What the next answer should say once, whoever gets it."""
        self.on_edit: Callable[[], None] | None = None
        """Called when there is something that no file has yet."""
        link.attach(self.doc)
        self._receive()  # the whole document; before anybody observes changes
        self.document.on_change = self._on_change
        self._subscription = self.doc.observe(self._on_update)
        link.on_arrival(self.show_presence)

    def close(self) -> None:
        """Nobody uses this peer any more, whose link is closed.

        B28: pycrdt refers to who observes a Doc in a way that Python's collector does not see, so
        the document, the room and its store would stay in memory for ever.
        """
        self.doc.unobserve(self._subscription)
        self.document.close()

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

    async def catch_up(self) -> None:
        """Have what the room has. Nothing may be awaited between this and an edit."""
        sent = self._unsaved.sent()
        await self.link.current()
        self._receive()
        self._acknowledge(sent)
        if self._overwritten is not None:
            # B9: whoever writes the file outside of the room overwrites what is unsaved in it.
            await self._redo_overwritten()

    async def catch_up_to_write(self) -> None:
        """Have what the room has, for writing at once; after a large edit that is being prepared.

        All who write here are one client of the room. What comes from it meanwhile would make the
        prepared one useless.
        """
        if self._preparing.locked():
            async with self._preparing:
                await self.catch_up()
        else:
            await self.catch_up()

    async def refresh(self) -> None:
        """Have what the file has too, if somebody has changed it on disk."""
        for _ in range(_LOOKS):
            if not await self.link.stale():
                break
            await asyncio.sleep(_LOOK)
            await self.catch_up()
        else:
            self.notes.append("The file was changed on disk; the server has not noticed it yet.")
        await self.catch_up()

    @contextmanager
    def edit(self, seat: Seat, call: str) -> Iterator[CallRecord]:
        """One call's changes: one transaction, one step to take back, one author."""
        record = CallRecord()
        self._author = seat.name
        with self._all_or_nothing(seat.agent):
            yield record
        self._made(seat, call, record)

    async def perform(self, seat: Seat, edit: Edit[T]) -> T:
        """Make an edit, all or nothing, on a document that is current.

        Raises:
            DocumentBusy: Others kept changing what a large one is about.
        """
        if not edit.large:
            if self._preparing.locked():
                await self.catch_up_to_write()
            return self.perform_now(seat, edit)
        for pause in (0.0, *_PAUSES):
            await asyncio.sleep(pause)
            async with self._preparing:
                made = await self._prepare(edit)
                if made is None:
                    continue
                result = self._apply(seat, edit.call, made)
            await asyncio.sleep(0)  # others first: the answer may be large too
            return result
        raise DocumentBusy.while_preparing()

    async def _prepare(self, edit: Edit[T]) -> Prepared[T] | None:
        """Make an edit on a copy; None if the document has changed too much meanwhile."""
        await self.catch_up()
        work = edit.begin()
        mark, writes = self.document.mark(), self._writes
        made = await asyncio.to_thread(
            prepare, type(self.document), self.doc.get_update(), self.doc.client_id, work
        )
        if isinstance(made, CollaborationError):
            raise made
        await self.catch_up()
        # Own writes have the clocks that the prepared update has, too.
        fits = self._writes == writes and self.document.is_unchanged(mark, made.record.touched)
        return made if fits else None

    def perform_now(self, seat: Seat, edit: Edit[T]) -> T:
        """Make an edit at once, however long that takes."""
        work = edit.begin()
        with self.edit(seat, edit.call) as record:
            return work(self.document, record)

    def _apply(self, seat: Seat, call: str, made: Prepared[T]) -> T:
        self._author = seat.name
        if made.update is not None:
            with self._all_or_nothing(seat.agent):
                self.doc.apply_update(made.update)
        self._made(seat, call, made.record)
        return made.result

    def _made(self, seat: Seat, call: str, record: CallRecord) -> None:
        """A call has made its changes: whose they are, and how they can be taken back."""
        self._writes += 1
        written = self._attribute(seat, call)
        if record.changes or record.undone:
            step = Step(self.version, call, tuple(record.changes), seat.agent)
            if record.undone:
                seat.undo.pop(len(record.undone))
            else:
                seat.undo.push(step)
            self._keep(step, self.link.at_once, written)
        if seat.presence is not None and record.written is not None:
            seat.presence.write_at(*record.written)
        elif seat.presence is not None and record.wrote_text:
            seat.presence.write_at(self.doc.client_id, self._clock - 1)

    @contextmanager
    def _all_or_nothing(self, origin: str) -> Iterator[None]:
        """A transaction of which the room gets nothing if it fails halfway.

        pycrdt takes nothing back: the Doc keeps what was done until then. So it is given up, and
        whoever goes on joins the room anew.
        """
        known = self._updates
        try:
            with self.doc.transaction(origin=origin):
                try:
                    yield
                except BaseException:
                    self._withholding = True
                    raise
        except BaseException as error:
            if self._updates > known:
                self._give_up()
            if isinstance(error, CollaborationError) or not self._withholding:
                raise
            if isinstance(error, Exception) or is_panic(error):
                raise InternalError.undone(error) from error
            raise
        finally:
            self._withholding = False

    def _give_up(self) -> None:
        self.broken = True
        self.link.give_up()

    async def acknowledged(self) -> None:
        """Return when all edits are with the room, and would survive what it promises to survive.

        Raises:
            RoomUnavailable: The room went away.
        """
        sent = self._unsaved.sent()
        await self.link.acknowledged()
        self._receive()  # what the room said of its saves before it had these edits
        self._acknowledge(sent)
        self._follow_saves()  # without a room, every edit is saved by now

    def _acknowledge(self, sent: Sequence[Entry]) -> None:
        if any(not entry.acknowledged for entry in sent):
            self._unsaved.acknowledge(sent)
            self._follow_saves()

    @property
    def unsaved(self) -> list[Step]:
        """What is in no file yet: a change of the file, or a server that goes down, may take it."""
        return self._unsaved.steps

    def has_unsaved_of(self, agent: str) -> bool:
        """Whether an agent wrote something here that is in no file yet, as far as is known."""
        return self._unsaved.has_of(agent)

    async def save(self) -> None:
        """Have the file saved, and return when it has all that agents wrote up to now.

        Raises:
            CollaborationError: It does not have it.
        """
        async with self._saving:
            await self._save()

    async def between_saves(self) -> None:
        """Wait a moment if the document is being saved: each change of it would cancel that."""
        if self._saving.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(_SAVE_TIME), self._saving:
                    pass

    async def _save(self) -> None:
        for _ in range(_SAVES):
            await self.catch_up()
            sent = self._unsaved.sent()
            if not sent:
                return
            failure: FileFailed | None = None
            try:
                await self.link.save()
            except FileFailed as error:
                failure = error
            self._receive()
            if self._overwritten is not None:
                continue  # the file has what somebody else wrote: reapply, and save again
            if failure is not None:
                raise failure
            if not any(entry is sent[0] for entry in self._unsaved.sent()):
                continue  # saved, or reapplied by another call after the save began
            self._unsaved.saved(sent)
            return
        raise FileFailed.to("save", self.link.path, "others change the file all the time")

    def inherit(self, lost: RoomPeer) -> None:
        """Reapply what the room has lost since another peer did it."""
        if lost.broken:  # and the room has lost nothing
            for step in lost.unsaved:
                self._keep(step, acknowledged=True)
            self._overwritten = lost._overwritten
            return
        lost._receive()  # how it was in the end
        self._author = REDONE
        self._clients |= lost._clients
        try:
            with contained():
                done = reapply(
                    self.document,
                    lost.document,
                    lost.unsaved,
                    lost._clients,
                    self._all_or_nothing,
                )
        except Exception:
            _log.exception("Could not reapply what %s has lost", self.link.room_id)
            self._note(Redone.failed(lost.unsaved), _RESTART)
            return
        self._unsaved.forgotten |= lost._unsaved.forgotten
        for step in lost.unsaved:
            self._keep(step, acknowledged=True)
        done.lost += self._unsaved.missing(lost._unsaved.say())
        self._note(done, _RESTART)
        self._follow_saves()

    async def _redo_overwritten(self) -> None:
        """Reapply what a change of the file has taken of what is unsaved.

        To compare large texts takes long. So it is rehearsed on a copy in a thread, and what was
        found there is remembered.
        """
        async with self._redoing:
            if self._overwritten is None:  # somebody else has done it meanwhile
                return
            merge = cache(reapplied)
            await asyncio.to_thread(
                _rehearse, type(self.document), self.doc.get_update(), self._redo(merge)
            )
            await self.link.current()
            self._receive()
            self._redo_now(self._overwritten, self._redo(merge))

    def _redo(self, merge: Merge) -> Callable[[Document], tuple[Redone, list[Change]]]:
        """What reapplies in a document, the live one or a copy."""
        assert self._overwritten is not None
        steps, said, client = self.unsaved, self._overwritten, self.doc.client_id
        met, late = self._met, self._late()
        return lambda document: redo(
            document, steps, said, partial(find_astray, document, client, met), late, merge
        )

    def _late(self) -> Collection[str]:
        """The cells of steps that were not known to be with the room when the file came."""
        return by_cell([entry.step for entry in self._met if not entry.acknowledged])

    def _redo_now(
        self, said: Texts, make: Callable[[Document], tuple[Redone, list[Change]]]
    ) -> None:
        late = self._late()
        self._author, self._overwritten = REDONE, None
        self._advance()
        try:
            with self._all_or_nothing(REAPPLY):
                done, left = make(self.document)
        except CollaborationError as error:
            _log.error("Could not reapply in %s", self.link.room_id, exc_info=error)
            self._note(Redone.failed(self.unsaved), _OVERWRITE)
            self._unsaved.clear()
            if self.broken:
                raise
            return
        written = self._advance()
        done.lost += self._unsaved.missing(said)
        self._unsaved.clear()
        if late:
            self._unproven = self._updates  # what came after the file is in the room only
        if left:
            sent = written[0] < written[1]
            step = Step(self.version, REAPPLY, tuple(left))
            self._keep(step, self.link.at_once or not sent, written)
        self._note(done, _OVERWRITE)
        self._follow_saves()

    def _keep(self, step: Step, acknowledged: bool, written: Clocks = (0, 0)) -> None:
        """Remember a step until it is saved."""
        self._unsaved.add(step, acknowledged, written)
        if self.on_edit is not None:
            self.on_edit()

    def _note(self, done: Redone, cause: str) -> None:
        """Have all agents told that are here: any of them may have made the edits."""
        if str(done):
            note = f"{cause}: {done}."
            for notes in [seat.notes for seat in self._seats.values()] or [self.notes]:
                notes.append(note)
            if done.lost:
                self.link.remember(note)

    def take_notes(self, seat: Seat) -> Sequence[str]:
        """What an answer to an agent should say now."""
        notes = [*self.notes, *seat.notes]
        self.notes.clear()
        seat.notes.clear()
        if notes and not any(other.notes for other in self._seats.values()):
            self.link.remember(None)
        return notes

    @contextmanager
    def output(self, seat: Seat) -> Iterator[None]:
        """What a run of an agent shows in its cell: no step to take back, no caret."""
        self._author = seat.name
        with self._all_or_nothing(f"{seat.agent} run"):
            yield
        self._attribute(seat, "run")

    def seat(self, seat: Seat, visible: bool = True) -> None:
        """An agent has come; people see it, unless it is not really there any more."""
        self._seats[seat.agent] = seat
        if visible:
            seat.presence = Presence(self.link, seat.agent, seat.name)
            seat.presence.show()

    def shows(self, seat: Seat) -> bool:
        """Whether an agent is here, and people see it here and not in a room that is gone."""
        return self._seats.get(seat.agent) is seat and seat.presence is not None

    def hide(self, seat: Seat) -> None:
        """People no longer see an agent, whose seat is kept in case that it comes back."""
        if seat.presence is not None:
            seat.presence.leave()
            seat.presence = None

    def unseat(self, seat: Seat) -> None:
        """An agent has gone."""
        self._seats.pop(seat.agent, None)
        self.hide(seat)

    def show_presence(self) -> None:
        """Tell the room who is here: regularly, and whenever somebody comes who cannot know."""
        for seat in self._seats.values():
            if seat.presence is not None:
                seat.presence.show_soon()

    def _attribute(self, seat: Seat, call: str) -> Clocks:
        start, end = self._advance()
        if start < end:
            client = self.doc.client_id
            self.link.record(Authorship(client, start, end, seat.agent, call, time.time()))
        return start, end

    def _advance(self) -> Clocks:
        """What was written since this was asked last."""
        before = self._clock
        self._clock = decode_state(self.doc.get_state()).get(self.doc.client_id, 0)
        return before, self._clock

    def _receive(self) -> None:
        self._receiving = True
        self._unsaved.begin()
        try:
            for update in self.link.receive():
                before, known = self._unsaved.before(), self._updates
                self._author = self._name_of(sole_author(update))
                with contained(), self.doc.transaction(origin=_ROOM):
                    self.doc.apply_update(update)
                if self._updates > known:
                    self._unsaved.after(update, before)
                self._follow_saves()
        except BaseException:
            self._give_up()  # the rest of what came would be missing here for ever
            raise
        finally:
            self._receiving = False
        places = self.link.overwritten()
        if places is not None and self._overwritten is None:
            self._overwritten = self._unsaved.said(places)
            # What the room had at once was there before the file.
            sent = () if self.link.at_once else self._unsaved.sent()
            self._met = [replace(entry) for entry in sent]

    def _follow_saves(self) -> None:
        """What was with the room before it saved is safe when it has saved."""
        proven = self._overwritten is None and self._updates > self._unproven
        if self._unsaved and self.link.saved and proven:
            self._unsaved.saved()

    def _on_update(self, event: TransactionEvent) -> None:
        self._updates += 1
        if not self._receiving:
            self._writes += 1
        if not (self._receiving or self._withholding):
            self.link.send(create_update_message(event.update))

    def _on_change(self, changes: list[CellChange]) -> None:
        self.version = max(self.version + 1, _now())
        self.changes.add(self.version, self._author, changes)

    def _name_of(self, client: int | None) -> str | None:
        state = self.link.states.get(client) if client is not None else None
        user = state.get("user") if state else None
        return str(user.get("display_name") or user.get("name")) if user else None


def _rehearse(kind: type[Document], state: bytes, make: Callable[[Document], object]) -> None:
    """Do on a copy what will be done; if it fails, it will be reported then."""
    doc: Doc[Any] = Doc()
    document = kind(doc, follows=False)
    doc.apply_update(state)
    try:
        with contained(), doc.transaction():
            make(document)
    except Exception as error:
        _log.debug("A rehearsal failed", exc_info=error)
    finally:
        document.close()


def _document(room_id: RoomId, doc: Doc[Any]) -> Document:
    return Notebook(doc) if room_id.kind == "notebook" else TextDocument(doc)


def _now() -> int:
    return time.time_ns() // 1_000_000
