"""Which processes are measured for coverage, so that measuring does not double the time of all.

From Python 3.12 on it costs next to nothing, and every process is measured. Before, it takes as
long again as what it measures. Then the tests' own processes are measured where the package runs in
them, and of servers and commands those with default settings which the tests of a module share;
with `--all`, every process there, too.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

#: What `coverage` hands on to processes that are to be measured from their start.
_CONFIG = "COVERAGE_PROCESS_CONFIG"
#: The same, kept for those few that are measured where measuring is dear.
_SHARED = "MEASURE_SHARED"
_CHEAP = sys.version_info >= (3, 12)


def choose_processes(everything: bool) -> None:
    """Decide for all processes that this one starts from now on."""
    if not (_CHEAP or everything) and _CONFIG in os.environ:
        os.environ[_SHARED] = os.environ.pop(_CONFIG)


def shared_server() -> dict[str, str]:
    """The environment of a server with default settings, which many tests share."""
    return {"MEASURE": _shared()}


def shared_command() -> dict[str, str]:
    """The same for a command."""
    config = _shared()
    return {_CONFIG: config} if config else {}


@contextmanager
def imports() -> Iterator[None]:
    """Measure what this process imports, on behalf of those that are forked from it."""
    config = _shared()
    if not config or _CONFIG in os.environ:
        yield  # measured anyway, if at all
        return
    coverage = importlib.import_module("coverage")
    os.environ[_CONFIG] = config
    measurement = coverage.process_startup()
    del os.environ[_CONFIG]
    try:
        yield
    finally:
        if measurement is not None:
            measurement.stop()
            measurement.save()


@contextmanager
def paused() -> Iterator[None]:
    """Do not measure this process meanwhile, if that is dear."""
    coverage = sys.modules.get("coverage")
    current = None if coverage is None or _CHEAP else coverage.Coverage.current()
    if current is None:
        yield
        return
    current.stop()
    try:
        yield
    finally:
        # Each start applies the patches of `tool.coverage.run` again: every process would be
        # measured from then on, and `os._exit` would be wrapped once more.
        with mock.patch.dict(os.environ), mock.patch.object(os, "_exit", os._exit):
            current.start()


def _shared() -> str:
    return os.environ.get(_SHARED) or os.environ.get(_CONFIG, "")
