"""A Jupyter server of our own, for when none runs: it lives as long as we do."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_runtime_dir

from ..backends.disk.locks import lock
from ..errors import ServerUnreachable
from .discovery import EMBEDDED_BASE, is_alive

if TYPE_CHECKING:
    from ..backends.remote.server_address import ServerAddress

#: Seconds until it has to answer, and for its end before it is killed.
START_LIMIT, STOP_LIMIT = 60.0, 15.0

#: Seconds for one request to see if it is up yet; another program may have taken the port.
_ANSWER = 5.0

_KEEPER = "jupyter_collaboration_mcp.standalone.keeper"

#: What our files in Jupyter's runtime directory begin with; then comes the id of the process.
_OURS = "collaboration-mcp-"

#: ... or this, of one that is looking for a server of a directory or starts one.
_STARTING = "start-"

#: Whatever a person's Jupyter configuration says.
_EXTENSIONS = ("jupyter_server_fileid", "jupyter_server_ydoc")


class EmbeddedServer:
    """JupyterLab, or Jupyter Server where there is no JupyterLab, on a port of this machine.

    It is private: it listens on the loopback interface only, with a token made for it. It says
    nothing on our standard output, which belongs to MCP; its output is in `log`.
    """

    def __init__(self) -> None:
        runtime = Path(jupyter_runtime_dir())
        self.log = runtime / f"{_OURS}{os.getpid()}.log"
        """The file with all that it writes; gone after an orderly end."""
        self.lab_url = ""
        """For a person's browser, with the token."""
        self._store = runtime / f"{_OURS}{os.getpid()}"
        self._process: subprocess.Popen[bytes] | None = None
        self._address: ServerAddress | None = None

    @property
    def is_over(self) -> bool:
        """Whether it ran and has ended without being asked to."""
        return self._process is not None and self._process.poll() is not None

    async def start(self, root: Path) -> ServerAddress:
        """Start it on a directory and wait until it answers.

        One that has ended comes back at the same address: whoever had joined it can continue.

        Raises:
            ServerUnreachable: It ended, or did not answer in time; with the end of its log.
        """
        from ..backends.remote.server_address import ServerAddress

        if self.is_over:
            self._kill()
        if self._process is not None:
            raise RuntimeError("The server has been started already")
        if not root.is_dir():  # noqa: ASYNC240
            raise self._failed(f"there is no directory {root}")
        module = (
            "jupyter_server" if importlib.util.find_spec("jupyterlab") is None else "jupyterlab"
        )
        address = self._address or ServerAddress(
            f"http://127.0.0.1:{_free_port()}{EMBEDDED_BASE}", secrets.token_hex(24)
        )
        try:
            self._process = self._spawn(module, root, address)
        except OSError as error:
            raise self._failed(str(error)) from error
        try:
            await self._until_it_answers(address, self._process)
        except asyncio.CancelledError:
            self._kill()
            self._clean()
            raise
        except BaseException:
            self._kill()
            raise
        page = "lab" if module == "jupyterlab" else ""
        self.lab_url = f"{address.base}{page}?token={address.token}"
        self._address = address
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
        self._clean()

    # -- parts -------------------------------------------------------------------------------

    def _spawn(self, module: str, root: Path, address: ServerAddress) -> subprocess.Popen[bytes]:
        assert address.token is not None
        # -P: a random.py in the person's directory is not the one that Jupyter needs.
        command = [
            *(sys.executable, "-P", "-m", _KEEPER, module),
            "--no-browser",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={urlsplit(address.url).port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={EMBEDDED_BASE}",
            "--ServerApp.certfile=",
            "--ServerApp.keyfile=",
            "--ServerApp.sock=",
            f"--ServerApp.root_dir={root.resolve()}",
            "--YDocExtension.disable_rtc=False",
            # By default both are in the person's directory, which need not be writable.
            f"--SQLiteYStore.db_path={self._store / 'ystore.db'}",
            f"--YDocExtension.session_store_path={self._store / 'sessions.json'}",
            *(f"--ServerApp.jpserver_extensions={name}=True" for name in _EXTENSIONS),
        ]
        if sys.platform != "win32" and os.geteuid() == 0:
            command.append("--allow-root")
        self.log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._store.mkdir(mode=0o700, exist_ok=True)
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(
                command,
                cwd=root,
                env={**os.environ, "JUPYTER_TOKEN": address.token},
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
        from ..backends.remote.jupyter_api import JupyterApi
        from ..backends.remote.server_errors import Refused

        deadline = time.monotonic() + START_LIMIT
        api = JupyterApi(address)
        try:
            while True:
                try:
                    async with asyncio.timeout(_ANSWER):
                        await api.get("api", "status")
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

    def _clean(self) -> None:
        self.log.unlink(missing_ok=True)
        shutil.rmtree(self._store, ignore_errors=True)

    def _kill(self) -> None:
        """Kill what is left of it at once, and close the pipe."""
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
            "Start Jupyter yourself with `jupyter lab`, and see what it reports.",
            log=str(self.log),
        )


@contextlib.asynccontextmanager
async def turn_to_start(root: Path) -> AsyncIterator[None]:
    """One command at a time looks for a server of a directory and starts one if there is none.

    Several agents that are started at once, each with its command, should share rooms.
    """
    named = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]  # noqa: ASYNC240
    place = Path(jupyter_runtime_dir()) / f"{_OURS}{_STARTING}{named}"
    deadline = time.monotonic() + START_LIMIT
    with contextlib.ExitStack() as held:
        while True:
            try:
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                held.enter_context(lock(place))
                held.callback(_remove, place)
            except BlockingIOError:
                if time.monotonic() < deadline:
                    await asyncio.sleep(0.05)
                    continue
            except OSError:
                pass  # if nothing can be written, the start reports it
            break
        yield


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):  # Windows deletes nothing that is open
        file.unlink()


def remove_leftovers() -> None:
    """Delete the files of servers whose command was killed."""
    for left in Path(jupyter_runtime_dir()).glob(f"{_OURS}*"):
        pid = left.name.removeprefix(_OURS).removesuffix(".log")
        if pid.startswith(_STARTING):
            with contextlib.suppress(OSError), lock(left):
                _remove(left)
            continue
        if not pid.isdecimal() or is_alive(int(pid)):
            continue
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            _remove(left)


def _free_port() -> int:
    """A free port that the system will not hand to another program before Jupyter binds it."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _last_lines(log: Path, count: int = 20) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-count:])
