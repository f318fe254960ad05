"""One kernel's queue: performs runs one after another, and passes each its messages.

It does not know where messages come from or where outputs go: a link delivers the messages, and a
run's target and the side files take the outputs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from logging import Logger
from typing import Any, NamedTuple

from ..backends.protocols.kernels import Fate, KernelLink, KernelMessage
from ..errors import CollaborationError, InterruptIgnored
from ..owned_tasks import OwnedTasks
from ..remedies import Intent
from .finished_runs import FinishedRuns
from .input_requests import input_missing, take_answer, take_input_request, wants_no_input
from .interrupts import Interrupts
from .kernel_messages import (
    log_output,
    restore_error,
    take_progress,
    take_reply,
    update_display,
)
from .outcome import (
    INTERRUPT_LIMIT,
    has_failed_predecessor,
    is_stopped,
    kernel_lost,
    kernel_lost_output,
    outcome,
    run_broken,
    was_interrupted,
    why_cancelled,
)
from .output_writer import ENDINGS, OutputWriter
from .questions import Questions
from .run import Run, RunState
from .side_files import SideFiles

#: Seconds between two checks that the kernel is alive.
_WATCH = 0.25

#: Seconds after which we stop waiting for the second half of "done": a message was lost.
_LOST_MESSAGE = 10.0

#: The same for the reply of interrupted code: kernels drop it if they are interrupted again while
#: they write the traceback.
_LOST_REPLY = 0.5

#: How often a request is resent that the kernel dropped because another one failed.
_AGAIN = 5

_BEFORE_IT = "a cell before it failed"


class ExecutorSettings(NamedTuple):
    """Settings for running code."""

    input_limit: float = 300.0
    """Seconds that a run waits for input."""


class Executor:
    """Runs everything that agents run in one kernel process.

    Args:
        link: Connects to the kernel.
        interrupt: Interrupts the kernel.
        side_files: Store what is too large for a cell.
        settings: Time limits from configuration.
        log: For what no run can report.
    """

    def __init__(
        self,
        link: KernelLink,
        interrupt: Callable[[], Awaitable[None]],
        side_files: SideFiles,
        settings: ExecutorSettings,
        log: Logger,
    ) -> None:
        self.link = link
        self.current: Run | None = None
        self.lost: Fate | None = None
        self._interrupts = Interrupts(interrupt)
        self._writer = OutputWriter(side_files, log)
        self._settings = settings
        self._log = log
        self._queue: deque[Run] = deque()
        self._requests: dict[str, Run] = {}
        self._interrupted: Run | None = None
        self._questions = Questions(link)
        self._finished = FinishedRuns(self._writer, link.forget)
        self._done = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._tasks = OwnedTasks()
        link.listen(self._receive)

    @property
    def waiting(self) -> Sequence[Run]:
        """Runs that have not started."""
        return tuple(self._queue)

    @property
    def under_way(self) -> Sequence[Run]:
        """Runs that are not over, in the order in which they run."""
        return self.waiting if self.current is None else (self.current, *self.waiting)

    @property
    def busy(self) -> bool:
        """Whether the kernel is working, whoever started it."""
        return self.current is not None or bool(self._queue) or self.link.busy_with is not None

    @property
    def busy_for_others(self) -> bool:
        """Whether it works on something that no agent started."""
        request = self.link.busy_with
        ours = (self._requests, self._questions, self._finished)
        return request is not None and not any(request in requests for requests in ours)

    def submit(self, runs: Iterable[Run]) -> None:
        """Queue runs in this order."""
        self._queue.extend(runs)
        if self._worker is None or self._worker.done():
            self._worker = self._tasks.start(self._work())
        if self._watcher is None or self._watcher.done():
            self._watcher = self._tasks.start(self._watch())

    async def interrupt(self) -> None:
        """Interrupt what is running, and wait until it ends.

        Raises:
            InterruptIgnored: The code continued.
        """
        run = self.current
        deadline = time.monotonic() + INTERRUPT_LIMIT
        # An interrupt before the code starts has no effect, so wait for that.
        while self.busy and self.link.busy_with is None and not is_stopped(run):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        if not self.busy or self.lost is not None or is_stopped(run):
            return
        request = self.link.busy_with
        await self._signal(request)
        deadline = time.monotonic() + INTERRUPT_LIMIT
        while request is not None and self.link.busy_with == request and self.lost is None:
            if time.monotonic() > deadline:
                raise InterruptIgnored(
                    "The kernel was interrupted, but the code goes on: it catches the "
                    "interruption, or is inside a library that does not look for it.",
                    Intent.RESTART_KERNEL,
                )
            await asyncio.sleep(0.01)

    async def cancel(self, unwanted: Callable[[Run], bool], reason: str) -> None:
        """Cancel runs that wait and interrupt the one that runs, if they are unwanted."""
        for run in [each for each in self._queue if unwanted(each)]:
            self._queue.remove(run)
            await self._skip(run, reason)
        if self.current is None or not unwanted(self.current):
            return
        if self.busy_for_others:  # the kernel has it, but still works for somebody else
            self.current.unwanted = True
        else:
            await self._interrupt_unwanted()

    async def _interrupt_unwanted(self) -> None:
        with contextlib.suppress(CollaborationError):  # it ignores that, or the kernel is gone
            await self.interrupt()

    def interrupted_since(self, moment: float) -> Run | None:
        """The run that an interrupt has ended since a moment, if any."""
        run = self._interrupted
        ended = None if run is None else run.ended
        return run if ended is not None and ended >= moment else None

    async def _signal(self, request: str | None) -> None:
        """Interrupt the kernel while it works on a request."""
        run = self.current if request is None else self._requests.get(request)
        if run is not None:
            run.interrupted = time.monotonic()  # before the kernel can answer
            self._interrupted = run
        try:
            await self._interrupts.interrupt(request)
        except Exception:
            if run is not None:
                run.interrupted = None
            raise

    def reply_to_input(self, run: Run, text: str) -> None:
        """Answer the input request of a run.

        Raises:
            NoInputWanted: It is not waiting for input.
            KernelLost: The kernel that asked no longer exists.
        """
        if run.state is not RunState.input_required or run is not self.current:
            raise wants_no_input(run)
        if self.lost is not None:
            raise kernel_lost(self.lost, run)
        self.link.reply_to_input(text)
        take_answer(run, text)
        self._writer.write_soon(run)

    async def ask(self, expressions: Mapping[str, str], timeout: float) -> dict[str, Any]:
        """Evaluate expressions silently: no output, no history, no count.

        Raises:
            KernelUnavailable: The kernel did not answer in time.
        """
        return await self._questions.ask(expressions, timeout)

    def lose(self, fate: Fate) -> None:
        """Fail everything that ran in a kernel process that no longer exists."""
        if self.lost is not None:
            return
        self.lost = fate
        self._questions.fail(kernel_lost(fate, None))
        self._finished.clear()
        self._done.set()
        # What was not sent must not reach the process that replaces it.
        self._start("close the link to", self.link.close)

    async def wait_ended(self) -> None:
        """Wait until none of its runs writes to a cell any more."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stop; the cells of unfinished runs keep their outputs, without the star."""
        left = [run for run in (self.current, *self._queue) if run is not None]
        await self._tasks.close()
        await self._interrupts.close()
        await self._writer.close()
        for run in left:
            await self._skip(run, "the server was stopped")

    # -- one after another -------------------------------------------------------------------

    async def _work(self) -> None:
        while self._queue:
            run = self.current = self._queue.popleft()
            try:
                if has_failed_predecessor(run):
                    await self._skip(run, _BEFORE_IT)
                else:
                    await self._perform(run)
            except CollaborationError as error:
                await self._give_up(run, error)
            except BaseException as error:
                if isinstance(error, ENDINGS):
                    raise
                # pycrdt's panics are not Exceptions, and one bad run must not end all others.
                self._log.exception("Cannot run %s to its end", run.id)
                await self._give_up(run, run_broken(error))
            finally:
                self.current = None
            if run.state is not RunState.completed and run.batch.stop_on_error:
                await self._skip_rest(run)

    async def _perform(self, run: Run) -> None:
        if self.lost is None and (fate := await self.link.fate()) != "alive":
            self.lose(fate)  # otherwise it would be sent to the process that replaces this one
        if self.lost is None and run.target is not None:
            await run.target.ready()
        if self.lost is not None:  # check again: nothing is awaited between this and the request
            raise kernel_lost(self.lost, None)
        self._done.clear()
        request = self._send(run)
        try:
            self._begin(run)  # while the kernel is already working
            for attempt in range(_AGAIN + 1):
                await self._done.wait()
                aborted = (run.reply or {}).get("status") == "aborted"
                if self.lost is not None or not aborted or attempt == _AGAIN:
                    break
                # Somebody else's cell failed, and the kernel dropped everything in its queue.
                del self._requests[request]
                self.link.forget(request)
                run.reply, run.idle = None, False
                self._done.clear()
                request = self._send(run)
            await self._end(run)
        finally:
            self._requests.pop(request, None)
            self._follow_on(request, run)

    def _follow_on(self, request: str, run: Run) -> None:
        """Keep listening for output of what a run may have left behind, such as a thread."""
        if run.over and self.lost is None:
            self.link.finish(request)
            self._finished.add(request, run)
        else:
            self.link.forget(request)

    def _begin(self, run: Run) -> None:
        if run.target is None:
            return
        try:
            run.target.begin()
        except BaseException as error:
            if isinstance(error, ENDINGS):
                raise
            # The code is already running: follow it, if only for the agent.
            self._log.exception("Cannot show %s in its cell", run.id)
            run.target = None

    def _send(self, run: Run) -> str:
        # Scratch code leaves no history and no count.
        request = self.link.execute(run.code, store_history=run.cell_id is not None)
        self._requests[request] = run
        run.heard = time.monotonic()
        return request

    async def _end(self, run: Run) -> None:
        state = outcome(run)
        if self.lost is not None:
            run.error = kernel_lost(self.lost, run)
            run.log.add(kernel_lost_output(self.lost), 0)
            state = RunState.failed
        elif run.error is not None:
            state = RunState.failed
        elif state is RunState.cancelled:
            run.reason = why_cancelled(run)
        run.prompt = None
        if run.missing is not None:
            restore_error(run)
        run.log.end()
        await self._writer.finish(run)
        if run.target is not None:
            timings = {} if self.lost is not None else run.timings
            try:
                await run.target.end(run.log, run.count, timings)
            except CollaborationError as error:
                # The outcome of the code still holds, and an error from the kernel is more useful
                # than the error that its notebook is also unreachable.
                self._log.warning("Cannot show the end of %s: %s", run.id, error)
                run.error = run.error or error
        run.become(state)

    async def _give_up(self, run: Run, error: CollaborationError) -> None:
        run.error = error
        state = RunState.cancelled if run.started is None else RunState.failed
        await self._skip(run, error.happened, state)

    async def _skip_rest(self, failed: Run) -> None:
        """Skip the runs that were requested together with one that failed."""
        rest = [run for run in self._queue if run.batch is failed.batch]
        for run in rest:
            self._queue.remove(run)
            if failed.error is not None:
                run.error = failed.error
            await self._skip(run, _BEFORE_IT)

    async def _skip(self, run: Run, reason: str, state: RunState = RunState.cancelled) -> None:
        run.reason = reason
        try:
            if run.target is not None:
                await run.target.skip()
        except CollaborationError as error:
            self._log.info("%s: %s", run.id, error.happened)
        except BaseException as error:
            if isinstance(error, ENDINGS):
                raise
            self._log.exception("Cannot show in its cell that %s is over", run.id)
        finally:
            run.become(state)

    async def _watch(self) -> None:
        """While something runs, check that the kernel is alive and that nothing waits forever."""
        while self._worker is not None and not self._worker.done() and self.lost is None:
            await asyncio.wait([self._worker], timeout=_WATCH)
            try:
                fate = await self.link.fate()
                if fate != "alive":
                    self.lose(fate)
                elif (run := self.current) is not None:
                    await self._check(run)
            except Exception:
                self._log.exception("Cannot check kernel %s", self.link.kernel_id)

    async def _check(self, run: Run) -> None:
        now = time.monotonic()
        if run.state is RunState.input_required:
            if now - run.waiting_since > self._settings.input_limit and run.error is None:
                run.error = input_missing(run, self._settings.input_limit)
                await self._signal(self.link.busy_with)
        elif run.idle or run.reply is not None:
            interrupted = run.idle and was_interrupted(run)
            if now - run.heard > (_LOST_REPLY if interrupted else _LOST_MESSAGE):
                self._done.set()

    # -- messages ----------------------------------------------------------------------------

    def _receive(self, message: KernelMessage) -> None:
        if message.type == "update_display_data":
            self._update_display(message)
            return
        self._questions.receive(message)
        run = self._requests.get(message.parent)
        if run is None:
            self._finished.receive(message)
            return
        if not run.idle:  # a thread may keep printing when only the reply is missing
            run.heard = time.monotonic()
        if message.channel == "shell":
            take_reply(run, message)
        elif message.channel == "stdin":
            if message.type == "input_request" and not take_input_request(run, message):
                self._start("interrupt", lambda: self._signal(message.parent))
        elif not take_progress(run, message):
            log_output(run, message)
            self._writer.write_soon(run)
        if run.unwanted and self.link.busy_with == message.parent:  # it has its turn
            run.unwanted = False
            self._start("interrupt", self._interrupt_unwanted)
        if run.idle and run.reply is not None and run is self.current:
            self._done.set()

    def _update_display(self, message: KernelMessage) -> None:
        """Update a display, which any run may have created."""
        run = self.current
        if run is not None and update_display(run.log, message):
            self._writer.write_soon(run)
        self._finished.update_display(message)

    def _start(self, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do something with the kernel that nobody waits for."""

        async def run() -> None:
            try:
                await work()
            except Exception:
                self._log.exception("Cannot %s kernel %s", what, self.link.kernel_id)

        self._tasks.start(run())
