"""Have a process forked, and be in its place: run as a script by those who start a command.

What it is given as standard streams, environment and directory are those of the fork
(`tests.harness.launcher`). It passes signals on, and ends as the fork ends. It starts fast, for it
imports next to nothing.
"""

import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(address: str, module: str, *arguments: str) -> int:
    with socket.socket(socket.AF_UNIX) as launcher:
        launcher.connect(address)
        wanted = {"module": module, "arguments": arguments, "cwd": str(Path.cwd())}
        body = json.dumps({**wanted, "env": dict(os.environ)}).encode()
        socket.send_fds(launcher, [len(body).to_bytes(8, "big")], [0, 1, 2])
        launcher.sendall(body)
        # Who waits for the end of its output waits for the fork, not for us.
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        # Unbuffered, so that it can be waited for.
        with launcher.makefile("rb", buffering=0) as answers:
            pid = int(answers.readline())
            for number in _PASSED_ON:
                signal.signal(number, lambda number, _: os.kill(pid, number))
            _wait_for(answers.fileno())
            code = int(answers.readline())
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _wait_for(answers: int) -> None:
    """Wait for the end of the fork, which is killed if we end ourselves.

    A kernel ends when whoever started it has ended, and looks for that once in a second.
    """
    parent = os.getppid()
    pause = 1.0 if "JPY_PARENT_PID" in os.environ else None
    while not select.select([answers], [], [], pause)[0]:
        if os.getppid() != parent:
            sys.exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
