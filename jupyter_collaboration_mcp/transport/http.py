"""MCP over HTTP for the standalone command: a bearer token of its own, Host and Origin checked."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from ..workspace.caller import SCOPE_KEY, Caller
from .endpoint import MAX_REQUEST_BODY_SIZE

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def new_token() -> str:
    return secrets.token_urlsafe(32)


def application(server: MCPServer, token: str, hosts: Iterable[str]) -> ASGIApp:
    """The ASGI application at `/mcp`.

    Args:
        token: What a client must send as `Authorization: Bearer`.
        hosts: Names under which it may be asked for, besides those of this machine.
    """
    from mcp.server.transport_security import TransportSecuritySettings

    names = dict.fromkeys((*_LOOPBACK, *hosts))
    security = TransportSecuritySettings(
        allowed_hosts=[f"{name}{port}" for name in names for port in ("", ":*")],
        allowed_origins=[
            f"{scheme}://{name}{port}"
            for name in names
            for scheme in ("http", "https")
            for port in ("", ":*")
        ],
    )
    app = server.streamable_http_app(
        transport_security=security, max_request_body_size=MAX_REQUEST_BODY_SIZE
    )
    return _BearerGate(app, token)


class _BearerGate:
    """Lets in who has the token, and says who that is."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
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
            await _refuse(send)
            return
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        caller = Caller(
            credential=self._credential,
            agent=_last(query, "agent"),
            toolsets=_last(query, "toolsets"),
            permission=_last(query, "permission"),
            authorize=_always,
        )
        # The token goes no further.
        headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
        await self._app({**scope, "headers": headers, SCOPE_KEY: caller}, receive, send)


async def _always(action: str, resource: str, path: str | None) -> bool:
    return True  # what may be done there is each Jupyter server's own decision


async def _refuse(send: Send) -> None:
    body = json.dumps(
        {"error": "invalid_token", "message": "Send the token that was printed at the start."}
    ).encode()
    await send(
        {
            "type": "http.response.start",
            "status": 401,
            "headers": [
                (b"content-type", b"application/json"),
                (b"www-authenticate", b'Bearer error="invalid_token"'),
            ],
        }
    )
    await send({"type": "http.response.body", "body": body})


def _last(query: dict[str, list[str]], name: str) -> str | None:
    values = query.get(name)
    return values[-1] if values else None
