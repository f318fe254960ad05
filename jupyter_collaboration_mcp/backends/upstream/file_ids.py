"""The ids of files, where jupyter-server-fileid treats the name of a folder as a glob."""

from __future__ import annotations

import sqlite3

from .workaround import Server, Workaround


class FileIdFolders(Workaround):
    name = "file_id_folders"
    trap = "B22"
    package = "jupyter-server-fileid"
    fault = (
        "It looks for what is in the folder `wh?` with `GLOB 'wh?/*'`, which finds what is in "
        "`who`, too; in `[a]` it finds nothing."
    )
    patches = ("the function `glob` of the SQLite connection `BaseFileIdManager.con`",)
    without = (
        "moving or deleting a folder with `*`, `?` or `[` in its name loses the ids of documents "
        "that are open elsewhere, or keeps ids that lead nowhere"
    )

    def check(self, server: Server) -> list[str]:
        if server.file_ids is None:
            return []
        kind = type(server.file_ids).__name__
        if not isinstance(getattr(server.file_ids, "con", None), sqlite3.Connection):
            return [f"{kind}.con is not an SQLite connection"]
        return []

    def apply(self, server: Server) -> None:
        if server.file_ids is not None:
            # SQLite calls a function to match a glob. Ours only knows the star at the end.
            server.file_ids.con.create_function("glob", 2, _begins, deterministic=True)


def _begins(glob: str, path: str) -> bool:
    return path.startswith(glob.removesuffix("*"))
