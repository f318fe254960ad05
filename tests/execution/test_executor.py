"""One kernel's queue, with kernels and cells that fail in ways that real ones cannot be made to."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from jupyter_collaboration_mcp.backends.protocols.kernels import Fate, KernelMessage
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.documents.output_log import OutputLimits, OutputLog
from jupyter_collaboration_mcp.errors import (
    InputMissing,
    KernelLost,
    NoInputWanted,
    RunBroken,
)
from jupyter_collaboration_mcp.execution import executor as module
from jupyter_collaboration_mcp.execution import finished_runs, interrupts, output_writer
from jupyter_collaboration_mcp.execution.executor import Executor, ExecutorSettings
from jupyter_collaboration_mcp.execution.run import Batch, Run, RunState
from jupyter_collaboration_mcp.execution.side_files import SideFiles, SideLimits
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

#: Seconds for what takes no time, unless it never comes.
SOON = 20.0


class Panic(BaseException):
    """What pycrdt raises when its Rust side panics: no Exception."""


FAULTS = [RuntimeError, Panic]


class FakeLink:
    """A kernel that does with each code what the code's name says."""

    kernel_id = "fake"
    language: str | None = None
    busy_with: str | None = None

    def __init__(self) -> None:
        self.fate_now: Fate = "alive"
        self.sent: list[str] = []
        self.replies: list[str] = []
        self.forgotten: set[str] = set()
        self.closed = False
        self._receiver: Callable[[KernelMessage], None] = lambda _: None

    def listen(self, receiver: Callable[[KernelMessage], None]) -> None:
        self._receiver = receiver

    def execute(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        allow_stdin: bool = True,
        user_expressions: Mapping[str, str] | None = None,
    ) -> str:
        assert not self.closed
        self.sent.append(code)
        request = f"request-{len(self.sent)}"
        asyncio.get_running_loop().call_soon(self._work, request, code)
        return request

    def finish(self, request: str) -> None:
        pass

    def forget(self, request: str) -> None:
        self.forgotten.add(request)

    def reply_to_input(self, text: str) -> None:
        assert not self.closed
        self.replies.append(text)

    async def fate(self) -> Fate:
        return self.fate_now

    async def close(self) -> None:
        self.closed = True

    def say_late(self, number: int, kind: str, content: Mapping[str, Any]) -> None:
        """Say something of a request by its number."""
        self._say("iopub", kind, f"request-{number}", content)

    def answer(self, reply: Mapping[str, Any] | None) -> None:
        """The latest code, which was interrupted, ends; None if the reply is lost."""
        request, self.busy_with = f"request-{len(self.sent)}", None
        if reply is not None:
            self._say("shell", "execute_reply", request, reply)
        self._say("iopub", "status", request, {"execution_state": "idle"})

    def print(self, text: str, name: str = "stdout") -> None:
        """The latest code prints something."""
        content = {"name": name, "text": text}
        self._say("iopub", "stream", f"request-{len(self.sent)}", content)

    def _work(self, request: str, code: str) -> None:
        if code == "aborted":
            self._say("shell", "execute_reply", request, {"status": "aborted"})
            self._say("iopub", "status", request, {"execution_state": "idle"})
            return
        if code == "ask at once":  # channels do not wait for each other
            self._say("stdin", "input_request", request, {"prompt": "Well? "})
        self._say("iopub", "status", request, {"execution_state": "busy"})
        match code:
            case "ask at once":
                return
            case "go on":
                return
            case "ask":
                self._say("stdin", "input_request", request, {"prompt": "Well? "})
                return
            case "interrupted":
                self.busy_with = request
                return
            case "fail":
                self._say("shell", "execute_reply", request, {"status": "error"})
            case _:
                self._say("shell", "execute_reply", request, {"status": "ok"})
        self._say("iopub", "status", request, {"execution_state": "idle"})

    def _say(
        self,
        channel: Literal["shell", "iopub", "stdin"],
        kind: str,
        request: str,
        content: Mapping[str, Any],
    ) -> None:
        self._receiver(KernelMessage(channel, kind, request, "", content, {}, 0))


class FakeTarget:
    """A cell of which one part fails, or takes its time."""

    def __init__(
        self,
        fails: str = "",
        fault: type[BaseException] | None = None,
        wait: Awaitable[object] | None = None,
    ) -> None:
        self.calls: list[str] = []
        self.mine = True
        self._fails = fails
        self._fault = fault
        self._wait = wait

    async def ready(self) -> None:
        self._note("ready")
        if self._wait is not None:
            await self._wait

    def begin(self) -> None:
        self._note("begin")

    async def write(self, log: OutputLog) -> bool:
        self._note("write")
        log.changed = False
        return self.mine

    async def end(self, log: OutputLog, count: int | None, timings: Mapping[str, str]) -> None:
        self._note("end")

    async def skip(self) -> None:
        self._note("skip")

    def _note(self, part: str) -> None:
        self.calls.append(part)
        if part == self._fails and self._fault is not None:
            raise self._fault("out of order")


class Kernel:
    """An executor with a fake link, and the runs that were over, in this order."""

    def __init__(self, directory: Path, input_limit: float = 300) -> None:
        self.link = FakeLink()
        self.over: list[Run] = []
        self.interrupts = 0
        self.interrupt_fault: Exception | None = None
        self.interrupt_wait: Awaitable[object] | None = None
        self.executor = Executor(
            self.link,
            self._interrupt,
            SideFiles(directory, SideLimits()),
            ExecutorSettings(input_limit),
            logging.getLogger("test"),
        )
        self._count = 0

    def run(self, code: str, target: FakeTarget | None = None, batch: Batch | None = None) -> Run:
        """A run, of which it is noted when it is over."""
        self._count += 1
        log = OutputLog(OutputLimits(), lambda index, said: said)
        run = Run(
            code, log, "Ada", "a.ipynb", RoomId("json:notebook:a"), f"run-{self._count}", "address"
        )
        run.target = target
        run.when_over = self.over.append
        if batch is not None:
            run.batch = batch
        return run

    def submit(self, *runs: Run) -> None:
        self.executor.submit(runs)

    async def finish(self, *runs: Run) -> None:
        """Wait until runs are over, each of them once."""
        for run in runs:
            assert await run.wait_finished(SOON), f"{run.code} is {run.state}"
        assert sorted(run.id for run in self.over) == sorted({run.id for run in self.over})
        assert set(runs) <= set(self.over)

    async def _interrupt(self) -> None:
        self.interrupts += 1
        if self.interrupt_wait is not None:
            await self.interrupt_wait
        if self.interrupt_fault is not None:
            raise self.interrupt_fault


MakeKernel = Callable[..., Kernel]


@pytest.fixture
def make(tmp_path: Path) -> MakeKernel:
    def make_kernel(**more: Any) -> Kernel:
        return Kernel(tmp_path, **more)

    return make_kernel


async def turns(count: int = 200) -> None:
    """Let the loop do all that it would do at once."""
    for _ in range(count):
        await asyncio.sleep(0)


# -- nothing ends the queue -------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS, ids=["exception", "panic"])
async def test_a_cell_that_cannot_show_its_end_fails_only_its_own_run(
    make: MakeKernel, fault: type[BaseException]
) -> None:
    kernel = make()
    target = FakeTarget("end", fault)
    broken, same_batch = kernel.run("ok", target), kernel.run("never")
    same_batch.batch = broken.batch
    after = kernel.run("ok", FakeTarget())
    kernel.submit(broken, same_batch, after)
    await kernel.finish(broken, same_batch, after)
    assert broken.state is RunState.failed
    assert isinstance(broken.error, RunBroken)
    assert "out of order" in broken.error.happened
    assert target.calls[-2:] == ["end", "skip"]
    assert (same_batch.state, same_batch.error) == (RunState.cancelled, broken.error)
    assert after.state is RunState.completed
    assert kernel.link.sent == ["ok", "ok"]


@pytest.mark.parametrize("fault", FAULTS, ids=["exception", "panic"])
async def test_a_cell_that_fails_to_be_skipped_does_not_stop_the_queue(
    make: MakeKernel, fault: type[BaseException]
) -> None:
    kernel = make()
    batch = Batch()
    first = kernel.run("fail", batch=batch)
    rest = [kernel.run("never", FakeTarget("skip", fault), batch) for _ in range(2)]
    after = kernel.run("ok")
    kernel.submit(first, *rest, after)
    await kernel.finish(first, *rest, after)
    assert first.state is RunState.failed
    assert [run.state for run in rest] == [RunState.cancelled] * 2
    assert [run.reason for run in rest] == ["a cell before it failed"] * 2
    assert after.state is RunState.completed
    assert kernel.link.sent == ["fail", "ok"]


@pytest.mark.parametrize("fault", FAULTS, ids=["exception", "panic"])
async def test_a_cell_that_fails_to_get_ready_is_cancelled_without_blocking_others(
    make: MakeKernel, fault: type[BaseException]
) -> None:
    kernel = make()
    broken, after = kernel.run("never", FakeTarget("ready", fault)), kernel.run("ok")
    kernel.submit(broken, after)
    await kernel.finish(broken, after)
    assert broken.state is RunState.cancelled
    assert isinstance(broken.error, RunBroken)
    assert after.state is RunState.completed
    assert kernel.link.sent == ["ok"]


@pytest.mark.parametrize("fault", FAULTS, ids=["exception", "panic"])
async def test_running_code_is_followed_even_if_its_cell_cannot_show_it(
    make: MakeKernel, fault: type[BaseException]
) -> None:
    kernel = make()
    run, after = kernel.run("ok", FakeTarget("begin", fault)), kernel.run("ok")
    kernel.submit(run, after)
    await kernel.finish(run, after)
    assert run.state is after.state is RunState.completed


@pytest.mark.parametrize("fault", FAULTS, ids=["exception", "panic"])
async def test_output_that_cannot_be_shown_is_retried_only_with_the_next_output(
    make: MakeKernel, fault: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "_FLUSH", 0)  # a loop would go round at once
    kernel = make()
    target = FakeTarget("write", fault)
    run = kernel.run("go on", target)
    kernel.submit(run)
    await until(lambda: run.state is RunState.working)
    for number in (1, 2):
        kernel.link.print("more\n")
        await turns()
        assert target.calls.count("write") == number
    kernel.executor.lose("died")
    await kernel.finish(run)
    assert target.calls[-1] == "end"  # which writes it all
    assert run.log.outputs()[0]["text"] == "more\nmore\n"


# -- what the kernel throws away --------------------------------------------------------------


async def test_a_run_that_the_kernel_drops_each_time_is_cancelled_with_a_reason(
    make: MakeKernel,
) -> None:
    kernel = make()
    dropped, after = kernel.run("aborted", FakeTarget()), kernel.run("ok")
    kernel.submit(dropped, after)
    await kernel.finish(dropped, after)
    assert dropped.state is RunState.cancelled
    assert dropped.reason is not None
    assert "dropped it each time" in dropped.reason
    assert dropped.error is None
    assert kernel.link.sent == ["aborted"] * 6 + ["ok"]
    assert after.state is RunState.completed


# -- runs that follow others ------------------------------------------------------------------


@pytest.mark.parametrize("stop_on_error", [True, False])
async def test_a_batch_after_a_failed_run_of_another_call_stops_only_with_stop_on_error(
    make: MakeKernel, stop_on_error: bool
) -> None:
    kernel = make()
    other = kernel.run("fail")
    batch = Batch(stop_on_error, after=[other])
    follower, last = kernel.run("ok", FakeTarget(), batch), kernel.run("ok", batch=batch)
    kernel.submit(other)
    kernel.submit(follower, last)
    await kernel.finish(other, follower, last)
    states = [RunState.cancelled if stop_on_error else RunState.completed] * 2
    assert [follower.state, last.state] == states
    assert kernel.link.sent == ["fail"] + ([] if stop_on_error else ["ok", "ok"])


# -- kernels that are lost --------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["died", "restarted", "gone"])
async def test_nothing_is_sent_to_a_kernel_that_was_replaced(make: MakeKernel, fate: Fate) -> None:
    kernel = make()
    kernel.link.fate_now = fate
    target = FakeTarget()
    run = kernel.run("never", target)
    kernel.submit(run)
    await kernel.finish(run)
    assert kernel.link.sent == []
    assert target.calls == ["skip"]
    assert run.state is RunState.cancelled
    assert isinstance(run.error, KernelLost)
    assert run.error.detail == {"fate": fate}
    assert kernel.executor.lost == fate
    await until(lambda: kernel.link.closed)


async def test_a_lost_kernel_ends_running_and_waiting_runs_and_its_link(
    make: MakeKernel,
) -> None:
    kernel = make()
    targets = [FakeTarget(), FakeTarget()]
    runs = [kernel.run("go on", targets[0]), kernel.run("never", targets[1])]
    kernel.submit(*runs)
    await until(lambda: runs[0].state is RunState.working)
    kernel.executor.lose("restarted")
    await kernel.executor.wait_ended()
    await kernel.finish(*runs)
    assert [run.state for run in runs] == [RunState.failed, RunState.cancelled]
    assert all(isinstance(run.error, KernelLost) for run in runs)
    assert targets[0].calls[-1] == "end"
    assert targets[1].calls == ["skip"]
    assert kernel.link.sent == ["go on"]
    await until(lambda: kernel.link.closed)
    late = kernel.run("never")
    kernel.submit(late)
    await kernel.finish(late)
    assert isinstance(late.error, KernelLost)
    assert kernel.link.sent == ["go on"]


async def test_no_code_is_sent_to_a_kernel_lost_while_the_cell_gets_ready(
    make: MakeKernel,
) -> None:
    kernel = make()
    ready = asyncio.Event()
    target = FakeTarget(wait=ready.wait())
    run = kernel.run("never", target)
    kernel.submit(run)
    await until(lambda: target.calls == ["ready"])
    kernel.executor.lose("restarted")
    ready.set()
    await kernel.finish(run)
    assert kernel.link.sent == []
    assert run.state is RunState.cancelled
    assert isinstance(run.error, KernelLost)
    assert target.calls == ["ready", "skip"]


async def test_an_input_request_that_arrives_before_the_busy_status_can_be_answered(
    make: MakeKernel,
) -> None:
    kernel = make()
    run = kernel.run("ask at once")
    kernel.submit(run)
    await until(lambda: "iopub.status.busy" in run.timings)
    assert run.state is RunState.input_required
    assert run.started is not None
    kernel.executor.reply_to_input(run, "yes")
    assert kernel.link.replies == ["yes"]
    await until(lambda: run.state is RunState.working)


async def test_an_input_request_of_a_lost_kernel_cannot_be_answered(make: MakeKernel) -> None:
    kernel = make()
    run = kernel.run("ask")
    kernel.submit(run)
    await until(lambda: run.state is RunState.input_required)
    kernel.executor.lose("died")
    with pytest.raises(KernelLost, match="died"):
        kernel.executor.reply_to_input(run, "too late")
    await kernel.finish(run)
    with pytest.raises(NoInputWanted):
        kernel.executor.reply_to_input(run, "even later")
    assert kernel.link.replies == []


async def test_a_failed_interrupt_does_not_end_the_watch(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WATCH", 0.001)
    kernel = make(input_limit=0)
    kernel.interrupt_fault = RuntimeError("no such process")
    run, waiting = kernel.run("ask"), kernel.run("never")
    kernel.submit(run, waiting)
    await until(lambda: kernel.interrupts)
    assert isinstance(run.error, InputMissing)
    assert not run.over
    await turns()
    kernel.link.fate_now = "died"
    await kernel.finish(run, waiting)
    assert kernel.executor.lost == "died"
    assert run.state is RunState.failed
    assert isinstance(run.error, KernelLost)
    assert isinstance(waiting.error, KernelLost)
    assert kernel.interrupts == 1


async def test_code_that_has_not_started_is_interrupted_once_it_starts(make: MakeKernel) -> None:
    kernel = make()
    run = kernel.run("go on")
    kernel.submit(run)
    interrupting = asyncio.create_task(kernel.executor.interrupt())
    await until(lambda: kernel.link.sent)
    await turns()
    assert kernel.interrupts == 0
    kernel.link.busy_with = "request-1"
    await until(lambda: kernel.interrupts)
    kernel.link.busy_with = None
    await interrupting
    assert kernel.interrupts == 1
    kernel.link.fate_now = "died"
    await kernel.finish(run)


async def test_code_that_ends_before_the_interrupt_is_left_alone(make: MakeKernel) -> None:
    kernel = make()
    run = kernel.run("end")
    kernel.submit(run)
    await kernel.executor.interrupt()
    await kernel.finish(run)
    assert run.state is RunState.completed
    assert kernel.interrupts == 0


# -- interrupts -------------------------------------------------------------------------------


async def interrupted_run(kernel: Kernel) -> Run:
    """A run that waits to be interrupted."""
    run = kernel.run("interrupted", FakeTarget())
    kernel.submit(run)
    await until(lambda: kernel.link.busy_with)
    return run


async def test_simultaneous_interrupts_send_one_signal(make: MakeKernel) -> None:
    kernel = make()
    first = await interrupted_run(kernel)
    sending = asyncio.Event()
    kernel.interrupt_wait = sending.wait()
    calls = [asyncio.create_task(kernel.executor.interrupt()) for _ in range(10)]
    await until(lambda: kernel.interrupts)
    await turns()
    calls[0].cancel()  # who asked first goes away, which is nothing to the others
    kernel.interrupt_wait = None
    sending.set()
    await turns()
    calls.append(asyncio.create_task(kernel.executor.interrupt()))
    await turns()
    after = kernel.run("go on")
    kernel.submit(after)
    kernel.link.answer({"status": "error", "ename": "KeyboardInterrupt"})
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in done] == [asyncio.CancelledError] + [type(None)] * 10
    assert kernel.interrupts == 1
    await kernel.finish(first)
    assert (first.state, first.reason) == (RunState.cancelled, "it was interrupted")
    await until(lambda: after.state is RunState.working)
    assert after.interrupted is None


async def test_an_interrupt_of_a_run_that_is_ending_does_not_hit_the_next_run(
    make: MakeKernel,
) -> None:
    kernel = make()
    first = await interrupted_run(kernel)
    ending = asyncio.Event()
    first.target = SlowEnd(ending)
    one = asyncio.create_task(kernel.executor.interrupt())
    await until(lambda: kernel.interrupts)
    after = kernel.run("interrupted")
    kernel.submit(after)
    kernel.link.answer({"status": "error", "ename": "KeyboardInterrupt"})
    another = asyncio.create_task(kernel.executor.interrupt())  # while the cell shows the end
    await asyncio.gather(one, another)
    ending.set()
    await kernel.finish(first)
    await until(lambda: kernel.link.busy_with)
    assert kernel.interrupts == 1
    assert after.interrupted is None


class SlowEnd(FakeTarget):
    def __init__(self, ending: asyncio.Event) -> None:
        super().__init__()
        self._ending = ending

    async def end(self, log: OutputLog, count: int | None, timings: Mapping[str, str]) -> None:
        await self._ending.wait()


async def test_code_that_caught_an_interrupt_can_be_interrupted_again(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "APART", 0)
    kernel = make()
    run = await interrupted_run(kernel)
    calls = [asyncio.create_task(kernel.executor.interrupt())]
    await until(lambda: kernel.interrupts == 1)
    await turns()
    calls.append(asyncio.create_task(kernel.executor.interrupt()))
    await until(lambda: kernel.interrupts == 2)
    kernel.link.answer({"status": "error", "ename": "KeyboardInterrupt"})
    await asyncio.gather(*calls)
    await kernel.finish(run)
    assert run.state is RunState.cancelled


async def test_a_failed_interrupt_can_be_repeated_at_once(make: MakeKernel) -> None:
    kernel = make()
    run = await interrupted_run(kernel)
    kernel.interrupt_fault = RuntimeError("no such process")
    with pytest.raises(RuntimeError, match="no such process"):
        await kernel.executor.interrupt()
    kernel.interrupt_fault = None
    again = asyncio.create_task(kernel.executor.interrupt())
    await until(lambda: kernel.interrupts == 2)
    kernel.link.answer({"status": "error", "ename": "KeyboardInterrupt"})
    await again
    await kernel.finish(run)
    assert run.state is RunState.cancelled


@pytest.mark.parametrize(
    "reply", [None, {"status": "error", "ename": "CancelledError"}], ids=["lost", "coroutine"]
)
async def test_a_run_is_cancelled_however_the_kernel_reports_the_interrupt(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch, reply: dict[str, Any] | None
) -> None:
    monkeypatch.setattr(module, "_WATCH", 0.001)
    monkeypatch.setattr(module, "_LOST_REPLY", 0)
    kernel = make()
    run = await interrupted_run(kernel)
    interrupting = asyncio.create_task(kernel.executor.interrupt())
    await until(lambda: kernel.interrupts)
    kernel.link.answer(reply)
    await interrupting
    assert await run.wait_finished(5)  # a message that is lost otherwise is waited for longer
    assert (run.state, run.reason) == (RunState.cancelled, "it was interrupted")
    assert run.error is None


async def test_a_run_whose_reply_was_lost_to_a_persons_interrupt_is_cancelled(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WATCH", 0.001)
    monkeypatch.setattr(module, "_LOST_REPLY", 0)
    kernel = make()
    run = await interrupted_run(kernel)
    kernel.link.print("Traceback ...\nKeyboardInterrupt\n", "stderr")
    kernel.link.answer(None)
    assert await run.wait_finished(5)
    assert run.state is RunState.cancelled


async def test_an_error_long_after_a_caught_interrupt_is_a_failure(
    make: MakeKernel,
) -> None:
    kernel = make()
    run = await interrupted_run(kernel)
    interrupting = asyncio.create_task(kernel.executor.interrupt())
    await until(lambda: kernel.interrupts)
    run.interrupted = time.monotonic() - 60
    kernel.link.answer({"status": "error", "ename": "ZeroDivisionError"})
    await interrupting
    await kernel.finish(run)
    assert run.state is RunState.failed


# -- what is put out after the end ------------------------------------------------------------


def shown(run: Run) -> str:
    return "".join(output["text"] for output in run.log.outputs())


async def test_late_output_goes_to_its_own_run_and_changes_no_state(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "_FLUSH", 0)
    kernel = make()
    targets = [FakeTarget(), FakeTarget()]
    runs = [kernel.run(code, target) for code, target in zip(("ok", "fail"), targets, strict=True)]
    kernel.submit(*runs)
    await kernel.finish(*runs)
    current = kernel.run("go on")
    kernel.submit(current)
    await until(lambda: current.state is RunState.working)
    for request in (1, 2):
        kernel.link.say_late(request, "status", {"execution_state": "busy"})
        kernel.link.say_late(request, "stream", {"name": "stdout", "text": f"late {request}"})
        kernel.link.say_late(request, "comm_msg", {"data": {"text": "no output"}})
        kernel.link.say_late(request, "status", {"execution_state": "idle"})
    await until(lambda: all(target.calls[-1] == "write" for target in targets))
    assert [shown(run) for run in (*runs, current)] == ["late 1", "late 2", ""]
    assert [run.state for run in runs] == [RunState.completed, RunState.failed]
    assert current.state is RunState.working
    assert [target.calls.count("write") for target in targets] == [1, 1]
    await kernel.executor.close()


async def test_a_run_that_no_longer_owns_its_cell_keeps_collecting_output(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "_FLUSH", 0)
    kernel = make()
    target = FakeTarget()
    run = kernel.run("ok", target)
    kernel.submit(run)
    await kernel.finish(run)
    target.mine = False
    for word in ("one", "two"):
        kernel.link.print(word)
        await turns()
    assert shown(run) == "onetwo"
    assert target.calls.count("write") == 1


async def test_late_output_that_cannot_be_shown_is_retried_a_few_times(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_writer, "_FLUSH", 0)
    monkeypatch.setattr(output_writer, "_RETRY", 0)
    kernel = make()
    target = FakeTarget("write", RuntimeError)
    run = kernel.run("ok", target)
    kernel.submit(run)
    await kernel.finish(run)
    kernel.link.print("late")
    await until(lambda: target.calls.count("write") == 7)
    await turns()
    assert target.calls.count("write") == 7
    kernel.link.print("again")
    await until(lambda: target.calls.count("write") > 7)
    await kernel.executor.close()
    assert run.state is RunState.completed


async def test_the_runs_that_still_produce_output_stay_followed(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished_runs, "_FOLLOWED", 3)
    kernel = make()
    runs = [kernel.run("ok") for _ in range(6)]
    runs[2].cell_id = runs[3].cell_id = "same"
    for run in runs[:4]:
        kernel.submit(run)
        await kernel.finish(run)
        kernel.link.say_late(1, "stream", {"name": "stdout", "text": "."})
    # The second was silent longest; of the two of one cell the older one goes next.
    for run, gone in ((runs[4], {2, 3}), (runs[5], {2, 3, 4})):
        kernel.submit(run)
        await kernel.finish(run)
        kernel.link.say_late(1, "stream", {"name": "stdout", "text": "."})
        assert kernel.link.forgotten == {f"request-{number}" for number in gone}
    assert shown(runs[0]) == "......"


async def test_large_outputs_of_finished_runs_are_not_kept_forever(
    make: MakeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished_runs, "_FOLLOWED_SIZE", 100)
    kernel = make()
    for _ in range(4):
        run = kernel.run("ok")
        kernel.submit(run)
        await kernel.finish(run)
        kernel.link.print("x" * 60)
    assert kernel.link.forgotten == {"request-1", "request-2"}


async def test_no_run_is_followed_after_the_kernel_is_gone(make: MakeKernel) -> None:
    kernel = make()
    run = kernel.run("ok", FakeTarget())
    kernel.submit(run)
    await kernel.finish(run)
    kernel.executor.lose("restarted")
    kernel.link.print("late")
    assert shown(run) == ""
