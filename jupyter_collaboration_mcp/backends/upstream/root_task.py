"""Lets anyio know the task under which its threads run, so that it does not look for one."""

from __future__ import annotations

import asyncio

from .workaround import Server, Workaround, missing_attributes, unused_names


class RootTask(Workaround):
    name = "root_task"
    package = "anyio"
    fault = (
        "In a loop that runs for ever, as Jupyter's does, anyio looks through all tasks of the "
        "server whenever something is done in a thread. The store of jupyter-collaboration does "
        "so several times for each change of a document."
    )
    patches = ("anyio._backends._asyncio._root_task",)
    without = "each edit takes longer, the more so the more tasks the server has"

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def check(self, server: Server) -> list[str]:
        from anyio._backends import _asyncio

        return [
            *missing_attributes(_asyncio, "_root_task"),
            *unused_names(_asyncio, "find_root_task", "_root_task", "all_tasks"),
        ]

    def apply(self, server: Server) -> None:
        self._task = asyncio.get_running_loop().create_task(_be_root())

    def end(self) -> None:
        """Let the threads end, because the server stops."""
        if self._task is not None:
            self._task.cancel()


async def _be_root() -> None:
    from anyio._backends import _asyncio

    task = asyncio.current_task()
    assert task is not None
    _asyncio._root_task.set(task)
    await asyncio.get_running_loop().create_future()
