"""The table of the steps that agents can undo: its columns, and what is written and read."""

from __future__ import annotations

import sqlite3

from ..protocols.steps import StepLimits

SCHEMA = """
CREATE TABLE IF NOT EXISTS steps (
    id TEXT PRIMARY KEY, room TEXT NOT NULL, agent TEXT NOT NULL, version INTEGER NOT NULL,
    call TEXT NOT NULL, characters INTEGER NOT NULL, changes BLOB NOT NULL
);
"""

KEEP = "INSERT OR REPLACE INTO steps VALUES (?, ?, ?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM steps WHERE id = ?"
FORGET = "DELETE FROM steps WHERE room = ?"
EMPTY = "DELETE FROM steps"

ALL = "SELECT * FROM steps ORDER BY rowid"
AGENTS = "SELECT DISTINCT agent FROM steps WHERE room = ?"

#: Those of an agent in a document, the oldest first: no more than it can undo.
LATEST = """
SELECT id, agent, version, call, characters, changes FROM (
    SELECT *, rowid AS row, row_number() OVER latest AS place, sum(characters) OVER latest AS held
    FROM steps WHERE room = ? AND agent = ?
    WINDOW latest AS (ORDER BY version DESC, rowid DESC)
) WHERE place = 1 OR (place <= ? AND held <= ?) ORDER BY version, row
"""

_TOTAL = "SELECT count(*), coalesce(sum(characters), 0) FROM steps"

_TRIM = """
DELETE FROM steps WHERE rowid IN (
    SELECT row FROM (
        SELECT rowid AS row, row_number() OVER latest AS place, sum(characters) OVER latest AS held
        FROM steps WINDOW latest AS ({each} ORDER BY version DESC, rowid DESC)
    ) WHERE place > 1 AND (place > ? OR held > ?)
)
"""
_TRIM_AGENTS, _TRIM_ALL = _TRIM.format(each="PARTITION BY room, agent"), _TRIM.format(each="")


def trim(database: sqlite3.Connection, limits: StepLimits) -> None:
    """Drop the oldest steps beyond the limits."""
    steps, characters = database.execute(_TOTAL).fetchone()
    if steps > limits.steps or characters > limits.characters:  # else no agent has too many
        database.execute(_TRIM_AGENTS, limits[:2])
    if steps > limits.total_steps or characters > limits.total_characters:
        database.execute(_TRIM_ALL, limits[2:])
