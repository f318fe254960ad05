"""The parts of the Jupyter server that this extension runs in, as we use them."""

from __future__ import annotations

import os
import sqlite3
import time
from functools import cached_property
from logging import Logger
from typing import TYPE_CHECKING, Any, cast

from ...errors import RoomUnavailable
from ..disk.local_disk import LocalDisk

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from jupyter_server_ydoc.app import YDocExtension


Stamp = tuple[int, int, int]
"""When a file was written, how large it is, and which one it is."""

#: Seconds in which a file system may give two changes of a file the same time.
_TICK = 0.1

#: The modes of SQLite in which a commit writes the database itself.
_IN_PLACE = ("delete", "truncate", "persist")


class ServerParts:
    """Managers and extensions of the server, each looked up when it is needed."""

    def __init__(self, serverapp: ServerApp) -> None:
        self._serverapp = serverapp
        self._settings: dict[str, Any] = serverapp.web_app.settings
        self.log: Logger = serverapp.log

    @property
    def ydoc(self) -> YDocExtension:
        """The extension that manages the rooms.

        Raises:
            RoomUnavailable: It is not loaded.
        """
        # Looked up late: we do not control the order in which extensions load.
        ydoc = self._settings.get("jupyter_server_ydoc")
        if ydoc is None or not hasattr(ydoc, "ywebsocket_server"):
            raise RoomUnavailable(
                "Real-time collaboration is not running on this Jupyter server.",
                "Ask the person to install and enable jupyter-collaboration 5.0 and restart it.",
            )
        return cast("YDocExtension", ydoc)

    @property
    def has_rooms(self) -> bool:
        return hasattr(self._settings.get("jupyter_server_ydoc"), "ywebsocket_server")

    @property
    def file_ids(self) -> Any:
        return self._settings["file_id_manager"]

    @property
    def has_file_ids(self) -> bool:
        return "file_id_manager" in self._settings

    @property
    def file_id_changes(self) -> int | None:
        """How many rows of the table of file ids this process has changed; None if not known."""
        connection = getattr(self.file_ids, "con", None)
        return connection.total_changes if isinstance(connection, sqlite3.Connection) else None

    @property
    def file_id_stamp(self) -> Stamp | None:
        """When the file of the table of file ids was last written; None if that says nothing.

        A file that was written just now may be written again in the same tick of its clock.
        """
        if (path := self._file_id_table) is None:
            return None
        try:
            found = os.stat(path)  # noqa: PTH116 (each edit asks)
        except OSError:
            return None
        is_fresh = time.time() - found.st_mtime < _TICK
        return None if is_fresh else (found.st_mtime_ns, found.st_size, found.st_ino)

    @cached_property
    def _file_id_table(self) -> str | None:
        """The file of the table of file ids, if each change of it is one of the file."""
        from jupyter_server_fileid.manager import ArbitraryFileIdManager

        ids = self.file_ids
        if type(ids).get_path is not ArbitraryFileIdManager.get_path:
            return None  # one that looks at the disk as well
        mode = ids.con.execute("PRAGMA journal_mode").fetchone()[0]
        return ids.db_path if mode in _IN_PLACE else None

    @property
    def contents(self) -> Any:
        return self._serverapp.contents_manager

    @property
    def sessions(self) -> Any:
        return self._serverapp.session_manager

    @property
    def events(self) -> Any:
        events = self._serverapp.event_logger
        assert events is not None
        return events

    @cached_property
    def disk(self) -> LocalDisk | None:
        """The disk of the contents manager; None if its files are not local."""
        return LocalDisk.below(self.contents)

    def link_target(self, path: str) -> str:
        """The path of what a link leads to; see `LocalDisk`."""
        return path if self.disk is None else self.disk.link_target(path)

    def served_target(self, path: str) -> str:
        """The path under which a file is opened, whatever link it was named by; see `LocalDisk`."""
        return path if self.disk is None else self.disk.served_target(path)

    def entry_path(self, path: str) -> str:
        """The path without links to folders; see `LocalDisk`."""
        return path if self.disk is None else self.disk.entry_path(path)
