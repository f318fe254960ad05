"""One WebSocket of a room: what is sent through it, and who waits for an answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from pycrdt import Encoder
from websockets.exceptions import ConnectionClosed

from ...owned_tasks import OwnedTasks
from .websocket import BoundedConnection

#: The collaboration server's own type of message, beside SYNC and AWARENESS.
RAW = 2

#: Seconds for a clean close.
_GOODBYE = 2.0

_SIGN_OF_LIFE = b""


class ConnectionOwner(Protocol):
    """The user of a connection."""

    def on_message(self, connection: RoomConnection, message: bytes) -> None:
        """Handle a message of the server, in order."""

    def on_lost(self) -> None:
        """Called when the connection is no longer usable."""

    def question(self) -> tuple[bytes, Callable[[], None]]:
        """A message that asks for everything missing here, and a callback for its answer."""


class RoomConnection:
    """One WebSocket, from its opening to its end, with those who wait for an answer through it."""

    def __init__(self, websocket: BoundedConnection, owner: ConnectionOwner) -> None:
        self.in_sync_since: float | None = None
        self._websocket = websocket
        self._owner = owner
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._lost = False
        # The answers have no number, but arrive in the order of the questions.
        self._questions: deque[tuple[asyncio.Future[bool], Callable[[], None]]] = deque()
        self._saves: dict[int, asyncio.Future[None]] = {}
        self._tasks = OwnedTasks()
        self._sender: asyncio.Task[None] | None = None

    async def serve(self) -> tuple[int | None, str]:
        """Read and write until the end. Returns how the connection was closed."""
        websocket = self._websocket
        self._sender = self._tasks.start(self._send_queued())
        self._question(proves=False)  # asked before the server knew what it lacks
        try:
            async for message in websocket:
                if isinstance(message, bytes) and message:
                    self._owner.on_message(self, message)
                    if self._questions:
                        # The server's TCP delays the answer until this message is acknowledged
                        # (Nagle), which the system does with a delay (40 ms on Linux). An
                        # unsolicited pong acknowledges it at once.
                        self._queue.put_nowait(_SIGN_OF_LIFE)
        except ConnectionClosed:
            pass  # the reason is read below
        finally:
            self._lost = True
            self._owner.on_lost()
            self._tasks.cancel()
            for question, _answered in self._questions:
                if not question.done():
                    question.set_result(False)
            for save in self._saves.values():
                if not save.done():
                    save.set_result(None)
            await self._hang_up()
            await self._tasks.close()
        return websocket.end

    def send(self, message: bytes) -> None:
        self._queue.put_nowait(message)

    async def wait_sent(self, limit: float) -> None:
        """Wait until everything is sent, or cannot be."""
        if self._sender is None or self._lost:
            return
        waiting = OwnedTasks()
        try:
            either = {waiting.start(self._queue.join()), self._sender}
            await asyncio.wait(either, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await waiting.close()

    async def ask(self) -> bool:
        """Ask for what is missing here. False if the connection was lost before the answer."""
        return False if self._lost else await self._question()

    async def save(self) -> None:
        """Ask the server to save, and wait until it reports that it did, or was already saving."""
        if self._lost:
            return
        number = len(self._saves) + 1
        self._saves[number] = reply = asyncio.get_running_loop().create_future()
        encoder = Encoder()
        encoder.write_var_uint(RAW)
        encoder.write_var_string("save")
        encoder.write_var_uint(number)
        self.send(encoder.to_bytes())
        await reply

    def on_answer(self) -> None:
        question, answered = self._questions.popleft()
        answered()
        if not question.done():
            question.set_result(True)

    def on_saved(self, number: Any) -> None:
        reply = self._saves.get(number)
        if reply is not None and not reply.done():
            reply.set_result(None)

    def _question(self, proves: bool = True) -> asyncio.Future[bool]:
        message, answered = self._owner.question()
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._questions.append((future, answered if proves else lambda: None))
        self.send(message)
        return future

    async def _send_queued(self) -> None:
        with contextlib.suppress(ConnectionClosed):  # the reader notices it
            while True:
                message = await self._queue.get()
                if message == _SIGN_OF_LIFE:
                    await self._websocket.pong()
                else:
                    await self._websocket.send(message)
                self._queue.task_done()

    async def _hang_up(self) -> None:
        try:
            async with asyncio.timeout(_GOODBYE):
                await self._websocket.close()
        except TimeoutError:
            self._websocket.transport.abort()
