"""A seat in a room of another Jupyter server, over its collaboration WebSocket.

The connection may break and come back (`RoomReconnector`); what was written in the meantime is
carried over (`ConnectionSync`). If the room is not the one that we left, the seat is given up, and
its users join again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from logging import Logger
from typing import Any

from pycrdt import (
    Decoder,
    Doc,
    YMessageType,
    YSyncMessageType,
    create_update_message,
    merge_updates,
    read_message,
)

from ...documents.updates import deletion_key, is_deletion
from ...errors import (
    CollaborationError,
    CorruptDocument,
    DocumentNotFound,
    ForkNotFound,
    NotText,
    RoomUnavailable,
)
from ...owned_tasks import OwnedTasks
from ..protocols.room_ids import RoomId
from ..protocols.rooms import Authorship, Overwrite, autosave_is_on
from .connection_sync import ConnectionSync
from .freshness import Freshness
from .jupyter_api import JupyterApi
from .room_awareness import RoomAwareness
from .room_connection import RAW, RoomConnection
from .room_file import RoomFile
from .room_reconnector import RoomReconnector
from .room_saves import RoomSaves
from .server_errors import Refused

#: Seconds to receive the document for the first time.
_ENTRY = 60.0

#: Seconds to receive a document that the server may only have in its store, if at all.
_DOUBTED = 5.0

#: Seconds to send the last messages on leaving.
_GOODBYE = 2.0


_TellAuthorship = Callable[[RoomId, Authorship, Sequence[bytes]], None]


class RoomSocket:
    """One seat in one room, for as long as it is the same room."""

    limitation = None
    at_once = False

    pends = False

    def __init__(
        self,
        api: JupyterApi,
        room_id: RoomId,
        path: str,
        log: Logger,
        modified: str | None = None,
        writable: bool = True,
        file: RoomFile | None = None,
    ) -> None:
        self.room_id = room_id
        self.on_end: Callable[[], None] | None = None
        self.on_authorship: _TellAuthorship | None = None
        """Called with each edit of an agent, and what names the deletions in it."""
        self.ended = ""
        """Why the seat is lost for good; empty while it is not."""
        self.gone = False
        """Whether the reason is that the document has moved or is gone."""
        self.closed = False
        """Whether we have left."""
        self._log = log
        self._notices: list[str] = []
        self._slices: list[bytes] | None = None  # of an edit that is sent as a whole
        self._deletions: list[bytes] = []  # that were sent since the last record
        self._tasks = OwnedTasks()
        self._file = file or RoomFile(api, room_id.file_id, path)
        self._sync = ConnectionSync()
        self._awareness = RoomAwareness()
        self._line = RoomReconnector(api, room_id, self._file, self, self._end, log)
        self._freshness = Freshness(api, room_id.kind, modified, writable)
        self._saves = RoomSaves(
            api, room_id.kind, self._file, self._sync, self._line, self._freshness
        )

    # -- coming and going --------------------------------------------------------------------

    async def enter(self, doubt: str | None = None) -> None:
        """Take the seat, and receive the whole document.

        Args:
            doubt: Why the server may be unable to load it. It does not report that itself (B24).

        Raises:
            CollaborationError: The server, the document or its room is unavailable.
        """
        self._tasks.start(self._line.run())
        limit = _ENTRY if doubt is None else _DOUBTED
        try:
            async with asyncio.timeout(limit):
                await self._line.entered
        except TimeoutError as error:
            await self.close()
            if doubt is not None:
                raise CorruptDocument.notebook(self.path, doubt) from error
            why = f"the server did not send it within {limit:g} s"
            raise self._file.unavailable(why) from error
        except BaseException:
            await self.close()
            raise
        if self.alive:
            self._tasks.start(self._awareness.run())
            self._tasks.start(self._end_when_file_is_gone())

    async def close(self) -> None:
        self.closed = True
        self._line.stop(self._file.unavailable("the seat was given up").happened)
        if self._line.connection is not None:
            await self._line.connection.wait_sent(_GOODBYE)
        await self._tasks.close()
        self._sync.close()

    def give_up(self) -> None:
        self._end(self._file.unavailable("an edit failed halfway"))

    def end_with_file(self) -> None:
        """Leave the room of a file that has just been deleted."""
        self._end(DocumentNotFound.at(self.path))

    def _end(self, error: CollaborationError) -> None:
        """Lose the seat for good, without further attempts."""
        if not self.alive:
            return
        self._log.info("%s: %s", self.room_id, error.happened)
        self.ended = error.happened
        self.gone = isinstance(error, DocumentNotFound | ForkNotFound)
        self._line.stop(error.happened)
        self._tasks.cancel()
        if self.on_end is not None:
            self.on_end()

    async def _end_when_file_is_gone(self) -> None:
        self._end(await self._file.watch(lambda: self.connected, self._log))

    # -- the room ----------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        return self._line.session_id

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def alive(self) -> bool:
        return not self.closed and not self.ended

    @property
    def connected(self) -> bool:
        """Whether it is currently in sync with the room."""
        return self._line.in_sync

    @property
    def autosaves(self) -> bool:
        return autosave_is_on(self.states)

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return self._awareness.states

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._awareness.on_arrival(tell)

    def on_update(self, tell: Callable[[], None]) -> None:
        self._sync.on_news = tell

    def notices(self) -> Sequence[str]:
        notices, self._notices = self._notices, []
        return notices

    def warn(self, notice: str) -> None:
        """Add a notice to the next answer."""
        self._notices.append(notice)

    def remember(self, notice: str | None) -> None:
        """Do nothing: a crash of another server loses nothing of ours."""

    def record(self, authorship: Authorship) -> None:
        deletions, self._deletions = self._deletions, []
        if self.on_authorship is not None:
            self.on_authorship(self.room_id, authorship, deletions)

    # -- its document ------------------------------------------------------------------------

    def attach(self, doc: Doc[Any]) -> None:
        self._file.follow(self._sync.attach(doc, self.path))

    def send(self, message: bytes) -> None:
        connection = self._line.connection
        if message[0] == YMessageType.AWARENESS:
            # A farewell is not echoed to its sender, so we would stay here forever.
            self._awareness.apply(message, "own")
        elif message[1] == YSyncMessageType.SYNC_UPDATE:
            update = read_message(message[2:])
            if self._slices is not None:
                self._slices.append(update)
                return
            if is_deletion(update):
                self._deletions.append(deletion_key(update))
            self._sync.on_sent(update, echoes=connection is not None)
        if connection is not None:  # otherwise the next connection carries over what the Doc has
            connection.send(message)

    @contextlib.asynccontextmanager
    async def as_one(self, updates: Sequence[bytes]) -> AsyncIterator[None]:
        """Send one message in the end: a server applies it as a whole."""
        slices: list[bytes] = []
        self._slices = slices
        try:
            yield
        finally:
            self._slices = None
        if slices:  # all that changed something, because nothing was raised
            self.send(create_update_message(merge_updates(*slices)))

    def receive(self) -> Sequence[bytes]:
        return self._sync.receive(everything=not self.alive)

    async def current(self) -> None:
        try:
            if (state := self._sync.state) is not None:
                await self._line.wait_connected()
                # A server overwrites a file that it could not load with an edit.
                await self._freshness.require_loadable(self.path, state)
            await self._line.round_trip()
        except RoomUnavailable as error:
            error.happened += " Nothing was done."
            raise

    async def wait_acknowledged(self) -> None:
        # The server handles the messages of a client in order: when it has answered a question, it
        # has applied everything that was sent before.
        try:
            await self._line.round_trip()
        except RoomUnavailable as error:
            raise RoomUnavailable(
                f"{error.happened} The edit was on its way and may not have been kept.",
                "Read it again and repeat the edit if it is missing.",
                path=self.path,
            ) from error

    # -- its file ----------------------------------------------------------------------------

    @property
    def saved(self) -> bool:
        return self._sync.state is None or self._sync.state.saved

    @property
    def writable(self) -> bool:
        return self._freshness.writable

    @property
    def modified(self) -> str | None:
        """The modification time of the file that the room is known to match."""
        return self._freshness.modified

    def whereabouts(self) -> Sequence[str]:
        return (self.path,)  # from outside, a link looks like a file

    @property
    def loads(self) -> int:
        return 0

    def loaded_since(self, loads: int) -> Sequence[str]:
        return ()

    def overwritten(self) -> Overwrite | None:
        return None if self._sync.state is None else self._sync.state.overwritten()

    async def stale(self) -> bool:
        if self._sync.state is None:
            return False
        try:
            return await self._freshness.stale(self.path, self._sync.state)
        except DocumentNotFound:
            with contextlib.suppress(Refused):
                await self.look()  # it may have another path now
            return False

    async def look(self) -> None:
        """Look up the current path of the file.

        Raises:
            DocumentNotFound: It no longer exists.
        """
        await self._file.look()

    async def flush(self) -> None:
        try:
            await self.save()
        except (NotText, CorruptDocument):
            raise  # otherwise a rename would make the server save it under the new name
        except CollaborationError as error:
            self._log.warning("%s", error.happened)

    async def save(self, always: bool = False) -> None:
        """Make the server save what is unsaved.

        Args:
            always: Save even if nothing is known to be unsaved; others may have edited earlier.

        Raises:
            CollaborationError: It was not saved.
        """
        if self.alive:
            await self._saves.save(always)

    # -- what a connection brings ------------------------------------------------------------

    def on_message(self, connection: RoomConnection, message: bytes) -> None:
        """Handle a message of the server, in order."""
        if message[0] == YMessageType.SYNC:
            if message[1] == YSyncMessageType.SYNC_STEP1:
                self._introduce(connection, message)
            elif message[1] == YSyncMessageType.SYNC_STEP2:
                self._sync.on_answer(read_message(message[2:]))
                connection.on_answer()
                if connection.in_sync_since is None and self._line.on_sync(connection):
                    self._awareness.announce()
            else:
                self._sync.on_update(read_message(message[2:]))
        elif message[0] == YMessageType.AWARENESS:
            self._awareness.apply(message, "room")
        elif message[0] == RAW:
            decoder = Decoder(message)
            decoder.read_var_uint()
            said = json.loads(decoder.read_var_string())
            if said.get("type") == "save":
                connection.on_saved(said.get("responseTo"))
            elif said.get("type") == "conflict":
                why = "the server has other contents than the edits were made in"
                raise self._file.unavailable(why)

    def on_lost(self) -> None:
        """Called when the connection is no longer usable."""
        self._line.on_lost()
        self._sync.on_lost()

    def question(self) -> tuple[bytes, Callable[[], None]]:
        """A message that asks for everything missing here, and a callback for its answer."""
        return self._sync.question()

    def _introduce(self, connection: RoomConnection, message: bytes) -> None:
        """Handle the server's state vector: send what it lacks, and from now on all updates."""
        if self._sync.is_other_history(message):
            raise self._file.unavailable("the server reloaded the document")
        if (missing := self._sync.missing_in_room(message)) is not None:
            connection.send(missing)
        self._line.connection = connection
