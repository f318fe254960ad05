"""Commits to the journal in groups: one transaction for everybody who waits.

A finished commit is with the operating system, so it survives the death of the process; a thread
syncs it to the disk a moment later, so that a power cut costs at most that moment. The thread also
makes large commits, and all commits on a slow disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from enum import Enum

from .journal_file import Statement
from .journal_storage import JournalStorage

_log = logging.getLogger(__name__)

#: Statements that nobody waits for are committed after this many seconds.
_FLUSH_DELAY = 0.005

#: The most bytes that the event loop writes by itself.
_LARGEST_QUICK = 100_000

#: A commit that took this long (seconds) indicates a slow disk, or just a busy machine: the thread
#: takes over for a while, which is longer each time.
_SLOW = 0.005
_SLOW_FOR, _SLOW_FOR_AT_MOST = 0.25, 30.0

#: Quick commits in a row after which a disk no longer counts as slow.
_TRUSTED = 50

#: Seconds after a commit until it is synced to the disk.
_SYNC_DELAY = 0.02

_Waiters = list[asyncio.Future[None]]


class JournalError(Exception):
    """The journal could not be written; nothing that waits for it is durable."""


class _Order(Enum):
    """Orders to the thread, besides committing a group."""

    SYNC = "sync to the disk what the event loop has committed"
    STOP = "end"


class GroupCommit:
    """Collects statements and commits them in order; retries a failed group first.

    Everything but `_run` and what it calls runs on the event loop's thread.

    Args:
        on_lost: Called with the error when the file accepts no more commits. From then until
            `resume`, nothing is committed, and everybody waits.
    """

    def __init__(self, storage: JournalStorage, on_lost: Callable[[Exception], None]) -> None:
        self.slow_until = 0.0
        """Until then (`time.monotonic`) the thread makes all commits."""
        self._slow_for = _SLOW_FOR  # seconds, after the next slow commit
        self._quick = 0  # commits since the last slow one
        self._storage = storage
        self._on_lost = on_lost
        self._statements: list[Statement] = []
        self._size = 0  # bytes in them
        self._waiters: _Waiters = []  # for the next group
        self._in_flight: _Waiters = []  # for the group that the thread is committing
        self._held = False  # the thread is committing or about to, or the file is being renewed
        self._timer: asyncio.TimerHandle | None = None
        self._is_watched = False  # whether a timer will be set if nobody waits by then
        self._syncing: asyncio.TimerHandle | None = None
        self._orders: queue.SimpleQueue[tuple[list[Statement], _Waiters] | _Order]
        self._orders = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, statement: Statement, size: int) -> None:
        """Add a statement to commit, even if nobody waits for it: people's edits are kept, too.

        Args:
            size: Bytes that it writes; 0 if there are few.
        """
        self._statements.append(statement)
        self._size += size
        if not self._is_watched and self._timer is None and not self._held:
            self._is_watched = True
            asyncio.get_running_loop().call_soon(self._flush_later)

    def _flush_later(self) -> None:
        """Commit what nobody has waited for in the turn of the loop that has added it."""
        self._is_watched = False
        if self._statements and self._timer is None and not self._held:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_DELAY, self.flush)

    def drop(self) -> None:
        """Discard what is not committed yet."""
        self._statements, self._size = [], 0

    def flush(self) -> None:
        """Commit what there is, without a waiter."""
        self._stop_timer()
        if self._statements and not self._held:
            try:
                self._flush()
            except JournalError:
                _log.exception("Unsaved edits could not be kept")

    async def durable(self) -> None:
        """Wait until everything added so far is committed.

        Raises:
            JournalError: The commit failed, for example because the disk is full.
        """
        if self._statements and not self._held:
            self._flush()
        if self._statements or self._held:
            waiter = asyncio.get_running_loop().create_future()
            # With nothing new, wait for the commit that is under way.
            (self._waiters if self._statements else self._in_flight).append(waiter)
            await waiter

    async def close(self) -> None:
        """Stop the thread."""
        self._stop_timer()
        if self._syncing is not None:
            self._sync()
        self._orders.put(_Order.STOP)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    # -- while the file is renewed -----------------------------------------------------------

    def hold(self) -> None:
        """Commit nothing until `resume`; all waiters wait for the first commit after it."""
        self._held = True
        self._in_flight = self._waiters

    def resume(self) -> None:
        """Commit what was added in the meantime, and release all waiters."""
        if self._statements:
            self._hand_over()
        else:
            self._held = False
            _release(self._waiters, None)

    def _hold_if_lost(self, error: Exception) -> bool:
        if not self._storage.is_lost(error):
            return False
        self.hold()
        self._on_lost(error)
        return True

    # -- committing --------------------------------------------------------------------------

    def _flush(self) -> None:
        """Commit here if that is quick; otherwise let the thread do it.

        A small commit takes 0.05 ms and never waits for the disk. In the thread it takes as long,
        but starts, and is noticed, a millisecond later when the loop is busy.
        """
        self._stop_timer()
        began = time.monotonic()
        if self._size > _LARGEST_QUICK or began < self.slow_until:
            self._hand_over()
            return
        try:
            committed = self._storage.commit_now(self._statements)
        except Exception as error:
            if not self._hold_if_lost(error):
                raise JournalError(str(error)) from error
            return
        if not committed:  # the thread is using the file
            self._hand_over()
            return
        self.drop()
        self._judge(began, time.monotonic())
        if self._syncing is None:
            self.sync_soon()

    def _judge(self, began: float, ended: float) -> None:
        """Decide by the time of a commit who makes the next ones."""
        if ended - began > _SLOW:
            self.slow_until = ended + self._slow_for
            self._slow_for = min(2 * self._slow_for, _SLOW_FOR_AT_MOST)
            self._quick = 0
        else:
            self._quick += 1
            if self._quick == _TRUSTED:
                self._slow_for = _SLOW_FOR

    def sync_soon(self) -> None:
        """Let the thread sync to the disk what was committed here.

        The loop waits for that moment, not the thread: woken up now, it would take turns with the
        loop while that answers.
        """
        self._start_thread()
        self._syncing = asyncio.get_running_loop().call_later(_SYNC_DELAY, self._sync)

    def _sync(self) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
            self._syncing = None
        self._orders.put(_Order.SYNC)

    def _hand_over(self) -> None:
        self._start_thread()
        self._held = True
        statements = self._statements
        self.drop()
        self._in_flight, self._waiters = self._waiters, []
        self._orders.put((statements, self._in_flight))

    def _start_thread(self) -> None:
        if self._thread is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, name="mcp-journal", daemon=True)
            self._thread.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_committed(
        self, statements: list[Statement], waiters: _Waiters, error: Exception | None
    ) -> None:
        """Handle a group that the thread has committed, or failed to."""
        self._held = False
        if error is None:
            _release(waiters, None)
            if self._statements or self._waiters:
                self._hand_over()
            return
        # Nothing may be missing in the middle: the next commit retries these first, and those who
        # started to wait in the meantime wait for them as well.
        self._statements = statements + self._statements
        self._waiters = waiters + self._waiters
        if not self._hold_if_lost(error):
            _release(self._waiters, error)

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while (order := self._orders.get()) is not _Order.STOP:
            if not isinstance(order, _Order):
                self._commit_group(*order)
            try:
                self._storage.sync()
            except Exception:  # without the thread, everybody would wait forever
                _log.exception("Unsaved edits could not be synced to the disk")

    def _commit_group(self, statements: list[Statement], waiters: _Waiters) -> None:
        error: Exception | None = None
        try:
            self._storage.commit(statements)
        except Exception as caught:  # as above
            error = caught
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is waiting
            self._loop.call_soon_threadsafe(self._on_committed, statements, waiters, error)


def _release(waiters: _Waiters, error: Exception | None) -> None:
    """Release those who wait for a commit."""
    released, waiters[:] = list(waiters), []
    for waiter in released:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(JournalError(str(error)))
