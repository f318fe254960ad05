"""The write-ahead journal: an acknowledged edit is here before its answer leaves.

Jupyter saves a second after the last change and lets the file win at a restart, so a crash
in between deletes what people typed. The journal keeps every update of every open room until
the collaboration store has it, and remembers which file it belongs to; `recovery` uses it.

One thread owns the SQLite database. One commit serves everybody who waits (group commit). A
commit is with the operating system, so it survives the death of the process; the same thread
brings it to the disk a moment later, so that a power cut costs that moment at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: one journal directory must then serve one server
    fcntl = None  # type: ignore[assignment]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS rooms (
    room TEXT PRIMARY KEY, path TEXT NOT NULL, base TEXT, base_time REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS updates (
    seq INTEGER PRIMARY KEY, room TEXT NOT NULL, time REAL NOT NULL, yupdate BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS updates_by_room ON updates (room, seq);
CREATE TABLE IF NOT EXISTS attribution (
    document TEXT NOT NULL, client INTEGER NOT NULL, clock_from INTEGER NOT NULL,
    clock_to INTEGER NOT NULL, agent TEXT NOT NULL, call TEXT NOT NULL, time REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS attribution_by_document ON attribution (document, client, clock_from);
CREATE TABLE IF NOT EXISTS notices (
    room TEXT NOT NULL, path TEXT NOT NULL, time REAL NOT NULL, text TEXT NOT NULL
);
"""

#: Authorship older than this many rows is dropped, the oldest first.
_ATTRIBUTION_ROWS = 500_000

#: How long a commit may wait for the next one before both go to the disk, in seconds.
_SYNC_DELAY = 0.02

#: They go there after this many seconds at the latest, however busy the journal is.
_LONGEST_UNSYNCED = 0.5

Statement = tuple[str, Sequence[Any]]


class JournalError(Exception):
    """The journal could not be written; nothing that waits for it is durable."""


@dataclass(frozen=True, slots=True)
class UnsavedRoom:
    """A room whose file may be behind: what recovery starts from."""

    room: str
    path: str
    base: str | None
    base_time: float


class Journal:
    """Updates on their way to the store and the file, one journal for each Jupyter server.

    Everything but the constructor runs on the event loop's thread.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._statements: list[Statement] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: queue.SimpleQueue[tuple[list[Statement], list[asyncio.Future[None]]] | None]
        self._work = queue.SimpleQueue()
        self._writing = False
        self._synced = time.monotonic()
        self._thread: threading.Thread | None = None
        self._lock_file = _lock(path.with_suffix(".lock"))
        self._database = _connect(path)
        self._seq: int = self._database.execute(
            "SELECT coalesce(max(seq), 0) FROM updates"
        ).fetchone()[0]

    @property
    def size(self) -> int:
        """Bytes of the database and its log on disk."""
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    # -- writing ---------------------------------------------------------------------------

    def append(self, room: str, update: bytes) -> int:
        """Add an update; it is durable once a later `durable()` returns."""
        self._seq += 1
        self._add("INSERT INTO updates VALUES (?, ?, ?, ?)", (self._seq, room, time.time(), update))
        self._kick()
        return self._seq

    def mark(self, unsaved: UnsavedRoom) -> None:
        """Remember that a room has something its file may not have."""
        self._add(
            "INSERT INTO rooms VALUES (?, ?, ?, ?) ON CONFLICT (room) DO UPDATE SET "
            "path = excluded.path, base = excluded.base, base_time = excluded.base_time",
            (unsaved.room, unsaved.path, unsaved.base, unsaved.base_time),
        )
        self._kick()

    def trim(self, room: str, through: int) -> None:
        """Forget a room's updates that the store has."""
        self._add("DELETE FROM updates WHERE room = ? AND seq <= ?", (room, through))

    def replace(self, room: str, state: bytes) -> int:
        """Let one full state stand for all of a room's updates."""
        self._add("DELETE FROM updates WHERE room = ?", (room,))
        return self.append(room, state)

    def forget(self, room: str) -> None:
        """The room's file and store have everything."""
        self._add("DELETE FROM updates WHERE room = ?", (room,))
        self._add("DELETE FROM rooms WHERE room = ?", (room,))
        self._kick()

    def attribute(self, document: str, row: Sequence[Any]) -> None:
        """Keep who wrote a range of a document's characters."""
        self._add("INSERT INTO attribution VALUES (?, ?, ?, ?, ?, ?, ?)", (document, *row))

    async def durable(self) -> None:
        """Return when everything added so far is committed.

        Raises:
            JournalError: It could not be (a full disk, say).
        """
        if self._statements or self._writing:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._kick()
            await waiter

    async def close(self) -> None:
        """Write what is left and give the journal back."""
        with contextlib.suppress(JournalError):
            await self.durable()
        self._work.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._database.close()
        self._lock_file.close()

    def discard(self) -> None:
        """Give back a journal that holds nothing any more, or that the next start may retry."""
        self._database.close()
        self._lock_file.close()

    def _add(self, statement: str, parameters: Sequence[Any]) -> None:
        self._statements.append((statement, parameters))

    def _kick(self) -> None:
        if self._writing:
            return  # the next commit takes it along
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="mcp-journal", daemon=True)
            self._thread.start()
        self._writing = True
        statements, self._statements = self._statements, []
        waiters, self._waiters = self._waiters, []
        self._work.put((statements, waiters))

    def _done(
        self, work: tuple[list[Statement], list[asyncio.Future[None]]], error: Exception | None
    ) -> None:
        self._writing = False
        statements, waiters = work
        if error is not None:
            # Nothing may be missing in the middle: the next commit tries these again first,
            # and who came to wait meanwhile waits for them as well.
            self._statements = statements + self._statements
            waiters, self._waiters = waiters + self._waiters, []
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(JournalError(str(error)))
        if error is None and (self._statements or self._waiters):
            self._kick()

    def _run(self) -> None:
        assert self._loop is not None
        commits = 0
        while (work := self._next_work()) is not None:
            error: Exception | None = None
            try:
                self._commit(work[0])
                commits += 1
                if time.monotonic() - self._synced > _LONGEST_UNSYNCED:
                    self._sync()
                if commits % 1000 == 0:
                    self._tidy()
            except sqlite3.Error as caught:
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._done, work, error)

    def _next_work(self) -> tuple[list[Statement], list[asyncio.Future[None]]] | None:
        """Wait for work; with none for a moment, bring to the disk what was committed."""
        try:
            return self._work.get(timeout=_SYNC_DELAY)
        except queue.Empty:
            self._sync()
            return self._work.get()

    def _sync(self) -> None:
        self._synced = time.monotonic()
        with contextlib.suppress(OSError):  # the log is gone: so there is nothing to sync
            log = os.open(self.path.with_name(self.path.name + "-wal"), os.O_RDONLY)
            try:
                os.fsync(log)
            finally:
                os.close(log)

    def _commit(self, statements: Iterable[Statement]) -> None:
        self._database.execute("BEGIN")
        try:
            for statement, parameters in statements:
                self._database.execute(statement, parameters)
            self._database.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise

    def _tidy(self) -> None:
        self._database.execute(
            "DELETE FROM attribution WHERE rowid <= (SELECT max(rowid) FROM attribution) - ?",
            (_ATTRIBUTION_ROWS,),
        )
        self._database.execute("PRAGMA incremental_vacuum")

    # -- reading; only recovery and tests, before or without a writer -------------------------

    def unsaved(self) -> list[UnsavedRoom]:
        """The rooms that may be ahead of their files."""
        rows = self._database.execute("SELECT room, path, base, base_time FROM rooms")
        return [UnsavedRoom(*row) for row in rows]

    def updates(self, room: str) -> list[tuple[float, bytes]]:
        """A room's updates that the store may lack, oldest first."""
        query = "SELECT time, yupdate FROM updates WHERE room = ? ORDER BY seq"
        return self._database.execute(query, (room,)).fetchall()

    def recovered(self, room: str, notice: tuple[str, str] | None) -> None:
        """Recovery has dealt with a room; perhaps people should be told (path, text)."""
        statements: list[Statement] = [
            ("DELETE FROM updates WHERE room = ?", (room,)),
            ("DELETE FROM rooms WHERE room = ?", (room,)),
        ]
        if notice is not None:
            path, text = notice
            statements.append(
                ("INSERT INTO notices VALUES (?, ?, ?, ?)", (room, path, time.time(), text))
            )
        self._commit(statements)

    def keep_aside(self, room: str) -> Path:
        """Move a room that cannot be recovered out of the way, into a journal of its own."""
        aside = self.path.with_name(f"unrecovered-{time.strftime('%Y%m%d-%H%M%S')}.db")
        target = sqlite3.connect(aside)
        aside.chmod(0o600)
        self._database.backup(target)
        target.close()
        self.recovered(room, None)
        return aside

    def notices(self) -> dict[str, list[str]]:
        """What recovery had to say, by room, newest last."""
        found: dict[str, list[str]] = {}
        rows = self._database.execute("SELECT room, text FROM notices ORDER BY rowid")
        for room, text in rows:
            found.setdefault(room, []).append(text)
        return found

    def forget_notices(self, room: str) -> None:
        """The notices of a room have been said."""
        self._add("DELETE FROM notices WHERE room = ?", (room,))
        self._kick()

    def attributions(self, document: str) -> list[tuple[Any, ...]]:
        """The authorship of a document, oldest first."""
        query = "SELECT client, clock_from, clock_to, agent, call, time FROM attribution"
        query += " WHERE document = ? ORDER BY rowid"
        return self._database.execute(query, (document,)).fetchall()


def open_journals(directory: Path) -> tuple[Journal, list[Journal]]:
    """The journal to write, and those that crashed servers left; each is locked by us.

    Several servers may share a root directory: a journal that another one holds is not ours.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    held: list[Journal] = []
    number = 0
    while True:
        path = directory / f"journal-{number}.db"
        exists = path.exists()
        if held and not exists:
            return held[0], held
        with contextlib.suppress(BlockingIOError):  # a living server writes it
            held.append(Journal(path))
        number += 1


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    path.chmod(0o600)  # it holds the text of people's documents
    # Exclusive locking lets the log work without shared memory, so also in an NFS home.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    # The answer to an edit waits for the write and not for the disk: see `_sync`.
    database.execute("PRAGMA synchronous = NORMAL")
    database.executescript(_SCHEMA)
    return database


def _lock(path: Path) -> Any:
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise BlockingIOError(f"{path} is held by another process") from error
    return file
