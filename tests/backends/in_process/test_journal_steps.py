"""Undo steps in a journal: with their edits, within limits, and never in anybody's way."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.in_process import journal_steps, steps_table
from jupyter_collaboration_mcp.backends.in_process.journal import Journal
from jupyter_collaboration_mcp.backends.in_process.journal_file import JournalFile, Statement
from jupyter_collaboration_mcp.backends.in_process.steps_folder import StepsFolder
from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.protocols.steps import Lazy, StepLimits, Steps, StoredStep
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

ROOM, OTHER = RoomId("json:notebook:1"), RoomId("text:file:2")
ADA, BOB = "Ada <1>", "Bob <1>"


def step(number: int, agent: str = ADA, characters: int = 1) -> StoredStep:
    return StoredStep(f"c-{number}", agent, number, "tool", characters, b"%d" % number)


async def ids(steps: Steps, room: RoomId = ROOM, agent: str = ADA) -> list[str]:
    return [each.id for each in await steps.of(room, agent)]


def add(steps: Steps, room: RoomId, *kept: StoredStep) -> None:
    for each in kept:
        steps.add(room, each)


#: The tables of a journal that an earlier version of this package has left.
FORMER = """
CREATE TABLE updates (
    seq INTEGER PRIMARY KEY, room TEXT NOT NULL, time REAL NOT NULL, yupdate BLOB NOT NULL
);
CREATE INDEX updates_by_room ON updates (room, seq);
CREATE TABLE steps (
    id TEXT PRIMARY KEY, room TEXT NOT NULL, agent TEXT NOT NULL, version INTEGER NOT NULL,
    call TEXT NOT NULL, characters INTEGER NOT NULL, changes BLOB NOT NULL
);
CREATE INDEX steps_by_agent ON steps (room, agent, version, characters);
"""


@pytest.fixture(params=["new", "of an earlier version"])
async def journal(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Journal]:
    if request.param != "new":
        with closing(sqlite3.connect(tmp_path / "journal-0.db")) as database:
            database.executescript(FORMER)
    journal = Journal(tmp_path / "journal-0.db")
    own = "SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    assert journal.storage.read(own) == []  # each would cost each edit time
    yield journal
    await journal.close()


async def test_steps_come_back_as_they_were_and_in_order(journal: Journal) -> None:
    kept = [step(1), step(2), step(3, BOB)]
    add(journal.steps, ROOM, *kept)
    journal.steps.add(OTHER, step(4))
    assert await journal.steps.of(ROOM, ADA) == kept[:2]
    assert await journal.steps.of(ROOM, BOB) == kept[2:]
    assert sorted(await journal.steps.agents(ROOM)) == [ADA, BOB]
    journal.steps.remove(["c-1", "c-9"])
    assert await ids(journal.steps) == ["c-2"]
    journal.steps.forget(ROOM)
    assert await journal.steps.agents(ROOM) == []
    assert await ids(journal.steps, OTHER) == ["c-4"]


async def test_a_step_is_in_the_commit_of_its_edit(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[list[str]] = []
    commit = journal.storage.commit_now

    def watch(statements: Iterable[Statement]) -> bool:
        commits.append([words for words, _ in statements])
        return commit(statements)

    monkeypatch.setattr(journal.storage, "commit_now", watch)
    journal.append(ROOM, b"update")
    journal.steps.add(ROOM, step(1))
    await journal.durable()
    journal.append(ROOM, b"undo")
    journal.steps.remove(["c-1"])
    await journal.durable()
    update = "INSERT OR REPLACE INTO updates VALUES (?, ?, ?, ?)"
    assert commits == [[update, steps_table.KEEP], [update, steps_table.REMOVE]]


def test_a_damaged_index_of_a_former_journal_keeps_nobody_from_its_edits(tmp_path: Path) -> None:
    path = tmp_path / "journal-0.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(FORMER)
        database.execute("INSERT INTO updates VALUES (1, 'room', 0, x'ff')")
        database.commit()
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'steps_by_agent'"
        (page,) = database.execute(query).fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as journal:
        journal.seek((page - 1) * size)
        journal.write(b"\xff" * size)
    said: list[str] = []
    with closing(JournalFile(path, said)) as file:
        assert file.database.execute("SELECT yupdate FROM updates").fetchall() == [(b"\xff",)]
    assert said == []


async def test_updates_are_forgotten_by_room_and_number(journal: Journal) -> None:
    first = journal.append(ROOM, b"1")
    journal.append(OTHER, b"2")
    journal.append(ROOM, b"3")
    journal.trim(ROOM, first)
    await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"3"]
    assert [update for _, update in journal.records.updates(OTHER)] == [b"2"]
    assert journal.storage.last == 3
    journal.replace(ROOM, b"state")
    await journal.durable()
    assert [update for _, update in journal.records.updates(ROOM)] == [b"state"]


async def test_saving_a_document_keeps_its_steps(journal: Journal) -> None:
    journal.append(ROOM, b"update")
    journal.steps.add(ROOM, step(1))
    journal.forget(ROOM)
    assert await ids(journal.steps) == ["c-1"]


async def test_a_large_step_is_made_in_the_thread(journal: Journal) -> None:
    made: list[str] = []

    def make() -> bytes:
        import threading

        made.append(threading.current_thread().name)
        return b"x" * 200_000

    journal.steps.add(ROOM, StoredStep("c-1", ADA, 1, "tool", 200_000, Lazy(make)))
    (kept,) = await journal.steps.of(ROOM, ADA)
    assert (made, kept.changes) == (["mcp-journal"], b"x" * 200_000)


async def test_no_more_is_read_than_an_agent_can_undo(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_steps, "StepLimits", lambda: StepLimits(3, 10))
    add(journal.steps, ROOM, *[step(n) for n in range(6)])
    assert await ids(journal.steps) == ["c-3", "c-4", "c-5"]
    add(journal.steps, ROOM, step(6, characters=9))
    assert await ids(journal.steps) == ["c-5", "c-6"]
    add(journal.steps, ROOM, step(7, characters=99))
    assert await ids(journal.steps) == ["c-7"]


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (StepLimits(2), {2, 3, 4, 5}),
        (StepLimits(characters=9), {2, 3, 4, 5}),
        (StepLimits(1), {3, 5}),
        (StepLimits(0, 0), {3, 5}),  # the latest one always stays
        (StepLimits(total_steps=3), {3, 4, 5}),
        (StepLimits(total_characters=13), {3, 4, 5}),
        (StepLimits(total_characters=0), {5}),
    ],
)
async def test_the_oldest_steps_are_dropped_beyond_the_limits(
    journal: Journal, limits: StepLimits, left: set[int]
) -> None:
    for number in range(6):
        agent = ADA if number < 4 else BOB
        journal.steps.add(ROOM, step(number, agent, 4))
    await journal.durable()
    steps_table.trim(journal.storage.database, limits)
    found = journal.storage.read("SELECT version FROM steps")
    assert {version for (version,) in found} == left


async def test_a_journal_keeps_its_limits_when_it_tidies_up(journal: Journal) -> None:
    add(journal.steps, ROOM, *[step(n) for n in range(201)])
    await journal.durable()
    journal.storage.tidy()
    assert journal.storage.read("SELECT min(version) FROM steps") == [(1,)]


async def test_steps_of_a_journal_that_is_gone_are_added_again(
    journal: Journal, tmp_path: Path
) -> None:
    async def add_again() -> None:
        add(journal.steps, ROOM, step(1), step(2))

    journal.steps.on_loss.add(add_again)
    journal.steps.add(ROOM, step(1))
    await journal.durable()
    for file in tmp_path.glob("journal-0.db*"):
        file.unlink()
    journal.steps.add(ROOM, step(2))
    await journal.durable()
    assert await ids(journal.steps) == ["c-1", "c-2"]


async def test_where_there_is_no_journal_there_are_no_steps(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal-0.db", "the disk is read-only")
    journal.steps.add(ROOM, step(1))
    assert await ids(journal.steps) == []
    other = Journal(tmp_path / "journal-1.db")
    other.steps.add(ROOM, step(1))
    await other.durable()
    journal.steps.adopt(other.steps)
    assert await ids(other.steps) == ["c-1"]
    await other.close()


async def test_unreadable_steps_are_reported_and_nothing_more(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.storage.database.execute("DROP TABLE steps")
    assert await ids(journal.steps) == []
    assert "cannot be read: no such table: steps" in caplog.text


class TestStepsFolder:
    async def test_steps_outlive_the_process(self, tmp_path: Path) -> None:
        for number in range(2):
            folder = StepsFolder(tmp_path / "of-a-server")
            steps = await folder.opened()
            assert steps is await folder.opened()
            steps.add(ROOM, step(number))
            await folder.close()
        folder = StepsFolder(tmp_path / "of-a-server")
        assert await ids(await folder.opened()) == ["c-0", "c-1"]
        await folder.close()

    async def test_a_command_leaves_the_steps_of_another_alone_until_that_ends(
        self, tmp_path: Path
    ) -> None:
        one, two = StepsFolder(tmp_path), StepsFolder(tmp_path)
        first, second = await one.opened(), await two.opened()
        first.add(ROOM, step(1))
        second.add(ROOM, step(2))
        assert (await ids(first), await ids(second)) == (["c-1"], ["c-2"])
        await one.close()
        await two.close()
        later = StepsFolder(tmp_path)
        assert await ids(await later.opened()) == ["c-1", "c-2"]
        await later.close()
        with closing(sqlite3.connect(tmp_path / "journal-1.db")) as left:
            assert left.execute("SELECT count(*) FROM steps").fetchone() == (0,)

    async def test_closing_what_was_never_opened_creates_nothing(self, tmp_path: Path) -> None:
        await StepsFolder(tmp_path / "never").close()
        assert not (tmp_path / "never").exists()


async def test_a_commit_that_takes_long_does_not_hold_up_reading_for_ever(
    journal: Journal,
) -> None:
    # The thread commits; what is read comes after it.
    journal.commits.slow_until = float("inf")
    journal.steps.add(ROOM, step(1))
    assert await ids(journal.steps) == ["c-1"]
    await until(lambda: not journal.commits._held)
