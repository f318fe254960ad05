"""The feed of the panel: a WebSocket that tells what agents do as it happens."""

from __future__ import annotations

import json
from typing import Any

from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from jupyter_server.utils import ensure_async
from tornado.web import HTTPError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from .panel_requests import RESOURCE, PanelService, refuse_agents

#: Messages that may wait for a slow client. It comes back and asks for what it has missed.
_WAITING = 2_000


class PanelSocket(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """A WebSocket of the panel, for whoever may take an action there; not for agents."""

    auth_resource = RESOURCE

    action = "read"

    def initialize(self, service: PanelService) -> None:
        self.service = service

    async def prepare(self, *arguments: Any, **options: Any) -> None:
        refuse_agents(self)
        await super().prepare(*arguments, **options)

    def skip_check_origin(self) -> bool:
        return False  # P6: Jupyter skips it for every request that has the token

    @ws_authenticated
    async def get(self, *arguments: Any, **options: Any) -> None:
        user = self.current_user
        may = self.authorizer.is_authorized(self, user, self.action, RESOURCE)
        if not await ensure_async(may):
            raise HTTPError(403)
        await super().get(*arguments, **options)


class PanelFeed(PanelSocket):
    """All that happens, from a number on."""

    def initialize(self, service: PanelService) -> None:
        super().initialize(service)
        self._ledger = service.ledger
        self._waiting = 0

    def open(self, *arguments: Any, **options: Any) -> None:
        super().open(*arguments, **options)  # the mixin's pings
        since = self.get_query_argument("since", "")
        missed = None
        if since.isascii() and since.isdigit() and len(since) <= 16:
            missed = self._ledger.since(int(since), self.get_query_argument("epoch", None))
        first = self._ledger.state() if missed is None else {"kind": "events", "events": missed}
        self._ledger.listen(self._tell)
        self._tell(json.dumps(first))

    def on_message(self, message: str | bytes) -> None:
        """Nothing is asked over the feed."""

    def on_close(self) -> None:
        self._ledger.unlisten(self._tell)
        super().on_close()

    def _tell(self, message: str) -> None:
        try:
            sent = self.write_message(message)
        except WebSocketClosedError:
            self._ledger.unlisten(self._tell)
            return
        self._waiting += 1
        sent.add_done_callback(self._sent)
        if self._waiting > _WAITING:
            self._ledger.unlisten(self._tell)
            self.close(1013, "too slow")

    def _sent(self, sent: Any) -> None:
        self._waiting -= 1
        if not sent.cancelled():
            sent.exception()  # a client that is gone has closed the feed
