"""What the panel shows, on disk: agents, calls and their reviews survive a restart of the server.

Noting a change is an entry in a dictionary. One thread writes what has come together; nothing here
blocks the event loop, except for reading the file once at the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from ..disk.database_file import DatabaseFile, storable, transaction

_log = logging.getLogger(__name__)

Table = Literal["agents", "calls"]

Row = Mapping[str, Any]
"""An entry as JSON values."""

_TABLES: tuple[Table, ...] = ("agents", "calls")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS agents (id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS calls (id TEXT PRIMARY KEY, body TEXT NOT NULL);
"""

#: Seconds for which changes are collected before they are written together.
_GROUP = 0.25

#: Seconds that closing may take: a server that ends must not wait for a slow disk.
_CLOSING = 5.0

_Changes = dict[tuple[Table, str], Row | None]


class PanelStorage:
    """The entries of the panel, by table and id. For the event loop's thread."""

    def __init__(self, path: Path) -> None:
        self._file = DatabaseFile(
            path,
            _SCHEMA,
            "SELECT agents.body, calls.body FROM agents, calls LIMIT 1",
            "file of the panel",
            "Reviews of agents' calls are not kept for now",
        )
        self._waiting: dict[tuple[Table, str], Callable[[], Row] | None] = {}
        self._unwritten: _Changes = {}  # in the thread
        self._timer: asyncio.TimerHandle | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._closed = False

    def load(self) -> dict[Table, list[Row]]:
        """All entries, in the order in which they were first written; blocks."""
        rows = self._file.attempt(_read) if self._file.exists else None
        found: dict[Table, list[Row]] = {table: [] for table in _TABLES}
        for table, body in rows or ():
            with contextlib.suppress(ValueError):
                found[table].append(json.loads(body))
        return found

    def put(self, table: Table, entry_id: str, row: Callable[[], Row]) -> None:
        """Write an entry soon, as it is then."""
        self._waiting[table, entry_id] = row
        self._write_soon()

    def drop(self, table: Table, entry_id: str) -> None:
        """Remove an entry soon."""
        self._waiting[table, entry_id] = None
        self._write_soon()

    async def flush(self) -> bool:
        """Return when everything is written that was noted before; whether it really is."""
        if self._closed:
            return False
        return await asyncio.wrap_future(self._submit())

    async def close(self) -> None:
        """Write what is left, and close the file."""
        if self._closed or (self._thread is None and not self._waiting):
            self._closed = True
            return
        self._submit()
        self._closed = True
        assert self._thread is not None
        closing = self._thread.submit(self._file.close)
        self._thread.shutdown(wait=False)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                await asyncio.wrap_future(closing)

    def _write_soon(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_GROUP, self._submit)

    def _submit(self) -> Any:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        changes: _Changes = {key: None if row is None else row() for key, row in waiting.items()}
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="panel-storage")
        return self._thread.submit(self._write, changes)

    def _write(self, changes: _Changes) -> bool:
        """Write changes, and those that could not be written before; returns whether it worked."""
        self._unwritten |= changes
        if not self._unwritten:
            return True
        try:
            done = self._file.attempt(self._put) is not None
        except Exception:
            _log.exception("What the panel shows could not be written")
            done = False
        if done:
            self._unwritten = {}
        return done

    def _put(self, database: sqlite3.Connection) -> bool:
        with transaction(database):
            for (table, entry_id), row in self._unwritten.items():
                if row is None:
                    database.execute(f"DELETE FROM {table} WHERE id = ?", (entry_id,))
                    continue
                body = storable(json.dumps(row, ensure_ascii=False))
                database.execute(
                    f"INSERT INTO {table} VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET "
                    "body = excluded.body",
                    (entry_id, body),
                )
        return True


def _read(database: sqlite3.Connection) -> list[tuple[Table, str]]:
    return [
        (table, body)
        for table in _TABLES
        for (body,) in database.execute(f"SELECT body FROM {table} ORDER BY rowid").fetchall()
    ]
