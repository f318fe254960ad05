"""The Jupyter servers of this machine, for a command without `--server`: found, or started."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import CollaborationError
from ..workspace.sites import Site, Sites
from .aliases import aliases_of
from .connections import Connections
from .discovery import RunningServer, is_alive, place_of, running_servers
from .embedded import EmbeddedServer, turn_to_start


class LocalServers:
    """Joins the servers that run, or starts one.

    A server that this command or another one has started may end; the next call then finds or
    starts one again.

    Args:
        root: Servers around this directory come first, and a new one serves it.
        say: Prints a line for the person.
        may_start: Whether to start a server if none runs.
    """

    def __init__(
        self,
        root: Path,
        sites: Sites,
        connections: Connections,
        say: Callable[[str], None],
        may_start: bool = True,
    ) -> None:
        self._root = root
        self._sites = sites
        self._connections = connections
        self._say = say
        self._may_start = may_start
        self._embedded = EmbeddedServer()
        self._own: Site | None = None
        self._borrowed: tuple[RunningServer, Site] | None = None
        """A server that another command has started, and that ends with it."""
        self._work: asyncio.Task[None] | None = None

    def join(self) -> None:
        """Join the servers that run, or begin to start one."""
        self._put(running_servers(self._root))
        if not len(self._sites) and self._may_start:
            self._begin()
        self._sites.provide = self._provide

    async def close(self) -> None:
        """Stop the server that was started."""
        if self._work is not None:
            self._work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._work
        await self._embedded.stop()

    # -- parts -------------------------------------------------------------------------------

    async def _provide(self) -> None:
        if self._work is None and self._needs_server():
            self._begin()
        if self._work is not None:
            await asyncio.shield(self._work)

    def _needs_server(self) -> bool:
        if self._sites.failure is not None:
            return not len(self._sites)
        there = list(self._sites)
        if self._own in there:
            return self._embedded.is_over
        return (
            self._borrowed is not None
            and self._borrowed[1] in there
            and not is_alive(self._borrowed[0].pid)
        )

    def _begin(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._find_or_start())

    async def _find_or_start(self) -> None:
        """Keep a failure for calls that need a server, and notify the person once."""
        try:
            await self._leave_borrowed()
            async with turn_to_start(self._root):
                if self._own is None:
                    self._put(await asyncio.to_thread(running_servers, self._root))
                if self._own is not None or not len(self._sites):
                    await self._start()
        except CollaborationError as error:
            await self._leave_own()
            if self._sites.failure is None:
                self._say(f"{error.happened} {error.remedy}")
            self._sites.failure = error
        finally:
            self._work = None

    def _put(self, running: Sequence[RunningServer]) -> None:
        known = {place_of(site.url) for site in self._sites if site.url is not None}
        aliases = aliases_of(running, [site.alias for site in self._sites])
        for found, alias in zip(running, aliases, strict=True):
            if place_of(found.url) in known:
                continue
            site = self._connections.found_site(alias if len(self._sites) else "", found)
            self._sites.put(site)
            self._sites.failure = None
            if found.embedded:
                self._borrowed = (found, site)

    async def _start(self) -> None:
        if self._sites.failure is not None or not self._may_start:
            return  # do not try twice; somebody else may have started one meanwhile
        address = await self._embedded.start(self._root)
        if self._own is None:
            self._own = self._connections.site("", address, self._root.resolve())
            self._sites.put(self._own)
        self._say(f"Jupyter runs at {self._embedded.lab_url}")

    async def _leave_own(self) -> None:
        site, self._own = self._own, None
        await self._leave(site)

    async def _leave_borrowed(self) -> None:
        site, self._borrowed = self._borrowed[1] if self._borrowed else None, None
        await self._leave(site)

    async def _leave(self, site: Site | None) -> None:
        if site is not None and site in list(self._sites):
            await self._sites.remove(site.alias).close()
