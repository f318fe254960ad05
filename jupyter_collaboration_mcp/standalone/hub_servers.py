"""The servers that a person has on a JupyterHub, as servers of the command."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from ..backends.remote.hub_api import HubApi, HubUser, Report
from ..backends.remote.server_address import ServerAddress
from ..errors import CollaborationError, NotJupyter, ServerStopped
from ..owned_tasks import OwnedTasks
from ..workspace.sites import Site, Sites
from .aliases import free_alias
from .connections import Connections

#: Seconds for which a server that has answered counts as running.
_FRESH = 1.0

#: Seconds after which the Hub is asked again which servers there are.
_LOOK_AGAIN = 60.0

#: The alias of the server without a name, where there are others.
_DEFAULT = "default"


class HubServers:
    """Joins the servers of a token's owner, and starts those that are needed.

    Args:
        address: The Hub, and the token.
        may_start: Whether a server that does not run is started.
        say: Tells the person something.
    """

    def __init__(
        self,
        address: ServerAddress,
        sites: Sites,
        connections: Connections,
        say: Callable[[str], None],
        may_start: bool,
    ) -> None:
        self._address = address
        self._hub = HubApi(address)
        self._sites = sites
        self._connections = connections
        self._say = say
        self._may_start = may_start
        self._joined: dict[str, Site] = {}
        """By the name of the server."""
        self._look_at = -math.inf
        """When the Hub is asked again which servers there are, on the loop's clock."""
        self._looking = asyncio.Lock()
        self._tasks = OwnedTasks()

    async def close(self) -> None:
        await self._tasks.close()
        await self._hub.close()

    async def join(self) -> None:
        """Join all servers that the Hub lists now. If that fails, the person is told, and each
        call tries again."""
        self._sites.provide = self._provide
        await self._provide()
        if self._sites.failure is not None:
            self._say(f"{self._sites.failure.happened} {self._sites.failure.remedy}")
        elif not self._joined:
            self._say(f"There is no server at {self._hub.root} yet.")

    async def _provide(self) -> None:
        if asyncio.get_running_loop().time() < self._look_at:
            return
        if not self._joined:
            async with self._looking:
                await self._look()
        elif not len(self._tasks):  # what is there is enough meanwhile
            self._tasks.start(self._look())

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time
        if now() < self._look_at:
            return
        try:
            if not self._joined:
                await self._hub.check()
            self._put(await self._servers())
        except CollaborationError as error:
            self._sites.failure = error
            self._look_at = now() + _LOOK_AGAIN if self._joined else -math.inf
        else:
            self._sites.failure = None
            self._look_at = now() + _LOOK_AGAIN

    async def _servers(self) -> HubUser:
        who = await self._hub.user()
        if not who.has("read:servers"):
            raise self._hub.lacks(f"read:servers!user={who.name}", "list servers")
        return who

    def _put(self, who: HubUser) -> None:
        # A person who has never started anything has a default server all the same.
        names = sorted({"", *who.servers} if not who.servers else who.servers)
        alone = len(names) == 1 and not self._joined
        for name in names:
            if name in self._joined:
                continue
            server = who.servers.get(name)
            url = self._hub.url_of(server) if server else f"{self._hub.root}user/{who.name}/"
            taken = [site.alias for site in self._sites]
            alias = "" if alone else free_alias(name or _DEFAULT, taken)
            address = replace(self._address, url=url)
            site = self._connections.site(alias, address)
            if name and site.checking is not None:
                site.checking = partial(self._check_named, name, site.checking)
            site.rousing = _Rouser(partial(self._start, name, site), site.check)
            self._joined[name] = site
            self._sites.put(site)

    async def _check_named(
        self, name: str, check: Callable[[], Awaitable[str | None]]
    ) -> str | None:
        """Check a named server. If it does not run, the default server knows nothing at its URL."""
        try:
            return await check()
        except NotJupyter:
            who = await self._servers()
            if who.runs(name):
                raise
            raise self._stopped(name, f"{self._hub.root}user/{who.name}/{name}/", who) from None

    async def _start(self, name: str, site: Site, report: Report) -> None:
        """Wait for a server that does not run, if it is being started or may be."""
        who = await self._servers()
        server = who.servers.get(name)
        if server is not None and server.pending == "spawn":
            await self._hub.until_ready(who.name, name, report)
        elif server is None or not server.ready:
            if not self._may_start:
                raise self._stopped(name, str(site.url), who)
            await self._hub.start(who, name, report)
        await site.check()

    def _stopped(self, name: str, url: str, who: HubUser) -> ServerStopped:
        path = f"{who.name}/{name}" if name else who.name
        return ServerStopped.for_person(
            f"The Jupyter server at {url} is stopped; JupyterHub stops servers that nobody uses.",
            f"Start it at {self._hub.root}hub/spawn/{path}, or start this command with "
            "--start-servers.",
            url=url,
        )


class _Rouser:
    """Makes sure that one server runs; concurrent callers wait for one start.

    Args:
        start: Starts it, or waits for a start that is under way.
        check: Raises `ServerStopped` if it does not run.
    """

    def __init__(
        self,
        start: Callable[[Report], Awaitable[None]],
        check: Callable[[], Awaitable[object]],
    ) -> None:
        self._start = start
        self._check = check
        self._answered = -math.inf
        self._lock = asyncio.Lock()

    async def __call__(self, report: Report) -> None:
        if self._is_fresh():
            return
        async with self._lock:
            if self._is_fresh():
                return
            try:
                await self._check()
            except ServerStopped:
                await self._start(report)
            self._answered = asyncio.get_running_loop().time()

    def _is_fresh(self) -> bool:
        return asyncio.get_running_loop().time() - self._answered < _FRESH
