"""A store with a history that a test writes, row by row."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jupyter_ydoc import ydocs
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.in_process.history.credits import Credit
from jupyter_collaboration_mcp.backends.in_process.history.index import HistoryIndex
from jupyter_collaboration_mcp.backends.in_process.history.rows import StoreRows
from jupyter_collaboration_mcp.backends.protocols.room_ids import Kind, RoomId
from jupyter_collaboration_mcp.backends.protocols.versions import Source, Version
from jupyter_collaboration_mcp.documents.members import Member
from jupyter_collaboration_mcp.documents.updates import deletion_key, is_deletion
from tests.harness import notebooks

#: Noon of a day, as the store writes times.
NOON = 1_790_000_000.0 // 86_400 * 86_400 + 43_200

ADA, BOB = Member.agent("ada", "Ada"), Member.agent("bob", "Bob")
ANA = Member("ana", "Ana")


class Writer:
    """A client of the room, with a copy of the document of its own."""

    def __init__(self, stored: StoredHistory, client: int) -> None:
        self.doc: Doc[Any] = Doc(client_id=client)
        self.document: Any = ydocs[stored.kind](self.doc)
        self.updates: list[bytes] = []
        self._stored = stored
        if stored.written:
            self.doc.apply_update(stored.doc.get_update())
        self._observing = self.doc.observe(lambda event: self.updates.append(event.update))

    def do(self, work: Callable[[Any], object], at: float) -> int:
        """Change the document; returns the id of the version that ends with that."""
        self.doc.apply_update(self._stored.doc.get_update(self.doc.get_state()))
        self.updates.clear()
        with self.doc.transaction():
            work(self.document)
        for update in self.updates:
            self._stored.append(update, at)
        return int(at * 1000)


class StoredHistory:
    """A document in a store, and the index of its history."""

    def __init__(self, directory: Path, kind: Kind = "notebook") -> None:
        self.kind = kind
        self.room = RoomId.of(kind, "id")
        self.path = directory / "store.db"
        self.index_path = directory / "data" / "history.db"
        self.doc: Doc[Any] = Doc()
        self.document: Any = ydocs[kind](self.doc)
        self.written = 0
        self.recording = False
        self.seen: dict[int, Any] = {}
        """What the document said, by the id of the version."""
        self.credits: list[tuple[str, Credit]] = []
        self._database = sqlite3.connect(self.path, isolation_level=None)
        self._database.execute("PRAGMA auto_vacuum = FULL")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute(
            "CREATE TABLE yupdates (path TEXT NOT NULL, yupdate BLOB, metadata BLOB, "
            "timestamp REAL NOT NULL)"
        )
        self._database.execute(
            "CREATE INDEX idx_yupdates_path_timestamp ON yupdates (path, timestamp)"
        )
        self.index = self.new_index()

    def new_index(self) -> HistoryIndex:
        """The same history, as another process has it."""
        return HistoryIndex(self.index_path, self._drain)

    def close(self) -> None:
        self.index.close()
        self._database.close()

    # -- writing -----------------------------------------------------------------------------

    def load(self, content: Any, at: float) -> int:
        """What the server does first: the content of the file, as client 0."""
        return Writer(self, 0).do(lambda document: document.set(content), at)

    def load_cells(self, count: int, at: float = NOON) -> int:
        return self.load(notebooks.numbered(count), at)

    def credit(self, client: int, who: Member, call: str = "", clocks: range | None = None) -> None:
        """Let the history know whose a client is."""
        if not who.is_agent:
            credit = Credit.of_client(client, "person", who, NOON)
        else:
            between = clocks or range(2**40)
            made = client, between.start, between.stop
            credit = Credit(*made, b"", "agent", who.id, who.name, call, NOON)
        self.credits.append((self.room, credit))

    def credit_deletions(self, writer: Writer, who: Member, at: float) -> None:
        """Let the history know who made the deletions that a writer has just made."""
        for update in filter(is_deletion, writer.updates):
            source: Source = "agent" if who.is_agent else "person"
            credit = Credit.of_deletion(deletion_key(update), source, who, at)
            self.credits.append((self.room, credit))

    def append(self, update: bytes, at: float, key: str = ".id") -> None:
        values = (self.key if key == ".id" else key, update, b"", at)
        self._database.execute("INSERT INTO yupdates VALUES (?, ?, ?, ?)", values)
        if key == ".id":
            self.doc.apply_update(update)
            self.written += 1
            if self.recording:
                self.seen[int(at * 1000)] = self.now()

    # -- reading -----------------------------------------------------------------------------

    @property
    def key(self) -> str:
        return f".{self.kind}:id.y"

    def rows(self) -> StoreRows:
        return StoreRows(self.path, self.key)

    def count(self) -> int:
        """How many rows there are."""
        (count,) = self._database.execute("SELECT count(*) FROM yupdates").fetchone()
        return int(count)

    def execute(self, statement: str, *values: Any) -> None:
        self._database.execute(statement, values)

    def versions(self, limit: int = 10_000) -> list[Version]:
        """The versions, the oldest first."""
        found = self.index.list(self.rows(), self.room, limit, None).versions
        return list(reversed(found))

    def says(self, version: int) -> Any:
        """What the document said at a version."""
        doc: Doc[Any] = Doc()
        document = ydocs[self.kind](doc)
        doc.apply_update(self.index.state_at(self.rows(), self.room, version))
        return _plain(document.get())

    def now(self) -> Any:
        return _plain(self.document.get())

    def _drain(self, take: Callable[[Sequence[tuple[str, Credit]]], bool]) -> None:
        if self.credits and take(self.credits):
            self.credits = []


def _plain(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    return [(cell["id"], cell["source"]) for cell in content["cells"]]
