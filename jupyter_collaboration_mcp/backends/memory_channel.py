"""The seat of an in-process peer: a `pycrdt.Channel` without a socket.

`YRoom.serve` asks for message k+1 only after it has applied message k. So the channel knows,
for free, when what was sent has taken effect.
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
        self._fed = 0
        self._taken = 0
        self._applied = 0
        self._closing = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.served = asyncio.Event()
        """Set once the room listens, so once the seat counts among its clients."""
        self.applying = False
        """Whether the room is busy with a message of ours at this very moment."""

    @property
    def path(self) -> str:
        return self._room_id

    def feed(self, message: bytes) -> None:
        """Give the room a message."""
        self._inbox.append(message)
        self._fed += 1
        self._arrived.set()

    async def applied(self) -> None:
        """Return when everything fed so far has been applied by the room."""
        if self._applied < self._fed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((self._fed, waiter))
            await waiter

    def leave(self) -> None:
        """Let the room finish what was fed, then let it go."""
        self._closing = True
        self._arrived.set()

    async def send(self, message: bytes) -> None:
        pass

    async def recv(self) -> bytes:
        return await self.__anext__()

    async def __anext__(self) -> bytes:
        self.served.set()
        self.applying = False
        self._applied = self._taken
        self._wake()
        while not self._inbox:
            if self._closing:
                raise StopAsyncIteration
            self._arrived.clear()
            await self._arrived.wait()
        self._taken += 1
        self.applying = True
        return self._inbox.popleft()

    def _wake(self) -> None:
        if self._waiters:
            still: list[tuple[int, asyncio.Future[None]]] = []
            for count, waiter in self._waiters:
                if count > self._applied:
                    still.append((count, waiter))
                elif not waiter.done():
                    waiter.set_result(None)
            self._waiters = still
