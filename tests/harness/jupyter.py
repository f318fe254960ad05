"""A real Jupyter server in a process of its own: isolated, restartable, and gone after the test."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import psutil  # type: ignore[import-untyped]

from . import forking
from .forking import ForkedProcess

if TYPE_CHECKING:
    from .standalone import StandaloneProcess
    from .tls import Certificate

REPOSITORY = Path(__file__).resolve().parents[2]

#: What processes of tests import first: a stand-in for a library that is slow and not needed.
QUICK_START = Path(__file__).parent / "quick_start"

START_LIMIT = 60.0
STOP_LIMIT = 60.0

#: For servers in which nothing of ours runs, and for those that are killed: they cannot report
#: what was covered.
NOT_MEASURED = {"MEASURE": ""}

#: Coverage begins when a server reads its configuration, which is before it loads us: its own
#: start takes twice as long when it is measured. Nothing of ours runs in kernels, which inherit
#: the server's environment.
_MEASURE = """
import os
if config := os.environ.pop("MEASURE", ""):
    from tests.harness import measuring
    os.environ["COVERAGE_PROCESS_CONFIG"] = config
    measuring.begin()
    del os.environ["COVERAGE_PROCESS_CONFIG"]
"""

#: Parts of JupyterLab that take a page longer to load, and that no test uses.
_LEFT_OUT = (
    "celltags-extension",
    "console-extension",
    "csvviewer-extension",
    "debugger-extension",
    "extensionmanager-extension",
    "help-extension",
    "htmlviewer-extension",
    "hub-extension",
    "imageviewer-extension",
    "inspector-extension",
    "javascript-extension",
    "json-extension",
    "launcher-extension",
    "logconsole-extension",
    "lsp-extension",
    "markdownviewer-extension",
    "mathjax-extension",
    "mermaid-extension",
    "metadataform-extension",
    "pdf-extension",
    "pluginmanager-extension",
    "running-extension",
    "settingeditor-extension",
    "terminal-extension",
    "toc-extension",
    "tooltip-extension",
    "vega5-extension",
    "workspaces-extension",
)

_MODULES = {"server": "jupyter_server", "lab": "jupyterlab"}


class JupyterProcess:
    """One Jupyter server, which can be killed and started again on the same root, port and token.

    Args:
        root: The directory it serves.
        token: Its token; made up if not given, no authentication at all if empty.
        base_url: As `ServerApp.base_url`.
        extra_args: More command line arguments.
        env: More environment variables.
        app: Jupyter Server alone, or JupyterLab.
        cwd: Where it runs; the root if not given.
        extra_path: Directories for PYTHONPATH, before the repository.
        extensions: Server extensions to enable or disable by name, whatever is installed.
        config: More of `jupyter_server_config.json`.
        certificate: Serve https with it.
        python: The interpreter, of an environment of its own if not ours.
        ip: Where it listens; it is asked on loopback all the same.
        fork: Whether to fork it from a process that has imported everything, which is faster.
    """

    def __init__(
        self,
        root: Path,
        *,
        token: str | None = None,
        base_url: str = "/",
        extra_args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        app: Literal["server", "lab"] = "server",
        cwd: Path | None = None,
        extra_path: Sequence[Path] = (),
        extensions: Mapping[str, bool] | None = None,
        config: Mapping[str, Any] | None = None,
        certificate: Certificate | None = None,
        python: Path | None = None,
        fork: bool = False,
        ip: str = "127.0.0.1",
    ) -> None:
        self.root = root
        self._ip = ip
        self.token = secrets.token_hex(16) if token is None else token
        self.base_url = f"/{base_url.strip('/')}/".replace("//", "/")
        self._held, self.port = hold_port()
        scheme = "http" if certificate is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.port}{self.base_url}"
        self.standalone: StandaloneProcess | None = None
        """The command that is joined to it, if agents come that way."""
        self._cwd = root if cwd is None else cwd
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        # What a killed server was just writing must not fail the test that killed it.
        self._home = tempfile.TemporaryDirectory(
            prefix="jupyter-process-", ignore_cleanup_errors=True
        )
        self.home = Path(self._home.name)
        self._log_file = self.home / "jupyter.log"
        self._python = sys.executable if python is None else str(python)
        self._module = _MODULES[app]
        self._arguments = self._make_arguments(extra_args, certificate)
        # Packages of a test's own replace ours only where ours have not been imported.
        self._fork = fork and python is None and not extra_path
        # Nothing of ours runs in it: nothing is to be measured, nor to be seen of how it ends.
        self._is_stock = not (extensions or {}).get("jupyter_collaboration_mcp", True)
        if self._is_stock:
            env = {**NOT_MEASURED, **(env or {})}
        self._environment = self._make_environment(env or {}, extra_path)
        self._write_config(extensions or {}, config or {})
        # Also when a test run is interrupted: `finalize` runs at the exit of the interpreter.
        self._cleanup = weakref.finalize(self, _clean_up, self.home, self._home, self._held)

    @property
    def headers(self) -> dict[str, str]:
        """What a client sends to be let in."""
        return {"Authorization": f"token {self.token}"}

    @property
    def log(self) -> str:
        """All it has written so far, over all its starts."""
        return self._log_file.read_text(errors="replace") if self._log_file.exists() else ""

    def last_lines(self, count: int = 40) -> str:
        """The end of its log, for who looks into a failure."""
        return "\n".join(self.log.splitlines()[-count:])

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("The server has not been started")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            RuntimeError: It ended, or did not answer in time; the message has its log.
        """
        if self.running:
            raise RuntimeError("The server runs already")
        self._process = self._spawn()
        deadline = time.monotonic() + START_LIMIT
        while not await asyncio.to_thread(self._answers):
            if not self.running:
                raise RuntimeError(f"Jupyter ended at start:\n{self.log}")
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"Jupyter did not answer in {START_LIMIT:g} s:\n{self.log}")
            await asyncio.sleep(0.05)

    def change_token(self, token: str) -> None:
        """Have another one from the next start on."""
        self.token = self._environment["JUPYTER_TOKEN"] = token

    def kill(self) -> None:
        """End the server process alone as a crash would (SIGKILL); its kernels go at `stop`."""
        if self._process is not None and self.running:
            self._process.kill()
            self._process.wait()

    async def terminate(self, limit: float = STOP_LIMIT) -> int:
        """Ask the server to end (SIGTERM), wait for it, and return its exit code.

        Raises:
            RuntimeError: It had to be killed.
        """
        if self._process is None:
            raise RuntimeError("The server has not been started")
        self._process.terminate()
        try:
            return await asyncio.to_thread(self._process.wait, limit)
        except subprocess.TimeoutExpired:
            self.kill()
            message = f"Jupyter did not end within {limit:g} s:\n{self.log}"
            raise RuntimeError(message) from None

    async def stop(self) -> None:
        """End the server and everything it started, and remove its home."""
        try:
            if self._is_stock:
                self.kill()
            elif self.running:
                await self.terminate()
        finally:
            await asyncio.to_thread(self._cleanup)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            self._cleanup()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"The log of {self.url} ends with:\n{self.last_lines()}")
        await self.stop()

    def _make_arguments(
        self, extra_args: Sequence[str], certificate: Certificate | None
    ) -> list[str]:
        arguments = [
            "--allow-root",
            "--no-browser",
            f"--ServerApp.ip={self._ip}",
            f"--ServerApp.port={self.port}",
            "--ServerApp.port_retries=0",
            f"--ServerApp.base_url={self.base_url}",
            f"--ServerApp.root_dir={self.root}",
        ]
        if not self.token:
            arguments.append("--IdentityProvider.token=")
        if certificate is not None:
            arguments += [f"--certfile={certificate.file}", f"--keyfile={certificate.key}"]
        return [*arguments, *extra_args]

    def _make_environment(
        self, env: Mapping[str, str], extra_path: Sequence[Path]
    ) -> dict[str, str]:
        apart = ("JUPYTER_", "JPY_", "COVERAGE_PROCESS_")
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(apart)}
        path = [*map(str, extra_path), str(QUICK_START), str(REPOSITORY)]
        if inherited.get("PYTHONPATH"):
            path.append(inherited["PYTHONPATH"])
        isolated = {
            "HOME": self.home / "home",
            "IPYTHONDIR": self.home / "ipython",
            "JUPYTER_CONFIG_DIR": self.home / "config",
            "JUPYTER_DATA_DIR": self.home / "data",
            "JUPYTER_RUNTIME_DIR": self.home / "runtime",
        }
        for directory in isolated.values():
            directory.mkdir()
        return {
            **inherited,
            **{name: str(directory) for name, directory in isolated.items()},
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONUNBUFFERED": "1",
            # Not on the command line, which Jupyter logs with --debug.
            **({"JUPYTER_TOKEN": self.token} if self.token else {}),
            "MEASURE": os.environ.get("COVERAGE_PROCESS_CONFIG", ""),
            **({"JUPYTER_PATH": str(forking.kernels())} if self._fork else {}),
            **env,
        }

    def _write_config(self, extensions: Mapping[str, bool], config: Mapping[str, Any]) -> None:
        whole = {section: dict(values) for section, values in config.items()}
        whole.setdefault("ServerApp", {}).setdefault("jpserver_extensions", dict(extensions))
        # Hundreds of servers are started, and many of them never asked.
        whole.setdefault("JupyterCollaborationMCP", {}).setdefault("preload", False)
        (self.home / "config" / "jupyter_server_config.json").write_text(json.dumps(whole))
        (self.home / "config" / "jupyter_server_config.py").write_text(_MEASURE)
        if self._module == _MODULES["lab"]:
            page = {
                "disabledExtensions": {f"@jupyterlab/{name}": True for name in _LEFT_OUT},
                "buildCheck": False,  # else each page has Node.js started
            }
            (self.home / "config" / "labconfig").mkdir()
            (self.home / "config" / "labconfig" / "page_config.json").write_text(json.dumps(page))

    def _spawn(self) -> subprocess.Popen[bytes] | ForkedProcess:
        if self._fork:
            return ForkedProcess(
                self._module,
                self._arguments,
                cwd=self._cwd,
                env=self._environment,
                log=self._log_file,
            )
        with self._log_file.open("ab") as log:
            return subprocess.Popen(
                [self._python, "-m", self._module, *self._arguments],
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _answers(self) -> bool:
        request = urllib.request.Request(f"{self.url}api/status", headers=self.headers)
        trusting = ssl._create_unverified_context() if self.url.startswith("https") else None
        try:
            with urllib.request.urlopen(request, timeout=5, context=trusting):
                return True
        except urllib.error.HTTPError as error:
            error.close()
            return True  # an authorizer or identity provider of the test's own may refuse us
        except OSError:
            return False


def hold_port() -> tuple[socket.socket, int]:
    """A port that nobody else gets before the server starts, nor between two of its starts.

    Linux gives it to who asks for just this one, as the server does, as long as nobody listens
    there. It does not hand it out to who wants any: each kernel that starts wants five.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    port = int(held.getsockname()[1])
    if sys.platform != "linux":
        held.close()  # elsewhere the server would not get it either
    return held, port


def _clean_up(home: Path, directory: tempfile.TemporaryDirectory[str], held: socket.socket) -> None:
    """End whatever runs with this home; kernels lead sessions of their own, out of the group."""
    held.close()
    left = [process for process in psutil.process_iter() if _runs_in(process, home)]
    for process in left:
        try:
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(left, timeout=STOP_LIMIT)
    directory.cleanup()


def _runs_in(process: psutil.Process, home: Path) -> bool:
    try:
        return bool(process.environ().get("JUPYTER_RUNTIME_DIR") == str(home / "runtime"))
    except psutil.Error:
        return False
