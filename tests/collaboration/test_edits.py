"""Large edits are made on a copy, in a thread, and are as if they had been made at once."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from jupyter_collaboration_mcp.collaboration.edits import LARGE_TEXT, CallRecord, Edit, Work
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.errors import (
    CellNotFound,
    DocumentBusy,
    InternalError,
    StaleRevision,
)
from jupyter_collaboration_mcp.workspace import cell_updates, editing
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.cell_selection import Targets
from jupyter_collaboration_mcp.workspace.cell_updates import CellUpdate
from jupyter_collaboration_mcp.workspace.editing import NewCell
from jupyter_collaboration_mcp.workspace.guards import RunRequest
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from tests.harness.memory_room import MemoryRoom, perform

LIMITS, EDIT_ONLY = Limits(), RunRequest(False)

SOURCES = ["first\nline", "x = 1", "", "last €😀\n"]

MakeEdit = Callable[[OpenDocument], Edit[Any]]


def opened(room: MemoryRoom, name: str = "Ada") -> OpenDocument:
    return OpenDocument("memory.ipynb", room.peer, room.seat(name), "test")


def update(index: int, **change: Any) -> MakeEdit:
    return lambda here: cell_updates.update_cells(
        here, [CellUpdate(index, **change)], LIMITS, EDIT_ONLY
    )


def at(*indexes: int) -> Targets:
    return Targets(list(indexes), [None] * len(indexes))


def shown(notebook: Notebook) -> list[tuple[str, str, Any]]:
    return [
        (notebook.cell_type(index), notebook.source(index), notebook.metadata(index))
        for index in range(len(notebook))
    ]


@pytest.mark.parametrize(
    "make",
    [
        update(3, content="first €😀\nand last\n"),
        update(0, old_text="line", new_text="lines", cell_type="markdown", metadata={"a": 1.0}),
        lambda here: editing.insert_cells(
            here, [NewCell("a"), NewCell("b", "raw")], [0, 4], None, None, LIMITS, EDIT_ONLY
        ),
        lambda here: editing.delete_cells(here, at(0, 2, 3), LIMITS, EDIT_ONLY),
        lambda here: editing.move_cells(here, at(3, 0), 2, None, LIMITS),
    ],
    ids=["update", "retype", "insert", "delete", "move"],
)
def test_an_edit_on_a_copy_has_the_same_effect_and_undo_as_a_direct_one(make: MakeEdit) -> None:
    at_once, aside = MemoryRoom(SOURCES), MemoryRoom(SOURCES)
    before = shown(aside.notebook)
    here, there = opened(at_once), opened(aside)
    perform(here, make(here))
    perform(there, make(there), aside=True)
    assert shown(aside.notebook) == shown(aside.peer.notebook) == shown(at_once.notebook)
    assert aside.peer.notebook.ids == aside.notebook.ids
    assert [len(one.seat.undo) for one in (here, there)] == [1, 1]
    assert len(aside.link.recorded) == len(at_once.link.recorded)
    perform(there, editing.undo(there, 1, None, False), aside=True)
    assert shown(aside.notebook) == shown(aside.peer.notebook) == before
    assert len(there.seat.undo) == 0


def waiting(edit: Edit[Any], meanwhile: threading.Event, begun: threading.Event) -> Edit[Any]:
    """An edit whose first work on a copy waits for something to happen."""
    works: list[Work[Any]] = []

    def begin() -> Work[Any]:
        works.append(edit.begin())

        def work(document: Any, record: CallRecord) -> Any:
            begun.set()
            assert meanwhile.wait(20)
            return works[-1](document, record)

        return work

    return Edit(begin, large=True)


async def while_prepared(here: OpenDocument, edit: Edit[Any], do: Callable[[], object]) -> Any:
    meanwhile, begun = threading.Event(), threading.Event()
    task = asyncio.ensure_future(here.perform(waiting(edit, meanwhile, begun)))
    try:
        assert await asyncio.to_thread(begun.wait, 20)
        do()
    finally:
        meanwhile.set()
    return await task


@pytest.mark.anyio
async def test_concurrent_edits_are_considered_before_an_edit_is_applied() -> None:
    room = MemoryRoom(["a", "b"])
    ada = opened(room)

    def insert_above() -> None:
        with room.doc.transaction():
            room.notebook.insert(0, [{"cell_type": "raw", "source": "new", "metadata": {}}])

    await while_prepared(ada, update(1, content="of Ada")(ada), insert_above)
    assert room.sources() == ["new", "of Ada", "b"]  # the index means the notebook as it is then


@pytest.mark.anyio
async def test_a_cell_that_changes_during_the_edit_is_stale() -> None:
    room = MemoryRoom(["a", "b"])
    ada, bob = opened(room), opened(room, "Bob")
    guarded = update(1, content="of Ada", if_revision=room.peer.notebook.revision(1))(ada)
    with pytest.raises(StaleRevision):
        await while_prepared(ada, guarded, lambda: perform(bob, update(1, content="Bob")(bob)))
    assert room.sources() == ["a", "Bob"]
    assert len(ada.seat.undo) == 0


@pytest.mark.anyio
async def test_two_concurrent_undos_undo_two_steps() -> None:
    room = MemoryRoom(["a"])
    ada = opened(room)
    for content in ("b", "c"):
        perform(ada, update(0, content=content)(ada))
    undo = [editing.undo(ada, 1, None, False) for _ in range(2)]
    await while_prepared(ada, undo[0], lambda: perform(ada, undo[1]))
    assert room.sources() == ["a"]
    assert len(ada.seat.undo) == 0


def counted(edit: Edit[Any], meanwhile: Callable[[int], object]) -> tuple[Edit[Any], list[int]]:
    """A large edit with which something happens each time it is begun, and how often it was."""
    tries: list[int] = []

    def begin() -> Work[Any]:
        work = edit.begin()
        tries.append(len(tries))
        meanwhile(len(tries))  # comes with the next look at the room
        return work

    return Edit(begin, large=True), tries


def in_the_room(room: MemoryRoom, do: Callable[[Notebook], object]) -> None:
    with room.doc.transaction():
        do(room.notebook)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "make",
    [
        update(1, content="of Ada"),
        lambda here: editing.insert_cells(
            here, [NewCell("of Ada")], None, 2, None, LIMITS, EDIT_ONLY
        ),
        lambda here: editing.delete_cells(here, at(1), LIMITS, EDIT_ONLY),
        lambda here: editing.move_cells(here, at(1), -1, None, LIMITS),
    ],
    ids=["update", "insert", "delete", "move"],
)
async def test_typing_in_other_cells_does_not_cause_a_retry(make: MakeEdit) -> None:
    room, alone = MemoryRoom(["a", "b", "c"]), MemoryRoom(["typed 1", "b", "c"])
    ada, lone = opened(room), opened(alone)
    for undone in (False, True):
        edit = editing.undo(ada, 1, None, False) if undone else make(ada)
        large, tries = counted(
            edit, lambda n: in_the_room(room, lambda book: book.set_source(0, f"typed {n}"))
        )
        await ada.perform(large)
        perform(lone, editing.undo(lone, 1, None, False) if undone else make(lone))
        assert len(tries) == 1
        assert room.sources() == alone.sources()
        assert room.sources() == [
            room.peer.notebook.source(n) for n in range(len(room.peer.notebook))
        ]


@pytest.mark.anyio
async def test_output_of_a_cell_does_not_delay_an_edit_of_its_source() -> None:
    room = MemoryRoom(["a", "b"])
    ada = opened(room)
    large, tries = counted(
        update(1, content="of Ada")(ada),
        lambda n: in_the_room(room, lambda book: book.set_running(1, running=True)),
    )
    await ada.perform(large)
    assert len(tries) == 1
    assert room.sources() == ["a", "of Ada"]


@pytest.mark.anyio
async def test_the_outputs_of_a_cell_that_starts_to_run_meanwhile_are_not_cleared() -> None:
    room = MemoryRoom(["a", "b"])
    ada = opened(room)
    for index in range(2):
        in_the_room(room, partial(Notebook.end_run, index=index, count=1, timings={}))
    await room.peer.catch_up()

    def start_once(tries: int) -> None:
        if tries == 1:
            in_the_room(room, partial(Notebook.set_running, index=1, running=True))

    clear, tries = counted(editing.clear_outputs(ada, None, LIMITS), start_once)
    assert await ada.perform(clear) == ["cell-0"]
    assert len(tries) == 2
    assert [room.notebook.has_count(n, 1) for n in range(2)] == [False, True]


@pytest.mark.anyio
async def test_constant_changes_of_the_same_cell_make_the_edit_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jupyter_collaboration_mcp.collaboration.peer._PAUSES", (0.0, 0.0))
    room = MemoryRoom(["a", "b"])
    ada = opened(room)
    large, tries = counted(
        update(1, content="of Ada")(ada),
        lambda n: in_the_room(room, lambda book: book.set_source(1, f"typed {n}")),
    )
    with pytest.raises(DocumentBusy, match="Nothing was changed"):
        await ada.perform(large)
    assert len(tries) == 3
    assert room.sources() == ["a", "typed 3"]
    assert (len(ada.seat.undo), ada.peer.unsaved, room.link.alive) == (0, [], True)
    await ada.perform(update(1, content="of Ada")(ada))
    assert room.sources() == ["a", "of Ada"]


@pytest.mark.anyio
@pytest.mark.parametrize(("length", "on_copy"), [(LARGE_TEXT, False), (LARGE_TEXT + 1, True)])
async def test_an_edit_of_a_long_text_is_made_on_a_copy(
    length: int, on_copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = MemoryRoom(["x" * length, "y"])
    here = opened(room)
    threads: list[object] = []
    made = cell_updates.apply_changes

    def apply_changes(*arguments: Any) -> None:
        threads.append(threading.current_thread())
        made(*arguments)

    monkeypatch.setattr(cell_updates, "apply_changes", apply_changes)
    await here.perform(update(0, content="short")(here))
    assert [thread is not threading.main_thread() for thread in threads] == [on_copy]
    assert room.sources() == ["short", "y"]
    assert len(here.seat.undo) == 1


@pytest.mark.anyio
async def test_a_small_edit_by_another_agent_waits_for_a_large_one() -> None:
    room = MemoryRoom(["a", "b"])
    ada, bob = opened(room), opened(room, "Bob")
    tasks: list[asyncio.Task[Any]] = []
    small = update(0, content="Bob")(bob)
    large = update(1, content="of Ada")(ada)
    written: list[str] = []
    bob.peer.on_edit(lambda: written.append(room.sources()[1]))
    await while_prepared(
        ada, large, lambda: tasks.append(asyncio.ensure_future(bob.perform(small)))
    )
    await asyncio.gather(*tasks)
    assert room.sources() == ["Bob", "of Ada"]
    assert written == ["of Ada", "of Ada"]  # the large one first


@pytest.mark.anyio
async def test_output_of_a_run_waits_for_a_large_edit() -> None:
    room = MemoryRoom(["a", "b"])
    ada, bob = opened(room), opened(room, "Bob")
    tasks: list[asyncio.Task[None]] = []
    tries: list[int] = []

    async def show() -> None:
        await bob.peer.catch_up_to_write()
        with bob.peer.output(bob.seat):
            bob.peer.notebook.set_running(0, running=True)

    edit = update(1, content="of Ada")(ada)

    def begin() -> Work[Any]:
        tries.append(len(tries))
        return edit.begin()

    await while_prepared(ada, Edit(begin), lambda: tasks.append(asyncio.ensure_future(show())))
    await asyncio.gather(*tasks)
    assert len(tries) == 1
    assert room.sources() == ["a", "of Ada"]
    assert room.notebook.running() == [0]


@pytest.mark.parametrize("error", [CellNotFound("gone", "look"), ValueError("a mistake")])
def test_an_edit_that_fails_on_a_copy_leaves_the_document_unchanged(
    error: Exception,
) -> None:
    room = MemoryRoom(["a"])
    ada = opened(room)

    def work(notebook: Notebook, record: CallRecord) -> None:
        notebook.set_source(0, "half")
        raise error

    with pytest.raises(CellNotFound if isinstance(error, CellNotFound) else InternalError):
        perform(ada, Edit(lambda: work), aside=True)
    assert room.sources() == [room.peer.notebook.source(0)] == ["a"]
    assert room.link.alive
    perform(ada, update(0, content="whole")(ada), aside=True)
    assert room.sources() == ["whole"]


def test_a_copy_is_freed_after_its_edit() -> None:
    room = MemoryRoom(["a"])
    ada, copies = opened(room), []

    def work(notebook: Notebook, record: CallRecord) -> None:
        copies.append(weakref.ref(notebook.doc))
        notebook.set_source(0, "b")

    perform(ada, Edit(lambda: work), aside=True)
    gc.collect()
    assert [copy() for copy in copies] == [None]


def test_a_peer_tracks_the_changes_of_each_cell_separately() -> None:
    room = MemoryRoom(["a", "b", "c"])
    peer: RoomPeer = room.peer
    seen = peer.version
    with room.doc.transaction():
        room.notebook.set_source(0, "changed")
        room.notebook.set_metadata(1, {"k": 1.0})
        room.notebook.delete([2])
    asyncio.run(peer.catch_up())
    told = {
        (entry.change.kind, entry.change.cell_id)
        for entry in peer.changes.by_others(seen, "agent-0")
    }
    assert told == {("edited", "cell-0"), ("metadata", "cell-1"), ("deleted", "cell-2")}
    with room.doc.transaction():
        room.notebook._cells[1].shared["id"] = "renamed"  # as jupyter_ydoc does with a duplicate
    asyncio.run(peer.catch_up())
    assert peer.notebook.ids == ["cell-0", "renamed"]
    assert peer.notebook.find("renam") == 1
