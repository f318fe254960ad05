"""MCP over HTTP for the standalone command: a bearer token of its own, Host and Origin checked."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import json
import secrets
import socket
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ..backends.upstream.stream_watchers import end_watchers_quietly
from ..documents.json_values import MOST_VALUES, has_too_many_values
from ..errors import InvalidArgument
from ..server.caller import SCOPE_KEY, Caller, ConnectionOptions, allow_all
from ..server.rates import Buckets, retry_after
from .endpoint import MAX_REQUEST_BODY_SIZE
from .open_requests import OpenRequests, TooManyRequests
from .origins import SECURE_HEADERS, authority, host_name
from .resumption import make_resumable
from .sessions import bound_sessions

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Seconds for the body of a request to come.
_BODY_LIMIT = 60.0

_SECURE = [(name.lower().encode(), value.encode()) for name, value in SECURE_HEADERS.items()]

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def new_token() -> str:
    return secrets.token_urlsafe(32)


def bracketed(host: str) -> str:
    """A host as written in a URL: IPv6 in brackets."""
    try:
        return f"[{host}]" if isinstance(ip_address(host), IPv6Address) else host
    except ValueError:
        return host


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; a port of 0 means any free one.

    Raises:
        InvalidArgument: Nobody can listen there.
    """
    try:
        if not 0 <= port <= 65535:  # some systems take what is left of it in 16 bits
            raise OverflowError(port)
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        # localhost is both, and every client tries the older one.
        family, *_, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        listener = socket.create_server(address[:2], family=family)
        # Not by asyncio, which sees no TCP in a socket that was made elsewhere; each answer would
        # wait 40 ms for what was sent before to be acknowledged. Connections inherit it.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except (OverflowError, socket.gaierror, UnicodeError) as error:
        raise InvalidArgument(
            f"{host!r} and {port} are not a host and port to listen on.",
            "Give --host an address of this machine, and --port a number up to 65535.",
        ) from error
    except OSError as error:
        happened, next_step = _UNBOUND.get(error.errno or 0, (str(error), "Choose another."))
        raise InvalidArgument(f"{bracketed(host)}:{port} {happened}.", next_step) from error


_UNBOUND = {
    errno.EADDRINUSE: (
        "is in use by another program",
        "Choose another --port; without one, a free port is used.",
    ),
    errno.EADDRNOTAVAIL: (
        "is not on this machine",
        "Give --host an address of this machine, or 0.0.0.0 for all of them.",
    ),
    errno.EACCES: ("needs privileges to listen on", "Choose a --port above 1023."),
}


def application(
    server: MCPServer,
    token: str,
    hosts: Iterable[str],
    floods: Buckets | None = None,
    event_store_size: int = 0,
) -> ASGIApp:
    """The ASGI application at `/mcp`.

    Args:
        token: What a client must send as `Authorization: Bearer`.
        hosts: Names that clients may use for it, besides those of this machine.
        floods: How many requests it takes.
        event_store_size: Bytes that are kept for clients that lose their connection; 0: none.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    # The SDK takes whatever begins with an allowed name and a colon.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        transport_security=unchecked, max_request_body_size=MAX_REQUEST_BODY_SIZE
    )
    end_watchers_quietly()
    bound_sessions(server.session_manager)
    make_resumable(server.session_manager, event_store_size)
    inner = _BearerGate(_BodyGate(app), token, floods)
    return _OriginGate(inner, (*_LOOPBACK, *map(bracketed, hosts)))


class _OriginGate:
    """Lets in requests to a known host, from pages of one; this stops DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            send = _securely(send)
            if not all(map(self._is_known, _sent(scope, b"host") or [""])):
                await _answer(send, 421, "invalid_host", "Name this host with --allowed-host.")
                return
            if not all(self._is_known(authority(origin)) for origin in _sent(scope, b"origin")):
                said = "Requests from this Origin are not allowed (--allowed-host)."
                await _answer(send, 403, "invalid_origin", said)
                return
        await self._app(scope, receive, send)

    def _is_known(self, host: str | None) -> bool:
        return host is not None and not self._hosts.isdisjoint({host.lower(), host_name(host)})


def _securely(send: Send) -> Send:
    """Add what every answer says to a browser, unless it says otherwise."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = list(message.get("headers", ()))
            names = {name.lower() for name, _ in said}
            more = [each for each in _SECURE if each[0] not in names]
            message = {**message, "headers": [*said, *more]}
        await send(message)

    return send_with_headers


def _sent(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


class _BearerGate:
    """Lets in whoever has the token, and identifies the caller."""

    def __init__(self, app: ASGIApp, token: str, floods: Buckets | None) -> None:
        self._app = app
        self._floods = floods
        self._requests = OpenRequests()
        self._token = token.encode()
        self._credential = f"token:{hashlib.sha256(self._token).hexdigest()[:16]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sent = dict(scope["headers"]).get(b"authorization", b"")
        scheme, _, token = sent.partition(b" ")
        known = hmac.compare_digest(token.strip(), self._token)
        if scheme.lower() != b"bearer" or not known:
            said = "Send the token that was printed at the start."
            challenge = (b"www-authenticate", b'Bearer error="invalid_token"')
            await _answer(send, 401, "invalid_token", said, challenge)
            return
        if self._floods is not None and (wait := self._floods.take(self._credential)):
            said = "Too many requests with this token (--rate-limit); see Retry-After."
            after = (b"retry-after", retry_after(wait).encode())
            await _answer(send, 429, "rate_limited", said, after)
            return
        query = scope.get("query_string", b"").decode("latin-1")
        try:
            options = ConnectionOptions.parse(parse_qs(query, keep_blank_values=True))
        except InvalidArgument as error:
            await _answer(send, 400, "invalid_query", f"{error.happened} {error.next_step}")
            return
        caller = Caller(
            credential=self._credential,
            options=options,
            authorize=allow_all,
        )
        # The token goes no further.
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        try:
            with self._requests.open(self._credential, lambda: None):
                await self._app({**scope, "headers": headers, SCOPE_KEY: caller}, receive, send)
        except TooManyRequests:
            said, after = "Too many requests at once with this token.", (b"retry-after", b"1")
            await _answer(send, 429, "rate_limited", said, after)


class _BodyGate:
    """Hands on requests whose body has come whole, in time, and can be parsed at once."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(_BODY_LIMIT):
                body = await _read_body(receive)
        except TimeoutError:
            await _answer(send, 408, "request_timeout", "The body of the request did not come.")
            return
        if body is None:
            return  # the client has gone: nobody is there to be told
        if len(body) > MAX_REQUEST_BODY_SIZE or await has_too_many_values(body):
            said = f"At most {MAX_REQUEST_BODY_SIZE:,} bytes and {MOST_VALUES:,} values are taken."
            await _answer(send, 413, "too_large", said)
            return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        await self._app(scope, receive_whole, send)


async def _read_body(receive: Receive) -> bytes | None:
    """The body of a request, or more of it than is taken; None if the client leaves before."""
    body = bytearray()
    while len(body) <= MAX_REQUEST_BODY_SIZE:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


async def _answer(
    send: Send, status: int, error: str, message: str, *headers: tuple[bytes, bytes]
) -> None:
    """Refuse a request."""
    body = json.dumps({"error": error, "message": message}).encode()
    all_headers = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": all_headers})
    await send({"type": "http.response.body", "body": body})
