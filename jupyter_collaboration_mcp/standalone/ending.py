"""How the command ends when it is told to: by Ctrl-C, or by SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import Any, NoReturn


class Ending:
    """The wish to end. The first signal ends the work, so that all can be left in good order; the
    second ends the process at once."""

    def __init__(self) -> None:
        self.code: int | None = None
        """What the process is to end with, if it was told to end."""
        self._asked = asyncio.Event()

    def listen(self) -> None:
        """From now on signals are wishes."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                loop.add_signal_handler(number, self._signalled, number)
            except NotImplementedError:  # Windows
                signal.signal(
                    number, lambda came, _: loop.call_soon_threadsafe(self._signalled, came)
                )

    async def or_end_of(self, work: asyncio.Task[Any]) -> None:
        """Wait until the work is over, or until it is to end."""
        asked = asyncio.ensure_future(self._asked.wait())
        await asyncio.wait({work, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if work.done():
            await work

    def _signalled(self, number: int) -> None:
        if self.code is not None:
            leave(128 + number)
        self.code = 128 + number
        self._asked.set()


def leave(code: int) -> NoReturn:
    """End the process now. A thread of the SDK waits for standard input, which may stay open for
    ever, and Python would wait for that thread."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
