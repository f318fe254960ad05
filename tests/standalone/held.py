"""The command as a client has it that never closes its standard input."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from tests.harness.standalone import environment


class Command:
    """The command with its standard input held open, and what it said."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self._errors = home / "errors"
        (home / "root").mkdir(exist_ok=True)
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_collaboration_mcp.cli", *arguments],
                cwd=home / "root",
                env=environment(home),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    @property
    def said(self) -> str:
        return self._errors.read_text()

    def children(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def left(self) -> list[str]:
        """What is in Jupyter's runtime directory."""
        files = (file.name for file in (self.home / "runtime").glob("*"))
        return [name for name in files if name != "jupyter_cookie_secret"]  # which Jupyter keeps

    async def answers(self) -> None:
        """Until it speaks MCP: from then on it reads its standard input."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(
            b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": '
            b'"2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}\n'
        )
        self.process.stdin.flush()
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert b'"id":1' in line

    async def ends_with(self, code: int) -> None:
        # It gives its own server 15 s, and others 5.
        assert await asyncio.to_thread(self.process.wait, 60) == code
        assert "Traceback" not in self.said

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def gone(process: psutil.Process) -> bool:
    """Whether it has ended with all its threads, which hold its ports and files to the last."""
    try:
        return bool(
            not process.is_running()
            or (process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1)
        )
    except psutil.NoSuchProcess:
        return True
