"""The write-ahead journal: an acknowledged edit is here before its answer leaves.

Jupyter saves a second after the last change and lets the file win at a restart, so a crash
in between deletes what people typed. The journal keeps every update of every open room until
the collaboration store has it, and remembers which file it belongs to; `recovery` uses it.

A commit is with the operating system when it is done, so it survives the death of the process; a
thread brings it to the disk a moment later, so that a power cut costs that moment at most. Large
commits, and all of them on a slow disk, are made by the thread, one for everybody who waits.

A journal that is deleted or breaks under a running server is replaced by a new one, into which the
open rooms write what they have. Where there can be none, edits are not protected until they are
saved; `weakness` says why, and an edit that comes later tries again.
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
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..protocols.room_ids import RoomId
from .journal_file import JournalFile, Statement, cause, set_aside

_log = logging.getLogger(__name__)

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

#: Seconds until a journal is tried again where there could be none.
_RETRY = 30.0

#: What went wrong is told this many times since the start.
_EVENTS = 20

#: Seconds that a disk which does not answer may hold up the end of the server.
_CLOSING = 5.0

#: Journals of one root directory that are looked for: one for each server that runs there.
_MOST = 1_000


class JournalError(Exception):
    """The journal could not be written; nothing that waits for it is durable."""


@dataclass(frozen=True, slots=True)
class UnsavedRoom:
    """A room whose file may be behind: what recovery starts from."""

    room: RoomId
    path: str
    base: str | None
    base_time: float


class Journal:
    """Updates on their way to the store and the file, one journal for each Jupyter server.

    Everything but the constructor runs on the event loop's thread.

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
        self.on_renewal: set[Callable[[], Awaitable[None]]] = set()
        """Called when a new file has taken the place of a lost one, to write what is unsaved."""
        self._statements: list[Statement] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._in_flight: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: queue.SimpleQueue[tuple[list[Statement], list[asyncio.Future[None]]] | None]
        self._work = queue.SimpleQueue()
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False  # the thread is about to commit or does, or the file is renewed
        self._connection = threading.Lock()
        self._slow_until = 0.0
        self._unsynced = False
        self._thread: threading.Thread | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._on_trial = False  # a renewed file that has not taken a commit yet
        self._retry_at = 0.0
        # On Windows nobody is kept off: one journal directory must then serve one server.
        self._file: JournalFile | None = None
        self._seq = 0
        if missing is None:
            self._take(self._opened(path))
        else:
            self._weaken(missing)

    @property
    def size(self) -> int:
        """Bytes of the database and its log on disk."""
        return 0 if self._file is None else self._file.size

    @property
    def _database(self) -> sqlite3.Connection:
        assert self._file is not None
        return self._file.database

    # -- writing ---------------------------------------------------------------------------

    def append(self, room: RoomId, update: bytes) -> int:
        """Add an update; it is durable once a later `durable()` returns."""
        self._seq += 1
        row = (self._seq, room, time.time(), update)
        self._add("INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?)", row, len(update))
        return self._seq

    def mark(self, unsaved: UnsavedRoom) -> None:
        """Remember that a room has something its file may not have."""
        self._add(
            "INSERT INTO rooms VALUES (?, ?, ?, ?) ON CONFLICT (room) DO UPDATE SET "
            "path = excluded.path, base = excluded.base, base_time = excluded.base_time",
            (unsaved.room, unsaved.path, unsaved.base, unsaved.base_time),
        )

    def trim(self, room: RoomId, through: int) -> None:
        """Forget a room's updates that the store has."""
        self._add("DELETE FROM updates WHERE room = ? AND seq <= ?", (room, through))

    def replace(self, room: RoomId, state: bytes) -> int:
        """Let one full state stand for all of a room's updates."""
        self._add("DELETE FROM updates WHERE room = ?", (room,))
        return self.append(room, state)

    def forget(self, room: RoomId) -> None:
        """The room's file and store have everything."""
        self._add("DELETE FROM updates WHERE room = ?", (room,))
        self._add("DELETE FROM rooms WHERE room = ?", (room,))

    def renaming(self, path: str, new_path: str) -> None:
        """A file or a folder is about to be renamed: a crash may come in between."""
        self._add("INSERT INTO renames VALUES (?, ?)", (path, new_path))

    def renamed(self, path: str, new_path: str) -> None:
        """It has been, and all that is to be known of it is here; or it could not be."""
        self._add("DELETE FROM renames WHERE path = ? AND new_path = ?", (path, new_path))

    def attribute(self, document: str, row: Sequence[Any]) -> None:
        """Keep who wrote a range of a document's characters."""
        self._add("INSERT INTO attribution VALUES (?, ?, ?, ?, ?, ?, ?)", (document, *row))

    async def durable(self) -> None:
        """Return when everything added so far is committed; at once if there is no journal.

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
        if self._renewal is not None:
            await asyncio.wait([self._renewal], timeout=_CLOSING)
        self._stop_timer()
        self._work.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)
        self.discard()

    def discard(self) -> None:
        """Give back a journal that holds nothing any more, or that the next start may retry."""
        if self._file is not None:
            self._file.close()

    def _add(self, statement: str, parameters: Sequence[Any], size: int = 0) -> None:
        if self.weakness is not None:
            if time.monotonic() > self._retry_at:
                self._retry_at = time.monotonic() + _RETRY
                self._renew_soon(None)
            return  # the rooms write all that they have when there is a file again
        self._statements.append((statement, [_storable(value) for value in parameters]))
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
        except Exception as error:
            self._statements = statements + self._statements
            if not self._renew_if_lost(error):
                raise JournalError(str(error)) from error
            return
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
            if self._renew_if_lost(error):
                self._waiters = self._in_flight = waiters
                return
        _release(waiters, error)
        if error is None and (self._statements or self._waiters):
            self._hand_over()

    # -- a new file for a lost one -----------------------------------------------------------

    def set_aside(self, unsound: str) -> None:
        """Go on with a new file at a start: what is in this one has been read as far as it can."""
        try:
            self._take(self._reopened(unsound))
        except (OSError, sqlite3.Error) as error:
            self._close_file()
            self._weaken(cause(error))

    @property
    def is_sound(self) -> bool:
        """Whether everything in it can be read."""
        return self._file is not None and self._file.is_sound()

    def _renew_if_lost(self, error: Exception) -> bool:
        """Make a new file if nothing can be committed to this one any more."""
        if not isinstance(error, sqlite3.Error):
            return False
        if self._file is None or not self._file.is_lost(error):
            return False
        self._writing = True
        self._renew_soon(error)
        return True

    def _renew_soon(self, error: sqlite3.Error | None) -> None:
        if self._renewal is None or self._renewal.done():
            # Who waits now waits for the first commit to the new file.
            self._in_flight = self._waiters
            self._renewal = asyncio.get_running_loop().create_task(self._renew(error))

    async def _renew(self, error: sqlite3.Error | None) -> None:
        """A new file, into which the rooms write all that is unsaved before anybody is answered."""
        try:
            if error is not None and self._on_trial:
                raise error  # a new file did not help
            vanished = error is not None and not (self._file and self._file.is_there())
            unsound = None if error is None or vanished else str(error)
            self._take(await asyncio.to_thread(self._reopened, unsound))
            self._on_trial = self._writing = True
            if vanished:
                self._report(
                    "The journal of unsaved edits was deleted or replaced while the server ran. A "
                    "new one was begun with everything that is unsaved in open documents."
                )
            for write in list(self.on_renewal):
                await write()
        except Exception as caught:  # who waits must not wait for ever
            await asyncio.to_thread(self._close_file)
            self._weaken(cause(caught))
        if self._statements:
            self._hand_over()
        else:
            self._writing = False
            _release(self._waiters, None)

    def _reopened(self, unsound: str | None) -> JournalFile:
        """A file to go on with; the one before is closed. In a thread, or before the loop runs."""
        with self._connection:
            if self._file is not None:
                self._file.close()
            return self._opened(self.path, unsound, renewed=True)

    def _opened(
        self, path: Path, unsound: str | None = None, *, renewed: bool = False
    ) -> JournalFile:
        said: list[str] = []
        try:
            return (_any_file if renewed else JournalFile)(path, said, unsound)
        finally:
            for sentence in said:
                self._report(sentence)

    def _take(self, file: JournalFile) -> None:
        if self.weakness is not None:
            self._report("A journal of unsaved edits is kept again.")
        self._file, self.path, self.weakness = file, file.path, None
        self._seq = max(self._seq, file.last)

    def _close_file(self) -> None:
        """Go on without a file. It may have to wait for the thread, which may be using it."""
        with self._connection:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _weaken(self, why: str) -> None:
        self._statements, self._size = [], 0
        if self.weakness is None:
            self._report(
                f"No journal of unsaved edits can be kept ({why}): a crash of the server loses "
                "what is not saved yet."
            )
        self.weakness = why
        self._retry_at = time.monotonic() + _RETRY

    def _report(self, event: str) -> None:
        _log.warning("%s (%s)", event, self.path.parent)
        if len(self.events) < _EVENTS:  # who deletes it again and again is told often enough
            self.events.append(event)

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        assert self._loop is not None
        while (work := self._work.get()) is not None:
            if not work[0] and not work[1]:  # something was committed on the loop
                time.sleep(_SYNC_DELAY)
                self._unsynced = False
                self._sync_if_possible()
                continue
            error: Exception | None = None
            try:
                with self._connection:
                    self._commit(work[0])
            except Exception as caught:  # without the thread, everybody would wait for ever
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._done, work, error)
            self._sync_if_possible()

    def _sync_if_possible(self) -> None:
        try:
            self._sync()
        except Exception:  # see `_run`
            _log.exception("Unsaved edits could not be brought to the disk")

    def _sync(self) -> None:
        """Bring to the disk what was committed, and keep the files small."""
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
            with self._connection, contextlib.suppress(sqlite3.Error):
                if self._file is not None:
                    self._tidy()

    def _commit(self, statements: Iterable[Statement]) -> None:
        assert self._file is not None
        self._file.commit(statements)
        self._on_trial = False

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
        return [UnsavedRoom(RoomId(room), *row) for room, *row in rows]

    def updates(self, room: RoomId) -> list[tuple[float, bytes]]:
        """A room's updates that the store may lack, oldest first."""
        query = "SELECT time, yupdate FROM updates WHERE room = ? ORDER BY seq"
        return self._database.execute(query, (room,)).fetchall()

    def renames(self) -> list[tuple[str, str]]:
        """What was about to be renamed, oldest first."""
        return self._database.execute(
            "SELECT path, new_path FROM renames ORDER BY rowid"
        ).fetchall()

    def follow(self, path: str, new_path: str) -> None:
        """Rooms of a file, or of all in a folder, have another path."""
        self._commit(
            [
                (
                    "UPDATE rooms SET path = ? || substr(path, ?) "
                    "WHERE path = ? OR substr(path, 1, ?) = ?",
                    (new_path, len(path) + 1, path, len(path) + 1, f"{path}/"),
                )
            ]
        )

    def forget_renames(self) -> None:
        self._commit([("DELETE FROM renames", ())])

    def recovered(self, room: RoomId, notice: tuple[str, str] | None) -> None:
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

    def keep_aside(self, room: RoomId) -> Path:
        """Move a room that cannot be recovered out of the way, into a journal of its own."""
        # Named after the file's id too: several rooms may go the same way in one second.
        stamp, file_id = time.strftime("%Y%m%d-%H%M%S"), room.file_id
        aside = self.path.with_name(f"unrecovered-{stamp}-{file_id}.db")
        with contextlib.closing(sqlite3.connect(aside)) as target:
            aside.chmod(0o600)
            self._database.backup(target)
        self.recovered(room, None)
        return aside

    def notices(self) -> dict[str, list[str]]:
        """What recovery had to say, by room, newest last."""
        found: dict[str, list[str]] = {}
        if self._file is None:
            return found
        rows = self._database.execute("SELECT room, text FROM notices ORDER BY rowid")
        for room, text in rows:
            found.setdefault(room, []).append(text)
        return found

    def notify(self, room: RoomId, path: str, text: str) -> None:
        """Have something said after a crash, unless it is forgotten before."""
        row = (room, path, time.time(), text)
        self._add("INSERT INTO notices VALUES (?, ?, ?, ?)", row)
        self._flush_unasked()  # nobody waits for it

    def forget_notices(self, room: RoomId) -> None:
        """The notices of a room have been said."""
        self._add("DELETE FROM notices WHERE room = ?", (room,))


def open_journals(directory: Path, above: Sequence[Path] = ()) -> tuple[Journal, list[Journal]]:
    """The journal to write, and those that crashed servers left; each is locked by us.

    Several servers may share a root directory: a journal that another one holds is not ours. The
    first one has no file, and the list is empty, where there can be no journal.

    Args:
        above: Directories above it that are ours too, outermost first.
    """
    held: list[Journal] = []
    said: list[str] = []
    missing = "all names are taken"
    try:
        for place in (*above, directory):
            if os.path.lexists(place) and not place.is_dir():
                aside = set_aside(place)
                said.append(f"{place.name}, where the journal belongs, is set aside: {aside.name}.")
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        missing, numbers = cause(error), range(0)
    else:
        numbers = range(_MOST)
    for number in numbers:
        path = directory / f"journal-{number}.db"
        exists = os.path.lexists(path)
        if held and not exists:
            break
        try:
            held.append(Journal(path))
        except BlockingIOError:  # a living server writes it
            continue
        except (OSError, sqlite3.Error) as error:
            if not exists:  # so nothing can be made here
                missing = cause(error)
                break
            said.append(
                f"The journal {path.name} cannot be used ({cause(error)}) and was left as it is. "
                "What is unsaved in it is not in the files; the next start tries again."
            )
    journal = held[0] if held else Journal(directory / "journal-0.db", missing)
    for other in held[1:]:
        journal.events += other.events
    for sentence in said:
        journal._report(sentence)
    return journal, held


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
    free = (path.with_name(f"journal-{number}.db") for number in range(_MOST))
    for other in free:
        if not os.path.lexists(other):
            with contextlib.suppress(BlockingIOError):
                return JournalFile(other, said)
    raise FileExistsError("all names are taken")


def _storable(value: Any) -> Any:
    """What SQLite can take: half of a surrogate pair, which UTF-8 cannot hold, becomes "?"."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _release(waiters: list[asyncio.Future[None]], error: Exception | None) -> None:
    """Let those go on who wait for a commit."""
    released, waiters[:] = list(waiters), []
    for waiter in released:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(JournalError(str(error)))
