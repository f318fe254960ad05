"""The write-ahead journal: an acknowledged edit is here before its answer is sent.

Jupyter saves a second after the last change and prefers the file at a restart, so a crash in
between deletes what people typed. The journal keeps every update of every open room until the
collaboration store has it, and remembers which file it belongs to; `recovery` uses it.

`GroupCommit` writes it, `JournalStorage` manages its file. When that file is lost under a running
server, the open rooms write what they have into a new one. Where none can be created, edits are not
protected until they are saved; `weakness` gives the reason, and a later edit tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ...owned_tasks import OwnedTasks
from ..disk.aside import cause
from ..protocols.room_ids import RoomId
from .group_commit import GroupCommit, JournalError
from .history.credits import Credit
from .journal_records import JournalRecords, UnsavedRoom
from .journal_steps import JournalSteps
from .journal_storage import JournalStorage

#: Seconds for which an unresponsive disk may delay the shutdown of the server.
_CLOSING = 5.0


class Journal:
    """Updates on their way to the store and the file, one journal for each Jupyter server.

    Everything but the constructor runs on the event loop's thread.

    Args:
        missing: Why there can be no file, if that is known.

    Raises:
        BlockingIOError: A running server is writing it.
        OSError, sqlite3.Error: There is no journal at this path and none can be created.
    """

    def __init__(self, path: Path, missing: str | None = None) -> None:
        self.storage = JournalStorage(path, missing)
        self.records = JournalRecords(self.storage)
        """The contents of the journal, for a start after a crash."""
        self.commits = GroupCommit(self.storage, self._renew_soon)
        self.on_renewal: set[Callable[[], Awaitable[None]]] = set()
        """Called when a new file has replaced a lost one, to write what is unsaved."""
        self.steps = JournalSteps(self.storage, self._add, self.durable, self.on_renewal)
        """What agents can undo, committed with their edits."""
        self._tasks = OwnedTasks()
        self._renewal: asyncio.Task[None] | None = None

    @property
    def path(self) -> Path:
        return self.storage.path

    @property
    def weakness(self) -> str | None:
        """Why there is no journal; None as long as there is one."""
        return self.storage.weakness

    @property
    def events(self) -> list[str]:
        """What went wrong with it since the start, in sentences."""
        return self.storage.events

    # -- writing -----------------------------------------------------------------------------

    def append(self, room: RoomId, update: bytes) -> int:
        """Add an update; it is durable once a later `durable()` returns."""
        self.storage.last += 1
        row = (self.storage.last, room, time.time(), update)
        self._add("INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?)", row, len(update))
        return self.storage.last

    def pend(self, room: RoomId, updates: Sequence[bytes]) -> int:
        """Add an edit that the room is about to get in slices; recovery applies it as a whole.

        Returns its number, for `settle`.
        """
        self.storage.last += 1  # a number that no other edit has
        edit = self.storage.last
        for number, update in enumerate(updates):
            row = (edit, room, number, update)
            self._add("INSERT INTO pending VALUES (?, ?, ?, ?)", row, len(update))
        return edit

    def settle(self, edit: int) -> None:
        """Forget an edit in slices, of which the room has everything or nothing."""
        self._add("DELETE FROM pending WHERE edit = ?", (edit,))

    def mark(self, unsaved: UnsavedRoom) -> None:
        """Record that a room has something its file may lack."""
        self._add(
            "INSERT INTO rooms VALUES (?, ?, ?, ?) ON CONFLICT (room) DO UPDATE SET "
            "path = excluded.path, base = excluded.base, base_time = excluded.base_time",
            (unsaved.room, unsaved.path, unsaved.base, unsaved.base_time),
        )

    def trim(self, room: RoomId, through: int) -> None:
        """Forget a room's updates that the store has."""
        self._add("DELETE FROM updates WHERE room = ? AND seq <= ?", (room, through))

    def replace(self, room: RoomId, state: bytes) -> int:
        """Replace all of a room's updates with one full state."""
        self._add("DELETE FROM updates WHERE room = ?", (room,))
        return self.append(room, state)

    def forget(self, room: RoomId) -> None:
        """Forget a room whose file and store have everything."""
        for table in ("updates", "pending", "rooms"):
            self._add(f"DELETE FROM {table} WHERE room = ?", (room,))

    def renaming(self, path: str, new_path: str) -> None:
        """Record that a file or a folder is about to be renamed, in case of a crash."""
        self._add("INSERT INTO renames VALUES (?, ?)", (path, new_path))

    def record_rename(self, path: str, new_path: str) -> None:
        """Record that the rename is over: it failed, or the journal knows all new paths."""
        self._add("DELETE FROM renames WHERE path = ? AND new_path = ?", (path, new_path))

    def credit(self, room: RoomId, credit: Credit) -> None:
        """Record who wrote something, for the history."""
        self._add("INSERT INTO credits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (room, *credit))

    def notify(self, room: RoomId, path: str, text: str) -> None:
        """Keep a notice for agents after a crash, unless it is forgotten first."""
        row = (room, path, time.time(), text)
        self._add("INSERT INTO notices VALUES (?, ?, ?, ?)", row)
        self.commits.flush()  # nobody waits for it

    def forget_notices(self, room: RoomId) -> None:
        """Forget the notices of a room, which agents have received."""
        self._add("DELETE FROM notices WHERE room = ?", (room,))

    async def durable(self) -> None:
        """Wait until everything added so far is committed; returns at once if there is no journal.

        Raises:
            JournalError: The commit failed, for example because the disk is full.
        """
        await self.commits.durable()

    async def close(self) -> None:
        """Write what is left and release the journal."""
        with contextlib.suppress(JournalError):
            await self.durable()
        if self._renewal is not None:
            await asyncio.wait([self._renewal], timeout=_CLOSING)
        await self._tasks.close()
        await self.commits.close()
        self.discard()

    def discard(self) -> None:
        """Release a journal that is empty, or that the next start may retry."""
        self.storage.close()

    def _add(self, statement: str, parameters: Sequence[Any], size: int = 0) -> None:
        if self.weakness is None:
            row = [_storable(each) if isinstance(each, str) else each for each in parameters]
            self.commits.add((statement, row), size)
        elif self.storage.should_retry():
            self._renew_soon(None)  # the rooms write everything once there is a file again

    # -- a new file for a lost one -----------------------------------------------------------

    def _renew_soon(self, error: Exception | None) -> None:
        if self._renewal is None or self._renewal.done():
            self._renewal = self._tasks.start(self._renew(error))

    async def _renew(self, error: Exception | None) -> None:
        """Let the rooms write everything unsaved to a new file, before anybody is answered."""
        try:
            await self.storage.renew(error)
            self.commits.hold()
            for write in list(self.on_renewal):
                await write()
        except Exception as caught:  # nobody must wait forever
            await asyncio.to_thread(self.storage.release)
            self.commits.drop()
            self.storage.give_up(cause(caught))
        self.commits.resume()


def _storable(value: str) -> str:
    """A text that SQLite accepts: half a surrogate pair, which UTF-8 cannot hold, becomes "?"."""
    return str(value) if value.isascii() else value.encode(errors="replace").decode()
