"""The journal: durable when it says so, one commit for all, nothing missing after a fault."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.in_process.group_commit import JournalError
from jupyter_collaboration_mcp.backends.in_process.journal import Journal
from jupyter_collaboration_mcp.backends.in_process.journal_file import JournalFile
from jupyter_collaboration_mcp.backends.in_process.journal_records import UnsavedRoom
from jupyter_collaboration_mcp.backends.in_process.journals import open_journals
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

ROOM = RoomId("json:notebook:1")
OTHER = RoomId("json:notebook:other")


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    journal = Journal(tmp_path / "journal-0.db")
    yield journal
    await journal.close()


async def test_durable_updates_survive_a_kill(tmp_path: Path) -> None:
    code = """
import asyncio, os, signal, sys
from pathlib import Path
from jupyter_collaboration_mcp.backends.in_process.journal import Journal
from jupyter_collaboration_mcp.backends.in_process.journal_records import UnsavedRoom
async def main():
    room = sys.argv[2]
    journal = Journal(Path(sys.argv[1]))
    journal.mark(UnsavedRoom(room, "a.ipynb", "hash", 1.0))
    for number in range(10):
        journal.append(room, b"update %d" % number)
    await journal.durable()
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    path = tmp_path / "journal-0.db"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(path), ROOM)
    assert await process.wait() == -9
    journal = Journal(path)
    assert [update for _, update in journal.records.updates(ROOM)] == [
        b"update %d" % number for number in range(10)
    ]
    assert journal.records.unsaved() == [UnsavedRoom(ROOM, "a.ipynb", "hash", 1.0)]
    await journal.close()


async def test_concurrent_waiters_on_a_slow_disk_share_commits(journal: Journal) -> None:
    journal.commits.slow_until = time.monotonic() + 60
    commits = 0
    commit = journal.storage._commit

    def counted(statements: object) -> None:
        nonlocal commits
        commits += 1
        commit(statements)  # type: ignore[arg-type]

    journal.storage._commit = counted  # type: ignore[method-assign]

    async def write(number: int) -> None:
        journal.append(ROOM, b"%d" % number)
        await journal.durable()

    await asyncio.gather(*(write(number) for number in range(100)))
    assert len(journal.records.updates(ROOM)) == 100
    assert commits <= 5


@pytest.mark.parametrize("slow", [False, True])
async def test_a_full_disk_is_reported_and_everything_is_kept_once_there_is_space(
    journal: Journal, slow: bool
) -> None:
    journal.commits.slow_until = time.monotonic() + 60 * slow
    journal.append(ROOM, b"before")
    await journal.durable()
    (pages,) = journal.storage.database.execute("PRAGMA page_count").fetchone()
    journal.storage.database.execute(f"PRAGMA max_page_count = {pages + 2}")
    journal.append(ROOM, b"x" * 100_000)
    with pytest.raises(JournalError, match="full"):
        await journal.durable()
    journal.storage.database.execute("PRAGMA max_page_count = 1000000")
    journal.append(ROOM, b"after")
    await journal.durable()
    assert [update[:6] for _, update in journal.records.updates(ROOM)] == [
        b"before",
        b"xxxxxx",
        b"after",
    ]


@pytest.mark.parametrize("slow", [False, True])
async def test_an_unexpected_failure_is_reported_and_the_next_commit_includes_everything(
    journal: Journal, slow: bool
) -> None:
    journal.commits.slow_until = time.monotonic() + 60 * slow
    commit = journal.storage._commit

    def fail(statements: object) -> None:
        raise RuntimeError("unexpected")

    journal.storage._commit = fail  # type: ignore[method-assign]
    journal.append(ROOM, b"before")
    async with asyncio.timeout(10):
        with pytest.raises(JournalError, match="unexpected"):
            await journal.durable()
        journal.storage._commit = commit  # type: ignore[method-assign]
        journal.append(ROOM, b"after")
        await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"before", b"after"]


@pytest.mark.parametrize("slow", [False, True])
async def test_text_that_utf8_cannot_encode_does_not_block_edits(
    journal: Journal, slow: bool
) -> None:
    journal.commits.slow_until = time.monotonic() + 60 * slow
    journal.mark(UnsavedRoom(ROOM, "\udcff.ipynb", None, 0.0))
    journal.append(ROOM, b"an edit")
    async with asyncio.timeout(10):
        await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"an edit"]
    assert journal.records.unsaved() == [UnsavedRoom(ROOM, "?.ipynb", None, 0.0)]


async def test_a_commit_that_cannot_be_encoded_is_rolled_back(tmp_path: Path) -> None:
    file = JournalFile(tmp_path / "journal-0.db", [])
    insert = "INSERT INTO notices VALUES (?, 'a.ipynb', 0, '')"
    with pytest.raises(UnicodeEncodeError):
        file.commit([(insert, ["first"]), (insert, ["\ud800"])])
    file.commit([(insert, ["second"])])
    assert file.database.execute("SELECT room FROM notices").fetchall() == [("second",)]
    file.close()


async def test_trimmed_replaced_and_forgotten_updates_are_gone(journal: Journal) -> None:
    journal.mark(UnsavedRoom(ROOM, "a.ipynb", None, 0.0))
    positions = [journal.append(ROOM, b"%d" % number) for number in range(5)]
    assert positions == [1, 2, 3, 4, 5]
    journal.append(OTHER, b"kept")
    journal.trim(ROOM, positions[2])
    await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"3", b"4"]
    journal.replace(ROOM, b"whole")
    await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"whole"]
    journal.forget(ROOM)
    await journal.durable()
    assert journal.records.updates(ROOM) == []
    assert journal.records.unsaved() == []
    assert len(journal.records.updates(OTHER)) == 1


async def test_a_marker_is_replaced_not_duplicated(journal: Journal) -> None:
    journal.mark(UnsavedRoom(ROOM, "a.ipynb", None, 0.0))
    journal.mark(UnsavedRoom(ROOM, "b.ipynb", "hash", 1.0))
    await journal.durable()
    assert journal.records.unsaved() == [UnsavedRoom(ROOM, "b.ipynb", "hash", 1.0)]


async def test_updates_that_nobody_waits_for_are_kept_too(journal: Journal) -> None:
    journal.append(ROOM, b"typed by a person")
    await until(lambda: journal.records.updates(ROOM))


async def test_a_large_update_is_left_to_the_thread(journal: Journal) -> None:
    journal.append(ROOM, b"x" * 1_000_000)
    journal.append(ROOM, b"y")
    waiting = asyncio.ensure_future(journal.durable())
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting
    assert [len(update) for _, update in journal.records.updates(ROOM)] == [1_000_000, 1]


async def test_the_log_stays_small(journal: Journal) -> None:
    for number in range(300):
        journal.append(ROOM, b"%d" % number * 5_000)
        journal.trim(ROOM, number)
        await journal.durable()
        await asyncio.sleep(0)
    await until(lambda: journal.storage.size < 12_000_000)


async def test_rooms_that_cannot_be_recovered_are_all_kept(journal: Journal) -> None:
    for number in (1, 2):
        journal.mark(UnsavedRoom(RoomId(f"json:notebook:{number}"), "a.ipynb", None, 0.0))
        journal.append(RoomId(f"json:notebook:{number}"), b"of room %d" % number)
    await journal.durable()
    kept = [journal.records.keep_aside(RoomId(f"json:notebook:{number}")) for number in (1, 2)]
    assert journal.records.unsaved() == []
    for number, path in enumerate(kept, start=1):
        with closing(sqlite3.connect(path)) as database:
            query = "SELECT yupdate FROM updates WHERE room = ?"
            (update,) = database.execute(query, (f"json:notebook:{number}",)).fetchone()
        assert update == b"of room %d" % number


async def test_only_the_owner_can_read_the_journal(journal: Journal) -> None:
    kept = journal.records.keep_aside(RoomId("json:notebook:1"))
    for path in (journal.path, kept):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_journal_of_a_running_server_is_left_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from jupyter_collaboration_mcp.backends.in_process.journal import Journal;"
        "journal = Journal(Path(sys.argv[1])); print('ready', flush=True); sys.stdin.read()"
    )
    path = str(tmp_path / "journal-0.db")
    other = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout is not None
    try:
        assert await other.stdout.readline() == b"ready\n"
        mine, held = open_journals(tmp_path)
        assert mine.path.name == "journal-1.db"
        assert held == [mine]
    finally:
        await other.communicate(b"")
    await mine.close()
    mine, held = open_journals(tmp_path)
    assert [journal.path.name for journal in held] == ["journal-0.db", "journal-1.db"]
    assert mine is held[0]
    for journal in held:
        await journal.close()


async def test_an_edit_in_slices_is_there_for_recovery_until_it_is_settled(
    journal: Journal, tmp_path: Path
) -> None:
    journal.mark(UnsavedRoom(ROOM, "a.ipynb", "hash", 1.0))
    journal.append(ROOM, b"before")
    edit, other = journal.pend(ROOM, [b"one", b"two"]), journal.pend(OTHER, [b"elsewhere"])
    journal.append(ROOM, b"one")
    await journal.durable()
    updates = [update for _, update in journal.records.updates(ROOM)]
    assert updates == [b"before", b"one", b"one", b"two"]
    assert edit != other
    journal.settle(edit)
    await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"before", b"one"]
    # The other room was not marked: nothing of that edit has reached anybody.
    assert [update for _, update in journal.records.updates(OTHER)] == [b"elsewhere"]
    journal.records.forget_unbegun()
    assert journal.records.updates(OTHER) == []


async def test_edits_in_slices_have_other_numbers_than_those_before_a_restart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal-0.db"
    numbers = []
    for _ in range(3):
        journal = Journal(path)
        numbers.append(journal.pend(ROOM, [b"one", b"two"]))
        await journal.close()
    assert numbers == [1, 2, 3]
