"""What jupyter-collaboration's store has of the documents of this server, for their history."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from ..protocols.room_ids import RoomId
from .forks import InProcessForks
from .group_commit import JournalError
from .history.rows import ReadRows, Row, Rows, StoreRows
from .journal import Journal
from .rooms import Rooms
from .server_parts import ServerParts

#: Seconds to wait for updates that are on their way to the store.
_ON_THE_WAY = 2.0


class StoredDocuments:
    """Finds the rows of documents, in whatever store is configured (B15)."""

    def __init__(
        self, server: ServerParts, rooms: Rooms, forks: InProcessForks, journal: Journal
    ) -> None:
        self._server = server
        self._forks = forks
        self._rooms = rooms
        self._journal = journal

    async def rows(self, room_id: RoomId) -> Rows:
        """What the store has of a document, and soon will have of what the room has now.

        A document that never had a room gets one: its first row is what the file says.

        Raises:
            DocumentNotFound, HTTPError: It has no history, and cannot be opened.
            RoomUnavailable: There is no collaboration on this server.
            ForkNotFound: It is a fork that has ended.
        """
        if room_id.is_fork:
            return ReadRows(room_id, await self._forks.rows(room_id.file_id))
        rows = await self._rows(room_id)
        with contextlib.suppress(JournalError):
            await self._journal.durable()  # it has the authors of these rows
        return rows

    async def _rows(self, room_id: RoomId) -> Rows:
        watch = self._rooms.watched(room_id)
        if watch is None:
            known = database_rows(self._new_store(room_id))
            if known is not None and await asyncio.to_thread(_has_any, known):
                return known
            watch = await self._rooms.open(room_id)
            self._rooms.on_left(watch.room)
        await watch.wait_stored(_ON_THE_WAY)
        store = watch.room.ystore
        return database_rows(store) or await _read(store, room_id)

    def database(self) -> Path | None:
        """The database of the store; None if it is none, or there is no collaboration here."""
        if not self._server.has_rooms:
            return None
        rows = database_rows(self._new_store(RoomId.of("file", "")))
        return None if rows is None else rows.path

    def known_rows(self, room_id: RoomId) -> StoreRows | None:
        """What the database of the store has of a document now; None if it is no database."""
        if room_id.is_fork:
            return None
        watch = self._rooms.watched(room_id)
        return database_rows(self._new_store(room_id) if watch is None else watch.room.ystore)

    def _new_store(self, room_id: RoomId) -> Any:
        ydoc = self._server.ydoc
        key = f".{room_id.file_type}:{room_id.file_id}.y"
        return ydoc.ywebsocket_server.ystore_class(path=key, log=self._server.log)


def database_rows(store: Any) -> StoreRows | None:
    """The rows that a store has in a database file; None if it keeps them in another way."""
    from pycrdt.store import SQLiteYStore

    if not isinstance(store, SQLiteYStore) or store.db_path == ":memory:":
        return None
    # Relative to where the server was started, not to the directory that it serves (B15).
    return StoreRows(Path(store.db_path).absolute(), store.path, store._decompress)


async def _read(store: Any, room_id: RoomId) -> ReadRows:
    """All rows of a store of another kind."""
    from pycrdt.store import YDocNotFound

    rows: list[Row] = []
    if store is not None:
        with contextlib.suppress(YDocNotFound):
            # Into a list first: the store is locked until the last one has been read.
            rows = [Row(0, time, update) async for update, _, time in store.read()]
    return ReadRows(f"{type(store).__qualname__}\n{room_id}", rows)


def _has_any(rows: StoreRows) -> bool:
    with rows:
        return rows.ends() is not None
