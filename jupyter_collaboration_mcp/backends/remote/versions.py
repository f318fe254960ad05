"""Earlier versions of the documents of a server elsewhere, if it has our extension."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ...errors import (
    DocumentNotFound,
    HistoryError,
    InvalidArgument,
    NeedsExtension,
    UnknownVersion,
)
from ..protocols.history_messages import (
    HISTORY,
    NO_DOCUMENT,
    load_authors,
    load_names,
    load_versions,
)
from ..protocols.room_ids import RoomId
from ..protocols.versions import CellAuthor, VersionList
from .extension_info import INFO_PATH
from .file_room import FILE_FORMAT
from .jupyter_api import JupyterApi
from .server_errors import Refused


class RemoteVersions:
    """The history that our extension keeps on another server.

    Args:
        before: Awaited before each question: sends what the server does not know yet.
    """

    def __init__(self, api: JupyterApi, before: Callable[[], Awaitable[None]]) -> None:
        self._api = api
        self._before = before

    async def list(self, room_id: RoomId, limit: int, before: int | None = None) -> VersionList:
        query = {"limit": str(limit)} | ({} if before is None else {"before": str(before)})
        found = await self._ask("GET", room_id, query=query)
        with self._api.expecting("versions"):
            return load_versions(found)

    async def state_at(self, room_id: RoomId, version: int) -> bytes:
        found = await self._ask("GET", room_id, "state", str(version), version=version)
        with self._api.expecting("a version"):
            try:
                return base64.b64decode(found["state"], validate=True)
            except binascii.Error as error:
                raise ValueError from error

    async def current(self, room_id: RoomId) -> int:
        found = await self._ask("GET", room_id, "current")
        with self._api.expecting("the current version"):
            return int(found["id"])

    async def name(self, room_id: RoomId, version: int, name: str) -> None:
        place = "names", str(version)
        await self._ask("PUT", room_id, *place, body={"name": name}, version=version)

    async def named(self, room_id: RoomId) -> Mapping[str, int]:
        found = await self._ask("GET", room_id, "names")
        with self._api.expecting("the names of versions"):
            return load_names(found)

    async def authors(self, room_id: RoomId) -> Mapping[str, CellAuthor]:
        found = await self._ask("GET", room_id, "authors")
        with self._api.expecting("authors"):
            return load_authors(found)

    async def _ask(
        self,
        method: str,
        room_id: RoomId,
        *place: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        version: int = 0,
    ) -> Any:
        if room_id.file_format == FILE_FORMAT:
            raise NeedsExtension.for_history()
        await self._before()
        path = [*INFO_PATH.split("/"), HISTORY, room_id, *place]
        try:
            return await self._api.request(method, *path, query=query, body=body)
        except Refused as refused:
            raise _failed(refused, room_id, version) from refused


def _failed(refused: Refused, room_id: RoomId, version: int) -> Exception:
    if refused.status == 404:
        gone = refused.said == NO_DOCUMENT
        return DocumentNotFound.at(room_id) if gone else NeedsExtension.for_history()
    if refused.status == 410:
        return UnknownVersion.of(version)
    if refused.status == 409:
        return InvalidArgument(
            str(refused), "Choose another name, or give that version another one first."
        )
    return HistoryError.unreadable(str(refused))
