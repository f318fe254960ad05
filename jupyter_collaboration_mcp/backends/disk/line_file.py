"""A file that only grows, line by line, until it is renamed and another one begun.

A thread of its own writes, so nobody ever waits for the disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from enum import Enum
from pathlib import Path

from .aside import cause

#: Files that are kept beside the one that is written: `NAME.1` is the latest of them.
KEPT = 5

#: Lines that wait while the disk fails; the oldest are dropped.
_BACKLOG = 10_000

#: Lines that are written at once.
_BATCH = 500

#: Seconds between two attempts to write to a disk that fails.
_RETRY = 1.0

#: Seconds that the last lines have at the end.
_CLOSING = 5.0

_log = logging.getLogger(__name__)


class _Order(Enum):
    STOP = "write what is left, and end"


class LineFile:
    """Appends lines to a file. Others may append to it or rename it, too.

    Args:
        path: The file; it is created with mode 0600, and so is what it is renamed to.
        size: Bytes after which another file is begun.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._size = path, size
        self._waiting: queue.SimpleQueue[str | _Order] = queue.SimpleQueue()
        self._fd: int | None = None
        self._torn = False
        """Whether the last line was only written in part."""
        self._fails = self._drops = False
        self._thread = threading.Thread(target=self._run, name="line-file", daemon=True)
        self._thread.start()

    def append(self, line: str) -> None:
        """Write a line soon."""
        if self._waiting.qsize() < _BACKLOG:
            self._waiting.put(line)
        elif not self._drops:
            self._drops = True
            _log.warning("The disk is too slow for %s: lines of it are lost", self._path)

    def close(self) -> None:
        """Write what is left. This waits for the disk."""
        self._waiting.put(_Order.STOP)
        self._thread.join(_CLOSING)

    # -- in the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        lines: list[str] = []
        goes_on = True
        self._write(lines)  # whoever runs the server learns at once if it cannot be written
        while goes_on or lines:
            goes_on = self._collect(lines) if goes_on else False
            written = self._write(lines)
            if not written and not goes_on:
                _log.warning("%d lines for %s are lost", len(lines), self._path)
                break
        self._close_file()

    def _collect(self, lines: list[str]) -> bool:
        """Wait for lines; returns whether there will be more."""
        with contextlib.suppress(queue.Empty):
            each = self._waiting.get(timeout=_RETRY if lines else None)
            while each is not _Order.STOP:
                lines.append(str(each))
                if len(lines) >= _BATCH and not self._fails:
                    return True
                each = self._waiting.get_nowait()
            return False
        return True

    def _write(self, lines: list[str]) -> bool:
        """Write all lines and take them from the list, unless the disk fails."""
        try:
            self._open()
            while lines:
                self._append_some(lines)
        except OSError as error:
            self._close_file()
            if not self._fails:
                self._fails = True
                _log.warning("Cannot write %s: %s. This is tried again.", self._path, cause(error))
            del lines[:-_BACKLOG]
            return False
        if self._fails:
            self._fails = False
            _log.warning("%s can be written again", self._path)
        return True

    def _append_some(self, lines: list[str]) -> None:
        """Write the first lines, and take from the list what was written whole."""
        begin = "\n" * self._torn  # what was torn stays a line of its own
        data = (begin + "".join(f"{line}\n" for line in lines[:_BATCH])).encode()
        assert self._fd is not None
        size = os.fstat(self._fd).st_size
        if size and size + len(data) > self._size:
            self._rotate()
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        finally:
            if written:
                self._torn = data[written - 1 : written] != b"\n"
                del lines[: data.count(b"\n", 0, written) - len(begin)]

    def _open(self) -> None:
        """Open the file, also if somebody has renamed or deleted it since."""
        if self._fd is not None:
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(self._fd), self._path.stat()):
                    return
            self._close_file()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(self._path, flags, 0o600)
        with contextlib.suppress(OSError, AttributeError):  # it is somebody else's
            os.fchmod(self._fd, 0o600)

    def _rotate(self) -> None:
        self._close_file()
        for number in range(KEPT, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1) if number > 1 else self._path
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _close_file(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._fd)
            os.close(self._fd)
            self._fd = None
