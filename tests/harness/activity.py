"""What the activity log of a server, or of the command beside it, has."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

from .jupyter import JupyterProcess
from .waiting import until

Entry = dict[str, Any]


def activities(server: JupyterProcess, path: str, kind: str | None = None) -> list[Entry]:
    """What is recorded about a document, the oldest first."""
    found: list[Entry] = []
    for file in server.home.glob("*data/collaboration-mcp/*/activity.db"):
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            try:
                rows = database.execute("SELECT * FROM activity ORDER BY time, seq").fetchall()
            except sqlite3.OperationalError:  # it is just being created
                continue
        found += [dict(row) for row in rows if row["path"] == path]
    for entry in found:
        for column in ("cells", "metadata"):
            entry[column] = json.loads(entry[column])
    return [entry for entry in found if kind in (None, entry["kind"])]


async def recorded(
    server: JupyterProcess,
    path: str,
    kind: str,
    condition: Callable[[Entry], object] = lambda entry: True,
) -> Entry:
    """Wait until something is recorded; returns the latest of it."""

    def found() -> list[Entry]:
        return [entry for entry in activities(server, path, kind) if condition(entry)]

    await until(found)
    return found()[-1]
