"""Streams of events that outlive their connection, so that a client can read on over another one.

The MCP SDK writes each stream to one connection. What it writes gets numbers here and is stored;
when the client is gone, the SDK is not told, and what it goes on writing is stored, too.

A call that is answered at once is not numbered and not stored: its client has no number from which
it could resume, as long as the call has sent nothing else. So such calls cost nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import anyio

from .events import Events, EventStore

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Seconds until a client whose call takes time gets a number from which it can resume.
PRIMING = 0.1

#: How soon a client that lost its connection should try again, in milliseconds.
RETRY = 1000

#: Seconds for which the notifications of a session are stored while nobody reads them.
_LINGER = 60.0

#: Streams without a client that are continued; the one that has waited for longest ends.
MOST_AWAY = 100

#: Seconds between two signs of life, as the SDK sends them.
_PING = 15.0

#: Seconds for the end of a connection that may be dead.
_FAREWELL = 1.0

#: How the SDK writes what is not the last event of a call.
_NOTIFICATION = b'event: message\r\ndata: {"jsonrpc":"2.0","method":'

_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class EventId:
    """Where a client was in which stream of its session."""

    stream: int
    number: int
    standalone: bool
    """Whether it is the stream of the session's notifications, which belongs to no call."""

    def __str__(self) -> str:
        return f"{'n' if self.standalone else ''}{self.stream}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The id in a `Last-Event-ID`; None if it is none of ours."""
        found = re.fullmatch(r"(n?)([0-9]{1,15})-([0-9]{1,15})", text, re.ASCII)
        return cls(int(found[2]), int(found[3]), bool(found[1])) if found else None


class ResumableStream:
    """One answer of the SDK, and whoever reads it.

    Args:
        session: The id of the MCP session.
        standalone: Whether it is the stream of the session's notifications.
        primes: Whether the client understands an event that is only a number.
    """

    def __init__(
        self,
        streams: Streams,
        session: str,
        receive: Receive,
        send: Send,
        *,
        standalone: bool,
        primes: bool,
    ) -> None:
        self.session, self.standalone = session, standalone
        self.closed = asyncio.Event()
        """Set once the SDK has ended it."""
        self.left = False
        """Whether its first connection is gone, or no longer of use."""
        self.events: Events | None = None
        """None as long as nobody can resume it."""
        self.number = 0
        self._streams, self._primes = streams, primes
        self._receive, self._send = receive, send
        self._lock = asyncio.Lock()
        self._is_stream = self._finished = False
        self._sending: anyio.CancelScope | None = None
        self._reader: anyio.CancelScope | None = None
        self._changed = asyncio.Event()
        self._abandoned = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._priming: asyncio.Task[None] | None = None

    def has_all_after(self, number: int) -> bool:
        """Whether a client that has this event can get all others."""
        return self.events is not None and self.events.has_all_after(number)

    async def serve(self, app: ASGIApp, scope: Scope) -> None:
        """Have the SDK answer a request."""
        try:
            await app(scope, self._receive_unless_held, self._send_and_store)
        finally:
            self._stop_timer()
            if self._priming is not None:
                self._priming.cancel()
                self._priming = None
            self.closed.set()
            self._changed.set()
            if self.events is not None:
                self._streams.end(self, complete=not self._abandoned.is_set())
        if self.left and not self._finished:
            await _finish(self._send)
        # The events may be kept for minutes; the request, of many times their size, need not be.
        self._receive, self._send = _gone, _nowhere

    def abandon(self) -> None:
        """Have the SDK end it, as it does without us when the client is gone."""
        self._abandoned.set()

    def abandon_after(self, seconds: float) -> None:
        """Do so later, unless somebody reads it by then."""
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abandon)

    # From the SDK

    async def _receive_unless_held(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and self.events is not None:
            self.left = True
            if self._reader is None:
                self._streams.wait_for_client(self)
            await self._abandoned.wait()
        return message

    async def _send_and_store(self, message: Message) -> None:
        body = message.get("body", b"")
        if message["type"] == "http.response.start":
            self._is_stream = _is_event_stream(message)
            if self._is_stream and self._primes:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(PRIMING, self._start_priming)
        elif self._is_stream and body and not body.startswith(b":"):
            if self.events is None and body.startswith(_NOTIFICATION):
                self._begin()
            if self.events is not None:
                message = {**message, "body": self._store(self.events, body)}
        if not self._is_stream:
            await self._send(message)
            return
        async with self._lock:  # Tornado must not be given two writes at once
            await self._forward(message)

    def _store(self, events: Events, body: bytes) -> bytes:
        said = EventId(self.number, events.latest + 1, self.standalone)
        event = b"id: %s\r\n%s" % (str(said).encode(), body)
        self._streams.store.add(events, event)
        self._changed.set()
        return event

    async def _forward(self, message: Message) -> None:
        if self.left:
            return
        self._finished = not message.get("more_body", True)
        if self.events is None:
            await self._send(message)
            return
        # A client may come back before we notice that this connection takes nothing any more.
        with anyio.CancelScope() as self._sending:
            try:
                await self._send(message)
            finally:
                self._sending = None

    # Becoming resumable

    def _begin(self) -> None:
        self._stop_timer()
        self.events = Events()
        self.number = self._streams.add(self)

    def _start_priming(self) -> None:
        self._priming = asyncio.ensure_future(self._prime())

    async def _prime(self) -> None:
        async with self._lock:
            if self.events is not None or self.closed.is_set():
                return
            self._begin()
            first = EventId(self.number, 0, self.standalone)
            body = f"id: {first}\r\nretry: {RETRY}\r\ndata: \r\n\r\n".encode()
            await self._forward({"type": "http.response.body", "body": body, "more_body": True})

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # To a client that came back

    async def replay(self, after: int, receive: Receive, send: Send) -> None:
        """Send what follows an event, and what is still to come, to this connection alone."""
        self._take_over()
        async with anyio.create_task_group() as tasks:
            mine = self._reader = tasks.cancel_scope
            try:
                tasks.start_soon(_cancel_when_gone, receive, mine)
                await send(_start(self.session))
                await self._send_all(after, send)
            finally:
                if self._reader is mine:
                    self._reader = None
                    if not self.closed.is_set():
                        self._streams.wait_for_client(self)
            mine.cancel()
        await _finish(send)

    def _take_over(self) -> None:
        self.left = True
        for connection in (self._sending, self._reader):
            if connection is not None:
                connection.cancel()
        self._stop_timer()
        self._streams.resumed(self)

    async def _send_all(self, after: int, send: Send) -> None:
        events = self.events
        assert events is not None
        while True:
            self._changed.clear()
            while (event := events.after(after)) is not None:
                after += 1
                await send({"type": "http.response.body", "body": event, "more_body": True})
            if after < events.latest or self.closed.is_set():
                return  # the client is too slow, or has all
            with anyio.move_on_after(_PING) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught:
                ping = {"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True}
                await send(ping)


class Streams:
    """The streams that can be resumed, by session.

    Args:
        store: Keeps their events.
    """

    def __init__(self, store: EventStore) -> None:
        self.store = store
        self._sessions: dict[str, dict[int, ResumableStream]] = {}
        self._numbers = itertools.count(1)
        self._away: OrderedDict[ResumableStream, None] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._sessions.values()))

    def add(self, stream: ResumableStream) -> int:
        """Take a stream that can be resumed from now on; returns its number."""
        number = next(self._numbers)
        self._sessions.setdefault(stream.session, {})[number] = stream
        return number

    def find(self, session: str, number: int) -> ResumableStream | None:
        """A stream of a session, if it can be resumed."""
        return self._sessions.get(session, {}).get(number)

    def continued(self, session: str) -> ResumableStream | None:
        """The stream of a session's notifications, if its first connection is gone."""
        of_session = self._sessions.get(session, {}).values()
        return next((s for s in of_session if s.standalone and s.left), None)

    def wait_for_client(self, stream: ResumableStream) -> None:
        """Continue a stream whose client is gone."""
        self._away[stream] = None
        if stream.standalone:
            stream.abandon_after(_LINGER)
        while len(self._away) > MOST_AWAY:
            self._away.popitem(last=False)[0].abandon()

    def resumed(self, stream: ResumableStream) -> None:
        """Its client is back."""
        self._away.pop(stream, None)

    def end(self, stream: ResumableStream, *, complete: bool) -> None:
        """The SDK writes nothing more; what it wrote is kept until it is too old."""
        self._away.pop(stream, None)
        events = stream.events
        if complete and events:
            events.on_empty = lambda: self._remove(stream)
        else:
            self._remove(stream)

    def end_session(self, session: str) -> None:
        """Forget all streams of a session."""
        for stream in self._sessions.pop(session, {}).values():
            self._away.pop(stream, None)
            stream.abandon()
            if stream.events is not None:
                self.store.forget(stream.events)

    def _remove(self, stream: ResumableStream) -> None:
        of_session = self._sessions.get(stream.session, {})
        of_session.pop(stream.number, None)
        if not of_session:
            self._sessions.pop(stream.session, None)
        if (events := stream.events) is not None:
            events.on_empty = _nothing  # which knew the stream, and that the events
            self.store.forget(events)


def _nothing() -> None:
    """Do nothing."""


def _is_event_stream(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in message.get("headers", ())
    )


def _start(session: str) -> Message:
    headers = [*_HEADERS, (b"mcp-session-id", session.encode("latin-1"))]
    return {"type": "http.response.start", "status": 200, "headers": headers}


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _gone() -> Message:
    return {"type": "http.disconnect"}


async def _nowhere(message: Message) -> None:
    """Send nothing."""


async def _finish(send: Send) -> None:
    """End an answer whose connection may be dead."""
    with anyio.move_on_after(_FAREWELL):
        await send({"type": "http.response.body", "body": b"", "more_body": False})
