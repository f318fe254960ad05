"""How the command ends on Ctrl-C and SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any, NoReturn


class Shutdown:
    """Whether the command has been told to end. The first signal ends the work, so that everything
    can be closed in order; the second ends the process at once."""

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code, if the command was told to end."""
        self._requested = asyncio.Event()

    def listen(self) -> None:
        """Handle signals from now on."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._signalled, number)
            except NotImplementedError:  # Windows
                signal.signal(
                    number, lambda came, _: loop.call_soon_threadsafe(self._signalled, came)
                )

    async def wait(self, work: asyncio.Task[Any]) -> None:
        """Wait until the work is done or the command is told to end. The work is not cancelled."""
        requested = asyncio.ensure_future(self._requested.wait())
        await asyncio.wait({work, requested}, return_when=asyncio.FIRST_COMPLETED)
        requested.cancel()
        if work.done():
            await work

    def _signalled(self, number: int) -> None:
        if self.code is not None:
            leave(128 + number)
        self.code = 128 + number
        self._requested.set()


def leave(code: int) -> NoReturn:
    """End the process now. A thread of the SDK reads standard input, which may stay open for ever,
    and Python would wait for that thread."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
