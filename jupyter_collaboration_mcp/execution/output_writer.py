"""Writes the output of runs to their cells and side files, in batches instead of per message."""

from __future__ import annotations

import asyncio
from logging import Logger

from ..errors import CollaborationError
from ..owned_tasks import OwnedTasks
from .run import Run
from .side_files import SideFiles

#: Seconds between two changes of a cell that prints: at most 20 transactions a second.
_FLUSH = 0.05

#: Seconds, doubled each time, after which a failed write of a finished run is retried, and how
#: often. Before its end a run needs no retry: the end writes everything.
_RETRY, _ATTEMPTS = 0.25, 6

#: Not failed writes, but the end of the task or of the process.
ENDINGS = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)


class OutputWriter:
    """Brings the logs of runs to where they are shown and stored."""

    def __init__(self, side_files: SideFiles, log: Logger) -> None:
        self._side_files = side_files
        self._log = log
        self._writes: dict[Run, asyncio.TimerHandle | asyncio.Task[None]] = {}
        self._failures: dict[Run, int] = {}
        self._tasks = OwnedTasks()
        self._closed = False

    def write_soon(self, run: Run) -> None:
        """Show a run's new output, together with what follows in the next moment."""
        if run not in self._writes and run.log.changed and not self._closed:
            loop = asyncio.get_running_loop()
            # Long-running output is drawn less often: each change is stored forever.
            run.writes += 1
            delay = _FLUSH * min(10, 1 + run.writes // 200)
            if failures := self._failures.get(run):
                delay = _RETRY * 2**failures
            self._writes[run] = loop.call_later(delay, self._write_now, run)

    async def finish(self, run: Run) -> None:
        """Stop writing to the cell, so that the end has the last word; store what is too large."""
        write = self._writes.get(run)
        if isinstance(write, asyncio.Task):
            await asyncio.wait([write])
            write = self._writes.get(run)
        if isinstance(write, asyncio.TimerHandle):
            write.cancel()
            del self._writes[run]
        await self._keep_overflow(run)

    async def close(self) -> None:
        """Write nothing more."""
        self._closed = True
        for write in self._writes.values():
            if isinstance(write, asyncio.TimerHandle):
                write.cancel()
        await self._tasks.close()

    def _write_now(self, run: Run) -> None:
        task = self._tasks.start(self._write(run))
        self._writes[run] = task
        task.add_done_callback(lambda _: self._written(run))

    async def _write(self, run: Run) -> None:
        try:
            if run.target is None:
                run.log.changed = False
            elif not await run.target.write(run.log):
                run.target = None
            await self._keep_overflow(run)
        except CollaborationError as error:
            self._log.warning("Cannot show the output of %s: %s", run.id, error)
            self._fail(run)
        except BaseException as error:
            if isinstance(error, ENDINGS):
                raise
            self._log.exception("Cannot show the output of %s", run.id)
            self._fail(run)
        else:
            self._failures.pop(run, None)
        finally:
            run.tell()

    def _fail(self, run: Run) -> None:
        """Retry with the next output or, after the end of a run, by itself."""
        failures = self._failures[run] = self._failures.get(run, 0) + 1
        if not run.over or failures > _ATTEMPTS:
            del self._failures[run]
            run.log.changed = False
        else:
            run.log.changed = True

    def _written(self, run: Run) -> None:
        del self._writes[run]
        self.write_soon(run)

    async def _keep_overflow(self, run: Run) -> None:
        if overflow := run.log.overflow():
            try:
                await self._side_files.keep(run.room_id.file_id, run.id, overflow)
            except OSError as error:  # a full disk must not prevent the run from ending
                self._log.warning("Cannot keep the whole output of %s: %s", run.id, error)
