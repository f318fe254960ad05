"""Keep a replica in step with its room, and remember what agents wrote until a file has it.

A change of the file on disk overwrites what is unsaved in the room (B9), and a server that dies may
lose it. This notices both and reapplies what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any

from pycrdt import Doc

from ..backends.protocols.rooms import RoomLink
from ..documents.text_document import Document
from ..errors import CollaborationError, FileFailed
from ..panics import contained
from .change_log import REAPPLIED
from .changes import Change, Step, by_cell
from .changes.change import Merge, ReapplyReport
from .line_merge import merge_lines
from .overwrite import reapply_overwritten
from .replica import Clocks, Replica
from .restart import REAPPLY, reapply_lost
from .stray_text import find_stray_text
from .unsaved_steps import Entry, Texts, UnsavedSteps

#: How often a file is saved again because somebody else wrote it in the meantime.
_SAVES = 3

#: Seconds that output may have to wait for a save.
_SAVE_TIME = 2.0

#: Why something had to be reapplied.
_RESTART = "The Jupyter server was restarted"
_OVERWRITE = "The file was changed on disk"

_log = logging.getLogger(__name__)


class RoomSync:
    """Connects one replica with its room.

    Args:
        notify: Adds a note to the agents' next answers, on request even after a crash.
    """

    def __init__(
        self, link: RoomLink, replica: Replica, notify: Callable[[str, bool], None]
    ) -> None:
        self.on_edit: Callable[[], None] | None = None
        """Called when there is something that no file has yet."""
        self.unsaved = UnsavedSteps(replica.document)
        self._link, self._replica, self._notify = link, replica, notify
        self._clients = {replica.doc.client_id}  # client ids it has used, also in earlier rooms
        self._reapplying = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._closed = asyncio.Lock()  # held while an edit is applied in slices
        self._unproven = -1  # updates after which only a reported save counts
        self._overwritten: Texts | None = None
        """The texts that cells with unsaved changes had before the file overwrote them."""
        self._unsaved_then: Sequence[Entry] = ()  # with what was then known about acknowledgement

    # -- the room ----------------------------------------------------------------------------

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Receive nothing meanwhile: what has come waits, and so does who wants to be current."""
        async with self._closed:
            yield
        self.receive()

    def receive_last(self) -> bool:
        """Receive once more, although closed; returns whether the file has overwritten nothing."""
        self._receive()
        return self._overwritten is None

    def receive(self) -> None:
        """Apply the updates that the room has sent."""
        if not self._closed.locked():
            self._receive()

    def _receive(self) -> None:
        self.unsaved.begin()
        if updates := self._link.receive():
            with self._replica.receiving():
                for update in updates:
                    before = self.unsaved.before()
                    if self._replica.receive(update):
                        self.unsaved.after(update, before)
                    self._follow_saves()
        overwrite = self._link.overwritten()
        if overwrite is not None and self._overwritten is None:
            self._overwritten = self.unsaved.texts_before(overwrite)
            # What the room received at once was there before the file.
            sent = () if self._link.at_once else self.unsaved.snapshot()
            self._unsaved_then = [replace(entry) for entry in sent]

    async def catch_up(self) -> None:
        """Receive what the room has. Do not await anything between this and an edit."""
        async with self._closed:
            pass
        sent = self._unacknowledged()
        await self._link.current()
        self.receive()
        self._acknowledge(sent)
        if self._overwritten is not None:
            await self._reapply_overwritten()

    async def wait_acknowledged(self) -> None:
        """Wait until the room has all edits, and keeps them through what it promises to survive.

        Raises:
            RoomUnavailable: The room went away.
        """
        sent = self._unacknowledged()
        await self._link.wait_acknowledged()
        self.receive()  # what the room reported about saves before it had these edits
        self._acknowledge(sent)
        self._follow_saves()  # without a room, every edit is saved by now

    def _unacknowledged(self) -> Sequence[Entry]:
        """What the room has once it has answered; nothing if it has everything already."""
        return self.unsaved.snapshot() if self.unsaved.unacknowledged else ()

    def _acknowledge(self, sent: Sequence[Entry]) -> None:
        if self.unsaved.unacknowledged and any(not entry.acknowledged for entry in sent):
            self.unsaved.acknowledge(sent)
            self._follow_saves()

    # -- the file ----------------------------------------------------------------------------

    def keep(self, step: Step, acknowledged: bool, written: Clocks = (0, 0)) -> None:
        """Remember a step until it is saved."""
        self.unsaved.add(step, acknowledged, written)
        if self.on_edit is not None:
            self.on_edit()

    async def save(self) -> None:
        """Save the file, and return when it has everything that agents wrote until now.

        Raises:
            CollaborationError: The file does not have it.
        """
        async with self._saving:
            await self._save()

    async def between_saves(self) -> None:
        """Wait a moment if the document is being saved: any change would cancel the save."""
        if self._saving.locked():
            with suppress(TimeoutError):
                async with asyncio.timeout(_SAVE_TIME), self._saving:
                    pass

    async def _save(self) -> None:
        for _ in range(_SAVES):
            await self.catch_up()
            sent = self.unsaved.snapshot()
            if not sent:
                return
            failure: FileFailed | None = None
            try:
                await self._link.save()
            except FileFailed as error:
                failure = error
            self.receive()
            if self._overwritten is not None:
                continue  # the file has what somebody else wrote: reapply, and save again
            if failure is not None:
                raise failure
            if not any(entry is sent[0] for entry in self.unsaved.snapshot()):
                continue  # saved, or reapplied by another call after the save began
            self.unsaved.mark_saved(sent)
            return
        raise FileFailed.to("save", self._link.path, "others change the file all the time")

    def _follow_saves(self) -> None:
        """Forget what the room had before its last save: it is safe."""
        proven = self._overwritten is None and self._replica.updates > self._unproven
        if self.unsaved and self._link.saved and proven:
            self.unsaved.mark_saved()

    # -- reapplying --------------------------------------------------------------------------

    def inherit(self, lost: RoomSync) -> None:
        """Reapply what the room has lost since another replica was in it."""
        if lost._replica.broken:  # the room itself has lost nothing
            for step in lost.unsaved.steps:
                self.keep(step, acknowledged=True)
            self._overwritten = lost._overwritten
            return
        lost.receive()  # its final state
        steps = lost.unsaved.steps
        self._replica.author = REAPPLIED
        self._clients |= lost._clients
        document, before = self._replica.document, lost._replica.document
        try:
            with contained():
                report = reapply_lost(
                    document, before, steps, lost._clients, self._replica.transaction
                )
        except Exception:
            _log.exception("Could not reapply what %s has lost", self._link.room_id)
            self._report(ReapplyReport.failed(by_cell(steps)), _RESTART)
            return
        self.unsaved.forgotten |= lost.unsaved.forgotten
        for step in steps:
            self.keep(step, acknowledged=True)
        report.lost += self.unsaved.missing(lost.unsaved.texts())
        self._report(report, _RESTART)
        self._follow_saves()

    async def _reapply_overwritten(self) -> None:
        """Reapply unsaved steps that a change of the file has overwritten.

        Comparing large texts takes long. So this is rehearsed on a copy in a thread, and the
        results are remembered.
        """
        async with self._reapplying:
            if self._overwritten is None:  # another call has done it in the meantime
                return
            merge = cache(merge_lines)
            kind, doc = type(self._replica.document), self._replica.doc
            await asyncio.to_thread(
                _rehearse, kind, doc.get_update(), self._reapplication(self._overwritten, merge)
            )
            await self._link.current()
            self.receive()
            self._reapply_now(self._overwritten, merge)

    def _reapplication(self, texts_before: Texts, merge: Merge) -> _Reapplication:
        """A function that reapplies steps in a document, the live one or a copy."""
        steps, late, then = self.unsaved.steps, self._late(), self._unsaved_then
        client = self._replica.doc.client_id
        return lambda document: reapply_overwritten(
            document,
            steps,
            texts_before,
            partial(find_stray_text, document, client, then),
            late,
            merge,
        )

    def _late(self) -> Collection[str]:
        """The cells of steps that the room was not known to have when the file came."""
        return by_cell(entry.step for entry in self._unsaved_then if not entry.acknowledged)

    def _reapply_now(self, texts_before: Texts, merge: Merge) -> None:
        replica, reapply = self._replica, self._reapplication(texts_before, merge)
        replica.author, self._overwritten = REAPPLIED, None
        replica.advance()
        try:
            with replica.transaction(REAPPLY):
                report, left = reapply(replica.document)
        except CollaborationError as error:
            _log.error("Could not reapply in %s", self._link.room_id, exc_info=error)
            self._report(ReapplyReport.failed(by_cell(self.unsaved.steps)), _OVERWRITE)
            self.unsaved.clear()
            if replica.broken:
                raise
            return
        written = replica.advance()
        report.lost += self.unsaved.missing(texts_before)
        self.unsaved.clear()
        if self._late():
            self._unproven = replica.updates  # what came after the file is only in the room
        if left:
            sent = written[0] < written[1]
            step = Step(replica.version, REAPPLY, tuple(left))
            self.keep(step, self._link.at_once or not sent, written)
        self._report(report, _OVERWRITE)
        self._follow_saves()

    def _report(self, report: ReapplyReport, cause: str) -> None:
        """Notify all agents that are here: any of them may have made the edits."""
        if str(report):
            self._notify(f"{cause}: {report}.", bool(report.lost))


_Reapplication = Callable[[Document], tuple[ReapplyReport, list[Change]]]


def _rehearse(kind: type[Document], state: bytes, reapply: _Reapplication) -> None:
    """Rehearse on a copy; if it fails, the real attempt will report it."""
    doc: Doc[Any] = Doc()
    document = kind(doc, follows=False)
    doc.apply_update(state)
    try:
        with contained(), doc.transaction():
            reapply(document)
    except Exception as error:
        _log.debug("A rehearsal failed", exc_info=error)
    finally:
        document.close()
