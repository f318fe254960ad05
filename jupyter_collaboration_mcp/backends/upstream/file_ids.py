"""The ids of files, where jupyter-server-fileid takes the name of a folder for a glob."""

from __future__ import annotations

import sqlite3
from typing import Any


def take_names_as_they_are(manager: Any) -> None:
    """Have the ids of what is in a folder go with it, and no others, whoever moves or deletes it.

    B22: the manager looks for what is in `wh?` with `GLOB 'wh?/*'`. That is in `who`, too: with
    the folder it deletes or moves the ids of documents that are open elsewhere. In `[a]` it finds
    nothing. SQLite asks a function for what a glob fits, and the manager's connection gets one
    that knows only the star at the end.
    """
    if isinstance(connection := getattr(manager, "con", None), sqlite3.Connection):
        connection.create_function("glob", 2, _begins, deterministic=True)


def _begins(glob: str, path: str) -> bool:
    return path.startswith(glob.removesuffix("*"))
