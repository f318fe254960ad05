"""A link to a kernel of another machine, over a WebSocket of its Jupyter server.

A network that is cut is not a kernel that is dead. The link comes back under its own name, and
the server has kept for it what the kernel said meanwhile, unless somebody else is connected to
the kernel too, and except for what it wrote before it noticed the cut: that is lost, and said to
be. What the server cannot tell, because it is not reached, is waited for as long as the grace
time; then the kernel counts as gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import Logger
from typing import Any, NamedTuple

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.typing import Subprotocol

from ...documents.foreign_text import words
from ...errors import KernelUnavailable, ServerError, ServerUnreachable, TokenRefused
from ..kernels.execute_request import execute_request
from ..kernels.kernel_work import UNKNOWN, KernelWork, language_of
from ..protocols.kernels import OUTPUT_MISSING, Fate, KernelMessage
from .jupyter_api import JupyterApi
from .kernel_frames import PARTS_APART, Channel, Frame, read_frame, write_frame
from .message_numbers import MessageNumbers
from .rate_limit import dropped_output
from .server_errors import Refused

#: Seconds without the server, after which its kernels count as gone.
GRACE = 30.0

#: Seconds of reading before others get their turn: a full queue would never yield by itself.
_TURN = 0.003

#: Bytes of a frame from which on it is read in a thread.
_LARGE = 200_000

#: Seconds that a kernel has to say anything; a fresh one imports a lot before it does.
_READY_LIMIT = 60.0

#: Seconds after which a kernel that says nothing, because it is busy, counts as connected.
_BUSY_LIMIT = 3.0

#: Seconds that a kernel that is heard has to say which language it speaks.
_INTRODUCTION = 1.0

#: Seconds between two requests for a sign of life.
_ASK_AGAIN = 0.25

#: Seconds between two looks at what the server knows of the kernel, and for one of them.
_LOOK_AGAIN, _LOOK_LIMIT = 1.0, 5.0

#: Seconds before the first and, growing, the last attempts to come back.
_COME_BACK, _COME_BACK_SLOWLY = 0.1, 2.0

#: Seconds that messages of one channel may come later than those of another.
_LATE = 1.0

#: Seconds for a polite end of a connection.
_FAREWELL = 1.0


@dataclass(slots=True)
class _Request:
    """How far a request to run code has come."""

    sent: bool = False
    replied: bool = False
    idle: bool = False

    @property
    def open(self) -> bool:
        return self.sent and not (self.replied and self.idle)


class _Letter(NamedTuple):
    """A message on its way to the kernel."""

    channel: Channel
    header: Mapping[str, Any]
    parent: Mapping[str, Any]
    content: Mapping[str, Any]


class KernelSocket:
    """All channels of one kernel process in one WebSocket, until it ends or is restarted."""

    def __init__(
        self, api: JupyterApi, kernel_id: str, log: Logger, *, grace: float = GRACE
    ) -> None:
        self.kernel_id = kernel_id
        self.language: str | None = None
        self._work = KernelWork()
        self._api = api
        self._log = log
        self._grace = grace
        # The server keeps what is missed for the one who comes back under the same name.
        self._session = uuid.uuid4().hex
        self._receiver: Callable[[KernelMessage], None] | None = None
        self._requests: dict[str, _Request] = {}
        self._questions: set[str] = set()
        self._suspected = False  # to be another process than the one that runs what is open
        self._input_header: Mapping[str, Any] = {}
        self._connection: ClientConnection | None = None
        self._outbox: deque[_Letter] = deque()
        self._to_send = asyncio.Event()
        self._connected = False
        self._heard = asyncio.Event()  # on iopub, whose subscription may come later than the rest
        self._served = asyncio.Event()  # a question on the shell, which is served in order
        self._introduced = asyncio.Event()
        self._process = ""  # the name under which the kernel speaks, another one after a restart
        self._numbers = MessageNumbers()
        self._away: float | None = None  # seconds of a cut, until it is known what was missed
        self._probe = ""
        self._doubt: str | None = None
        self._uncertain: list[str] = []
        self._settling: asyncio.TimerHandle | None = None
        self._ended: Fate | None = None
        self._closed = False
        self._silent_since: float | None = None
        self._looked = 0.0
        self._may_look = True
        self._looking: asyncio.Task[None] | None = None
        self._living: asyncio.Task[None] | None = None

    @property
    def busy_with(self) -> str | None:
        return self._work.request

    @property
    def over(self) -> bool:
        """Whether no message will come any more."""
        return self._closed or self._ended is not None

    async def open(self, *, fresh: bool = False) -> None:
        """Connect, and return when the kernel is heard: what it said before would be lost.

        Args:
            fresh: The kernel has just been started, so nothing can keep it from answering.

        Raises:
            KernelUnavailable: It is gone, ended, or said nothing for a long time.
            ServerError: The server cannot be reached, or refuses.
        """
        deadline = time.monotonic() + _READY_LIMIT
        self._connection = await self._enter(deadline)
        self._connected = True
        self._living = asyncio.get_running_loop().create_task(self._live(self._connection))
        self._ask_in_order()
        if (await self._model())["execution_state"] == "busy" and not self._served.is_set():
            # What it works on when the link is made has begun before, and is known by no name.
            self._work.request = self.busy_with or UNKNOWN
            self._doubt = self.busy_with
        await self._hear(deadline, fresh)

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
        self._requests[request] = _Request()
        return request

    def finish(self, request: str) -> None:
        if (asked := self._requests.get(request)) is not None:
            asked.replied = asked.idle = True  # or the end was given up waiting for

    def forget(self, request: str) -> None:
        self._requests.pop(request, None)

    def reply_to_input(self, text: str) -> None:
        self._send("stdin", "input_reply", {"value": text}, self._input_header)

    async def fate(self) -> Fate:
        if not self.over and self._connected:
            self._look_soon()
            if self._silent_since is not None and self._silence() > self._grace:
                self._give_up_on_server()
        return self._ended or ("gone" if self._closed else "alive")

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._settling is not None:
            self._settling.cancel()
        tasks = [task for task in (self._living, self._looking) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._hang_up()

    # -- coming in ---------------------------------------------------------------------------

    async def _enter(self, deadline: float) -> ClientConnection:
        """Connect for the first time.

        The server lets nobody in before the kernel has answered it, which may take longer than
        a connection should, so it is asked meanwhile whether there still is a kernel to wait for.
        """
        await self._model()
        while True:
            # Under a new name: the server may yet take up an attempt that was given up here.
            self._session = uuid.uuid4().hex
            opening = asyncio.get_running_loop().create_task(self._connect())
            try:
                while not opening.done():
                    await asyncio.wait([opening], timeout=_LOOK_AGAIN)
                    if not opening.done():
                        await self._model(was_there=True)
                return opening.result()
            except Refused as error:
                raise self._refused(error, was_there=True) from error
            except ServerUnreachable as error:
                await _undo(opening)  # it may have been the question beside it that failed
                await self._model(was_there=True)  # says it better, if nothing can be reached
                if time.monotonic() > deadline:
                    raise self._does_not_answer() from error
                await asyncio.sleep(_LOOK_AGAIN)
            except BaseException:
                await _undo(opening)
                raise

    async def _connect(self) -> ClientConnection:
        return await self._api.websocket(
            "api",
            "kernels",
            self.kernel_id,
            "channels",
            subprotocol=Subprotocol(PARTS_APART),
            session_id=self._session,
        )

    async def _hear(self, deadline: float, fresh: bool) -> None:
        began = time.monotonic()
        awaited = self._served if fresh else self._heard
        while not awaited.is_set():
            if self.over:
                raise self._ended_early()
            waited = time.monotonic() - began
            if not fresh and waited > _BUSY_LIMIT and self.busy_with is not None:
                return  # or it publishes nothing about requests on the control channel
            if time.monotonic() > deadline:
                raise self._does_not_answer()
            # On the control channel, which is served while code runs; its status is published.
            self._ask("control")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(awaited.wait(), _ASK_AGAIN)
        if self.busy_with is not None and self.busy_with == self._doubt:
            # The server's word may be about a process that has died or been restarted since.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._served.wait(), _INTRODUCTION)
        if self.busy_with is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._introduced.wait(), _INTRODUCTION)

    async def _model(self, was_there: bool = False) -> Mapping[str, Any]:
        """What the server knows of the kernel, which may have been there a moment ago.

        Raises:
            KernelUnavailable: It is gone, or the server does not tell.
        """
        try:
            model = await self._api.get("api", "kernels", self.kernel_id)
        except Refused as error:
            raise self._refused(error, was_there) from error
        with self._api.understood("a kernel"):
            return {"execution_state": "unknown", "connections": 0, **model}

    def _refused(self, error: Refused, was_there: bool) -> KernelUnavailable:
        if error.status == 404 and was_there:
            return self._ended_early()
        if error.status == 404:
            return KernelUnavailable(
                f"The kernel {self.kernel_id} is gone.",
                "Run the cell again: a new kernel is started.",
                kernel_id=self.kernel_id,
            )
        return KernelUnavailable(
            f"The Jupyter server does not give access to the kernel {self.kernel_id}: {error}.",
            "Call restart_notebook_kernel; its variables are lost.",
            kernel_id=self.kernel_id,
        )

    def _ended_early(self) -> KernelUnavailable:
        return KernelUnavailable(
            f"The kernel {self.kernel_id} ended while it started.",
            "Call list_kernels to see what is there, then run the cell again.",
            kernel_id=self.kernel_id,
        )

    def _does_not_answer(self) -> KernelUnavailable:
        return KernelUnavailable(
            f"The kernel {self.kernel_id} does not answer.",
            "Call restart_notebook_kernel.",
            kernel_id=self.kernel_id,
        )

    # -- one connection after another --------------------------------------------------------

    async def _live(self, connection: ClientConnection) -> None:
        try:
            while True:
                await self._serve(connection)
                if self._ended is not None:
                    return
                self._connected = False
                self._silent_since = self._silent_since or time.monotonic()
                again = await self._come_back()
                if again is None:
                    return
                connection = self._connection = again
                self._connected = True
                self._resume()
        except Exception:
            self._log.exception("The link to kernel %s broke", self.kernel_id)
            self._end("gone")
        finally:
            self._connected = False
            await self._hang_up()

    async def _hang_up(self) -> None:
        if self._connection is not None:
            await _shut(self._connection)

    async def _serve(self, connection: ClientConnection) -> None:
        """Send and receive until the connection or the kernel ends."""
        apart = connection.subprotocol == PARTS_APART
        writing = asyncio.get_running_loop().create_task(self._write(connection, apart))
        try:
            await self._read(connection, apart)
        except ConnectionClosed as error:
            self._log.info("The connection to kernel %s was cut: %s", self.kernel_id, words(error))
        finally:
            writing.cancel()
            await asyncio.wait([writing])
            await self._hang_up()

    async def _write(self, connection: ClientConnection, apart: bool) -> None:
        while True:
            await self._to_send.wait()
            self._to_send.clear()
            while self._outbox:
                if connection.state is not State.OPEN:
                    return  # what is not sent yet waits for the next connection
                letter = self._outbox.popleft()
                # From here on it may have arrived, and code must not be run twice.
                if (asked := self._requests.get(str(letter.header["msg_id"]))) is not None:
                    asked.sent = True
                try:
                    await connection.send(write_frame(*letter, apart))
                except ConnectionClosed:
                    if letter.channel == "stdin":  # a kernel takes one answer and drops another
                        self._outbox.appendleft(letter)

    async def _come_back(self) -> ClientConnection | None:
        """A new connection under the same name; None if there is no point in it any more."""
        pause = _COME_BACK
        while (left := self._grace - self._silence()) > 0:
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _COME_BACK_SLOWLY)
            try:
                async with asyncio.timeout(max(0.0, self._grace - self._silence())):
                    return await self._connect()
            except Refused as error:
                if error.status == 404:
                    self._end("gone")
                    return None
            except TokenRefused as error:
                self._note(f"The Jupyter server lets us in no longer: {error.happened}")
                self._end("unreachable")
                return None
            except (ServerError, TimeoutError) as error:
                self._log.debug("The kernel %s is not reached: %s", self.kernel_id, error)
        self._give_up_on_server()
        return None

    def _resume(self) -> None:
        """Find out what was missed; nothing has been read from the new connection yet."""
        away = self._silence()
        self._contact()
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        self._uncertain = [key for key, request in self._requests.items() if request.open]
        self._doubt = self.busy_with
        self._ask_in_order(first=True)
        if self._uncertain:
            self._away = away
            asyncio.get_running_loop().call_later(_ASK_AGAIN, self._ask_what_is_missing)

    def _ask_what_is_missing(self) -> None:
        """Have a silent kernel say something, on the channel that is served while code runs."""
        if self._away is not None and not self.over:
            self._ask("control")

    def _count(self, frame: Frame) -> None:
        """Say that something is missing, if the first message after a cut is not the next one."""
        if frame.header.get("session") == self._session:
            return  # the server speaks for itself, in our name
        missing = self._numbers.take(frame.header)
        if self._away is None:
            return
        away, self._away = self._away, None
        if missing and self._ends_unanswered(frame):
            missing -= 1  # a reply, which comes on another channel
        if missing != 0:
            self._note(
                f"The connection to the kernel was cut for {away:.1f} s while this ran; "
                "what it put out in that time may be missing here."
            )

    def _ends_unanswered(self, frame: Frame) -> bool:
        request = self._requests.get(frame.request)
        return (
            request is not None
            and not request.replied
            and frame.kind == "status"
            and frame.content().get("execution_state") == "idle"
        )

    def _settle(self) -> None:
        """Requests that must be over by now, but whose end was not heard, end here."""
        self._settling = None
        for key in self._uncertain:
            request = self._requests.get(key)
            if self.over or request is None or not request.open:
                continue
            said = (
                "The connection to the kernel was cut while this ran, and what the kernel said "
                "of its end is lost. Whether it ran to its end is not known."
            )
            if not request.replied:
                name = "ConnectionCut"
                failed = {"ename": name, "evalue": said, "traceback": [f"{name}: {said}"]}
                self._tell("iopub", "error", key, failed)
                self._tell("shell", "execute_reply", key, {"status": "error", **failed})
            if not request.idle:
                self._tell("iopub", "status", key, {"execution_state": "idle"})
        self._uncertain = []

    # -- what became of the kernel -----------------------------------------------------------

    def _end(self, fate: Fate) -> None:
        if self._ended is None:
            self._ended = fate
            self._work.request = None
        living = self._living
        if living is not None and living is not asyncio.current_task():
            living.cancel()

    def _give_up_on_server(self) -> None:
        self._end("unreachable")

    def _contact(self) -> None:
        self._silent_since = None

    def _silence(self) -> float:
        """Seconds since the server was found to be away."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def _look_soon(self) -> None:
        """Ask the server about the kernel, not too often: the socket tells most, and sooner."""
        now = time.monotonic()
        if not self._may_look or now - self._looked < _LOOK_AGAIN:
            return
        if self._looking is None or self._looking.done():
            self._looked = now
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def _look(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(_LOOK_LIMIT):
                model = dict(await self._api.get("api", "kernels", self.kernel_id))
        except Refused as error:
            if error.status == 404:
                self._end("gone")
        except TokenRefused:
            self._may_look = False  # the socket is open all the same
        except (ServerError, TimeoutError):
            self._silent_since = self._silent_since or began
        except Exception:
            self._log.exception("The kernel %s could not be looked at", self.kernel_id)
        else:
            self._contact()
            state, open_requests = model.get("execution_state"), self._requests.values()
            if state == "dead":
                self._end("died")
            elif state != "busy" and any(request.open for request in open_requests):
                # It may be another process by now, of which nothing was heard yet; or the server
                # has not heard of the request yet, and says something else the next time.
                if self._suspected:
                    self._ask("control")
                self._suspected = True
            else:
                self._suspected = False

    # -- sending -----------------------------------------------------------------------------

    def _send(
        self,
        channel: Channel,
        kind: str,
        content: Mapping[str, Any],
        parent: Mapping[str, Any] | None = None,
        first: bool = False,
    ) -> str:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "session": self._session,
            "username": "agent",
            "date": _now(),
            "version": "5.3",
        }
        letter = _Letter(channel, header, parent or {}, content)
        if first:
            self._outbox.appendleft(letter)
        else:
            self._outbox.append(letter)
        self._to_send.set()
        return header["msg_id"]

    def _ask(self, channel: Channel, first: bool = False) -> str:
        request = self._send(channel, "kernel_info_request", {}, first=first)
        self._questions.add(request)
        return request

    def _ask_in_order(self, first: bool = False) -> None:
        """Ask on the shell: when that is answered, all that was asked before is over."""
        self._probe = self._ask("shell", first)

    # -- reading -----------------------------------------------------------------------------

    async def _read(self, connection: ClientConnection, apart: bool) -> None:
        acknowledge = _acknowledger(connection)
        until = time.perf_counter() + _TURN
        while self._ended is None:
            data = await connection.recv(decode=False)
            acknowledge()
            self._contact()
            try:
                if apart or len(data) < _LARGE:
                    frame = read_frame(data, apart)
                else:
                    frame = await asyncio.to_thread(read_frame, data, apart)
                await self._handle(frame)
            except Exception:
                self._log.exception("A message of kernel %s was lost", self.kernel_id)
            if time.perf_counter() > until:
                await asyncio.sleep(0)
                until = time.perf_counter() + _TURN

    async def _handle(self, frame: Frame) -> None:
        kind, request = frame.kind, frame.request
        self._count(frame)
        if frame.channel == "iopub":
            if request in self._questions:
                self._heard.set()
            if kind in ("status", "iopub_welcome"):
                self._recognize(frame)
            if kind == "status":
                self._follow(frame)
            elif kind == "shutdown_reply":
                self._end("restarted" if frame.content().get("restart") else "gone")
        if kind == "kernel_info_reply" and request in self._questions:
            self._introduce(frame)
            return
        # A question of our own puts nothing out; a thread does, in its name.
        ours = request in self._requests or (request in self._questions and kind != "status")
        if not ours and kind != "update_display_data":
            return
        if kind == "input_request":
            self._input_header = frame.header
        if (reason := dropped_output(frame, self._session)) is not None:
            self._tell_missing(request, reason, str(frame.content().get("text")))
            return
        large = frame.size >= _LARGE
        content = await asyncio.to_thread(frame.content) if large else frame.content()
        self._pass_on(
            KernelMessage(
                frame.channel,
                kind,
                request,
                str(frame.header.get("date") or ""),
                content,
                frame.metadata(),
                frame.size,
            )
        )

    def _recognize(self, frame: Frame) -> None:
        """Notice another process: one that was killed to be restarted does not say so."""
        name = frame.header.get("session")
        # Not all kernels have names: some use that of who asked, and the server uses ours.
        if not name or name in (frame.parent.get("session"), self._session):
            return
        if self._process not in ("", name):
            self._end("restarted")
        self._process = str(name)

    def _follow(self, frame: Frame) -> None:
        state = frame.content().get("execution_state")
        if state in ("restarting", "dead"):
            self._end("died")  # the server says so, and only when nobody asked for it
        else:
            self._work.follow(frame.request, frame.parent, state)

    def _introduce(self, frame: Frame) -> None:
        self.language = language_of(frame.content())
        self._introduced.set()
        if frame.request != self._probe:
            return
        self._served.set()
        if self.busy_with == self._doubt:
            self._work.request = None
        if self._uncertain and self._settling is None:
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(_LATE, self._settle)

    def _pass_on(self, message: KernelMessage) -> None:
        if (request := self._requests.get(message.parent)) is not None:
            if message.type == "execute_reply":
                request.replied = True
            elif message.type == "status" and message.content.get("execution_state") == "idle":
                request.idle = True
        if self._receiver is None:
            return
        try:
            self._receiver(message)
        except Exception:
            self._log.exception("A %s message of %s was lost", message.type, self.kernel_id)

    # -- what no kernel said -----------------------------------------------------------------

    def _tell(self, channel: Channel, kind: str, request: str, content: Mapping[str, Any]) -> None:
        self._pass_on(KernelMessage(channel, kind, request, _now(), content, {}, 0))

    def _note(self, text: str) -> None:
        """Say something in the output of all that runs."""
        for key, request in list(self._requests.items()):
            if request.open:
                self._tell_missing(key, text, f"\n[{text}]\n")

    def _tell_missing(self, request: str, reason: str, text: str) -> None:
        self._tell("iopub", OUTPUT_MISSING, request, {"reason": reason, "text": text})


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


async def _undo(opening: asyncio.Task[ClientConnection]) -> None:
    """Nobody wants a connection any more that is being opened, or has just been."""
    opening.cancel()
    await asyncio.wait([opening])
    if not opening.cancelled() and opening.exception() is None:
        await _shut(opening.result())


async def _shut(connection: ClientConnection) -> None:
    try:
        async with asyncio.timeout(_FAREWELL):
            await connection.close()
    except TimeoutError:
        connection.transport.abort()
        await connection.wait_closed()


def _acknowledger(connection: ClientConnection) -> Callable[[], None]:
    """Something to be called with each message, so that the next one is not held back.

    Jupyter's WebSockets use Nagle's algorithm: the second of several small messages, of which
    each run causes five, is sent when the first is acknowledged, and Linux takes 40 ms for that
    in a conversation. It does so at once when told to, but forgets about it again and again.
    """
    option = getattr(socket, "TCP_QUICKACK", None)  # on Linux only
    transport = connection.transport.get_extra_info("socket")
    if option is None or transport is None:
        return lambda: None

    def acknowledge() -> None:
        with contextlib.suppress(OSError):
            transport.setsockopt(socket.IPPROTO_TCP, option, 1)

    return acknowledge
