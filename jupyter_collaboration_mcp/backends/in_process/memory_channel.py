"""The seat of an in-process peer: a `pycrdt.Channel` without a socket.

It makes the peer one of the room's clients, which keeps the room alive and lets the room pass on
the peer's awareness of its agents. Updates take another way: see `InProcessLink.send`.
"""

from __future__ import annotations

import asyncio
from collections import deque

from pycrdt import Channel


class MemoryChannel(Channel):
    """The end that the room reads. What the room sends is dropped: the link observes its Doc."""

    def __init__(self, room_id: str) -> None:
        self._room_id = room_id
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self.served = asyncio.Event()
        """Set once the room listens, so that the seat counts as one of its clients."""

    @property
    def path(self) -> str:
        return self._room_id

    def feed(self, message: bytes) -> None:
        """Pass a message to the room."""
        self._inbox.append(message)
        self._arrived.set()

    def leave(self) -> None:
        """Let the room finish reading what was fed, then end."""
        self._closing = True
        self._arrived.set()

    async def send(self, message: bytes) -> None:
        pass

    async def recv(self) -> bytes:
        return await self.__anext__()

    async def __anext__(self) -> bytes:
        self.served.set()
        while not self._inbox:
            if self._closing:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        return self._inbox.popleft()
