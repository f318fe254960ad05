"""Rooms and files of the Jupyter server that this extension runs in.

The traps of jupyter-server-ydoc's API (B2 to B5, B12, B15) are all met here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from tornado.web import HTTPError

from ...documents import well_formed
from ...documents.awareness import people_in
from ...documents.foreign_text import listed
from ...errors import DocumentNotFound, FileFailed, InUse, RoomUnavailable
from ...panics import contained
from ..disk.local_disk import LocalDisk
from ..disk.open_files import report_opened_files
from ..protocols.room_ids import Kind, RoomId, room_kind
from ..protocols.rooms import RoomLink
from ..upstream.file_ids import take_names_as_they_are
from ..upstream.held_saves import hold_saves_during_renames
from ..upstream.kept_line_ends import keep_line_ends
from ..upstream.kept_numbers import keep_numbers
from ..upstream.linked_files import look_behind_links, remember_loads
from ..upstream.loadable_contents import LoadableContents, load_carefully
from ..upstream.room_events import tell_rooms_of_changes_only
from ..upstream.taken_over import take_over_carefully, tell_of_writes
from ..upstream.threads import end_with_the_process
from ..upstream.whole_reads import keep_readers_from_writers
from .files import InProcessFiles
from .group_commit import JournalError
from .journal import Journal
from .link import InProcessLink

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from jupyter_server_ydoc.app import YDocExtension
    from jupyter_server_ydoc.rooms import DocumentRoom

    from .room_watch import RoomWatch

#: A room is cleaned up only after what is unsaved had this long to be saved, in seconds.
_FLUSH_LIMIT = 10.0

#: What a server that shuts down waits for its rooms, in seconds.
_STOP_LIMIT = 3.0

#: How long SQLite waits for a lock, and a little more, in seconds.
_THREADS_LIMIT = 6.0

#: Seconds for which it is believed where the file of an open room is: links seldom change.
_BELIEVED = 1.0

#: Bytes that a WebSocket can say when it is closed.
_LAST_WORDS = 123

_SESSION_EVENTS = "https://schema.jupyter.org/jupyter_collaboration/session/v1"
_CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"


class InProcessBackend:
    """The rooms of this server, each watched from its first moment."""

    def __init__(self, serverapp: ServerApp, journal: Journal, journal_limit: int) -> None:
        self._serverapp = serverapp
        self._settings: dict[str, Any] = serverapp.web_app.settings
        self._journal = journal
        self._journal_limit = journal_limit
        self._watches: dict[str, RoomWatch] = {}
        self._cleaners: dict[str, asyncio.Task[None]] = {}
        self._notices = journal.records.notices()
        self._places: dict[str, tuple[str, ...]] = {}
        self._placed = 0.0
        self._loadable: LoadableContents | None = None
        self.files = InProcessFiles(self)
        self.log = serverapp.log

    def start(self, renames: Sequence[tuple[str, str]]) -> None:
        """Watch every room from the moment it is loaded, whoever opens it.

        Args:
            renames: Old and new paths of what was renamed right before a crash.
        """
        end_with_the_process()
        tell_rooms_of_changes_only()
        events = self._serverapp.event_logger
        assert events is not None
        events.add_listener(schema_id=_SESSION_EVENTS, listener=self._on_session_event)
        events.add_listener(schema_id=_CONTENTS_EVENTS, listener=self._on_contents_event)
        # When all extensions are loaded, and before anybody is served.
        self._serverapp.io_loop.add_callback(self._mend, renames)

    def _mend(self, renames: Sequence[tuple[str, str]]) -> None:
        """Put right what other extensions do wrong for everybody, or could not know."""
        take_names_as_they_are(self._settings.get("file_id_manager"))
        for path, new_path in renames:
            self._move_ids(path, new_path)
        keep_readers_from_writers(self.contents)
        keep_numbers()
        if LocalDisk.below(self.contents) is not None:
            report_opened_files(self.contents)
        with contextlib.suppress(RoomUnavailable):  # there are no rooms, then
            look_behind_links(self.ydoc.file_loaders, self.contents)
            hold_saves_during_renames(self.contents, self.files.held, self._moving)
            self._loadable = load_carefully(self.ydoc.file_loaders)
            self._keep_rooms_apart()

    def _keep_rooms_apart(self) -> None:
        """B20: a room that ends while it starts takes all others of the server with it.

        It does so when somebody comes back to a file that is gone: the others are still there, and
        nobody in them sees any more what the others do.
        """
        server = self.ydoc.ywebsocket_server
        start_room = server.start_room

        async def start_apart(room: Any) -> None:
            if hasattr(room, "_file"):
                remember_loads(room._file, self.contents)  # before the first one
            if not room.started.is_set():
                room.start = self._apart(room.start)
            await start_room(room)

        server.start_room = start_apart

    def _apart(self, start: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
        async def start_alone(**options: Any) -> None:
            try:
                with contained():
                    await start(**options)
            except Exception:
                self.log.debug("A room ended while it was starting", exc_info=True)

        return start_alone

    async def stop(self) -> None:
        """Save what is unsaved; what cannot be saved stays in the journal."""
        for task in self._cleaners.values():
            task.cancel()
        # The collaboration extension goes down at the same time and may take a store's lock with
        # it: what cannot be settled soon stays in the journal, and the next start brings it back.
        settling = [asyncio.ensure_future(self._settle(watch)) for watch in self._watches.values()]
        if settling:
            await asyncio.wait(settling, timeout=_STOP_LIMIT)
        ending: list[asyncio.Task[None]] = list(settling)
        for task in settling:
            task.cancel()
        for watch in self._watches.values():
            ending += watch.close()
        if ending:
            # A task that used a store has a thread of anyio's, which ends only after the task has
            # been seen to end; the process would wait for that thread for ever.
            await asyncio.wait(ending, timeout=_THREADS_LIMIT)
        self._watches.clear()
        await self._journal.close()

    # -- files -----------------------------------------------------------------------------

    async def identify(self, path: str, kind: Kind | None = "notebook") -> RoomId:
        kind = room_kind(await self.files.look(path), kind)
        await self._end_other_kind(path, kind)
        room_id = self._open_as(path, kind)
        return room_id or RoomId.of(kind, self.file_ids.index(self.files.followed(path)))

    def known(self, path: str, kind: Kind = "notebook") -> RoomId | None:
        if "\\" in path:  # fileid takes it for a slash: that is another file, with other rules
            return None
        if (room_id := self._open_as(path, kind)) is not None:
            return room_id
        file_id = self.file_ids.get_id(self.files.followed(path))
        return None if file_id is None else RoomId.of(kind, file_id)

    def _open_as(self, path: str, kind: Kind) -> RoomId | None:
        """The room in which a file is open, whatever link leads to it: two overwrite each other.

        If there are several all the same, it is one that people are in, and of this very path.
        """
        rooms = [room for room in self._rooms_of(path) if _id(room).file_type == kind]
        if len(rooms) < 2:
            return _id(rooms[0]) if rooms else None
        ranks = {_id(room): (_has_people(room), self._path_of(_id(room)) == path) for room in rooms}
        return max(ranks, key=ranks.__getitem__, default=None)

    async def _end_other_kind(self, path: str, kind: Kind) -> None:
        """Two rooms of one file overwrite each other; a rename makes a text of a notebook.

        Raises:
            InUse: Somebody has it open as what it was, or as what the name of a link says.
        """
        for room in self._rooms_of(path):
            if _id(room).file_type == kind:
                continue
            if _has_people(room):
                names = listed(people_in(room.awareness.states)) or "Somebody"
                raise InUse(
                    f"{names} has {path!r} open as another kind of document: under the name that "
                    "it had, or through a link.",
                    "Ask them to close it.",
                    path=path,
                )
            await self.save(room)
            await self.end(room, f"{path} is another kind of document now.")

    def path_of(self, file_id: str) -> str | None:
        path = self.file_ids.get_path(file_id)
        return None if path is None else str(path)

    async def locate(self, file_id: str) -> str | None:
        return self.path_of(file_id)

    def open_paths(self) -> dict[str, list[str]]:
        """Who is in which document that is open, by the path of its room and where it really is."""
        found: dict[str, list[str]] = {}
        for room in self._rooms():
            if (path := self._path_of(_id(room))) is not None:
                for name in {path, self.files.resolved(path)}:
                    there = found.setdefault(name, [])
                    there += [who for who in people_in(room.awareness.states) if who not in there]
        return found

    async def vacate(self, path: str) -> None:
        """Nothing is at a path any more: what was there must not stand in the way."""
        for room in self.rooms_below(path):
            await self.end(room, f"{path} is gone.")
        self.file_ids.delete(self.files.placed(path))  # an id never gives way to another one
        self._places = {}

    @asynccontextmanager
    async def _moving(self, path: str, new_path: str) -> AsyncIterator[None]:
        """A file or a folder gets another path meanwhile, or a crash comes in between."""
        self._journal.renaming(path, new_path)
        with contextlib.suppress(JournalError):  # edits say so
            await self._journal.durable()
        try:
            yield
        except BaseException:
            self._journal.renamed(path, new_path)
            raise
        await self.moved(path, new_path)

    async def moved(self, path: str, new_path: str) -> None:
        """A file or a folder has another path now; so have the ids of what is in it.

        Returns when the journal has it, too: after a crash, recovery looks for the file there.
        """
        self._move_ids(path, new_path)
        for watch in self._watches.values():
            watch.renamed()
        self._journal.renamed(path, new_path)
        with contextlib.suppress(JournalError):  # edits say so
            await self._journal.durable()

    def _move_ids(self, path: str, new_path: str) -> None:
        ids = self.file_ids
        if ids.get_id(new_path) is None:  # else fileid has been told
            ids.index(path)  # the ids of what is in a folder follow only if the folder has one
            ids.move(path, new_path)
        self._places = {}

    async def refresh(self, room: DocumentRoom) -> None:
        """Have a room look at its file now."""
        if (watch := self._watches.get(room.room_id)) is not None:
            await watch.refresh()

    def rooms_below(self, path: str) -> list[DocumentRoom]:
        """The rooms of a file, or of all files in a folder, whatever links lead to them.

        Those of a link itself are only the ones that were opened through it.
        """
        place, resolved = self.files.placed(path), self.files.resolved

        def is_below(at: str) -> bool:
            return _within(at, path) or _within(at, place) or _within(resolved(at), place)

        paths = ((self._path_of(_id(room)), room) for room in self._rooms())
        return [room for at, room in paths if at is not None and is_below(at)]

    def opened_at(self, room: DocumentRoom, path: str) -> bool:
        """Whether a room was opened by a path, or by one below it."""
        at = self._path_of(_id(room))
        return at is not None and _within(at, path)

    def _rooms_of(self, path: str) -> list[DocumentRoom]:
        """The rooms of a file, whatever links lead to it."""
        real = self.files.resolved(path)
        return [room for room in self._rooms() if real in self._places_of(_id(room))]

    def _places_of(self, room_id: RoomId) -> tuple[str, ...]:
        """The path by which a room was opened, and where its file really is, as of a moment ago:
        every call asks this of all rooms."""
        now = time.monotonic()
        if now - self._placed > _BELIEVED:
            self._places, self._placed = {}, now
        if room_id not in self._places:
            path = self._path_of(room_id)
            self._places[room_id] = () if path is None else (path, self.files.resolved(path))
        return self._places[room_id]

    def _rooms(self) -> list[DocumentRoom]:
        if "jupyter_server_ydoc" not in self._settings:
            return []
        rooms = self.ydoc.ywebsocket_server.rooms.values()
        return [room for room in rooms if hasattr(room, "_file")]

    # -- rooms -----------------------------------------------------------------------------

    async def join(self, room_id: RoomId) -> RoomLink:
        room = await self._open(room_id)
        watch = self._watch(room)
        link = InProcessLink(self, watch, self._journal, self._notices.get(room_id, []))
        path = self._path_of(room_id) or room_id
        if self._loadable is not None and (rounded := self._loadable.rounded(path)):
            link.warn(well_formed.rounding(path, rounded))
        await link.enter()
        self._keep(room)  # the last person may have left just now, who saw nobody else here
        return link

    async def _open(self, room_id: RoomId) -> DocumentRoom:
        """Open a room as its first client would, and as carefully as upstream does not."""
        ydoc = self.ydoc
        server = ydoc.ywebsocket_server
        if not server.started.is_set():
            asyncio.get_running_loop().create_task(server.start())
            await server.started.wait()
        async with self._locked(room_id):
            room = server.rooms.get(room_id)
            if room is not None and room_id not in room._file._subscriptions:
                # B5: a room whose loading once failed stays registered and never saves.
                await self._discard(room)
                room = None
            created = room is None
            if self.file_ids.get_path(room_id.file_id) is None:
                raise DocumentNotFound.at(room_id)
            if room is None:
                room = self._new_room(room_id)
            self._keep(room)  # as long as its cleaner cannot have begun: that needs the lock
            try:
                await server.start_room(room)
                server.add_room(room_id, room)
                await room.initialize()  # B4: an existing room may never have been loaded
            except BaseException as error:
                if created or not room.clients:
                    await self._discard(room)
                if isinstance(error, HTTPError):
                    path = self._path_of(room_id) or room_id
                    raise await self.files.unreadable(path, room_id.file_type, error) from error
                raise
        await room.ydoc_observed.wait()  # B2: updates before it are neither sent nor stored
        return cast("DocumentRoom", room)

    @asynccontextmanager
    async def _locked(self, room_id: RoomId) -> AsyncIterator[None]:
        """Nobody else opens or ends this room meanwhile."""
        locks = self.ydoc._room_locks
        while True:
            lock = locks[room_id]
            async with lock:
                # Who cleans up a room removes its lock; those who waited for that may not rely on
                # it any more, as others do not know it.
                if locks.get(room_id) is lock:
                    yield
                    return

    def _keep(self, room: DocumentRoom) -> None:
        """Do not clean up a room that is in use again."""
        if not self.lives(room):
            return  # too late: who is in it notices, and opens it anew
        if room.cleaner is not None:
            room.cleaner.cancel()
        if (cleaner := self._cleaners.pop(room.room_id, None)) is not None:
            cleaner.cancel()

    def _new_room(self, room_id: RoomId) -> DocumentRoom:
        # B15: get_document(create=True) ignores the store's configuration; so build the room
        # here, with the store class that the websocket handler uses.
        from jupyter_server_ydoc.rooms import DocumentRoom
        from jupyter_server_ydoc.websocketserver import exception_logger

        ydoc = self.ydoc
        file_id = room_id.file_id
        store_path = f".{room_id.file_type}:{file_id}.y"
        store = ydoc.ywebsocket_server.ystore_class(path=store_path, log=self.log)
        return DocumentRoom(
            room_id,
            room_id.file_format,
            room_id.file_type,
            ydoc.file_loaders[file_id],
            self._serverapp.event_logger,
            store,
            self.log,
            exception_handler=exception_logger,
            save_delay=ydoc.document_save_delay,
            document_load_progressively=ydoc.document_load_progressively,
            notebook_output_delay_threshold_mb=ydoc.notebook_output_delay_threshold_mb,
        )

    async def _discard(self, room: DocumentRoom) -> None:
        """Take a room out of the server with all that belongs to it."""
        ydoc = self.ydoc
        ydoc.ywebsocket_server.rooms.pop(room.room_id, None)
        async with _between_writes(room.ystore):
            if (watch := self._watches.pop(room.room_id, None)) is not None:
                watch.close()
            with contextlib.suppress(KeyError):  # its subscription may be gone already (B5)
                await room.stop()
        file_id = _id(room).file_id
        if file_id in ydoc.file_loaders:
            loader = ydoc.file_loaders[file_id]
            if loader.number_of_subscriptions == 0:
                # Its watcher may have looked in between, and stumbled over an id that is gone; or
                # the last WebSocket that left has had it removed.
                with contextlib.suppress(RuntimeError, KeyError):
                    await ydoc.file_loaders.remove(file_id)

    def _watch(self, room: DocumentRoom) -> RoomWatch:
        from .room_watch import RoomWatch

        watch = self._watches.get(room.room_id)
        if watch is None or watch.room is not room:
            watch = RoomWatch(room, self._journal, self._journal_limit, self.log)
            self._watches[room.room_id] = watch
            keep_line_ends(room._file, LocalDisk.below(self.contents))
            take_over_carefully(room._file)
            tell_of_writes(room._file, watch)
        return watch

    async def _on_session_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        # The listener's task is made before the one that serves the room's first client, so
        # nobody can have edited the room yet.
        room_id, action = data.get("room"), data.get("action")
        if not isinstance(room_id, str):
            return
        if action == "initialize":
            room = self.ydoc.ywebsocket_server.rooms.get(room_id)
            if room is not None and room.ready and hasattr(room, "_document"):
                self._watch(room)
            return
        watch = self._watches.get(room_id)
        if watch is None:
            return
        if action == "clean" and not self.lives(watch.room):
            del self._watches[room_id]
            watch.close()
        elif action == "save":
            watch.on_save_ended(None)
        elif data.get("level") == "ERROR" and "Error saving file" in data.get("msg", ""):
            watch.on_save_ended(str(data["msg"]).partition("\n")[2])

    async def _on_contents_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data.get("action") in ("rename", "delete"):
            await asyncio.sleep(0)  # after the file ids have followed
            self._places = {}
        if data.get("action") == "rename":
            for watch in self._watches.values():
                watch.renamed()

    def lives(self, room: DocumentRoom) -> bool:
        """Whether this very room is the one that the server has under its id."""
        return self.ydoc.ywebsocket_server.rooms.get(room.room_id) is room

    def left(self, room: DocumentRoom) -> None:
        """A seat was given up. Upstream cleans a room only when a websocket leaves it last."""
        delay = self.ydoc.document_cleanup_delay
        if delay is None or room.clients or not self.lives(room):
            return
        task = asyncio.get_running_loop().create_task(self._clean(room, delay))
        self._cleaners[room.room_id] = task

    async def _clean(self, room: DocumentRoom, delay: float) -> None:
        await asyncio.sleep(delay)
        watch = self._watches.get(room.room_id)
        if watch is not None:
            await self.flush(watch)
        async with self._locked(room.room_id):
            if not room.clients and self.lives(room):
                self._cleaners.pop(room.room_id, None)
                await self._discard(room)
                self.log.info("Room %s deleted", room.room_id)
                locks = self.ydoc._room_locks
                if not locks[room.room_id]._waiters:  # as upstream does, or it stays for ever
                    del locks[room.room_id]

    async def _settle(self, watch: RoomWatch) -> None:
        try:
            await self.flush(watch)
            await watch.settle()
        except Exception:
            self.log.warning("%s could not be settled; it stays in the journal", watch.room.room_id)

    async def save(self, room: DocumentRoom) -> None:
        """Save what a room has now, whoever is in it and writes on.

        Raises:
            FileFailed: It could not be saved.
        """
        watch = self._watches.get(room.room_id)
        if watch is None or watch.saved:
            return
        wanted = watch.latest
        why = await self.flush(watch)
        if not watch.saved_through(wanted):
            path = self._path_of(_id(room)) or room.room_id
            raise FileFailed.to("save", path, why or "it has edits that no file has yet")

    async def end(self, room: DocumentRoom, why: str) -> None:
        """End a room whose file is gone, and tell the people in it."""
        for client in list(room.clients):
            if hasattr(client, "close"):  # somebody's WebSocket; JupyterLab shows what it is told
                client.close(1003, _farewell(why))
        async with self._locked(room.room_id):
            if self.lives(room):
                await self._discard(room)
        self._journal.forget(room.room_id)
        with contextlib.suppress(JournalError):
            await self._journal.durable()  # or the next start would bring it back

    async def flush(self, watch: RoomWatch) -> str | None:
        """Save until what there is now is saved; a save that typing cancels returns as if done.

        Returns why it could not be saved, if that is known.
        """
        room, wanted = watch.room, watch.latest
        if self.ydoc.document_save_delay is None:
            return "this server is configured not to save by itself"
        async with watch.flushing:  # each save cancels the one before it, for ever if two loop
            deadline = time.monotonic() + _FLUSH_LIMIT
            failed = watch.failed_saves
            while not watch.saved_through(wanted) and self.lives(room):
                if time.monotonic() > deadline:
                    break
                save = room._save_to_disc()
                if save is not None:
                    await asyncio.wait([save], timeout=_FLUSH_LIMIT)
                if not watch.saved_through(wanted):
                    await asyncio.sleep(0.05)
                if watch.failed_saves > failed:
                    return watch.last_failure
        return None

    def _path_of(self, room_id: RoomId) -> str | None:
        return self.path_of(room_id.file_id)

    @property
    def ydoc(self) -> YDocExtension:
        # Looked up late: the order in which extensions load is not ours.
        ydoc = self._settings.get("jupyter_server_ydoc")
        if ydoc is None or not hasattr(ydoc, "ywebsocket_server"):
            raise RoomUnavailable(
                "Real-time collaboration is not running on this Jupyter server.",
                "Ask the person to install and enable jupyter-collaboration 5.0 and restart it.",
            )
        return cast("YDocExtension", ydoc)

    @property
    def file_ids(self) -> Any:
        return self._settings["file_id_manager"]

    @property
    def contents(self) -> Any:
        return self._serverapp.contents_manager


def _farewell(why: str) -> str:
    """Why a session ends, as JupyterLab reads it; of what is too long, the end."""
    said, start = _ended(why), 0
    while len(said) > _LAST_WORDS:
        start += 1
        said = _ended(f"...{why[start:]}")
    return said


def _ended(why: str) -> str:
    said = {"reason": "initialization_error", "errorReason": why, "reloadable": False}
    return json.dumps(said)


def _within(path: str, folder: str) -> bool:
    return f"{path}/".startswith(f"{folder}/")


def _id(room: DocumentRoom) -> RoomId:
    return RoomId(room.room_id)


def _has_people(room: DocumentRoom) -> bool:
    """Whether somebody has a WebSocket to it, and so a tab; our own seats have none."""
    return any(hasattr(client, "close") for client in room.clients)


@contextlib.asynccontextmanager
async def _between_writes(store: Any) -> AsyncIterator[None]:
    """B21: a write that ends half-way leaves the database locked, for all documents."""
    async with getattr(store, "lock", None) or contextlib.nullcontext():
        yield
