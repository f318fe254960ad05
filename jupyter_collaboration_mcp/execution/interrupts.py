"""Interrupts of one kernel; simultaneous ones are sent as one.

A kernel that is interrupted again while it reports the first KeyboardInterrupt drops its reply, and
nobody learns how the run ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..owned_tasks import OwnedTasks

#: Seconds within which interrupts of the same request count as one. Code that runs for longer has
#: caught the first.
APART = 1.0


@dataclass(slots=True)
class _Signal:
    request: str | None
    sending: asyncio.Task[None]
    sent: float | None = None
    """When the kernel received it; None while it is being sent."""


class Interrupts:
    """Signals to one kernel.

    Args:
        send: Interrupts the kernel.
    """

    def __init__(self, send: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._last: _Signal | None = None
        self._tasks = OwnedTasks()

    async def interrupt(self, request: str | None) -> None:
        """Interrupt what the kernel is working on, unless that has just been done."""
        signal = self._last
        if signal is None or signal.request != request or _is_old(signal):
            sending = self._tasks.start(self._sending())
            signal = self._last = _Signal(request, sending)
            sending.add_done_callback(self._sent)
        # The first caller may go away while others still wait.
        await asyncio.shield(signal.sending)

    async def close(self) -> None:
        """Stop waiting for interrupts."""
        await self._tasks.close()

    async def _sending(self) -> None:
        await self._send()

    def _sent(self, sending: asyncio.Task[None]) -> None:
        failed = sending.cancelled() or sending.exception() is not None
        signal = self._last
        if signal is not None and signal.sending is sending:
            signal.sent = time.monotonic()
            if failed:
                self._last = None


def _is_old(signal: _Signal) -> bool:
    return signal.sent is not None and time.monotonic() - signal.sent > APART
