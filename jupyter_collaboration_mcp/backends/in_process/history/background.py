"""Continues the index of documents in the background, and thins what is old."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from logging import Logger
from pathlib import Path

from ....owned_tasks import OwnedTasks
from ...protocols.room_ids import RoomId
from .versions import FindStored, InProcessVersions

_DAY = 86_400.0

#: Seconds without a new row after which a document is indexed; and rows that do not wait for that.
_QUIET, _MANY = 5.0, 500


@dataclass(slots=True)
class _Waiting:
    """Rows of a document that the index lacks."""

    rows: int = 0
    latest: float = 0.0


class BackgroundIndexing:
    """Looks after the documents that are being edited.

    Args:
        find: The rows of a document as they are; None if its store is no database.
    """

    def __init__(self, versions: InProcessVersions, find: FindStored, log: Logger) -> None:
        self._versions = versions
        self._find = find
        self._log = log
        self._waiting: dict[RoomId, _Waiting] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks = OwnedTasks()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    def on_row(self, room_id: RoomId) -> None:
        """Note that the store has another row. Called for each edit: must be quick."""
        waiting = self._waiting.get(room_id)
        if waiting is None:
            waiting = self._waiting[room_id] = _Waiting()
        waiting.rows += 1
        waiting.latest = time.monotonic()
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUIET, self._look)

    def on_closed(self, room_id: RoomId) -> None:
        """Index a document whose room is closed."""
        if self._waiting.pop(room_id, None) is not None:
            self._tasks.start(self._index(room_id))

    def _look(self) -> None:
        self._timer = None
        now = time.monotonic()
        for room_id, waiting in list(self._waiting.items()):
            if waiting.rows >= _MANY or now - waiting.latest >= _QUIET:
                del self._waiting[room_id]
                self._tasks.start(self._index(room_id))
        if self._waiting:
            self._timer = asyncio.get_running_loop().call_later(_QUIET, self._look)

    def thin_daily(self, days: float, store: Callable[[], Path | None]) -> None:
        """Thin documents now and once a day.

        Args:
            days: Rows of the last days are never touched.
            store: Returns the database of the store; None if it is no database.
        """
        self._tasks.start(self._thin_daily(days, store))

    async def _thin_daily(self, days: float, store: Callable[[], Path | None]) -> None:
        while True:
            try:
                if (path := store()) is not None:
                    removed = await self._versions.thin(days, self._find, path)
                    if removed:
                        self._log.info("Removed %s rows of old history from %s", removed, path)
            except Exception:  # the next day tries again
                self._log.warning("The history could not be thinned", exc_info=True)
            await asyncio.sleep(_DAY)

    async def _index(self, room_id: RoomId) -> None:
        try:
            rows = self._find(room_id)
            if rows is not None:
                await self._versions.catch_up(rows, room_id)
        except Exception:  # whoever asks for the history is told
            self._log.debug("Could not index %s", room_id, exc_info=True)
