"""Background tasks with an owner: none is lost, and none outlives whoever started it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class OwnedTasks:
    """The tasks of one object: kept while they run, cancelled and awaited when it closes."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something in the background.

        Whoever must know how it ended awaits the task; nobody has to.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def __len__(self) -> int:
        """How many of them still run."""
        return len(self._tasks)

    def cancel(self) -> None:
        """Cancel what still runs, without waiting for its end; not the task that calls this."""
        for task in self._others():
            task.cancel()

    async def close(self) -> None:
        """Cancel what still runs, and return when it has ended; not the task that calls this."""
        self.cancel()
        if running := self._others():
            await asyncio.wait(running)

    def _others(self) -> set[asyncio.Task[Any]]:
        return self._tasks - {asyncio.current_task()}

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # counts as retrieved: a caller who wanted it may have gone away


class TaskPerKey(Generic[K, T]):
    """Background tasks, at most one at a time for each key."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}

    def ensure(self, key: K, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the running task of a key; start one if there is none."""
        task = self._tasks.get(key)
        if task is None or task.done():
            task = self._tasks[key] = asyncio.get_running_loop().create_task(work())
            task.add_done_callback(lambda done: self._remove(key, done))
        return task

    def __contains__(self, key: K) -> bool:
        """Whether a task is running."""
        return key in self._tasks

    def _remove(self, key: K, task: asyncio.Task[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def end(self) -> None:
        """Cancel all tasks, and wait until they have ended."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
