"""Opening files where a symbolic link may change at any moment.

Whether somebody may touch a file is decided by its path, and the system looks a path up again each
time that it is used. So either we decide about the file that was opened (`opened_files`), or open
only the file that we decided about (`opened_exactly`).
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

#: Files that a document was loaded from one after the other, and that are remembered.
_LOADS = 100

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # for somebody at the other end of a pipe

_opened: ContextVar[list[str] | None] = ContextVar("opened", default=None)


def report_opened_files(contents: Any) -> None:
    """Have a contents manager of local files report what it opens, to who wants to know."""
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
    """The real paths of all files that are opened meanwhile, in this task."""
    opened: list[str] = []
    token = _opened.set(opened)
    try:
        yield opened
    finally:
        _opened.reset(token)


def real_path(file: int, path: str) -> str:
    """Where an open file is; as far as the system can tell, else where its path leads to now."""
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
    """Open what is in an open folder, unless it is a link.

    Raises:
        OSError: It is one, or there is nothing.
    """
    try:
        return os.open(name, os.O_RDONLY | _NO_LINK | _NO_WAIT, dir_fd=folder)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it became a link while it was opened") from error


class Load(NamedTuple):
    """One time that a document was loaded."""

    file: str
    """Where the file that was opened really is."""
    linked: bool
    """Whether a link led there."""


class Loads:
    """From which files a document was loaded; of several times from the same one, the first."""

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
        """All loads after so many; None if they are not remembered any more."""
        new = self.count - count
        return None if new > len(self._latest) else list(self._latest)[len(self._latest) - new :]
