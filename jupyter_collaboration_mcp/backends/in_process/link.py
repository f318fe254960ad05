"""A seat in a room of the Jupyter server that this extension runs in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pycrdt import Doc, YMessageType, handle_sync_message

from ...documents.awareness import well_formed
from ...documents.foreign_text import inline, words
from ...documents.updates import deletion_key, is_deletion
from ...errors import DocumentNotFound, RoomUnavailable
from ..disk.open_files import Load
from ..protocols.room_ids import RoomId
from ..protocols.rooms import Authorship, Overwrite, autosave_is_on
from ..protocols.versions import Source
from .files import InProcessFiles
from .group_commit import JournalError
from .history.credits import Credit
from .journal import Journal
from .memory_channel import MemoryChannel, observe_arrivals
from .room_paths import RoomPaths
from .rooms import Rooms
from .server_parts import ServerParts

if TYPE_CHECKING:
    from .room_watch import RoomWatch


class InProcessLink:
    """One member of one room, for all agents at its document."""

    limitation = None

    at_once = True

    pends = True

    def __init__(
        self,
        server: ServerParts,
        rooms: Rooms,
        paths: RoomPaths,
        files: InProcessFiles,
        watch: RoomWatch,
        journal: Journal,
        notices: list[str],
    ) -> None:
        self._server = server
        self._rooms = rooms
        self._paths = paths
        self._files = files
        self._watch = watch
        self._journal = journal
        self._notices = notices
        self._warnings: list[str] = []
        self._remembers = False  # whether the journal has a notice for after a crash
        self._room = watch.room
        self._room_id = watch.room_id
        self._file_id = watch.room_id.file_id
        self._loads = watch.loads
        self._path = ""
        self._channel = MemoryChannel(self._room.room_id)
        self._received: list[bytes] = []
        self._sending = False
        self._sent = 0
        self._deletions: list[bytes] = []  # that were sent since the last record
        self._tell_update: Callable[[], None] | None = None
        self._awareness: str | None = None
        self._closed = False
        self._given_up = False
        self._waiting = asyncio.Lock()  # to wait until the room has reloaded its file
        self._overwrites = watch.overwrites
        self._before_overwrite: int | None = None  # number of updates before it
        self.on_end: Callable[[], None] | None = None  # never called: users open dead rooms again

    async def enter(self) -> None:
        """Take a seat: from now on we miss nothing that the room does."""
        self._received.append(self._room.ydoc.get_update())
        self._watch.listeners.add(self._on_update)
        # A room that ends at this very moment serves nobody; `alive` reports it.
        await self._channel.enter(self._server.ydoc.ywebsocket_server)

    @property
    def room_id(self) -> RoomId:
        return self._room_id

    @property
    def session_id(self) -> str:
        from jupyter_server_ydoc.utils import SERVER_SESSION

        return str(SERVER_SESSION)

    @property
    def path(self) -> str:
        if (path := self._paths.path_of(self._file_id)) is not None:  # else it is gone
            self._path = path
        return self._path

    def whereabouts(self) -> Sequence[str]:
        files, path = self._files, self.path
        last = self._loads.last
        led_to = [last] if last is not None and last.linked else []
        return [files.whereabouts(path), *self._paths_of(led_to)]

    @property
    def loads(self) -> int:
        return self._loads.count

    def loaded_since(self, loads: int) -> Sequence[str]:
        if (new := self._loads.since(loads)) is None:
            raise RoomUnavailable(
                f"{self.path} keeps changing which file it leads to.", "Try again in a moment."
            )
        return self._paths_of(new)

    def _paths_of(self, loads: Sequence[Load]) -> list[str]:
        return [self._files.within(load.file, self.path) for load in loads]

    @property
    def alive(self) -> bool:
        return not (self._closed or self._given_up) and self._rooms.lives(self._room)

    @property
    def saved(self) -> bool:
        overwritten = self._before_overwrite is not None
        return self._watch.saved and not overwritten

    @property
    def autosaves(self) -> bool:
        return self._server.ydoc.document_save_delay is not None and autosave_is_on(self.states)

    @property
    def writable(self) -> bool:
        return self._files.writable(self.path)

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return well_formed(self._room.awareness.states)

    def attach(self, doc: Doc[Any]) -> None:
        """Do nothing: this room passes on every update at once."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._awareness = observe_arrivals(self._room.awareness, tell)

    def on_update(self, tell: Callable[[], None]) -> None:
        self._tell_update = tell

    def remember(self, notice: str | None) -> None:
        if notice is not None:
            self._journal.notify(self.room_id, self.path, notice)
            self._remembers = True
        elif self._remembers:
            self._journal.forget_notices(self.room_id)
            self._remembers = False

    def notices(self) -> Sequence[str]:
        notices, self._notices[:] = list(self._notices), []
        if notices:
            self._journal.forget_notices(self.room_id)
        notices += self._warnings
        self._warnings.clear()
        if (failure := self._watch.failure) is not None:
            self._watch.failure = None
            notices.append(
                f"The server could not save {inline(self.path)}: {words(failure)}. What "
                "is unsaved is in the live document only; tell the person."
            )
        if self._journal.weakness is not None and not self.saved:
            notices.append(
                "Not protected against a crash: this server can keep no journal, so what is not "
                "saved yet would be lost with it."
            )
        return notices

    def warn(self, notice: str) -> None:
        """Add a notice to the next answer."""
        self._warnings.append(notice)

    def send(self, message: bytes) -> None:
        if message[0] != YMessageType.SYNC:
            self._channel.feed(message)
            return
        # Do what the room would do with the message, at once and not some turns of the loop later:
        # nobody can come in between, and the answer need not wait for it. The update was made in
        # the peer's Doc, under the peer's client id, so the trap of B1 does not apply.
        self._sent += 1
        self._sending = self._watch.sending = True
        try:
            handle_sync_message(message[1:], self._room.ydoc)
        finally:
            self._sending = self._watch.sending = False

    @asynccontextmanager
    async def as_one(self, updates: Sequence[bytes]) -> AsyncIterator[None]:
        self._watch.on_pending()  # recovery completes the edits of marked rooms
        edit = self._journal.pend(self.room_id, updates)
        sent, ended = self._sent, False
        try:
            try:
                await self._journal.durable()  # not below: a new journal needs the lock as well
            except JournalError as error:
                raise RoomUnavailable(
                    f"The edit could not be made durable ({error}). Nothing was changed.",
                    "Tell the person that the disk of the Jupyter server may be full.",
                ) from error
            # While somebody holds it, the room neither reloads its file nor saves.
            async with self._room._update_lock:
                yield
            ended = True
        finally:
            done = self._sent - sent
            # Not all are sent if people have made some of the deletions. One that was interrupted
            # is completed at the next start.
            if ended or done in (0, len(updates)):
                self._journal.settle(edit)
                self._watch.on_whole(has_changed=done > 0)

    def receive(self) -> Sequence[bytes]:
        received, self._received = self._received, []
        return received

    def record(self, authorship: Authorship) -> None:
        who, call, moment = authorship.author, authorship.call, authorship.time
        clocks = authorship.client, authorship.clock_from, authorship.clock_to
        source: Source = "agent" if who.is_agent else "person"  # who wrote it in a fork
        if clocks[1] < clocks[2]:
            credit = Credit(*clocks, b"", source, who.id, who.name, call, moment)
            self._journal.credit(self._room_id, credit)
        if self._deletions:
            deletions, self._deletions = self._deletions, []
            for key in deletions:
                credit = Credit.of_deletion(key, source, who, moment, call)
                self._journal.credit(self._room_id, credit)

    def give_up(self) -> None:
        self._given_up = True

    async def current(self) -> None:
        if self._watch.unloadable is not None:
            await self.stale()  # it may have been fixed by now
        await self._between_takeovers()

    async def _between_takeovers(self) -> None:
        # While the room reloads a changed file it holds a transaction across awaits (B13). What
        # waits for the lock has been loaded, but is not in the room yet.
        lock = self._room._update_lock
        if lock.locked() or lock._waiters:
            async with self._waiting:  # two of ours would wait for each other forever
                while lock.locked() or lock._waiters:
                    async with lock:
                        pass

    async def wait_acknowledged(self) -> None:
        await self._between_takeovers()
        if not self.alive:
            raise RoomUnavailable(
                f"The room of {inline(self.path)} was closed while the edit was on its way; "
                "it may not have been kept.",
                "Read it again and repeat the edit if it is missing.",
            )
        try:
            await self._journal.durable()
        except JournalError as error:
            raise RoomUnavailable(
                f"The edit is in the live document, but it could not be made durable ({error}); "
                "it would be lost if the server crashed before the next save.",
                "Tell the person that the disk of the Jupyter server may be full.",
            ) from error

    def overwritten(self) -> Overwrite | None:
        before, self._before_overwrite = self._before_overwrite, None
        return None if before is None else Overwrite.between(before, before + 1)

    async def stale(self) -> bool:
        if not await self._watch.refresh():
            raise DocumentNotFound.at(self.path)
        await self._require_loadable()
        return False

    async def _require_loadable(self) -> None:
        """Refuse to read or edit content that is not in the file and cannot be saved to it."""
        if (error := self._watch.unloadable) is not None:
            kind = self.room_id.kind
            raise await self._files.unreadable(self.path, kind, error) from error

    async def save(self) -> None:
        await self._rooms.save(self._room)

    async def flush(self) -> None:
        await self._rooms.flush(self._watch)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._watch.listeners.discard(self._on_update)
        if self._awareness is not None:
            self._room.awareness.unobserve(self._awareness)
        await self._channel.leave()
        self._rooms.on_left(self._room)

    def _on_update(self, update: bytes) -> None:
        if self._overwrites < self._watch.overwrites:
            self._overwrites = self._watch.overwrites
            if self._before_overwrite is None:
                self._before_overwrite = len(self._received)
        if self._sending:  # it is our own update coming back
            if is_deletion(update):
                self._deletions.append(deletion_key(update))
        else:
            self._received.append(update)
            if self._tell_update is not None:
                self._tell_update()
