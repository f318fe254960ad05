"""The rooms of the Jupyter server that this extension runs in: opening, saving and ending them.

The traps of jupyter-server-ydoc's API (B2 to B5, B12, B15) are handled here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from ...errors import DocumentNotFound, FileFailed
from ..protocols.awareness import LOBBY
from ..protocols.room_ids import RoomId
from ..upstream.registry import Workarounds
from .group_commit import JournalError
from .journal import Journal
from .room_paths import RoomPaths, id_of
from .server_parts import ServerParts

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import DocumentRoom, TransientRoom

    from .room_watch import RoomWatch

#: Seconds that unsaved content has to be saved before a room is cleaned up.
_FLUSH_LIMIT = 10.0

#: Seconds that a server waits for its rooms on shutdown.
_STOP_LIMIT = 3.0

#: Seconds that SQLite waits for a lock, and a little more.
_THREADS_LIMIT = 6.0

#: The most bytes in the close reason of a WebSocket.
_CLOSE_REASON = 123

_SESSION_EVENTS = "https://schema.jupyter.org/jupyter_collaboration/session/v1"
_AWARENESS_EVENTS = "https://schema.jupyter.org/jupyter_collaboration/awareness/v1"
_CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"


class Rooms:
    """The rooms of a server, each watched from its first moment."""

    def __init__(
        self,
        server: ServerParts,
        paths: RoomPaths,
        journal: Journal,
        journal_limit: int,
        workarounds: Workarounds,
    ) -> None:
        self._server = server
        self._paths = paths
        self._journal = journal
        self._journal_limit = journal_limit
        self._workarounds = workarounds
        self._log = server.log
        self._watches: dict[str, RoomWatch] = {}
        self._cleaners: dict[str, asyncio.Task[None]] = {}
        self._serving: asyncio.Task[None] | None = None
        self.on_opened: Callable[[RoomId], None] | None = None
        """Called with each room that is loaded, whoever opens it."""
        self.on_watched: Callable[[RoomWatch], None] | None = None
        """Called with each room that is watched from now on, whoever opened it."""
        self.on_row: Callable[[RoomId], None] | None = None
        """Called when the store has another row of a room."""
        self.on_closed: Callable[[RoomId], None] | None = None
        """Called with each room that ends while the server runs."""
        self.on_people_left: Callable[[], None] | None = None
        """Called when somebody leaves any room."""
        self.on_moved: Callable[[str], None] | None = None
        """Called with the new path of each file or folder that is renamed."""

    def start(self) -> None:
        """Watch every room from the moment it is loaded, whoever opens it."""
        events = self._server.events
        events.add_listener(schema_id=_SESSION_EVENTS, listener=self._on_session_event)
        events.add_listener(schema_id=_CONTENTS_EVENTS, listener=self._on_contents_event)
        events.add_listener(schema_id=_AWARENESS_EVENTS, listener=self._on_awareness_event)

    async def stop(self) -> None:
        """Save what is unsaved; what cannot be saved stays in the journal."""
        for task in self._cleaners.values():
            task.cancel()
        # The collaboration extension shuts down at the same time and may take a store's lock with
        # it: what cannot be settled soon stays in the journal, and the next start recovers it.
        settling = [asyncio.ensure_future(self._settle(watch)) for watch in self._watches.values()]
        if settling:
            await asyncio.wait(settling, timeout=_STOP_LIMIT)
        ending: list[asyncio.Task[None]] = list(settling)
        for task in settling:
            task.cancel()
        for watch in self._watches.values():
            ending += watch.close()
        if ending:
            # A task that used a store has a thread of anyio, which ends only after the end of the
            # task has been noticed; the process would wait for that thread forever.
            await asyncio.wait(ending, timeout=_THREADS_LIMIT)
        self._watches.clear()

    async def _settle(self, watch: RoomWatch) -> None:
        try:
            await self.flush(watch)
            await watch.settle()
        except Exception:
            self._log.warning("%s could not be settled; it stays in the journal", watch.room_id)

    # -- opening ---------------------------------------------------------------------------

    async def open(self, room_id: RoomId) -> RoomWatch:
        """Open a room as its first client would, but more carefully than upstream does.

        Raises:
            DocumentNotFound: Its file no longer has a path.
            HTTPError: Its file cannot be loaded.
            RoomUnavailable: There is no collaboration on this server.
        """
        server = await self.started_server()
        async with self._locked(room_id):
            room = server.rooms.get(room_id)
            if room is not None and room_id not in room._file._subscriptions:
                # B5: a room whose loading once failed stays registered and never saves.
                await self._discard(room)
                room = None
            created = room is None
            if self._paths.path_of_room(room_id) is None:
                raise DocumentNotFound.at(room_id)
            if room is None:
                room = self._new_room(room_id)
            self.keep(room)  # while its cleaner cannot have started: that needs the lock
            try:
                await server.start_room(room)
                server.add_room(room_id, room)
                await room.initialize()  # B4: an existing room may never have been loaded
            except BaseException:
                if created or not room.clients:
                    await self._discard(room)
                raise
        await room.ydoc_observed.wait()  # B2: updates before it are neither sent nor stored
        return self._watch(room)

    async def lobby(self) -> TransientRoom:
        """The room in which all people of the server are, which whoever comes first creates.

        Raises:
            RoomUnavailable: There is no collaboration on this server.
        """
        from jupyter_server_ydoc.rooms import TransientRoom
        from jupyter_server_ydoc.websocketserver import exception_logger

        server = await self.started_server()
        async with self._locked(LOBBY):
            if (room := server.rooms.get(LOBBY)) is None:
                room = TransientRoom(LOBBY, log=self._log, exception_handler=exception_logger)
                await server.start_room(room)
                server.add_room(LOBBY, room)
        return cast("TransientRoom", room)

    async def started_server(self) -> Any:
        """The server of all rooms, which whoever comes first starts."""
        server = self._server.ydoc.ywebsocket_server
        if not server.started.is_set():
            self._serving = asyncio.get_running_loop().create_task(server.start())
            await server.started.wait()
        return server

    @asynccontextmanager
    async def _locked(self, room_id: str) -> AsyncIterator[None]:
        """Prevent anybody else from opening or ending this room."""
        locks = self._server.ydoc._room_locks
        while True:
            lock = locks[room_id]
            async with lock:
                # Cleaning up a room removes its lock; those who waited for it may no longer rely on
                # it, because others do not know it.
                if locks.get(room_id) is lock:
                    yield
                    return

    def keep(self, room: DocumentRoom) -> None:
        """Do not clean up a room that is in use again."""
        if not self.lives(room):
            return  # too late: its users notice, and open it again
        if room.cleaner is not None:
            room.cleaner.cancel()
        if (cleaner := self._cleaners.pop(room.room_id, None)) is not None:
            cleaner.cancel()

    def _new_room(self, room_id: RoomId) -> DocumentRoom:
        # B15: get_document(create=True) ignores the store's configuration; so build the room
        # here, with the store class that the websocket handler uses.
        from jupyter_server_ydoc.rooms import DocumentRoom
        from jupyter_server_ydoc.websocketserver import exception_logger

        ydoc = self._server.ydoc
        file_type, file_id = room_id.file_type, room_id.file_id
        store = ydoc.ywebsocket_server.ystore_class(path=f".{file_type}:{file_id}.y", log=self._log)
        return DocumentRoom(
            room_id,
            room_id.file_format,
            file_type,
            ydoc.file_loaders[file_id],
            self._server.events,
            store,
            self._log,
            exception_handler=exception_logger,
            save_delay=ydoc.document_save_delay,
            document_load_progressively=ydoc.document_load_progressively,
            notebook_output_delay_threshold_mb=ydoc.notebook_output_delay_threshold_mb,
        )

    def watched(self, room_id: RoomId) -> RoomWatch | None:
        """What is known about a room, if it is open."""
        return self._watches.get(room_id)

    def _watch(self, room: DocumentRoom) -> RoomWatch:
        from .room_watch import RoomWatch

        watch = self._watches.get(room.room_id)
        if watch is None or watch.room is not room:
            watch = RoomWatch(
                room, self._journal, self._journal_limit, self._workarounds, self._log
            )
            self._watches[room.room_id] = watch
            watch.on_row = partial(self._tell, "on_row", watch.room_id)
            if self.on_watched is not None:
                self.on_watched(watch)
        return watch

    def watch_of(self, room_id: RoomId) -> RoomWatch | None:
        """What is known about an open room; None if it is not open."""
        return self._watches.get(room_id)

    def _tell(self, whom: Literal["on_row", "on_closed"], room_id: RoomId) -> None:
        if (tell := getattr(self, whom)) is not None:
            tell(room_id)

    # -- saving ----------------------------------------------------------------------------

    async def refresh(self, room: DocumentRoom) -> None:
        """Make a room look at its file now."""
        if (watch := self._watches.get(room.room_id)) is not None:
            await watch.refresh()

    async def save(self, room: DocumentRoom) -> None:
        """Save what a room has now, even if people keep typing.

        Raises:
            FileFailed: It could not be saved.
        """
        watch = self._watches.get(room.room_id)
        if watch is None or watch.saved:
            return
        latest = watch.latest
        why = await self.flush(watch)
        if not watch.saved_through(latest):
            path = self._paths.label(id_of(room))
            raise FileFailed.to("save", path, why or "it has edits that no file has yet")

    async def flush(self, watch: RoomWatch) -> str | None:
        """Save until the current content is saved; a save that typing cancels returns as if done.

        Returns why it could not be saved, if known.
        """
        room, latest = watch.room, watch.latest
        if self._server.ydoc.document_save_delay is None:
            return "this server is configured not to save by itself"
        async with watch.flushing:  # each save cancels the previous one: two loops would never end
            deadline = time.monotonic() + _FLUSH_LIMIT
            failed = watch.failed_saves
            while not watch.saved_through(latest) and self.lives(room):
                if time.monotonic() > deadline:
                    break
                save = watch.begin_save()
                if save is not None:
                    await asyncio.wait([save], timeout=_FLUSH_LIMIT)
                if not watch.saved_through(latest):
                    await asyncio.sleep(0.05)
                if watch.failed_saves > failed:
                    return watch.last_failure
        return None

    # -- ending ----------------------------------------------------------------------------

    def lives(self, room: DocumentRoom) -> bool:
        """Whether the server has this very room under its id."""
        return self._server.ydoc.ywebsocket_server.rooms.get(room.room_id) is room

    def on_left(self, room: DocumentRoom) -> None:
        """Clean up after a seat was left. Upstream only does so when a WebSocket leaves last."""
        delay = self._server.ydoc.document_cleanup_delay
        if delay is None or room.clients or not self.lives(room):
            return
        task = asyncio.get_running_loop().create_task(self._clean(room, delay))
        self._cleaners[room.room_id] = task

    async def _clean(self, room: DocumentRoom, delay: float) -> None:
        await asyncio.sleep(delay)
        watch = self._watches.get(room.room_id)
        if watch is not None:
            await self.flush(watch)
        async with self._locked(id_of(room)):
            if not room.clients and self.lives(room):
                self._cleaners.pop(room.room_id, None)
                await self._discard(room)
                self._log.info("Room %s deleted", room.room_id)
                locks = self._server.ydoc._room_locks
                if not locks[room.room_id]._waiters:  # as upstream does, or it would stay forever
                    del locks[room.room_id]

    async def end(self, room: DocumentRoom, why: str) -> None:
        """End a room whose file is gone, and notify the people in it."""
        for client in list(room.clients):
            if hasattr(client, "close"):  # somebody's WebSocket; JupyterLab shows the reason
                client.close(1003, close_reason(why))
        async with self._locked(id_of(room)):
            if self.lives(room):
                await self._discard(room)
        self._journal.forget(id_of(room))
        self._journal.steps.forget(id_of(room))
        with contextlib.suppress(JournalError):
            await self._journal.durable()  # or the next start would recover it

    async def _discard(self, room: DocumentRoom) -> None:
        """Remove a room from the server with everything that belongs to it."""
        ydoc = self._server.ydoc
        ydoc.ywebsocket_server.rooms.pop(room.room_id, None)
        async with _between_writes(room.ystore):
            if (watch := self._watches.pop(room.room_id, None)) is not None:
                watch.close()
            with contextlib.suppress(KeyError):  # its subscription may be gone already (B5)
                await room.stop()
        self._tell("on_closed", id_of(room))
        file_id = id_of(room).file_id
        if file_id in ydoc.file_loaders:
            loader = ydoc.file_loaders[file_id]
            if loader.number_of_subscriptions == 0:
                # Its watcher may have looked in between, and failed because the id is gone; or the
                # last WebSocket that left has had it removed.
                with contextlib.suppress(RuntimeError, KeyError):
                    await ydoc.file_loaders.remove(file_id)

    # -- moving ----------------------------------------------------------------------------

    async def vacate(self, path: str) -> None:
        """End all rooms at a path where nothing is any more, so that they are not in the way."""
        for room in self._paths.rooms_below(path):
            await self.end(room, f"{path} is gone.")
        self._paths.delete(path)

    @asynccontextmanager
    async def moving(self, path: str, new_path: str) -> AsyncIterator[None]:
        """Record a rename while it happens, in case of a crash in between."""
        self._journal.renaming(path, new_path)
        with contextlib.suppress(JournalError):  # edits report it
            await self._journal.durable()
        try:
            yield
        except BaseException:
            self._journal.record_rename(path, new_path)
            raise
        await self.on_move(path, new_path)

    async def on_move(self, path: str, new_path: str) -> None:
        """Move rooms, and the ids of their files, to the new path of a file or a folder.

        Returns when the journal has it, too: after a crash, recovery looks for the file there.
        """
        self._paths.move(path, new_path)
        self._on_rename(new_path)
        self._journal.record_rename(path, new_path)
        with contextlib.suppress(JournalError):  # edits report it
            await self._journal.durable()

    # -- events ----------------------------------------------------------------------------

    async def _on_session_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        # The listener's task is created before the one that serves the room's first client, so
        # nobody can have edited the room yet.
        room_id, action = data.get("room"), data.get("action")
        if not isinstance(room_id, str):
            return
        if action == "initialize":
            room = self._server.ydoc.ywebsocket_server.rooms.get(room_id)
            if room is not None and room.ready and hasattr(room, "_document"):
                self._watch(cast("DocumentRoom", room))
                if self.on_opened is not None:
                    self.on_opened(RoomId(room_id))
            return
        watch = self._watches.get(room_id)
        if watch is None:
            return
        if action == "clean" and not self.lives(watch.room):
            del self._watches[room_id]
            watch.close()
            self._tell("on_closed", watch.room_id)
        elif action == "save":
            watch.on_save_ended(None)
        elif data.get("level") == "ERROR" and "Error saving file" in data.get("msg", ""):
            watch.on_save_ended(str(data["msg"]).partition("\n")[2])

    async def _on_awareness_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data.get("action") == "leave" and self.on_people_left is not None:
            self.on_people_left()

    async def _on_contents_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data.get("action") in ("rename", "delete"):
            await asyncio.sleep(0)  # after the file ids have followed
            self._paths.forget_paths()
        if data.get("action") == "rename":
            self._on_rename(str(data.get("path") or ""))

    def _on_rename(self, path: str) -> None:
        for watch in self._watches.values():
            watch.on_rename()
        if self.on_moved is not None:
            self.on_moved(path)


def close_reason(why: str) -> str:
    """Why a session ends, as JupyterLab reads it; a long reason is shortened at the front."""
    said, start = _initialization_error(why), 0
    while len(said) > _CLOSE_REASON:
        start += 1
        said = _initialization_error(f"...{why[start:]}")
    return said


def _initialization_error(why: str) -> str:
    said = {"reason": "initialization_error", "errorReason": why, "reloadable": False}
    return json.dumps(said)


@contextlib.asynccontextmanager
async def _between_writes(store: Any) -> AsyncIterator[None]:
    """B21: an interrupted write leaves the database locked, for all documents."""
    async with getattr(store, "lock", None) or contextlib.nullcontext():
        yield
