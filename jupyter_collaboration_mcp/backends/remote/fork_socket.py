"""A seat in the room of a fork on another Jupyter server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from logging import Logger
from typing import Any

from pycrdt import Doc

from ...errors import CollaborationError, DocumentNotFound, ForkNotFound
from ..protocols.forks import Fork
from ..protocols.room_ids import Kind
from .jupyter_api import JupyterApi
from .room_file import RoomFile
from .room_session import Session
from .room_socket import RoomSocket
from .room_state import RoomState
from .server_errors import Refused

#: Seconds between two checks that the fork still exists.
_LOOK = 10.0

Exists = Callable[[Fork], Awaitable[bool]]
"""Whether the server still has a fork."""


class ForkSocket(RoomSocket):
    """One seat in a fork's room. There is no file, so nothing is unsaved."""

    autosaves = True
    saved = True
    writable = True

    def __init__(self, api: JupyterApi, fork: Fork, path: str, log: Logger, exists: Exists) -> None:
        file = ForkFile(api, fork, path, exists)
        super().__init__(api, fork.room_id, path, log, file=file)

    def attach(self, doc: Doc[Any]) -> None:
        self._sync.attach(doc, self.path)

    async def current(self) -> None:
        await self._line.round_trip()

    def overwritten(self) -> None:
        """Nothing: there is no file."""

    async def stale(self) -> bool:
        return False

    async def save(self, always: bool = False) -> None:
        """Do nothing: there is no file."""

    async def flush(self) -> None:
        """Do nothing: there is no file."""


class ForkFile(RoomFile):
    """Where the root of a fork is, and whether the fork still exists."""

    def __init__(self, api: JupyterApi, fork: Fork, path: str, exists: Exists) -> None:
        super().__init__(api, fork.root.file_id, path)
        self._fork = fork
        self._exists = exists
        self._last: Session | None = None

    def follow(self, state: RoomState) -> None:
        """Do nothing: what the document says is about the root's file when it was forked."""

    async def session(self, kind: Kind) -> Session:
        # A server creates an empty room for whoever names a fork that it does not have.
        if not await self._exists(self._fork):
            raise ForkNotFound.unknown(self._fork.id)
        try:
            self._last = await super().session(kind)
        except DocumentNotFound:  # the root is gone, and the fork survives it
            self._last = self._last or Session(self.id, "")
        return self._last

    async def watch(self, is_connected: Callable[[], bool], log: Logger) -> CollaborationError:
        while True:
            await asyncio.sleep(_LOOK)
            try:
                if is_connected() and not await self._exists(self._fork):
                    return ForkNotFound.unknown(self._fork.id)
            except (CollaborationError, Refused) as error:
                log.debug("Could not look at fork %s: %s", self._fork.id, error)
