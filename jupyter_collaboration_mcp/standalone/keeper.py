"""Runs a Jupyter server that ends with the process that started it.

    python -m jupyter_collaboration_mcp.standalone.keeper jupyterlab --no-browser ...

The standard input is a pipe of which the starter holds the other end. However the starter ends,
by `kill -9` too, the system closes that end, and the server shuts down as if asked to.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

from ..backends.upstream.uri_parser import skip_uri_parser

#: Seconds that a server without its starter has for its kernels and extensions.
GRACE = 20.0


def main() -> None:
    """Run the module that the first argument names, with the others as its command line."""
    module, *arguments = sys.argv[1:]
    lifeline = _take_standard_input()
    threading.Thread(target=_watch, args=(lifeline,), name="keeper", daemon=True).start()
    # Set here, the token wins over the one in a person's configuration; on the real command line
    # every user of the machine could read it, and in the environment every kernel would have it.
    token = os.environ.pop("JUPYTER_TOKEN", None)
    if token:
        arguments.append(f"--IdentityProvider.token={token}")
    skip_uri_parser()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _take_standard_input() -> int:
    """The pipe, under a number that nothing Jupyter starts can read from or inherit."""
    lifeline = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return lifeline


def _watch(lifeline: int) -> None:
    while os.read(lifeline, 1024):
        pass
    # To the process, not to this thread: the event loop of the main thread has to wake up.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


if __name__ == "__main__":
    main()
