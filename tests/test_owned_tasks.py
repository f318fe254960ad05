"""Tasks that end with their owner."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_collaboration_mcp.owned_tasks import OwnedTasks

pytestmark = pytest.mark.anyio


async def test_what_runs_is_cancelled_and_has_ended_when_the_owner_is_closed() -> None:
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


async def test_what_a_task_gives_and_raises_reaches_whoever_waits() -> None:
    tasks = OwnedTasks()

    async def fail() -> None:
        raise LookupError("nothing there")

    assert await tasks.start(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(LookupError):
        await tasks.start(fail())
    await tasks.close()
