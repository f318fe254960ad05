"""Which processes are measured for coverage, so that measuring does not double the time of all.

From Python 3.12 on it costs next to nothing, and every process is measured. Before, it takes as
long again as what it measures. Then the tests' own processes are measured where the package runs in
them, and of servers and commands those with default settings which the tests of a module share;
with `--all`, every process there, too. What takes long repeats itself: of all cases of a test in
its own process and of such a server or command, only the beginning is measured.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

#: What `coverage` hands on to processes that are to be measured from their start.
_CONFIG = "COVERAGE_PROCESS_CONFIG"
#: The same, kept for those few that are measured where measuring is dear.
_SHARED = "MEASURE_SHARED"
_CHEAP = sys.version_info >= (3, 12)

#: Seconds of CPU time for which one of those is measured, by the name of a variable; and all cases
#: of a test together.
_LIMIT = "MEASURE_SECONDS"
_PROCESS_SECONDS, _TEST_SECONDS = "0.5", 0.05

_everything = False
_left: dict[str, float] = {}
"""The seconds for which more cases of a test are measured, by its name."""


def choose_processes(everything: bool) -> None:
    """Decide for all processes that this one starts from now on, and for the tests in it."""
    global _everything
    _everything = everything
    if not (_CHEAP or everything) and _CONFIG in os.environ:
        os.environ[_SHARED] = os.environ.pop(_CONFIG)


def shared_server() -> dict[str, str]:
    """The environment of a server with default settings, which many tests share."""
    return {"MEASURE": _shared(), **_limit()}


def shared_command() -> dict[str, str]:
    """The same for a command."""
    config = _shared()
    return {_CONFIG: config, **_limit()} if config else {}


def begin() -> None:
    """Measure this process from now on, as its environment says."""
    coverage = importlib.import_module("coverage")
    # By force, for the process of which this is a fork has been measured: see `imports`. Where that
    # is cheap, it is still measured, and so is this one.
    measurement = coverage.process_startup(force=not _CHEAP)
    if measurement is not None and (seconds := os.environ.get(_LIMIT)):
        _stop_after(float(seconds), measurement.stop)


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


@contextmanager
def at_first(test: str) -> Iterator[None]:
    """Do not measure this process for longer than a moment of its CPU time, if that is dear.

    Args:
        test: The name of a test, whose cases share that moment.
    """
    if _CHEAP or _everything:
        yield
        return
    with ExitStack() as stack:
        if left := _left.get(test, _TEST_SECONDS):
            _stop_after(left, lambda: stack.enter_context(paused()))
        else:
            stack.enter_context(paused())
        yield
        _left[test], _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop_after(seconds: float, stop: Callable[[], object]) -> None:
    """Call that as soon as this process has computed for so long."""
    signal.signal(signal.SIGVTALRM, lambda *_: stop())
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)


def _limit() -> dict[str, str]:
    return {} if _CHEAP or _everything else {_LIMIT: _PROCESS_SECONDS}


def _shared() -> str:
    return os.environ.get(_SHARED) or os.environ.get(_CONFIG, "")
