"""The standalone command beside a Jupyter server that has nothing of ours."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .forking import ForkedProcess
from .jupyter import QUICK_START, REPOSITORY, JupyterProcess
from .waiting import until

BEARER = "a-bearer-token-for-tests"

_PYTHONPATH = os.pathsep.join([str(QUICK_START), str(REPOSITORY)])


class StandaloneProcess:
    """`jupyter-collaboration-mcp --transport http`, joined to some servers.

    Args:
        near: Whether it knows that the first server runs here, and what it serves.
        env: More environment variables.
    """

    def __init__(
        self,
        servers: Sequence[JupyterProcess],
        *arguments: str,
        near: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._servers = servers
        self._arguments = arguments
        self._process: ForkedProcess | None = None
        home = servers[0].home
        self._log = home / f"standalone-{secrets.token_hex(4)}.log"
        self.url = ""
        self.environment = {
            **os.environ,
            "HOME": str(home / "home"),
            "JUPYTER_DATA_DIR": str(home / "standalone-data"),
            "JUPYTER_RUNTIME_DIR": str(home / ("runtime" if near else "standalone-runtime")),
            "PYTHONPATH": _PYTHONPATH,
            "JUPYTER_TOKEN": servers[0].token,
            "JUPYTER_COLLABORATION_MCP_BEARER_TOKEN": BEARER,
            **(env or {}),
        }

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        named = self._servers if len(self._servers) > 1 else ()
        joined = [f"--server={_name(n)}={s.url}?token={s.token}" for n, s in enumerate(named)]
        joined = joined or [f"--server={self._servers[0].url}"]
        self._process = ForkedProcess(
            "jupyter_collaboration_mcp.cli",
            ["--transport=http", *joined, *self._arguments],
            cwd=Path(self._servers[0].root),
            env=self.environment,
            log=self._log,
        )
        try:
            await until(lambda: self._found() or self._process_ended(), timeout=60)
        except TimeoutError as error:
            raise RuntimeError(f"The command did not start:\n{self.log}") from error
        if not self.url:
            raise RuntimeError(f"The command ended:\n{self.log}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                await asyncio.to_thread(process.wait, 60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise RuntimeError(f"The command did not end:\n{self.log}") from None

    def _found(self) -> bool:
        found = re.search(r"MCP at (http://\S+)\s", self.log)
        self.url = found[1] if found else ""
        return bool(found)

    def _process_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None


def environment(home: Path, **more: str) -> dict[str, str]:
    """For a command that knows no other Jupyter of this account, and sends facts as JSON, too."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_", "JPY_"))}
    return {
        **inherited,
        "PYTHONPATH": _PYTHONPATH,
        "JUPYTER_COLLABORATION_MCP_STRUCTURED": "true",
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        **more,
    }


def _name(number: int) -> str:
    return f"s{number + 1}"
