"""Whether a room on another server is up to date with its file, which may change on disk.

A Jupyter server checks once a second; anybody who reads in between learns that the room is stale. A
file that the server cannot load is ignored and overwritten by the next edit, so nobody may edit
then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import datetime
from typing import Any

from ...documents import well_formed
from ...errors import CollaborationError, CorruptDocument, DocumentNotFound, NotText, ServerError
from ..contents.models import entry_of
from ..contents.notebook_text import read_notebook
from ..protocols.room_ids import Kind
from .jupyter_api import JupyterApi
from .room_state import RoomState
from .server_errors import Refused

#: Seconds after which a server has noticed a change of a file.
_NOTICED = 2.0

#: Seconds between two checks before edits: as often as a server checks; and at least this many
#: times the duration of the last check, so that it does not overload a busy server.
_LOOK, _TIMES = 1.0, 20.0


class Freshness:
    """What is known about the file of one room.

    Args:
        modified: When the file last changed before the room was joined, if known.
        writable: Whether it was writable then.
    """

    def __init__(
        self, api: JupyterApi, kind: Kind, modified: str | None = None, writable: bool = True
    ) -> None:
        self.writable = writable
        """Whether the file was writable when last checked."""
        self._api = api
        self._kind = kind
        self._modified = modified  # when the room was known to match the file
        self._overwrites = 0  # overwrites of the room until then
        self._suspect: str | None = None  # when somebody may have changed the file
        self._overwrites_before = 0  # overwrites of the room until that was noticed
        # When the file was known to be loadable: it was read before its room was joined.
        self._loadable = modified
        self._looked: float | None = None  # when it was last found loadable
        self._took = 0.0  # seconds that the last check took

    @property
    def modified(self) -> str | None:
        """The modification time of the file that the room is known to match."""
        return self._modified

    async def stale(self, path: str, state: RoomState) -> bool:
        """Whether the file has changed, and the room has not reloaded it yet.

        Raises:
            DocumentNotFound: It no longer exists.
            NotText, CorruptDocument: It can no longer be loaded.
        """
        try:
            model, now = await self._api.dated_contents(path, content="0")
            modified = str(model.get("last_modified"))
            on_disk = await self._examine(path, model, state)
            if self._modified not in (None, modified):
                if on_disk is None:
                    on_disk = await self._hash(path)
                if not self._is_taken_over(modified, on_disk, now, state):
                    return True
        except Refused as refused:
            if refused.status == 404:
                raise DocumentNotFound.at(path) from refused
            return False  # unreadable: others report it
        self._modified, self._overwrites = modified, state.overwrites
        return False

    async def require_loadable(self, path: str, state: RoomState, now: bool = False) -> None:
        """Check that the server would not overwrite a file that it cannot load.

        Args:
            now: Check even if the last check was a moment ago.

        Raises:
            NotText, CorruptDocument: It would.
        """
        began, looked = time.monotonic(), self._looked
        if not now and looked is not None and began - looked < max(_LOOK, _TIMES * self._took):
            return
        try:
            model = await self._api.contents(path, content="0")
            await self._examine(path, model, state)
        except (Refused, ServerError):
            return  # gone or unreachable: others report it
        self._took = time.monotonic() - began

    async def _examine(self, path: str, model: Any, state: RoomState) -> str | None:
        """Check that the file can be loaded; returns its hash, if it had to be requested."""
        modified, on_disk = str(model.get("last_modified")), None
        self.writable = bool(model.get("writable", True))
        if modified != self._loadable:
            self._looked = None
            on_disk = await self._hash(path)
            if on_disk is None or on_disk != state.hash:  # otherwise the server itself saved it
                await self._load(path, model)
            self._loadable = modified
        self._looked = time.monotonic()
        return on_disk

    async def _hash(self, path: str) -> str | None:
        model = await self._api.contents(path, content="0", hash="1")
        said = model.get("hash")
        return None if said is None else str(said)

    async def _load(self, path: str, model: Any) -> None:
        def ask() -> Awaitable[Any]:
            return self._api.contents(path, type="file", content="1", format="text")

        try:
            if self._kind == "file":
                await ask()
                return
            notebook = await read_notebook(path, ask)
        except Refused as refused:
            if refused.status == 400:
                raise self._unloadable(path, model) from refused
            raise
        if (why := await asyncio.to_thread(well_formed.oversized, notebook)) is not None:
            raise CorruptDocument.notebook(path, why)

    def _unloadable(self, path: str, model: Any) -> CollaborationError:
        if self._kind == "file":
            entry = entry_of(model)
            return NotText.binary(path, entry.size, entry.mimetype)
        return CorruptDocument.notebook(path)

    def _is_taken_over(
        self, modified: str, on_disk: str | None, now: datetime | None, state: RoomState
    ) -> bool:
        if on_disk in (None, state.hash):  # the server itself saved it
            return True
        if self._suspect != modified:
            self._suspect, self._overwrites_before = modified, state.overwrites
        if state.overwrites > self._overwrites_before:
            return True
        # The room was overwritten since the last check, perhaps by an earlier change of the file.
        return state.overwrites > self._overwrites and _age(modified, now) > _NOTICED


def _age(modified: str, now: datetime | None) -> float:
    """Seconds since a file was changed, by the clock of its server; 0 if unknown."""
    try:
        return 0.0 if now is None else (now - datetime.fromisoformat(modified)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
