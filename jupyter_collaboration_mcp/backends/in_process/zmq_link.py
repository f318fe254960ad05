"""A link to a kernel of this machine, over its ZeroMQ sockets.

Not jupyter_client's KernelClient: that one polls, runs a heartbeat thread, parses every date, and
takes the manager's identity, so that two of them steal each other's replies (B14).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from logging import Logger
from typing import Any, Literal

import zmq
from jupyter_client.session import DELIM, Session

from ...errors import KernelUnavailable
from ..kernels.execute_request import execute_request
from ..kernels.kernel_work import UNKNOWN, KernelWork, language_of
from ..protocols.kernels import Fate, KernelMessage

#: Seconds of reading before others get their turn: a full queue would never yield by itself.
_TURN = 0.003

#: Bytes of a message from which on it is checked in a thread, where hashing frees the loop.
_LARGE = 200_000

#: Seconds that a kernel has to say anything; a fresh one imports a lot before it does.
_READY_LIMIT = 60.0

#: Seconds after which a kernel that says nothing, because it is busy, counts as connected.
_BUSY_LIMIT = 3.0

#: Seconds that a kernel that is heard has to say which language it speaks.
_INTRODUCTION = 1.0

#: Seconds between two requests for a sign of life.
_ASK_AGAIN = 0.25


_Channel = Literal["shell", "iopub", "stdin", "control"]
_CHANNELS: Mapping[_Channel, int] = {
    "iopub": zmq.SUB,
    "shell": zmq.DEALER,
    "stdin": zmq.DEALER,
    "control": zmq.DEALER,
}


class ZmqLink:
    """The sockets of one kernel process, until it dies or is restarted."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        manager: Any,
        kernel_id: str,
        exists: Callable[[], bool],
        log: Logger,
        *,
        busy: bool = False,
    ) -> None:
        self.kernel_id = kernel_id
        self.language: str | None = None
        self._work = KernelWork(busy)
        self._manager = manager
        self._exists = exists
        self._incarnation = _incarnation(manager)
        self._log = log
        self._session = Session(
            key=manager.session.key,
            signature_scheme=manager.session.signature_scheme,
            username="agent",
        )
        self._receiver: Callable[[KernelMessage], None] | None = None
        self._requests: set[str] = set()
        self._heard = asyncio.Event()  # on iopub, whose subscription may come later than the rest
        self._answered = False
        self._served = asyncio.Event()  # the first question on the shell, which is served in order
        self._introduced = asyncio.Event()
        self._ended: Fate | None = None
        self._input_header: dict[str, Any] = {}
        self._closed = False
        self._waits = False
        self._loop = asyncio.get_running_loop()
        self._sockets = {
            channel: _connected(context, manager, channel, self._session.bsession)
            for channel in _CHANNELS
        }
        for socket in self._sockets.values():
            self._loop.add_reader(socket.fileno(), self._drain)
        self._probe = self._ask("shell")

    @property
    def busy_with(self) -> str | None:
        return self._work.request

    async def ready(self) -> None:
        """Return when the kernel is heard: what it published before would be lost.

        Raises:
            KernelUnavailable: It died, or said nothing for a long time.
        """
        began = time.monotonic()
        while not self._heard.is_set():
            waited = time.monotonic() - began
            if (self.busy_with is not None or self._answered) and waited > _BUSY_LIMIT:
                return  # or it publishes nothing about requests on the control channel
            if await self.fate() != "alive":
                raise KernelUnavailable(
                    f"The kernel {self._manager.kernel_name} ended while it started.",
                    "Call list_kernels to see what is there, then run the cell again.",
                    kernel_id=self.kernel_id,
                )
            if waited > _READY_LIMIT:
                raise KernelUnavailable(
                    f"The kernel {self._manager.kernel_name} ({self.kernel_id}) does not answer.",
                    "Call restart_notebook_kernel.",
                    kernel_id=self.kernel_id,
                )
            # On the control channel, which is served while code runs; its status is published.
            # Not all kernels know the question there, and those that do not are asked on the shell.
            self._ask("control")
            if self.busy_with is None and waited > _ASK_AGAIN:
                self._ask("shell")
            try:
                await asyncio.wait_for(self._heard.wait(), _ASK_AGAIN)
            except TimeoutError:
                continue
        if self.busy_with == UNKNOWN:
            # The server's word may be about a process that has died or been restarted since.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._served.wait(), _INTRODUCTION)
        if self.busy_with is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._introduced.wait(), _INTRODUCTION)

    def _ask(self, channel: _Channel) -> str:
        request = self._send(channel, "kernel_info_request", {})
        self._requests.add(request)
        return request

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
        content = execute_request(code, silent, store_history, allow_stdin, user_expressions)
        request = self._send("shell", "execute_request", content)
        self._requests.add(request)
        return request

    def finish(self, request: str) -> None:
        pass  # what is said of it is passed on until it is forgotten

    def forget(self, request: str) -> None:
        self._requests.discard(request)

    def reply_to_input(self, text: str) -> None:
        self._session.send(
            self._sockets["stdin"], "input_reply", {"value": text}, parent=self._input_header
        )
        self._go_on_soon()

    async def fate(self) -> Fate:
        manager = self._manager
        if self._closed or not self._exists():
            return self._ended or "gone"
        if self._ended is not None:
            return self._ended
        alive = manager.is_alive()
        there = alive if isinstance(alive, bool) else await alive
        if there and _incarnation(manager) is self._incarnation:
            return "alive"
        self._drain()  # the process may have gone before its last words were read
        return self._ended or "died"  # by itself, unless it said that it was asked to end

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for socket in self._sockets.values():
            self._loop.remove_reader(socket.fileno())
            socket.close(linger=0)

    # -- reading -----------------------------------------------------------------------------

    def _send(self, channel: _Channel, kind: str, content: Mapping[str, Any]) -> str:
        message = self._session.send(self._sockets[channel], kind, dict(content))
        assert message is not None
        # Sending may use up the signal that there is something to read.
        self._go_on_soon()
        return str(message["header"]["msg_id"])

    def _drain(self) -> None:
        """Read what is there, for a turn. The descriptor tells of a change, not of a state."""
        if self._closed or self._waits:
            return
        until = time.perf_counter() + _TURN
        for channel, socket in self._sockets.items():
            while not self._closed:
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                try:
                    done = self._handle(channel, frames)
                except Exception:
                    self._log.exception("A message of kernel %s was lost", self.kernel_id)
                    done = True
                if not done:
                    return  # goes on when a large message has been read
                if time.perf_counter() > until:
                    self._go_on_soon()
                    return

    def _go_on_soon(self) -> None:
        """Read on in the next turn of the loop, and not before: once for each turn, not more."""
        if not self._waits:
            self._waits = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._waits = False
        self._drain()

    def _handle(self, channel: _Channel, frames: list[bytes]) -> bool:
        """Read one message; False if that happens elsewhere and the rest has to wait."""
        try:
            start = frames.index(DELIM) + 1
            signature, head, parent_head, metadata, content = frames[start : start + 5]
            header, parent = json.loads(head), json.loads(parent_head)
        except ValueError:
            self._log.warning("A message of kernel %s could not be read", self.kernel_id)
            return True
        self._answered = True
        if channel == "iopub":
            self._heard.set()
        kind, request = str(header.get("msg_type")), str(parent.get("msg_id"))
        signed = [head, parent_head, metadata, content]
        if channel == "iopub" and kind in ("status", "shutdown_reply"):
            # Ports are used again: what is heard may be another kernel than the one that died.
            if not self._genuine(signature, signed):
                self._log.warning("A message of kernel %s is not signed by it", self.kernel_id)
                return True
            if kind == "status":
                self._work.follow(request, parent, json.loads(content).get("execution_state"))
            else:
                self._ended = "restarted" if json.loads(content).get("restart") else "gone"
        elif channel == "shell" and request == self._probe:
            self._served.set()
            if self.busy_with == UNKNOWN:
                self._work.request = None  # what was before is over
        ours = request in self._requests
        if not ours and kind != "update_display_data":
            return True
        if len(content) < _LARGE:
            self._deliver(channel, header, parent, signature, signed)
            return True
        self._waits = True
        task = self._loop.create_task(self._read_large(channel, header, parent, signature, signed))
        task.add_done_callback(self._go_on)
        return False

    async def _read_large(
        self,
        channel: _Channel,
        header: dict[str, Any],
        parent: dict[str, Any],
        signature: bytes,
        signed: list[bytes],
    ) -> None:
        genuine = await asyncio.to_thread(self._genuine, signature, signed)
        content = await asyncio.to_thread(json.loads, signed[3])
        if genuine and not self._closed:
            self._pass_on(channel, header, parent, content, signed)

    def _go_on(self, task: asyncio.Task[None]) -> None:
        self._waits = False
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("A message of kernel %s was lost", self.kernel_id, exc_info=error)
        self._drain()

    def _deliver(
        self,
        channel: _Channel,
        header: dict[str, Any],
        parent: dict[str, Any],
        signature: bytes,
        signed: list[bytes],
    ) -> None:
        if not self._genuine(signature, signed):
            self._log.warning("A message of kernel %s is not signed by it", self.kernel_id)
            return
        try:
            content = json.loads(signed[3])
        except ValueError:
            self._log.warning("A message of kernel %s could not be read", self.kernel_id)
            return
        self._pass_on(channel, header, parent, content, signed)

    def _pass_on(
        self,
        channel: _Channel,
        header: dict[str, Any],
        parent: dict[str, Any],
        content: dict[str, Any],
        signed: list[bytes],
    ) -> None:
        kind = str(header.get("msg_type"))
        if kind == "kernel_info_reply":
            self.language = language_of(content)
            self._introduced.set()
            return
        if kind == "input_request":
            self._input_header = header
        if self._receiver is None:
            return
        try:
            self._receiver(
                KernelMessage(
                    channel,
                    kind,
                    str(parent.get("msg_id")),
                    str(header.get("date") or ""),
                    content,
                    {} if signed[2] == b"{}" else json.loads(signed[2]),
                    len(signed[3]),
                )
            )
        except Exception:
            self._log.exception("A %s message of kernel %s was lost", kind, self.kernel_id)

    def _genuine(self, signature: bytes, signed: list[bytes]) -> bool:
        if not self._session.key:
            return True
        return hmac.compare_digest(self._session.sign(signed), signature)


def _connected(
    context: zmq.Context[zmq.Socket[bytes]], manager: Any, channel: _Channel, identity: bytes
) -> zmq.Socket[bytes]:
    socket = context.socket(_CHANNELS[channel])
    socket.linger = 0
    socket.identity = identity
    if getattr(manager, "curve_publickey", None) is not None:
        socket.curve_secretkey = manager.curve_secretkey
        socket.curve_publickey = manager.curve_publickey
        socket.curve_serverkey = manager.curve_publickey
    if channel == "iopub":
        # A kernel drops what a subscriber has no room for: output would be lost without a word.
        socket.rcvhwm = 0
        socket.subscribe(b"")
    socket.connect(manager._make_url(channel))
    return socket


def _incarnation(manager: Any) -> object:
    """Something that is another one after a restart."""
    provisioner = getattr(manager, "provisioner", None)
    process = getattr(provisioner, "process", None)
    return process if process is not None else getattr(provisioner, "pid", None)
