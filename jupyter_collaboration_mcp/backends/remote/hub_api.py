"""The REST API of a JupyterHub: whose token this is, which servers they have, and starting one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from ...documents.foreign_text import inline, quoted
from ...errors import HubRefused, NotJupyter, ServerUnreachable, TokenRefused
from .answer_limits import Answer, parse_json
from .jupyter_api import JupyterApi
from .jupyterhub import VERSION_HEADER
from .server_address import ServerAddress
from .server_errors import ServerErrors

#: The oldest major version of a Hub that we can use: scopes came with it.
_OLDEST = 2

#: Seconds for a server to start, as a Hub itself waits at most by default, and a while more.
_START_LIMIT = 330.0

#: Seconds between two looks at a server that starts.
_LOOK_AGAIN = 0.5

Report = Callable[[float, str], Awaitable[None]]
"""Takes how far something is, in percent, and what happens now."""


async def unreported(percent: float, message: str) -> None:
    """For who waits without being told anything."""


@dataclass(frozen=True, slots=True)
class UserServer:
    """A server of a user, as the Hub describes it."""

    name: str
    """Empty for the default server."""
    path: str
    """The path of its URL, with a slash at the end; the whole URL if it has a host of its own."""
    ready: bool
    pending: str | None
    """What the Hub is doing to it: `spawn` or `stop`."""


@dataclass(frozen=True, slots=True)
class HubUser:
    """Who a token belongs to, and what it allows."""

    name: str
    scopes: frozenset[str]
    servers: Mapping[str, UserServer] = field(default_factory=dict)
    """By name; those that the token may know of."""

    def has(self, scope: str, server: str = "", user: str = "") -> bool:
        """Whether the token has a scope for a server of a user, of its own by default."""
        user = user or self.name
        fitting = ("", f"!user={user}", f"!server={user}/{server}")
        return any(f"{scope}{one}" in self.scopes for one in fitting)

    def runs(self, server: str) -> bool:
        """Whether a server runs, or the token may not know."""
        if not self.has("read:servers", server):
            return True
        return server in self.servers and self.servers[server].ready


class HubApi:
    """One JupyterHub, asked with one token.

    Args:
        address: The Hub's URL, the part before `hub/`, and a token.
    """

    def __init__(self, address: ServerAddress) -> None:
        self.root = address.base
        self._api = JupyterApi(address)

    async def close(self) -> None:
        await self._api.close()

    async def check(self) -> str:
        """The Hub's version, which anybody may know.

        Raises:
            ServerError: It does not answer, is no Hub, or is too old.
        """
        answer = await self._api.ask("GET", "hub", "api")
        require_hub(answer, self.root)
        version = answer.headers[VERSION_HEADER]
        major = version.partition(".")[0]
        if not major.isdecimal() or int(major) < _OLDEST:
            raise HubRefused(
                f"The JupyterHub at {self.root} has the version {inline(version, 40)}, which knows "
                "no scopes.",
                f"Ask whoever runs it for JupyterHub {_OLDEST} or newer; 6 is what we test.",
                url=self.root,
            )
        return version

    async def user(self) -> HubUser:
        """Who the token belongs to, with all servers that it may know of.

        Raises:
            TokenRefused: The Hub does not know the token, or it is a service's.
            ServerError: It does not answer, or is no Hub.
        """
        answer = await self._api.ask("GET", "hub", "api", "user", query=_ALL)
        return await user_in(answer, self.root)

    def lacks(self, scope: str, what: str) -> HubRefused:
        """The error for a token without a scope that is needed for something."""
        return HubRefused(
            f"The token for {self.root} may not {what}: it lacks the scope {scope}.",
            f"Ask the person to create a token with that scope at {self.root}hub/token.",
            scope=scope,
            url=self.root,
        )

    def url_of(self, server: UserServer) -> str:
        """The URL of a server.

        Raises:
            NotJupyter: It is neither at the Hub's host nor below it, so its token stays here.
        """
        url = urljoin(self.root, server.path)
        own, there = urlsplit(self.root), urlsplit(url)
        host = there.hostname or ""
        at_home = there.netloc == own.netloc or host.endswith(f".{own.hostname}")
        if there.scheme == own.scheme and at_home:
            return url
        raise NotJupyter(
            f"The JupyterHub at {self.root} names a server at another host, {quoted(url)}.",
            "Ask whoever runs the Hub: no token is sent there.",
            url=self.root,
        )

    async def start(self, who: HubUser, server: str, report: Report = unreported) -> None:
        """Start a server of the token's owner if it is not running; return when it is ready.

        Raises:
            HubRefused: The token may not, or the Hub could not start it.
            ServerUnreachable: It was not ready in time.
        """
        user = who.name
        if not who.has("read:servers", server):
            raise self.lacks(f"read:servers!user={user}", "see how a start goes on")
        await report(0, f"JupyterHub starts the server {_label(user, server)}")
        answer = await self._api.ask("POST", *_path(user, server), body={})
        require_hub(answer, self.root)
        said = await _said(answer)
        if answer.status in (403, 404):
            raise self.lacks(f"start:servers!user={user}", "start a server")
        already = answer.status == 400 and ("already running" in said or "pending" in said)
        if answer.status not in (201, 202) and not already:
            raise self._not_started(user, server, said or f"status {answer.status}")
        await self.until_ready(user, server, report)

    async def until_ready(self, user: str, server: str, report: Report = unreported) -> None:
        """Wait for a server that is being started.

        Raises:
            HubRefused: The Hub could not start it.
            ServerUnreachable: It was not ready in time.
        """
        began = time.monotonic()
        following = asyncio.ensure_future(self._follow(user, server, report))
        try:
            while time.monotonic() - began < _START_LIMIT:
                state = (await self.user()).servers.get(server)
                if state is not None and state.ready:
                    await report(100, f"The server {_label(user, server)} is ready")
                    return
                if state is None or (state.pending is None and not state.ready):
                    raise self._not_started(user, server, await _last(following))
                await asyncio.wait([following], timeout=_LOOK_AGAIN)
                if following.done():  # the Hub has told all there is; or tells nothing
                    await asyncio.sleep(_LOOK_AGAIN / 5)
        finally:
            following.cancel()
            await asyncio.wait([following])
        raise ServerUnreachable(
            f"The server {_label(user, server)} has been starting for {_START_LIMIT:.0f} s.",
            f"Look at {self.root}hub/home, and try again when it runs.",
            url=self.root,
        )

    async def _follow(self, user: str, server: str, report: Report) -> str:
        """Report what the Hub tells about a start; returns the last of it."""
        last = ""
        with contextlib.suppress(httpx2.HTTPError, ValueError, KeyError, TypeError):
            async with self._api.stream("GET", *_path(user, server), "progress") as response:
                async for line in response.aiter_lines():
                    if line.startswith("data:"):
                        event = json.loads(line[5:])
                        last = inline(str(event.get("message") or ""), 300)
                        await report(float(event.get("progress") or 0), last)
        return last

    def _not_started(self, user: str, server: str, why: str) -> HubRefused:
        return HubRefused(
            f"The JupyterHub could not start the server {_label(user, server)}: "
            f"{quoted(why or 'no reason given')}.",
            f"Ask the person to look at {self.root}hub/home.",
            url=self.root,
        )


#: Stopped servers are listed, too.
_ALL = {"include_stopped_servers": "1"}


async def user_in(answer: Answer, root: str) -> HubUser:
    """Who a Hub says that a token belongs to.

    Args:
        root: The URL of the Hub, for errors.

    Raises:
        TokenRefused: It does not know the token, or it is a service's.
        ServerError: It is no Hub, or has failed.
    """
    require_hub(answer, root)
    if answer.status in (401, 403):
        sent = "authorization" in answer.request.headers
        raise TokenRefused.for_person(
            f"The JupyterHub at {root} does not accept the token."
            if sent
            else f"The JupyterHub at {root} wants a token, and none is known.",
            f"Create one at {root}hub/token and put it into JUPYTERHUB_API_TOKEN.",
            url=root,
        )
    if answer.status >= 400:
        raise HubRefused(
            f"The JupyterHub at {root} answers with {answer.status}: "
            f"{quoted(await _said(answer))}.",
            "Try again in a while; its log says more.",
            url=root,
        )
    try:
        model = await parse_json(answer.body)
        if model["kind"] == "user":
            found = (_server(each) for each in model.get("servers", {}).values())
            servers = {server.name: server for server in found}
            return HubUser(str(model["name"]), frozenset(map(str, model["scopes"])), servers)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NotJupyter(
            f"What answers at {root} is not a JupyterHub that we know: unexpected answer about a "
            "user.",
            "Ask whoever runs it which version it is.",
            url=root,
        ) from error
    raise TokenRefused.for_person(
        f"The token for {root} belongs to a service, not to a person.",
        f"Create one at {root}hub/token.",
        url=root,
    )


def require_hub(answer: Answer, root: str) -> None:
    """Refuse what does not come from a Hub.

    Raises:
        ServerError: It does not.
    """
    if VERSION_HEADER in answer.headers:
        return
    if answer.status in (502, 503, 504):
        raise ServerErrors(ServerAddress(root)).unreachable(
            ConnectionError(f"what stands in front of it answers with status {answer.status}")
        )
    raise NotJupyter(
        f"What answers at {root} is not a JupyterHub.",
        "Give its URL, the part before hub/.",
        url=root,
    )


async def _said(answer: Answer) -> str:
    """The message of an answer that refuses something."""
    try:
        content = await parse_json(answer.body) if answer.body else None
    except ValueError:
        return ""
    return str(content.get("message") or "") if isinstance(content, dict) else ""


def _path(user: str, server: str) -> list[str]:
    start = ["hub", "api", "users", user]
    return [*start, "servers", server] if server else [*start, "server"]


def _server(model: Mapping[str, Any]) -> UserServer:
    pending = model.get("pending")
    return UserServer(
        str(model["name"]), str(model["url"]), bool(model["ready"]), pending and str(pending)
    )


def _label(user: str, server: str) -> str:
    return quoted(f"{user}/{server}" if server else user)


async def _last(following: asyncio.Task[str]) -> str:
    """What the Hub told last; it may be just about to tell it."""
    await asyncio.wait([following], timeout=_LOOK_AGAIN)
    return following.result() if following.done() and not following.cancelled() else ""
