"""Servers and commands as forks of a process that has imported all they need.

To import it takes each of them more than a second, and the tests start hundreds.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection, forkserver
from pathlib import Path
from unittest import mock

from . import launched, launcher, measuring

_REPOSITORY = Path(__file__).resolve().parents[2]

_context = multiprocessing.get_context("forkserver")


class ForkedProcess:
    """`python -m MODULE ARGUMENTS`, with what tests use of `subprocess.Popen`.

    Args:
        log: The file that its output is added to.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
    ) -> None:
        _start_server()
        self._process = _context.Process(
            target=_run, args=(module, list(arguments), str(cwd), dict(env), str(log)), daemon=True
        )
        self._process.start()
        self._lock = threading.Lock()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        with self._lock:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def command(module: str) -> list[str]:
    """How to start `python -m MODULE` as a fork, for those who start a process by its command line.

    Its standard streams, environment and directory are those of whoever starts it, but it is not
    their child, and what its environment says to Python itself comes too late.
    """
    return [sys.executable, "-I", "-S", launched.__file__, _launcher(), module]


@functools.cache
def _launcher() -> str:
    """Start the process that forks for `command`; returns the path of its socket."""
    folder = tempfile.mkdtemp(prefix="launcher-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = f"{folder}/socket"
    _start_server()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        _context.Process(target=launcher.launch, args=(listener, _become), daemon=True).start()
    return address


def _start_server() -> None:
    """Start the process that imports everything, at the first use."""
    _context.set_forkserver_preload(["tests.harness.preloaded"])
    with mock.patch.dict(os.environ, {"PYTHONPATH": str(_REPOSITORY)}):
        forkserver.ensure_running()


def _run(module: str, arguments: Sequence[str], cwd: str, env: Mapping[str, str], log: str) -> None:
    """Be that process."""
    _redirect(os.devnull, os.O_RDONLY, 0)
    for descriptor in (1, 2):
        _redirect(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, descriptor)
    _become(module, arguments, cwd, env)


def _become(module: str, arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    """Run the module, with the standard streams that are there."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = [module, *arguments]
    if "COVERAGE_PROCESS_CONFIG" in env:
        measuring.begin()
    sys.modules["tests.harness.preloaded"].make_distinct()
    if not hasattr(sys.modules.get(module), "__path__"):
        sys.modules.pop(module, None)  # or runpy warns that it runs it once more
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out


def _redirect(file: str, flags: int, descriptor: int) -> None:
    opened = os.open(file, flags, 0o600)
    os.dup2(opened, descriptor)
    os.close(opened)
