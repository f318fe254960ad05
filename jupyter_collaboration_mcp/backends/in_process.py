"""Rooms and files of the Jupyter server that this extension runs in.

The traps of jupyter-server-ydoc's API (B2 to B5, B12, B15) are all met here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

from jupyter_server.utils import ensure_async
from pycrdt import Doc, YMessageType, handle_sync_message
from tornado.web import HTTPError

from ..documents.render import people
from ..errors import CorruptDocument, DocumentNotFound, NotANotebook, RoomUnavailable
from .base import Authorship, Listing, NotebookEntry, RoomLink
from .journal import Journal, JournalError
from .memory_channel import MemoryChannel
from .threads import end_with_the_process

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
        self._notices = journal.notices()
        self.log = serverapp.log

    def start(self) -> None:
        """Watch every room from the moment it is loaded, whoever opens it."""
        end_with_the_process()
        events = self._serverapp.event_logger
        assert events is not None
        events.add_listener(schema_id=_SESSION_EVENTS, listener=self._on_session_event)
        events.add_listener(schema_id=_CONTENTS_EVENTS, listener=self._on_contents_event)

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

    async def identify(self, path: str) -> str:
        model = await self._metadata(path)
        if model["type"] != "notebook":
            raise NotANotebook.at(path, model["type"])
        return f"json:notebook:{self._files.index(path)}"

    def known(self, path: str) -> str | None:
        file_id = self._files.get_id(path)
        return None if file_id is None else f"json:notebook:{file_id}"

    def path_of(self, file_id: str) -> str | None:
        path = self._files.get_path(file_id)
        return None if path is None else str(path)

    async def last_modified(self, path: str) -> str | None:
        modified = (await self._metadata(path)).get("last_modified")
        return None if modified is None else str(modified.isoformat())

    async def list_notebooks(
        self, path_prefix: str, limit: int, visible: Callable[[str], bool]
    ) -> Listing:
        """Breadth first through the contents manager, so that its own rules hold."""
        start = path_prefix if await self._is_directory(path_prefix) else _parent(path_prefix)
        found: list[NotebookEntry] = []
        directories: deque[str] = deque([start])
        while directories:
            for model in await self._children(directories.popleft()):
                path = model["path"]
                if model["type"] == "directory":
                    if path.startswith(path_prefix) or path_prefix.startswith(path + "/"):
                        directories.append(path)
                elif model["type"] == "notebook" and path.startswith(path_prefix) and visible(path):
                    if len(found) == limit:
                        return Listing(tuple(found), complete=False)
                    found.append(self._entry(model))
        return Listing(tuple(found), complete=True)

    def _entry(self, model: Mapping[str, Any]) -> NotebookEntry:
        modified = model.get("last_modified")
        room_id = self.known(model["path"])
        room = self._ydoc.ywebsocket_server.rooms.get(room_id) if room_id else None
        present = () if room is None else tuple(people(room.awareness.states))
        return NotebookEntry(
            path=model["path"],
            last_modified=modified.isoformat() if modified is not None else None,
            size=model.get("size"),
            open=room is not None,
            people=present,
        )

    async def _metadata(self, path: str) -> Mapping[str, Any]:
        try:
            model = await ensure_async(self._contents.get(path, content=False))
        except HTTPError as error:
            raise DocumentNotFound.at(path) from error
        return cast("Mapping[str, Any]", model)

    async def _is_directory(self, path: str) -> bool:
        try:
            return bool((await self._metadata(path))["type"] == "directory")
        except DocumentNotFound:
            return False

    async def _children(self, path: str) -> Sequence[Mapping[str, Any]]:
        try:
            model = await ensure_async(self._contents.get(path, type="directory"))
        except HTTPError:
            return ()  # gone or unreadable since it was listed
        return sorted(model["content"], key=lambda child: str(child["name"]))

    # -- rooms -----------------------------------------------------------------------------

    async def join(self, room_id: str) -> RoomLink:
        room = await self._open(room_id)
        watch = self._watch(room)
        link = InProcessLink(self, watch, self._journal, self._notices.get(room_id, []))
        await link.enter()
        return link

    async def _open(self, room_id: str) -> DocumentRoom:
        """Open a room as its first client would, and as carefully as upstream does not."""
        ydoc = self._ydoc
        server = ydoc.ywebsocket_server
        if not server.started.is_set():
            asyncio.get_running_loop().create_task(server.start())
            await server.started.wait()
        async with ydoc._room_locks[room_id]:
            room = server.rooms.get(room_id)
            if room is not None and room_id not in room._file._subscriptions:
                # B5: a room whose loading once failed stays registered and never saves.
                await self._discard(room)
                room = None
            created = room is None
            if self._files.get_path(room_id.split(":", 2)[2]) is None:
                raise DocumentNotFound.at(room_id)
            if room is None:
                room = self._new_room(room_id)
            try:
                await server.start_room(room)
                server.add_room(room_id, room)
                await room.initialize()  # B4: an existing room may never have been loaded
            except BaseException as error:
                if created or not room.clients:
                    await self._discard(room)
                if isinstance(error, HTTPError):
                    raise _load_error(self._path_of(room_id), error) from error
                raise
        await room.ydoc_observed.wait()  # B2: updates before it are neither sent nor stored
        if room.cleaner is not None:
            room.cleaner.cancel()
        if (cleaner := self._cleaners.pop(room_id, None)) is not None:
            cleaner.cancel()
        return cast("DocumentRoom", room)

    def _new_room(self, room_id: str) -> DocumentRoom:
        # B15: get_document(create=True) ignores the store's configuration; so build the room
        # here, with the store class that the websocket handler uses.
        from jupyter_server_ydoc.rooms import DocumentRoom
        from jupyter_server_ydoc.websocketserver import exception_logger

        ydoc = self._ydoc
        file_format, file_type, file_id = room_id.split(":", 2)
        store = ydoc.ywebsocket_server.ystore_class(path=f".{file_type}:{file_id}.y", log=self.log)
        return DocumentRoom(
            room_id,
            file_format,
            file_type,
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
        ydoc = self._ydoc
        if (watch := self._watches.pop(room.room_id, None)) is not None:
            watch.close()
        ydoc.ywebsocket_server.rooms.pop(room.room_id, None)
        with contextlib.suppress(KeyError):  # its subscription may be gone already (B5)
            await room.stop()
        file_id = room.room_id.split(":", 2)[2]
        if file_id in ydoc.file_loaders:
            loader = ydoc.file_loaders[file_id]
            if loader.number_of_subscriptions == 0:
                await ydoc.file_loaders.remove(file_id)

    def _watch(self, room: DocumentRoom) -> RoomWatch:
        from .room_watch import RoomWatch

        watch = self._watches.get(room.room_id)
        if watch is None or watch.room is not room:
            watch = RoomWatch(room, self._journal, self._contents, self._journal_limit, self.log)
            self._watches[room.room_id] = watch
        return watch

    async def _on_session_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        # The listener's task is made before the one that serves the room's first client, so
        # nobody can have edited the room yet.
        room_id, action = data.get("room"), data.get("action")
        if not isinstance(room_id, str):
            return
        if action == "initialize":
            room = self._ydoc.ywebsocket_server.rooms.get(room_id)
            if room is not None and room.ready and hasattr(room, "_document"):
                self._watch(room)
        elif action == "clean":
            watch = self._watches.get(room_id)
            if watch is not None and not self.lives(watch.room):
                del self._watches[room_id]
                watch.close()

    async def _on_contents_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        if data.get("action") == "rename":
            await asyncio.sleep(0)  # after the file ids have followed
            for watch in self._watches.values():
                watch.renamed()

    def lives(self, room: DocumentRoom) -> bool:
        """Whether this very room is the one that the server has under its id."""
        return self._ydoc.ywebsocket_server.rooms.get(room.room_id) is room

    def left(self, room: DocumentRoom) -> None:
        """A seat was given up. Upstream cleans a room only when a websocket leaves it last."""
        delay = self._ydoc.document_cleanup_delay
        if delay is None or room.clients or not self.lives(room):
            return
        task = asyncio.get_running_loop().create_task(self._clean(room, delay))
        self._cleaners[room.room_id] = task

    async def _clean(self, room: DocumentRoom, delay: float) -> None:
        await asyncio.sleep(delay)
        watch = self._watches.get(room.room_id)
        if watch is not None:
            await self._flush(watch)
        async with self._ydoc._room_locks[room.room_id]:
            if not room.clients and self.lives(room):
                self._cleaners.pop(room.room_id, None)
                await self._discard(room)
                self.log.info("Room %s deleted", room.room_id)

    async def _settle(self, watch: RoomWatch) -> None:
        try:
            await self._flush(watch)
            await watch.settle()
        except Exception:
            self.log.warning("%s could not be settled; it stays in the journal", watch.room.room_id)

    async def _flush(self, watch: RoomWatch) -> None:
        """Save until it is saved: a save that somebody's typing cancels returns as if done."""
        room = watch.room
        if self._ydoc.document_save_delay is None:
            return  # this server is told never to save
        deadline = time.monotonic() + _FLUSH_LIMIT
        while not watch.saved and self.lives(room) and time.monotonic() < deadline:
            save = room._save_to_disc()
            if save is not None:
                await asyncio.wait([save], timeout=_FLUSH_LIMIT)
            if not watch.saved:
                await asyncio.sleep(0.05)

    def _path_of(self, room_id: str) -> str:
        return str(self._files.get_path(room_id.split(":", 2)[2]))

    @property
    def _ydoc(self) -> YDocExtension:
        # Looked up late: the order in which extensions load is not ours.
        ydoc = self._settings.get("jupyter_server_ydoc")
        if ydoc is None or not hasattr(ydoc, "ywebsocket_server"):
            raise RoomUnavailable(
                "Real-time collaboration is not running on this Jupyter server.",
                "Ask the person to install and enable jupyter-collaboration >= 5 and restart it.",
            )
        return cast("YDocExtension", ydoc)

    @property
    def _files(self) -> Any:
        return self._settings["file_id_manager"]

    @property
    def _contents(self) -> Any:
        return self._serverapp.contents_manager


class InProcessLink:
    """A seat in a room of this very process."""

    def __init__(
        self,
        backend: InProcessBackend,
        watch: RoomWatch,
        journal: Journal,
        notices: list[str],
    ) -> None:
        self._backend = backend
        self._watch = watch
        self._journal = journal
        self._notices = notices
        self._room = watch.room
        self._channel = MemoryChannel(self._room.room_id)
        self._received: list[bytes] = []
        self._sending = False
        self._awareness: str | None = None
        self._wishes: dict[int, Any] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self.on_end: Callable[[], None] | None = None  # never: who uses a dead room opens it anew

    async def enter(self) -> None:
        """Sit down: from now on nothing that the room does is missed."""
        self._received.append(self._room.ydoc.get_update())
        self._watch.listeners.add(self._on_update)
        server = self._backend._ydoc.ywebsocket_server
        self._task = asyncio.get_running_loop().create_task(server.serve(self._channel))
        await self._channel.served.wait()

    @property
    def room_id(self) -> str:
        return str(self._room.room_id)

    @property
    def session_id(self) -> str:
        from jupyter_server_ydoc.utils import SERVER_SESSION

        return str(SERVER_SESSION)

    @property
    def path(self) -> str:
        return str(self._room._file.path)

    @property
    def alive(self) -> bool:
        return not self._closed and self._backend.lives(self._room)

    @property
    def saved(self) -> bool:
        return self._watch.saved

    @property
    def mode(self) -> Literal["live", "file"]:
        return "live"

    @property
    def durable(self) -> bool:
        return True  # the journal sees to it

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return cast("Mapping[int, Mapping[str, Any]]", self._room.awareness.states)

    def attach(self, doc: Doc[Any]) -> None:
        """Nothing is asked of it: this room is given every update at once."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        # No snapshot of the awareness is sent to who joins: they would learn of us after 15 s.
        def observe(topic: str, changes: tuple[dict[str, Any], Any]) -> None:
            wishes = {
                client: state.get("autosave") for client, state in self.states.items() if state
            }
            if topic == "change" and wishes != self._wishes:
                self._wishes = wishes
                tell()

        self._awareness = self._room.awareness.observe(observe)

    def notices(self) -> Sequence[str]:
        notices, self._notices[:] = list(self._notices), []
        if notices:
            self._journal.forget_notices(self.room_id)
        return notices

    def send(self, message: bytes) -> None:
        if message[0] != YMessageType.SYNC:
            self._channel.feed(message)
            return
        # What the room would do with the message, at once and not some turns of the loop later:
        # nobody can come in between, and the answer need not wait for it. The update was made in
        # the peer's Doc, under the peer's client id, so the trap of B1 does not apply.
        self._sending = True
        try:
            handle_sync_message(message[1:], self._room.ydoc)
        finally:
            self._sending = False

    def receive(self) -> Sequence[bytes]:
        received, self._received = self._received, []
        return received

    def record(self, authorship: Authorship) -> None:
        self._journal.attribute(
            self.room_id,
            (
                authorship.client,
                authorship.clock_from,
                authorship.clock_to,
                authorship.agent,
                authorship.call,
                authorship.time,
            ),
        )

    async def current(self) -> None:
        # While the room takes over a changed file it holds a transaction across awaits (B13).
        while self._room._update_lock.locked():
            async with self._room._update_lock:
                pass

    async def acknowledged(self) -> None:
        await self.current()
        if not self.alive:
            raise RoomUnavailable(
                f"The room of {self.path} was closed while the edit was on its way; "
                "it may not have been kept.",
                "Read the notebook again and repeat the edit if it is missing.",
            )
        try:
            await self._journal.durable()
        except JournalError as error:
            raise RoomUnavailable(
                f"The edit is in the live notebook, but it could not be made durable ({error}); "
                "it would be lost if the server crashed before the next save.",
                "Tell the person that the disk of the Jupyter server may be full.",
            ) from error

    async def flush(self) -> None:
        await self._backend._flush(self._watch)

    async def close(self) -> None:
        self._closed = True
        self._watch.listeners.discard(self._on_update)
        if self._awareness is not None:
            self._room.awareness.unobserve(self._awareness)
        self._channel.leave()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._backend.left(self._room)

    def _on_update(self, update: bytes) -> None:
        if not self._sending:  # else it is our own coming back
            self._received.append(update)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _load_error(path: str, error: HTTPError) -> DocumentNotFound | CorruptDocument:
    if error.status_code == 404:
        return DocumentNotFound.at(path)
    return CorruptDocument(
        f"{path!r} cannot be loaded as a notebook: {error.log_message or error.reason}. "
        "The file was not touched.",
        "Ask the person to repair or restore the file.",
        path=path,
    )
