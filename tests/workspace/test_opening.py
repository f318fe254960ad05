"""Documents are opened while others, which nobody is at any more, are left and forgotten."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.collaboration.activity.log import ActivityLog
from jupyter_collaboration_mcp.collaboration.changes import SourceChange, Step
from jupyter_collaboration_mcp.errors import RoomUnavailable
from jupyter_collaboration_mcp.workspace import open_rooms as module
from jupyter_collaboration_mcp.workspace import undo_steps
from jupyter_collaboration_mcp.workspace.agent import Agent
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.lobby import Attendance
from jupyter_collaboration_mcp.workspace.permissions import PathRules
from jupyter_collaboration_mcp.workspace.workspace import Workspace
from tests.harness.memory_room import MemoryLink, MemoryRoom
from tests.harness.permits import open_at
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

ADA = Agent("token", "Ada")
PATH = MemoryLink.path


class Link(MemoryLink):
    """Says when it is left, and that its server is away."""

    flushes = 0
    closed = False

    async def current(self) -> None:
        if not self.alive:
            raise RoomUnavailable("It is away.", "Try again.")

    async def flush(self) -> None:
        self.flushes += 1

    async def close(self) -> None:
        assert not self.closed, "left twice"
        self.closed = True
        self.alive = False


class Server:
    """A backend whose rooms are in memory."""

    def __init__(self) -> None:
        self.files = SimpleNamespace(
            forget=lambda _path: None, link_target=lambda path: path, is_gone=lambda _path: False
        )
        self.forks = SimpleNamespace()
        self.links: list[Link] = []
        self.away = False

    def path_of(self, file_id: str) -> str:
        return file_id

    def known_room(self, path: str, kind: str) -> RoomId:
        return RoomId(f"json:notebook:{path}")

    async def identify(self, path: str, kind: str) -> RoomId:
        return self.known_room(path, kind)

    async def join(self, room_id: RoomId) -> Link:
        await asyncio.sleep(0)
        if self.away:
            raise RoomUnavailable("It is away.", "Try again.")
        self.links.append(Link(MemoryRoom(["x"]).doc))
        self.links[-1].room_id = room_id
        return self.links[-1]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def workspace(server: Server) -> Workspace:
    backend: Any = server
    return Workspace(backend, PathRules((), ()), Limits(), 300.0, logging.getLogger())


async def test_a_document_is_not_closed_before_its_opener_is_seated(
    server: Server, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT", 0.0)  # looks for idle agents whenever it can
    await open_at(workspace, ADA, "first.ipynb")
    opened = await open_at(workspace, ADA, PATH)
    again = await open_at(workspace, ADA, PATH)
    assert again.peer is opened.peer
    assert [link.alive for link in server.links] == [True, True]
    await workspace.close()


async def test_a_document_with_unsaved_edits_stays_open_while_its_server_is_away(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes back after the idle time finds it made again, and is told."""
    monkeypatch.setattr(module, "_HEARTBEAT", 0.0)
    backend: Any = server
    workspace = Workspace(backend, PathRules((), ()), Limits(), 0.0, logging.getLogger())
    opened = await open_at(workspace, ADA, PATH)
    with opened.peer.edit(opened.seat, "test") as record:
        opened.peer.notebook.set_source(0, "x, edited")
        record(SourceChange("cell-0", "x", "x, edited"))
    server.away = True
    server.links[0].alive = False
    flushes = server.links[0].flushes
    await until(lambda: server.links[0].flushes > flushes + 3)  # it was about to be left
    server.away = False
    again = await open_at(workspace, ADA, PATH)
    assert again.peer.notebook.source(0) == "x, edited"
    notes = [*again.peer.notes, *again.seat.notes]
    assert ["reapplied" in note for note in notes] == [True]
    await workspace.close()


async def test_undelivered_notices_go_to_the_next_agent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT", 0.0)
    backend: Any = server
    workspace = Workspace(backend, PathRules((), ()), Limits(), 0.0, logging.getLogger())
    opened = await open_at(workspace, ADA, PATH)
    opened.peer.notes.append("Something happened.")
    await until(lambda: not server.links[0].alive)  # nobody is here, and all is saved
    again = await open_at(workspace, ADA, PATH)
    assert again.peer.notes == ["Something happened."]
    await workspace.close()


async def test_undelivered_notices_are_kept_for_the_most_recently_closed_documents(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT", 0.0)
    monkeypatch.setattr(module, "_UNSAID", 2)
    backend: Any = server
    workspace = Workspace(backend, PathRules((), ()), Limits(), 0.05, logging.getLogger())
    for path in ("a.ipynb", "b.ipynb", "c.ipynb"):
        (await open_at(workspace, ADA, path)).peer.notes.append(f"About {path}.")
        await until(lambda: not len(workspace.rooms))
    workspace.rooms.idle_timeout = 300.0
    opened = [await open_at(workspace, ADA, path) for path in ("c.ipynb", "b.ipynb", "a.ipynb")]
    assert [here.peer.notes for here in opened] == [["About c.ipynb."], ["About b.ipynb."], []]
    await workspace.close()


async def test_a_document_forgotten_while_opening_is_reopened(
    server: Server, workspace: Workspace
) -> None:
    forgetting: list[asyncio.Task[None]] = []

    async def forget_once(_peer: object) -> None:
        if not forgetting:  # it runs when the room is joined, before who waits for that goes on
            forgetting.append(asyncio.ensure_future(workspace.forget(PATH)))

    workspace.rooms.on_join = forget_once
    opened = await open_at(workspace, ADA, PATH)
    assert opened.peer.link.alive
    assert [link.alive for link in server.links] == [False, True]
    await workspace.close()


async def test_a_room_whose_setup_fails_is_left(server: Server, workspace: Workspace) -> None:
    async def fail(_peer: object) -> None:
        raise RoomUnavailable("It went away.", "Try again.")

    workspace.rooms.on_join = fail
    with pytest.raises(RoomUnavailable):
        await open_at(workspace, ADA, PATH)
    assert [link.alive for link in server.links] == [False]
    workspace.rooms.on_join = None
    assert (await open_at(workspace, ADA, PATH)).peer.link.alive
    await workspace.close()


@pytest.mark.parametrize("again", [False, True])
async def test_a_closed_document_is_freed_from_memory(
    server: Server, workspace: Workspace, again: bool
) -> None:
    """B28: neither if everybody has left it, nor if its room died and it was opened anew."""
    opened = await open_at(workspace, ADA, PATH)
    with opened.peer.edit(opened.seat, "test") as record:
        opened.peer.notebook.set_source(0, "x, edited")
        record(SourceChange("cell-0", "x", "x, edited"))
    peer = weakref.ref(opened.peer)
    document = weakref.ref(opened.peer.document)
    del opened, record
    if again:
        server.links[0].alive = False
        notebook = (await open_at(workspace, ADA, PATH)).peer.notebook
        assert notebook.source(0) == "x, edited"
    else:
        await workspace.close()
    await until(lambda: gc.collect() >= 0 and peer() is None and document() is None)
    if again:
        await workspace.close()


@pytest.mark.parametrize(("name", "limit"), [("_SEATS", 2), ("_KEPT", 20)])
async def test_undo_steps_of_agents_that_left_are_limited_oldest_first(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str, limit: int
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT", 0.0)
    monkeypatch.setattr(undo_steps, name, limit)
    backend: Any = server
    workspace = Workspace(backend, PathRules((), ()), Limits(), 0.05, logging.getLogger())
    for path in ("a.ipynb", "b.ipynb", "c.ipynb", "d.ipynb"):
        seat = (await open_at(workspace, ADA, path)).seat
        seat.undo.push(Step(1, "test", (SourceChange("cell-0", "x", "x, edited"),)))
        await until(lambda: not len(workspace.rooms))
    workspace.rooms.idle_timeout = 300.0
    steps = []
    for path in ("d.ipynb", "c.ipynb", "a.ipynb"):
        opened = await open_at(workspace, ADA, path)
        steps.append(len(opened.seat.undo))
    assert steps == [1, 1, 0]
    await workspace.close()


async def test_a_silent_agent_is_hidden_and_keeps_its_seat(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT", 0.01)
    monkeypatch.setattr(module, "_SILENCE", 0.05)
    backend: Any = server
    workspace = Workspace(backend, PathRules((), ()), Limits(), 300.0, logging.getLogger())
    bea, runner = Agent("token", "Bea", bound=True), Agent("token", "Runner")
    (await open_at(workspace, runner, PATH)).seat.runs += 1
    await open_at(workspace, bea, PATH)
    seat = (await open_at(workspace, ADA, PATH)).seat
    seat.notes.append("kept")
    await until(lambda: workspace.agents_at(PATH) == {"Bea (agent)", "Runner (agent)"})
    # A room that is opened again does not show who is not there.
    server.links[-1].alive = False
    await open_at(workspace, bea, PATH)
    assert workspace.agents_at(PATH) == {"Bea (agent)", "Runner (agent)"}
    again = (await open_at(workspace, ADA, PATH)).seat
    assert again is seat
    assert workspace.agents_at(PATH) == {"Ada (agent)", "Bea (agent)", "Runner (agent)"}
    workspace.rooms.leave(bea.key)
    assert workspace.agents_at(PATH) == {"Ada (agent)", "Runner (agent)"}
    await workspace.close()


async def test_an_agent_that_joined_a_dying_room_moves_to_the_new_one(
    server: Server, workspace: Workspace
) -> None:
    before = await open_at(workspace, ADA, PATH)
    room_id = server.known_room(PATH, "notebook")
    workspace.rooms._open[room_id].agents.clear()  # those who were taken along did not include it
    workspace.rooms._open.pop(room_id)
    again = await open_at(workspace, ADA, PATH)
    assert again.seat is before.seat
    assert again.peer is not before.peer
    assert again.peer.shows(again.seat)
    assert again.seat in again.peer._seats  # so that it is told what happens
    assert len(again.peer._seats) == 1
    await workspace.close()


async def test_rooms_with_people_are_observed_when_the_agents_have_left(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OBSERVED", 2)
    monkeypatch.setattr(Link, "states", {1: {"user": {"username": "ana", "name": "Ana"}}})
    backend: Any = server
    activity = ActivityLog(tmp_path / "activity.db", 100)
    rules = PathRules((), ("denied*",))
    workspace = Workspace(backend, rules, Limits(), 0.05, logging.getLogger(), activity=activity)
    for number in range(3):
        await open_at(workspace, ADA, f"{number}.ipynb")
    await until(lambda: not server.links[0].alive)  # the oldest, of more than we observe
    await until(lambda: not any(room.agents for room in workspace.rooms))
    assert [link.alive for link in server.links] == [False, True, True]
    server.links[1].states = {}
    await until(lambda: not server.links[1].alive)
    # People open documents again. Agents have used the first, and may not use the last any more.
    for path in ("0.ipynb", "never.ipynb", "denied.ipynb"):
        workspace.observe(RoomId(f"json:notebook:{path}"))
    await until(lambda: len(workspace.rooms) == 2)
    assert len(server.links) == 4
    workspace.observe(RoomId("json:notebook:1.ipynb"))  # there are enough
    await asyncio.sleep(0)
    assert len(workspace.rooms) == 2
    await workspace.close()


async def test_nothing_is_observed_where_nothing_is_recorded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link, "states", {1: {"user": {"username": "ana", "name": "Ana"}}})
    backend: Any = server
    workspace = Workspace(backend, PathRules((), ()), Limits(), 0.05, logging.getLogger())
    await open_at(workspace, ADA, PATH)
    await until(lambda: not server.links[0].alive)
    workspace.observe(RoomId(f"json:notebook:{PATH}"))
    await workspace.close()
    assert len(server.links) == 1


async def test_who_goes_from_document_to_document_is_shown_in_the_last_one(
    server: Server, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    lobby = workspace.rooms.lobby
    shown: list[str | None] = []
    update = lobby.update

    def watch(attending: Iterable[Attendance]) -> None:
        found = list(attending)
        shown.extend(each.current for each in found)
        update(found)

    for path in ("a.ipynb", "b.ipynb"):
        await open_at(workspace, ADA, path)
        server.links[-1].path = path
    monkeypatch.setattr(lobby, "update", watch)
    for _ in range(5):
        for path in ("a.ipynb", "b.ipynb"):
            await open_at(workspace, ADA, path)
    await until(lambda: shown)
    assert shown == ["notebook:b.ipynb"]  # once, and not with each call
    await open_at(workspace, ADA, "a.ipynb")
    due = lobby._due
    assert due is not None
    await workspace.close()
    assert due.cancelled()
