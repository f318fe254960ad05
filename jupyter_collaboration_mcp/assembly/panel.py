"""What people see of agents, and decide about them and their work."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.in_process.backend import InProcessBackend
from ..backends.in_process.panel_storage import PanelStorage
from ..collaboration.panel.ledger import Ledger, Surroundings
from ..server.call_feed import CallFeed
from ..server.deferred_feed import DeferredFeed
from ..server.reported_calls import ReportedCalls
from ..settings.settings import Settings
from ..standalone.clients import Endpoint, configuration, endpoint_clients
from ..transport.agent_tokens import AgentTokens
from ..transport.panel_requests import PanelService
from ..transport.token_routes import TokenService
from ..workspace.holds import Holds
from ..workspace.oversight import Oversight
from ..workspace.proposals import Proposals
from ..workspace.reviewing import Reviews
from ..workspace.runs import Runs
from ..workspace.workspace import Workspace

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

_CONTENTS_EVENTS = "https://events.jupyter.org/jupyter_server/contents_service/v1"


class PanelAssembly:
    """The objects behind the panel, from loading the extension to `close`."""

    def __init__(
        self,
        settings: Settings,
        serverapp: ServerApp,
        backend: InProcessBackend,
        workspace: Workspace,
        runs: Runs,
        tokens: TokenService,
        revoke: Callable[[str], Awaitable[None]],
        data: Path,
        log: logging.Logger,
    ) -> None:
        self._serverapp = serverapp
        self._workspace = workspace
        self._log = log
        self._storage = PanelStorage(data / "panel.db")
        around = Surroundings(
            backend.path_of,
            lambda credential: _described(tokens.tokens, credential),
            settings.permission.highest.name,
            True,
        )
        self._ledger = Ledger(self._storage, around, settings.review_limit)
        self._ledger.restore(self._storage.load())
        self.holds = Holds()
        feed = CallFeed(self._ledger, self.holds)
        self.feed = DeferredFeed(feed)
        self._oversight = Oversight(
            self._ledger, self.holds, self._storage, workspace, runs, revoke
        )
        self._proposals = Proposals(workspace, self._ledger)
        reviews = Reviews(workspace, self._ledger, self._storage)
        reports = ReportedCalls(self._ledger, self.holds, workspace.rooms.undo_steps.opened)
        self._oversight.on_hold, self._oversight.known = reports.on_hold, reports.known
        self._oversight.interrupt_elsewhere = reports.interrupt
        reviews.on_undone = reports.on_undone
        runs.on_run = self.feed.on_run
        backend.forks.on_change = feed.on_fork_step = self._proposals.look_soon
        self.service = PanelService(
            self._ledger,
            self._oversight,
            reviews,
            self._proposals,
            tokens,
            endpoint_clients(),
            lambda client, url, token: configuration(client, Endpoint(url, token)),
            settings.url_path,
            reports,
        )

    async def start(self) -> None:
        """Begin to watch, once the server runs."""
        self._oversight.start()
        try:
            if (events := self._serverapp.event_logger) is not None:
                events.add_listener(schema_id=_CONTENTS_EVENTS, listener=self._on_contents_event)
            await self._proposals.start()
            self._ledger.moved()
        except Exception:  # agents and people can work without it
            self._log.exception("The panel does not show everything")

    async def close(self) -> None:
        """Keep what is shown for the next start."""
        await self.feed.close()
        await self._proposals.close()
        await self._oversight.close()
        await self._storage.close()

    async def _on_contents_event(self, logger: Any, schema_id: str, data: dict[str, Any]) -> None:
        """Follow renamed and deleted documents."""
        if data.get("action") in ("rename", "delete"):
            self._serverapp.io_loop.call_later(_SETTLING, self._moved)

    def _moved(self) -> None:
        self._ledger.moved()
        for proposal in self._ledger.proposals.values():
            if proposal["state"] == "open":
                self._proposals.look_soon(proposal["id"])


#: Seconds after which the ids of files that were moved or deleted have followed.
_SETTLING = 0.1


def _described(tokens: AgentTokens, credential: str) -> Mapping[str, Any] | None:
    """The agent token behind a credential, as people see it."""
    found = tokens.of_credential(credential)
    if found is None:
        return None
    expires = None if found.expires is None else int(found.expires * 1000)
    return {"id": found.id, "expires": expires, "paths": list(found.paths)}
