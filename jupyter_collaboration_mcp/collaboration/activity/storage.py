"""The file of an activity log: an SQLite database that several processes may use at once.

Everything here blocks, and runs in the log's own thread.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...backends.disk.database_file import DatabaseFile, storable, transaction
from .activity import Activity

_log = logging.getLogger(__name__)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS activity (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, time INTEGER NOT NULL, kind TEXT NOT NULL,
    actor TEXT NOT NULL, actor_id TEXT NOT NULL, agent INTEGER NOT NULL, description TEXT NOT NULL,
    path TEXT NOT NULL, file_id TEXT NOT NULL, cells TEXT NOT NULL, cell_count INTEGER NOT NULL,
    metadata TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS activity_by_document ON activity (file_id, time);
CREATE INDEX IF NOT EXISTS activity_by_time ON activity (time);
"""

_COLUMNS = (
    "kind, actor, actor_id, agent, description, path, file_id, cells, cell_count, metadata, "
    "time, id"
)

_PUT = (
    f"INSERT INTO activity ({_COLUMNS}) VALUES ({', '.join('?' * 12)}) "
    "ON CONFLICT (id) DO UPDATE SET description = excluded.description, cells = excluded.cells, "
    "cell_count = excluded.cell_count, metadata = excluded.metadata, time = excluded.time"
)

#: Entries that are kept while they cannot be written.
_BACKLOG = 1_000


class ActivityStorage:
    """The latest activities, on disk. Nothing that is wrong with the file is raised to callers."""

    def __init__(self, path: Path, limit: int) -> None:
        self._limit = limit
        self._file = DatabaseFile(
            path,
            _SCHEMA,
            f"SELECT seq, {_COLUMNS} FROM activity LIMIT 1",
            "activity log",
            "Activity is not recorded for now",
        )
        self._backlog: list[tuple[Any, ...]] = []

    def write(self, activities: Sequence[Activity]) -> None:
        """Add activities, or replace those that have the same id; drop the oldest ones."""
        self._backlog = [*self._backlog, *_rows(activities)][-_BACKLOG:]
        if self._backlog and self._file.attempt(self._write) is not None:
            self._backlog = []

    def select(self, where: str, parameters: Sequence[Any], limit: int) -> list[Activity]:
        """The latest activities with a condition, the latest first; none if they are unreadable."""
        query = (
            f"SELECT {_COLUMNS} FROM activity WHERE {where} ORDER BY time DESC, seq DESC LIMIT ?"
        )
        rows = self._file.attempt(lambda db: db.execute(query, (*parameters, limit)).fetchall())
        return [_activity(row) for row in rows or ()]

    def close(self) -> None:
        self._file.close()

    # -- parts -------------------------------------------------------------------------------

    def _write(self, database: sqlite3.Connection) -> bool:
        with transaction(database):
            database.executemany(_PUT, self._backlog)
            database.execute(
                "DELETE FROM activity WHERE seq <= (SELECT max(seq) FROM activity) - ?",
                (self._limit,),
            )
        return True


def _rows(activities: Sequence[Activity]) -> Iterator[tuple[Any, ...]]:
    for activity in activities:
        try:
            yield _row(activity)
        except (TypeError, ValueError, RecursionError) as error:  # its metadata is not JSON
            _log.warning("An activity %r cannot be recorded (%s).", activity.kind, error)


def _row(activity: Activity) -> tuple[Any, ...]:
    return (
        activity.kind,
        storable(activity.actor),
        storable(activity.actor_id),
        int(activity.agent),
        storable(activity.description),
        storable(activity.path),
        storable(activity.file_id),
        storable(json.dumps(activity.cells, ensure_ascii=False)),
        activity.cell_count,
        storable(json.dumps(activity.metadata, ensure_ascii=False, default=str)),
        activity.time,
        activity.id,
    )


def _activity(row: Sequence[Any]) -> Activity:
    kind, actor, actor_id, agent, description, path, file_id, cells, count, metadata, *rest = row
    return Activity(
        kind,
        actor,
        actor_id,
        bool(agent),
        description,
        path,
        file_id,
        tuple(json.loads(cells)),
        count,
        json.loads(metadata),
        *rest,
    )
