"""One WebSocket of a kernel, from its opening to its end, and the queue of messages to send."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from logging import Logger
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from ...documents.foreign_text import words
from ..kernels.wire import OutgoingMessage
from .kernel_frames import Frame, read_frame, write_frame

#: Seconds of reading before others get their turn: a full queue would never yield by itself.
_TURN = 0.003

#: Bytes from which on a frame that is a single JSON text is parsed in a thread.
_LARGE = 200_000

#: Seconds for a clean close.
_GOODBYE = 1.0

Receive = Callable[[Frame], Coroutine[Any, Any, None] | None]
"""Handles a frame; returns what to await before the next one, if anything."""


class Outbox:
    """Messages that wait to be sent. It outlives the connection that sends them.

    Args:
        on_sent: Called with the id of a message just before it is sent.
    """

    def __init__(self, on_sent: Callable[[str], None]) -> None:
        self._on_sent = on_sent
        self._waiting: deque[OutgoingMessage] = deque()
        self._filled = asyncio.Event()

    @property
    def waiting(self) -> tuple[OutgoingMessage, ...]:
        return tuple(self._waiting)

    def put(self, message: OutgoingMessage, *, first: bool = False) -> None:
        if first:
            self._waiting.appendleft(message)
        else:
            self._waiting.append(message)
        self._filled.set()

    async def send_all(self, connection: ClientConnection, apart: bool) -> None:
        """Send queued and new messages until the connection ends."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._waiting:
                if connection.state is not State.OPEN:
                    return  # unsent messages wait for the next connection
                message = self._waiting.popleft()
                # From here on it may have arrived, and code must not run twice.
                self._on_sent(message.id)
                try:
                    await connection.send(write_frame(message, apart))
                except ConnectionClosed:
                    if message.channel == "stdin":  # a kernel accepts one answer and drops another
                        self._waiting.appendleft(message)


class KernelConnection:
    """All channels of a kernel in one WebSocket.

    Args:
        websocket: An open WebSocket.
        apart: Whether the parts of a message are separate in its frames.
        kernel_id: The kernel's id, for the log.
        log: For the ends of connections, and for malformed frames.
    """

    def __init__(
        self, websocket: ClientConnection, apart: bool, kernel_id: str, log: Logger
    ) -> None:
        self.websocket = websocket
        self._apart = apart
        self._kernel_id = kernel_id
        self._log = log
        self._stopped = False

    async def serve(self, outbox: Outbox, receive: Receive) -> None:
        """Send and receive until the connection ends or is stopped."""
        try:
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(outbox.send_all(self.websocket, self._apart))
                try:
                    await self._read(receive)
                except ConnectionClosed as error:
                    self._log.info(
                        "The connection to kernel %s was cut: %s", self._kernel_id, words(error)
                    )
                sending.cancel()
        finally:
            await self.close()

    def stop(self) -> None:
        """Stop reading; may be called while a frame is being handled."""
        self._stopped = True

    async def close(self) -> None:
        await hang_up(self.websocket)

    async def _read(self, receive: Receive) -> None:
        acknowledge = _acknowledger(self.websocket)
        until = time.perf_counter() + _TURN
        while not self._stopped:
            data = await self.websocket.recv(decode=False)
            acknowledge()
            try:
                if self._apart or len(data) < _LARGE:
                    frame = read_frame(data, self._apart)
                else:
                    frame = await asyncio.to_thread(read_frame, data, self._apart)
                if (rest := receive(frame)) is not None:
                    await rest
            except Exception:
                self._log.exception("Lost a message of kernel %s", self._kernel_id)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + _TURN


async def hang_up(websocket: ClientConnection) -> None:
    """Close a WebSocket, cleanly if the other side is quick enough."""
    try:
        async with asyncio.timeout(_GOODBYE):
            await websocket.close()
    except TimeoutError:
        websocket.transport.abort()
        await websocket.wait_closed()


def _acknowledger(connection: ClientConnection) -> Callable[[], None]:
    """A function to call with each message, so that the next one is not delayed.

    Jupyter's WebSockets use Nagle's algorithm: the second of several small messages, of which each
    run causes five, is sent when the first is acknowledged, and Linux delays that by 40 ms in a
    conversation. It acknowledges at once if requested, but forgets the option again and again.
    """
    option = getattr(socket, "TCP_QUICKACK", None)  # on Linux only
    transport = connection.transport.get_extra_info("socket")
    if option is None or transport is None:
        return lambda: None

    def acknowledge() -> None:
        with contextlib.suppress(OSError):
            transport.setsockopt(socket.IPPROTO_TCP, option, 1)

    return acknowledge
