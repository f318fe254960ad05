"""One kernel's queue: runs one after another, and every message to the run that caused it.

Nothing here knows where messages come from or where outputs go: a link brings the former, a
run's target and the side files take the latter.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from logging import Logger
from typing import Any, NamedTuple

from ..backends.protocols.kernels import Fate, KernelLink, KernelMessage
from ..documents.foreign_text import inline, quoted
from ..errors import (
    CollaborationError,
    InputMissing,
    InterruptIgnored,
    KernelLost,
    KernelUnavailable,
    NoInputWanted,
    RunBroken,
    SecretRefused,
)
from .finished_runs import FinishedRuns
from .interrupts import Interrupts
from .kernel_output import log_output, restore_error, update_display
from .output_writer import ENDINGS, OutputWriter
from .run import Run, RunState
from .side_files import SideFiles

#: Seconds between two looks at whether the kernel lives.
_WATCH = 0.25

#: Seconds that an interrupt has to work.
_INTERRUPT_LIMIT = 5.0

#: Seconds after which the second half of "done" is not waited for: a message was lost.
_LOST_MESSAGE = 10.0

#: The same for the reply of code that was interrupted: kernels drop it if they are interrupted
#: again while they write the traceback.
_LOST_REPLY = 0.5

#: How often a request is sent again that the kernel dropped because another one failed.
_AGAIN = 5

#: Questions of ours that are remembered.
_REMEMBERED = 50

_FATES: dict[Fate, tuple[str, str]] = {
    "died": (
        "died",
        " It crashed, exited or ran out of memory; Jupyter starts it again by itself.",
    ),
    "restarted": ("was restarted", ""),
    "gone": ("was shut down, culled or replaced", ""),
    "unreachable": (
        "cannot be reached any more",
        " Whether it still works on this is not known.",
    ),
    "alive": ("is there, but the connection to it was given up", ""),
}


#: What Python raises in code that is interrupted.
_INTERRUPTION = "KeyboardInterrupt"

_BEFORE_IT = "a cell before it failed"


class ExecutorSettings(NamedTuple):
    """What configuration decides about running."""

    input_limit: float = 300.0
    """Seconds that a run waits for an answer."""


class _Question:
    """Something that is asked of a kernel besides all runs."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._reply: Mapping[str, Any] | None = None
        self._idle = False

    def hear(self, message: KernelMessage) -> None:
        """It is answered when the kernel is done with it, which is said on another channel."""
        if message.type == "execute_reply":
            self._reply = message.content
        elif message.type == "status":
            self._idle = self._idle or message.content.get("execution_state") == "idle"
        if self._reply is not None and self._idle and not self.answer.done():
            self.answer.set_result(self._reply)


class Executor:
    """Everything that agents run in one kernel process."""

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
        self._questions: dict[str, _Question] = {}
        self._asked: deque[str] = deque()  # one may work on after its time-out
        self._finished = FinishedRuns(self._writer, link.forget)
        self._done = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        link.listen(self._receive)

    @property
    def waiting(self) -> Sequence[Run]:
        """Runs that have not begun."""
        return tuple(self._queue)

    @property
    def under_way(self) -> Sequence[Run]:
        """Runs that are not over, in the order in which they are made."""
        return self.waiting if self.current is None else (self.current, *self.waiting)

    @property
    def busy(self) -> bool:
        """Whether the kernel works on anything, whoever asked for it."""
        return self.current is not None or bool(self._queue) or self.link.busy_with is not None

    @property
    def busy_for_others(self) -> bool:
        """Whether it works on something that no agent asked for."""
        request = self.link.busy_with
        ours = (self._requests, self._asked, self._finished)
        return request is not None and not any(request in requests for requests in ours)

    def submit(self, runs: Iterable[Run]) -> None:
        """Queue runs, to be made in this order."""
        self._queue.extend(runs)
        loop = asyncio.get_running_loop()
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        if self._watcher is None or self._watcher.done():
            self._watcher = loop.create_task(self._watch())

    async def interrupt(self) -> None:
        """Interrupt what runs, and see that it ends.

        Raises:
            InterruptIgnored: It went on.
        """
        run = self.current
        deadline = time.monotonic() + _INTERRUPT_LIMIT
        # What has not begun yet is not hit; it would go on as if nothing had happened.
        while self.busy and self.link.busy_with is None and not _is_stopped(run):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.01)
        if not self.busy or self.lost is not None or _is_stopped(run):
            return
        request = self.link.busy_with
        await self._signal(request)
        deadline = time.monotonic() + _INTERRUPT_LIMIT
        while request is not None and self.link.busy_with == request and self.lost is None:
            if time.monotonic() > deadline:
                raise InterruptIgnored(
                    "The kernel was interrupted, but the code goes on: it catches the "
                    "interruption, or is inside a library that does not look for it.",
                    "Call restart_notebook_kernel; all variables will be lost.",
                )
            await asyncio.sleep(0.01)

    def interrupted_since(self, moment: float) -> Run | None:
        """The run that an interrupt has ended since then, if one has."""
        run = self._interrupted
        ended = None if run is None else run.ended
        return run if ended is not None and ended >= moment else None

    async def _signal(self, request: str | None) -> None:
        """Interrupt the kernel, in what it works on for a request."""
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
        """Answer what a run asks.

        Raises:
            NoInputWanted: It asks nothing.
            KernelLost: There is nobody any more who could be answered.
        """
        if run.state is not RunState.input_required or run is not self.current:
            raise wants_no_input(run)
        if self.lost is not None:
            raise _lost(self.lost, run)
        self.link.reply_to_input(text)
        # As JupyterLab does it: question and answer stay to be read.
        run.log.print("stdout", f"{run.prompt or ''}{text}\n")
        run.prompt = None
        run.heard = time.monotonic()
        run.become(RunState.working)
        self._writer.write_soon(run)

    async def ask(self, expressions: Mapping[str, str], timeout: float) -> dict[str, Any]:
        """Evaluate expressions silently: no output, no history, no count.

        Raises:
            KernelUnavailable: The kernel did not answer in time.
        """
        request = self.link.execute(
            "",
            silent=True,
            store_history=False,
            allow_stdin=False,
            user_expressions=expressions,
        )
        question = self._questions[request] = _Question()
        if len(self._asked) == _REMEMBERED:
            self.link.forget(self._asked.popleft())
        self._asked.append(request)
        try:
            content = await asyncio.wait_for(question.answer, timeout)
        except TimeoutError as error:
            raise KernelUnavailable(
                f"The kernel did not answer within {timeout:g} s.",
                "Call get_notebook_status to see whether it is busy.",
            ) from error
        finally:
            del self._questions[request]
        return dict(content)

    def lose(self, fate: Fate) -> None:
        """The kernel process is not there any more, and with it all that ran in it."""
        if self.lost is not None:
            return
        self.lost = fate
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(_lost(fate, None))
        self._finished.clear()
        self._done.set()
        # What was not sent must not reach the process that is started in its place.
        self._spawn(self.link.close())

    async def ended(self) -> None:
        """Return when nothing of it writes to a cell any more."""
        if self._worker is not None:
            await asyncio.wait([self._worker])

    async def close(self) -> None:
        """Stop; runs that are not over keep what their cells show, without the star."""
        left = [run for run in (self.current, *self._queue) if run is not None]
        tasks = [self._worker, self._watcher, *self._tasks]
        ending = [task for task in tasks if task is not None]
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.wait(ending)
        await self._writer.close()
        for run in left:
            await self._skip(run, "the server was stopped")

    # -- one after another -------------------------------------------------------------------

    async def _work(self) -> None:
        while self._queue:
            run = self.current = self._queue.popleft()
            try:
                if _fails_before(run):
                    await self._skip(run, _BEFORE_IT)
                else:
                    await self._perform(run)
            except CollaborationError as error:
                await self._give_up(run, error)
            except BaseException as error:
                if isinstance(error, ENDINGS):
                    raise
                # pycrdt's panics are no Exceptions, and one bad run must not end all others.
                self._log.exception("%s could not be run to its end", run.id)
                await self._give_up(run, _unexpected(error))
            finally:
                self.current = None
            if run.state is not RunState.completed and run.batch.stop_on_error:
                await self._skip_rest(run)

    async def _perform(self, run: Run) -> None:
        if self.lost is None and (fate := await self.link.fate()) != "alive":
            self.lose(fate)  # else it would be sent to the one that is started in its place
        if self.lost is None and run.target is not None:
            await run.target.ready()
        if self.lost is not None:  # by now: nothing is awaited between this and the request
            raise _lost(self.lost, None)
        self._done.clear()
        request = self._send(run)
        try:
            self._begin(run)  # while the kernel works already
            for attempt in range(_AGAIN + 1):
                await self._done.wait()
                aborted = (run.reply or {}).get("status") == "aborted"
                if self.lost is not None or not aborted or attempt == _AGAIN:
                    break
                # Somebody else's cell failed, and the kernel threw away all that waited.
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
        """Go on listening to what a run may have left at work: a thread, say."""
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
            # The code runs by now: follow it, if only for the agent.
            self._log.exception("%s cannot be shown in its cell", run.id)
            run.target = None

    def _send(self, run: Run) -> str:
        # Scratch code leaves no history and no count.
        request = self.link.execute(run.code, store_history=run.cell_id is not None)
        self._requests[request] = run
        run.heard = time.monotonic()
        return request

    async def _end(self, run: Run) -> None:
        state = _outcome(run)
        if self.lost is not None:
            run.error = _lost(self.lost, run)
            run.log.add(_last_words(self.lost), 0)
            state = RunState.failed
        elif run.error is not None:
            state = RunState.failed
        elif state is RunState.cancelled:
            run.reason = _why_cancelled(run)
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
                # What became of the code is true all the same, and what became of the kernel
                # says more than that its notebook is out of reach as well.
                self._log.warning("The end of %s could not be shown: %s", run.id, error)
                run.error = run.error or error
        run.become(state)

    async def _give_up(self, run: Run, error: CollaborationError) -> None:
        run.error = error
        state = RunState.cancelled if run.started is None else RunState.failed
        await self._skip(run, error.happened, state)

    async def _skip_rest(self, failed: Run) -> None:
        """The others that were asked for together with a run that failed do not run."""
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
            self._log.exception("The cell of %s could not be told that it is over", run.id)
        finally:
            run.become(state)

    async def _watch(self) -> None:
        """See that the kernel lives while something runs, and that nothing waits for ever."""
        while self._worker is not None and not self._worker.done() and self.lost is None:
            await asyncio.wait([self._worker], timeout=_WATCH)
            try:
                fate = await self.link.fate()
                if fate != "alive":
                    self.lose(fate)
                elif (run := self.current) is not None:
                    await self._check(run)
            except Exception:
                self._log.exception("A kernel could not be looked at")

    async def _check(self, run: Run) -> None:
        now = time.monotonic()
        if run.state is RunState.input_required:
            if now - run.waiting_since > self._settings.input_limit and run.error is None:
                run.error = InputMissing(
                    f"The code asked {quoted(run.prompt or '')} and nobody answered for "
                    f"{self._settings.input_limit:g} s; it was interrupted.",
                    "Run it again and answer with reply_to_input.",
                )
                await self._signal(self.link.busy_with)
        elif run.idle or run.reply is not None:
            interrupted = run.idle and _was_interrupted(run)
            if now - run.heard > (_LOST_REPLY if interrupted else _LOST_MESSAGE):
                self._done.set()

    # -- messages ----------------------------------------------------------------------------

    def _receive(self, message: KernelMessage) -> None:
        if message.type == "update_display_data":
            self._update_display(message)
            return
        if (question := self._questions.get(message.parent)) is not None:
            question.hear(message)
        run = self._requests.get(message.parent)
        if run is None:
            self._finished.receive(message)
            return
        if not run.idle:  # a thread may go on printing when only the reply is missing
            run.heard = time.monotonic()
        if message.channel == "shell":
            self._on_reply(run, message)
        elif message.channel == "stdin":
            self._on_input_request(run, message)
        else:
            self._on_output(run, message)
        if run.idle and run.reply is not None and run is self.current:
            self._done.set()

    def _on_reply(self, run: Run, message: KernelMessage) -> None:
        run.reply = message.content
        run.timings["shell.execute_reply"] = message.date
        if started := message.metadata.get("started"):
            run.timings["shell.execute_reply.started"] = str(started)
        if isinstance(count := message.content.get("execution_count"), int):
            run.count = count

    def _on_output(self, run: Run, message: KernelMessage) -> None:
        content = message.content
        match message.type:
            case "status":
                state = content.get("execution_state")
                run.timings[f"iopub.status.{state}"] = message.date
                if state == "idle":
                    run.idle = True
                elif state == "busy" and run.state is RunState.queued:
                    run.become(RunState.working)  # else it asks already, on another channel
            case "execute_input":
                run.timings["iopub.execute_input"] = message.date
                if isinstance(count := content.get("execution_count"), int):
                    run.count = count
            case _:
                log_output(run, message)
                self._writer.write_soon(run)

    def _on_input_request(self, run: Run, message: KernelMessage) -> None:
        if message.type != "input_request":
            return
        prompt = str(message.content.get("prompt", ""))
        if message.content.get("password"):
            run.error = SecretRefused(
                f"The code asked for a secret ({inline(prompt.strip() or 'getpass')}), and agents "
                "are not given any; it was interrupted.",
                "Let the person run this cell in JupyterLab, or read the secret from the "
                "environment of the kernel.",
            )
            self._spawn(self._signal(message.parent))
            return
        run.prompt = prompt
        run.waiting_since = time.monotonic()
        run.become(RunState.input_required)

    def _update_display(self, message: KernelMessage) -> None:
        """A display may be updated from anywhere."""
        run = self.current
        if run is not None and update_display(run.log, message):
            self._writer.write_soon(run)
        self._finished.update_display(message)

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            try:
                await work
            except Exception:
                self._log.exception("The kernel could not be interrupted")

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def wants_no_input(run: Run) -> NoInputWanted:
    """What to say to somebody who answers a run that asks nothing."""
    return NoInputWanted(
        f"{run.id} does not wait for an answer; it is {run.state}.",
        "Call get_run to see how it stands.",
        run_id=run.id,
        state=run.state.value,
    )


def _fails_before(run: Run) -> bool:
    """Whether a run that this one was to follow did not end well."""
    return run.batch.stop_on_error and any(
        before.over and before.state is not RunState.completed for before in run.batch.after
    )


def _why_cancelled(run: Run) -> str:
    if (run.reply or {}).get("status") == "aborted":
        return "the kernel dropped it each time, because something before it failed"
    return "it was interrupted"


def _outcome(run: Run) -> RunState:
    status = (run.reply or {}).get("status")
    if status == "ok":
        return RunState.completed
    if status == "aborted" or _was_interrupted(run):
        return RunState.cancelled
    return RunState.failed


def _is_stopped(run: Run | None) -> bool:
    """Whether a run was interrupted, and the kernel is done with it."""
    return run is not None and run.interrupted is not None and (run.idle or run.over)


def _was_interrupted(run: Run) -> bool:
    """Whether code that ended with an error did so because it was interrupted.

    Coroutines and libraries make other errors of an interruption, and where the kernel dropped
    its reply, only what it printed tells that a person interrupted it.
    """
    if run.interrupted is not None and run.heard - run.interrupted < _INTERRUPT_LIMIT:
        return True
    if run.reply is not None:
        return run.reply.get("ename") == _INTERRUPTION
    return any(
        output.get("ename") == _INTERRUPTION
        or (output.get("name") == "stderr" and _INTERRUPTION in output["text"])
        for output in run.log.outputs()
    )


def _last_words(fate: Fate) -> dict[str, Any]:
    """What a cell shows in the end whose kernel is not there any more."""
    happened, more = _FATES[fate]
    said = f"The kernel {happened} while this ran.{more}"
    name = "KernelDied" if fate == "died" else "KernelLost"
    traceback = [f"{name}: {said}"]
    return {"output_type": "error", "ename": name, "evalue": said, "traceback": traceback}


def _lost(fate: Fate, run: Run | None) -> KernelLost:
    happened, more = _FATES[fate]
    when = "before this could run" if run is None else "while this ran"
    kept = "" if run is None else " What this had put out until then is kept."
    lost = "" if fate == "unreachable" else " All its variables are lost."
    next_step = (
        "Call get_notebook_status when the server is back: the code may have run to its end."
        if fate == "unreachable"
        else "Run the cells that define what you need, then this one again."
    )
    return KernelLost(f"The kernel {happened} {when}.{more}{lost}{kept}", next_step, fate=fate)


def _unexpected(error: BaseException) -> RunBroken:
    return RunBroken(
        f"The run could not be followed to its end: {type(error).__name__}: {quoted(error)}",
        "Call get_notebook_status, and read the cell before you run it again.",
    )
