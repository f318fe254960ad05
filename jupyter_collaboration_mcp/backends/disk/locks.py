"""A file lock that the system releases when its process ends, however it ends."""

from __future__ import annotations

import os
from io import TextIOWrapper
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there is no lock there
    fcntl = None  # type: ignore[assignment]

#: Whether it can be known that a process holds a lock.
CAN_LOCK = fcntl is not None


def lock(path: Path) -> TextIOWrapper:
    """Lock a file for this process alone, until the returned file is closed.

    Raises:
        BlockingIOError: Another process holds it, or just held it and has deleted the file.
        OSError: This path cannot be locked.
    """
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                raise FileNotFoundError(path)
        except (BlockingIOError, FileNotFoundError) as error:
            file.close()
            raise BlockingIOError(f"{path} is held by another process") from error
        except OSError:  # a file system without locks
            file.close()
            raise
    return file
