"""A seat in a room of another Jupyter server, over its collaboration WebSocket.

The connection may break and come back: what was written meanwhile is in the Doc, and the sync
after the reconnect carries it over. A room that is not the one we left must never get our old
Doc, or its text could double: then the seat is given up, and who wants to go on joins anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from logging import Logger
from typing import Any, Literal, cast

from pycrdt import (
    Awareness,
    Decoder,
    Doc,
    Text,
    YMessageType,
    YSyncMessageType,
    create_sync_message,
    handle_sync_message,
    read_message,
)

from ...documents import line_ends
from ...documents.foreign_text import inline, quoted
from ...documents.updates import decode_state
from ...errors import (
    CollaborationError,
    CorruptDocument,
    DocumentNotFound,
    FileFailed,
    NotJupyter,
    NotText,
    RoomUnavailable,
    ServerUnreachable,
)
from ...panics import contained
from ..protocols.room_ids import RoomId
from ..protocols.rooms import Authorship, autosave_is_on
from .freshness import Freshness
from .jupyter_api import JupyterApi
from .room_connection import RAW, RoomConnection
from .room_inbox import RoomInbox
from .room_session import open_session
from .room_state import RoomState
from .server_errors import Refused
from .websocket import TOO_LARGE, BoundedConnection

#: The pause before a reconnect grows from the first to the second, in seconds; while somebody
#: waits for it, only to the third.
_SOON, _LATER, _WANTED = 0.2, 10.0, 1.0

#: A connection that held this long was a good one: the next pause is a short one again.
_STEADY = 2.0

#: Seconds for a whole attempt to connect, and to have the document for the first time.
_ATTEMPT, _ENTRY = 20.0, 60.0

#: Seconds to have a document that the server cannot load, unless it has it in its store.
_DOUBTED = 5.0

#: Seconds that a call waits for the server to be there again, and for its answer.
_AWAY, _ANSWER = 15.0, 30.0

#: Seconds for saving before leaving, and for the last words on leaving.
_FLUSH, _GOODBYE = 10.0, 2.0

#: Saves in a row that did nothing, after which the server is believed not to be able to save.
_FAILURES = 5

#: Seconds between two looks at whether the file is still there; and to look again before
#: believing that it is not: a rename takes effect in several places.
_LOOK, _LOOK_AGAIN = 10.0, 1.0

_ANEW = "Read it again; its room is opened anew."


class _Lost(Exception):
    """The connection broke in a way that may pass."""


class RoomSocket:
    """One seat in one room, for as long as it is the same room."""

    mode: Literal["live", "file"] = "live"
    at_once = False

    def __init__(
        self,
        api: JupyterApi,
        room_id: RoomId,
        path: str,
        log: Logger,
        modified: str | None = None,
        writable: bool = True,
    ) -> None:
        self.room_id = room_id
        self.on_end: Callable[[], None] | None = None
        self.ended = ""
        """Why the seat is lost for good; empty while it is not."""
        self.gone = False
        """Whether that is because the document is not where it was."""
        self._api = api
        self._file_id = room_id.file_id
        self._path = path
        self._log = log
        self._session_id = ""
        self._doc: Doc[Any] | None = None
        self._state: RoomState | None = None
        self._ahead: RoomState | None = None  # knows what nobody has received yet
        self._flushing = asyncio.Lock()
        self._inbox = RoomInbox()
        self._sent = self._applied = 0  # updates; and how many of them the room surely has
        self._own_clock = 0  # ... through which it surely has ours
        self._notices: list[str] = []
        self._freshness = Freshness(api, room_id.kind, modified, writable)
        self._awareness = Awareness(Doc())
        self._awareness.set_local_state(None)  # nobody: each agent has a client id of its own
        self._wishes: dict[int, Any] = {}
        self._arrival: Callable[[], None] | None = None
        self._awareness.observe(self._on_awareness)
        self._connection: RoomConnection | None = None
        self._in_sync = asyncio.Event()  # also set when there is nothing left to wait for
        self._wanted = asyncio.Event()  # while somebody waits for the connection
        self._waiting = 0
        self._last_error: Exception | None = None
        self.closed = False
        """Whether the seat was given up."""
        self._entered: asyncio.Future[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def enter(self, doubt: str | None = None) -> None:
        """Sit down, and have the whole document.

        Args:
            doubt: Why the server may not be able to load it. It does not say so (B24).

        Raises:
            CollaborationError: The server, the document or its room is not to be had.
        """
        loop = asyncio.get_running_loop()
        self._entered = loop.create_future()
        self._tasks = [loop.create_task(self._stay_connected())]
        limit = _ENTRY if doubt is None else _DOUBTED
        try:
            async with asyncio.timeout(limit):
                await self._entered
        except TimeoutError as error:
            await self.close()
            if doubt is not None:
                raise CorruptDocument.notebook(self.path, doubt) from error
            raise self._unavailable(f"the server did not send it within {limit:g} s") from error
        except BaseException:
            await self.close()
            raise
        if self.alive:
            self._tasks += [
                loop.create_task(self._awareness.start()),
                loop.create_task(self._watch_file()),
            ]

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def path(self) -> str:
        return self._path if self._state is None else self._state.path

    @property
    def alive(self) -> bool:
        return not self.closed and not self.ended

    @property
    def connected(self) -> bool:
        """Whether it is in sync with the room now."""
        return self._in_sync.is_set() and self.alive

    @property
    def saved(self) -> bool:
        return self._state is None or self._state.saved

    @property
    def autosaves(self) -> bool:
        return autosave_is_on(self.states)

    def whereabouts(self) -> Sequence[str]:
        return (self.path,)  # from outside, a link looks like a file

    @property
    def loads(self) -> int:
        return 0

    def loaded_since(self, loads: int) -> Sequence[str]:
        return ()

    @property
    def writable(self) -> bool:
        return self._freshness.writable

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return cast("Mapping[int, Mapping[str, Any]]", self._awareness.states)

    def attach(self, doc: Doc[Any]) -> None:
        self._doc = doc
        self._state = RoomState(doc, self._path)

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._arrival = tell

    def notices(self) -> Sequence[str]:
        notices, self._notices = self._notices, []
        return notices

    def remember(self, notice: str | None) -> None:
        """Another server's crash takes nothing from us."""

    def warn(self, notice: str) -> None:
        """Have something said in the next answer."""
        self._notices.append(notice)

    def overwritten(self) -> range | None:
        return None if self._state is None else self._state.overwritten()

    @property
    def modified(self) -> str | None:
        """When the file was changed last that the room is known to have taken over."""
        return self._freshness.modified

    async def stale(self) -> bool:
        if self._state is None:
            return False
        try:
            return await self._freshness.stale(self.path, self._state)
        except DocumentNotFound:
            with contextlib.suppress(Refused):
                await self.look()  # it may have another path now
            return False

    def send(self, message: bytes) -> None:
        connection = self._connection
        if message[0] == YMessageType.AWARENESS:
            # A farewell is not sent back to its sender, so that we would stay here for ever.
            self._awareness.apply_awareness_update(read_message(message[1:]), "own")
        elif message[1] == YSyncMessageType.SYNC_UPDATE:
            self._sent += 1
            if connection is not None:
                self._inbox.expect_echo(read_message(message[2:]))
        if connection is not None:  # else the Doc has it, and tells on the next connection
            connection.send(message)

    def receive(self) -> Sequence[bytes]:
        if self._state is not None:
            self._state.updates = 0
        return self._inbox.drain(everything=not self.alive)

    def record(self, authorship: Authorship) -> None:
        """Another server remembers no authors."""

    def give_up(self) -> None:
        self._end(self._unavailable("an edit failed halfway"))

    async def current(self) -> None:
        try:
            if self._state is not None:
                await self._connected()
                # A server saves an edit over a file that it could not load.
                await self._freshness.require_loadable(self.path, self._state)
            await self._round_trip()
        except RoomUnavailable as error:
            error.happened += " Nothing was done."
            raise

    async def acknowledged(self) -> None:
        # The server takes the messages of a client in their order: when it has answered a
        # question it has applied all that was sent before.
        try:
            await self._round_trip()
        except RoomUnavailable as error:
            raise RoomUnavailable(
                f"{error.happened} The edit was on its way and may not have been kept.",
                "Read it again and repeat the edit if it is missing.",
                path=self.path,
            ) from error

    async def flush(self) -> None:
        try:
            await self.save()
        except (NotText, CorruptDocument):
            raise  # whoever renames it now would have the server save it under the new name
        except CollaborationError as error:
            self._log.warning("%s", error.happened)

    async def save(self, always: bool = False) -> None:
        """Have the server save what is unsaved.

        Args:
            always: Also if nothing is known to be: others may have edited before we came.

        Raises:
            CollaborationError: It does not.
        """
        if self._state is None or not self.alive:
            return
        try:
            async with self._flushing, asyncio.timeout(_FLUSH):
                await self._connected()
                await self._freshness.require_loadable(self.path, self._state, now=True)
                await self._round_trip()
                if always and self._state.saved and not await self._is_in_file(self._state.doc):
                    await (await self._connected()).save()
                await self._save(self._state)
        except TimeoutError as error:
            raise FileFailed.to("save", self.path, f"not within {_FLUSH:g} s") from error
        except (NotText, CorruptDocument):
            if not (always and self._state.saved):  # else the file is all there is
                raise

    def end_with_file(self) -> None:
        """Leave the room of a file that has just been deleted."""
        self._end(DocumentNotFound.at(self.path))

    async def close(self) -> None:
        self.closed = True
        self._in_sync.set()
        if self._connection is not None:
            await self._connection.sent(_GOODBYE)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._state is not None:
            self._state.close()

    # -- the connection ----------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        pause = _SOON
        while True:
            began = None
            try:
                with contained():
                    began = await self._connect_once()
            except (_Lost, Refused, ServerUnreachable, NotJupyter, TimeoutError) as error:
                self._last_error = error
                if not self._refuse_entry(error):
                    self._log.debug("The connection to %s broke: %s", self.path, error)
            except CollaborationError as error:
                if not self._refuse_entry(error):
                    self._end(error)
            except Exception as error:
                self._log.exception("The connection to %s is given up", self.path)
                if not self._refuse_entry(error):
                    self._end(self._unavailable(f"{type(error).__name__}: {quoted(error)}"))
            if self.ended or self._entered is None or self._entered.exception() is not None:
                return
            if began is not None and time.monotonic() - began > _STEADY:
                pause = _SOON
            await self._rest(pause)
            pause = min(2 * pause, _LATER)

    async def _rest(self, pause: float) -> None:
        pause *= random.uniform(0.5, 1.5)
        await asyncio.sleep(min(pause, _WANTED))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, pause - _WANTED)):
                await self._wanted.wait()

    async def _connect_once(self) -> float:
        """Connect and stay until the connection ends. Returns when it was in sync."""
        async with asyncio.timeout(_ATTEMPT):
            await self._check_session()
            websocket = await self._open_websocket()
        connection = RoomConnection(websocket, self)
        code, reason = await connection.serve()
        self._judge(code, reason)
        if connection.in_sync_since is None:
            raise _Lost(f"the server closed the connection ({_why(code, reason)})")
        self._last_error = _Lost(f"the connection broke ({_why(code, reason)})")
        return connection.in_sync_since

    async def _check_session(self) -> None:
        """Never sync with a server that has restarted, or with another document."""
        session = await open_session(self._api, self.path, self.room_id.kind)
        if not self._session_id:
            if session.file_id != self._file_id:
                raise DocumentNotFound.at(self.path)
            self._session_id = session.id
        elif session.id != self._session_id:
            raise self._unavailable("the Jupyter server was restarted")
        elif session.file_id != self._file_id:
            await self.look()  # the document may only have another path

    async def _open_websocket(self) -> BoundedConnection:
        try:
            return await self._api.websocket(
                "api", "collaboration", "room", self.room_id, sessionId=self._session_id
            )
        except Refused as refused:
            if 400 <= refused.status < 500 and refused.status != 429:
                raise self._unavailable(f"the server refuses the connection ({refused})") from None
            raise

    def _judge(self, code: int | None, reason: str) -> None:
        """Raise if a server has closed a connection for good."""
        path = self.path
        if code == 4404:
            raise DocumentNotFound.at(path)
        if code in (4400, 4500):
            kind = self.room_id.kind
            raise CorruptDocument(
                f"{path!r} cannot be loaded as a {kind}. The file was not touched.",
                "Ask the person to look into the log of the Jupyter server, and to repair or "
                "restore the file.",
                path=path,
            )
        if code == 1003:
            raise self._unavailable(f"the server ended the session ({_why(code, reason)})")
        if code == TOO_LARGE:
            raise self._unavailable(reason or "the document is too large for the server")

    def _refuse_entry(self, error: Exception) -> bool:
        """Whether somebody was waiting to enter, who is told."""
        assert self._entered is not None
        if self._entered.done():
            return False
        if not isinstance(error, CollaborationError):
            ours = isinstance(error, (_Lost, Refused))
            said = str(error) if ours else f"{type(error).__name__}: {quoted(error)}"
            error = self._unavailable(said)
        self._entered.set_exception(error)
        return True

    def _end(self, error: CollaborationError) -> None:
        """The seat is lost. Nothing is tried again: a refused token stays refused."""
        if not self.alive:
            return
        self._log.info("%s: %s", self.room_id, error.happened)
        self.ended = error.happened
        self.gone = isinstance(error, DocumentNotFound)
        self._in_sync.set()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        if self.on_end is not None:
            self.on_end()

    # -- messages ----------------------------------------------------------------------------

    def on_message(self, connection: RoomConnection, message: bytes) -> None:
        """What the server sends, in its order."""
        if message[0] == YMessageType.SYNC:
            content = read_message(message[2:])
            if message[1] == YSyncMessageType.SYNC_STEP1:
                self._introduce(connection, message)
            elif message[1] == YSyncMessageType.SYNC_STEP2:
                if (piece := self._inbox.answer(content)) is not None:
                    self._look_at(piece)
                connection.on_answer()
                if connection.in_sync_since is None:
                    self._on_sync(connection)
            elif self._inbox.is_echo(content):
                if self._ahead is not None:
                    self._ahead.doc.apply_update(content)
            elif self._inbox.news(content):
                self._look_at(content)
        elif message[0] == YMessageType.AWARENESS:
            self._awareness.apply_awareness_update(read_message(message[1:]), "room")
        elif message[0] == RAW:
            decoder = Decoder(message)
            decoder.read_var_uint()
            said = json.loads(decoder.read_var_string())
            if said.get("type") == "save":
                connection.on_saved(said.get("responseTo"))
            elif said.get("type") == "conflict":
                raise self._unavailable("the server has other contents than the edits were made in")

    def on_lost(self) -> None:
        """The connection is of no more use to anybody."""
        self._connection = None
        self._inbox.forget_echoes()
        if self.alive:
            self._in_sync.clear()

    def question(self) -> tuple[bytes, Callable[[], None]]:
        """What asks the room for all that is missing here, and what its answer proves."""
        doc: Doc[Any] = Doc() if self._doc is None else self._doc
        sent, clock = self._sent, decode_state(doc.get_state()).get(doc.client_id, 0)

        def answered() -> None:
            self._applied, self._own_clock = sent, clock

        return create_sync_message(doc), answered

    def _introduce(self, connection: RoomConnection, message: bytes) -> None:
        """The server says what it has; it is told what it lacks, and from now on all news."""
        if self._doc is not None:
            if self._lacks_what_it_had(read_message(message[2:])):
                raise self._unavailable("the server loaded the document anew")
            if (missing := handle_sync_message(message[1:], self._doc)) is not None:
                connection.send(missing)
        self._connection = connection

    def _lacks_what_it_had(self, theirs: bytes) -> bool:
        # A room is cleaned up a minute after the last one left. Where it is not kept in a store
        # it begins a new history, into which the old one must not be merged.
        assert self._doc is not None
        has, own = decode_state(theirs), self._doc.client_id
        return any(
            has.get(client, 0) < (self._own_clock if client == own else clock)
            for client, clock in decode_state(self._doc.get_state()).items()
        )

    def _on_sync(self, connection: RoomConnection) -> None:
        connection.in_sync_since = time.monotonic()
        self._in_sync.set()
        assert self._entered is not None
        if not self._entered.done():
            self._entered.set_result(None)
        elif self._arrival is not None:
            self._arrival()  # the room may have forgotten who is here

    def _look_at(self, update: bytes) -> None:
        """Something came that is not known yet."""
        if self._state is not None:
            self._inbox.drop_backlog()  # before it is attached there is no next question
            if self._sent != self._applied:
                self._state.doubt(update)
        if self._ahead is not None:
            if self._sent != self._applied:
                self._ahead.doubt(update)
            self._ahead.doc.apply_update(update)

    def _on_awareness(self, topic: str, changes: tuple[dict[str, Any], Any]) -> None:
        wishes = {client: state.get("autosave") for client, state in self.states.items() if state}
        if topic == "change" and wishes != self._wishes:
            self._wishes = wishes
            if self._arrival is not None:
                self._arrival()

    # -- waiting -----------------------------------------------------------------------------

    async def _round_trip(self) -> None:
        try:
            async with asyncio.timeout(_ANSWER):
                while True:
                    connection = await self._connected()
                    if await connection.ask():
                        return
        except TimeoutError as error:
            raise self._unavailable(f"no answer came within {_ANSWER:g} s") from error

    async def _connected(self) -> RoomConnection:
        """The connection, in sync; waits a while for one."""
        if not self._in_sync.is_set():
            await self._wait_for_sync()
        if self.ended:
            raise RoomUnavailable(self.ended, _ANEW, path=self.path)
        if self.closed:
            raise self._unavailable("the seat was given up")
        assert self._connection is not None
        return self._connection

    async def _wait_for_sync(self) -> None:
        self._waiting += 1
        self._wanted.set()
        try:
            async with asyncio.timeout(_AWAY):
                # The connection may be lost again before those who waited for it have their turn.
                while not self._in_sync.is_set():
                    await self._in_sync.wait()
        except TimeoutError as error:
            base, last = self._api.address.base, self._last_error
            raise RoomUnavailable(
                last.happened
                if isinstance(last, CollaborationError)
                else f"The Jupyter server at {base} cannot be reached: {last}.",
                "Try again in a while; the connection comes back by itself.",
                path=self.path,
            ) from error
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._wanted.clear()

    def _unavailable(self, why: str) -> RoomUnavailable:
        return RoomUnavailable(
            f"The room of {inline(self.path)} is closed: {why.removesuffix('.')}.",
            _ANEW,
            path=self.path,
        )

    # -- the file ----------------------------------------------------------------------------

    async def _save(self, state: RoomState) -> None:
        """Save until it is saved: a save that somebody's typing cancels is reported as done."""
        self._ahead = ahead = state.copy()
        try:
            for update in self._inbox.waiting:
                ahead.doc.apply_update(update)
            pause, failures = 0.05, 0
            while not ahead.saved:
                connection, known = await self._connected(), ahead.updates
                await connection.save()
                await self._round_trip()  # the mark of the save has come
                if ahead.overwrites:
                    why = "somebody else has just changed it on disk"
                    raise FileFailed.to("save", self.path, why)
                if not ahead.saved:
                    # The server reports a failure as a success; but nothing came in between.
                    failures = failures + 1 if ahead.updates == known else 0
                    if failures == _FAILURES:
                        why = "it tried and did not succeed; its log has the reason"
                        raise FileFailed.to("save", self.path, why)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, 1.0)
        finally:
            self._ahead = None
            ahead.close()

    async def _is_in_file(self, doc: Doc[Any]) -> bool:
        """Whether the file of a text says just what the room does: a server that saves it would
        only change its line ends."""
        if self.room_id.kind != "file":
            return False
        try:
            model = await self._api.contents(self.path, type="file", format="text", content="1")
        except Refused:
            return False
        return line_ends.plain(model["content"]) == str(doc.get("source", type=Text))

    async def _watch_file(self) -> None:
        """The room of a deleted file goes on as if nothing had happened, and saves nothing."""
        while True:
            await asyncio.sleep(_LOOK)
            if not self.connected:
                continue
            for pause in (_LOOK_AGAIN, 0):
                try:
                    await self.look()
                    break
                except DocumentNotFound as error:
                    if not pause:
                        self._end(error)
                        return
                    await asyncio.sleep(pause)
                except (CollaborationError, Refused) as error:
                    self._log.debug("Could not look at %s: %s", self.path, error)
                    break

    async def look(self) -> None:
        """Find out where the file is.

        Raises:
            DocumentNotFound: Nowhere.
        """
        try:
            found = await self._api.get("api", "fileid", "path", id=self._file_id)
            with self._api.understood("the path of a document"):
                path = str(found["path"])
            await self._api.contents(path, content="0")
        except Refused as refused:
            if refused.status == 404:
                raise DocumentNotFound.at(self.path) from refused
            raise
        self._path = path
        if self._state is not None:
            self._state.path = path


def _why(code: int | None, reason: str) -> str:
    return " ".join(filter(None, [str(code or ""), reason])) or "without a word"
