"""The file of a journal: when it is replaced, what is reported, and that it is always closed."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.in_process import journal_storage
from jupyter_collaboration_mcp.backends.in_process.journal_file import JournalFile, Vanished
from jupyter_collaboration_mcp.backends.in_process.journal_storage import JournalStorage, _any_file

pytestmark = pytest.mark.anyio

NOTICE = ("INSERT INTO notices VALUES ('room', '', 0, '')", ())


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[JournalStorage]:
    storage = JournalStorage(tmp_path / "ours" / "root" / "journal-0.db", "not yet")
    storage.path.parent.mkdir(parents=True)
    storage.set_aside("")  # which opens it
    storage.events.clear()
    yield storage
    storage.close()


def is_closed(database: sqlite3.Connection) -> bool:
    try:
        database.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def rows(storage: JournalStorage, table: str) -> int:
    (count,) = storage.database.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def test_storage_has_a_size_while_its_file_is_open(storage: JournalStorage) -> None:
    storage.commit([NOTICE])
    assert storage.size > 4096
    assert storage.is_sound
    storage.release()
    assert storage.size == 0
    assert not storage.is_sound


def test_a_commit_waits_for_the_lock_and_commit_now_does_not(
    storage: JournalStorage,
) -> None:
    assert storage.commit_now([NOTICE])
    with storage._lock:
        assert not storage.commit_now([NOTICE])
        waiting = threading.Thread(target=storage.commit, args=([NOTICE],))
        waiting.start()
        assert rows(storage, "notices") == 1
    waiting.join(10)
    assert rows(storage, "notices") == 2


def test_the_number_of_events_is_limited(storage: JournalStorage) -> None:
    for number in range(25):
        storage.report(str(number))
    assert storage.events == [str(number) for number in range(20)]


@pytest.mark.parametrize(("limit", "tidied"), [(-1, True), (1 << 40, False)])
def test_a_large_log_is_checkpointed_into_the_database(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch, limit: int, tidied: bool
) -> None:
    monkeypatch.setattr(journal_storage, "_LARGEST_LOG", limit)
    storage.commit([NOTICE])
    storage.sync()
    log = storage.path.with_name("journal-0.db-wal")
    assert (log.stat().st_size == 0) is tidied


def test_a_log_of_exactly_the_limit_is_not_checkpointed(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.commit([NOTICE])
    log = storage.path.with_name("journal-0.db-wal")
    monkeypatch.setattr(journal_storage, "_LARGEST_LOG", log.stat().st_size)
    storage.sync()
    assert log.stat().st_size > 0


def test_sync_does_nothing_without_a_log_or_a_file(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_storage, "_LARGEST_LOG", -1)
    storage.commit([NOTICE])
    log = storage.path.with_name("journal-0.db-wal")
    storage.release()
    storage.sync()
    log.touch()  # left by somebody
    storage.sync()


def test_the_oldest_credits_are_dropped(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_storage, "_CREDITS", 2)
    insert = "INSERT INTO credits VALUES ('', 0, ?, 0, '', '', '', '', '', 0)"
    storage.commit([(insert, (number,)) for number in range(5)])
    storage.tidy()
    query = "SELECT clock_from FROM credits ORDER BY rowid"
    assert storage.database.execute(query).fetchall() == [(3,), (4,)]


def test_storage_is_lost_only_by_errors_of_its_own_open_file(storage: JournalStorage) -> None:
    storage.commit([NOTICE])
    assert not storage.is_lost(sqlite3.OperationalError("full"))
    assert not storage.is_lost(OSError("no database has to do with it"))
    assert storage.is_lost(sqlite3.DatabaseError("malformed"))
    shutil.rmtree(storage.path.parent)
    assert storage.is_lost(sqlite3.OperationalError("disk I/O error"))
    assert not storage.is_lost(OSError("no database has to do with it"))
    storage.release()
    assert not storage.is_lost(sqlite3.DatabaseError("malformed"))


def test_an_unavailable_journal_is_retried_later(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    storage.release()
    storage.give_up("no disk")
    storage.give_up("no disk at all")
    assert storage.weakness == "no disk at all"
    (event,) = storage.events
    assert "(no disk)" in event
    assert not storage.should_retry()
    now += 30
    assert not storage.should_retry()
    now += 0.1
    assert storage.should_retry()
    assert not storage.should_retry()
    now += 30.1
    assert storage.should_retry()


async def test_a_deleted_file_is_replaced_and_reported(storage: JournalStorage) -> None:
    shutil.rmtree(storage.path.parent.parent)
    await storage.renew(Vanished("it is gone"))
    (event,) = storage.events
    assert "deleted or replaced" in event
    assert stat.S_IMODE(storage.path.parent.stat().st_mode) == 0o700
    storage.commit([NOTICE])
    assert rows(storage, "notices") == 1


async def test_a_corrupt_file_is_set_aside_and_not_reported_as_deleted(
    storage: JournalStorage,
) -> None:
    storage.commit([NOTICE])
    await storage.renew(sqlite3.DatabaseError("malformed"))
    (event,) = storage.events
    assert "(malformed)" in event
    assert list(storage.path.parent.glob("set-aside-*-journal-0.db"))
    assert rows(storage, "notices") == 0


async def test_renewing_without_a_file_sets_nothing_aside(storage: JournalStorage) -> None:
    storage.commit([NOTICE])
    storage.release()
    storage.give_up("no disk")
    await storage.renew(None)
    assert storage.weakness is None
    assert [event.partition(" (")[0] for event in storage.events] == [
        "No journal of unsaved edits can be kept",
        "A journal of unsaved edits is kept again.",
    ]
    assert rows(storage, "notices") == 1


async def test_a_replacement_that_fails_at_once_is_not_replaced_again(
    storage: JournalStorage,
) -> None:
    error = sqlite3.DatabaseError("malformed")
    await storage.renew(error)
    with pytest.raises(sqlite3.DatabaseError, match="malformed"):
        await storage.renew(error)
    await storage.renew(None)  # as a retry does
    storage.commit([NOTICE])
    await storage.renew(error)  # it has helped for a while


async def test_update_numbers_are_never_reused(storage: JournalStorage) -> None:
    storage.last = 7
    shutil.rmtree(storage.path.parent)
    await storage.renew(Vanished("it is gone"))
    assert storage.last == 7
    storage.commit([("INSERT INTO updates VALUES (9, 'room', 0, x'')", ())])
    await storage.renew(None)
    assert storage.last == 9


async def test_a_file_is_closed_before_another_one_is_opened(storage: JournalStorage) -> None:
    before = storage.database
    await storage.renew(None)
    assert is_closed(before)
    now = storage.database
    storage.close()
    assert is_closed(now)
    storage.close()


async def test_a_file_opened_during_shutdown_is_closed(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[JournalFile] = []

    def open_slowly(path: Path, said: list[str], unsound: str | None) -> JournalFile:
        opened.append(_any_file(path, said, unsound))
        storage.close()  # from the loop, meanwhile
        assert not is_closed(opened[0].database)
        return opened[0]

    monkeypatch.setattr(journal_storage, "_any_file", open_slowly)
    await storage.renew(None)
    assert is_closed(opened[0].database)


def test_a_journal_that_cannot_be_replaced_at_startup_is_abandoned(
    storage: JournalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = storage.database

    def refuse(*_: object) -> JournalFile:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(journal_storage, "_any_file", refuse)
    storage.set_aside("a part of it cannot be read")
    assert storage.weakness == "Read-only file system"
    assert is_closed(database)


def test_a_journal_in_use_makes_another_name_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "journal-0.db"
    first = JournalFile(path, [])
    (tmp_path / "journal-1.db").touch()
    second = _any_file(path, [], None)
    assert second.path == tmp_path / "journal-2.db"
    for file in (first, second):
        file.close()


def test_a_locked_name_is_skipped_even_without_a_file(tmp_path: Path) -> None:
    path = tmp_path / "journal-0.db"
    held = [JournalFile(tmp_path / f"journal-{number}.db", []) for number in range(2)]
    (tmp_path / "journal-1.db").unlink()  # its lock is still held
    third = _any_file(path, [], None)
    assert third.path == tmp_path / "journal-2.db"
    for file in (*held, third):
        file.close()


def test_a_lock_on_the_first_name_without_a_file_is_an_error(tmp_path: Path) -> None:
    held = JournalFile(tmp_path / "journal-0.db", [])
    (tmp_path / "journal-0.db").unlink()
    with pytest.raises(BlockingIOError):
        _any_file(tmp_path / "journal-0.db", [], None)
    held.close()


def test_running_out_of_names_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_storage, "MOST", 2)
    held = [JournalFile(tmp_path / f"journal-{number}.db", []) for number in range(2)]
    with pytest.raises(FileExistsError, match="all names are taken"):
        _any_file(tmp_path / "journal-0.db", [], None)
    for file in held:
        file.close()
