"""Waiting for something that has no event of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], timeout: float = 60) -> None:
    """Return as soon as the condition holds.

    Raises:
        TimeoutError: It did not in time.
    """
    pause = 0.002
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.02)  # many conditions read a file
