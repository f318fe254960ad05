"""Forks kernels for everyone who asks at its socket; started by `tests.harness.forking`."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from . import launcher

#: What a kernel imports as it starts, and with the first code that it runs.
_IMPORTED = (
    "IPython.core.completerlib",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "http.client",
    "ipykernel.debugger",
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "psutil",
    "pydoc",
    "sqlite3",
    "tornado.platform.asyncio",
)

#: Seconds for which a kernel has bound its ports before it serves. Whoever wants to hear it tries
#: to connect every 100 to 200 ms, to each port by itself; a kernel that is not forked takes longer.
_BOUND = 0.25


def main(address: str) -> None:
    listener = launcher.listen(address)
    for name in _IMPORTED:
        importlib.import_module(name)
    del sys.path[0]  # the directory of this repository, as it was started there
    gc.collect()
    gc.freeze()
    print("ready", flush=True)  # noqa: T201
    launcher.launch(listener, _become, sys.stdin.fileno())


def _become(module: str, arguments: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
    launcher.become(module, arguments, cwd, env, _prepare)


def _prepare() -> None:
    """Look up what a kernel looks up when it imports its own application, and serve later."""
    application: Any = importlib.import_module("ipykernel.kernelapp").IPKernelApp
    application.parent_handle.default_value = int(os.environ.get("JPY_PARENT_PID") or 0)
    start = application.start

    def start_later(self: Any) -> None:
        time.sleep(_BOUND)
        start(self)

    application.start = start_later


if __name__ == "__main__":
    main(sys.argv[1])
