"""Whatever is where a journal should be: nothing of it is lost, and the server starts."""

from __future__ import annotations

import asyncio
import errno
import shutil
import sqlite3
import stat
import sys
import threading
import time
from asyncio.subprocess import PIPE
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.in_process import journal_storage
from jupyter_collaboration_mcp.backends.in_process.journal import Journal
from jupyter_collaboration_mcp.backends.in_process.journal_records import UnsavedRoom
from jupyter_collaboration_mcp.backends.in_process.journals import open_journals
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

ROOM = RoomId("json:notebook:1")


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all " * 1000)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE people (name TEXT)")
        database.execute("INSERT INTO people VALUES ('Ana')")
        database.commit()


def other_columns(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rooms (number INTEGER)")


def later_version(path: Path) -> None:
    Journal(path).discard()
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 7")


def truncated(path: Path) -> None:
    Journal(path).discard()
    with path.open("r+b") as file:
        file.truncate(5000)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_text("kept")


async def usable(journal: Journal) -> bool:
    """Whether what is made durable can be read by the next start."""
    journal.mark(UnsavedRoom(ROOM, "a.ipynb", None, 0.0))
    journal.append(ROOM, b"an edit")
    await journal.durable()
    await journal.close()
    again = Journal(journal.path)
    try:
        return [update for _, update in again.records.updates(ROOM)] == [b"an edit"]
    finally:
        again.discard()


@pytest.mark.parametrize(
    "make", [garbage, foreign, other_columns, later_version, truncated, folder]
)
async def test_a_file_that_is_not_a_journal_is_set_aside_unchanged(
    tmp_path: Path, make: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal-0.db"
    make(path)
    before = path.read_bytes() if path.is_file() else None
    journal, held = open_journals(tmp_path)
    assert held == [journal]
    assert journal.weakness is None
    (aside,) = tmp_path.glob("set-aside-*-journal-0.db")
    assert before is None or aside.read_bytes() == before
    assert aside.is_file() or (aside / "inside").read_text() == "kept"
    (event,) = journal.events
    assert aside.name in event
    assert str(tmp_path) not in event  # agents read it
    assert event in caplog.text
    assert await usable(journal)
    _, (again,) = open_journals(tmp_path)
    assert again.events == []
    again.discard()


@pytest.mark.parametrize("make", [garbage, Path.touch])
async def test_the_write_ahead_log_is_set_aside_with_its_journal(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """SQLite would delete it, with the edits that it has."""
    path = tmp_path / "journal-0.db"
    make(path)
    path.with_name("journal-0.db-wal").write_bytes(b"its log")
    journal, _ = open_journals(tmp_path)
    (aside,) = tmp_path.glob("set-aside-*.db-wal")
    assert aside.read_bytes() == b"its log"
    assert await usable(journal)


async def test_two_journals_set_aside_in_the_same_second_are_both_kept(tmp_path: Path) -> None:
    for _ in range(2):
        garbage(tmp_path / "journal-0.db")
        journal, _ = open_journals(tmp_path)
        journal.discard()
    assert len(list(tmp_path.glob("set-aside-*.db"))) == 2


@pytest.mark.parametrize("place", ["ours", "ours/root"])
async def test_a_file_in_place_of_our_directory_is_set_aside(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("somebody's")
    journal, _ = open_journals(tmp_path / "ours" / "root", [tmp_path / "ours"])
    (aside,) = (tmp_path / place).parent.glob("set-aside-*")
    assert aside.read_text() == "somebody's"
    assert aside.name in journal.events[0]
    assert await usable(journal)


async def test_a_read_only_journal_is_still_used(tmp_path: Path) -> None:
    journal, _ = open_journals(tmp_path)
    assert await usable(journal)
    journal.path.chmod(0o400)
    journal, _ = open_journals(tmp_path)
    assert len(journal.records.unsaved()) == 1
    assert journal.events == []
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    journal.discard()


async def test_a_journal_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("somebody's")
    journal, held = open_journals(tmp_path / "file" / "root")
    assert held == []
    assert journal.weakness is not None
    assert journal.weakness in journal.events[0]
    assert str(tmp_path) not in journal.events[0]  # agents read it
    position = journal.append(ROOM, b"an edit")
    assert journal.append(ROOM, b"another") > position
    await journal.durable()  # nothing to wait for
    assert journal.commits._statements == []
    await journal.close()
    assert (tmp_path / "file").read_text() == "somebody's"


async def test_a_file_system_without_locks_has_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("jupyter_collaboration_mcp.backends.disk.locks.fcntl.flock", refuse)
    journal, _ = open_journals(tmp_path)
    assert "No locks" in str(journal.weakness)
    assert list(tmp_path.glob("*.db")) == []


async def test_a_journal_that_another_program_holds_is_left_alone(tmp_path: Path) -> None:
    open_journals(tmp_path)[0].discard()
    with closing(sqlite3.connect(tmp_path / "journal-0.db")) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        journal, held = open_journals(tmp_path)
        assert held == [journal]
        assert journal.path.name == "journal-1.db"
        assert "locked" in journal.events[0]
        assert list(tmp_path.glob("set-aside-*")) == []
        journal.discard()


async def test_a_full_disk_at_startup_is_reported_and_leaves_no_half_made_journal(
    tmp_path: Path,
) -> None:
    """As a limit on what a process may write, which is as real."""
    code = """
import resource, signal, sys
from pathlib import Path
from jupyter_collaboration_mcp.backends.in_process.journals import open_journals
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
journal, held = open_journals(Path(sys.argv[1]))
print(journal.weakness)
"""
    # Pipes: what it writes to a file counts as well.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(tmp_path), stdout=PIPE, stderr=PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    assert said.strip() not in (b"", b"None")
    assert list(tmp_path.glob("*.db")) == []


async def test_a_journal_is_created_as_soon_as_that_is_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_storage, "_RETRY", 0.0)
    (tmp_path / "file").write_text("in the way")
    journal, _ = open_journals(tmp_path / "file" / "root")
    journal.on_renewal.add(lambda: write_all(journal, b"all that is unsaved"))
    (tmp_path / "file").unlink()
    journal.append(ROOM, b"an edit")
    await until(lambda: journal.weakness is None)
    await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"all that is unsaved"]
    assert "kept again" in journal.events[-1]
    await journal.close()


async def write_all(journal: Journal, state: bytes) -> None:
    journal.replace(ROOM, state)


def delete_database(path: Path) -> None:
    path.unlink()


def delete_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


def delete_directory(path: Path) -> None:
    shutil.rmtree(path.parent)


def move_away(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace_by_garbage(path: Path) -> None:
    path.unlink()
    garbage(path)


def replace_by_foreign(path: Path) -> None:
    path.unlink()
    foreign(path)


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize(
    "damage",
    [
        delete_database,
        delete_log,
        delete_directory,
        move_away,
        replace_by_garbage,
        replace_by_foreign,
    ],
)
async def test_a_damaged_or_deleted_journal_is_replaced_before_anything_counts_as_durable(
    tmp_path: Path, damage: Callable[[Path], None], slow: bool
) -> None:
    """A new one has all that the rooms have before anybody is answered."""
    path = tmp_path / "root" / "journal-0.db"
    journal, _ = open_journals(path.parent)
    journal.on_renewal.add(lambda: write_all(journal, b"all that is unsaved"))
    journal.append(ROOM, b"first")
    await journal.durable()
    damage(path)
    journal.commits.slow_until = float("inf") if slow else 0.0
    journal.append(ROOM, b"second")
    await asyncio.gather(journal.durable(), journal.durable())
    assert journal.weakness is None
    assert "deleted or replaced" in journal.events[-1]
    journal.append(ROOM, b"third")
    await journal.durable()
    # What a start after a crash would find, without what this one would still do.
    copy = tmp_path / "copy"
    shutil.copytree(path.parent, copy)
    left = open_journals(copy)[1]
    (found,) = [updates for each in left if (updates := each.records.updates(ROOM))]
    assert [update for _, update in found] == [b"all that is unsaved", b"third"]
    for each in left:
        each.discard()
    await journal.close()


async def test_a_journal_that_is_corrupted_at_runtime_is_set_aside(tmp_path: Path) -> None:
    journal, _ = open_journals(tmp_path)
    journal.on_renewal.add(lambda: write_all(journal, b"all that is unsaved"))
    journal.append(ROOM, b"first")
    await journal.durable()
    journal.storage.tidy()  # all of it is in the database
    with journal.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 100_000)
    journal.storage.database.execute(
        "PRAGMA shrink_memory"
    )  # it does not remember what it has read
    journal.append(ROOM, b"second")
    await journal.durable()
    assert list(tmp_path.glob("set-aside-*-journal-0.db"))
    assert [update for _, update in journal.records.updates(ROOM)] == [b"all that is unsaved"]
    await journal.close()


async def test_a_deleted_journal_that_cannot_be_recreated_is_reported(tmp_path: Path) -> None:
    journal, _ = open_journals(tmp_path / "root")
    journal.append(ROOM, b"first")
    await journal.durable()
    shutil.rmtree(tmp_path / "root")
    (tmp_path / "root").write_text("in the way")
    journal.append(ROOM, b"second")
    await journal.durable()
    assert journal.weakness is not None
    assert "No journal" in journal.events[-1]
    await journal.close()


async def test_a_journal_abandoned_while_its_thread_uses_it_is_opened_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_storage, "_LARGEST_LOG", -1)
    journal, _ = open_journals(tmp_path)
    journal.append(ROOM, b"first")
    await journal.durable()
    tidy, tidying = journal.storage.tidy, threading.Event()

    def slow_tidy() -> None:
        tidying.set()
        ends = time.monotonic() + 0.2  # as long as the loop would take to give the file up
        while journal.storage._file is not None and time.monotonic() < ends:
            time.sleep(0.001)
        tidy()

    async def refuse() -> None:
        journal.storage.tidy = slow_tidy  # type: ignore[method-assign]
        journal.commits.sync_soon()
        await until(tidying.is_set)
        raise OSError("no rooms")

    journal.on_renewal.add(refuse)
    delete_database(journal.path)
    journal.append(ROOM, b"second")
    await journal.durable()
    assert journal.weakness == "no rooms"
    journal.on_renewal.clear()
    journal.storage._retry_at, journal.commits.slow_until = 0.0, float("inf")
    journal.append(ROOM, b"third")  # which brings the journal back
    await until(lambda: journal.weakness is None)
    journal.append(ROOM, b"fourth")
    async with asyncio.timeout(10):
        await journal.durable()
        await journal.close()
    assert "could not be synced" not in caplog.text


def test_a_journal_of_an_earlier_version_is_used_as_it_is(tmp_path: Path) -> None:
    """It had a table of agents and their edits, which the history does not need."""
    path = tmp_path / "journal-0.db"
    Journal(path).discard()
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP TABLE credits")
        database.execute(
            "CREATE TABLE attribution (document TEXT NOT NULL, client INTEGER NOT NULL, "
            "clock_from INTEGER NOT NULL, clock_to INTEGER NOT NULL, agent TEXT NOT NULL, "
            "call TEXT NOT NULL, time REAL NOT NULL)"
        )
        database.execute("INSERT INTO rooms VALUES (?, 'a.ipynb', NULL, 0)", (ROOM,))
        database.commit()
    journal = Journal(path)
    assert journal.events == []
    assert [unsaved.path for unsaved in journal.records.unsaved()] == ["a.ipynb"]
    journal.discard()
