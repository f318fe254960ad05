"""The file of a journal: opened and locked if it is valid, set aside if it is anything else.

Nothing is ever deleted here: an unusable file may hold somebody's only copy of an edit.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..disk.aside import cause, set_aside
from ..disk.locks import lock
from . import steps_table

Statement = tuple[str, Sequence[Any]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rooms (
    room TEXT PRIMARY KEY, path TEXT NOT NULL, base TEXT, base_time REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS updates (
    seq INTEGER PRIMARY KEY, room TEXT NOT NULL, time REAL NOT NULL, yupdate BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS pending (
    edit INTEGER NOT NULL, room TEXT NOT NULL, slice INTEGER NOT NULL, yupdate BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS credits (
    room TEXT NOT NULL, client INTEGER NOT NULL, clock_from INTEGER NOT NULL,
    clock_to INTEGER NOT NULL, deletion BLOB NOT NULL, source TEXT NOT NULL, member TEXT NOT NULL,
    name TEXT NOT NULL, call TEXT NOT NULL, time REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS renames (path TEXT NOT NULL, new_path TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS notices (
    room TEXT NOT NULL, path TEXT NOT NULL, time REAL NOT NULL, text TEXT NOT NULL
);
"""
_SCHEMA += steps_table.SCHEMA

#: What earlier versions had beside the tables. Each edit waits for an index; few calls read by it.
_DROPPED = """
DROP TABLE IF EXISTS attribution;
DROP INDEX IF EXISTS updates_by_room;
DROP INDEX IF EXISTS steps_by_agent;
"""

#: What earlier versions of this package had in place of the credits.
_FORMER_SCHEMA = """
CREATE TABLE attribution (
    document TEXT NOT NULL, client INTEGER NOT NULL, clock_from INTEGER NOT NULL,
    clock_to INTEGER NOT NULL, agent TEXT NOT NULL, call TEXT NOT NULL, time REAL NOT NULL
);
"""

#: The highest number of an update or of an edit in slices: both are counted together.
_LAST = """
SELECT coalesce(max(number), 0)
FROM (SELECT max(seq) AS number FROM updates UNION ALL SELECT max(edit) FROM pending)
"""

#: Seconds that another program, such as a backup, has to finish reading a journal.
_BUSY = 1.0

#: The first bytes of every SQLite database.
_MAGIC = b"SQLite format 3\0"

#: Errors that do not make a journal invalid: it is locked, the disk is full or fails.
_LEAVE = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
)


class Vanished(sqlite3.DatabaseError):
    """Somebody has deleted or replaced the file; what was committed is in no journal."""


class JournalFile:
    """A journal on disk, exclusively ours until it is closed.

    Args:
        said: Collects sentences about what had to be set aside.
        unsound: Why the existing file must be set aside, if that is already known.

    Raises:
        BlockingIOError: A running server holds it.
        OSError, sqlite3.Error: There is no journal at this path and none can be created.
    """

    def __init__(self, path: Path, said: list[str], unsound: str | None = None) -> None:
        self.path = path
        self._lock = lock(path.with_suffix(".lock"))
        self._names = (str(path), f"{path}-wal")
        self._seen: list[tuple[int, int] | None]
        try:
            self.database, self.last = self._open(said, unsound)
        except BaseException:
            self._lock.close()
            raise
        try:
            self._seen = [_identity(self._names[0]), None]
        except OSError:  # it was deleted at once
            self.close()
            raise

    @property
    def size(self) -> int:
        """Bytes of the database and its log."""
        files = map(Path, self._names)
        return sum(file.stat().st_size for file in files if file.exists())

    def commit(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction.

        Raises:
            Vanished: They were run, but on a file that no longer exists.
            sqlite3.Error, UnicodeEncodeError: They were not run.
        """
        self.database.execute("BEGIN")
        try:
            for statement, parameters in statements:
                self.database.execute(statement, parameters)
            self.database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.database.execute("ROLLBACK")
            raise
        if not self.is_there():
            raise Vanished("it was deleted or replaced")

    def is_there(self) -> bool:
        """Whether the files at its path are still those that are open here."""
        for place, name in enumerate(self._names):
            try:
                found = _identity(name)
            except OSError:
                return False
            if self._seen[place] is None:  # the first commit creates the log
                self._seen[place] = found
            elif self._seen[place] != found:
                return False
        return True

    def is_lost(self, error: sqlite3.Error) -> bool:
        """Whether no later commit can succeed; otherwise the disk may just be full."""
        return not isinstance(error, sqlite3.OperationalError) or not self.is_there()

    def is_sound(self) -> bool:
        """Whether everything in it is readable."""
        try:
            return bool(self.database.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
        except sqlite3.Error:
            return False

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.database.close()
        self._lock.close()

    def _open(self, said: list[str], unsound: str | None) -> tuple[sqlite3.Connection, int]:
        """The database, and the number of its latest update or edit."""
        path = self.path
        if unsound is None:
            try:
                return _connect(path)
            except (OSError, sqlite3.Error) as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code in _LEAVE or not os.path.lexists(path):
                    raise
                unsound = cause(error)
        aside = set_aside(path)
        said.append(
            f"The journal of unsaved edits {path.name} cannot be used ({unsound}). It was set "
            f"aside as {aside.name}, and a new one was begun. If the server had crashed before, "
            "edits that were unsaved then are not in the files."
        )
        return _connect(path)


def _connect(path: Path) -> tuple[sqlite3.Connection, int]:
    if existed := os.path.lexists(path):
        _require_database(path)
    database = sqlite3.connect(path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
    try:
        path.chmod(0o600)  # it holds the text of people's documents
        # Exclusive locking lets the log work without shared memory, even in an NFS home.
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        _require_journal(database)
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("PRAGMA journal_mode = WAL")
        # The answer to an edit waits for the write, not for the disk: see `JournalStorage.sync`.
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("PRAGMA wal_autocheckpoint = 0")  # it would interrupt an edit
        database.executescript(_SCHEMA)
        with contextlib.suppress(sqlite3.Error):  # they only take time
            database.executescript(_DROPPED)
        for table in ("rooms", "notices"):  # read at every start, so they must be readable
            database.execute(f"SELECT * FROM {table}").fetchall()
        (last,) = database.execute(_LAST).fetchone()
    except BaseException:
        database.close()
        if not existed and path.stat().st_size == 0:  # a full disk still has room for a name
            path.unlink()
        raise
    return database, last


def _require_database(path: Path) -> None:
    """Refuse what SQLite should not touch: it deletes the log of what looks empty."""
    if not path.is_file():
        raise FileExistsError("it is not a file")
    with contextlib.suppress(PermissionError):  # somebody else's: what follows reports it
        path.chmod(0o600)  # one that was made read-only is still ours
    with path.open("rb") as file:
        begin = file.read(len(_MAGIC))
    log = path.with_name(f"{path.name}-wal")
    if begin != _MAGIC and (begin or (log.exists() and log.stat().st_size)):
        raise sqlite3.DatabaseError("it is not a database")


def _require_journal(database: sqlite3.Connection) -> None:
    """Refuse a file of another program, or of a later version of this one, before it changes."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    with contextlib.closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(_SCHEMA + _FORMER_SCHEMA)
        ours = _columns(empty)
    # A start that was killed may have created only some of the tables.
    if version != 0 or not _columns(database).items() <= ours.items():
        raise sqlite3.DatabaseError("it is the database of something else")


def _columns(database: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """The names of all columns, by table."""
    columns: dict[str, tuple[str, ...]] = {}
    query = (
        "SELECT master.name, info.name FROM sqlite_master AS master, "
        "pragma_table_info(master.name) AS info WHERE master.type IN ('table', 'view')"
    )
    for table, column in database.execute(query).fetchall():
        columns[table] = (*columns.get(table, ()), column)
    return columns


def _identity(name: str) -> tuple[int, int]:
    found = os.stat(name)  # noqa: PTH116 (twice for each edit)
    return found.st_dev, found.st_ino
