"""The file of an activity log: an SQLite database that several processes may use at once.

Everything here blocks, and runs in the log's own thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...backends.disk.aside import cause, set_aside
from .activity import Activity

T = TypeVar("T")

_log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS activity (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time INTEGER NOT NULL, kind TEXT NOT NULL,
    actor TEXT NOT NULL, actor_id TEXT NOT NULL, agent INTEGER NOT NULL, description TEXT NOT NULL,
    path TEXT NOT NULL, file_id TEXT NOT NULL, cells TEXT NOT NULL, cell_count INTEGER NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS activity_by_document ON activity (file_id, time);
CREATE INDEX IF NOT EXISTS activity_by_time ON activity (time);
"""

_COLUMNS = (
    "kind, actor, actor_id, agent, description, path, file_id, cells, cell_count, metadata, "
    "time, id"
)

_PUT = (
    f"INSERT INTO activity ({_COLUMNS}) VALUES ({', '.join('?' * 12)}) "
    "ON CONFLICT (id) DO UPDATE SET description = excluded.description, cells = excluded.cells, "
    "cell_count = excluded.cell_count, metadata = excluded.metadata, time = excluded.time"
)

#: Seconds that another process has to finish what it writes.
_BUSY = 2.0

#: Seconds until another attempt to open a file that could not be opened.
_RETRY = 30.0

#: Entries that are kept while they cannot be written.
_BACKLOG = 1_000

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


class ActivityStorage:
    """The latest activities, on disk. Nothing that is wrong with the file is raised to callers."""

    def __init__(self, path: Path, limit: int) -> None:
        self._path = path
        self._limit = limit
        self._database: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._backlog: list[tuple[Any, ...]] = []
        self._retry_at = 0.0
        self._warned = False

    def write(self, activities: Sequence[Activity]) -> None:
        """Add activities, or replace those that have the same id; drop the oldest ones."""
        self._backlog = [*self._backlog, *_rows(activities)][-_BACKLOG:]
        if self._backlog and self._attempt(self._write) is not None:
            self._backlog = []

    def select(self, where: str, parameters: Sequence[Any], limit: int) -> list[Activity]:
        """The latest activities with a condition, the latest first; none if they are unreadable."""
        query = (
            f"SELECT {_COLUMNS} FROM activity WHERE {where} ORDER BY time DESC, seq DESC LIMIT ?"
        )
        rows = self._attempt(lambda db: db.execute(query, (*parameters, limit)).fetchall())
        return [_activity(row) for row in rows or ()]

    def close(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    # -- parts -------------------------------------------------------------------------------

    def _write(self, database: sqlite3.Connection) -> bool:
        database.execute("BEGIN IMMEDIATE")
        try:
            database.executemany(_PUT, self._backlog)
            database.execute(
                "DELETE FROM activity WHERE seq <= (SELECT max(seq) FROM activity) - ?",
                (self._limit,),
            )
            database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise
        return True

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T | None:
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
            database.executescript(_SCHEMA)
            database.execute(f"SELECT seq, {_COLUMNS} FROM activity LIMIT 1").fetchall()
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self, error: Exception) -> bool:
        """Replace a file that is no activity log, or a broken one; returns whether that is done."""
        if time.monotonic() < self._retry_at:
            return False
        try:
            aside = set_aside(self._path)
        except OSError:
            return False
        _log.warning(
            "The activity log %s cannot be used (%s). It was set aside as %s, and a new one was "
            "begun.",
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
            _log.warning(
                "Activity is not recorded for now: %s cannot be used (%s).",
                self._path,
                cause(error),
            )


def _rows(activities: Sequence[Activity]) -> Iterator[tuple[Any, ...]]:
    for activity in activities:
        try:
            yield _row(activity)
        except (TypeError, ValueError, RecursionError) as error:  # its metadata is not JSON
            _log.warning("An activity %r cannot be recorded (%s).", activity.kind, error)


def _row(activity: Activity) -> tuple[Any, ...]:
    return (
        activity.kind,
        _text(activity.actor),
        _text(activity.actor_id),
        int(activity.agent),
        _text(activity.description),
        _text(activity.path),
        _text(activity.file_id),
        _text(json.dumps(activity.cells, ensure_ascii=False)),
        activity.cell_count,
        _text(json.dumps(activity.metadata, ensure_ascii=False, default=str)),
        activity.time,
        activity.id,
    )


def _activity(row: Sequence[Any]) -> Activity:
    kind, actor, actor_id, agent, description, path, file_id, cells, count, metadata, *rest = row
    return Activity(
        kind,
        actor,
        actor_id,
        bool(agent),
        description,
        path,
        file_id,
        tuple(json.loads(cells)),
        count,
        json.loads(metadata),
        *rest,
    )


def _text(text: str) -> str:
    """A text that SQLite can hold: names may contain half a surrogate pair."""
    return text.encode(errors="replace").decode()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
