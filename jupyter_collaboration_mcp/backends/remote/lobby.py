"""A seat in the lobby of another Jupyter server, over a WebSocket that comes back by itself."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from logging import Logger
from typing import Any

from pycrdt import YMessageType
from websockets.exceptions import ConnectionClosed

from ...errors import CollaborationError
from ...owned_tasks import OwnedTasks
from ...panics import contained
from ..protocols.awareness import LOBBY
from .jupyter_api import JupyterApi
from .room_awareness import RoomAwareness
from .server_errors import Refused

#: The pause before a reconnect grows from the first to the second, in seconds; a server that has no
#: lobby is asked again after the third.
_SOON, _LATER, _REFUSED = 0.5, 30.0, 120.0

#: Seconds in which everybody gives a sign of life: nobody is told who is there already.
_SIGNS = 16.0

#: Seconds to send the last messages on leaving.
_GOODBYE = 2.0


class RemoteLobby:
    """One member of the lobby, for all agents of this process."""

    def __init__(self, api: JupyterApi, log: Logger) -> None:
        self._api = api
        self._log = log
        self._awareness = RoomAwareness()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.connected = False
        self._since = time.monotonic()
        self._closed = False
        self._tasks = OwnedTasks()

    def start(self) -> None:
        """Connect in the background, and stay connected: nothing depends on it."""
        self._tasks.start(self._awareness.run())
        self._tasks.start(self._stay())

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return self._awareness.states

    @property
    def complete(self) -> bool:
        return self.connected and time.monotonic() - self._since > _SIGNS

    def send(self, message: bytes) -> None:
        self._awareness.apply(message, "own")
        if self.connected:  # otherwise the next connection announces everybody
            self._queue.put_nowait(message)

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._awareness.on_arrival(tell)

    def on_change(self, tell: Callable[[], None]) -> None:
        self._awareness.on_change(tell)

    async def close(self) -> None:
        self._closed = True
        if self.connected:
            try:
                async with asyncio.timeout(_GOODBYE):
                    await self._queue.join()
            except TimeoutError:
                self._log.debug("The server was not told that agents have left")
        await self._tasks.close()

    async def _stay(self) -> None:
        pause = _SOON
        while not self._closed:
            before = self._since
            try:
                with contained():
                    await self._connect_once()
            except Refused as refused:
                self._log.debug("There is no lobby: %s", refused)
                pause = _REFUSED / 2
            except (CollaborationError, ConnectionClosed, OSError, TimeoutError) as error:
                self._log.debug("No connection to the lobby: %s", error)
            except Exception:
                self._log.exception("The connection to the lobby failed")
            pause = _SOON if self._since != before else min(2 * pause, max(pause, _LATER))
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))

    async def _connect_once(self) -> None:
        websocket = await self._api.websocket("api", "collaboration", "room", LOBBY)
        self._queue = asyncio.Queue()
        self.connected, self._since = True, time.monotonic()
        self._awareness.announce()
        sending = self._tasks.start(self._send_queued(websocket))
        try:
            async for message in websocket:
                if isinstance(message, bytes) and message[:1] == _AWARENESS:
                    self._awareness.apply(message, "room")
        finally:
            self.connected = False
            sending.cancel()
            await websocket.close()

    async def _send_queued(self, websocket: Any) -> None:
        while True:
            message = await self._queue.get()
            await websocket.send(message)
            self._queue.task_done()


_AWARENESS = bytes([YMessageType.AWARENESS])
