"""Where a command reports over a WebSocket what its agents do on this server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

from tornado.websocket import WebSocketClosedError

from ..owned_tasks import OwnedTasks
from ..server.reported_calls import Reporter
from .panel_feed import PanelSocket
from .panel_requests import PanelService

#: Messages that wait while steps are stored.
_WAITING = 4_000


class PanelReports(PanelSocket):
    """One command."""

    action = "write"

    def initialize(self, service: PanelService) -> None:
        super().initialize(service)
        self._reports = service.reports
        self._entered = False
        self._reporter = Reporter(self._tell)
        self._received: asyncio.Queue[str | bytes] = asyncio.Queue(_WAITING)
        self._tasks = OwnedTasks()

    def open(self, *arguments: Any, **options: Any) -> None:
        super().open(*arguments, **options)
        self._reports.enter(self._reporter)
        self._entered = True
        self._tasks.start(self._work())

    def on_message(self, message: str | bytes) -> None:
        try:
            self._received.put_nowait(message)
        except asyncio.QueueFull:
            self.close(1013, "too fast")

    def on_close(self) -> None:
        self._tasks.cancel()
        if self._entered:
            self._entered = False
            self._reports.leave(self._reporter)
        super().on_close()

    async def _work(self) -> None:
        """Take one message after the other; nonsense is left out, or it would come again."""
        while True:
            said: Any = None
            try:
                said = json.loads(await self._received.get())
                await self._reports.take(self._reporter, said)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                self.log.info("A command reports nonsense: %r", error)
                if isinstance(said, dict) and isinstance(said.get("n"), int):
                    self._tell({"kind": "ack", "n": said["n"]})

    def _tell(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(WebSocketClosedError):
            self.write_message(json.dumps(message))
