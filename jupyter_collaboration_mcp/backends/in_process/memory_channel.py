"""The seat of an in-process peer: a `pycrdt.Channel` without a socket.

It makes the peer one of the room's clients, which keeps the room alive and lets the room pass on
the peer's awareness of its agents. Updates take another way: see `InProcessLink.send`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from pycrdt import Awareness, Channel

from ...documents.awareness import Arrivals


class MemoryChannel(Channel):
    """The end that the room reads. What the room sends is dropped: the link observes its Doc."""

    ignores_updates = True

    def __init__(self, room_id: str) -> None:
        self._room_id = room_id
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._served = asyncio.Event()

    @property
    def path(self) -> str:
        return self._room_id

    def feed(self, message: bytes) -> None:
        """Pass a message to the room."""
        self._inbox.append(message)
        self._arrived.set()

    async def enter(self, server: Any) -> None:
        """Have a WebSocket server serve it; returns when it counts as one of the room's clients."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(server.serve(self))
        served = loop.create_task(self._served.wait())
        await asyncio.wait({served, self._task}, return_when=asyncio.FIRST_COMPLETED)
        served.cancel()

    async def leave(self) -> None:
        """Let the room finish reading what was fed, then end."""
        self._closing = True
        self._arrived.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.exception()  # from a room that no longer served anybody

    async def send(self, message: bytes) -> None:
        pass

    async def recv(self) -> bytes:
        return await self.__anext__()

    async def __anext__(self) -> bytes:
        self._served.set()
        while not self._inbox:
            if self._closing:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._inbox.popleft()


def observe_arrivals(awareness: Awareness, tell: Callable[[], None]) -> str:
    """Call a function when somebody joins a room. Returns what `Awareness.unobserve` takes.

    New members get no snapshot of the awareness: they would learn of us after 15 s.
    """
    arrivals = Arrivals()

    def observe(topic: str, changes: tuple[dict[str, Any], Any]) -> None:
        if topic == "change" and arrivals.noticed(awareness.states):
            tell()

    return awareness.observe(observe)
