"""What survives of forks: jupyter-collaboration has them in memory only.

An SQLite database in WAL mode, beside the journal. A commit has reached the operating system when
it returns, so that it survives the death of the process. Several servers with the same root may use
the file at once: updates of a shared document can be applied in any order.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from pycrdt import merge_updates

from ...documents.members import Member
from ..disk.aside import set_aside
from ..protocols.forks import Contribution, Ending, Fork

_SCHEMA = """
CREATE TABLE IF NOT EXISTS forks (
    id TEXT PRIMARY KEY, info TEXT NOT NULL, ended TEXT, time REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS updates (
    seq INTEGER PRIMARY KEY, fork TEXT NOT NULL, base INTEGER NOT NULL, data BLOB NOT NULL,
    writer TEXT, time REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS updates_by_fork ON updates (fork, base);
"""

_log = logging.getLogger(__name__)

#: Seconds that another process has to finish what it writes: when the server starts or a thread
#: reads, and when the event loop commits.
_BUSY, _BUSY_LOOP = 2.0, 0.01

#: Ended forks that are remembered, so that an error can say how they ended.
_ENDED = 1_000

#: Updates of a fork, and of its base, after which they are merged.
_COMPACT, _COMPACT_BASE = 500, 200

#: The writer of what a fork has from its root.
ROOT = Member("", "its document")

#: Seconds of what one writer wrote that are merged: an earlier moment can no longer be restored.
_TOGETHER = 30.0

Row = list[Any]
"""The values of a row that is about to be written."""


class ForkStoreError(Exception):
    """The store could not be written."""


class ForkStoreBusy(ForkStoreError):
    """Another process is writing; a moment later it works."""


class ForkStore:
    """The forks of one server, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: list[tuple[str, Row]] = []
        self._database: sqlite3.Connection | None = None
        self._updates: dict[str, int] = {}  # since they were last merged, by fork
        self._base_updates: dict[str, int] = {}

    # -- reading -----------------------------------------------------------------------------

    def forks(self) -> list[Fork]:
        """The forks that there are, oldest first.

        Raises:
            ForkStoreError: The file cannot be used.
        """
        rows = self._read("SELECT id, info FROM forks WHERE ended IS NULL ORDER BY time")
        return [Fork.of_info(fork_id, json.loads(info)) for fork_id, info in rows]

    def ending(self, fork_id: str) -> str | None:
        """How a fork ended; None if it did not, or is forgotten."""
        rows = self._read("SELECT ended FROM forks WHERE id = ?", fork_id)
        return rows[0][0] if rows else None

    def updates(self, fork_id: str) -> list[Contribution]:
        """What a fork's document was made of, oldest first; the first is its base.

        Only what is committed. For any thread.
        """
        return [
            Contribution(data, _writer(writer), at)
            for data, writer, at in self._read_apart(
                "SELECT data, writer, time FROM updates WHERE fork = ? AND base < 2 ORDER BY seq",
                fork_id,
            )
        ]

    def base(self, fork_id: str) -> bytes | None:
        """The state of the root when it was forked, or last synchronized; for any thread."""
        rows = self._read_apart(
            "SELECT data FROM updates WHERE fork = ? AND base > 0 ORDER BY seq", fork_id
        )
        return merge_updates(*(data for (data,) in rows)) if rows else None

    def _read_apart(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read with a connection of its own, which only the calling thread uses."""
        try:
            if not self._path.exists():
                return []
            with contextlib.closing(sqlite3.connect(self._path, timeout=_BUSY)) as database:
                return database.execute(query, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise ForkStoreError(str(error)) from error

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._opened().execute(query, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            raise ForkStoreError(str(error)) from error

    # -- writing -----------------------------------------------------------------------------

    def add(self, fork: Fork, state: bytes) -> None:
        """Add a fork, whose document and base have a state."""
        now = time.time()
        self._later(
            "INSERT OR REPLACE INTO forks VALUES (?, ?, NULL, ?)",
            (fork.id, json.dumps(fork.info()), fork.created or now),
        )
        self._append(fork.id, 1, state, None)

    def change(self, fork: Fork) -> None:
        """Change what is known about a fork; `commit` makes it durable."""
        self._later("UPDATE forks SET info = ? WHERE id = ?", (json.dumps(fork.info()), fork.id))

    def append(self, fork_id: str, update: bytes, writer: Member | None) -> Row:
        """Add an update of a fork's document; `commit` makes it durable. Until then, `attribute`
        can tell who wrote it."""
        row = self._append(fork_id, 0, update, writer)
        count = self._updates[fork_id] = self._updates.get(fork_id, 0) + 1
        if count >= _COMPACT:
            with contextlib.suppress(ForkStoreError):  # the next time, then
                self._compact(fork_id)
        return row

    def attribute(self, row: Row, writer: Member) -> None:
        """Tell who wrote what was just appended."""
        row[3] = _said(writer)

    def append_base(self, fork_id: str, update: bytes) -> None:
        """Add an update of the root that the fork has got as well."""
        self._append(fork_id, 2, update, None)
        count = self._base_updates[fork_id] = self._base_updates.get(fork_id, 0) + 1
        if count >= _COMPACT_BASE:
            with contextlib.suppress(ForkStoreError):  # as above
                self._compact_base(fork_id)

    def rebase(self, fork_id: str, state: bytes) -> None:
        """Replace the base; what the document was made of stays."""
        self._later("UPDATE updates SET base = -1 WHERE fork = ? AND base = 1", (fork_id,))
        self._later("DELETE FROM updates WHERE fork = ? AND base = 2", (fork_id,))
        self._append(fork_id, 2, state, None)

    def end(self, fork_id: str, how: Ending) -> None:
        """Remove a fork; only how it ended is remembered."""
        self._later(
            "UPDATE forks SET ended = ?, time = ? WHERE id = ?", (how, time.time(), fork_id)
        )
        self._later("DELETE FROM updates WHERE fork = ?", (fork_id,))
        self._later(
            "DELETE FROM forks WHERE ended IS NOT NULL AND id NOT IN "
            "(SELECT id FROM forks WHERE ended IS NOT NULL ORDER BY time DESC LIMIT ?)",
            (_ENDED,),
        )

    def _append(self, fork_id: str, base: int, update: bytes, writer: Member | None) -> Row:
        return self._later(
            "INSERT INTO updates (fork, base, data, writer, time) VALUES (?, ?, ?, ?, ?)",
            (fork_id, base, update, _said(writer), time.time()),
        )

    def _compact(self, fork_id: str) -> None:
        """Merge what one writer wrote in one go: it stays known who wrote what, and about when."""
        self._updates[fork_id] = 0
        query = (
            "SELECT seq, data, writer, cast(time / ? AS INTEGER) FROM updates "
            "WHERE fork = ? AND base = 0 ORDER BY seq"
        )
        for _, group in groupby(self._read(query, _TOGETHER, fork_id), key=lambda row: row[2:]):
            self._merge([(seq, data) for seq, data, *_ in group])

    def _compact_base(self, fork_id: str) -> None:
        self._base_updates[fork_id] = 0
        query = "SELECT seq, data FROM updates WHERE fork = ? AND base = 2 ORDER BY seq"
        self._merge(self._read(query, fork_id))

    def _merge(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Replace several rows by the last of them, which gets all that they have."""
        if len(rows) > 1:
            merged, last = merge_updates(*(data for _, data in rows)), rows[-1][0]
            for seq, _ in rows[:-1]:
                self._later("DELETE FROM updates WHERE seq = ?", (seq,))
            self._later("UPDATE updates SET data = ? WHERE seq = ?", (merged, last))

    def _later(self, statement: str, values: Sequence[Any]) -> Row:
        row = list(values)
        self._waiting.append((statement, row))
        return row

    def commit(self) -> None:
        """Commit what was added.

        Raises:
            ForkStoreBusy: Another process is writing, for longer than the event loop may wait.
            ForkStoreError: It is not durable; the next commit tries again.
        """
        if not self._waiting:
            return
        try:
            database = self._opened()
            with database:
                for statement, values in self._waiting:
                    database.execute(statement, values)
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            raise (ForkStoreBusy if busy else ForkStoreError)(str(error)) from error
        except (sqlite3.Error, OSError) as error:
            raise ForkStoreError(str(error)) from error
        self._waiting.clear()

    def close(self) -> None:
        """Commit what can be committed, and close the file."""
        with contextlib.suppress(ForkStoreError, sqlite3.Error):
            if self._database is not None:  # nobody waits for the event loop any more
                self._database.execute(f"PRAGMA busy_timeout = {int(_BUSY * 1000)}")
            self.commit()
        if self._database is not None:
            self._database.close()
            self._database = None

    def _opened(self) -> sqlite3.Connection:
        if self._database is None:
            try:
                self._database = _open(self._path)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise  # locked, or the disk is full: the file itself is good
                aside = set_aside(self._path)
                _log.warning("The forks in %s cannot be read (%s); set aside", aside, error)
                self._database = _open(self._path)
        return self._database


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Before there is a log, which gets the same permissions: both have what people write.
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)
    database = sqlite3.connect(path, timeout=_BUSY)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA busy_timeout = {int(_BUSY_LOOP * 1000)}")
    except BaseException:
        database.close()
        raise
    return database


def _said(writer: Member | None) -> str | None:
    return None if writer is None else json.dumps(writer)


def _writer(said: str | None) -> Member | None:
    return None if said is None else Member(*json.loads(said))
