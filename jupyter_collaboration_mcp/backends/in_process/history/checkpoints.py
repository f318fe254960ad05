"""Whole states of a document at some rows, so that no version is far from one.

They are bounded in number and in bytes. The older they are, the fewer are kept.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

#: Rows, and bytes in them, after which another state is kept.
ROWS, BYTES = 500, 1_000_000

#: The most states of one document, and the most bytes of all documents.
_MOST, _MOST_BYTES = 16, 32_000_000
_MOST_BYTES_OF_ALL = 256_000_000


def latest(
    database: sqlite3.Connection, document: int, row: int
) -> tuple[int, bytes] | tuple[int, None]:
    """The last state that is kept of a document up to a row, and its row."""
    query = (
        "SELECT row, state FROM checkpoints WHERE document = ? AND row <= ? "
        "ORDER BY row DESC LIMIT 1"
    )
    found = database.execute(query, (document, row)).fetchone()
    return (0, None) if found is None else (found[0], found[1])


def keep(database: sqlite3.Connection, document: int, row: int, state: bytes) -> None:
    """Keep a state, unless it is too large; drops others that are no longer needed."""
    if len(state) > _MOST_BYTES // 2:
        return
    database.execute(
        "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?)", (document, row, len(state), state)
    )
    query = "SELECT row, size FROM checkpoints WHERE document = ? ORDER BY row"
    kept = database.execute(query, (document,)).fetchall()
    while len(kept) > _MOST or sum(size for _, size in kept) > _MOST_BYTES:
        if len(kept) == 1:
            break
        dropped = kept.pop(_superfluous([each for each, _ in kept]))
        database.execute(
            "DELETE FROM checkpoints WHERE document = ? AND row = ?", (document, dropped[0])
        )


def limit_all(database: sqlite3.Connection) -> None:
    """Drop the states of the documents that nobody has asked for in a long time."""
    (size,) = database.execute("SELECT coalesce(sum(size), 0) FROM checkpoints").fetchone()
    if size <= _MOST_BYTES_OF_ALL:
        return
    query = (
        "SELECT document, sum(size) FROM checkpoints JOIN documents ON documents.id = document "
        "GROUP BY document ORDER BY used"
    )
    for document, bytes_of_it in database.execute(query).fetchall():
        database.execute("DELETE FROM checkpoints WHERE document = ?", (document,))
        size -= bytes_of_it
        if size <= _MOST_BYTES_OF_ALL:
            return


def _superfluous(rows: Sequence[int]) -> int:
    """The index of the state that is missed least: between neighbours that are near, for its age.

    The last one is always kept.
    """
    end = rows[-1] + 1

    def benefit(index: int) -> float:
        before = rows[index - 1] if index else 0
        return (rows[index + 1] - before) / (end - rows[index])

    return min(range(len(rows) - 1), key=benefit)
