"""What is behind `/mcp` inside a Jupyter server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ..backends.in_process.activity_events import ActivityEvents
from ..backends.in_process.backend import InProcessBackend
from ..backends.in_process.kernels import InProcessKernels
from ..backends.in_process.server_activity import ServerActivity
from ..server import MODULES, metrics
from ..server.rates import flood_limit
from ..settings.settings import Settings
from ..transport.agent_tokens import AgentTokens
from ..transport.endpoint import MCPEndpoint
from ..transport.history_routes import HistoryService
from ..transport.token_routes import TokenService
from ..workspace.sites import Site, Sites
from .gateway import GatewayWires
from .journal import journal_directory, recover_journal, store_warnings
from .panel import PanelAssembly
from .parts import Observers, make_runs, make_workspace

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from mcp.server.mcpserver import MCPServer

    from ..server.server import CollaborationServer

#: Imported in a thread, together with what is registered: the SDK takes more than a second.
_SERVER = "jupyter_collaboration_mcp.assembly.server"


class ExtensionAssembly:
    """The objects of the extension, from loading it to `close`.

    Jupyter loads extensions outside of its event loop and tells them when it stops, so this cannot
    be an `async with`; what is closed, and in which order, is decided where it is made.
    """

    def __init__(self, settings: Settings, serverapp: ServerApp, log: logging.Logger) -> None:
        self._settings = settings
        self._serverapp = serverapp
        self._closing = AsyncExitStack()
        self._observers = Observers(settings)
        self._closing.push_async_callback(self._observers.close)
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
        backend.on_room_opened(workspace.on_room_opened)
        backend.on_room_closed(workspace.on_room_closed)
        backend.on_people_left(workspace.on_people_left)
        backend.on_document_moved(workspace.on_moved)
        events = ActivityEvents(serverapp)
        workspace.activity.on_record(lambda activity: events.emit(activity.event()))
        self._closing.push_async_callback(workspace.close)

        gateway = GatewayWires(log)
        self._closing.push_async_callback(gateway.close)
        kernels = InProcessKernels(serverapp, backend.workarounds, gateway.open)
        kernels.start_watching()
        self._closing.push_async_callback(kernels.close)

        runs = make_runs(settings, workspace, kernels, data / "outputs", log)
        serverapp.io_loop.add_callback(runs.side_files.sweep)
        self._closing.push_async_callback(runs.close)
        backend.forks.on_end = runs.end_kernel
        if settings.count_activity:
            activity = ServerActivity(serverapp.web_app.settings, lambda: runs.at_work)
            serverapp.io_loop.add_callback(activity.start)
            self._closing.push_async_callback(activity.close)
        serverapp.io_loop.add_callback(workspace.ephemeral.start)
        self._closing.push_async_callback(workspace.ephemeral.close)

        self._sites = Sites([Site("", workspace, runs, events=journal.events)])
        self._observers.all.append(metrics.count)
        metrics.watch(self._sites)
        self._closing.callback(metrics.forget, self._sites)
        self.endpoint = MCPEndpoint(
            self._make_server,
            log,
            preload=(*MODULES, _SERVER),
            event_store_size=settings.event_store_size,
        )
        self._closing.push_async_callback(self.endpoint.stop)
        self._runs = runs
        self.tokens = AgentTokens(data / "agent-tokens.json", log)
        self.tokens.on_revoked = self._revoked
        self._closing.push_async_callback(self.tokens.close)
        self.token_service = TokenService(
            self.tokens, settings.permission.highest, settings.require_hub_scopes
        )
        self.panel: PanelAssembly | None = None
        if settings.panel:
            self.panel = PanelAssembly(
                settings,
                serverapp,
                backend,
                workspace,
                runs,
                self.token_service,
                self._revoke,
                data,
                log,
            )
            serverapp.io_loop.add_callback(self.panel.start)
            self._closing.push_async_callback(self.panel.close)
        self.mcp = {
            "endpoint": self.endpoint,
            "floods": flood_limit(settings.rate_limit),
            "tokens": self.tokens,
            "open_to_all": settings.allow_without_token,
            "count_activity": settings.count_activity,
            "require_hub_scopes": settings.require_hub_scopes,
        }
        """What the handler of MCP requests needs."""
        self._log = log
        self._server: CollaborationServer | None = None
        self._closing.push_async_callback(self._end_streams)

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

    async def _revoke(self, credential: str) -> None:
        """Make the token behind a credential worthless."""
        if (token := self.tokens.of_credential(credential)) is not None:
            await self.tokens.revoke(token.id)

    async def _revoked(self, credential: str) -> None:
        """End what agents with a credential do: requests, sessions, runs, presence."""
        self.endpoint.end(credential)
        self._sites.leave_all(credential)
        owned = f" <{credential}>"
        await self._runs.end_of(
            lambda key: key.endswith(owned), "the permission of its agent was withdrawn"
        )

    async def _end_streams(self) -> None:
        """End streams of notifications, whose clients are told that the server stops."""
        if self._server is not None:
            await self._server.subscriptions.close()

    def _make_server(self) -> MCPServer:
        from ..standalone.addresses import without_page
        from ..tools.parts import Extension
        from .server import make_server

        host = Extension(self._find, lambda: without_page(self._serverapp.public_url))
        observers = self._observers.all
        feed = None if self.panel is None else self.panel.feed
        self._server = make_server(self._settings, self._sites, host, self._log, observers, feed)
        return self._server

    def _find(self, url: str, reached: str) -> Site | None:
        """The site, if a URL leads to the server that this runs in.

        Args:
            reached: Where the client has reached it, perhaps through a proxy or another port.
        """
        from ..standalone.addresses import has_base, leads_to

        app = self._serverapp
        own = any(leads_to(url, each) for each in (app.connection_url, app.local_url))
        own = own or leads_to(url, app.public_url) or has_base(url, app.base_url)
        # A proxy may speak HTTPS to the client, and HTTP to us.
        own = own or leads_to(url, reached) or leads_to(url, reached.replace("http:", "https:", 1))
        return self._sites.default if own else None


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
