"""The endpoint inside Jupyter Server: Jupyter decides who may enter, the MCP SDK answers.

A Tornado handler that hands each request to the SDK's ASGI application and streams the answer
back, behind Jupyter's own Host, Origin, token, cookie, XSRF and authorizer checks.
"""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from jupyter_server import CallContext
from jupyter_server._tz import utcnow
from jupyter_server.auth.authorizer import AllowAllAuthorizer
from jupyter_server.auth.decorator import allow_unauthenticated
from jupyter_server.utils import ensure_async
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError

from jupyter_collaboration_mcp.documents.json_values import MOST_VALUES, has_too_many_values
from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.server.caller import (
    SCOPE_KEY,
    Caller,
    ConnectionOptions,
)
from jupyter_collaboration_mcp.server.metrics import FLOODS
from jupyter_collaboration_mcp.server.rates import Buckets, retry_after
from jupyter_collaboration_mcp.transport.agent_tokens import AgentToken, AgentTokens
from jupyter_collaboration_mcp.transport.endpoint import EndpointStopped, MCPEndpoint
from jupyter_collaboration_mcp.transport.hub_limits import hub_owner, within_hub_scopes
from jupyter_collaboration_mcp.transport.incoming import Afterwards, Incoming, authorizer_for_all
from jupyter_collaboration_mcp.transport.open_requests import TooManyRequests
from jupyter_collaboration_mcp.transport.origin_handler import OriginHandler
from jupyter_collaboration_mcp.transport.origins import is_loopback
from jupyter_collaboration_mcp.transport.request_secrets import (
    forget_secrets,
    normalise_authorization,
    take_agent_token,
)
from jupyter_collaboration_mcp.transport.sessions import session_owner
from jupyter_collaboration_mcp.transport.token_users import user_of
from jupyter_collaboration_mcp.workspace.permissions import NO_RULES

if TYPE_CHECKING:
    from starlette.types import Message, Scope

#: The credential of all who have the server's own token.
SERVER_TOKEN = "token:server"

METHODS = "GET, POST, DELETE, OPTIONS"

#: Headers about one connection only (RFC 9110, 7.6.1); the other side has its own connection.
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)

#: Request headers that carry a credential, or an address that may have one in its query.
_SECRET = frozenset({"authorization", "cookie", "referer", "x-xsrftoken"})

_NOT_FOR_TOOLS = _HOP_BY_HOP | _SECRET

#: Query parameters that Jupyter reads: they carry a credential.
_OF_JUPYTER = frozenset({"token", "_xsrf"})

_NO_CREDENTIAL = (
    "This Jupyter server has neither token nor password and can be reached from other machines, so "
    "it serves no agents. Set a token, or JupyterCollaborationMCP.allow_without_token."
)
_WORTHLESS = "This agent token was revoked, has expired, or never was one."

_ERRORS = {
    401: (
        "No valid Jupyter credential. Send the server's token as `Authorization: Bearer <token>` "
        "or `?token=<token>`."
    ),
    403: "Refused by this Jupyter server.",
    405: f"Method not allowed; this endpoint accepts {METHODS}.",
    429: "Too many requests with this credential (rate_limit); see Retry-After.",
    503: "This Jupyter server is shutting down.",
}


class MCPHandler(OriginHandler):
    """One HTTP request to the MCP endpoint."""

    auth_resource = "mcp"

    collaboration_mcp_path: str | None = None
    """For authorizers: the path that is being authorized, if any."""

    def initialize(
        self,
        endpoint: MCPEndpoint,
        floods: Buckets | None = None,
        tokens: AgentTokens | None = None,
        open_to_all: bool = False,
        count_activity: bool = True,
        require_hub_scopes: bool = False,
    ) -> None:
        """Take what the endpoint consists of.

        Args:
            floods: How many requests a credential may send.
            open_to_all: Whether anybody may enter where Jupyter has neither token nor password.
            count_activity: Whether requests count as activity of the Jupyter server.
            require_hub_scopes: Whether a token of JupyterHub has to have a scope with a level.
        """
        self._endpoint = endpoint
        self._tokens = tokens
        self._open_to_all = open_to_all
        self._count_activity = count_activity
        self._require_hub_scopes = require_hub_scopes
        self._agent_token: AgentToken | None = None
        self._floods = floods
        self._wait = 0.0
        self._incoming = Incoming()
        self._gone = self._incoming.gone
        self._afterwards = Afterwards(self.request.path)
        self._asking = asyncio.Lock()
        forget_secrets(self.request)

    # Who may enter

    async def prepare(self, **options: Any) -> None:
        # First of all: a foreign page learns nothing here, not even whether its token is valid.
        if not self.check_origin():
            raise HTTPError(
                403, "Requests from this Origin are not allowed (ServerApp.allow_origin)."
            )
        normalise_authorization(self.request)
        token = take_agent_token(self.request)
        await super().prepare(**options)
        # Jupyter has set the handler itself, which all would keep that this request begins.
        CallContext.set(CallContext.JUPYTER_HANDLER, weakref.proxy(self))
        if token is not None:
            self._enter(token)
        elif not (self._open_to_all or self.identity_provider.auth_enabled or self._is_local()):
            raise HTTPError(403, _NO_CREDENTIAL)
        if self.current_user is None and not self.is_preflight():
            raise HTTPError(401)

    def _enter(self, token: str) -> None:
        """Let an agent in by its own token, as the user who made it; nothing else counts."""
        found = None if self._tokens is None else self._tokens.find(token)
        self._agent_token = found
        if found is None:
            raise HTTPError(401, _WORTHLESS)
        self.current_user = self._jupyter_current_user = user_of(found)

    def _is_local(self) -> bool:
        """Whether the server can be reached from this machine only."""
        server = self.serverapp
        return server is not None and bool(server.sock or is_loopback(server.ip))

    def check_xsrf_cookie(self) -> None:
        # Tornado calls this before `prepare`, when there is no user yet; and without a user the
        # answer is 401, not the 403 of a missing XSRF cookie. Browsers with a cookie are checked.
        if getattr(self, "_jupyter_current_user", None) is not None:
            super().check_xsrf_cookie()

    def set_signed_cookie(self, *arguments: Any, **options: Any) -> None:
        """Hand out no login cookie: Jupyter sets one on each answer to a token.

        It would be a second credential for the agent, good for 30 days whatever happens to the
        token, and its next requests would count as those of a browser.
        """

    set_secure_cookie = set_signed_cookie

    async def _authorize(self, action: str, resource: str, path: str | None) -> bool:
        if self._agent_token is not None and self._agent_token.expired:
            return False  # since its request began, such as that for a stream of notifications
        # One question at a time: an authorizer that awaits must find its own path afterwards.
        async with self._asking:
            self.collaboration_mcp_path = path
            answer = self.authorizer.is_authorized(self, self.current_user, action, resource)
            return bool(await ensure_async(answer))

    def _credential(self) -> str:
        if self._agent_token is not None:
            return self._agent_token.credential
        if (owner := hub_owner(self.current_user)) is not None:
            return owner  # whichever of their tokens it is
        # Not the username of a token request: the default identity provider invents a new
        # user for each, and an MCP session would be lost with its second request.
        provider = self.identity_provider
        token = provider.get_token(self) if self.token_authenticated else None
        if token and token == provider.token:
            # Jupyter makes up a new one at each start: its agents would not be the same any more.
            return SERVER_TOKEN
        if token:
            return "token:" + hashlib.sha256(token.encode()).hexdigest()[:16]
        if not provider.auth_enabled:  # here, too, each request gets a new user
            return "user:anonymous"
        return f"user:{self.current_user.username}"

    # The request, in

    @allow_unauthenticated  # `prepare` answers 401; Jupyter would send a login page
    async def get(self) -> None:
        await self._serve()

    @allow_unauthenticated
    async def post(self) -> None:
        # An agent at work is activity: JupyterHub must not cull the server under it.
        if self._count_activity:
            self.settings["api_last_activity"] = utcnow()
        await self._serve()

    @allow_unauthenticated
    async def delete(self) -> None:
        await self._serve()

    @allow_unauthenticated
    def options(self) -> None:
        self.set_status(204)
        self.set_header("Allow", METHODS)
        if self.is_preflight() and "Access-Control-Allow-Origin" in self._headers:
            self.set_header("Access-Control-Allow-Methods", METHODS)
            # As asked: tools may declare headers of their own (`Mcp-Param-*`).
            asked = self.request.headers.get("Access-Control-Request-Headers")
            if asked:
                self.set_header("Access-Control-Allow-Headers", asked)
            self.set_header("Access-Control-Max-Age", "600")

    @allow_unauthenticated
    def head(self) -> None:
        raise HTTPError(405)

    @allow_unauthenticated
    def put(self) -> None:
        raise HTTPError(405)

    @allow_unauthenticated
    def patch(self) -> None:
        raise HTTPError(405)

    async def _serve(self) -> None:
        if not await self._authorize("read", self.auth_resource, None):
            raise HTTPError(403, "Jupyter's authorizer does not let this user use MCP.")
        credential = self._credential()
        # Before the body is looked at: this is what a flood costs.
        if self._floods is not None and (wait := self._floods.take(credential)):
            self._wait = wait
            FLOODS.inc()
            raise HTTPError(429)
        options = self._options()
        try:
            with self._endpoint.requests.open(credential, self._drop):
                await self._answer(credential, options)
        except TooManyRequests:
            self._wait = 1.0
            FLOODS.inc()
            raise HTTPError(429, "Too many requests at once with this credential.") from None
        finally:
            self._afterwards.finish()  # also if the client has gone

    async def _answer(self, credential: str, options: ConnectionOptions) -> None:
        if await has_too_many_values(self.request.body):
            raise HTTPError(413, f"More than {MOST_VALUES:,} values in one request.")
        try:
            application = await self._endpoint.application()
        except EndpointStopped:
            raise HTTPError(503) from None
        # It may have been revoked while we waited; from here on, that ends the request.
        token = self._agent_token
        if token is not None and (self._tokens is None or not self._tokens.is_good(token)):
            raise HTTPError(401, _WORTHLESS)
        self._incoming.begin(self.request.body)
        await application(self._scope(credential, options), self._incoming.receive, self._send)
        if not (self._headers_written or self._gone.is_set()):
            raise RuntimeError("The MCP application ended without an answer")

    def _scope(self, credential: str, options: ConnectionOptions) -> Scope:
        request = self.request
        by_path = type(self.authorizer) is not AllowAllAuthorizer
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.version.removeprefix("HTTP/"),
            "method": request.method,
            "scheme": request.protocol,
            "path": unquote(request.path),
            "raw_path": request.path.encode("latin-1"),
            "root_path": "",
            "query_string": request.query.encode("latin-1"),
            "headers": [
                (lower.encode("latin-1"), value.encode("latin-1"))
                for name, value in request.headers.get_all()
                if (lower := name.lower()) not in _NOT_FOR_TOOLS
            ],
            "client": (request.remote_ip, 0),
            "server": None,
            "user": session_owner(credential),
            SCOPE_KEY: Caller(
                credential=credential,
                options=options,
                authorize=self._authorize if by_path else authorizer_for_all(self._agent_token),
                by_path=by_path,
                rules=NO_RULES if self._agent_token is None else self._agent_token.rules,
                reached=f"{request.protocol}://{request.host}{request.path}",
                after_answer=self._afterwards.do,
            ),
        }

    def _options(self) -> ConnectionOptions:
        names = self.request.query_arguments.keys() - _OF_JUPYTER
        try:
            options = ConnectionOptions.parse(
                {name: self.get_query_arguments(name) for name in sorted(names)}
            )
        except InvalidArgument as error:
            raise HTTPError(400, f"{error.happened} {error.next_step}") from None
        if self._agent_token is not None:
            return _narrowed(options, self._agent_token)
        model = getattr(self.current_user, "hub_user", None)
        return within_hub_scopes(options, model, self._require_hub_scopes)

    # The answer, out

    async def _send(self, message: Message) -> None:
        if self._gone.is_set():
            return  # as uvicorn does: the application learns it from `Incoming.receive`
        try:
            if message["type"] == "http.response.start":
                # Only the start of a stream goes out alone; a plain answer is one write.
                if self._begin(message["status"], message.get("headers", ())):
                    await self.flush()
                return
            body = message.get("body", b"")
            if body:
                self.write(body)
            if not message.get("more_body", False):
                await self.finish()
            elif body:
                await self.flush()
        except StreamClosedError:
            self._gone.set()

    def _begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Take over status and headers; return whether an event stream begins."""
        self.set_status(status)
        self.clear_header("Content-Type")
        streams = False
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            if name in _HOP_BY_HOP:
                continue
            self.set_header(name, value)
            if name == "content-type":
                streams = value.startswith("text/event-stream")
        if streams:
            self._send_at_once()
        return streams

    def _send_at_once(self) -> None:
        # Nagle's algorithm would hold a small event back until the one before is acknowledged.
        stream = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.set_nodelay(True)

    def compute_etag(self) -> None:
        return None  # no answer here is ever revalidated

    def _drop(self) -> None:
        """End the request at once: whoever sent it may not be here any more."""
        self._gone.set()
        stream = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.close()

    def on_connection_close(self) -> None:
        self._gone.set()
        super().on_connection_close()

    def on_finish(self) -> None:
        self._gone.set()  # ASGI: after the answer, `receive` says http.disconnect
        super().on_finish()
        self._afterwards.finish()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer errors in JSON, without internals; a page of HTML is of no use to an agent."""
        self.set_cors_headers()  # lost with all other headers, and a browser needs them to see 401
        if status_code == 401:
            self.set_header("WWW-Authenticate", 'Bearer realm="Jupyter"')
        elif status_code == 405:
            self.set_header("Allow", METHODS)
        elif status_code == 429:
            self.set_header("Retry-After", retry_after(self._wait))
        exception = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(exception, HTTPError) and exception.log_message:
            said = exception.log_message % exception.args
        else:
            said = _ERRORS.get(status_code, self._reason)
        self.finish({"error": said})


def _narrowed(options: ConnectionOptions, token: AgentToken) -> ConnectionOptions:
    """What a connection asks for, within what its token allows."""
    if options.agent not in (None, token.agent):
        raise HTTPError(403, f"This token is for the agent {token.agent!r} only.")
    asked_for = token.level if options.permission is None else options.permission
    return replace(options, agent=token.agent, permission=min(asked_for, token.level))
