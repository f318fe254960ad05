"""Tells a server which agents of this process made which edits, if it has our extension.

Nothing waits for it, and nothing fails because of it: without it, the server's history says that
somebody unknown made these edits.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from ...owned_tasks import OwnedTasks
from ..protocols.history_messages import HISTORY, MOST_AUTHORSHIPS, AuthorshipMessage
from ..protocols.room_ids import RoomId
from ..protocols.rooms import Authorship
from .extension_info import INFO_PATH
from .jupyter_api import JupyterApi
from .server_errors import Refused

#: Seconds in which edits come together before they are sent.
_DELAY = 0.2

#: The most edits that wait to be sent.
_MOST = 20_000

#: Seconds for which a server without our extension is not asked again.
_REFUSED = 600.0

#: Seconds that a reader waits for what is being sent.
_READERS_WAIT = 2.0


class AuthorshipPosts:
    """What one server has yet to learn about the authors of edits."""

    def __init__(self, api: JupyterApi) -> None:
        self._api = api
        self._waiting: deque[tuple[RoomId, AuthorshipMessage]] = deque(maxlen=_MOST)
        self._tasks = OwnedTasks()
        self._sending: asyncio.Task[None] | None = None
        self._asked_again = 0.0

    async def close(self) -> None:
        await self.flush()
        await self._tasks.close()

    def add(self, room_id: RoomId, edit: Authorship, deletions: Sequence[bytes]) -> None:
        """Send the author of an edit soon."""
        if time.monotonic() < self._asked_again:
            return
        if edit.clock_from == edit.clock_to and not deletions:
            return
        clocks = edit.client, edit.clock_from, edit.clock_to
        message = AuthorshipMessage(
            *clocks, deletions[:MOST_AUTHORSHIPS], edit.author, edit.call, edit.time
        )
        self._waiting.append((room_id, message))
        if self._sending is None or self._sending.done():
            self._sending = self._tasks.start(self._send(_DELAY))

    async def flush(self) -> None:
        """Send what waits, and wait a moment for it."""
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
            self._sending = self._tasks.start(self._send(0.0))
            await asyncio.wait([self._sending], timeout=_READERS_WAIT)

    async def _send(self, delay: float) -> None:
        await asyncio.sleep(delay)
        while self._waiting:
            room_id = self._waiting[0][0]
            batch: list[AuthorshipMessage] = []
            for each, message in self._waiting:
                if each != room_id or len(batch) == MOST_AUTHORSHIPS:
                    break
                batch.append(message)
            body = {"authorships": [message.dump() for message in batch]}
            path = [*INFO_PATH.split("/"), HISTORY, room_id, "authors"]
            try:
                await self._api.request("POST", *path, body=body)
            except Exception as error:
                if isinstance(error, Refused):
                    self._asked_again = time.monotonic() + _REFUSED
                self._waiting.clear()
                return
            for _ in batch:
                if self._waiting:
                    self._waiting.popleft()
