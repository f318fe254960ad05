"""A real kernel gateway in a process of its own, which can be killed and started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil  # type: ignore[import-untyped]

from .forking import ForkedProcess
from .jupyter import NOT_MEASURED, QUICK_START, REPOSITORY, hold_port

#: It tells which kernels it runs only if it is configured so, and Jupyter asks that.
_PERSONALITY = "JupyterWebsocketPersonality"


class Gateway:
    """A jupyter-kernel-gateway with a token, as a context."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gateway-", ignore_cleanup_errors=True)
        self.home = Path(self._folder.name)
        self._held, self.port = hold_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.token = secrets.token_hex(16)
        self._process: ForkedProcess | None = None

    @property
    def arguments(self) -> list[str]:
        """What a Jupyter server is started with to have its kernels here."""
        return [f"--gateway-url={self.url}", f"--GatewayClient.auth_token={self.token}"]

    @property
    def log(self) -> str:
        file = self.home / "gateway.log"
        return file.read_text(errors="replace") if file.exists() else ""

    async def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = ForkedProcess(
            "kernel_gateway",
            [
                "--KernelGatewayApp.port_retries=0",
                "--JupyterWebsocketPersonality.list_kernels=True",
            ],
            cwd=self.home,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER_", "KG_"))},
                **NOT_MEASURED,
                "JUPYTER_RUNTIME_DIR": str(self.home / "runtime"),
                "JUPYTER_DATA_DIR": str(self.home / "data"),
                "JUPYTER_CONFIG_DIR": str(self.home / "config"),
                "PYTHONPATH": os.pathsep.join([str(QUICK_START), str(REPOSITORY)]),
                "KG_PORT": str(self.port),
                "KG_AUTH_TOKEN": self.token,
            },
            log=self.home / "gateway.log",
        )
        async with asyncio.timeout(60):
            while not await self._answers():
                if self._process.poll() is not None:
                    raise RuntimeError(f"The gateway ended:\n{self.log}")
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        """End it with all its kernels, as a machine that goes down would."""
        assert self._process is not None
        for process in [*self._kernels(), psutil.Process(self._process.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    async def kernels(self) -> list[dict[str, Any]]:
        """The kernels that it runs."""
        async with httpx.AsyncClient(trust_env=False) as http:
            answer = await http.get(f"{self.url}/api/kernels", headers=self._headers)
            found: list[dict[str, Any]] = answer.json()
            return found

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"The gateway's log ends with:\n{self.log[-3000:]}")
        if self._process is not None and self._process.poll() is None:
            await asyncio.to_thread(self.kill)
        self._held.close()
        self._folder.cleanup()

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"token {self.token}"}

    async def _answers(self) -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                answer = await http.get(f"{self.url}/api", headers=self._headers)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200

    def _kernels(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("JUPYTER_RUNTIME_DIR") == str(self.home / "runtime"):
                    found.append(process)
        return [process for process in found if process.pid != self._process.pid]  # type: ignore[union-attr]
