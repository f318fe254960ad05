"""Opening files although a symbolic link may change at any moment.

Access to a file is decided by its path, and the system resolves a path again each time it is used.
So we either decide about the file that was opened (`opened_files`), or open exactly the file that
we decided about (`opened_exactly`).
"""

from __future__ import annotations

import errno
import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

#: Files that a document was loaded from that are remembered.
_LOADS = 100

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # do not wait for the other end of a pipe

_opened: ContextVar[list[str] | None] = ContextVar("opened", default=None)


def report_opened_files(contents: Any) -> None:
    """Make a contents manager of local files report the files it opens to `opened_files`."""
    open_file = contents.open

    @contextmanager
    def open_and_report(path: str, *arguments: Any, **options: Any) -> Iterator[Any]:
        with open_file(path, *arguments, **options) as file:
            if (opened := _opened.get()) is not None:
                opened.append(real_path(file.fileno(), path))
            yield file

    contents.open = open_and_report


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """Collects the real paths of all files that this task opens in the block."""
    opened: list[str] = []
    token = _opened.set(opened)
    try:
        yield opened
    finally:
        _opened.reset(token)


def real_path(file: int, path: str) -> str:
    """The real path of an open file, if the system can tell; else where its path leads now."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(file, fcntl.F_GETPATH, bytes(1024)).partition(b"\0")[0])
    try:
        at = str(Path(f"/proc/self/fd/{file}").readlink())
    except OSError:
        return os.path.realpath(path)
    return at.removesuffix(" (deleted)") if os.fstat(file).st_nlink == 0 else at


@contextmanager
def opened_exactly(root: str, path: str) -> Iterator[int]:
    """Open a file or a folder below a root, through no link at all.

    Raises:
        OSError: There is none, or there is a link by now.
    """
    if os.open not in os.supports_dir_fd:
        file = os.open(Path(root, path), os.O_RDONLY)
    else:
        file = os.open(root, os.O_RDONLY | _FOLDER)
        for name in path.split("/"):
            folder = file
            try:
                file = open_within(folder, name)
            finally:
                os.close(folder)
    try:
        yield file
    finally:
        os.close(file)


def open_within(folder: int, name: str) -> int:
    """Open an entry of an open folder, unless it is a link.

    Raises:
        OSError: It is a link, or does not exist.
    """
    try:
        return os.open(name, os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it became a link while it was opened") from error


class Load(NamedTuple):
    """One load of a document."""

    file: str
    """The real path of the file that was opened."""
    linked: bool
    """Whether a link led there."""


class Loads:
    """The files that a document was loaded from; repeated loads of the same file count once."""

    def __init__(self) -> None:
        self.count = 0
        self._latest: deque[Load] = deque(maxlen=_LOADS)

    def add(self, load: Load) -> None:
        if load != self.last:
            self.count += 1
            self._latest.append(load)

    @property
    def last(self) -> Load | None:
        return self._latest[-1] if self._latest else None

    def since(self, count: int) -> list[Load] | None:
        """All loads after a number of them; None if they are no longer remembered."""
        new = self.count - count
        return None if new > len(self._latest) else list(self._latest)[len(self._latest) - new :]
