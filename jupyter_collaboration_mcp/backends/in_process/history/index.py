"""The index of the history, and what can be asked of it. Everything blocks.

See `indexer.py` for how it is made, and `versions.py` for how others ask.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ....documents.members import Member
from ....errors import HistoryError, InvalidArgument, UnknownVersion
from ....panics import contained
from ...protocols.room_ids import RoomId
from ...protocols.versions import CellAuthor, ChangeCounts, Version, VersionList
from . import checkpoints
from .content import ReplayedDocument
from .credits import Credit
from .indexer import Indexer
from .rows import Rows
from .storage import HistoryStorage

Drain = Callable[[Callable[[Iterable[tuple[str, Credit]]], bool]], None]
"""Passes the credits that have come together to a function; they are forgotten if it returns True.
Called in the history's thread."""

#: Seconds by which an edit may be stored before its author is known.
_EARLIER = 5.0


class HistoryIndex:
    """The history of the documents of this server; everything is called in one thread."""

    def __init__(self, path: Path, drain: Drain) -> None:
        self.stopped = False
        self.storage = HistoryStorage(path)
        self._drain = drain
        self._credited: dict[str, float] = {}  # since when new credits may change the index
        self._indexer = Indexer(self.storage, lambda: self.stopped)

    def close(self) -> None:
        self.storage.close()

    def catch_up(self, rows: Rows, room: RoomId) -> int | None:
        """Bring the index of a document up to date; returns its number there, None if it has no
        rows."""
        try:
            return self._catch_up(rows, room)
        except sqlite3.DatabaseError as error:
            if not self.storage.renew(error):
                raise
        return self._catch_up(rows, room)

    def _catch_up(self, rows: Rows, room: RoomId) -> int | None:
        self._drain(self._take_credits)
        with contained(), rows:
            if (since := self._credited.pop(room, None)) is not None:
                self._indexer.forget_since(rows, since - _EARLIER, since)
            return self._indexer.catch_up(rows, room)

    def list(self, rows: Rows, room: RoomId, limit: int, before: int | None) -> VersionList:
        document = self.catch_up(rows, room)
        if document is None:
            return VersionList([], False)
        names = self.storage.names(room)
        query = (
            "SELECT id, began, source, member, name, calls, counts, kept FROM versions "
            "WHERE document = ? AND id < ? ORDER BY first_row DESC LIMIT ?"
        )
        top = before if before is not None else 2**62
        found = self.storage.database.execute(query, (document, top, limit + 1)).fetchall()
        versions = [_version(row, names.get(row[0])) for row in found[:limit]]
        return VersionList(versions, len(found) > limit)

    def state_at(self, rows: Rows, room: RoomId, version: int) -> bytes:
        document = self.catch_up(rows, room)
        with rows:
            number = None if document is None else rows.number_at(version)
            if document is None or number is None:
                raise UnknownVersion.of(version)
            row, state = checkpoints.latest(self.storage.database, document, number)
            replayed = ReplayedDocument(room.kind, state)
            replayed.skip(each.update for each in rows.after(row, through=number))
            return replayed.doc.get_update()

    def name(self, rows: Rows, room: RoomId, version: int, name: str) -> None:
        document = self.catch_up(rows, room)
        with rows:
            number = None if document is None else rows.number_at(version)
            if number is None:
                raise UnknownVersion.of(version)
            taken = {name: version for version, name in self._existing_names(rows, room).items()}
            if name and taken.get(name, version) != version:
                raise InvalidArgument(
                    f"The version {taken[name]} of this document has the name {name!r} already.",
                    "Choose another name, or give that version another one first.",
                    version=taken[name],
                )
            if not self.storage.lasting:
                raise HistoryError.unwritable()
            self.storage.set_name(room, version, name)
            query = "SELECT 1 FROM versions WHERE document = ? AND id = ?"
            if not self.storage.database.execute(query, (document, version)).fetchone():
                # A version now ends there, in the middle of another one.
                self._indexer.forget_since(rows, version / 1000)

    def named(self, rows: Rows, room: RoomId) -> Mapping[str, int]:
        self.catch_up(rows, room)
        with rows:
            return {name: version for version, name in self._existing_names(rows, room).items()}

    def _existing_names(self, rows: Rows, room: RoomId) -> dict[int, str]:
        """Names of versions that are still there: the store may have been deleted."""
        names = self.storage.names(room).items()
        return {version: name for version, name in names if rows.number_at(version) is not None}

    def authors(self, rows: Rows, room: RoomId) -> Mapping[str, CellAuthor]:
        document = self.catch_up(rows, room)
        query = "SELECT cell, source, member, name, time FROM cells WHERE document = ?"
        found = self.storage.database.execute(query, (document,)).fetchall()
        return {
            cell: CellAuthor(source, _member(source, member, name), moment)
            for cell, source, member, name, moment in found
        }

    def credit(self, room: RoomId, new: Sequence[Credit]) -> None:
        """Learn who wrote what; what the index has of that time is made again."""
        self._take_credits([(room, credit) for credit in new])
        # The edits may have been stored seconds ago, and another machine may have another time.
        self._credited[room] = min(time.time() - _EARLIER, self._credited[room])

    def _take_credits(self, new: Iterable[tuple[str, Credit]]) -> bool:
        new = list(new)
        self.storage.add_credits(new)
        for room, credit in new:
            self._credited[room] = min(credit.time, self._credited.get(room, credit.time))
        return self.storage.lasting


def _version(row: tuple[Any, ...], given: str | None) -> Version:
    version, began, source, member, name, calls, counts, kept = row
    return Version(
        version,
        began,
        source,
        _member(source, member, name),
        tuple(json.loads(calls)),
        ChangeCounts(**json.loads(counts)),
        given,
        kept,
    )


def _member(source: str, member: str, name: str) -> Member | None:
    return Member(member, name, source == "agent") if member else None
