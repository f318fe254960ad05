"""What survives of forks when the file cannot be used for a moment."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pycrdt import Doc, Text

from jupyter_collaboration_mcp.backends.in_process.fork_store import ForkStore, ForkStoreBusy
from jupyter_collaboration_mcp.backends.protocols.forks import Fork
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId


class Written:
    """A store with one fork, and a document whose updates it gets."""

    def __init__(self, path: Path) -> None:
        self.store = ForkStore(path)
        self.doc: Doc[Any] = Doc()
        self.text = self.doc.get("source", type=Text)
        self.updates: list[bytes] = []
        self.doc.observe(lambda event: self.updates.append(event.update))
        self.store.add(Fork("f", RoomId("text:file:1")), self.doc.get_update())
        self.store.commit()

    def type(self, text: str) -> bytes:
        self.text += text
        return self.updates[-1]

    def kept(self) -> str:
        return _said(*(each.update for each in self.store.updates("f")))


def _said(*updates: bytes) -> str:
    doc: Doc[Any] = Doc()
    for update in updates:
        doc.apply_update(update)
    return str(doc.get("source", type=Text))


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    made = Written(tmp_path / "forks.db")
    yield made
    made.store.close()


def _lose_file(store: ForkStore, path: Path) -> None:
    """Let the store fail to read, until the file is back."""
    store.close()
    path.rename(path.with_suffix(".away"))
    path.mkdir()


def _return_file(path: Path) -> None:
    path.rmdir()
    path.with_suffix(".away").rename(path)


def test_no_update_is_lost_when_compacting_fails(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "forks.db"
    _lose_file(written.store, path)
    for number in range(510):
        update = written.type(f"{number} ")
        written.store.append("f", update, None)
        written.store.append_base("f", update)
    _return_file(path)
    written.store.commit()
    assert written.kept() == str(written.text)
    base = written.store.base("f")
    assert base is not None
    assert _said(base) == str(written.text)


def test_another_process_that_writes_does_not_block_the_event_loop(
    written: Written, tmp_path: Path
) -> None:
    written.store.append("f", written.type("kept"), None)
    with contextlib.closing(sqlite3.connect(tmp_path / "forks.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(ForkStoreBusy):
            written.store.commit()
        assert time.monotonic() - began < 1
        other.rollback()
    written.store.commit()
    assert written.kept() == "kept"


def test_a_new_base_leaves_what_the_fork_was_made_of(written: Written) -> None:
    written.store.append("f", written.type("one "), None)
    written.store.append_base("f", written.updates[-1])
    written.store.commit()
    merged = written.doc.get_update()
    written.store.append("f", written.type("two"), None)
    written.store.rebase("f", merged)
    written.store.commit()
    base = written.store.base("f")
    assert base is not None
    assert _said(base) == "one "
    assert written.kept() == "one two"
    assert len(written.store.updates("f")) == 3


def test_nobody_else_can_read_what_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    written = Written(folder / "forks.db")
    files = {each.name: each.stat().st_mode & 0o777 for each in folder.iterdir()}
    written.store.close()
    assert set(files) >= {"forks.db", "forks.db-wal"}
    assert set(files.values()) == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
