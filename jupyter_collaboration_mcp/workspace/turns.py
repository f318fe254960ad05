"""One at a time for each thing that has a name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """Locks by name, which exist as long as somebody has one or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, name: str) -> AsyncIterator[None]:
        """Wait for the turn, and have it."""
        # Whoever waits keeps the lock alive, also while nobody has it: it is free for a turn of the
        # loop between the end of one and the beginning of the next.
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield
