"""The ZeroMQ sockets of a kernel on this machine."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections.abc import Callable, Coroutine, Mapping
from logging import Logger
from typing import Any

import zmq
from jupyter_client.session import DELIM, Session

from ...owned_tasks import OwnedTasks
from ..kernels.wire import IncomingMessage, Listener, OutgoingMessage
from ..protocols.kernels import Channel, Fate

#: Seconds of reading before others get their turn: a full queue would never yield by itself.
_TURN = 0.003

_CHANNELS: Mapping[Channel, int] = {
    "iopub": zmq.SUB,
    "shell": zmq.DEALER,
    "stdin": zmq.DEALER,
    "control": zmq.DEALER,
}


class ZmqWire:
    """The sockets of one kernel process, until it dies or is restarted.

    Args:
        context: Makes the sockets.
        manager: The kernel's manager in the Jupyter server.
        kernel_id: The kernel's id, for the log.
        exists: Whether the server still has that kernel.
        log: For messages that cannot be read.
        busy: Whether the server reports that the kernel is busy.
    """

    lossy = False

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
        self._context = context
        self._manager = manager
        self._kernel_id = kernel_id
        self._exists = exists
        self._log = log
        self._busy = busy
        self._incarnation = _incarnation(manager)
        # Its own name, not the manager's: the kernel addresses replies to a name (B14).
        self._session = Session(
            key=manager.session.key,
            signature_scheme=manager.session.signature_scheme,
            username="agent",
        )
        self._sign: Sign | None = self._session.sign if self._session.key else None
        self._listener: Listener | None = None
        self._loop = asyncio.get_running_loop()
        self._sockets: dict[Channel, zmq.Socket[bytes]] = {}
        self._tasks = OwnedTasks()
        self._waits = False
        self._ended: Fate | None = None
        self._closed = False

    @property
    def session(self) -> str:
        return str(self._session.session)

    @property
    def over(self) -> bool:
        return self._closed or not self._exists()

    async def open(self, listener: Listener, deadline: float) -> None:
        self._listener = listener
        for channel in _CHANNELS:
            self._sockets[channel] = self._connect(channel)
        for socket in self._sockets.values():
            self._loop.add_reader(socket.fileno(), self._drain)

    async def says_busy(self) -> bool:
        return self._busy

    def send(self, message: OutgoingMessage, *, first: bool = False) -> None:
        parts: dict[str, Any] = {
            "header": dict(message.header),
            "parent_header": dict(message.parent),
            "metadata": {},
            "content": dict(message.content),
        }
        self._session.send(self._sockets[message.channel], parts)
        # Sending may consume the signal that there is something to read.
        self._go_on_soon()

    def end(self, fate: Fate) -> None:
        self._ended = fate

    async def fate(self) -> Fate:
        if self._closed or not self._exists():
            return self._ended or "gone"
        if self._ended is not None:
            return self._ended
        alive = self._manager.is_alive()
        there = alive if isinstance(alive, bool) else await alive
        if there and _incarnation(self._manager) is self._incarnation:
            return "alive"
        self._drain()  # the process may have ended before its last messages were read
        return self._ended or "died"  # by itself, unless it reported that it was shut down

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for socket in self._sockets.values():
            self._loop.remove_reader(socket.fileno())
            socket.close(linger=0)
        await self._tasks.close()

    def _connect(self, channel: Channel) -> zmq.Socket[bytes]:
        manager = self._manager
        socket = self._context.socket(_CHANNELS[channel])
        socket.linger = 0
        # A kernel drops the question of input() as long as stdin is not connected. Each socket
        # tries by itself until the kernel is there, every 100 ms if nothing else is said.
        socket.reconnect_ivl = 10
        socket.identity = self._session.bsession
        if getattr(manager, "curve_publickey", None) is not None:
            socket.curve_secretkey = manager.curve_secretkey
            socket.curve_publickey = manager.curve_publickey
            socket.curve_serverkey = manager.curve_publickey
        if channel == "iopub":
            # A kernel drops what a subscriber has no room for: output would be lost silently.
            socket.rcvhwm = 0
            socket.subscribe(b"")
        socket.connect(manager._make_url(channel))
        return socket

    # -- reading -----------------------------------------------------------------------------

    def _drain(self) -> None:
        """Read what is there, for one turn. The descriptor signals a change, not a state."""
        if self._closed or self._waits or self._listener is None:
            return
        receive = self._listener.receive
        until = time.perf_counter() + _TURN
        for channel, socket in self._sockets.items():
            while not self._closed:
                try:
                    frames = socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    break
                try:
                    rest = receive(SignedMessage(channel, frames, self._sign))
                except Exception as error:
                    self._log_lost(error)
                else:
                    if rest is not None:
                        self._go_on_after(rest)
                        return
                if time.perf_counter() > until:
                    self._go_on_soon()
                    return

    def _go_on_soon(self) -> None:
        """Continue reading in the next turn of the loop: once per turn, not more."""
        if not self._waits:
            self._waits = True
            self._loop.call_soon(self._go_on)

    def _go_on_after(self, rest: Coroutine[Any, Any, None]) -> None:
        """Continue reading when the listener is done with a message."""
        self._waits = True
        self._tasks.start(rest).add_done_callback(self._on_taken)

    def _on_taken(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log_lost(error)
        self._go_on()

    def _go_on(self) -> None:
        self._waits = False
        self._drain()

    def _log_lost(self, error: BaseException) -> None:
        # A malformed message is the kernel's fault; anything else is ours.
        trace = None if isinstance(error, ValueError) else error
        self._log.warning("Lost a message of kernel %s: %s", self._kernel_id, error, exc_info=trace)


Sign = Callable[[list[bytes]], bytes]
"""The signature of the parts of a message, with the kernel's key."""


class SignedMessage(IncomingMessage):
    """A message in ZeroMQ frames. Reading its content checks its signature.

    Ports are reused: a message may come from another kernel than the one that died.

    Args:
        sign: None if the kernel does not sign its messages.

    Raises:
        ValueError: It is not a message.
    """

    __slots__ = ("_parts", "_sign")

    def __init__(self, channel: Channel, frames: list[bytes], sign: Sign | None) -> None:
        start = frames.index(DELIM) + 1
        _signature, header, parent, _metadata, content = parts = frames[start : start + 5]
        super().__init__(channel, _parse(header), _parse(parent), len(content))
        self._parts = parts
        self._sign = sign

    def metadata(self) -> Mapping[str, Any]:
        return _mapping(self._parts[3])

    def _read_content(self) -> Mapping[str, Any]:
        if self._sign is not None:
            signature, *signed = self._parts
            if not hmac.compare_digest(self._sign(signed), signature):
                raise ValueError("it is not signed by the kernel")
        return _mapping(self._parts[4])


_decode = json.JSONDecoder().decode


def _parse(part: bytes) -> Any:
    # Kernels send UTF-8. `json.loads` would guess the encoding of each part first, which takes
    # longer than to parse a header; and the headers of other people's messages are read, too.
    return _decode(part.decode(errors="surrogatepass"))


def _mapping(part: bytes) -> Mapping[str, Any]:
    value = {} if part == b"{}" else _parse(part)
    if not isinstance(value, dict):
        raise ValueError("a part of it is not a JSON object")
    return value


def _incarnation(manager: Any) -> object:
    """An object that is another one after a restart."""
    provisioner = getattr(manager, "provisioner", None)
    process = getattr(provisioner, "process", None)
    return process if process is not None else getattr(provisioner, "pid", None)
