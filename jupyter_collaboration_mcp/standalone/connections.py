"""Which Jupyter servers the command has joined, under which alias and with which level."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..backends.remote.jupyter_api import JupyterApi
from ..backends.remote.server_address import ServerAddress
from ..errors import CollaborationError, UnknownServer
from ..settings.levels import Levels
from ..workspace.permissions import Level
from ..workspace.sites import Site, Sites
from .addresses import Addresses, base_of
from .aliases import alias_of
from .discovery import RunningServer, place_of

#: Seconds in which a server that is connected already has to say which one it is.
_LIMIT = 5.0

#: Makes a site from an alias, an address, a level, and the directory that it serves if known.
MakeSite = Callable[[str, ServerAddress, Level, Path | None], Site]


@dataclass(frozen=True, slots=True)
class _Known:
    """A server that was there from the beginning."""

    alias: str
    level: Level
    address: ServerAddress


class Connections:
    """Joins servers; nothing is sent to a server before somebody needs it."""

    def __init__(
        self, sites: Sites, addresses: Addresses, levels: Levels, make_site: MakeSite
    ) -> None:
        self._sites = sites
        self._addresses = addresses
        self._levels = levels
        self._make_site = make_site
        self._known: dict[tuple[str, int, str], _Known] = {}
        """The servers that were there from the beginning, by place."""

    def join(self, servers: Sequence[str]) -> None:
        """Join the servers that the person names, each by a URL or `ALIAS=URL`.

        Raises:
            CollaborationError: No server can have this URL, or the alias is taken.
        """
        named = [_split_alias(server) for server in servers]
        for alias, url in named:
            address = self._addresses.trust(url)
            if alias is None and len(named) == 1:
                self._sites.put(self.site("", address))
            else:
                self._sites.add(self.site(alias or self._alias_for(url), address))

    def check_aliases(self) -> None:
        """Refuse a level for an unknown server: the person would believe that it applies.

        Raises:
            ValueError: No server has one of the aliases.
        """
        known = [site.alias for site in self._sites]
        for alias in self._levels.by_alias:
            if alias not in known:
                there = ", ".join(filter(None, known)) or "none; --server ALIAS=URL gives one"
                raise ValueError(
                    f"--permission: no server has the alias {alias!r}; known aliases: {there}"
                )

    def site(self, alias: str, address: ServerAddress, root: Path | None = None) -> Site:
        """A site for a server that is there from the beginning, but need not answer yet."""
        level = self._levels.of(alias)
        self._known[place_of(address.base)] = _Known(alias, level, address)
        return self._make_site(alias, address, level, root)

    def found_site(self, alias: str, found: RunningServer) -> Site:
        """A site for a server that nobody named."""
        site = self.site(alias, self._addresses.address(found.url), found.root)
        site.found = True
        return site

    def find(self, url: str) -> Site | None:
        """The site that a URL leads to, if it is joined.

        Raises:
            CollaborationError: No server can have this URL.
        """
        place = place_of(self._addresses.address(url).base)
        joined = (site for site in self._sites if site.url is not None)
        return next((site for site in joined if place_of(str(site.url)) == place), None)

    async def connect(self, url: str, alias: str | None) -> Site:
        """Join one more server, if it answers and accepts the token.

        Raises:
            CollaborationError: It does not, the alias is taken, or it is connected already.
        """
        address = self._addresses.address(url)
        place = place_of(address.base)
        if (other := self.find(url)) is not None:
            raise _already_connected(other)
        reserved = self._levels.by_alias
        alias = alias or self._alias_for(url, reserved)
        known = self._known.get(place)
        if alias in reserved and (known is None or alias != known.alias):
            raise UnknownServer(
                f"The alias {alias!r} has a permission level of its own, for another server.",
                "Choose another alias.",
                alias=alias,
            )
        site = self._make_site(alias, address, Level.read, None)  # until it is known which it is
        self._sites.add(site)
        try:
            started = await site.check()
            await self._refuse_twin(site, started)
            known = known or await self._known_elsewhere(started)
        except BaseException:
            await self._sites.remove(site.alias).close()
            raise
        site.level = self._levels.of_others if known is None else known.level
        return site

    async def _refuse_twin(self, site: Site, started: str | None) -> None:
        """Refuse a server that is already connected under another URL: what may be done there has
        been decided."""
        others = [other for other in self._sites if other is not site]
        times = await asyncio.gather(*(_start_time(other.check()) for other in others))
        for other, time in zip(others, times, strict=True):
            if started is not None and time == started:
                raise _already_connected(other)

    async def _known_elsewhere(self, started: str | None) -> _Known | None:
        """The server that this is, if it was there from the beginning under another URL and has
        been disconnected since."""
        known = list(self._known.values())
        times = await asyncio.gather(*(_start_time(_check(server.address)) for server in known))
        same = (server for server, time in zip(known, times, strict=True) if time == started)
        return None if started is None else next(same, None)

    def _alias_for(self, url: str, reserved: Iterable[str] = ()) -> str:
        """A free alias that says something about the URL."""
        return alias_of(base_of(url), {*reserved, *(site.alias for site in self._sites)})


def _split_alias(server: str) -> tuple[str | None, str]:
    """`alias=url`, or a URL alone; a URL may have an equals sign in its query."""
    alias, equals, url = server.partition("=")
    return (alias, url) if equals and "/" not in alias and ":" not in alias else (None, server)


async def _check(address: ServerAddress) -> str | None:
    api = JupyterApi(address)
    try:
        return await api.check()
    finally:
        await api.close()


async def _start_time(check: Coroutine[Any, Any, str | None]) -> str | None:
    """When a server was started, by its answer to a check; None if it does not answer."""
    try:
        async with asyncio.timeout(_LIMIT):
            return await check
    except (CollaborationError, TimeoutError):
        return None


def _already_connected(site: Site) -> UnknownServer:
    return UnknownServer(
        f"This server is connected already, as {site.label}: {site.url}.",
        f"Use {site.alias}:path." if site.alias else "Give paths without an alias.",
        alias=site.alias,
    )
