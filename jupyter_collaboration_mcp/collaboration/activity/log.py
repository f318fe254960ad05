"""The activity log of one Jupyter server: what people and agents did, and when.

Recording is an append to a list. One thread writes what has come together, and reads; nothing here
blocks the event loop, and no failure of the file reaches those who record.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from .activity import LOOKS, Activity
from .storage import ActivityStorage

_log = logging.getLogger(__name__)

#: Seconds for which activities are collected before they are written together.
_GROUP = 0.1

#: Activities that wait to be written; beyond that the oldest are dropped.
_WAITING = 5_000

#: Documents of which it is remembered whether agents have used them.
_REMEMBERED = 10_000

#: Seconds that closing may take: a process that ends must not wait for a slow disk.
_CLOSING = 5.0

T = TypeVar("T")


class ActivityLog:
    """Records activities and finds them again. All methods are for the event loop's thread.

    Args:
        path: The file; it is created with the first activity.
        limit: How many activities are kept; 0 records nothing.
    """

    def __init__(self, path: Path | None, limit: int) -> None:
        self.enabled = path is not None and limit > 0
        self._storage = None if path is None or limit <= 0 else ActivityStorage(path, limit)
        self._thread: ThreadPoolExecutor | None = None
        self._waiting: dict[str, Activity] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._followers: list[Callable[[Activity], None]] = []
        self._used: dict[str, bool] = {}  # by file id, whether agents have used it
        self._closed = False

    @classmethod
    def off(cls) -> ActivityLog:
        """A log that records nothing."""
        return cls(None, 0)

    # -- recording ---------------------------------------------------------------------------

    def record(self, activity: Activity) -> None:
        """Record an activity, and pass it on to those who follow the log. Never raises."""
        if not self.enabled or self._closed:
            return
        self._put(activity)
        if self._followers:
            with contextlib.suppress(RuntimeError):  # there is no loop, and nobody is live
                asyncio.get_running_loop().call_soon(self._tell, activity)

    def draft(self, activity: Activity) -> None:
        """Record an activity that is not over, in case of a crash; `record` it when it is.

        An activity replaces an earlier one with the same id.
        """
        if self.enabled and not self._closed:
            self._put(activity)

    def on_record(self, tell: Callable[[Activity], None]) -> Callable[[], None]:
        """Call a function with each activity from now on. Returns a function that ends this."""
        self._followers.append(tell)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._followers.remove(tell)

        return end

    def _put(self, activity: Activity) -> None:
        if activity.agent and activity.file_id:
            self._used[activity.file_id] = True
        self._waiting[activity.id] = activity
        if len(self._waiting) > _WAITING:
            del self._waiting[next(iter(self._waiting))]
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                self._submit()
            else:
                self._timer = loop.call_later(_GROUP, self._submit)

    def _submit(self) -> None:
        """Have the thread write what has come together."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self._storage is not None:
            waiting, self._waiting = list(self._waiting.values()), {}
            self._executor().submit(_guarded, lambda: self._write(waiting))

    def _write(self, activities: Sequence[Activity]) -> None:
        if self._storage is not None:
            self._storage.write(activities)

    def _tell(self, activity: Activity) -> None:
        for tell in list(self._followers):
            try:
                tell(activity)
            except Exception:
                _log.exception("A follower of the activity log failed")

    # -- finding -----------------------------------------------------------------------------

    async def recent(
        self,
        path: str | None = None,
        *,
        file_id: str | None = None,
        limit: int = 50,
        kinds: Sequence[str] = (),
        actor_id: str | None = None,
    ) -> list[Activity]:
        """The latest activities, the latest first.

        Args:
            path: Only those of the document that had this path then.
            file_id: Only those of this document, whatever its path was.
            kinds: Only these; empty means all.
            actor_id: Only those of one person or agent.
        """
        conditions: list[tuple[str, Sequence[object]]] = [("1", ())]
        if path is not None and file_id is not None:
            conditions.append(("(path = ? OR file_id = ?)", (path, file_id)))
        elif path is not None:
            conditions.append(("path = ?", (path,)))
        elif file_id is not None:
            conditions.append(("file_id = ?", (file_id,)))
        if actor_id is not None:
            conditions.append(("actor_id = ?", (actor_id,)))
        if kinds:
            conditions.append(_is_among(kinds))
        return await self._select(conditions, limit)

    async def since(
        self,
        file_id: str,
        time: int,
        excluding: str = "",
        *,
        until: int | None = None,
        kinds: Sequence[str] = (),
        limit: int = 500,
    ) -> list[Activity]:
        """What happened to a document after a moment, the oldest first; of too much, the latest.

        Args:
            excluding: The id of the person or agent who asks and knows what they did.
            until: Only what happened up to this moment.
            kinds: Only these; empty means all.
        """
        conditions: list[tuple[str, Sequence[object]]] = [
            ("file_id = ? AND time > ?", (file_id, time))
        ]
        if excluding:
            conditions.append(("actor_id != ?", (excluding,)))
        if until is not None:
            conditions.append(("time <= ?", (until,)))
        if kinds:
            conditions.append(_is_among(kinds))
        return (await self._select(conditions, limit))[::-1]

    async def last_of(
        self, actor_id: str, file_id: str, kinds: Sequence[str] = LOOKS
    ) -> Activity | None:
        """The last time that somebody has seen a document."""
        conditions = [("file_id = ? AND actor_id = ?", (file_id, actor_id)), _is_among(kinds)]
        return next(iter(await self._select(conditions, 1)), None)

    async def used_by_agents(self, file_id: str) -> bool:
        """Whether agents have used a document, as far back as the log reaches."""
        if file_id not in self._used:
            found = await self._select([("file_id = ? AND agent = 1", (file_id,))], 1)
            if len(self._used) >= _REMEMBERED:
                self._used.clear()
            self._used.setdefault(file_id, bool(found))
        return self._used[file_id]

    async def _select(
        self, conditions: Sequence[tuple[str, Sequence[object]]], limit: int
    ) -> list[Activity]:
        storage = self._storage
        if storage is None or self._closed:
            return []
        where = " AND ".join(condition for condition, _ in conditions)
        parameters = [value for _, values in conditions for value in values]
        return await self._in_thread(lambda: storage.select(where, parameters, limit)) or []

    # -- life --------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Return when everything that was recorded before is written."""
        await self._in_thread(lambda: None)

    async def close(self) -> None:
        """Write what is recorded, and close the file."""
        if self._closed:
            return
        self._submit()
        self._closed = True
        self._followers.clear()
        if self._thread is None or self._storage is None:
            return
        closing = self._thread.submit(_guarded, self._storage.close)
        self._thread.shutdown(wait=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.wrap_future(closing)

    async def _in_thread(self, work: Callable[[], T]) -> T | None:
        """Do something in the thread, after everything that was recorded before is written."""
        if self._storage is None or self._closed:
            return None
        self._submit()
        return await asyncio.wrap_future(self._executor().submit(_guarded, work))

    def _executor(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="activity-log")
        return self._thread


def _is_among(kinds: Sequence[str]) -> tuple[str, Sequence[object]]:
    return f"kind IN ({', '.join('?' * len(kinds))})", tuple(kinds)


def _guarded(work: Callable[[], T]) -> T | None:
    """Whatever is wrong with the log, those who use it go on."""
    try:
        return work()
    except Exception:
        _log.exception("The activity log failed")
        return None
