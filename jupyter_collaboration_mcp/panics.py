"""Panics of libraries that are written in Rust, such as pycrdt.

A panic reaches Python as a `BaseException`: it passes every `except Exception` and ends all task
groups above it, and with them every session of every agent.
"""

from __future__ import annotations

import logging
from types import TracebackType

from .errors import InternalError

_log = logging.getLogger(__name__)


def contained() -> _Contained:
    """Raise a panic as an error of the call or task that it happened in.

    Raises:
        InternalError: A library panicked.
    """
    return _CONTAINED


class _Contained:
    """Not a generator: that would cost each edit time."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and is_panic(error):
            _log.error("A library panicked", exc_info=error)
            raise InternalError.of(error) from error


_CONTAINED = _Contained()


def is_panic(error: BaseException) -> bool:
    """Whether this is a panic, or a group of exceptions that only a panic keeps from being errors.

    Each such library has a class of its own for it, which cannot be imported.
    """
    if isinstance(error, Exception):
        return False
    if isinstance(error, BaseExceptionGroup):
        return all(isinstance(one, Exception) or is_panic(one) for one in error.exceptions)
    return type(error).__module__ == "pyo3_runtime" and type(error).__name__ == "PanicException"
