"""One link for each kernel, whoever asks and whoever goes away."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from jupyter_collaboration_mcp.backends.kernels.conversation import KernelConversation
from jupyter_collaboration_mcp.backends.kernels.links import KernelLinks

pytestmark = pytest.mark.anyio


class IdleWire:
    """A wire to a kernel that says nothing."""

    lossy = False
    session = "ours"
    over = False
    closed = False

    async def close(self) -> None:
        self.closed = True


class Opener:
    """Opens links when it is allowed to."""

    def __init__(self) -> None:
        self.wires: list[IdleWire] = []
        self.allowed = asyncio.Event()
        self.fault: Exception | None = None

    async def __call__(self) -> KernelConversation:
        self.wires.append(wire := IdleWire())
        await self.allowed.wait()
        if self.fault is not None:
            raise self.fault
        return KernelConversation(cast("Any", wire), "kernel", logging.getLogger("test"))


async def test_a_link_is_opened_once_even_if_the_first_caller_is_cancelled() -> None:
    links, opener = KernelLinks(), Opener()
    first, second = (asyncio.create_task(links.connect("kernel", opener)) for _ in range(2))
    await asyncio.sleep(0)  # both have asked
    first.cancel()
    await asyncio.wait([first])
    opener.allowed.set()
    link = await second
    assert await links.connect("kernel", opener) is link
    assert len(opener.wires) == 1
    await links.close()
    assert opener.wires[0].closed


async def test_a_link_that_failed_to_open_can_be_opened_later() -> None:
    links, opener = KernelLinks(), Opener()
    opener.allowed.set()
    opener.fault = LookupError("no such kernel")
    with pytest.raises(LookupError):
        await links.connect("kernel", opener)
    opener.fault = None
    assert await links.connect("kernel", opener) is links.get("kernel")
    assert len(opener.wires) == 2
    await links.close()


async def test_dead_links_are_closed_on_the_next_connect() -> None:
    links, opener = KernelLinks(), Opener()
    opener.allowed.set()
    dead = await links.connect("dead", opener)
    opener.wires[0].over = True
    await links.connect("other", opener)
    assert opener.wires[0].closed
    assert not opener.wires[1].closed
    assert links.get("dead") is None
    assert await links.connect("dead", opener) is not dead
    await links.close()


async def test_closing_the_links_cancels_a_pending_connect() -> None:
    links, opener = KernelLinks(), Opener()
    connecting = asyncio.create_task(links.connect("kernel", opener))
    await asyncio.sleep(0)  # it has begun
    await links.close()
    await asyncio.wait([connecting], timeout=20)
    assert connecting.cancelled()
    assert links.get("kernel") is None
