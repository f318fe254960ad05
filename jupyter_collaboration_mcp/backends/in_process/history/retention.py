"""Thins what the store has of the past, so that it does not grow for ever.

jupyter-collaboration keeps every update. After some days, only versions that have a name or are
kept for another reason stay listed, and the last one before that time. The rows between two of them
become one row, so each can still be restored exactly.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pycrdt import Array, Doc, Map, Text

from ....documents.updates import decode_state, first_block
from ...protocols.room_ids import KINDS, RoomId
from .index import HistoryIndex
from .rows import Row, StoreRows
from .storage import text_of

_DAY = 86_400.0

#: Rows that are deleted at once, and the pause after it, in seconds: others want to write, too.
_BATCH, _PAUSE = 100, 0.02

#: Seconds that somebody who writes to the store has to finish.
_BUSY = 2.0

_KEY = re.compile(r"\.(\w+):(.+)\.y", re.DOTALL)


class _Segment(NamedTuple):
    """The rows from one version that stays listed to the next."""

    rows: Sequence[tuple[int, float]]
    """Numbers and times of the rows to replace; the last one is that of the version."""
    squashed: bytes


class Retention:
    """Thins documents, one at a time, in the history's thread.

    Args:
        days: Rows of the last days are never touched.
    """

    def __init__(self, history: HistoryIndex, days: float) -> None:
        self._history = history
        self._age = days * _DAY

    def documents(self, store: Path) -> list[RoomId]:
        """The documents in a store that have rows which are old enough."""
        if not store.exists():
            return []
        query = "SELECT path FROM yupdates WHERE timestamp < ? GROUP BY path HAVING count(*) > 1"
        with contextlib.closing(_connect(store)) as database:
            try:
                found = database.execute(query, (time.time() - self._age,)).fetchall()
            except sqlite3.OperationalError:  # there is no such table yet, or it is locked
                return []
        matches = (_KEY.fullmatch(key) for (key,) in found)
        known = [match.groups() for match in matches if match is not None]
        return [RoomId.of(kind, file) for name, file in known for kind in KINDS if kind == name]

    def thin(self, rows: StoreRows, room: RoomId) -> int:
        """Thin one document; returns how many rows were removed.

        Raises:
            sqlite3.Error: The store is busy. It is unharmed, and the next time continues.
        """
        if rows.compressed:
            return 0
        document = self._history.catch_up(rows, room)
        if not self._history.storage.lasting:
            return 0  # the names of versions may be in a file that cannot be used now
        limit = time.time() - self._age
        stays = [] if document is None else self._stays(document, room, limit)
        if document is None or not stays:
            return 0
        reasons = [(version, text_of(reason)) for _, version, reason in stays if reason]
        removed, done = 0, []
        with rows:
            for end, segment in _segments(rows, [row for row, _, _ in stays]):
                if segment is not None:
                    self._history.storage.keep(room, reasons)
                    removed += self._replace(rows, segment)
                if self._history.stopped:
                    break
                done.append(end)
            if removed:
                self._forget_versions(document, done, rows)
        return removed

    def _stays(
        self, document: int, room: RoomId, limit: float
    ) -> list[tuple[int, int, str | None]]:
        """What stays listed of the time before a limit: last row, id, and why it is kept."""
        query = (
            "SELECT last_row, id, kept FROM versions WHERE document = ? AND ended < ? "
            "ORDER BY first_row"
        )
        found = self._history.storage.database.execute(query, (document, limit)).fetchall()
        names = self._history.storage.names(room)
        stays = [row for row in found if row[2] is not None or row[1] in names]
        if found and (not stays or stays[-1] != found[-1]):
            stays.append(found[-1])
        return stays

    def _replace(self, rows: StoreRows, segment: _Segment) -> int:
        """Replace rows by one, in short transactions.

        Whatever happens meanwhile: first the last row has everything, and only then the others go.
        """
        *others, (last, moment) = segment.rows
        with contextlib.closing(_connect(rows.path)) as database:
            done = database.execute(
                "UPDATE yupdates SET yupdate = ? WHERE rowid = ? AND path = ? AND timestamp = ?",
                (segment.squashed, last, rows.key, moment),
            )
            if done.rowcount != 1:
                return 0  # somebody else has squashed it
            for start in range(0, len(others), _BATCH):
                if self._history.stopped:
                    return start
                time.sleep(_PAUSE)
                database.execute("BEGIN IMMEDIATE")
                database.executemany(
                    "DELETE FROM yupdates WHERE rowid = ? AND timestamp = ? AND path = ?",
                    [(*row, rows.key) for row in others[start : start + _BATCH]],
                )
                database.execute("COMMIT")
        return len(others)

    def _forget_versions(self, document: int, stays: Sequence[int], rows: StoreRows) -> None:
        with self._history.storage.transaction() as database:
            marks = ", ".join("?" * len(stays))
            database.execute(
                f"DELETE FROM versions WHERE document = ? AND last_row < ? "
                f"AND last_row NOT IN ({marks})",
                (document, stays[-1], *stays),
            )
            if (ends := rows.ends()) is not None:
                database.execute(
                    "UPDATE documents SET first_row = ?, first_time = ? WHERE id = ?",
                    (*ends[0], document),
                )


def _segments(rows: StoreRows, ends: Sequence[int]) -> Iterator[tuple[int, _Segment | None]]:
    """The rows up to each of some rows, as one update; None where there is one row only.

    Ends where one update would not be exactly the same.
    """
    doc: Doc[Any] = Doc()
    rebuilt: Doc[Any] = Doc()
    start = 0
    for end in ends:
        before = doc.get_state()
        taken = [*_applied(rows.after(start, through=end), doc)]
        if not taken or taken[-1][0] != end:
            return
        squashed = doc.get_update(before)
        rebuilt.apply_update(squashed)
        if not _equal(doc, rebuilt):
            return
        yield end, _Segment(taken, squashed) if len(taken) > 1 else None
        start = end


def _applied(new: Iterator[Row], doc: Doc[Any]) -> Iterator[tuple[int, float]]:
    for row in new:
        doc.apply_update(row.update)
        begin = first_block(row.update)
        if begin is not None and decode_state(doc.get_state()).get(begin[0], 0) <= begin[1]:
            return  # Yjs holds it back until something comes that it builds on (B1)
        yield row.number, row.time


def _equal(one: Doc[Any], other: Doc[Any]) -> bool:
    if decode_state(one.get_state()) != decode_state(other.get_state()):
        return False
    kinds: Sequence[tuple[str, type[Any]]] = (("cells", Array), ("meta", Map), ("source", Text))
    return all(
        one.get(name, type=kind).to_py() == other.get(name, type=kind).to_py()
        for name, kind in kinds
    )


def _connect(store: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{store.as_uri()}?mode=rw", uri=True, timeout=_BUSY, isolation_level=None
    )
