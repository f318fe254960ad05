"""What a journal keeps for the next start: unsaved rooms, renames under way, notices.

Only recovery, a start and tests read it, while nobody writes to the journal. The credits, which are
kept for the history, are read at any time.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..protocols.room_ids import RoomId
from .history.credits import Credit
from .journal_file import Statement
from .journal_storage import JournalStorage


@dataclass(frozen=True, slots=True)
class UnsavedRoom:
    """A room whose file may be behind: what recovery starts from."""

    room: RoomId
    path: str
    base: str | None
    base_time: float


class JournalRecords:
    """Reads what was committed, and removes what recovery has handled."""

    def __init__(self, storage: JournalStorage) -> None:
        self._storage = storage

    def unsaved(self) -> list[UnsavedRoom]:
        """The rooms that may be ahead of their files."""
        rows = self._storage.database.execute("SELECT room, path, base, base_time FROM rooms")
        return [UnsavedRoom(RoomId(room), *row) for room, *row in rows]

    def updates(self, room: RoomId) -> list[tuple[float, bytes]]:
        """A room's updates that the store may lack, oldest first; at the end, edits in slices of
        which the room may have had only some."""
        database = self._storage.database
        query = "SELECT time, yupdate FROM updates WHERE room = ? ORDER BY seq"
        updates: list[tuple[float, bytes]] = database.execute(query, (room,)).fetchall()
        query = "SELECT yupdate FROM pending WHERE room = ? ORDER BY edit, slice"
        now = time.time()
        return updates + [(now, update) for (update,) in database.execute(query, (room,))]

    def forget_unbegun(self) -> None:
        """Forget edits in slices of rooms that the crash left as their files have them."""
        if self._storage.weakness is not None:
            return
        unbegun = "FROM pending WHERE room NOT IN (SELECT room FROM rooms)"
        if self._storage.database.execute(f"SELECT 1 {unbegun} LIMIT 1").fetchone() is not None:
            self._storage.commit([(f"DELETE {unbegun}", ())])

    def renames(self) -> list[tuple[str, str]]:
        """The renames that were under way, oldest first: old and new path."""
        query = "SELECT path, new_path FROM renames ORDER BY rowid"
        return self._storage.database.execute(query).fetchall()

    def notices(self) -> dict[str, list[str]]:
        """Notices that agents have not received yet, by room, newest last."""
        found: dict[str, list[str]] = {}
        if self._storage.weakness is not None:
            return found
        rows = self._storage.database.execute("SELECT room, text FROM notices ORDER BY rowid")
        for room, text in rows:
            found.setdefault(room, []).append(text)
        return found

    def drain_credits(self, take: Callable[[list[tuple[str, Credit]]], bool]) -> None:
        """Pass all credits to a function, and forget them if it returns True; in any thread."""
        storage = self._storage
        with contextlib.suppress(sqlite3.Error):  # what the journal itself does about it suffices
            rows = storage.read("SELECT rowid, * FROM credits ORDER BY rowid")
            if rows and take([(room, Credit(*credit)) for _, room, *credit in rows]):
                storage.commit([("DELETE FROM credits WHERE rowid <= ?", (rows[-1][0],))])

    def add_credits(self, new: Sequence[tuple[str, Credit]]) -> bool:
        """Take over the credits of another journal."""
        statement = f"INSERT INTO credits VALUES ({', '.join('?' * 10)})"
        self._storage.commit([(statement, (room, *credit)) for room, credit in new])
        return True

    def follow(self, path: str, new_path: str) -> None:
        """Give the rooms of a file, or of all files in a folder, another path."""
        self._storage.commit(
            [
                (
                    "UPDATE rooms SET path = ? || substr(path, ?) "
                    "WHERE path = ? OR substr(path, 1, ?) = ?",
                    (new_path, len(path) + 1, path, len(path) + 1, f"{path}/"),
                )
            ]
        )

    def forget_renames(self) -> None:
        """Forget all renames, because rooms have followed their files."""
        self._storage.commit([("DELETE FROM renames", ())])

    def recovered(self, room: RoomId, notice: tuple[str, str] | None) -> None:
        """Forget a room that recovery has handled, and keep a notice (path, text) for agents."""
        statements: list[Statement] = [
            (f"DELETE FROM {table} WHERE room = ?", (room,))
            for table in ("updates", "pending", "rooms")
        ]
        if notice is not None:
            path, text = notice
            row = (room, path, time.time(), text)
            statements.append(("INSERT INTO notices VALUES (?, ?, ?, ?)", row))
        self._storage.commit(statements)

    def keep_aside(self, room: RoomId) -> Path:
        """Move a room that cannot be recovered into its own journal, for a person to look at.

        Returns the path of that journal.
        """
        # The file's id is in the name: several rooms may be moved within one second.
        stamp = time.strftime("%Y%m%d-%H%M%S")
        aside = self._storage.path.with_name(f"unrecovered-{stamp}-{room.file_id}.db")
        with contextlib.closing(sqlite3.connect(aside)) as target:
            aside.chmod(0o600)
            self._storage.database.backup(target)
        self.recovered(room, None)
        return aside
