"""The Jupyter servers that agents work on: the one this extension runs in, or several by alias."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..backends.protocols.forks import PREFIX, Fork
from ..backends.protocols.panel_messages import PanelReports
from ..backends.protocols.room_ids import Kind, RoomId
from ..collaboration.activity.log import ActivityLog
from ..collaboration.peer import RoomPeer
from ..documents.foreign_text import PATH, inline
from ..errors import (
    CollaborationError,
    DocumentNotFound,
    PermissionRefused,
    ServerUnreachable,
    UnknownServer,
)
from ..execution.run import Run
from ..remedies import Intent, Remedy
from .notebook_names import NotebookNames
from .open_document import OpenDocument, escaped, named
from .permissions import Level
from .permits import Permit, Report, unreported
from .runs import Runs
from .workspace import Workspace

_ALIAS = re.compile(r"[A-Za-z][\w-]{0,39}")

#: What people read beside the name of an agent while it calls a tool.
_DOING = {
    Level.read: "reading",
    Level.write: "writing",
    Level.execute: "running code",
    Level.admin: "working",
}

#: Seconds that a server has to respond.
_CHECK = 5.0

#: How a text names the server with the empty alias.
DEFAULT = "(default)"


@dataclass(slots=True)
class Site:
    """One Jupyter server."""

    alias: str
    """Empty for the server that this runs in."""
    workspace: Workspace
    runs: Runs
    level: Level = Level.admin
    """The most that agents may do there."""
    url: str | None = None
    closing: Callable[[], Awaitable[None]] | None = None
    checking: Callable[[], Awaitable[str | None]] | None = None
    root: Path | None = None
    """The directory that it serves, if that is known."""
    events: Sequence[str] = ()
    """What happened to the server itself; every agent is notified once."""
    patience: float | None = None
    """Seconds that it has to answer when others are queried as well."""
    found: bool = False
    """Whether it was discovered, not named by a person: if silent, it is left out of surveys."""
    panel: PanelReports | None = None
    """Tells its panel what agents of this process do there, if it is elsewhere."""
    left_out: bool = False
    """Whether the last survey left it out, of which agents have been notified."""
    rousing: Callable[[Report], Awaitable[None]] | None = None
    """Makes sure that it runs, where something else starts and stops it."""

    @property
    def label(self) -> str:
        """The alias, made safe to put into a sentence."""
        return self.alias or DEFAULT

    @property
    def activity(self) -> ActivityLog:
        """What people and agents did on this server."""
        return self.workspace.activity

    def name(self, path: str) -> str:
        """A path as agents write it, with the alias."""
        return named(self.alias, escaped(path))

    def label_of(self, path: str) -> str:
        """`name`, made safe to put into a sentence."""
        return inline(self.name(path), PATH)

    def require(self, level: Level) -> None:
        """Refuse a level above what agents may do here."""
        if level > self.level:
            raise PermissionRefused(
                f"This needs the permission level {level.name}; "
                f"the server {self.alias or 'itself'} allows {self.level.name}.",
                f"Ask the person to allow {level.name} on it.",
                level=level.name,
            )

    async def rouse(self, report: Report = unreported) -> None:
        """Wait until it runs, if it is being started, or can be.

        Raises:
            ServerError: It does not run.
        """
        if self.rousing is not None:
            await self.rousing(report)

    async def open(
        self, permit: Permit, kind: Kind | None = "notebook", fork: Fork | None = None
    ) -> SiteDocument:
        """Join a document. Its access is checked again before the call is answered.

        Args:
            kind: What it must be; None if it may be either.
            fork: A fork of what the permit is for, to be opened instead.
        """
        make = partial(SiteDocument, site=self)
        here = await self.workspace.open_as(make, permit, kind, fork)
        permit.call.at_end(here.seat.profile.work(_DOING[permit.level]))
        room_id, version = here.peer.link.room_id, here.peer.version
        permit.call.note(self, permit.level, here.path, room_id.file_id, version)
        permit.call.recheck(partial(self.workspace.recheck, here, permit))
        return here

    async def check(self) -> str | None:
        """Check that it responds and lets us in; returns when it was started, if it reports that.

        Raises:
            ServerError: It does not respond, or refuses us.
        """
        return None if self.checking is None else await self.checking()

    async def trouble(self) -> CollaborationError | None:
        """The reason why it cannot be used, if any; known within seconds."""
        try:
            async with asyncio.timeout(_CHECK):
                await self.check()
        except CollaborationError as error:
            return error
        except TimeoutError:
            return ServerUnreachable(
                f"{self.url} does not answer within {_CHECK:g} s.",
                "Try again in a while.",
                url=self.url,
            )
        return None

    def leave_out(self, why: str) -> None:
        """Remember that it did not answer; each agent is notified once, until it is back."""
        if not self.left_out:
            self.left_out = True
            told = f"{self.url} is left out of lists while it does not answer. {why}"
            self.events = [*self.events, told]

    async def close(self) -> None:
        await self.workspace.ephemeral.close()
        await self.runs.close()
        await self.workspace.close()
        if self.closing is not None:
            await self.closing()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDocument(OpenDocument):
    """An open document that knows its server."""

    site: Site


class Sites:
    """All servers; a path without an alias belongs to the first one."""

    def __init__(self, sites: Iterable[Site] = ()) -> None:
        self._sites: dict[str, Site] = {site.alias: site for site in sites}
        self._reported: Counter[tuple[str, str]] = Counter()
        """How many events of a server an agent has been notified of, by alias and agent."""
        self._former: set[str] = set()
        """Aliases of removed servers: a path that begins with one does not mean a file."""
        self.provide: Callable[[], Awaitable[None]] | None = None
        """Makes sure that there is a server, where one is started or discovered."""
        self._watchers: dict[object, Callable[[], None]] = {}
        self.names = NotebookNames()
        self.failure: CollaborationError | None = None
        """Why there is no server, if the reason is more than that none was named."""

    async def ready(self) -> None:
        """Wait for a server that is being started. If that fails, `default` raises the reason;
        tools that need no server still work."""
        if self.provide is not None:
            await self.provide()

    def news(self, agent: str) -> list[str]:
        """Events of the servers that were not yet reported to this agent; now they are."""
        news: list[str] = []
        for site in self._sites.values():
            if site.events:
                news += site.events[self._reported[site.alias, agent] :]
                self._reported[site.alias, agent] = len(site.events)
        return news

    def leave(self, agent: str) -> None:
        """Hide an agent that has gone on all servers."""
        for site in self._sites.values():
            site.workspace.rooms.leave(agent)

    def leave_all(self, credential: str) -> None:
        """Hide all agents with a credential on all servers."""
        owned = f" <{credential}>"
        for site in self._sites.values():
            rooms = site.workspace.rooms
            agents = {agent for opened in rooms for agent in opened.agents}
            for agent in agents:
                if agent.endswith(owned):
                    rooms.leave(agent)

    def watch(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Call a function when servers come or go, until what this returns is called."""
        token = object()
        self._watchers[token] = tell

        def stop() -> None:
            self._watchers.pop(token, None)

        return stop

    def _tell(self) -> None:
        for tell in list(self._watchers.values()):
            tell()

    def current(self, agent: str) -> tuple[Site, RoomId] | None:
        """Where an agent was last, on whichever server."""
        latest: tuple[float, Site, RoomId] | None = None
        for site in self:
            used = site.workspace.rooms.last_used(agent)
            if used is not None and (latest is None or used[0] > latest[0]):
                latest = used[0], site, used[1]
        return None if latest is None else latest[1:]

    def put(self, site: Site) -> None:
        """Add a server under an alias that is known to be free."""
        self._sites[site.alias] = site
        self._tell()

    def __iter__(self) -> Iterator[Site]:
        return iter(list(self._sites.values()))

    def __len__(self) -> int:
        return len(self._sites)

    @property
    def default(self) -> Site:
        """The server of paths without an alias.

        Raises:
            CollaborationError: There is no server at all.
        """
        for site in self._sites.values():
            return site
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        raise UnknownServer(
            "No Jupyter server is connected.",
            Intent.CONNECT_OR_ASK,
        )

    def get(self, alias: str) -> Site:
        """A server by its alias.

        Raises:
            UnknownServer: No server has this alias.
        """
        if alias not in self._sites:
            raise UnknownServer(
                f"No server has the alias {alias!r}; there are: {self._aliases()}.",
                Intent.LIST_SERVERS,
                alias=alias,
            )
        return self._sites[alias]

    def add(self, site: Site) -> None:
        """Add a server.

        Raises:
            UnknownServer: The alias is taken, or not valid.
        """
        if not _ALIAS.fullmatch(site.alias) or f"{site.alias}:" == PREFIX:
            raise UnknownServer(
                f"{site.alias!r} cannot be an alias.",
                "Choose letters, digits, - and _, beginning with a letter; not fork.",
            )
        if site.alias in self._sites:
            raise UnknownServer(
                f"The alias {site.alias!r} is taken by {self._sites[site.alias].url}.",
                "Choose another alias.",
                alias=site.alias,
            )
        self._sites[site.alias] = site
        self._tell()

    def remove(self, alias: str) -> Site:
        """Remove a server; the caller closes it."""
        site = self.get(alias)
        del self._sites[alias]
        self._former.add(alias)
        self._tell()
        return site

    def find(self, path: str) -> tuple[Site, str]:
        """The server of a path, and the path there. Only a known alias counts as a prefix."""
        alias, colon, rest = path.partition(":")
        if colon and alias and alias in self._sites:
            return self._sites[alias], rest
        return self.default, path

    def unknown(self, path: str, error: DocumentNotFound) -> DocumentNotFound:
        """The error for a missing path whose beginning may have been meant as an alias."""
        alias = self._unknown_alias(path)
        if alias is None:
            return error
        return DocumentNotFound(
            f"{error.happened} No server has the alias {alias!r} either; there are: "
            f"{self._aliases()}.",
            error.step,
            **error.detail,
        )

    def require_known(self, path: str) -> None:
        """Refuse a path on a server that is not connected, before anything is created or searched
        for on another one.

        Raises:
            UnknownServer: No server has the alias.
        """
        alias = self._unknown_alias(path)
        if alias is not None:
            raise UnknownServer(
                f"No server has the alias {alias!r}; there are: {self._aliases()}. Nothing was "
                "done.",
                Remedy(Intent.LIST_SERVERS_OR_ESCAPE, {"path": path}),
                alias=alias,
            )

    def _unknown_alias(self, path: str) -> str | None:
        """The beginning of a path that looks like an alias, but is not a known one."""
        alias, colon, _ = path.partition(":")
        if not colon or alias in self._sites or not _ALIAS.fullmatch(alias):
            return None
        if path.startswith(PREFIX):
            return None
        return alias if any(self._sites) or alias in self._former else None

    def peer_of(self, room_id: RoomId) -> RoomPeer | None:
        """The peer of an open room on any server."""
        found = (site.workspace.peer_of(room_id) for site in self._sites.values())
        return next((peer for peer in found if peer is not None), None)

    def run(self, run_id: str) -> tuple[Site, Run]:
        """A run by its id, and its server.

        Raises:
            RunNotFound: No server has it.
        """
        for site in self._sites.values():
            if run_id in site.runs.remembered:
                return site, site.runs.remembered.find(run_id)
        site = self.default
        return site, site.runs.remembered.find(run_id)

    async def notebook_of(self, run_id: str) -> str | None:
        """The file id of the notebook of a run, if anything of the run is kept."""
        for site in self._sites.values():
            if run_id in site.runs.remembered:
                return site.runs.remembered.find(run_id).room_id.file_id
        for site in self._sites.values():
            if (notebook := await site.runs.side_files.notebook_of(run_id)) is not None:
                return notebook
        return None

    async def document(self, file_id: str) -> tuple[Site, str] | None:
        """The server and path of the document with a file id.

        Raises:
            CollaborationError: No server has it, and one of them did not answer.
        """
        for site in self:
            if (path := site.workspace.path_of(file_id)) is not None:
                return site, path
        silent: CollaborationError | None = None
        asking = [asyncio.ensure_future(_locate(site, file_id)) for site in self]
        try:
            for answer in asyncio.as_completed(asking):
                try:
                    site, path = await answer
                except CollaborationError as error:
                    silent = error
                else:
                    if path is not None:
                        return site, path
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        if silent is not None:
            raise silent
        return None

    async def close(self) -> None:
        """Leave all servers."""
        for site in list(self._sites.values()):
            await site.close()
        self._sites.clear()

    def _aliases(self) -> str:
        return ", ".join(site.label for site in self) or "none"


async def _locate(site: Site, file_id: str) -> tuple[Site, str | None]:
    return site, await site.workspace.locate(file_id)
