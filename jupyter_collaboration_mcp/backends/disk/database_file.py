"""A small SQLite database that several processes may use at once, and that nobody depends on.

Whatever is wrong with the file, its users go on: a broken file is set aside with a date, a locked
one is used later, a missing one is begun again. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from .aside import cause, set_aside

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: Seconds that another process has to finish what it writes.
_BUSY = 2.0

#: Seconds until another attempt to open a file that could not be opened.
_RETRY = 30.0

#: Errors that do not make a file invalid: it is locked, or the disk is full, read-only or fails.
_LEAVE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_NOMEM,
    }
)


class DatabaseFile:
    """A database that is opened when it is needed.

    Args:
        schema: Creates the tables that are missing.
        probe: A query that fails if the file is the database of something else.
        name: What it is, for the log.
        without: What does not happen while it cannot be used, as a sentence without its end.
    """

    def __init__(self, path: Path, schema: str, probe: str, name: str, without: str) -> None:
        self._path = path
        self._schema = schema
        self._probe = probe
        self._name = name
        self._without = without
        self._database: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._retry_at = 0.0
        self._warned = False

    @property
    def exists(self) -> bool:
        """Whether there is a file already."""
        return self._path.exists()

    def attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
        """Use the database; None if that is impossible now. A broken file is replaced once."""
        for _ in range(2):
            try:
                result = work(self._opened())
            except (OSError, sqlite3.Error) as error:
                self.close()
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                unsound = isinstance(error, sqlite3.Error) and code not in _LEAVE
                if not (unsound and self._set_aside(error)):
                    self._give_up(error)
                    return None
            else:
                self._warned = False
                return result
        return None

    def close(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        if self._database is not None and self._identity != _identity(self._path):
            self.close()  # somebody has deleted or replaced it
        if self._database is None:
            if time.monotonic() < self._retry_at:
                raise sqlite3.OperationalError("it could not be opened a moment ago")
            self._database = self._open()
            self._identity = _identity(self._path)
        return self._database

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # It names people: nobody else may read it.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(
            self._path, timeout=_BUSY, isolation_level=None, check_same_thread=False
        )
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA journal_size_limit = 4000000")
            database.executescript(self._schema)
            database.execute(self._probe).fetchall()
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self, error: Exception) -> bool:
        """Replace a file that is something else, or a broken one; returns whether that is done."""
        if time.monotonic() < self._retry_at:
            return False
        try:
            aside = set_aside(self._path)
        except OSError:
            return False
        _log.warning(
            "The %s %s cannot be used (%s). It was set aside as %s, and a new one was begun.",
            self._name,
            self._path,
            cause(error),
            aside.name,
        )
        return True

    def _give_up(self, error: Exception) -> None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        locked = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if not locked and time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + _RETRY
        if not self._warned:
            self._warned = True
            _log.warning("%s: %s cannot be used (%s).", self._without, self._path, cause(error))


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Write all or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


def storable(text: str) -> str:
    """A text that SQLite can hold: names may contain half a surrogate pair."""
    return text.encode(errors="replace").decode()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
