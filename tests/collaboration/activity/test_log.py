"""The activity log keeps what happened, and nothing that is wrong with its file gets in the way."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.disk import database_file
from jupyter_collaboration_mcp.collaboration.activity.activity import Activity
from jupyter_collaboration_mcp.collaboration.activity.log import ActivityLog
from jupyter_collaboration_mcp.documents.members import Member, agent_username

pytestmark = pytest.mark.anyio

ANA = Member("ana", "Ana")
ADA = Member.agent("Ada <token>", "Ada")


def did(who: Member = ANA, kind: str = "edit", file_id: str = "f", **more: Any) -> Activity:
    return Activity.of(kind, who, f"{who.name} did it", path="a.ipynb", file_id=file_id, **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "activity.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[ActivityLog]:
    log = ActivityLog(path, 1000)
    yield log
    await log.close()


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_what_was_recorded_is_found_again_by_another_process(
    log: ActivityLog, path: Path
) -> None:
    edit = did(cells=["a", "b"], added=3)
    log.record(edit)
    log.record(did(ADA, "read", at=edit.time + 1))
    await log.close()
    again = ActivityLog(path, 1000)
    read, found = await again.recent()
    assert found == edit
    assert (read.actor, read.actor_id, read.agent) == ("Ada", agent_username("Ada <token>"), True)
    assert path.stat().st_mode & 0o777 == 0o600
    await again.close()


async def test_activities_are_found_by_document_time_kind_and_actor(log: ActivityLog) -> None:
    moments = [did(at=at, file_id=f) for at, f in ((1, "f"), (2, "g"), (3, "f"), (4, "f"))]
    for each in (*moments, did(ADA, "run", at=5), did(ADA, "join", at=6)):
        log.record(each)
    assert [each.time for each in await log.since("f", 1)] == [3, 4, 5, 6]
    assert [each.time for each in await log.since("f", 1, ADA.id)] == [3, 4]
    assert [each.time for each in await log.since("f", 1, until=5, kinds=["run"])] == [5]
    assert [each.time for each in await log.since("f", 0, limit=2)] == [5, 6]
    assert [each.time for each in await log.recent(file_id="g")] == [2]
    assert [each.time for each in await log.recent("a.ipynb", limit=2)] == [6, 5]
    assert [each.time for each in await log.recent(actor_id=ANA.id, kinds=["edit"])] == [4, 3, 2, 1]
    last = await log.last_of(ADA.id, "f", ["run", "join"])
    assert last is not None
    assert last.kind == "join"
    assert await log.last_of(ADA.id, "f") is None  # it has not looked
    assert await log.used_by_agents("f")
    assert not await log.used_by_agents("g")


async def test_the_oldest_activities_are_dropped(path: Path) -> None:
    log = ActivityLog(path, 10)
    for at in range(35):
        log.record(did(at=at))
    assert [each.time for each in await log.recent()] == list(range(34, 24, -1))
    await log.close()


async def test_an_activity_that_goes_on_is_one_entry(log: ActivityLog) -> None:
    told: list[Activity] = []
    log.on_record(told.append)
    log.draft(did(activity_id="1", at=1, cells=["a"]))
    await log.flush()
    log.record(did(activity_id="1", at=2, cells=["a", "b"]))
    (only,) = await log.recent()
    assert (only.time, only.cells) == (2, ("a", "b"))
    await asyncio.sleep(0)
    assert [each.time for each in told] == [2]


async def test_an_entry_is_bounded(log: ActivityLog) -> None:
    cells = [f"cell-{number}" for number in range(10_000)]
    log.record(Activity.of("edit", Member("x" * 9999, "y" * 9999), "z\n" * 9999, cells=cells))
    (only,) = await log.recent()
    assert (len(only.cells), only.cell_count) == (20, 10_000)
    assert max(map(len, (only.actor, only.actor_id, only.description))) <= 300
    assert "\n" not in only.description


async def test_a_limit_of_0_records_nothing(path: Path) -> None:
    log = ActivityLog(path, 0)
    log.record(did())
    assert await log.recent() == []
    assert await log.since("f", 0) == []
    await log.flush()
    await log.close()
    assert not path.parent.exists()


async def test_followers_get_each_activity_and_may_fail(log: ActivityLog) -> None:
    told: list[str] = []

    def fail(activity: Activity) -> None:
        raise RuntimeError("a follower's own fault")

    log.on_record(fail)
    end = log.on_record(lambda activity: told.append(activity.kind))
    log.record(did(kind="fork"))
    await asyncio.sleep(0)
    end()
    log.record(did(kind="broadcast"))
    await asyncio.sleep(0)
    assert told == ["fork"]
    assert len(await log.recent()) == 2


async def test_two_processes_may_write_one_file_at_once(log: ActivityLog, path: Path) -> None:
    other = ActivityLog(path, 1000)
    for number in range(100):
        log.record(did(at=number))
        other.record(did(at=number))
        if number % 10 == 0:
            await asyncio.gather(log.flush(), other.flush())
    await asyncio.gather(log.flush(), other.flush())
    assert len(await log.recent(limit=1000)) == len(await other.recent(limit=1000)) == 200
    await other.close()


@pytest.mark.parametrize("content", ["text", "damaged", "other"])
async def test_a_file_that_is_no_log_is_set_aside(
    path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    if content == "text":
        path.write_text("No database. " * 1000)
    elif content == "other":
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE activity (somebody TEXT)")
    else:
        before = ActivityLog(path, 1000)
        for _ in range(100):
            before.record(did())
        await before.close()
        whole = path.read_bytes()
        path.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    log = ActivityLog(path, 1000)
    log.record(did())
    assert len(await log.recent()) == 1
    await log.close()
    assert len(list(path.parent.glob("set-aside-*-activity.db"))) == 1
    (warning,) = warnings_in(caplog)
    assert "set aside" in warning


async def test_a_folder_that_cannot_be_made_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").write_text("a file")
    log = ActivityLog(tmp_path / "folder" / "activity.db", 1000)
    for _ in range(5):
        log.record(did(at=1))
        assert await log.recent() == []
    (warning,) = warnings_in(caplog)
    assert "not recorded for now" in warning
    # Once there is room for it, nothing of this is lost.
    (tmp_path / "folder").unlink()
    assert log._storage is not None
    monkeypatch.setattr(log._storage._file, "_retry_at", 0.0)
    log.record(did(at=2))
    assert [each.time for each in await log.recent()] == [2, 1, 1, 1, 1, 1]
    await log.close()


async def test_what_cannot_be_written_while_the_file_is_locked_is_written_later(
    log: ActivityLog,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(database_file, "_BUSY", 0.01)
    log.record(did(at=1))
    await log.flush()
    assert log._storage is not None
    log._storage.close()  # so that it is opened with the shorter limit
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        log.record(did(at=2))
        await log.flush()
        assert [each.time for each in await log.recent()] == [1]
        other.execute("ROLLBACK")
    log.record(did(at=3))
    assert [each.time for each in await log.recent()] == [3, 2, 1]
    assert len(warnings_in(caplog)) == 1


async def test_a_file_that_is_deleted_is_begun_again(log: ActivityLog, path: Path) -> None:
    log.record(did(at=1))
    await log.flush()
    for file in path.parent.iterdir():
        file.unlink()
    log.record(did(at=2))
    assert [each.time for each in await log.recent()] == [2]


async def test_odd_names_are_kept_and_what_is_no_json_is_left_out(
    log: ActivityLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.record(did(Member("id", "Zoë 👩🏽‍💻")))
    log.record(did(Member("half", "\ud83d half a pair"), cells=["\ud83d"]))
    endless: list[Any] = []
    endless.append(endless)
    log.record(did(endless=endless))
    log.record(did(last=True))
    names = sorted(each.actor for each in await log.recent())
    assert names == ["? half a pair", "Ana", "Zoë 👩🏽‍💻"]
    assert len(warnings_in(caplog)) == 1


async def test_a_closed_log_is_closed(log: ActivityLog, path: Path) -> None:
    log.record(did())
    await log.close()
    await log.close()
    log.record(did())
    assert await log.recent() == []
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM activity").fetchone() == (1,)
