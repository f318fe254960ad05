"""The versions of the documents of this server, from the rows of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pycrdt import Doc

from ....errors import InvalidArgument, UnknownVersion
from ...protocols.room_ids import RoomId
from ...protocols.versions import CellAuthor, ChangeCounts, Version, VersionList
from .rows import Rows

T = TypeVar("T")


class InProcessVersions:
    """The history of the documents of this server."""

    def __init__(self, rows: Callable[[RoomId], Awaitable[Rows]]) -> None:
        self._rows = rows
        self._thread = ThreadPoolExecutor(1, "mcp-history")
        self._names: dict[RoomId, dict[str, int]] = {}

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def list(self, room_id: RoomId, limit: int, before: int | None = None) -> VersionList:
        rows = await self._rows(room_id)
        found = await self._in_thread(_all, rows)
        found = [each for each in found if before is None or each.id < before]
        found.reverse()
        return VersionList(found[:limit], len(found) > limit)

    async def state_at(self, room_id: RoomId, version: int) -> bytes:
        return await self._in_thread(_state, await self._rows(room_id), version)

    async def current(self, room_id: RoomId) -> int:
        return (await self.list(room_id, 1)).versions[0].id

    async def name(self, room_id: RoomId, version: int, name: str) -> None:
        await self.state_at(room_id, version)
        names = self._names.setdefault(room_id, {})
        if names.get(name, version) != version:
            raise InvalidArgument(
                f"Version {names[name]} has the name {name!r}.", "Choose another."
            )
        self._names[room_id] = {key: each for key, each in names.items() if each != version}
        if name:
            self._names[room_id][name] = version

    async def named(self, room_id: RoomId) -> Mapping[str, int]:
        return dict(self._names.get(room_id, {}))

    async def authors(self, room_id: RoomId) -> Mapping[str, CellAuthor]:
        return {}

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, work, *arguments)


def _all(rows: Rows) -> list[Version]:
    with rows:
        return [
            Version(row.version, row.time, "unknown", None, (), ChangeCounts())
            for row in rows.after(0)
        ]


def _state(rows: Rows, version: int) -> bytes:
    with rows:
        number = rows.number_at(version)
        if number is None:
            raise UnknownVersion.of(version)
        doc: Doc[Any] = Doc()
        for row in rows.after(0, through=number):
            doc.apply_update(row.update)
        return doc.get_update()
