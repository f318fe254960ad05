"""Work in a thread costs the same, however many tasks a server has."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio.to_thread
import pytest
from anyio._backends import _asyncio

from jupyter_collaboration_mcp.backends.upstream.root_task import RootTask


@pytest.mark.parametrize("works", [True, False], ids=["with", "without"])
def test_nobody_looks_through_all_tasks_for_work_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, works: bool
) -> None:
    looked = 0

    def counted(*arguments: Any) -> set[asyncio.Task[Any]]:
        nonlocal looked
        looked += 1
        return asyncio.all_tasks(*arguments)

    monkeypatch.setattr(_asyncio, "all_tasks", counted)
    loop = asyncio.new_event_loop()  # pytest's own does not run for ever, as Jupyter's does
    root = RootTask()
    nothing: Any = None
    assert root.check(nothing) == []

    async def work() -> None:
        if works:
            root.apply(nothing)
            await asyncio.sleep(0)
        for _ in range(3):
            await anyio.to_thread.run_sync(int)
        root.end()
        await asyncio.sleep(0)
        loop.call_soon(loop.stop)

    task = loop.create_task(work())
    loop.run_forever()
    task.result()
    loop.close()
    assert looked == (0 if works else 3)
