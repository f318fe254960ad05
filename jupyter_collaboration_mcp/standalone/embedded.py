"""A Jupyter server of our own, for when none runs: it lives as long as we do."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_core.paths import jupyter_runtime_dir

from ..errors import ServerUnreachable

if TYPE_CHECKING:
    from ..backends.jupyter_api import ServerAddress

#: Seconds until it has to answer, and for its end before it is killed.
START_LIMIT, STOP_LIMIT = 60.0, 15.0

#: Seconds for one question whether it is there yet; somebody else may have taken the port.
_ANSWER = 5.0

_KEEPER = "jupyter_collaboration_mcp.standalone.keeper"

#: Whatever a person's Jupyter configuration says.
_EXTENSIONS = ("jupyter_server_fileid", "jupyter_server_ydoc")


class EmbeddedServer:
    """JupyterLab, or Jupyter Server where there is no JupyterLab, on a port of this machine.

    It is private: it listens on the loopback interface only, with a token made for it. It says
    nothing on our standard output, which belongs to MCP; its words are in `log`.
    """

    def __init__(self) -> None:
        self.log = Path(jupyter_runtime_dir()) / f"collaboration-mcp-{os.getpid()}.log"
        """The file with all that it writes; gone after an orderly end."""
        self.lab_url = ""
        """For a person's browser, with the token."""
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, root: Path) -> ServerAddress:
        """Start it on a directory and wait until it answers.

        Raises:
            ServerUnreachable: It ended, or did not answer in time; with the end of its log.
        """
        from ..backends.jupyter_api import ServerAddress

        if self._process is not None:
            raise RuntimeError("The server has been started already")
        if not root.is_dir():  # noqa: ASYNC240
            raise self._failed(f"there is no directory {root}")
        port, token = _free_port(), secrets.token_hex(24)
        module = (
            "jupyter_server" if importlib.util.find_spec("jupyterlab") is None else "jupyterlab"
        )
        address = ServerAddress(f"http://127.0.0.1:{port}/", token)
        self._process = self._spawn(module, root, port, token)
        try:
            await self._until_it_answers(address, self._process)
        except BaseException:
            self._kill()
            raise
        page = "lab" if module == "jupyterlab" else ""
        self.lab_url = f"{address.base}{page}?token={token}"
        return address

    async def stop(self) -> None:
        """End it and its kernels; nothing happens if it does not run."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, STOP_LIMIT)
            except subprocess.TimeoutExpired:
                pass
            except BaseException:
                self._kill()
                raise
        self._kill()
        self.log.unlink(missing_ok=True)

    # -- parts -------------------------------------------------------------------------------

    def _spawn(self, module: str, root: Path, port: int, token: str) -> subprocess.Popen[bytes]:
        # -P: a random.py in the person's directory is not the one that Jupyter needs.
        command = [
            *(sys.executable, "-P", "-m", _KEEPER, module),
            "--no-browser",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--ServerApp.base_url=/",
            "--ServerApp.certfile=",
            "--ServerApp.keyfile=",
            "--ServerApp.sock=",
            f"--ServerApp.root_dir={root.resolve()}",
            "--YDocExtension.disable_rtc=False",
            *(f"--ServerApp.jpserver_extensions={name}=True" for name in _EXTENSIONS),
        ]
        if sys.platform != "win32" and os.geteuid() == 0:
            command.append("--allow-root")
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                command,
                cwd=root,
                env={**os.environ, "JUPYTER_TOKEN": token},
                stdin=subprocess.PIPE,  # the keeper's lifeline
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we then end it in good order
            )
        finally:
            os.close(log)

    async def _until_it_answers(
        self, address: ServerAddress, process: subprocess.Popen[bytes]
    ) -> None:
        from ..backends.jupyter_api import JupyterApi, Refused

        deadline = time.monotonic() + START_LIMIT
        api = JupyterApi(address)
        try:
            while True:
                try:
                    await asyncio.wait_for(api.get("api", "status"), _ANSWER)
                    return
                except (ServerUnreachable, Refused, TimeoutError):
                    pass
                if process.poll() is not None:
                    raise self._failed(f"it ended with exit code {process.returncode}")
                if time.monotonic() > deadline:
                    raise self._failed(f"it did not answer within {START_LIMIT:g} s")
                await asyncio.sleep(0.1)
        finally:
            await api.close()

    def _kill(self) -> None:
        """End what is left of it, at once, and let go of the pipe."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)  # it leads its own group
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _failed(self, why: str) -> ServerUnreachable:
        last = _last_lines(self.log)
        return ServerUnreachable(
            f"A Jupyter server could not be started: {why}."
            + (f" The end of its log, {self.log}:\n{last}" if last else ""),
            "Start Jupyter yourself with `jupyter lab`, and see what it says.",
            log=str(self.log),
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _last_lines(log: Path, count: int = 20) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-count:])
