"""A run: some code on its way through a kernel, with its own life cycle.

The call that started it may end and its client may go away; the run continues and can be queried.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from ..backends.protocols.room_ids import RoomId
from ..documents.addresses import CellOutput, ExecutionOutput, RunOutput
from ..documents.output_log import OutputLog
from ..errors import CollaborationError


class RunState(StrEnum):
    """The state of a run."""

    queued = "queued"
    working = "working"
    input_required = "input_required"
    completed = "completed"
    failed = "failed"
    cancelled = "cancelled"


_BEGUN = frozenset((RunState.working, RunState.input_required))
_ENDED = frozenset((RunState.completed, RunState.failed, RunState.cancelled))


class Target(Protocol):
    """The cell that shows a run."""

    async def ready(self) -> None:
        """Become current, so that `begin` can follow at once.

        Raises:
            CellNotFound: The cell is gone.
        """

    def begin(self) -> None:
        """Show that the cell is running, with no outputs."""

    async def write(self, log: OutputLog) -> bool:
        """Show what is in the log now; also after the end.

        Returns whether the cell still shows this run: after the end, the cell may have been run
        again, cleared or deleted. Then nothing is written.
        """

    async def end(self, log: OutputLog, count: int | None, timings: Mapping[str, str]) -> None:
        """Show all outputs and that the cell has ended; durable when this returns."""

    async def skip(self) -> None:
        """Leave the cell as it was, because it will not run after all."""


@dataclass(eq=False, slots=True)
class Batch:
    """Runs that were requested together."""

    stop_on_error: bool = True
    after: list[Run] = field(default_factory=list)
    """Runs of others that were already under way: if one fails, these do not run."""


@dataclass(eq=False, slots=True)
class Run:
    """One execution of one piece of code."""

    code: str
    log: OutputLog
    agent: str
    """The name of the agent that requested it."""
    path: str
    room_id: RoomId
    id: str
    session: str
    """The session of the room, for the URIs of its outputs."""
    cell_id: str | None = None
    revision: str | None = None
    agent_key: str = ""
    """The key of that agent."""
    target: Target | None = None
    batch: Batch = field(default_factory=Batch)
    state: RunState = RunState.queued
    count: int | None = None
    """The execution count, once known."""
    error: CollaborationError | None = None
    """Why it did not finish, if that was not the code's own fault."""
    reason: str | None = None
    """Why it was cancelled."""
    missing: str | None = None
    """Why some of its output is missing, if some was lost on the way."""
    prompt: str | None = None
    """The code's question, while it waits for input."""
    timings: dict[str, str] = field(default_factory=dict)
    asked: float = field(default_factory=time.monotonic)
    started: float | None = None
    ended: float | None = None
    reply: Mapping[str, Any] | None = None
    """The kernel's reply to the request."""
    unwanted: bool = False
    """Whether to interrupt it when it begins: the kernel has it behind what others run."""
    idle: bool = False
    """Whether the kernel has reported that it is done with it."""
    heard: float = 0.0
    """When the kernel last reported something about it, before it was done."""
    interrupted: float | None = None
    """When it was last interrupted."""
    waiting_since: float = 0.0
    """When it started to wait for input."""
    writes: int = 0
    """How often its output has been written to its cell."""
    when_over: Callable[[Run], None] | None = None
    watchers: list[Callable[[], None]] = field(default_factory=list)
    """Called whenever its state or output has changed."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        return self.state in _ENDED

    @property
    def at_rest(self) -> bool:
        """Whether nothing will happen unless somebody acts."""
        return self.over or self.state is RunState.input_required

    @property
    def seconds(self) -> float:
        """How long it has run, or waited if it has not started."""
        now = time.monotonic() if self.ended is None else self.ended
        return now - (self.asked if self.started is None else self.started)

    def become(self, state: RunState) -> None:
        """Change the state and wake up everybody who waits."""
        self.state = state
        if state in _BEGUN and self.started is None:
            self.started = time.monotonic()
        if self.over:
            self.ended = time.monotonic()
            if self.when_over is not None:
                self.when_over(self)
        self._changed.set()
        self._changed = asyncio.Event()
        self.tell()

    def tell(self) -> None:
        """Tell those who watch it that it has changed."""
        for watcher in list(self.watchers):
            watcher()

    async def wait_settled(self, timeout: float) -> bool:
        """Wait until it is over or waits for input; returns False on a timeout."""
        return await self._until(lambda: self.at_rest, timeout)

    async def wait_finished(self, timeout: float) -> bool:
        """Wait until it is over; returns False on a timeout."""
        return await self._until(lambda: self.over, timeout)

    async def _until(self, condition: Callable[[], bool], timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return condition()
        return True

    def short_uri(self, index: int) -> str:
        """The short URI of one of its outputs, for an answer, where every character counts."""
        return RunOutput(self.id, index).format()

    def uri(self, index: int) -> str:
        """The full URI of one of its outputs, for the notebook: it names the notebook."""
        notebook = self.room_id.file_id
        if self.cell_id is None:
            return ExecutionOutput(self.session, notebook, self.id, index).format()
        return CellOutput(self.session, notebook, self.cell_id, index, self.id).format()


def new_run_id() -> str:
    return f"run-{secrets.token_hex(6)}"
