"""Forks itself for everyone who asks at its socket: see `command` in `tests.harness.forking`.

It has imported everything that its forks need, and has no threads.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn


def listen(address: str) -> socket.socket:
    """Make the socket at which `launched.py` asks for a process."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    return listener


def launch(listener: socket.socket, become: Callable[..., None], parent: int) -> None:
    """Serve until whoever started this process ends.

    Args:
        listener: Where `launched.py` asks for a process.
        become: Makes a fork that process, given what was asked for.
        parent: What can be read from as soon as whoever started this process has ended.
    """
    os.setsid()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    selector = selectors.DefaultSelector()
    for each in (listener, woken, parent):
        selector.register(each, selectors.EVENT_READ)
    clients: dict[int, socket.socket] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                client, _ = listener.accept()
                asked, streams = _receive(client)
                if (pid := os.fork()) == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    selector.close()
                    for held in (listener, client, *clients.values()):
                        held.close()
                    for descriptor in (woken, wake):
                        os.close(descriptor)
                    _run(become, asked, streams)
                for descriptor in streams:
                    os.close(descriptor)
                clients[pid] = client
                client.sendall(b"%d\n" % pid)
                selector.register(client, selectors.EVENT_READ, pid)
            elif key.fileobj == woken:
                os.read(woken, 4096)
                for pid, code in _ended():
                    with clients.pop(pid) as client, contextlib.suppress(OSError):
                        if client in selector.get_map():
                            selector.unregister(client)
                        client.sendall(b"%d\n" % code)
            elif key.data in clients:
                # Who asked was killed, as it says nothing else: its fork goes with it.
                selector.unregister(key.fileobj)
                os.kill(key.data, signal.SIGKILL)
            elif key.fileobj == parent:
                return


def become(
    module: str,
    arguments: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    prepare: Callable[[], None] = lambda: None,
) -> None:
    """Be `python -m MODULE ARGUMENTS`, with the standard streams that are there.

    Args:
        prepare: Called before the module runs.
    """
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    sys.path[:0] = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = [module, *arguments]
    prepare()
    if not hasattr(sys.modules.get(module), "__path__"):
        sys.modules.pop(module, None)  # or runpy warns that it runs it once more
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()  # which multiprocessing leaves out


def _receive(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size, streams, _, _ = socket.recv_fds(client, 8, 3)
    with client.makefile("rb", buffering=0) as body:
        text = b""
        while len(text) < int.from_bytes(size, "big"):
            text += body.read(65536) or b""
    return json.loads(text), streams


def _ended() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended[0], os.waitstatus_to_exitcode(ended[1])


def _run(become: Callable[..., None], asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """Be the process that was asked for, and end as `python -m MODULE` would."""
    code = 1
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        become(**asked)
        code = 0
    except SystemExit as error:
        if error.code is None or isinstance(error.code, int):
            code = error.code or 0
        else:
            sys.stderr.write(f"{error.code}\n")
    except KeyboardInterrupt:
        code = -signal.SIGINT
        traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
