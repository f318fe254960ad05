"""Tasks that end with their owner."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_collaboration_mcp.owned_tasks import OwnedTasks

pytestmark = pytest.mark.anyio


async def test_closing_the_owner_cancels_its_tasks_and_waits_for_them() -> None:
    tasks, events = OwnedTasks(), list[str]()
    began = asyncio.Event()

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # an end that takes more than one turn of the loop
            events.append("ended")

    task = tasks.start(work())
    await began.wait()
    await tasks.close()
    assert task.cancelled()
    assert events == ["ended"]


async def test_a_task_may_close_its_owner() -> None:
    tasks = OwnedTasks()
    other = tasks.start(asyncio.Event().wait())

    async def close() -> str:
        await tasks.close()
        return "went on"

    assert await tasks.start(close()) == "went on"
    assert other.cancelled()


async def test_the_result_or_error_of_a_task_reaches_its_waiter() -> None:
    tasks = OwnedTasks()

    async def fail() -> None:
        raise LookupError("nothing there")

    assert await tasks.start(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError):
        await tasks.start(fail())
    await tasks.close()
