"""Forks kernels for everyone who asks at its socket; started by `tests.harness.forking`."""

from __future__ import annotations

import gc
import importlib
import os
import sys
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
    """Look up what a kernel looks up when it imports its own application."""
    application: Any = importlib.import_module("ipykernel.kernelapp").IPKernelApp
    application.parent_handle.default_value = int(os.environ.get("JPY_PARENT_PID") or 0)


if __name__ == "__main__":
    main(sys.argv[1])
