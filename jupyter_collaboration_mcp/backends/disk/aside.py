"""Files that cannot be used are set aside under a dated name, and never deleted."""

from __future__ import annotations

import os
import time
from pathlib import Path

#: A database, and the files that SQLite keeps beside it.
_SUFFIXES = ("-wal", "-shm", "-journal", "")


def cause(error: Exception) -> str:
    """What is wrong, without paths of the server: agents read it."""
    return getattr(error, "strerror", None) or str(error)


def set_aside(path: Path) -> Path:
    """Rename what is at a path to a dated name beside it; returns the new path.

    Raises:
        OSError: It cannot be renamed; nothing has changed.
    """
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside, number = path.with_name(f"set-aside-{stamp}-{path.name}"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"set-aside-{stamp}-{number}-{path.name}")
    done: list[tuple[str, str]] = []
    try:
        # The database last: a log left behind would be mistaken for the new one's.
        for suffix in _SUFFIXES:
            old, new = f"{path}{suffix}", f"{aside}{suffix}"
            if os.path.lexists(old):
                os.rename(old, new)  # noqa: PTH104
                done.append((old, new))
    except OSError:
        for old, new in reversed(done):
            os.rename(new, old)  # noqa: PTH104
        raise
    return aside
