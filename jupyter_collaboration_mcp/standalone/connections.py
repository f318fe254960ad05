"""Turns addresses of Jupyter servers into sites that agents can work on."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from jupyter_core.paths import jupyter_data_dir

from ..backends.remote.answer_limits import AnswerLimits
from ..backends.remote.backend import RemoteBackend
from ..backends.remote.jupyter_api import JupyterApi
from ..backends.remote.kernels import RemoteKernels
from ..backends.remote.server_address import ServerAddress, is_address
from ..documents.output_log import OutputLimits
from ..errors import CollaborationError, InvalidArgument, UnknownServer
from ..execution.executor import ExecutorSettings
from ..execution.side_files import SideFiles, SideLimits
from ..workspace.call_limits import Limits
from ..workspace.permissions import Level, PathRules
from ..workspace.runs import Runs
from ..workspace.sites import Site, Sites
from ..workspace.workspace import Workspace
from .aliases import alias_of
from .discovery import (
    EMBEDDED_BASE,
    RunningServer,
    is_here,
    owner_of,
    place_of,
    root_at,
    token_for,
)

#: Seconds in which a server that is connected already has to say which one it is.
_LIMIT = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line decides about all servers."""

    level: Level | None = None
    """Of all servers; None if nothing was said about all of them."""
    levels: Mapping[str, Level] = field(default_factory=dict)
    """Of single servers that the person named, by alias."""
    rules: PathRules = field(default_factory=PathRules)
    idle_timeout: float = 300.0
    token: str | None = None
    """The person's own: for servers that they named, and no other."""
    insist: bool = False
    """Whether it goes before the token that Jupyter's own files have."""
    verify: bool = True
    answers: AnswerLimits = field(default_factory=AnswerLimits)
    """What is accepted of a server's answers."""

    def level_of(self, alias: str) -> Level:
        """Of a server that the person named, or that was there from the beginning."""
        return self.levels.get(alias, Level.admin if self.level is None else self.level)

    @property
    def level_of_others(self) -> Level:
        """Of a server that an agent connects: the person has not said that it may do more there
        than on the one where it may do least."""
        least = min(self.levels.values(), default=Level.admin)
        return least if self.level is None else self.level


@dataclass(frozen=True, slots=True)
class _Known:
    """A server that was there from the beginning."""

    alias: str
    level: Level
    address: ServerAddress


class Connections:
    """Makes sites; a site asks its server nothing before somebody wants something of it."""

    def __init__(self, sites: Sites, settings: Settings, log: logging.Logger) -> None:
        self._sites = sites
        self._settings = settings
        self._log = log
        self._trusted: set[tuple[str, str, int, str]] = set()
        """The servers that the person named."""
        self._known: dict[tuple[str, int, str], _Known] = {}
        """The servers that were there from the beginning, by place."""

    def trust(self, url: str) -> ServerAddress:
        """The address of a server that the person named: it may be sent their token.

        Raises:
            InvalidArgument: No server can have this address.
        """
        if is_address(url):
            self._trusted.add(owner_of(_base(url)))
        return self.address(url)

    def address(self, url: str) -> ServerAddress:
        """The address of a server with the token that belongs to it.

        Raises:
            InvalidArgument: No server can have this address.
        """
        if not is_address(url):
            raise InvalidArgument(
                f"{url.partition('?')[0]!r} is not the address of a server.",
                "Give one like http://127.0.0.1:8888/.",
            )
        given = parse_qs(urlsplit(url).query, keep_blank_values=True).get("token")
        base = _base(url)
        own = self._settings.token if owner_of(base) in self._trusted else None
        verify = self._settings.verify
        if given:
            return ServerAddress(base, _real(given[0]), verify)
        if own and self._settings.insist:
            return ServerAddress(base, _real(own), verify)
        filed = _real(token_for(url))
        if filed is None and own:
            return ServerAddress(base, _real(own), verify)
        # A server that is started again has another token then, and its file tells.
        return ServerAddress(base, filed, verify, lambda: _real(token_for(url)))

    def site(self, alias: str, address: ServerAddress, root: Path | None = None) -> Site:
        """A site for a server that is there from the beginning, but need not answer yet."""
        level = self._settings.level_of(alias)
        self._known[place_of(address.base)] = _Known(alias, level, address)
        return self._made(alias, address, level, root)

    def found_site(self, alias: str, found: RunningServer) -> Site:
        """A site for a server that nobody named."""
        site = self.site(alias, self.address(found.url), found.root)
        site.found = True
        return site

    def _made(self, alias: str, address: ServerAddress, level: Level, root: Path | None) -> Site:
        settings = self._settings
        api = JupyterApi(address, settings.answers)
        backend = RemoteBackend(api, self._log, _root_of(address.base, root))
        kernels = RemoteKernels(api, self._log)
        workspace = Workspace(
            backend, settings.rules, Limits(), settings.idle_timeout, self._log, alias
        )
        runs = Runs(
            workspace,
            kernels,
            SideFiles(_outputs(address, root), SideLimits()),
            OutputLimits(),
            ExecutorSettings(),
            self._log,
        )

        async def close() -> None:
            await kernels.close()
            await backend.close()
            await api.close()

        return Site(
            alias,
            workspace,
            runs,
            level,
            address.base,
            close,
            api.check,
            root,
            patience=settings.answers.seconds,
        )

    async def sweep(self) -> None:
        """Delete outputs that were put aside long ago, also those of servers that nobody joins
        any more."""
        for directory in _aside().glob("remote-*/outputs"):
            await SideFiles(directory, SideLimits()).sweep()

    async def connect(self, url: str, alias: str | None) -> Site:
        """One more server, if it is there and lets us in.

        Raises:
            CollaborationError: It does not, the alias is taken, or it is connected already.
        """
        address = self.address(url)
        place = place_of(address.base)
        for other in self._sites:
            if other.url is not None and place_of(other.url) == place:
                raise _connected(other)
        alias = alias or self.alias_for(url, self._settings.levels)
        known = self._known.get(place)
        if alias in self._settings.levels and (known is None or alias != known.alias):
            raise UnknownServer(
                f"The alias {alias!r} has a permission level of its own, for another server.",
                "Choose another alias.",
                alias=alias,
            )
        site = self._made(alias, address, Level.read, None)  # until it is known what it is
        self._sites.add(site)
        try:
            started = await site.check()
            await self._refuse_twin(site, started)
            known = known or await self._known_elsewhere(started)
        except BaseException:
            await self._sites.remove(site.alias).close()
            raise
        site.level = self._settings.level_of_others if known is None else known.level
        return site

    async def _refuse_twin(self, site: Site, started: str | None) -> None:
        """Refuse a server that is connected under an address that only looks like another one:
        what may be done there has been decided."""
        others = [other for other in self._sites if other is not site]
        times = await asyncio.gather(*(_started(other.check()) for other in others))
        for other, time in zip(others, times, strict=True):
            if started is not None and time == started:
                raise _connected(other)

    async def _known_elsewhere(self, started: str | None) -> _Known | None:
        """The server that this is, if it was there from the beginning under another address and
        has been disconnected since."""
        known = list(self._known.values())
        times = await asyncio.gather(*(_started(_asked(server.address)) for server in known))
        same = (server for server, time in zip(known, times, strict=True) if time == started)
        return None if started is None else next(same, None)

    def alias_for(self, url: str, reserved: Iterable[str] = ()) -> str:
        """A free alias that says something about the URL."""
        return alias_of(_base(url), {*reserved, *(site.alias for site in self._sites)})


def _aside() -> Path:
    return Path(jupyter_data_dir()) / "collaboration-mcp"


def _outputs(address: ServerAddress, root: Path | None) -> Path:
    """Where the outputs of a server are put aside. One that a command starts for itself has
    another port each time, and the same directory."""
    own = root is not None and urlsplit(address.base).path == EMBEDDED_BASE
    named = str(root) if own else address.base
    return _aside() / f"remote-{hashlib.sha256(named.encode()).hexdigest()[:16]}" / "outputs"


def _root_of(url: str, root: Path | None) -> Callable[[], Path | None] | None:
    """How to know where the files of a server are; None if they are not on this machine.

    It may be started later than we are, and again with another root: its file tells.
    """
    return (lambda: root_at(url) or root) if root is not None or is_here(url) else None


async def _asked(address: ServerAddress) -> str | None:
    api = JupyterApi(address)
    try:
        return await api.check()
    finally:
        await api.close()


async def _started(check: Coroutine[Any, Any, str | None]) -> str | None:
    """What a check says of when a server was started; nothing if it is not there."""
    try:
        return await asyncio.wait_for(check, _LIMIT)
    except (CollaborationError, TimeoutError):
        return None


def _connected(site: Site) -> UnknownServer:
    return UnknownServer(
        f"This server is connected already, as {site.label}: {site.url}.",
        f"Use {site.alias}:path." if site.alias else "Give paths without an alias.",
        alias=site.alias,
    )


def _real(token: str | None) -> str | None:
    """A token, unless it is a placeholder that a client has passed on as it was.

    Raises:
        InvalidArgument: It cannot be sent; the error does not show it.
    """
    token = (token or "").strip()
    if not (token.isascii() and token.isprintable()):
        raise InvalidArgument.for_person(
            "The token has characters that cannot be sent to a server.", "Correct JUPYTER_TOKEN."
        )
    return None if not token or re.fullmatch(r"\$\{.*\}|<.*>", token) else token


def _base(url: str) -> str:
    """The address of a server, of one that may be that of a page."""
    parts = urlsplit(url)
    found = re.match(r"(.*?)/(?:lab|tree|notebooks|doc|edit|api|mcp)(?:/|$)", parts.path)
    return f"{parts.scheme}://{parts.netloc}{found[1] if found else parts.path}"
