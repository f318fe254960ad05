"""What is behind `/mcp` inside a Jupyter server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ..backends.in_process.activity_events import ActivityEvents
from ..backends.in_process.backend import InProcessBackend
from ..backends.in_process.kernels import InProcessKernels
from ..server import MODULES
from ..settings.settings import Settings
from ..transport.endpoint import MCPEndpoint
from ..transport.history_routes import HistoryService
from ..workspace.sites import Site, Sites
from .journal import journal_directory, recover_journal, store_warnings
from .parts import make_runs, make_workspace

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from mcp.server.mcpserver import MCPServer

#: Imported in a thread, together with what is registered: the SDK takes more than a second.
_SERVER = "jupyter_collaboration_mcp.assembly.server"


class ExtensionAssembly:
    """The objects of the extension, from loading it to `close`.

    Jupyter loads extensions outside of its event loop and tells them when it stops, so this cannot
    be an `async with`; what is closed, and in which order, is decided where it is made.
    """

    def __init__(self, settings: Settings, serverapp: ServerApp, log: logging.Logger) -> None:
        self._settings = settings
        self._closing = AsyncExitStack()
        self.warnings = store_warnings(serverapp)
        """What is wrong with the configuration of the server, one line each."""
        for warning in self.warnings:
            log.warning(warning)
        journal, renames = recover_journal(settings, serverapp, log)
        self.events = journal.events
        """What happened to the server that people and agents should know."""

        data = journal_directory(settings, serverapp.root_dir)
        backend = InProcessBackend(
            serverapp,
            journal,
            settings.journal_limit,
            settings.disabled_workarounds,
            settings.history_days,
        )
        self.workarounds = backend.workarounds
        self.forks = backend.forks
        self.history = HistoryService(backend.versions, backend.path_of, backend.credit)
        backend.start(renames)
        self._closing.push_async_callback(backend.stop)

        workspace = make_workspace(settings, backend, data, log, journal.steps.opened)
        backend.on_room_opened(workspace.observe)
        events = ActivityEvents(serverapp)
        workspace.activity.on_record(lambda activity: events.emit(activity.event()))
        self._closing.push_async_callback(workspace.close)

        kernels = InProcessKernels(serverapp, backend.workarounds)
        kernels.start_watching()
        self._closing.push_async_callback(kernels.close)

        runs = make_runs(settings, workspace, kernels, data / "outputs", log)
        serverapp.io_loop.add_callback(runs.side_files.sweep)
        self._closing.push_async_callback(runs.close)
        backend.forks.on_end = runs.end_kernel

        self._sites = Sites([Site("", workspace, runs, events=journal.events)])
        self.endpoint = MCPEndpoint(self._make_server, log, preload=(*MODULES, _SERVER))
        self._closing.push_async_callback(self.endpoint.stop)

    def preload(self) -> None:
        """Load the MCP library once Jupyter is idle."""
        preloading = asyncio.ensure_future(self.endpoint.prepare_when_idle())
        self._closing.push_async_callback(_cancel, preloading)

    async def close(self) -> None:
        """Close everything, the last made first. Where one part fails the others are still closed.

        Raises:
            Exception: What a part raised; errors of others are its context.
        """
        await self._closing.aclose()

    def _make_server(self) -> MCPServer:
        from ..tools.parts import Extension
        from .server import make_server

        return make_server(self._settings, self._sites, Extension())


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
