"""The line to the panel of a Jupyter server: it says what agents of this process do there.

Nothing waits for it but an agent's first call, for a moment, and nothing fails because of it. What
is said while it is cut is said when it is back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed

from ...errors import CollaborationError
from ...owned_tasks import OwnedTasks
from ..protocols.panel_messages import REPORTS
from .extension_info import INFO_PATH
from .jupyter_api import JupyterApi
from .server_errors import Refused

_log = logging.getLogger(__name__)

#: The pause before a reconnect grows from the first to the second, in seconds; a server without a
#: panel is asked again after the third.
_SOON, _LATER, _REFUSED = 0.2, 5.0, 120.0

#: Messages that are kept until the server has them.
_MOST = 2_000

#: Seconds that a first call waits for what people have decided about its agent.
_FIRST = 1.0


class PanelLine:
    """The line to one server. What is said before it is open is kept."""

    def __init__(self, api: JupyterApi) -> None:
        self._api = api
        self.source = secrets.token_hex(8)
        """Names this process to the server."""
        self.on_message: Callable[[Mapping[str, Any]], None] | None = None
        self._unsaid: deque[tuple[int, str]] = deque(maxlen=_MOST)
        self._number = 0
        self._news = asyncio.Event()
        self._answered = asyncio.Event()
        """Set once the server has said whom people hold, or that it has no panel."""
        self._quiet_until = 0.0
        self._tasks = OwnedTasks()
        self._staying: asyncio.Task[None] | None = None

    @property
    def wanted(self) -> bool:
        return time.monotonic() >= self._quiet_until

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the server something, soon, or once the line is open."""
        if not self.wanted:
            return
        self._number += 1
        self._unsaid.append((self._number, json.dumps({**message, "n": self._number})))
        self._news.set()

    def open(self) -> None:
        """Say what there is to say: an agent uses the server."""
        if not self.wanted:
            return
        if self._staying is None or self._staying.done():
            self._staying = self._tasks.start(self._stay())

    async def ready(self) -> None:
        """Wait a moment for what people have decided, if this is not known yet."""
        if self._staying is not None and not self._answered.is_set():
            try:
                async with asyncio.timeout(_FIRST):
                    await self._answered.wait()
            except TimeoutError:
                self._answered.set()

    async def close(self) -> None:
        await self._tasks.close()

    async def _stay(self) -> None:
        pause = _SOON
        while True:
            try:
                await self._connect_once()
                pause = _SOON
            except Refused as refused:
                _log.debug("The server has no panel for agents of a command: %s", refused)
                self._unsaid.clear()
                self._answered.set()
                self._quiet_until = time.monotonic() + _REFUSED
                return
            except (CollaborationError, ConnectionClosed, OSError, TimeoutError) as error:
                _log.debug("No line to the panel: %s", error)
            except Exception:
                _log.exception("The line to the panel failed")
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _LATER)

    async def _connect_once(self) -> None:
        websocket = await self._api.websocket(*INFO_PATH.split("/"), *REPORTS.split("/"))
        sending = self._tasks.start(self._send_all(websocket))
        try:
            async for message in websocket:
                self._take(json.loads(message))
        finally:
            sending.cancel()
            await websocket.close()

    async def _send_all(self, websocket: Any) -> None:
        await websocket.send(json.dumps({"kind": "hello", "source": self.source}))
        said = 0
        while True:
            self._news.clear()
            for number, text in list(self._unsaid):
                if number > said:
                    await websocket.send(text)
                    said = number
            await self._news.wait()

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            return
        if message.get("kind") == "ack":
            while self._unsaid and self._unsaid[0][0] <= int(message["n"]):
                self._unsaid.popleft()
            return
        if self.on_message is not None:
            try:
                self.on_message(message)
            except Exception:
                _log.exception("What the panel said could not be done")
        if message.get("kind") == "welcome":
            self._answered.set()
