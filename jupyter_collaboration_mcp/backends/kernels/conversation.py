"""The conversation with one kernel, over any wire.

This does not use jupyter_client's KernelClient: that one polls, runs a heartbeat thread, parses
every date, and takes the manager's identity, so that two of them steal each other's replies (B14).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from logging import Logger
from typing import Any

from ..protocols.kernels import Channel, Fate, KernelMessage
from .errors import does_not_answer, ended_early
from .recovery import Recovery
from .requests import Requests, execute_request, utc_now
from .wire import IncomingMessage, OutgoingMessage, Wire

#: Bytes from which on a message is read in a thread, where hashing frees the loop.
_LARGE = 200_000

#: Seconds that a kernel has to send anything; a fresh one imports a lot first.
_READY_LIMIT = 60.0

#: Seconds after which a kernel that is silent because it is busy counts as connected.
_BUSY_LIMIT = 3.0

#: Seconds that a responsive kernel has to report its language.
_INTRODUCTION = 1.0

#: Seconds between two requests for a sign of life.
_ASK_AGAIN = 0.25


class KernelConversation:
    """A link to one kernel process, until it ends or is restarted.

    Args:
        wire: Carries the messages.
        kernel_id: The kernel's id.
        log: For receivers that fail.
        label: How errors name the kernel.
    """

    def __init__(self, wire: Wire, kernel_id: str, log: Logger, *, label: str = "") -> None:
        self.kernel_id = kernel_id
        self.language: str | None = None
        self._wire = wire
        self._label = label or kernel_id
        self._deadline = 0.0
        self._session = ""
        self._work = KernelWork()
        self._doubt: str | None = None  # work that may have ended before we listened
        self._requests = Requests(kernel_id, log)
        self._questions: set[str] = set()
        self._probe = ""  # the question on the shell channel, which is served in order
        self._recovery = Recovery(self._requests, self._ask_aside) if wire.lossy else None
        self._input_header: Mapping[str, Any] = {}
        self._heard = asyncio.Event()  # on iopub, whose subscription may come later than the rest
        self._answered = False  # on any other channel
        self._served = asyncio.Event()  # whether the probe was answered
        self._introduced = asyncio.Event()
        self._closed = False

    @property
    def busy_with(self) -> str | None:
        return self._work.request

    @property
    def over(self) -> bool:
        """Whether it is certain, without asking, that no more messages will come."""
        return self._closed or self._wire.over

    # -- beginning and end -------------------------------------------------------------------

    async def open(self, *, fresh: bool = False) -> None:
        """Connect, and return when the kernel is heard: anything sent earlier would be lost.

        Args:
            fresh: Whether the kernel has just been started, so nothing can keep it from answering.

        Raises:
            KernelUnavailable: It is gone, ended, or was silent for a long time.
            ServerError: The server cannot be reached, or refuses.
        """
        try:
            await self.connect()
            await self.ready(fresh=fresh)
        except BaseException:
            await self.close()
            raise

    async def connect(self) -> None:
        """The first half of `open`: from here on, messages arrive if the kernel sends any."""
        self._deadline = time.monotonic() + _READY_LIMIT
        await self._wire.open(self, self._deadline)
        self._session = self._wire.session
        self._ask_in_order()
        if await self._wire.says_busy() and not self._served.is_set():
            # Work that began before the link was made has no known id.
            self._work.request = self._doubt = self.busy_with or UNKNOWN

    async def ready(self, *, fresh: bool = False) -> None:
        """The second half of `open`: return when the kernel is heard."""
        began = time.monotonic()
        awaited = self._served if fresh else self._heard
        while not awaited.is_set():
            now = time.monotonic()
            if not fresh and now - began > _BUSY_LIMIT and self._is_silent_for_a_reason():
                return
            if await self.fate() != "alive":
                raise ended_early(self._label, self.kernel_id)
            if now > self._deadline:
                raise does_not_answer(self._label, self.kernel_id)
            self._ask_aside()
            if self.busy_with is None and now - began > _ASK_AGAIN:
                self._ask("shell")  # not all kernels answer this on the control channel
            await _wait(awaited, _ASK_AGAIN)
        if self.busy_with is not None and self.busy_with == self._doubt:
            # The server's report may be about a process that has died or been restarted since.
            await _wait(self._served, _INTRODUCTION)
        if self.busy_with is None:
            await _wait(self._introduced, _INTRODUCTION)

    def _is_silent_for_a_reason(self) -> bool:
        """Whether it is busy, or publishes nothing about requests on the control channel."""
        return self.busy_with is not None or self._answered

    async def fate(self) -> Fate:
        return await self._wire.fate()

    async def close(self) -> None:
        self._closed = True
        if self._recovery is not None:
            self._recovery.stop()
        await self._wire.close()

    # -- sending -----------------------------------------------------------------------------

    def execute(
        self,
        code: str,
        *,
        silent: bool = False,
        store_history: bool = True,
        allow_stdin: bool = True,
        user_expressions: Mapping[str, str] | None = None,
    ) -> str:
        content = execute_request(
            code,
            silent=silent,
            store_history=store_history,
            allow_stdin=allow_stdin,
            user_expressions=user_expressions,
        )
        request = self._send("shell", "execute_request", content)
        self._requests.add(request)
        return request

    def reply_to_input(self, text: str) -> None:
        self._send("stdin", "input_reply", {"value": text}, self._input_header)

    def finish(self, request: str) -> None:
        self._requests.finish(request)

    def forget(self, request: str) -> None:
        self._requests.forget(request)

    def _send(
        self,
        channel: Channel,
        kind: str,
        content: Mapping[str, Any],
        parent: Mapping[str, Any] | None = None,
        *,
        first: bool = False,
    ) -> str:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "session": self._wire.session,
            "username": "agent",
            "date": utc_now(),
            "version": "5.3",
        }
        self._wire.send(OutgoingMessage(channel, header, parent or {}, content), first=first)
        return header["msg_id"]

    def _ask(self, channel: Channel, *, first: bool = False) -> str:
        request = self._send(channel, "kernel_info_request", {}, first=first)
        self._questions.add(request)
        return request

    def _ask_aside(self) -> None:
        """Ask on the control channel, which is served while code runs; its status is published."""
        self._ask("control")

    def _ask_in_order(self, *, first: bool = False) -> None:
        """Ask on the shell channel: its answer means that all earlier requests are over."""
        self._probe = self._ask("shell", first=first)

    # -- receiving ---------------------------------------------------------------------------

    def listen(self, receiver: Callable[[KernelMessage], None]) -> None:
        self._requests.listen(receiver)

    def receive(self, message: IncomingMessage) -> Coroutine[Any, Any, None] | None:
        """Handle a message. If it belongs to somebody else, only its headers are read."""
        kind, request = message.kind, message.request
        if self._recovery is not None and not self._is_from_server(message):
            self._recovery.count(message)
        if message.channel != "iopub":
            self._answered = True
        else:
            if not self._heard.is_set() and (
                request in self._questions or not self._is_from_server(message)
            ):
                self._heard.set()
            if kind == "status":
                self._follow(message)
            elif kind == "shutdown_reply":
                self._wire.end("restarted" if message.content().get("restart") else "gone")
        if kind == "kernel_info_reply" and request in self._questions:
            self._introduce(message)
            return None
        # Our own question produces no output; a thread does, in its name.
        ours = request in self._requests.by_id or (request in self._questions and kind != "status")
        if not ours and kind != "update_display_data":
            return None
        if message.size >= _LARGE:
            return self._deliver_large(message)
        self._deliver(message)
        return None

    def _is_from_server(self, message: IncomingMessage) -> bool:
        """Whether the Jupyter server may have written it: it does so in our name."""
        return message.header.get("session") == self._session

    def _follow(self, message: IncomingMessage) -> None:
        state = message.content().get("execution_state")
        if state in ("restarting", "dead"):
            self._wire.end("died")  # the server reports this only if nobody requested it
        else:
            self._work.follow(message.request, message.parent, state)

    def _introduce(self, message: IncomingMessage) -> None:
        self.language = language_of(message.content())
        self._introduced.set()
        if message.request != self._probe:
            return
        self._served.set()
        if self.busy_with == self._doubt:
            self._work.request = None
        if self._recovery is not None:
            self._recovery.on_answer()

    async def _deliver_large(self, message: IncomingMessage) -> None:
        await asyncio.to_thread(message.content)
        if not self._closed:
            self._deliver(message)

    def _deliver(self, message: IncomingMessage) -> None:
        content = message.content()
        if message.kind == "input_request":
            self._input_header = message.header
        self._requests.deliver(
            KernelMessage(
                message.channel,
                message.kind,
                message.request,
                str(message.header.get("date") or ""),
                content,
                message.metadata(),
                message.size,
            )
        )

    # -- what the wire reports besides messages ----------------------------------------------

    def on_sent(self, message_id: str) -> None:
        self._requests.on_sent(message_id)

    def on_reconnected(self, seconds: float) -> None:
        self._doubt = self.busy_with
        self._ask_in_order(first=True)
        if self._recovery is not None:
            self._recovery.on_reconnected(seconds)

    def on_server_state(self, state: str) -> None:
        if self._recovery is not None:
            self._recovery.compare(state)

    def note(self, text: str) -> None:
        self._requests.note(text)

    def on_ended(self) -> None:
        self._work.request = None
        if self._recovery is not None:
            self._recovery.stop()


#: The value of `busy_with` when the kernel works on something that began before we listened.
UNKNOWN = "unknown"


class KernelWork:
    """What a kernel works on, according to the states that it publishes."""

    def __init__(self) -> None:
        self.request: str | None = None
        """The request that it is running: its id, or `UNKNOWN`."""

    def follow(self, request: str, parent: Mapping[str, Any], state: object) -> None:
        """Handle a state; questions about the kernel itself do not count as work."""
        ran = parent.get("msg_type") == "execute_request"
        if state == "busy" and ran:
            self.request = request
        elif state == "idle" and (self.request == request or (self.request == UNKNOWN and ran)):
            self.request = None


def language_of(information: Mapping[str, Any]) -> str | None:
    """The language that a kernel reports."""
    name = (information.get("language_info") or {}).get("name")
    return str(name) if name else None


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, with a time limit."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
