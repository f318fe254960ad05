"""The rows of a document's history: each is an update, with the time at which it was stored.

`Rows` is where they come from. Everything here blocks, and runs in the history's thread.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from ....documents.members import Member
from ...protocols.versions import Source

#: Rows and bytes that are read at once: the store cannot be written meanwhile.
_BATCH, _BATCH_BYTES = 100, 4_000_000

#: Seconds that somebody who writes to the store has to finish.
_BUSY = 5.0

#: Rows of all documents up to which they are looked through one by one.
_NEAR = 5_000

#: Seconds by which a clock may have been set back between two rows.
_CLOCK = 86_400.0


class Row(NamedTuple):
    """One stored update."""

    number: int
    """Ascending; the later row has the larger one."""
    time: float
    update: bytes
    author: tuple[Source, Member | None] | None = None
    """Who wrote it, if that is kept with the row."""

    @property
    def version(self) -> int:
        """The id of the document's version that ends with this row."""
        return version_at(self.time)


class RowsUnreadable(Exception):
    """The rows cannot be read now, whatever the state of the index."""


def version_at(time: float) -> int:
    """The id of the version that ended at a time."""
    return int(time * 1000)


class Rows(Protocol):
    """The stored rows of one document, while it is entered as a context.

    All methods raise `RowsUnreadable` if the store cannot be read now.
    """

    @property
    def document(self) -> str:
        """What names the document in the index."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...

    def ends(self) -> tuple[tuple[int, float], tuple[int, float]] | None:
        """Numbers and times of the first and the last row; None if there is none."""

    def has(self, number: int, time: float) -> bool:
        """Whether there is this very row."""

    def after(self, number: int, time: float = 0.0, through: int | None = None) -> Iterator[Row]:
        """The rows after a number, ascending.

        Args:
            time: The time of the row with that number.
            through: The number of the last one.
        """

    def number_at(self, version: int) -> int | None:
        """The number of the last row that was stored in the millisecond of a version."""


class StoreRows:
    """The rows of a document in the SQLite database of jupyter-collaboration.

    They are read through a connection of our own, a few at a time: whoever reads holds a lock
    without which nobody can write. The store's own lock would keep people's edits waiting.

    Args:
        key: What names the document in the store.
        decompress: What the store was told to apply to each update that it reads.
    """

    def __init__(
        self, path: Path, key: str, decompress: Callable[[bytes], bytes] | None = None
    ) -> None:
        self.path = path
        self.key = key
        self._decompress = decompress
        self._connection: sqlite3.Connection | None = None

    @property
    def document(self) -> str:
        return f"{self.path}\n{self.key}"

    @property
    def compressed(self) -> bool:
        """Whether the store has a way of its own to write updates."""
        return self._decompress is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read(self, query: str, *values: Any) -> list[Any]:
        """What a query finds, all of it at once: nobody can write until the last row is read."""
        try:
            if self._connection is None:
                # It is only read. But after a crash, only one who may write can roll back.
                self._connection = sqlite3.connect(
                    f"{self.path.as_uri()}?mode=rw", uri=True, timeout=_BUSY, isolation_level=None
                )
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise RowsUnreadable(str(error)) from error

    def ends(self) -> tuple[tuple[int, float], tuple[int, float]] | None:
        if not self.path.exists():
            return None
        if not self._read("SELECT 1 FROM sqlite_master WHERE name = 'yupdates'"):
            return None
        query = (
            "SELECT rowid, timestamp FROM yupdates WHERE path = ? "
            "ORDER BY timestamp {0}, rowid {0} LIMIT 1"
        )
        found = [row for order in ("", "DESC") for row in self._read(query.format(order), self.key)]
        return (found[0], found[1]) if len(found) == 2 else None

    def has(self, number: int, time: float) -> bool:
        query = "SELECT 1 FROM yupdates WHERE rowid = ? AND path = ? AND timestamp = ?"
        return bool(self._read(query, number, self.key, time))

    def after(self, number: int, time: float = 0.0, through: int | None = None) -> Iterator[Row]:
        wanted = self._numbers(number, time, through)
        times = dict(wanted)
        numbers = [each for each, _ in wanted]
        for start in range(0, len(numbers), _BATCH):
            for part in self._portions(numbers[start : start + _BATCH]):
                marks = ", ".join("?" * len(part))
                query = f"SELECT rowid, yupdate FROM yupdates WHERE rowid IN ({marks})"
                updates = dict(self._read(query, *part))
                for each in part:
                    if each in updates:  # else somebody has squashed it meanwhile
                        yield Row(each, times[each], self._plain(updates[each]))

    def _numbers(self, number: int, time: float, through: int | None) -> list[tuple[int, float]]:
        """The numbers and times of the rows after a number."""
        last = 2**62 if through is None else through
        ((newest,),) = self._read("SELECT coalesce(max(rowid), 0) FROM yupdates")
        if number > 0 and min(newest, last) - number <= _NEAR:
            # Few rows have come since, of this document and others: the plus keeps SQLite from
            # going through all rows of this one.
            query = (
                "SELECT rowid, timestamp FROM yupdates WHERE rowid > ? AND rowid <= ? "
                "AND +path = ? ORDER BY rowid"
            )
            return self._read(query, number, last, self.key)
        # The index of the database has the numbers: no update is read for this.
        query = "SELECT rowid, timestamp FROM yupdates WHERE path = ? AND timestamp >= ?"
        found = self._read(query, self.key, time - _CLOCK)
        return sorted(row for row in found if number < row[0] <= last)

    def _portions(self, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
        """Numbers of rows that are not too large to be read together."""
        marks = ", ".join("?" * len(numbers))
        query = f"SELECT rowid, length(yupdate) FROM yupdates WHERE rowid IN ({marks})"
        sizes = dict(self._read(query, *numbers))
        part: list[int] = []
        size = 0
        for number in numbers:
            if part and size + sizes.get(number, 0) > _BATCH_BYTES:
                yield part
                part, size = [], 0
            part.append(number)
            size += sizes.get(number, 0)
        if part:
            yield part

    def number_at(self, version: int) -> int | None:
        query = "SELECT rowid, timestamp FROM yupdates WHERE path = ? AND timestamp BETWEEN ? AND ?"
        span = (version - 1) / 1000, (version + 2) / 1000
        rows = self._read(query, self.key, *span)
        return max((row for row, time in rows if version_at(time) == version), default=None)

    def _plain(self, update: bytes) -> bytes:
        if self._decompress is not None:
            with contextlib.suppress(Exception):  # the store itself then takes it as it is
                return self._decompress(update)
        return update


class ReadRows:
    """Rows that a store of another kind has returned, from its first one on; their numbers do not
    matter."""

    def __init__(self, document: str, rows: Sequence[Row]) -> None:
        self.document = document
        self._rows = [row._replace(number=number) for number, row in enumerate(rows, 1)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def ends(self) -> tuple[tuple[int, float], tuple[int, float]] | None:
        rows = self._rows
        return (rows[0][:2], rows[-1][:2]) if rows else None

    def has(self, number: int, time: float) -> bool:
        return 0 < number <= len(self._rows) and self._rows[number - 1].time == time

    def after(self, number: int, time: float = 0.0, through: int | None = None) -> Iterator[Row]:
        return iter(self._rows[number:through])

    def number_at(self, version: int) -> int | None:
        return max((row.number for row in self._rows if row.version == version), default=None)
