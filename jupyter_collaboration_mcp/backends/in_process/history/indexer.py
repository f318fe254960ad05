"""Makes versions of the rows of a document, and keeps them in the index.

The index is a function of the rows, the credits and the names of versions: it is continued where
it ends, and made again where it does not fit the rows.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ....documents.members import Member
from ....documents.updates import first_block, sole_author
from ...protocols.room_ids import RoomId
from ...protocols.versions import ChangeCounts
from . import checkpoints
from .content import METADATA, Changes, ReplayedDocument, Text, Written, count_changes
from .credits import Author, Credit, author_of
from .grouping import Days, Draft, reason_to_keep
from .rows import Row, Rows
from .storage import FORMAT, HistoryStorage, text_of

#: Rows, and bytes in them, after which what was found so far is written.
_PORTION, _PORTION_BYTES = 2_000, 16_000_000

#: The most documents in the index; those that have not changed for longest are dropped.
_DOCUMENTS = 5_000

#: The most versions of a document that are listed; the oldest are dropped first.
_VERSIONS = 100_000

_DOCUMENT = "id, first_row, first_time, last_row, last_time, days"


class Stopped(Exception):
    """The server stops, or another process has continued the index."""


class IndexedDocument(NamedTuple):
    """How far the index of a document is."""

    id: int
    first_row: int
    first_time: float
    last_row: int
    last_time: float
    days: str


@dataclass(frozen=True, slots=True)
class _RoomCredits:
    """The credits of one room."""

    storage: HistoryStorage
    room: RoomId

    def of_range(self, client: int, start: int, end: int) -> list[Credit]:
        return self.storage.of_range(self.room, client, start, end)

    def of_deletion(self, key: bytes) -> Credit | None:
        return self.storage.of_deletion(self.room, key)


class Indexer:
    """Continues the index of documents. Everything blocks, and runs in the history's thread.

    Args:
        stopped: Whether the server is about to stop.
    """

    def __init__(self, storage: HistoryStorage, stopped: Callable[[], bool]) -> None:
        self._storage = storage
        self._stopped = stopped

    def catch_up(self, rows: Rows, room: RoomId) -> int | None:
        """Bring the index of a document up to date; returns its number there, None if it has no
        rows.

        Raises:
            Stopped: The server stops.
        """
        for _ in range(3):  # another server with the same files may do the same
            document = self._valid(rows)
            if document is None:
                return None
            try:
                _Continuation(self._storage, rows, room, document, self._stopped).run()
            except Stopped:
                if self._stopped():
                    raise
            else:
                return document.id
        raise Stopped

    def forget_since(self, rows: Rows, time: float, unless_before: float = 0.0) -> None:
        """Make the versions again that have something from a time on, and the one before.

        Args:
            unless_before: Does nothing if the index ends before this time.
        """
        document = self._record(rows)
        if document is not None and document.last_time >= max(time, unless_before):
            query = (
                "SELECT first_row FROM versions WHERE document = ? AND ended < ? "
                "ORDER BY first_row DESC LIMIT 1"
            )
            database = self._storage.database
            found = database.execute(query, (document.id, time)).fetchone()
            self._truncate(document, found[0] if found else 0)

    def _truncate(self, document: IndexedDocument, first_row: int) -> None:
        """Forget the versions from one on."""
        with self._storage.transaction() as database:
            query = (
                "SELECT last_row, ended FROM versions WHERE document = ? AND first_row < ? "
                "ORDER BY first_row DESC LIMIT 1"
            )
            found = database.execute(query, (document.id, first_row)).fetchone()
            if found is None:
                _forget(database, document.id)
                return
            database.execute(
                "DELETE FROM versions WHERE document = ? AND first_row >= ?",
                (document.id, first_row),
            )
            # What agents did on which day is known from the versions that are left.
            days = Days({})
            query = (
                "SELECT first_row, ended, member, name FROM versions WHERE document = ? "
                "AND source = 'agent' ORDER BY first_row DESC LIMIT 500"
            )
            for row, ended, member, name in reversed(
                database.execute(query, (document.id,)).fetchall()
            ):
                days.note(Row(row, ended, b""), Author("agent", Member(member, name, True)))
            database.execute(
                "UPDATE documents SET last_row = ?, last_time = ?, days = ? WHERE id = ?",
                (*found, json.dumps(days.days), document.id),
            )

    def _record(self, rows: Rows) -> IndexedDocument | None:
        query = f"SELECT {_DOCUMENT} FROM documents WHERE key = ? AND format = ?"
        row = self._storage.database.execute(query, (text_of(rows.document), FORMAT)).fetchone()
        return None if row is None else IndexedDocument(*row)

    def _valid(self, rows: Rows) -> IndexedDocument | None:
        """How far the index of a document is; it is begun anew if it does not fit."""
        if (ends := rows.ends()) is None:
            return None
        first = ends[0]
        document = self._record(rows)
        if document is not None:
            begins_alike = (document.first_row, document.first_time) == first
            if begins_alike and (
                document.last_row == 0 or rows.has(document.last_row, document.last_time)
            ):
                return document
        key = text_of(rows.document)
        with self._storage.transaction() as database:
            found = database.execute("SELECT id FROM documents WHERE key = ?", (key,)).fetchone()
            if found is not None:
                _forget(database, found[0])
                database.execute("DELETE FROM documents WHERE id = ?", found)
            database.execute(
                "INSERT INTO documents (key, format, first_row, first_time, last_row, last_time, "
                "days, used) VALUES (?, ?, ?, ?, 0, 0, '{}', ?)",
                (key, FORMAT, *first, time.time()),
            )
            query = "SELECT id FROM documents ORDER BY used DESC LIMIT -1 OFFSET ?"
            for unused in database.execute(query, (_DOCUMENTS,)).fetchall():
                _forget(database, *unused)
                database.execute("DELETE FROM documents WHERE id = ?", unused)
        return self._record(rows)


def _forget(database: sqlite3.Connection, document: int) -> None:
    """Forget everything about a document that can be found again."""
    for table in ("versions", "cells", "checkpoints"):
        database.execute(f"DELETE FROM {table} WHERE document = ?", (document,))
    database.execute(
        "UPDATE documents SET last_row = 0, last_time = 0, days = '{}' WHERE id = ?", (document,)
    )


class _Continuation:
    """The rows of a document that the index does not have yet, made into versions."""

    def __init__(
        self,
        storage: HistoryStorage,
        rows: Rows,
        room: RoomId,
        document: IndexedDocument,
        stopped: Callable[[], bool],
    ) -> None:
        self._storage = storage
        self._rows = rows
        self._room = room
        self._record = document
        self._stopped = stopped
        self._credits = _RoomCredits(storage, room)
        self._kept = storage.kept(room)
        self._named = storage.names(room).keys() | self._kept.keys()
        self._days = Days(json.loads(document.days))
        self._draft: Draft | None = None
        self._texts: dict[str, Text] = {}  # of all cells, before the draft
        self._over: list[tuple[Draft, ChangeCounts]] = []  # versions that are over
        self._cells: dict[str, tuple[Author, float] | None] = {}  # None: it is gone
        self._states: list[tuple[int, bytes]] = []
        self._last = (document.last_row, document.last_time)
        self._written = self._last[0]

    def run(self) -> None:
        """Index all rows that there are.

        Raises:
            Stopped: The server stops, or somebody else has done this.
        """
        new = self._rows.after(*self._last)
        first = next(new, None)
        if first is None:
            return
        replayed, since = self._resume()
        try:
            self._index(first, new, replayed, since)
        finally:
            replayed.close()

    def _resume(self) -> tuple[ReplayedDocument, tuple[int, int]]:
        """The document as the index knows it; and how many rows, and bytes, a state is behind."""
        database = self._storage.database
        row, state = checkpoints.latest(database, self._record.id, self._last[0])
        replayed = ReplayedDocument(self._room.kind, state)
        count = size = 0
        if self._last[0] > row:
            for each in self._rows.after(row, through=self._last[0]):
                replayed.skip([each.update])
                count += 1
                size += len(each.update)
        replayed.follow()
        self._texts = replayed.texts() if self._last[0] else {}
        self._draft = self._load_draft()
        if self._draft is not None:
            for cell, text in self._draft.before.items():
                if text is None:
                    self._texts.pop(cell, None)
                else:
                    self._texts[cell] = text
        return replayed, (count, size)

    def _load_draft(self) -> Draft | None:
        query = (
            "SELECT first_row, began, source, member, name, last_row, ended, id, calls, kept, "
            "draft FROM versions WHERE document = ? ORDER BY first_row DESC LIMIT 1"
        )
        found = self._storage.database.execute(query, (self._record.id,)).fetchone()
        if found is None or found[-1] is None:
            return None
        row, began, source, member, name, last, ended, version, calls, kept, dumped = found
        who = Member(member, name, source == "agent") if member else None
        draft = Draft(row, began, source, who, 0.0, last, ended, version, kept=kept)
        draft.calls = dict.fromkeys(json.loads(calls))
        draft.load(dumped)
        return draft

    def _index(
        self, row: Row, new: Iterator[Row], replayed: ReplayedDocument, since: tuple[int, int]
    ) -> None:
        count, size = since
        enough = checkpoints.BYTES
        pending = pending_bytes = 0
        following: Row | None = row
        while following is not None:
            row = following
            self._add(row, replayed)
            self._last = (row.number, row.time)
            count, size = count + 1, size + len(row.update)
            if count >= checkpoints.ROWS or size >= enough:
                state = replayed.doc.get_update()
                if count >= checkpoints.ROWS or size >= len(state):
                    self._states.append((row.number, state))
                    count = size = 0
                # A large document whose rows are small is not worth so many copies.
                enough = max(checkpoints.BYTES, len(state))
            pending, pending_bytes = pending + 1, pending_bytes + len(row.update)
            if pending >= _PORTION or pending_bytes >= _PORTION_BYTES:
                self._write(replayed)
                pending = pending_bytes = 0
            following = next(new, None)
        self._write(replayed)

    def _add(self, row: Row, replayed: ReplayedDocument) -> None:
        first = self._draft is None and not self._last[0]
        after = self._before_an_end(row, replayed)
        changes, written = replayed.apply(row.update)
        if not changes:
            return  # only who is here, or whether it is saved
        author = _known(row) or author_of(row.update, written, self._credits, first)
        first_of_day = self._days.begins(row, author)
        self._days.note(row, author)
        draft = self._draft
        if draft is None or not self._takes(draft, row, author, first_of_day):
            if draft is not None:
                known = self._kept.get(draft.id)
                draft.kept = draft.kept or known or reason_to_keep(author, first_of_day)
                self._end(draft, draft.after(replayed) if after is None else after)
            self._draft = draft = Draft.begin(row, author)
        draft.add(row, author, changes, self._texts)
        self._credit_cells(row, author, changes, replayed, written)

    def _takes(self, draft: Draft, row: Row, author: Author, first_of_day: bool) -> bool:
        named = draft.id in self._named
        # One millisecond cannot end two versions.
        return draft.takes(row, author, named) and (not first_of_day or draft.id == row.version)

    def _before_an_end(
        self, row: Row, replayed: ReplayedDocument
    ) -> Mapping[str, Text | None] | None:
        """What the cells of the draft say, if a row may end it; only until it is applied."""
        if self._draft is None:
            return None
        if (known := _known(row)) is not None:
            guess = known
        elif (begin := first_block(row.update)) is None:
            guess = author_of(row.update, {}, self._credits, False)
        elif sole_author(row.update) is None:
            return self._draft.after(replayed)
        else:
            client, clock = begin
            guess = author_of(row.update, {client: (clock, clock + 1)}, self._credits, False)
        first_of_day = self._days.begins(row, guess)
        fits = self._takes(self._draft, row, guess, first_of_day)
        return None if fits else self._draft.after(replayed)

    def _end(self, draft: Draft, after: Mapping[str, Text | None]) -> None:
        """Count what a version has changed that is over."""
        self._over.append((draft, count_changes(draft.changes, draft.before, after)))
        for cell, text in after.items():
            if text is None:
                self._texts.pop(cell, None)
            else:
                self._texts[cell] = text

    def _credit_cells(
        self,
        row: Row,
        author: Author,
        changes: Changes,
        replayed: ReplayedDocument,
        written: Written,
    ) -> None:
        """Note who wrote which cells. Moving or running a cell is not writing it."""
        for cell, kinds in changes.items():
            if cell == METADATA:
                continue
            if not replayed.has(cell):
                self._cells[cell] = None
            elif kinds & {"inserted", "edited"}:
                whose = author
                if author.source == "several" and (new := replayed.new_in(cell, written)):
                    client, clock = new  # a merge has written each cell for its author
                    whose = author_of(
                        row.update, {client: (clock, clock + 1)}, self._credits, False
                    )
                self._cells[cell] = (whose, row.time)

    # -- writing -----------------------------------------------------------------------------

    def _write(self, replayed: ReplayedDocument) -> None:
        """Write what was found so far, if the index is still as far as it was.

        Raises:
            Stopped: It is not, or the server stops.
        """
        if self._stopped():
            raise Stopped
        draft, dumped = self._draft, None
        versions: list[tuple[Draft, ChangeCounts, str | None]]
        versions = [(each, counts, None) for each, counts in self._over]
        if draft is not None:
            after = draft.after(replayed)
            counts = count_changes(draft.changes, draft.before, after)
            dumped = draft.dump()
            versions.append((draft, counts, dumped))
            if dumped is None:  # too large to continue
                self._end(draft, after)
                self._draft = None
        document = self._record.id
        with self._storage.transaction() as database:
            done = database.execute(
                "UPDATE documents SET last_row = ?, last_time = ?, days = ?, used = ? "
                "WHERE id = ? AND last_row = ?",
                (*self._last, json.dumps(self._days.days), time.time(), document, self._written),
            )
            if done.rowcount != 1:
                raise Stopped
            database.executemany(
                f"INSERT OR REPLACE INTO versions VALUES ({', '.join('?' * 13)})",
                [_version(document, *version) for version in versions],
            )
            database.execute(
                "DELETE FROM versions WHERE document = ? AND first_row <= (SELECT first_row FROM "
                "versions WHERE document = ? ORDER BY first_row DESC LIMIT 1 OFFSET ?)",
                (document, document, _VERSIONS),
            )
            self._write_cells(database, document)
            for row, state in self._states:
                checkpoints.keep(database, document, row, state)
            if self._states:
                checkpoints.limit_all(database)
        self._written = self._last[0]
        self._over, self._cells, self._states = [], {}, []

    def _write_cells(self, database: sqlite3.Connection, document: int) -> None:
        gone = [(document, cell) for cell, credit in self._cells.items() if credit is None]
        database.executemany("DELETE FROM cells WHERE document = ? AND cell = ?", gone)
        database.executemany(
            "INSERT OR REPLACE INTO cells VALUES (?, ?, ?, ?, ?, ?)",
            [
                (document, text_of(cell), author.source, *_member(author.member), moment)
                for cell, (author, moment) in (
                    (cell, credit) for cell, credit in self._cells.items() if credit is not None
                )
            ],
        )


def _known(row: Row) -> Author | None:
    """The author of a row, if that is kept with it."""
    return None if row.author is None else Author(*row.author)


def _version(
    document: int, draft: Draft, counts: ChangeCounts, dumped: str | None
) -> tuple[Any, ...]:
    return (
        document,
        draft.first_row,
        draft.last_row,
        draft.id,
        draft.began,
        draft.ended,
        draft.source,
        *_member(draft.member),
        text_of(json.dumps(list(draft.calls))),
        json.dumps(asdict(counts)),
        None if draft.kept is None else text_of(draft.kept),
        None if dumped is None else text_of(dumped),
    )


def _member(member: Member | None) -> tuple[str, str]:
    return ("", "") if member is None else (text_of(member.id), text_of(member.name))
