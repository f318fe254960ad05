"""Passes each request on to the server of the user whose token it brings, and streams the answer.

It keeps nothing of a user. The Hub says whose token it is and what it allows, which counts for a
second, so that a burst of requests is one question; a scope that was removed no longer counts after
that. The server that answers checks the token once more. Sessions of MCP live in that server, so it
does not matter which replica of the service a request reaches.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import httpx2

from ..backends.remote.hub_api import HubApi, HubUser
from ..backends.remote.jupyterhub import Hub
from ..backends.remote.server_address import ServerAddress
from ..errors import CollaborationError, ServerStopped, TokenRefused
from ..owned_tasks import TaskPerKey
from ..transport.endpoint import MAX_REQUEST_BODY_SIZE
from ..transport.open_requests import OpenRequests, TooManyRequests
from ..transport.origins import authority
from .answers import Refusal
from .owners import TokenOwners, hash_of
from .routes import Route

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

_log = logging.getLogger(__name__)

#: Headers about one connection only, about this host, or that a user's server has no use for.
_NOT_PASSED_ON = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization"),
        *(b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"),
        *(b"host", b"content-length", b"authorization", b"cookie", b"set-cookie"),
    }
)

#: Seconds to connect to the Hub or its proxy. How long an answer takes is up to the client.
_TIMEOUT = {"connect": 10.0, "read": None, "write": None, "pool": None}

#: Seconds for which an idle connection is used again. The proxy of a Hub closes them after five:
#: what is sent at that moment is lost, and nobody knows whether it has arrived.
_KEEP_ALIVE = 2.0

_LOST = (
    "The connection to the user's server broke before it answered. The call itself may well have "
    "been carried out: look before you repeat it."
)

#: Seconds until the Hub is asked again about the token of a request that is still answered.
_LOOK_AGAIN = 60.0

#: Seconds for the body of a request to come.
_BODY_LIMIT = 60.0


class HubService:
    """The ASGI application of the service.

    Args:
        prefix: The path of the service, with slashes at both ends.
        hub: The URL of the Hub behind its proxy, with its base URL; answers tell it to people.
        api: The Hub's API as the service reaches it, the part before `hub/api`.
        endpoint: The path of MCP below a user's server.
        token_age: Seconds for which the Hub's answer about a token counts.
    """

    def __init__(
        self, prefix: str, hub: str, api: str, endpoint: str, token_age: float = 0.0
    ) -> None:
        self._prefix = prefix
        self._hub = hub
        self._api = api
        self._endpoint = endpoint
        # A client would keep cookies, those of one user for the requests of another; and it takes
        # longer than all the rest here.
        self._http = httpx2.AsyncHTTPTransport(
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=200,
                keepalive_expiry=_KEEP_ALIVE,
            ),
            trust_env=False,
            # Certificates take a while to load, and http needs no verification.
            verify=any(url.lower().startswith("https:") for url in (hub, api)),
        )

        self._owners = TokenOwners(self._http, api, hub, token_age)
        self._requests = OpenRequests()
        self._starts: TaskPerKey[tuple[bytes, str], None] = TaskPerKey()
        """By the hash of a token, as what it may differs, and the name of a server."""

    async def close(self) -> None:
        await self._starts.end()
        await self._http.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._serve(scope, receive, sending)
            return
        except Refusal as error:
            refusal = error
        except CollaborationError as error:
            refusal = Refusal.of(error)
        except httpx2.HTTPError as error:
            _log.warning("A request could not be passed on: %r", error)
            said = "The JupyterHub or its proxy does not answer. Repeat the request in a while."
            refusal = Refusal(503, said, (b"retry-after", b"5"))
        if not begun:  # else the connection ends early, which the client sees
            await refusal.send(send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if not path.startswith(self._prefix) and path + "/" != self._prefix:
            raise Refusal(404, f"The service is at {self._prefix}.")
        below = path[len(self._prefix) :]
        if below == "health":
            await Refusal(200, "").send(send)
            return
        headers = dict(scope["headers"])
        _check_origin(headers)
        token = _token(headers)
        try:
            with self._requests.open(hash_of(token).hex(), lambda: None):
                await self._serve_one(scope, receive, send, below, token)
        except TooManyRequests:
            said = "Too many requests at once with this token."
            raise Refusal(429, said, (b"retry-after", b"1")) from None

    async def _serve_one(
        self, scope: Scope, receive: Receive, send: Send, below: str, token: str
    ) -> None:
        # Before the body is read: nobody without a token has a say in how much memory is used.
        who = await self._owners.find(token)
        route = Route.of(below, who)
        url = self._url(scope, route)
        try:
            async with asyncio.timeout(_BODY_LIMIT):
                body = await _body(receive)
        except TimeoutError:
            raise Refusal(408, "The body of the request did not come.") from None
        request = _Request(scope, token, body, route, url)
        gone = asyncio.ensure_future(_disconnect(receive))
        refused = asyncio.ensure_future(self._refused(below, token, route))
        answering = asyncio.ensure_future(self._answer(request, who, send))
        tasks = (gone, refused, answering)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if answering.done():
                answering.result()
            elif refused.done():
                raise refused.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _refused(self, below: str, token: str, route: Route) -> Exception:
        """Return when a token does not allow any more what it did: streams are open for days."""
        while True:
            await asyncio.sleep(_LOOK_AGAIN)
            try:
                if Route.of(below, await self._owners.find(token)) != route:
                    return Refusal(401, "The scopes of the token have changed. Connect again.")
            except (Refusal, TokenRefused) as error:
                return error
            except (CollaborationError, httpx2.HTTPError):
                pass  # the Hub is away, and says nothing about the token

    def _url(self, scope: Scope, route: Route) -> httpx2.URL:
        query = scope["query_string"].decode("latin-1")
        if "#" in query:  # what follows would not be sent
            raise Refusal(400, "The query of the URL has a #. Write %23 instead.")
        if route.level is not None:  # of several, the lowest counts
            query = f"permission={route.level.name}{'&' if query else ''}{query}"
        url = f"{self._hub}{route.path}{self._endpoint}{'?' if query else ''}{query}"
        try:
            return httpx2.URL(url)
        except httpx2.InvalidURL as error:
            raise Refusal(400, f"The URL cannot be passed on: {error}.") from None

    async def _answer(self, request: _Request, who: HubUser, send: Send) -> None:
        # For a named server that does not run, the default server would answer.
        name = request.route.server
        if not name or request.route.user != who.name or who.runs(name):
            stopped = await self._pass_on(request, send)
            if stopped is None:
                return
            if request.route.user != who.name:
                raise stopped
        # Many requests that find it stopped are one start. It goes on if whoever waits has gone.
        key = (hash_of(request.token), name)
        starting = self._starts.ensure(key, lambda: self._start(request.token, who, name))
        await asyncio.shield(starting)
        if (stopped := await self._pass_on(request, send)) is not None:
            raise stopped

    async def _start(self, token: str, who: HubUser, name: str) -> None:
        """Start a server of the owner of a token, and wait until it is ready."""
        hub = HubApi(ServerAddress(self._api, token, direct=True))
        try:
            await hub.start(who, name)
        finally:
            self._owners.forget(token)
            await hub.close()

    async def _pass_on(self, request: _Request, send: Send) -> ServerStopped | None:
        """Pass a request on; returns an error if the server does not run, and nothing was sent."""
        sent = httpx2.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.body,
            extensions={"timeout": _TIMEOUT},
        )
        try:
            response = await self._http.handle_async_request(sent)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            raise  # nothing was sent
        except httpx2.HTTPError as error:
            if request.method != "POST":
                raise
            _log.warning("A request was passed on and not answered: %r", error)
            raise Refusal(502, _LOST) from error
        try:
            if (stopped := await self._in_its_place(request, response)) is not None:
                return stopped
            await send(_start(response))
            async for part in response.aiter_raw():
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await response.aclose()
        return None

    async def _in_its_place(
        self, request: _Request, response: httpx2.Response
    ) -> ServerStopped | None:
        """Whether the Hub has answered because the server does not run."""
        base = f"{self._hub}{request.route.path}"
        found = Hub.answering(base, response.headers)
        if found is None or response.status_code < 300:
            return None
        is_json = response.headers.get("content-type", "").startswith("application/json")
        error = found.in_its_place(response.status_code, response.headers, is_json)
        if error is not None and not isinstance(error, ServerStopped):
            raise error
        return error


class _Request:
    """What is sent to a user's server."""

    def __init__(
        self, scope: Scope, token: str, body: bytes, route: Route, url: httpx2.URL
    ) -> None:
        self.method: str = scope["method"]
        self.token = token
        self.body = body
        self.route = route
        self.url = url
        passed = [(k, v) for k, v in scope["headers"] if k.lower() not in _NOT_PASSED_ON]
        # The page that asks is one of the Hub's, as was checked; its origin is not the proxy's.
        passed = [(k, v) for k, v in passed if k != b"origin"]
        self.headers = [*passed, (b"authorization", b"token " + token.encode())]


def _start(response: httpx2.Response) -> Message:
    raw: Iterable[tuple[bytes, bytes]] = response.headers.raw
    headers = [
        (name.lower(), value)
        for name, value in raw
        if name.lower() not in _NOT_PASSED_ON or name.lower() == b"content-length"
    ]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}


def _check_origin(headers: Mapping[bytes, bytes]) -> None:
    """Let in pages of the Hub's own host only: others might use the token of a browser."""
    origin, host = headers.get(b"origin"), headers.get(b"host", b"").decode("latin-1").lower()
    if origin is not None and authority(origin.decode("latin-1")) != host:
        raise Refusal(403, "Requests from this Origin are not allowed.")


def _token(headers: Mapping[bytes, bytes]) -> str:
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    token = token.strip()
    if scheme.lower() not in ("bearer", "token") or not token or not token.isascii():
        raise Refusal.unauthorized(
            "Send a token of JupyterHub as `Authorization: Bearer TOKEN`. The page hub/token "
            "creates them."
        )
    return token


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The request ended early.")
        body += message.get("body", b"")
        if len(body) > MAX_REQUEST_BODY_SIZE:
            raise Refusal(413, f"The request has more than {MAX_REQUEST_BODY_SIZE:,} bytes.")
        more = message.get("more_body", False)
    return bytes(body)


async def _disconnect(receive: Receive) -> None:
    """Return when the client has gone."""
    with contextlib.suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
