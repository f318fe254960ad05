"""The write-ahead journal: an acknowledged edit is here before its answer leaves.

Jupyter saves a second after the last change and lets the file win at a restart, so a crash
in between deletes what people typed. The journal keeps every update of every open room until
the collaboration store has it, and remembers which file it belongs to; `recovery` uses it.

A commit is with the operating system when it is done, so it survives the death of the process; a
thread brings it to the disk a moment later, so that a power cut costs that moment at most. Large
commits, and all of them on a slow disk, are made by the thread, one for everybody who waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .locks import lock

_log = logging.getLogger(__name__)

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

#: What nobody waits for is committed after this many seconds.
_FLUSH_DELAY = 0.005

#: Bytes that the event loop may be asked to write by itself.
_LARGEST_QUICK = 100_000

#: A commit that took this long (seconds) shows a slow disk: the thread takes over for a while.
_SLOW = 0.005
_SLOW_FOR = 30.0

#: How long after a commit it is brought to the disk, in seconds.
_SYNC_DELAY = 0.02

#: Bytes of SQLite's log at which it is put into the database.
_LARGEST_LOG = 4_000_000

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
        self._in_flight: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: queue.SimpleQueue[tuple[list[Statement], list[asyncio.Future[None]]] | None]
        self._work = queue.SimpleQueue()
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False  # the thread is about to commit or does
        self._connection = threading.Lock()
        self._slow_until = 0.0
        self._unsynced = False
        self._thread: threading.Thread | None = None
        # On Windows nobody is kept off: one journal directory must then serve one server.
        self._lock_file = lock(path.with_suffix(".lock"))
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
        row = (self._seq, room, time.time(), update)
        self._add("INSERT INTO updates VALUES (?, ?, ?, ?)", row, len(update))
        return self._seq

    def mark(self, unsaved: UnsavedRoom) -> None:
        """Remember that a room has something its file may not have."""
        self._add(
            "INSERT INTO rooms VALUES (?, ?, ?, ?) ON CONFLICT (room) DO UPDATE SET "
            "path = excluded.path, base = excluded.base, base_time = excluded.base_time",
            (unsaved.room, unsaved.path, unsaved.base, unsaved.base_time),
        )

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

    def attribute(self, document: str, row: Sequence[Any]) -> None:
        """Keep who wrote a range of a document's characters."""
        self._add("INSERT INTO attribution VALUES (?, ?, ?, ?, ?, ?, ?)", (document, *row))

    async def durable(self) -> None:
        """Return when everything added so far is committed.

        Raises:
            JournalError: It could not be (a full disk, say).
        """
        if not self._writing and self._statements:
            self._flush()
        if self._statements or self._writing:
            waiter = asyncio.get_running_loop().create_future()
            # With nothing new, the commit that is under way is the one to wait for.
            (self._waiters if self._statements else self._in_flight).append(waiter)
            await waiter

    async def close(self) -> None:
        """Write what is left and give the journal back."""
        with contextlib.suppress(JournalError):
            await self.durable()
        self._stop_timer()
        self._work.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self._database.close()
        self._lock_file.close()

    def discard(self) -> None:
        """Give back a journal that holds nothing any more, or that the next start may retry."""
        self._database.close()
        self._lock_file.close()

    def _add(self, statement: str, parameters: Sequence[Any], size: int = 0) -> None:
        self._statements.append((statement, parameters))
        self._size += size
        if self._timer is None and not self._writing:
            # Nobody may ask: people's edits are kept as well.
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_FLUSH_DELAY, self._flush_unasked)

    def _flush_unasked(self) -> None:
        self._timer = None
        if self._statements and not self._writing:
            try:
                self._flush()
            except JournalError:
                _log.exception("Unsaved edits could not be kept")

    def _flush(self) -> None:
        """Commit here if that is quick, else let the thread do it.

        A small commit takes 0.05 ms and never waits for the disk. In the thread it takes as long,
        but its turn comes, and is noticed, a millisecond later when the loop is busy.
        """
        self._stop_timer()
        began = time.monotonic()
        if (
            self._size > _LARGEST_QUICK
            or began < self._slow_until
            or not self._connection.acquire(blocking=False)
        ):
            self._hand_over()
            return
        statements, self._statements, self._size = self._statements, [], 0
        try:
            self._commit(statements)
        except sqlite3.Error as error:
            self._statements = statements + self._statements
            raise JournalError(str(error)) from error
        finally:
            self._connection.release()
        ended = time.monotonic()
        if ended - began > _SLOW:
            self._slow_until = ended + _SLOW_FOR
        if not self._unsynced:
            self._unsynced = True
            self._start_thread()
            self._work.put(([], []))

    def _hand_over(self) -> None:
        self._start_thread()
        self._writing = True
        statements, self._statements, self._size = self._statements, [], 0
        self._in_flight, self._waiters = self._waiters, []
        self._work.put((statements, self._in_flight))

    def _start_thread(self) -> None:
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="mcp-journal", daemon=True)
            self._thread.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

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
            self._hand_over()

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        assert self._loop is not None
        while (work := self._work.get()) is not None:
            if not work[0] and not work[1]:  # something was committed on the loop
                time.sleep(_SYNC_DELAY)
                self._unsynced = False
                self._sync()
                continue
            error: Exception | None = None
            try:
                with self._connection:
                    self._commit(work[0])
            except sqlite3.Error as caught:
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._done, work, error)
            self._sync()

    def _sync(self) -> None:
        """Bring to the disk what was committed, and keep the files small."""
        try:
            log = os.open(self.path.with_name(self.path.name + "-wal"), os.O_RDONLY)
        except FileNotFoundError:
            return  # nothing has been written
        try:
            os.fsync(log)
            size = os.fstat(log).st_size
        except OSError:
            _log.exception("Unsaved edits could not be brought to the disk")
            return
        finally:
            os.close(log)
        if size > _LARGEST_LOG:
            with self._connection, contextlib.suppress(sqlite3.Error):
                self._tidy()

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
        self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

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
        # Named after the file's id too: several rooms may go the same way in one second.
        stamp, file_id = time.strftime("%Y%m%d-%H%M%S"), room.rpartition(":")[2]
        aside = self.path.with_name(f"unrecovered-{stamp}-{file_id}.db")
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
    database.execute("PRAGMA wal_autocheckpoint = 0")  # it would come in the middle of an edit
    database.executescript(_SCHEMA)
    return database
