"""Clients that lose their connection read on where they were, with `Last-Event-ID`.

This is for clients of the era with sessions (to 2025-11-25). It stands in front of the MCP SDK,
which has something of the kind that we do not use: its event store mixes up the sessions, loses
what comes while it replays, and would make each call send one more event.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio

from .events import EventStore
from .streams import EventId, ResumableStream, Streams

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Since this version, clients understand an event that is only a number.
_PRIMED_SINCE = "2025-11-25"

#: The latest version with sessions.
_LATEST = "2025-11-25"

#: Seconds for the SDK to end a stream that nobody reads.
_PATIENCE = 5.0

_GONE = (
    "What followed this event is no longer kept. The call itself may well have been carried out: "
    "look before you repeat it."
)

#: Headers that decide whose stream is meant. The SDK reads the first of several.
_ONCE = (b"mcp-session-id", b"mcp-protocol-version", b"last-event-id")

_TWICE = "A header that names the session, the version or the last event is there more than once."


def make_resumable(manager: StreamableHTTPSessionManager, size: int) -> None:
    """Let clients of a manager's sessions resume their streams.

    Args:
        size: Bytes of all events that are kept; with 0, nothing can be resumed.
    """
    manager.asgi_app = Resumption(manager.asgi_app, size)  # type: ignore[assignment]


class Resumption:
    """The SDK's application, with streams that can be resumed.

    Args:
        app: The SDK's application.
        size: Bytes of all events that are kept; with 0, nothing can be resumed.
    """

    def __init__(self, app: ASGIApp, size: int) -> None:
        self._app, self._is_on = app, size > 0
        self.streams = Streams(EventStore(size))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_clear(scope):  # or the SDK would check one session, and we would serve another
            await _refuse(send, _TWICE)
            return
        session, version, last = _headers(scope)
        if session is None or version > _LATEST:
            await self._app(scope, receive, send)
        elif scope["method"] == "POST":
            await self._serve(scope, receive, send, session, version)
        elif scope["method"] == "GET":
            await self._get(scope, receive, send, session, version, last)
        elif scope["method"] == "DELETE":
            await self._delete(scope, receive, send, session)
        else:
            await self._app(scope, receive, send)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, session: str, version: str
    ) -> None:
        if not self._is_on:
            await self._app(scope, receive, send)
            return
        await ResumableStream(
            self.streams,
            session,
            receive,
            send,
            standalone=scope["method"] == "GET",
            primes=version >= _PRIMED_SINCE,
        ).serve(self._app, scope)

    async def _get(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        session: str,
        version: str,
        last: str | None,
    ) -> None:
        if last is not None or self.streams.continued(session) is not None:
            # Before anything else: only the SDK knows who may use the session.
            refusal = await self._refusal(scope)
            for message in refusal:
                await send(message)
            if refusal:
                return
        if last is not None:
            event = EventId.parse(last)
            if event is not None:
                stream = self.streams.find(session, event.stream)
                if stream is not None and stream.has_all_after(event.number):
                    await stream.replay(event.number, receive, send)
                    return
            if event is None or not event.standalone:
                await _refuse(send, _GONE)
                return
        # Notifications go on, without those that are no longer kept.
        await self._give_up(self.streams.continued(session))
        await self._serve(_without_last_event_id(scope), receive, send, session, version)

    async def _refusal(self, scope: Scope) -> list[Message]:
        """What the SDK answers to somebody who may not use the session; nothing if they may.

        It is asked with a method that does nothing, and about which it complains after that check.
        """
        said: list[Message] = []

        async def note(message: Message) -> None:
            said.append(message)

        await self._app({**scope, "method": "HEAD"}, _no_body, note)
        return [] if said[0]["status"] == 405 else said

    async def _give_up(self, stream: ResumableStream | None) -> None:
        """End a stream of notifications; a session can have only one."""
        if stream is not None:
            stream.abandon()
            with anyio.move_on_after(_PATIENCE):
                await stream.closed.wait()

    async def _delete(self, scope: Scope, receive: Receive, send: Send, session: str) -> None:
        async def note(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                self.streams.end_session(session)
            await send(message)

        await self._app(scope, receive, note)


def _is_clear(scope: Scope) -> bool:
    sent = [name for name, _ in scope.get("headers", ()) if name in _ONCE]
    return len(sent) == len(set(sent))


def _headers(scope: Scope) -> tuple[str | None, str, str | None]:
    """The session, the version of the protocol, and the last event that the client has got."""
    session: str | None = None
    last: str | None = None
    version = ""
    for name, value in scope["headers"]:
        if name == b"mcp-session-id":
            session = value.decode("latin-1")
        elif name == b"mcp-protocol-version":
            version = value.decode("latin-1")
        elif name == b"last-event-id":
            last = value.decode("latin-1")
    return session, version, last


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _without_last_event_id(scope: Scope) -> Scope:
    headers = [pair for pair in scope["headers"] if pair[0] != b"last-event-id"]
    return {**scope, "headers": headers}


async def _refuse(send: Send, why: str) -> None:
    error: dict[str, Any] = {"code": -32600, "message": why}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})
