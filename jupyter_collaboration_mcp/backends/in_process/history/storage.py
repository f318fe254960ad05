"""`history.db`: the index of the history, which can be made again from the rows of the store.

Only the names of versions and the credits are found nowhere else. Everything here blocks, and runs
in the history's thread. Servers with the same root directory share the file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...disk.aside import cause, set_aside
from .credits import Credit, credit_values

_log = logging.getLogger(__name__)

#: Grows when the same rows would make another index than before.
FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, format INTEGER NOT NULL,
    first_row INTEGER NOT NULL, first_time REAL NOT NULL,
    last_row INTEGER NOT NULL, last_time REAL NOT NULL, days TEXT NOT NULL, used REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS versions (
    document INTEGER NOT NULL, first_row INTEGER NOT NULL, last_row INTEGER NOT NULL,
    id INTEGER NOT NULL, began REAL NOT NULL, ended REAL NOT NULL, source TEXT NOT NULL,
    member TEXT NOT NULL, name TEXT NOT NULL, calls TEXT NOT NULL, counts TEXT NOT NULL,
    kept TEXT, draft TEXT, PRIMARY KEY (document, first_row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    document INTEGER NOT NULL, cell TEXT NOT NULL, source TEXT NOT NULL, member TEXT NOT NULL,
    name TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (document, cell)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoints (
    document INTEGER NOT NULL, row INTEGER NOT NULL, size INTEGER NOT NULL, state BLOB NOT NULL,
    PRIMARY KEY (document, row)
);
CREATE TABLE IF NOT EXISTS names (
    room TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (room, version)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS kept (
    room TEXT NOT NULL, version INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (room, version)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS credits (
    seq INTEGER PRIMARY KEY, room TEXT NOT NULL, client INTEGER NOT NULL,
    clock_from INTEGER NOT NULL, clock_to INTEGER NOT NULL, deletion BLOB NOT NULL,
    source TEXT NOT NULL, member TEXT NOT NULL, name TEXT NOT NULL, call TEXT NOT NULL,
    time REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS credits_by_client ON credits (room, client, clock_from);
CREATE INDEX IF NOT EXISTS credits_by_deletion ON credits (room, deletion) WHERE deletion != x'';
"""

_CREDIT = "client, clock_from, clock_to, deletion, source, member, name, call, time"

#: Seconds that another process has to finish what it writes.
_BUSY = 5.0

#: The most credits that are kept; the oldest are dropped first.
_CREDITS = 500_000

#: Errors that do not make a file invalid: it is locked, or the disk is full, read-only or fails.
_LEAVE = frozenset(
    getattr(sqlite3, f"SQLITE_{name}")
    for name in ("BUSY", "LOCKED", "FULL", "IOERR", "CANTOPEN", "READONLY", "PERM", "NOMEM")
)


class HistoryStorage:
    """The database of the index; in memory where no file can be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lasting = False
        """Whether what is written here is still there after a restart."""
        self._database: sqlite3.Connection | None = None

    @property
    def database(self) -> sqlite3.Connection:
        if self._database is not None and self.lasting and not self.path.exists():
            self.close()  # somebody has deleted it
        if self._database is None:
            self._database = self._open()
        return self._database

    def close(self) -> None:
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None

    def renew(self, error: sqlite3.Error) -> bool:
        """Begin a new file for a broken one; returns whether that is worth another attempt."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return False
        self.close()
        return self._set_aside(error)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Several changes, all or nothing."""
        database = self.database
        database.execute("BEGIN IMMEDIATE")
        try:
            yield database
            database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    # -- credits -----------------------------------------------------------------------------

    def add_credits(self, new: Iterable[tuple[str, Credit]]) -> None:
        """Keep credits, each with its room; what is known is not added again."""
        with self.transaction() as database:
            for room, credit in new:
                if not self._extend(database, room, credit):
                    database.execute(
                        f"INSERT INTO credits (room, {_CREDIT}) VALUES ({', '.join('?' * 10)})",
                        (room, *credit_values(credit)),
                    )
            database.execute(
                "DELETE FROM credits WHERE seq <= (SELECT max(seq) FROM credits) - ?", (_CREDITS,)
            )

    def _extend(self, database: sqlite3.Connection, room: str, credit: Credit) -> bool:
        """Let the latest credit of a client reach further, if it is the same call again.

        A run writes its output in thousands of pieces.
        """
        if credit.deletion:
            known = self.of_deletion(room, credit.deletion)
            if known is None or known.source == "agent":  # who knows what it did itself
                return known is not None
            database.execute(
                "DELETE FROM credits WHERE room = ? AND deletion = ?", (room, credit.deletion)
            )
            return False
        latest = database.execute(
            f"SELECT seq, {_CREDIT} FROM credits WHERE room = ? AND client = ? "
            "ORDER BY clock_from DESC LIMIT 1",
            (room, credit.client),
        ).fetchone()
        if latest is None:
            return False
        seq, known = latest[0], Credit(*latest[1:])
        if (known.clock_from, known.clock_to) == (credit.clock_from, credit.clock_to):
            return known.member == credit.member
        continues = known.clock_to == credit.clock_from and known.call == credit.call == "run"
        if continues and known.member == credit.member:
            database.execute(
                "UPDATE credits SET clock_to = ? WHERE seq = ?", (credit.clock_to, seq)
            )
            return True
        return False

    def of_range(self, room: str, client: int, start: int, end: int) -> list[Credit]:
        """The credits of what a client wrote, the latest first."""
        query = (
            f"SELECT {_CREDIT} FROM credits WHERE room = ? AND client = ? AND clock_from < ? "
            "AND clock_to > ? ORDER BY seq DESC LIMIT 100"
        )
        return [Credit(*row) for row in self.database.execute(query, (room, client, end, start))]

    def of_deletion(self, room: str, key: bytes) -> Credit | None:
        """The credit of a deletion."""
        query = f"SELECT {_CREDIT} FROM credits WHERE room = ? AND deletion = ? AND deletion != x''"
        row = self.database.execute(query, (room, key)).fetchone()
        return None if row is None else Credit(*row)

    # -- names -------------------------------------------------------------------------------

    def names(self, room: str) -> dict[int, str]:
        """The names of the versions of a document."""
        query = "SELECT version, name FROM names WHERE room = ?"
        return dict(self.database.execute(query, (room,)).fetchall())

    def set_name(self, room: str, version: int, name: str) -> None:
        """Name a version, or remove its name if it is empty."""
        with self.transaction() as database:
            database.execute("DELETE FROM names WHERE room = ? AND version = ?", (room, version))
            if name:
                database.execute("INSERT INTO names VALUES (?, ?, ?)", (room, version, name))

    def kept(self, room: str) -> dict[int, str]:
        """The versions that retention has kept, and why."""
        query = "SELECT version, reason FROM kept WHERE room = ?"
        return dict(self.database.execute(query, (room,)).fetchall())

    def keep(self, room: str, versions: Iterable[tuple[int, str]]) -> None:
        """Remember which versions are kept: their rows no longer say why."""
        with self.transaction() as database:
            for version, reason in versions:
                database.execute(
                    "INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", (room, version, reason)
                )

    # -- the file ----------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        for _ in range(2):
            try:
                database = self._connect(self.path)
            except (OSError, sqlite3.Error) as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                unsound = isinstance(error, sqlite3.Error) and code not in _LEAVE
                if not (unsound and self._set_aside(error)):
                    self._warn(error)
                    break
            else:
                self.lasting = True
                return database
        self.lasting = False
        return _prepared(sqlite3.connect(":memory:", isolation_level=None))

    def _connect(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # It has the text of people's documents: nobody else may read it.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        database = sqlite3.connect(path, timeout=_BUSY, isolation_level=None)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA journal_size_limit = 4000000")
            return _prepared(database)
        except BaseException:
            database.close()
            raise

    def _set_aside(self, error: Exception) -> bool:
        try:
            aside = set_aside(self.path)
        except OSError:
            return False
        _log.warning(
            "The history %s cannot be used (%s). It was set aside as %s, and a new one is made "
            "from the stored documents; names of versions and agents are in the old one only.",
            self.path,
            cause(error),
            aside.name,
        )
        return True

    def _warn(self, error: Exception) -> None:
        _log.warning(
            "The history is not kept on disk for now: %s cannot be used (%s).",
            self.path,
            cause(error),
        )


def _prepared(database: sqlite3.Connection) -> sqlite3.Connection:
    database.executescript(_SCHEMA)
    for table, columns in _columns().items():  # another program's file has others
        database.execute(f"SELECT {columns} FROM {table} LIMIT 1").fetchall()
    return database


def _columns() -> dict[str, str]:
    return {
        "documents": "id, key, format, first_row, first_time, last_row, last_time, days, used",
        "versions": "document, first_row, last_row, id, source, counts, kept, draft",
        "kept": "room, version, reason",
        "credits": f"seq, room, {_CREDIT}",
    }


def text_of(value: Any) -> str:
    """A text that SQLite can hold: names may contain half a surrogate pair."""
    return str(value).encode(errors="replace").decode()
