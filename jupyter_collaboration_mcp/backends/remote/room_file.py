"""Where the file of a room on another server is: it may be renamed or deleted at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from logging import Logger

from ...documents.foreign_text import inline
from ...errors import CollaborationError, DocumentNotFound, RoomUnavailable
from ..protocols.room_ids import Kind
from .jupyter_api import JupyterApi
from .room_session import Session, open_session
from .room_state import RoomState
from .server_errors import Refused

#: Seconds between two checks that the file still exists; and before the check is repeated when it
#: seems to be gone: a rename takes effect in several places.
_LOOK, _LOOK_AGAIN = 10.0, 1.0

REOPEN = "Read it again; its room is opened anew."


class RoomFile:
    """The file of one room."""

    def __init__(self, api: JupyterApi, file_id: str, path: str) -> None:
        self.id = file_id
        self._api = api
        self._path = path
        self._state: RoomState | None = None

    @property
    def path(self) -> str:
        return self._path if self._state is None else self._state.path

    def follow(self, state: RoomState) -> None:
        """Follow the renames that a server writes into the document."""
        self._state = state

    def unavailable(self, why: str) -> RoomUnavailable:
        """The error for its room, which is closed."""
        happened = f"The room of {inline(self.path)} is closed: {why.removesuffix('.')}."
        return RoomUnavailable(happened, REOPEN, path=self.path)

    async def session(self, kind: Kind) -> Session:
        """Request its room from the server.

        Raises:
            DocumentNotFound: The server knows no such file.
            Refused: It cannot answer now.
        """
        return await open_session(self._api, self.path, kind)

    async def look(self) -> None:
        """Look up the current path of the file.

        Raises:
            DocumentNotFound: It no longer exists.
        """
        try:
            found = await self._api.get("api", "fileid", "path", id=self.id)
            with self._api.expecting("the path of a document"):
                path = str(found["path"])
            await self._api.contents(path, content="0")
        except Refused as refused:
            if refused.status == 404:
                raise DocumentNotFound.at(self.path) from refused
            raise
        self._path = path
        if self._state is not None:
            self._state.path = path

    async def watch(self, is_connected: Callable[[], bool], log: Logger) -> CollaborationError:
        """Return when the file is gone for good.

        The room of a deleted file continues as if nothing had happened, and saves nothing.
        """
        while True:
            await asyncio.sleep(_LOOK)
            if not is_connected():
                continue
            for pause in (_LOOK_AGAIN, 0):
                try:
                    await self.look()
                    break
                except DocumentNotFound as error:
                    if not pause:
                        return error
                    await asyncio.sleep(pause)
                except (CollaborationError, Refused) as error:
                    log.debug("Could not look at %s: %s", self.path, error)
                    break
