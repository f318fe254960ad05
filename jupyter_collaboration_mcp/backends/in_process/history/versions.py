"""The versions of the documents of this server, from an index of the rows of the store."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from ....errors import HistoryError
from ...protocols.room_ids import RoomId
from ...protocols.versions import CellAuthor, VersionList
from .credits import Credit
from .index import Drain, HistoryIndex
from .indexer import Stopped
from .retention import Retention
from .rows import Rows, RowsUnreadable, StoreRows

T = TypeVar("T")

#: Seconds that what is being indexed has to end when the server stops.
_CLOSING = 3.0

FindStored = Callable[[RoomId], StoreRows | None]
"""Finds the rows of a document as they are; None if its store is no database."""


class InProcessVersions:
    """The history of the documents of this server.

    Args:
        find: Finds the rows of a document, once the store has what its room has now.
        drain: Where new credits are.
    """

    def __init__(self, path: Path, find: Callable[[RoomId], Awaitable[Rows]], drain: Drain) -> None:
        self._find = find
        self._history = HistoryIndex(path, drain)
        # One thread for everything: documents of pycrdt must not leave theirs.
        self._thread = ThreadPoolExecutor(1, "mcp-history")

    async def close(self) -> None:
        """Stop, in the middle of a document if need be."""
        self._history.stopped = True
        with contextlib.suppress(HistoryError, TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await self._in_thread(self._history.close)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def list(self, room_id: RoomId, limit: int, before: int | None = None) -> VersionList:
        rows = await self._find(room_id)
        return await self._in_thread(self._history.list, rows, room_id, limit, before)

    async def state_at(self, room_id: RoomId, version: int) -> bytes:
        rows = await self._find(room_id)
        return await self._in_thread(self._history.state_at, rows, room_id, version)

    async def current(self, room_id: RoomId) -> int:
        latest = (await self.list(room_id, 1)).versions
        if not latest:
            raise HistoryError.none_yet()
        return latest[0].id

    async def name(self, room_id: RoomId, version: int, name: str) -> None:
        rows = await self._find(room_id)
        await self._in_thread(self._history.name, rows, room_id, version, name)

    async def named(self, room_id: RoomId) -> Mapping[str, int]:
        rows = await self._find(room_id)
        return await self._in_thread(self._history.named, rows, room_id)

    async def authors(self, room_id: RoomId) -> Mapping[str, CellAuthor]:
        rows = await self._find(room_id)
        return await self._in_thread(self._history.authors, rows, room_id)

    async def thin(self, days: float, find: FindStored, store: Path) -> int:
        """Thin the documents of a store; returns how many rows were removed.

        Args:
            find: The rows of a document in it.
        """
        retention, removed = Retention(self._history, days), 0
        for room_id in await self._in_thread(retention.documents, store):
            rows = find(room_id)
            if rows is not None and not self._history.stopped:
                removed += await self._in_thread(retention.thin, rows, room_id)
        return removed

    async def catch_up(self, rows: Rows, room_id: RoomId) -> None:
        """Continue the index of a document with the rows that there are."""
        await self._in_thread(self._history.catch_up, rows, room_id)

    async def credit(self, room_id: RoomId, new: Sequence[Credit]) -> None:
        """Learn from somebody else who wrote what, perhaps later than the index."""
        if new:
            await self._in_thread(self._history.credit, room_id, new)

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, work, *arguments)
        except (sqlite3.Error, RowsUnreadable, Stopped) as error:
            raise HistoryError.unreadable(str(error) or "the server stops") from error
