"""Where a journal is stored: a file that may be lost and replaced while the server runs.

A file that is deleted or breaks is replaced by a new one. Where there can be none, `weakness` says
why, and a later edit tries again. What went wrong is kept in `events`, for agents and `doctor`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from .journal_file import JournalFile, Statement, cause

_log = logging.getLogger(__name__)

#: Authorship older than this many rows is dropped, the oldest first.
_ATTRIBUTION_ROWS = 500_000

#: Bytes of SQLite's log at which it is put into the database.
_LARGEST_LOG = 4_000_000

#: Seconds until a journal is tried again where there could be none.
_RETRY = 30.0

#: What went wrong is reported this many times since the start.
_EVENTS = 20

#: Opens the journal at a path; takes sentences for people, and why what is there is unsound.
_OpenFile = Callable[[Path, list[str], str | None], JournalFile]

#: Journals of one root directory that are looked for: one for each server that runs there.
MOST = 1_000


class JournalStorage:
    """The file of one journal, or the reason why there is none.

    Everything but `commit`, `sync` and `close` runs on the event loop's thread.

    Args:
        missing: Why there can be no file, if there can be none.

    Raises:
        BlockingIOError: A living server writes it.
        OSError, sqlite3.Error: There is no journal at this path and none can be made.
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
        self._lock = threading.Lock()  # held by whoever uses the file
        self._closed = False
        self._on_trial = False  # a renewed file that has not taken a commit yet
        self._retry_at = 0.0
        if missing is None:
            # On Windows nobody is kept off: one journal directory must then serve one server.
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
        """Whether everything in it can be read."""
        return self._file is not None and self._file.is_sound()

    def report(self, event: str) -> None:
        """Log what went wrong, and keep it for agents."""
        _log.warning("%s (%s)", event, self.path.parent)
        if len(self.events) < _EVENTS:  # whoever deletes it again and again is told often enough
            self.events.append(event)

    def close(self) -> None:
        """Close the file; one that is being opened in a thread is closed there."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._close_file()
            finally:
                self._lock.release()

    # -- writing -----------------------------------------------------------------------------

    def commit(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction, when nobody else uses the file any more.

        Raises:
            sqlite3.Error: They were not run, or on a file that is no longer there.
        """
        with self._lock:
            self._commit(statements)

    def commit_now(self, statements: Iterable[Statement]) -> bool:
        """The same, unless another thread uses the file now; returns whether they were run."""
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
        """Bring to the disk what was committed, and keep the files small; to be called in a thread.

        Raises:
            OSError: The disk fails.
        """
        try:
            log = os.open(self.path.with_name(self.path.name + "-wal"), os.O_RDONLY)
        except OSError:
            return  # nothing has been written, or it is gone, which the next commit notices
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
        """Put the log into the database, and drop what is too old."""
        self.database.execute(
            "DELETE FROM attribution WHERE rowid <= (SELECT max(rowid) FROM attribution) - ?",
            (_ATTRIBUTION_ROWS,),
        )
        self.database.execute("PRAGMA incremental_vacuum")
        self.database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # -- a new file for a lost one -----------------------------------------------------------

    def is_lost(self, error: Exception) -> bool:
        """Whether nothing can be committed to this file any more, after an error."""
        return (
            isinstance(error, sqlite3.Error)
            and self._file is not None
            and self._file.is_lost(error)
        )

    def should_retry(self) -> bool:
        """Whether it is time to try again where there could be no journal; True once each time."""
        if time.monotonic() <= self._retry_at:
            return False
        self._retry_at = time.monotonic() + _RETRY
        return True

    async def renew(self, error: Exception | None) -> None:
        """Go on with a new file.

        Args:
            error: Why the file is lost; None where there was none.

        Raises:
            OSError, sqlite3.Error: None can be made, or a new one did not help.
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
        """Go on with a new file at a start: recovery has read this one as far as it can be read."""
        try:
            self._take(self._reopen(unsound))
        except (OSError, sqlite3.Error) as error:
            self.release()
            self.give_up(cause(error))

    def release(self) -> None:
        """Close the file. It may have to wait for a thread that uses it."""
        with self._lock:
            self._close_file()

    def give_up(self, why: str) -> None:
        """Go on without a file."""
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
    """A journal at a path, or beside it at a path where nothing is.

    Raises:
        OSError, sqlite3.Error: None can be made.
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
