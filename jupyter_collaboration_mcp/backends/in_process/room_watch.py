"""Watches one room of this server: journals every update, and notices every save.

It never writes to the room's own Doc (B1), and it covers people's edits as well as agents'.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from logging import Logger
from typing import Any
from weakref import WeakKeyDictionary

from jupyter_server.utils import ensure_async
from jupyter_server_ydoc.rooms import DocumentRoom
from pycrdt import Map, TransactionEvent
from tornado.web import HTTPError

from ...documents.updates import decode_state, encode_state, is_deletion, sole_author
from ..disk.open_files import Loads
from ..protocols.room_ids import RoomId
from ..upstream.external_changes import ExternalChanges
from ..upstream.linked_files import LoadRecords
from ..upstream.registry import Workarounds
from ..upstream.room_tracking import SaveTracking, StoreTracking
from .journal import Journal
from .journal_records import UnsavedRoom
from .room_authors import RoomAuthors

#: A save sets `dirty` and then `hash` within this many seconds.
_RELEARN_DELAY = 0.2

#: Seconds until a failed save is retried, at first and at most.
_SAVE_AGAIN = 1.0
_SAVE_AGAIN_LIMIT = 30.0


class RoomWatch:
    """What is known about one open room, from its loading to its end."""

    def __init__(
        self,
        room: DocumentRoom,
        journal: Journal,
        journal_limit: int,
        workarounds: Workarounds,
        log: Logger,
    ) -> None:
        self.room = room
        self.room_id = RoomId(room.room_id)
        self.log = log
        self.on_row: Callable[[], None] | None = None
        """Called when the store has another row."""
        self.sending = False
        """Whether the update that comes is one that an agent of this process has made."""
        self.listeners: set[Callable[[bytes], None]] = set()
        """Called with each update, in the room's own transaction: must not raise."""
        self._journal = journal
        self._journal_limit = journal_limit
        self._path: str = room._file.path
        self._base: str | None = None
        self._base_time = time.time()
        self._marked = False
        self._last = 0  # journal position of the latest update
        self._last_content = 0  # ... of the latest one that is not the server's own
        self._covered = 0  # ... through which the file has everything
        self._attempted = 0  # ... through which somebody tried to save
        self._stored = 0  # ... through which the store has everything
        self._bytes = 0  # journaled and not yet trimmed
        self._in_flight: dict[bytes, int] = {}  # updates that the store does not have yet
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # for the store
        self._snapshots: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._relearn: asyncio.TimerHandle | None = None
        self._saving_again: asyncio.Task[None] | None = None
        self._authors = RoomAuthors(room, self.room_id, journal)
        self._updates = room.ydoc.observe(self._on_update)
        self._state: Map[Any] = room.ydoc.get("state", type=Map)
        self._states = self._state.observe(self._on_state)
        self.failure: str | None = None
        """Why the latest save failed, until somebody has been notified."""
        self.flushing = asyncio.Lock()
        """Held while somebody saves repeatedly until everything is saved."""
        self.failed_saves = 0
        self.last_failure = ""
        """Why the latest save failed, even after somebody has been notified."""
        self.overwrites = 0
        """How often the file changed on disk and overwrote the room."""
        self.incomplete = 0
        """Edits in slices that the room does not have as a whole yet."""
        journal.on_renewal.add(self._journal_again)
        self._closed = False
        self._workarounds = workarounds
        workarounds.prepare_room(room, self)
        self._knows_snapshots = workarounds.find(SaveTracking) is not None
        self._knows_store = room.ystore is not None and workarounds.find(StoreTracking) is not None
        if not self._knows_store:
            # Without a store the journal's updates would have nothing to build on.
            self._last = journal.append(self.room_id, room.ydoc.get_update())
        self._spawn(self._learn_base())
        self._spawn(self._heal_store())

    @property
    def saved(self) -> bool:
        """Whether the file has everything that people and agents wrote."""
        return self.saved_through(self.latest)

    @property
    def latest(self) -> int:
        """The journal position of what people and agents wrote last."""
        return self._last_content

    def saved_through(self, position: int) -> bool:
        """Whether the file has everything up to an earlier `latest`."""
        return self._covered >= position

    async def settle(self) -> None:
        """Store what the room, which shuts down with the server, will no longer store itself."""
        store = self.room.ystore
        for update in list(self._in_flight):
            if store is not None and update in self._in_flight:
                await store.write(update)

    async def wait_stored(self, limit: float) -> None:
        """Wait until the store has what the room has now, for some seconds at most."""
        if self._in_flight:
            stored = asyncio.get_running_loop().create_future()
            self._waiting.append((max(self._in_flight.values()), stored))
            await asyncio.wait([stored], timeout=limit)

    def close(self) -> list[asyncio.Task[None]]:
        """Stop watching a room that ends cleanly. Returns the tasks that are about to end."""
        self._journal.on_renewal.discard(self._journal_again)
        self.room.ydoc.unobserve(self._updates)
        self._state.unobserve(self._states)
        self._authors.close()
        self.listeners.clear()
        ending = list(self._tasks)
        for task in ending:
            task.cancel()
        if self._relearn is not None:
            self._relearn.cancel()
        self._closed = True
        self._forget_if_settled()
        return ending

    # -- updates: room to journal to store ---------------------------------------------------

    def _on_update(self, event: TransactionEvent) -> None:
        update = event.update
        room_id = self.room_id
        content = sole_author(update) != self.room.ydoc.client_id
        if content and not self._marked:
            self._mark()
        self._last = self._journal.append(room_id, update)
        if content:
            self._last_content = self._last
        if not self.sending and is_deletion(update):
            self._authors.on_deletion(update)
        self._bytes += len(update)
        if self._knows_store:
            self._in_flight[update] = self._last
        for listener in self.listeners:
            listener(update)
        if self._bytes > self._journal_limit:
            self._compact()

    def on_rename(self) -> None:
        """Record the new path of the file, which recovery must know."""
        if self._marked:
            self._mark()

    def _mark(self) -> None:
        self._marked = True
        with contextlib.suppress(RuntimeError):  # the file is gone: somebody deleted it elsewhere
            self._path = self.room._file.path
        self._journal.mark(UnsavedRoom(self.room_id, self._path, self._base, self._base_time))

    def _compact(self) -> None:
        """Replace all updates with the current state of the document."""
        state = self.room.ydoc.get_update()
        self._last = self._journal.replace(self.room_id, state)
        self._bytes = len(state)
        # One update larger than the limit must not compact at every keystroke.
        self._journal_limit = max(self._journal_limit, 2 * self._bytes)

    def on_pending(self) -> None:
        """Prepare for an edit in slices: from its commit on, a crash must not lose it."""
        self.incomplete += 1
        if not self._marked:
            self._mark()

    def on_whole(self, has_changed: bool) -> None:
        """Handle the end of an edit in slices, during which the room did not save."""
        self.incomplete -= 1
        if has_changed:
            self.room._on_document_change("", None)
        self._forget_if_settled()

    def on_stored(self, update: bytes) -> None:
        """Record that the store has an update."""
        self._stored = max(self._stored, self._in_flight.pop(update, 0))
        while self._waiting and self._waiting[0][0] <= self._stored:
            waiting = self._waiting.popleft()[1]
            if not waiting.done():
                waiting.set_result(None)
        self._forget_if_settled()
        if self.on_row is not None:
            self.on_row()

    async def _journal_again(self) -> None:
        """Write everything that the file or the store may lack to a new journal."""
        # While the room reloads a changed file it holds a transaction across awaits (B13).
        async with self.room._update_lock:
            if self._marked or self._in_flight or not self._knows_store:
                self._compact()
            if self._marked:
                self._mark()

    async def _heal_store(self) -> None:
        # B1: a room loaded from the store never stores its own first operation, so yjs would
        # refuse all later ones of that client after a restart. Store that client's items once.
        if (store := self.room.ystore) is None:
            return
        clocks = decode_state(self.room.ydoc.get_state())
        clocks.pop(self.room.ydoc.client_id, None)
        own_items = self.room.ydoc.get_update(encode_state(clocks))
        try:
            await store.write(own_items)
        except Exception:
            self.log.exception("Could not repair the store of room %s", self.room_id)

    # -- saves -----------------------------------------------------------------------------

    def on_snapshot(self) -> None:
        """Note that the current task reads the content that it will save: the file has what was
        journaled before once the same task has set the hash."""
        if (task := asyncio.current_task()) is not None:
            self._snapshots[task] = self._last
        self._attempted = self._last_content

    def begin_save(self) -> asyncio.Task[None] | None:
        """Start to save what the room has now, if it can be saved at this moment."""
        save: asyncio.Task[None] | None = self.room._save_to_disc()
        if save is not None:
            self._snapshots[save] = self._last  # or more, if it reads its content later
        return save

    def on_save_ended(self, failure: str | None) -> None:
        """Handle the end of a save. Retries a failed one later: the room itself waits for the next
        edit, even when the disk has room again."""
        self.failure = failure
        if failure is not None:
            self.failed_saves += 1
            self.last_failure = failure
        if not self._knows_snapshots:
            self._attempted = self._last_content  # nobody knows what this save contains
        if self._saving_again is None or self._saving_again.done():
            self._saving_again = self._spawn(self._save_again())

    async def _save_again(self) -> None:
        pause = _SAVE_AGAIN
        while not self.saved_through(self._attempted):
            await asyncio.sleep(pause)
            pause = min(_SAVE_AGAIN_LIMIT, 2 * pause)
            if self.saved_through(self._attempted) or self.unloadable is not None:
                continue  # the file must be fixed first
            if (save := self.begin_save()) is not None:
                await asyncio.wait([save])

    def on_overwrite(self) -> None:
        """Prepare for the file to overwrite the room: what is unsaved is lost (B9)."""
        self.overwrites += 1
        self._authors.reloading = True

    def on_overwritten(self) -> None:
        """Learn the file that the room now has, which recovery must find after a crash."""
        self._authors.reloading = False
        self._spawn(self._learn_base())

    async def refresh(self) -> bool:
        """Make the room reload a file that changed on disk now, not within a second.

        Returns whether the file exists.
        """
        try:
            await self.room._file.maybe_notify()
        except HTTPError as error:
            return error.status_code != 404
        except Exception:  # the room's own watcher logs it
            self.log.debug("Could not look at the file of %s", self.room_id, exc_info=True)
        return True

    @property
    def unloadable(self) -> HTTPError | None:
        """Why the file on disk cannot be loaded; None if it can."""
        changes = self._workarounds.find(ExternalChanges)
        return None if changes is None else changes.unloadable(self.room)

    @property
    def loads(self) -> Loads:
        """The files that the room was loaded from, as far as known."""
        records = self._workarounds.find(LoadRecords)
        return Loads() if records is None else records.of(self.room._file)

    def _on_state(self, event: Any) -> None:
        if "hash" in event.keys and (saved_hash := self._state.get("hash")) is not None:
            task = asyncio.current_task()
            covered = self._snapshots.get(task) if task is not None else None
            if covered is not None:
                self._on_saved(str(saved_hash), covered)
        elif "dirty" in event.keys and self._relearn is None:
            # A save sets `dirty` just before it sets the hash; without a hash it was an out-of-band
            # change: the room reloaded the file, so that file is the base now.
            loop = asyncio.get_running_loop()
            self._relearn = loop.call_later(_RELEARN_DELAY, self._learn_base_again)

    def _learn_base_again(self) -> None:
        self._relearn = None
        self._spawn(self._learn_base())

    def on_written(self, file_hash: str) -> None:
        """Note that the file has what this task saved, although typing has cancelled it."""
        task = asyncio.current_task()
        if task is not None and (covered := self._snapshots.get(task)) is not None:
            self._on_saved(file_hash, covered)

    def _on_saved(self, saved_hash: str, covered: int) -> None:
        if self._relearn is not None:
            self._relearn.cancel()
            self._relearn = None
        self._covered = max(self._covered, covered)
        self._base, self._base_time = saved_hash, time.time()
        if self._marked:
            if self._knows_store:
                self._journal.trim(self.room_id, self._stored)
                self._bytes = sum(map(len, self._in_flight))
            self._mark()
            self._forget_if_settled()

    def _forget_if_settled(self) -> None:
        """Let the journal forget a room whose file and store have everything."""
        # It may be unknown what the store has. Then later updates need the earlier ones.
        if self._knows_store or self._closed:
            self._forget_if_saved()

    def _forget_if_saved(self) -> None:
        if self._marked and self.saved and not self._in_flight and not self.incomplete:
            self._marked = False
            self._bytes = 0
            self._journal.forget(self.room_id)

    async def _learn_base(self) -> None:
        """Learn the hash of the file as the room knows it."""
        file = self.room._file
        try:
            model = await ensure_async(
                file._contents_manager.get(file.path, content=False, require_hash=True)
            )
        except Exception:
            self.log.debug("No hash for %s", self.room_id, exc_info=True)
            return
        if model["last_modified"] == file.last_modified:
            self._base = model.get("hash")
            if self._marked:
                self._mark()

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
