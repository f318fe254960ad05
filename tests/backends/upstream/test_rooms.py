"""What rooms do and do not report: each fault is there without its workaround, and only then."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from jupyter_server_ydoc.rooms import DocumentRoom
from pycrdt import Array, Channel, Map, create_update_message
from pycrdt.store import BaseYStore, SQLiteYStore, YDocNotFound

from tests.harness import notebooks
from tests.harness.jupyter import REPOSITORY
from tests.harness.waiting import until

from .conftest import MakeStage, Stage
from .test_loaders import text_of, with_and_without, write_into

pytestmark = pytest.mark.anyio


@with_and_without
async def test_a_save_includes_everything_from_before_it_began(
    make_stage: MakeStage, works: bool
) -> None:
    """Without the workaround it is saved a second time, and known to be saved after that."""
    stage = make_stage(*([] if works else ["save_tracking"]))
    file = stage.root / "a.md"
    file.write_text("old\n")
    room = await stage.open("a.md")
    watch = stage.watch(room)
    write_into(room, "new ")
    await asyncio.wait([room._saving_document])  # the autosave
    assert file.read_text() == "new old\n"
    assert watch.saved is works
    await until(lambda: watch.saved)
    write_into(room, "newer ")
    assert not watch.saved


@with_and_without
async def test_an_overwrite_of_a_room_by_its_file_is_counted(
    make_stage: MakeStage, works: bool
) -> None:
    stage = make_stage(*([] if works else ["overwrite_tracking"]))
    file = stage.root / "a.md"
    file.write_text("old\n")
    room = await stage.open("a.md")
    file.write_text("changed elsewhere\n")
    await room._file.maybe_notify()
    assert text_of(room) == "changed elsewhere\n"
    assert stage.watch(room).overwrites == (1 if works else 0)


@with_and_without
async def test_the_journal_drops_updates_that_the_file_and_the_store_have(
    make_stage: MakeStage, works: bool
) -> None:
    """Without the workaround it does so when the room is closed, and not before."""
    stage = make_stage(*([] if works else ["store_tracking"]))
    (stage.root / "a.md").write_text("old\n")
    store = SQLiteYStore(".file:a.y", log=logging.getLogger("store"))
    store.db_path = str(stage.root.parent / "store.db")
    async with served(stage, store) as room:
        watch = stage.watch(room)
        write_into(room, "new ")
        await until(lambda: watch.saved)
        if works:
            await until(lambda: unsaved(stage) == [])
        await stage.journal.durable()
        assert unsaved(stage) == ([] if works else ["a.md"])
        stage.watches.pop(room.room_id).close()
        await stage.journal.durable()
        assert unsaved(stage) == []
    await store.stop()


@asynccontextmanager
async def served(stage: Stage, store: BaseYStore) -> AsyncIterator[DocumentRoom]:
    """The room of `a.md`, started as for whoever opens it first."""
    serving = asyncio.create_task(stage.websocket_server.start())
    await stage.websocket_server.started.wait()
    room = await stage.open("a.md", store)
    await stage.websocket_server.start_room(room)
    await room.ydoc_observed.wait()
    yield room
    await room.stop()
    room._update_send_stream.close()  # pycrdt leaves it open
    stage.rooms.remove(room)
    await stage.websocket_server.stop()
    await serving


class MemberOfRoom(Channel):
    """Whoever is in a room, and what the room sends."""

    path = "a.md"

    def __init__(self, ignores_updates: bool) -> None:
        self.ignores_updates = ignores_updates
        self.received: list[bytes] = []

    async def send(self, message: bytes) -> None:
        self.received.append(message)

    async def recv(self) -> bytes:
        raise NotImplementedError


class MemoryStore(BaseYStore):
    """A store that only remembers."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.stored.append(data)

    async def read(self) -> AsyncIterator[tuple[bytes, bytes, float]]:
        raise YDocNotFound
        yield  # an iterator, as the rooms expect it


@with_and_without
async def test_a_change_is_sent_to_people_and_to_the_store_but_not_to_members_that_have_it(
    make_stage: MakeStage, works: bool
) -> None:
    """Without the workaround each of those costs a task of its own, for nothing."""
    stage = make_stage(*([] if works else ["room_updates"]))
    (stage.root / "a.md").write_text("old\n")
    person, ours, store = MemberOfRoom(False), MemberOfRoom(True), MemoryStore()
    async with served(stage, store) as room:
        await until(lambda: len(store.stored) == 2)  # what was loaded, and the cure of B1
        room.clients |= {person, ours}
        for word in ("one ", "two ", "three "):
            write_into(room, word)
        await until(lambda: len(store.stored) >= 5)  # or more: the room saves
        sent = list(map(create_update_message, store.stored[2:5]))
        assert person.received[:3] == sent
        assert ours.received[:3] == ([] if works else sent)
        room.clients.clear()


def unsaved(stage: Stage) -> list[str]:
    return [room.path for room in stage.journal.records.unsaved()]


#: In a process of its own: what is cancelled along with a room may be the test.
ENDING_ROOMS = """
import asyncio
import contextlib
import logging
from types import SimpleNamespace

from jupyter_collaboration_mcp.backends.upstream.uri_parser import skip_uri_parser

skip_uri_parser()  # it takes longer than all else

from jupyter_server_ydoc.websocketserver import JupyterWebsocketServer, exception_logger
from pycrdt.store import BaseYStore
from pycrdt.websocket import YRoom

from jupyter_collaboration_mcp.backends.upstream.room_starts import RoomStarts


async def is_disturbed(turns):
    server = JupyterWebsocketServer(
        BaseYStore, rooms_ready=False, auto_clean_rooms=False, exception_handler=exception_logger
    )
    if {works}:
        parts = SimpleNamespace(
            ydoc=SimpleNamespace(ywebsocket_server=server), log=logging.getLogger()
        )
        RoomStarts().apply(parts)
    serving = asyncio.create_task(server.start())
    await server.started.wait()
    bystander = YRoom(exception_handler=exception_logger)
    await server.start_room(bystander)
    await asyncio.sleep(0.05)
    group = bystander._task_group
    room = YRoom(exception_handler=exception_logger)
    starting = asyncio.create_task(server.start_room(room))
    for _ in range(turns):
        await asyncio.sleep(0)
    with contextlib.suppress(RuntimeError):  # too early
        await room.stop()
    await asyncio.gather(starting, return_exceptions=True)
    await asyncio.sleep(0.05)
    disturbed = group.cancel_scope.cancel_called
    await server.stop()
    return disturbed


logging.disable()
print(any(asyncio.run(is_disturbed(turns)) for turns in range(1, 9)))
"""


@with_and_without
def test_a_room_that_stops_while_starting_does_not_affect_others(works: bool) -> None:
    """B20, at each of the moments in which a room can end."""
    script = ENDING_ROOMS.replace("{works}", str(works))
    command = [sys.executable, "-W", "ignore", "-c", script]
    said = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout == f"{not works}\n"


@with_and_without
async def test_a_room_gets_one_event_for_many_changed_cells(
    make_stage: MakeStage, works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each event in the cells yrs counts those before it: that takes seconds for thousands."""
    heard: list[Any] = []

    def on_document_change(self: DocumentRoom, target: str, event: Any) -> None:
        heard.append(event)

    monkeypatch.setattr(DocumentRoom, "_on_document_change", on_document_change)
    disabled = [] if works else ["change_events"]
    stage = make_stage(*disabled)
    count = 50
    cells = [notebooks.code(f"cell-{number}", f"{number}") for number in range(count)]
    notebooks.write(stage.root / "n.ipynb", notebooks.notebook(cells))
    room = await stage.open("n.ipynb")
    heard.clear()
    with room.ydoc.transaction():
        for cell in room.ydoc.get("cells", type=Array):
            assert isinstance(cell, Map)
            cell["execution_count"] = 1.0
    await until(lambda: heard)
    (event,) = heard
    assert (len(event) if isinstance(event, list) else 1) == (1 if works else count)
