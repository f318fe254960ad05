"""A server ends when it is told to, also while it writes a line to its log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from jupyter_server.serverapp import ServerApp

from jupyter_collaboration_mcp.backends.upstream.stop_signals import StopSignals
from tests.conftest import EXTENSIONS
from tests.harness.jupyter import NOT_MEASURED, STOP_LIMIT, JupyterProcess
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="a full pipe, found by /proc"),
]


class SlowlyLogged(JupyterProcess):
    """A server whose log is a pipe that nobody empties until told to."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        self.read, self.write = os.pipe()
        self.process = subprocess.Popen(
            [self._python, "-m", self._module, *self._arguments],
            cwd=self._cwd,
            env={**self._environment, "PYTHONUNBUFFERED": ""},
            stdin=subprocess.DEVNULL,
            stderr=self.write,
        )
        return self.process

    def fill(self) -> None:
        """Leave no room for another line."""
        # Opened again: for the server, writing waits.
        end = os.open(f"/proc/self/fd/{self.write}", os.O_WRONLY | os.O_NONBLOCK)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(end, b"\n")
        os.close(end)

    def empty(self) -> bytes:
        """What is in the pipe, which has room for whatever the server logs next."""
        os.set_blocking(self.read, False)
        found = b""
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self.read, 1 << 16):
                found += more
        return found.strip()

    async def answers_within(self, seconds: float) -> bool:
        """Whether it answers a request, which it then logs."""
        async with httpx2.AsyncClient(headers=self.headers, timeout=seconds) as client:
            try:
                await client.get(f"{self.url}api/nothing")
            except httpx2.TimeoutException:
                return False
            return True


@pytest.mark.parametrize("works", [True, False], ids=["with", "without"])
async def test_a_server_ends_that_is_told_to_while_it_logs(tmp_path: Path, works: bool) -> None:
    off = () if works else ("--JupyterCollaborationMCP.disabled_workarounds=stop_signals",)
    async with SlowlyLogged(
        tmp_path, extra_args=off, env=NOT_MEASURED, extensions=EXTENSIONS
    ) as server:
        server.fill()
        while await server.answers_within(1):
            pass  # the first answer comes before the line about it
        os.kill(server.pid, signal.SIGTERM)
        log = server.empty()

        def seen(text: bytes) -> bool:
            nonlocal log
            log += server.empty()
            return text in log

        if works:
            await until(lambda: seen(b"received signal 15, stopping"))
            assert await asyncio.to_thread(server.process.wait, STOP_LIMIT) == 0
        else:
            await until(lambda: seen(b"reentrant call"))
            assert await server.answers_within(60)
            server.kill()
        os.close(server.read)
        os.close(server.write)


async def test_the_second_interrupt_goes_the_same_way() -> None:
    app: Any = ServerApp()
    before, nothing = signal.getsignal(signal.SIGTERM), cast("Any", None)
    stopped = asyncio.Event()
    app.stop = lambda from_signal=False: stopped.set()
    app.init_ioloop()
    signal.signal(signal.SIGTERM, app._signal_stop)
    try:
        StopSignals().apply(nothing)
        handler = signal.getsignal(signal.SIGTERM)
        assert handler is app._signal_stop  # which Jupyter sets for it
        assert callable(handler)
        handler(signal.SIGINT, None)
        assert not stopped.is_set()  # nothing is done, or written, in the handler itself
        async with asyncio.timeout(10):
            await stopped.wait()
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_the_handler_of_somebody_else_is_left_alone() -> None:
    before, nothing = signal.getsignal(signal.SIGTERM), cast("Any", None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        StopSignals().apply(nothing)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
