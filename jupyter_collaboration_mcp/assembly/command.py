"""What the standalone command serves: one MCP server for all Jupyter servers that it joins."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jupyter_core.paths import jupyter_data_dir

from ..backends.in_process.steps_folder import StepsFolder
from ..backends.remote.answer_limits import AnswerLimits
from ..backends.remote.backend import RemoteBackend
from ..backends.remote.jupyter_api import JupyterApi
from ..backends.remote.kernels import RemoteKernels
from ..backends.remote.panel_line import PanelLine
from ..backends.remote.server_address import ServerAddress
from ..execution.side_files import SideFiles, SideLimits
from ..server.reported_feed import ReportedFeed
from ..settings.settings import Settings
from ..standalone.addresses import Addresses
from ..standalone.connections import Connections
from ..standalone.discovery import EMBEDDED_BASE, is_here, root_at
from ..standalone.embedded import remove_leftovers
from ..standalone.hub_servers import HubServers
from ..standalone.local import LocalServers
from ..tools.parts import Standalone
from ..workspace.permissions import Level
from ..workspace.sites import Site, Sites
from .parts import Observers, make_runs, make_workspace, side_limits
from .server import make_server

if TYPE_CHECKING:
    from ..server.server import CollaborationServer

#: Seconds to leave all servers.
_CLOSE_LIMIT = 5.0


@asynccontextmanager
async def assemble_command(
    settings: Settings, addresses: Addresses, say: Callable[[str], None], log: logging.Logger
) -> AsyncIterator[CollaborationServer]:
    """Join the servers that the settings name, or those of this machine, and leave them at the end.

    Args:
        say: Tells the person something.

    Raises:
        CollaborationError: A server cannot be joined under its URL or alias.
        ValueError: A permission is for a server that is not there.
    """
    sites = Sites()
    remote = RemoteSites(settings, log)
    connections = Connections(sites, addresses, settings.permission, remote.make)
    observers = Observers(settings)
    async with AsyncExitStack() as closing:
        closing.push_async_callback(observers.close)
        if settings.hub is not None:
            address = addresses.of_hub(settings.hub)
            hub = HubServers(address, sites, connections, say, settings.start_servers)
            closing.push_async_callback(hub.close)
            closing.push_async_callback(_leave_all, sites)
            await hub.join()
        elif settings.server:
            closing.push_async_callback(_leave_all, sites)
            connections.join(settings.server)
        else:
            remove_leftovers()
            local = LocalServers(Path(settings.root), sites, connections, say, settings.embedded)
            closing.push_async_callback(local.close)
            closing.push_async_callback(_leave_all, sites)
            local.join()
        named = settings.server or (settings.hub and not settings.start_servers)
        report = partial(_report_troubles, list(sites) if named else (), say)
        await closing.enter_async_context(_in_background(log, remote.sweep, report))
        if settings.hub is None or sites.failure is None:
            connections.check_aliases()
        host = Standalone(connections.connect, connections.find)
        feed = ReportedFeed(sites)
        closing.push_async_callback(feed.close)
        yield make_server(settings, sites, host, log, observers.all, feed)


class RemoteSites:
    """Makes sites for servers elsewhere, and for those that run here without our extension."""

    def __init__(self, settings: Settings, log: logging.Logger) -> None:
        self._settings = settings
        self._answers = AnswerLimits(settings.answer_timeout, settings.max_answer_size)
        self._log = log

    def make(self, alias: str, address: ServerAddress, level: Level, root: Path | None) -> Site:
        """A site for a server, which is not asked anything yet.

        Args:
            root: The directory that it serves, if that is known.
        """
        api = JupyterApi(address, self._answers, counted=self._settings.count_activity)
        backend = RemoteBackend(api, self._log, _root_of(address.base, root))
        kernels = RemoteKernels(api, self._log)
        data = _server_directory(address, root)
        steps = StepsFolder(data)
        workspace = make_workspace(self._settings, backend, data, self._log, steps.opened, alias)
        runs = make_runs(self._settings, workspace, kernels, data / "outputs", self._log)

        workspace.ephemeral.start()
        panel = PanelLine(api)

        async def close() -> None:
            await panel.close()
            await kernels.close()
            await steps.close()
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
            patience=self._answers.seconds,
            panel=panel,
        )

    async def sweep(self) -> None:
        """Delete old outputs, also those of servers that nobody joins any more.

        Another command may have set aside some of them under the default limits; lower limits of
        this command are for its own.
        """
        own, usual = side_limits(self._settings), SideLimits()
        limits = SideLimits(own.run, max(own.total, usual.total), max(own.age, usual.age))
        for directory in _data_directory().glob("remote-*/outputs"):
            await SideFiles(directory, limits).sweep()


def _data_directory() -> Path:
    return Path(jupyter_data_dir()) / "collaboration-mcp"


def _server_directory(address: ServerAddress, root: Path | None) -> Path:
    """Where outputs, undo steps and the activity log of a server are kept. A server that a command
    starts for itself has another port each time, but the same root."""
    own = root is not None and urlsplit(address.base).path == EMBEDDED_BASE
    named = str(root) if own else address.base
    digest = hashlib.sha256(named.encode()).hexdigest()
    return _data_directory() / f"remote-{digest[:16]}"


def _root_of(url: str, root: Path | None) -> Callable[[], Path | None] | None:
    """How to find the files of a server; None if they are not on this machine.

    It may be started later than we are, or restarted with another root: its runtime file says so.
    """
    return (lambda: root_at(url) or root) if root is not None or is_here(url) else None


async def _leave_all(sites: Sites) -> None:
    # A server that is out of reach must not keep the command from ending.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_LIMIT):
            await sites.close()


async def _report_troubles(sites: Sequence[Site], say: Callable[[str], None]) -> None:
    """Tell the person which of the servers that they named cannot be used now."""
    for site, error in zip(sites, await asyncio.gather(*(s.trouble() for s in sites)), strict=True):
        if error is not None:
            alias = f"{site.alias}: " if site.alias else ""
            say(f"{alias}{error.happened} {error.remedy}")


@asynccontextmanager
async def _in_background(
    log: logging.Logger, *work: Callable[[], Awaitable[None]]
) -> AsyncIterator[None]:
    """Do some work meanwhile; it is cancelled at the end, and its failure ends nothing else."""

    async def guarded(one: Callable[[], Awaitable[None]]) -> None:
        try:
            await one()
        except Exception:
            log.exception("Work in the background failed")

    tasks = [asyncio.ensure_future(guarded(one)) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
