"""Servers and commands as forks of a process that has imported all they need.

To import it takes each of them more than a second, and the tests start hundreds.
"""

from __future__ import annotations

import atexit
import functools
import json
import multiprocessing
import os
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

#: The specification of the kernel that is installed with ipykernel.
_KERNEL = Path("share/jupyter/kernels/python3/kernel.json")

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
    return _asking(_launcher(), module)


@functools.cache
def kernels() -> Path:
    """For JUPYTER_PATH: the kernel `python3` in it starts as a fork.

    Whatever else a kernel imports as it starts, a process of its own has imported, in which there
    is nothing of Jupyter Server and of ours.
    """
    folder = _made_folder("kernels-")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.kernel_launcher", _address(folder)],
        cwd=_REPOSITORY,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_PROCESS_")},
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # or the debugger warns of what it cannot do
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()  # it is ready
    atexit.register(process.communicate)  # it ends with its standard input
    installed = Path(sys.prefix) / _KERNEL
    spec = json.loads(installed.read_text())
    command = _asking(_address(folder), "ipykernel_launcher")
    (folder / _KERNEL).parent.mkdir(parents=True)
    (folder / _KERNEL).write_text(
        json.dumps({**spec, "argv": [*command, "-f", "{connection_file}"]})
    )
    return folder / "share" / "jupyter"


@functools.cache
def _launcher() -> str:
    """Start the process that forks for `command`; returns the path of its socket."""
    address = _address(_made_folder("launcher-"))
    _start_server()
    with launcher.listen(address) as listener:
        _context.Process(target=_launch, args=(listener,), daemon=True).start()
    return address


def _launch(listener: socket.socket) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    launcher.launch(listener, _become, parent.sentinel)


def _asking(address: str, module: str) -> list[str]:
    return [sys.executable, "-I", "-S", launched.__file__, address, module]


def _made_folder(prefix: str) -> Path:
    folder = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _address(folder: Path) -> str:
    return str(folder / "socket")


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
    launcher.become(module, arguments, cwd, env, _prepare)


def _prepare() -> None:
    if "COVERAGE_PROCESS_CONFIG" in os.environ:
        measuring.begin()
    sys.modules["tests.harness.preloaded"].make_distinct()


def _redirect(file: str, flags: int, descriptor: int) -> None:
    opened = os.open(file, flags, 0o600)
    os.dup2(opened, descriptor)
    os.close(opened)
