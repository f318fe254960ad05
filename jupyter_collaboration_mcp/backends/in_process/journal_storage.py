"""Where a journal is stored: a file that may be lost and replaced while the server runs.

A deleted or broken file is replaced by a new one. Where none can be created, `weakness` gives the
reason, and a later edit tries again. Problems are kept in `events`, for agents and `doctor`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ..disk.aside import cause
from ..protocols.steps import StepLimits
from .journal_file import JournalFile, Statement
from .steps_table import trim

_log = logging.getLogger(__name__)

#: The most credits that are kept until the history takes them; the oldest are dropped first.
_CREDITS = 100_000

#: Bytes of SQLite's log at which it is merged into the database.
_LARGEST_LOG = 4_000_000

#: Seconds until another attempt to create a journal.
_RETRY = 30.0

#: The most problems that are reported since the start.
_EVENTS = 20

#: Opens the journal at a path; takes a list for sentences, and why the existing file is unsound.
_OpenFile = Callable[[Path, list[str], str | None], JournalFile]

#: The most journals of one root directory: there is one for each server that runs there.
MOST = 1_000


class JournalStorage:
    """The file of one journal, or the reason why there is none.

    Everything but `commit`, `read`, `sync` and `close` runs on the event loop's thread.

    Args:
        missing: Why there can be no file, if that is known.

    Raises:
        BlockingIOError: A running server is writing it.
        OSError, sqlite3.Error: There is no journal at this path and none can be created.
    """

    def __init__(self, path: Path, missing: str | None = None) -> None:
        self.path = path
        self.events: list[str] = []
        """What went wrong with it since the start, in sentences."""
        self.weakness: str | None = None
        """Why there is no journal; None as long as there is one."""
        self.last = 0
        """The number of the latest update."""
        self._file: JournalFile | None = None
        self._lock = threading.Lock()  # held while the file is in use
        self._closed = False
        self._on_trial = False  # whether a renewed file has not yet accepted a commit
        self._retry_at = 0.0
        if missing is None:
            # Windows has no lock: there, one journal directory must serve only one server.
            self._take(self._open(JournalFile, None))
        else:
            self.give_up(missing)

    @property
    def size(self) -> int:
        """Bytes of the database and its log on disk."""
        return 0 if self._file is None else self._file.size

    @property
    def database(self) -> sqlite3.Connection:
        assert self._file is not None
        return self._file.database

    @property
    def is_sound(self) -> bool:
        """Whether everything in it is readable."""
        return self._file is not None and self._file.is_sound()

    def report(self, event: str) -> None:
        """Log a problem, and keep it for agents."""
        _log.warning("%s (%s)", event, self.path.parent)
        if len(self.events) < _EVENTS:  # repeated deletions need not be reported forever
            self.events.append(event)

    def close(self) -> None:
        """Close the file; one that a thread is opening is closed there."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._close_file()
            finally:
                self._lock.release()

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """What was committed, once nobody else uses the file; nothing if there is no file.

        Raises:
            sqlite3.Error: It cannot be read.
        """
        with self._lock:
            if self._file is None:
                return []
            return self._file.database.execute(query, parameters).fetchall()

    # -- writing -----------------------------------------------------------------------------

    def commit(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction, once nobody else uses the file.

        Raises:
            sqlite3.Error: They were not run, or on a file that no longer exists.
        """
        with self._lock:
            self._commit(statements)

    def commit_now(self, statements: Iterable[Statement]) -> bool:
        """The same, unless another thread is using the file; returns whether they were run."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._commit(statements)
        finally:
            self._lock.release()
        return True

    def _commit(self, statements: Iterable[Statement]) -> None:
        assert self._file is not None
        self._file.commit(statements)
        self._on_trial = False

    def sync(self) -> None:
        """Sync commits to the disk, and keep the files small; call it in a thread.

        Raises:
            OSError: The disk fails.
        """
        try:
            log = os.open(self.path.with_name(self.path.name + "-wal"), os.O_RDONLY)
        except OSError:
            return  # nothing was written, or the file is gone, which the next commit notices
        try:
            os.fsync(log)
            size = os.fstat(log).st_size
        finally:
            os.close(log)
        if size > _LARGEST_LOG:
            with self._lock, contextlib.suppress(sqlite3.Error):
                if self._file is not None:
                    self.tidy()

    def tidy(self) -> None:
        """Merge the log into the database, and drop what is too old."""
        self.database.execute(
            "DELETE FROM credits WHERE rowid <= (SELECT max(rowid) FROM credits) - ?",
            (_CREDITS,),
        )
        trim(self.database, StepLimits())
        self.database.execute("PRAGMA incremental_vacuum")
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # -- a new file for a lost one -----------------------------------------------------------

    def is_lost(self, error: Exception) -> bool:
        """Whether an error means that this file accepts no more commits."""
        return (
            isinstance(error, sqlite3.Error)
            and self._file is not None
            and self._file.is_lost(error)
        )

    def should_retry(self) -> bool:
        """Whether it is time to retry creating a journal; True once each time."""
        if time.monotonic() <= self._retry_at:
            return False
        self._retry_at = time.monotonic() + _RETRY
        return True

    async def renew(self, error: Exception | None) -> None:
        """Continue with a new file.

        Args:
            error: Why the file is lost; None if there was none.

        Raises:
            OSError, sqlite3.Error: None can be created, or a new one did not help.
        """
        if error is not None and self._on_trial:
            raise error
        vanished = error is not None and not (self._file and self._file.is_there())
        unsound = None if error is None or vanished else str(error)
        self._take(await asyncio.to_thread(self._reopen, unsound))
        self._on_trial = True
        if vanished:
            self.report(
                "The journal of unsaved edits was deleted or replaced while the server ran. A "
                "new one was begun with everything that is unsaved in open documents."
            )

    def set_aside(self, unsound: str) -> None:
        """Continue with a new file at a start, after recovery has read what is readable."""
        try:
            self._take(self._reopen(unsound))
        except (OSError, sqlite3.Error) as error:
            self.release()
            self.give_up(cause(error))

    def release(self) -> None:
        """Close the file. This may wait for a thread that uses it."""
        with self._lock:
            self._close_file()

    def give_up(self, why: str) -> None:
        """Continue without a file."""
        if self.weakness is None:
            self.report(
                f"No journal of unsaved edits can be kept ({why}): a crash of the server loses "
                "what is not saved yet."
            )
        self.weakness = why
        self._retry_at = time.monotonic() + _RETRY

    def _reopen(self, unsound: str | None) -> JournalFile:
        """Close the file and open another one; in a thread, or before the loop runs."""
        try:
            with self._lock:
                self._close_file()
                self._file = self._open(_any_file, unsound)
                return self._file
        finally:
            if self._closed:
                self.close()

    def _open(self, open_file: _OpenFile, unsound: str | None) -> JournalFile:
        said: list[str] = []
        try:
            return open_file(self.path, said, unsound)
        finally:
            for sentence in said:
                self.report(sentence)

    def _take(self, file: JournalFile) -> None:
        if self.weakness is not None:
            self.report("A journal of unsaved edits is kept again.")
        self._file, self.path, self.weakness = file, file.path, None
        self.last = max(self.last, file.last)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None


def _any_file(path: Path, said: list[str], unsound: str | None) -> JournalFile:
    """Open a journal at a path, or beside it at a free path.

    Raises:
        OSError, sqlite3.Error: None can be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        return JournalFile(path, said, unsound)
    except (OSError, sqlite3.Error):
        if not os.path.lexists(path):
            raise
    for number in range(MOST):
        other = path.with_name(f"journal-{number}.db")
        if not os.path.lexists(other):
            with contextlib.suppress(BlockingIOError):
                return JournalFile(other, said)
    raise FileExistsError("all names are taken")
