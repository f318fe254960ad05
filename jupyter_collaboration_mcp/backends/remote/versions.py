"""Earlier versions of the documents of a server elsewhere, if it has our extension."""

from __future__ import annotations

from collections.abc import Mapping

from ...errors import NeedsExtension
from ..protocols.room_ids import RoomId
from ..protocols.versions import CellAuthor, VersionList
from .jupyter_api import JupyterApi


class RemoteVersions:
    """The history that our extension keeps on another server."""

    def __init__(self, api: JupyterApi) -> None:
        self._api = api

    async def list(self, room_id: RoomId, limit: int, before: int | None = None) -> VersionList:
        raise NeedsExtension.for_history()

    async def state_at(self, room_id: RoomId, version: int) -> bytes:
        raise NeedsExtension.for_history()

    async def current(self, room_id: RoomId) -> int:
        raise NeedsExtension.for_history()

    async def name(self, room_id: RoomId, version: int, name: str) -> None:
        raise NeedsExtension.for_history()

    async def named(self, room_id: RoomId) -> Mapping[str, int]:
        raise NeedsExtension.for_history()

    async def authors(self, room_id: RoomId) -> Mapping[str, CellAuthor]:
        raise NeedsExtension.for_history()
