"""Staying connected to a room on another server: connects, reconnects, and waits for it.

A broken connection is reopened after a growing pause. Whatever shows that the room is not the one
we left, or that the server does not want us, ends the seat: a refused token stays refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from logging import Logger

from ...documents.foreign_text import quoted
from ...errors import (
    CollaborationError,
    CorruptDocument,
    DocumentNotFound,
    NotJupyter,
    RoomUnavailable,
    ServerUnreachable,
)
from ...panics import contained
from ..protocols.room_ids import RoomId
from .jupyter_api import JupyterApi
from .room_connection import ConnectionOwner, RoomConnection
from .room_file import REOPEN, RoomFile
from .server_errors import Refused
from .websocket import TOO_LARGE, BoundedConnection

#: The pause before a reconnect grows from the first to the second, in seconds; while somebody waits
#: for it, only to the third.
_SOON, _LATER, _WANTED = 0.2, 10.0, 1.0

#: Seconds after which a connection counts as good: then the next pause is a short one again.
_STEADY = 2.0

#: Seconds for a whole attempt to connect.
_ATTEMPT = 20.0

#: Seconds that a call waits for the server to be reachable again, and for its answer.
_AWAY, _ANSWER = 15.0, 30.0


class _Lost(Exception):
    """The connection broke in a way that may pass."""


class RoomReconnector:
    """The current connection to one room.

    Args:
        owner: Receives the messages of each connection.
        end: Called with the reason when the room is lost for good.
    """

    def __init__(
        self,
        api: JupyterApi,
        room_id: RoomId,
        file: RoomFile,
        owner: ConnectionOwner,
        end: Callable[[CollaborationError], None],
        log: Logger,
    ) -> None:
        self.session_id = ""
        """The collaboration session of the server, which changes when it restarts."""
        self.connection: RoomConnection | None = None
        """The connection to send through; None until the server has sent its state vector."""
        self.entered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the whole document has arrived for the first time, or failed to."""
        self.waiting = 0
        """How many callers wait for the connection."""
        self._api = api
        self._room_id = room_id
        self._file = file
        self._owner = owner
        self._end = end
        self._log = log
        self._in_sync = asyncio.Event()  # also set when there is nothing left to wait for
        self._wanted = asyncio.Event()  # set while somebody waits for the connection
        self._last_error: Exception | None = None
        self._stopped = ""  # why there is nothing left to wait for

    @property
    def in_sync(self) -> bool:
        """Whether there is a connection, and the room is in sync."""
        return self._in_sync.is_set() and not self._stopped

    # -- for callers -------------------------------------------------------------------------

    async def wait_connected(self) -> RoomConnection:
        """Wait a while for a connection that is in sync, and return it.

        Raises:
            RoomUnavailable: There is none for too long, or will never be.
        """
        if not self._in_sync.is_set():
            await self._wait_for_sync()
        if self._stopped:
            raise RoomUnavailable(self._stopped, REOPEN, path=self._file.path)
        assert self.connection is not None
        return self.connection

    async def round_trip(self) -> None:
        """Wait until the room has answered a question: it then has everything that was sent before.

        Raises:
            RoomUnavailable: No answer came.
        """
        try:
            async with asyncio.timeout(_ANSWER):
                while True:
                    connection = await self.wait_connected()
                    if await connection.ask():
                        return
        except TimeoutError as error:
            raise self._file.unavailable(f"no answer came within {_ANSWER:g} s") from error

    def stop(self, happened: str) -> None:
        """Release everybody who waits: there will be no connection."""
        self._stopped = self._stopped or happened
        self._in_sync.set()

    async def _wait_for_sync(self) -> None:
        self.waiting += 1
        self._wanted.set()
        try:
            async with asyncio.timeout(_AWAY):
                # The connection may be lost again before those who waited for it continue.
                while not self._in_sync.is_set():
                    await self._in_sync.wait()
        except TimeoutError as error:
            base, last = self._api.address.base, self._last_error
            raise RoomUnavailable(
                last.happened
                if isinstance(last, CollaborationError)
                else f"The Jupyter server at {base} cannot be reached: {last}.",
                "Try again in a while; the connection comes back by itself.",
                path=self._file.path,
            ) from error
        finally:
            self.waiting -= 1
            if not self.waiting:
                self._wanted.clear()

    # -- for the connection ------------------------------------------------------------------

    def on_sync(self, connection: RoomConnection) -> bool:
        """Note that the room has answered the first question of a connection; returns whether there
        was an earlier connection."""
        connection.in_sync_since = time.monotonic()
        self._in_sync.set()
        if self.entered.done():
            return True
        self.entered.set_result(None)
        return False

    def on_lost(self) -> None:
        """Note that the connection is no longer usable."""
        self.connection = None
        if not self._stopped:
            self._in_sync.clear()

    # -- connecting --------------------------------------------------------------------------

    async def run(self) -> None:
        """Stay connected until the room is lost for good, or this is cancelled."""
        pause = _SOON
        while True:
            began = None
            try:
                with contained():
                    began = await self._connect_once()
            except (_Lost, Refused, ServerUnreachable, NotJupyter, TimeoutError) as error:
                self._last_error = error
                if not self._refuse_entry(error):
                    self._log.debug("The connection to %s broke: %s", self._file.path, error)
            except CollaborationError as error:
                if not self._refuse_entry(error):
                    self._end(error)
            except Exception as error:
                self._log.exception("The connection to %s is given up", self._file.path)
                if not self._refuse_entry(error):
                    why = f"{type(error).__name__}: {quoted(error)}"
                    self._end(self._file.unavailable(why))
            if self._stopped or self.entered.exception() is not None:
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
        """Connect and stay until the connection ends. Returns when it got in sync."""
        async with asyncio.timeout(_ATTEMPT):
            await self._check_session()
            websocket = await self._open_websocket()
        connection = RoomConnection(websocket, self._owner)
        code, reason = await connection.serve()
        self._judge(code, reason)
        if connection.in_sync_since is None:
            raise _Lost(f"the server closed the connection ({_why(code, reason)})")
        self._last_error = _Lost(f"the connection broke ({_why(code, reason)})")
        return connection.in_sync_since

    async def _check_session(self) -> None:
        """Refuse to sync with a server that has restarted, or with another document."""
        session = await self._file.session(self._room_id.kind)
        if not self.session_id:
            if session.file_id != self._file.id:
                raise DocumentNotFound.at(self._file.path)
            self.session_id = session.id
        elif session.id != self.session_id:
            raise self._file.unavailable("the Jupyter server was restarted")
        elif session.file_id != self._file.id:
            await self._file.look()  # the document may just have another path

    async def _open_websocket(self) -> BoundedConnection:
        try:
            room = self._room_id.file_id if self._room_id.is_fork else self._room_id
            return await self._api.websocket(
                "api", "collaboration", "room", room, sessionId=self.session_id
            )
        except Refused as refused:
            if 400 <= refused.status < 500 and refused.status != 429:
                why = f"the server refuses the connection ({refused})"
                raise self._file.unavailable(why) from None
            raise

    def _judge(self, code: int | None, reason: str) -> None:
        """Raise if a server has closed a connection for good."""
        path = self._file.path
        if code == 4404:
            raise DocumentNotFound.at(path)
        if code in (4400, 4500):
            raise CorruptDocument(
                f"{path!r} cannot be loaded as a {self._room_id.kind}. The file was not touched.",
                "Ask the person to look into the log of the Jupyter server, and to repair or "
                "restore the file.",
                path=path,
            )
        if code == 1003:
            raise self._file.unavailable(f"the server ended the session ({_why(code, reason)})")
        if code == TOO_LARGE:
            raise self._file.unavailable(reason or "the document is too large for the server")

    def _refuse_entry(self, error: Exception) -> bool:
        """Pass an error to whoever is waiting to enter; returns whether anybody was."""
        if self.entered.done():
            return False
        if not isinstance(error, CollaborationError):
            ours = isinstance(error, (_Lost, Refused))
            said = str(error) if ours else f"{type(error).__name__}: {quoted(error)}"
            error = self._file.unavailable(said)
        self.entered.set_exception(error)
        return True


def _why(code: int | None, reason: str) -> str:
    return " ".join(filter(None, [str(code or ""), reason])) or "without a word"
