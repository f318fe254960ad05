"""What people do in a room is summed up: who, which cells, how much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.collaboration import room_activity
from jupyter_collaboration_mcp.collaboration.activity.activity import Activity
from jupyter_collaboration_mcp.collaboration.activity.log import ActivityLog
from jupyter_collaboration_mcp.collaboration.change_log import REAPPLIED
from jupyter_collaboration_mcp.collaboration.room_activity import RoomActivity
from jupyter_collaboration_mcp.documents.members import agent_username
from tests.harness.memory_room import MemoryRoom
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


def person(username: str, name: str = "Ana") -> Mapping[str, Any]:
    return {"user": {"username": username, "display_name": name}}


class Watched:
    """A room with people in it, of which everything is recorded."""

    def __init__(self, log: ActivityLog, cells: int = 3) -> None:
        self.room = MemoryRoom([f"source {number}" for number in range(cells)])
        self.log = log
        self.here({self.room.doc.client_id: person("ana")})
        self.activity = RoomActivity(log, self.room.peer)

    def here(self, states: Mapping[int, Mapping[str, Any]]) -> None:
        """Set who is here."""
        self.room.link.states = states
        self.room.peer._meet()

    async def recorded(self) -> list[Activity]:
        await self.room.peer.catch_up()
        self.activity.finish()
        return (await self.log.recent())[::-1]


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[ActivityLog]:
    log = ActivityLog(tmp_path / "activity.db", 1000)
    yield log
    await log.close()


@pytest.fixture
def watched(log: ActivityLog) -> Watched:
    return Watched(log)


async def test_many_key_presses_are_one_entry(watched: Watched) -> None:
    for character in "abc😀":
        with watched.room.doc.transaction():
            source = watched.room.notebook.source(1)
            watched.room.notebook.set_source(1, source + character)
        await watched.room.peer.catch_up()
    (edit,) = await watched.recorded()
    assert (edit.kind, edit.actor, edit.actor_id, edit.agent) == ("edit", "Ana", "ana", False)
    assert (edit.cells, edit.cell_count) == (("cell-1",), 1)
    assert edit.description == "Ana changed 1 cell (+4 -0 characters)"
    assert edit.path == "memory.ipynb"


async def test_an_edit_of_thousands_of_cells_is_one_bounded_entry(log: ActivityLog) -> None:
    watched = Watched(log, 2_000)
    with watched.room.doc.transaction():
        for index in range(2_000):
            watched.room.notebook.set_source(index, "")
    (edit,) = await watched.recorded()
    assert (len(edit.cells), edit.cell_count) == (20, 2_000)
    assert len(edit.metadata["changes"]["edited"]) == 20


async def test_people_with_the_same_name_are_two(watched: Watched) -> None:
    notebook, doc = watched.room.notebook, watched.room.doc
    notebook.set_source(0, "x")
    await watched.room.peer.catch_up()
    watched.here({doc.client_id: person("other")})
    notebook.set_source(1, "y")
    edits = [each for each in await watched.recorded() if each.kind == "edit"]
    assert {(each.actor, each.actor_id) for each in edits} == {("Ana", "ana"), ("Ana", "other")}
    assert [each.cells for each in edits] == [("cell-0",), ("cell-1",)]


async def test_what_agents_write_or_is_reapplied_is_not_a_persons(watched: Watched) -> None:
    peer = watched.room.peer
    with peer.edit(watched.room.seat(), "test"):
        peer.notebook.set_source(0, "by an agent")
    peer._replica.author = REAPPLIED
    with peer._replica.transaction("reapply"):
        peer.notebook.set_source(1, "reapplied")
    assert await watched.recorded() == []


async def test_an_edit_is_its_authors_although_they_have_left(watched: Watched) -> None:
    with watched.room.doc.transaction():
        watched.room.notebook.set_source(0, "the last thing")
    watched.here({})
    assert [each.actor for each in await watched.recorded()] == ["Ana"]


@pytest.mark.parametrize(
    ("others", "actor"),
    [
        ({}, "Ana"),
        ({7: person(agent_username("Ada <test>"), "Ada")}, "Ana"),  # an agent of our own
        ({7: person("yuri", "Yuri")}, ""),
        ({7: person("agent-0123456789abcdef", "Another (agent)")}, ""),
        ({7: person("ana")}, "Ana"),  # another tab
    ],
)
async def test_a_deletion_is_that_of_the_only_person_who_can_have_made_it(
    watched: Watched, others: Mapping[int, Mapping[str, Any]], actor: str
) -> None:
    watched.room.peer.seat(watched.room.seat())
    watched.here({watched.room.doc.client_id: person("ana"), **others})
    watched.room.notebook.delete([1])
    await watched.room.peer.catch_up()
    (edit,) = [each for each in await watched.recorded() if each.kind == "edit"]
    assert (edit.actor, edit.metadata["changes"]) == (actor, {"deleted": ["cell-1"]})


async def test_what_is_not_over_survives_a_kill(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_activity, "_LOOK", 0.01)
    watched.room.notebook.set_source(0, "x")
    await watched.room.peer.catch_up()
    async with asyncio.timeout(20):
        while not await watched.log.recent():
            await asyncio.sleep(0.01)
    watched.activity.close()
    assert len(await watched.log.recent()) == 1


async def test_a_pause_ends_an_entry(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Activity] = []
    watched.log.on_record(told.append)
    monkeypatch.setattr(room_activity, "_LOOK", 0.01)
    monkeypatch.setattr(room_activity, "_PAUSE", 0.02)
    for index in (0, 1):
        watched.room.notebook.set_source(index, "x")
        await watched.room.peer.catch_up()
        await until(lambda: len(told) == index + 1)  # noqa: B023
    assert [each.cells for each in told] == [("cell-0",), ("cell-1",)]
    assert told[0].id != told[1].id


async def test_a_tab_that_reloads_neither_leaves_nor_joins(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Activity] = []
    watched.log.on_record(told.append)
    watched.here({})
    watched.here({8: person("ana")})
    watched.here({8: person("ana"), 9: person("yuri", "Yuri")})
    monkeypatch.setattr(room_activity, "_GRACE", 0.0)
    watched.here({8: person("ana")})
    await until(lambda: len(told) == 2)
    assert [(each.kind, each.actor) for each in told] == [("join", "Yuri"), ("leave", "Yuri")]
    watched.activity.close()


async def test_what_an_agent_has_seen_is_another_entry_than_what_comes_later(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room_activity, "_SEEN", 0.0)
    seat = watched.room.seat()
    seat.seen = watched.room.peer.version
    watched.room.peer.seat(seat)
    for index in (0, 1):
        with watched.room.doc.transaction():
            watched.room.notebook.set_source(index, "x")
        await watched.room.peer.catch_up()
        news = watched.room.peer.news(seat)
        assert (
            news == f"Since you last looked, others changed by Ana: [{index}] cell-{index} edited."
        )
    edits = await watched.recorded()
    assert [each.cells for each in edits] == [("cell-0",), ("cell-1",)]
    assert await watched.log.since("memory", seat.seen) == []


async def test_a_failure_to_record_does_not_break_the_room(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched.activity, "_collect", None)
    with watched.room.doc.transaction():
        watched.room.notebook.set_source(0, "x")
    await watched.room.peer.catch_up()
    assert watched.room.peer.notebook.source(0) == "x"
    assert not watched.room.peer.broken
    assert "could not be recorded" in caplog.text
