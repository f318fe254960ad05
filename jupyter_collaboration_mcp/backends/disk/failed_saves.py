"""Restores a file that could not be written: Jupyter's own attempt fails on a full disk.

Jupyter copies a file to `.~name`, writes it, and moves the copy back if that fails. But when the
disk is full, closing the file fails as well, and half a file is left with the copy beside it. A
room would mistake that half for a change of the file by somebody else.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from tornado.web import HTTPError

from .local_disk import LocalDisk


class SaveFailed(Exception):
    """A document could not be saved; jupyter-server-ydoc shows its `repr` as the reason."""

    def __repr__(self) -> str:
        return str(self)


def reason(error: BaseException) -> str:
    """Why something failed, in the words of the operating system.

    A missing file is what Jupyter stumbles over when it moves the copy back, not the reason.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, shutil.Error) and isinstance(cause.args[0], list):
            # Of several errors in a folder, take the first.
            return str(cause.args[0][0][2]).partition(":")[0]
        if isinstance(cause, OSError) and cause.errno not in (None, errno.ENOENT):
            return str(cause.strerror)
        cause = cause.__cause__ or cause.__context__
    return str(error.log_message or error.reason) if isinstance(error, HTTPError) else str(error)


@contextlib.contextmanager
def restored_on_failure(disk: LocalDisk | None, path: str) -> Iterator[None]:
    """Restore a file if saving it fails."""
    if disk is None:
        yield
        return
    file = disk.real_path(path)
    before = _stamp(file)
    try:
        yield
    except Exception:
        with contextlib.suppress(OSError):
            _put_back(file, before)
        raise


def _put_back(file: Path, before: tuple[int, int] | None) -> None:
    copy = file.with_name(f".~{file.name}")
    now = _stamp(file)
    if before is None:
        file.unlink()
    elif now == before:
        copy.unlink()  # it is partial: there was no room for the copy
    elif (kept := _stamp(copy)) is not None and kept[0] == before[0]:
        copy.replace(file)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
