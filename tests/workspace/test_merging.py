"""Merging a fork into a live document: who wrote what, and what is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.protocols.forks import Apart, Contribution, Fork
from jupyter_collaboration_mcp.documents.content import read_content
from jupyter_collaboration_mcp.documents.members import Member
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.three_way import Merged
from jupyter_collaboration_mcp.documents.updates import decode_state
from jupyter_collaboration_mcp.errors import MergeConflict
from jupyter_collaboration_mcp.workspace.editing import undo
from jupyter_collaboration_mcp.workspace.merging import (
    ForkState,
    merge_content,
    merge_fork,
    writers_of,
)
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from tests.harness.memory_room import MemoryRoom, perform

ADA = Member.agent("Ada <1>", "Ada")
ANA = Member("ana", "Ana")


def fork_of(room: MemoryRoom, *edits: tuple[Member | None, str, str]) -> ForkState:
    """A fork in which some have written cells: new ones, if there is none with that id."""
    doc: Doc[Any] = Doc()
    base = room.doc.get_update()
    doc.apply_update(base)
    notebook = Notebook(doc)
    contributions = [Contribution(base, None, 0.0)]
    for writer, cell_id, source in edits:
        before = doc.get_state()
        with doc.transaction():
            if notebook.has(cell_id):
                notebook.set_source(notebook.find(cell_id), source)
            else:
                cell = {"id": cell_id, "cell_type": "markdown", "source": source, "metadata": {}}
                notebook.insert(len(notebook), [cell])
        contributions.append(Contribution(doc.get_update(before), writer, 0.0))
    notebook.close()
    return ForkState(
        read_content("notebook", base),
        read_content("notebook", doc.get_update()),
        writers_of("notebook", contributions),
    )


def merged(room: MemoryRoom, fork: ForkState, aside: bool) -> OpenDocument:
    here = OpenDocument("memory.ipynb", room.peer, room.seat("Bob"), "merge")
    asyncio.run(here.peer.catch_up())
    perform(here, merge_content(here, fork, None), aside)
    return here


@pytest.mark.parametrize("aside", [True, False])
def test_merged_cells_are_those_of_who_wrote_them_in_the_fork(aside: bool) -> None:
    room = MemoryRoom(["a", "b", "c"])
    fork = fork_of(
        room,
        (ADA, "cell-0", "a of Ada"),
        (ANA, "cell-1", "b of Ana"),
        (ADA, "new", "new of Ada"),
        (None, "cell-2", "c of nobody"),
    )
    merged(room, fork, aside)
    assert room.sources() == ["a of Ada", "b of Ana", "c of nobody", "new of Ada"]
    recorded = [each for each in room.link.recorded if each.clock_from < each.clock_to]
    assert [each.author.name for each in recorded] == ["Ada", "Ada", "Ana", "Bob"]
    ends = [each.clock_to for each in recorded]
    starts = [each.clock_from for each in recorded]
    written = decode_state(room.peer.doc.get_state())[room.peer.doc.client_id]
    assert starts == [0, *ends[:-1]]  # all of it is somebody's
    assert ends[-1] == written


def writers(room: MemoryRoom) -> list[str]:
    """Who has written the last character of each cell that was written anew."""
    notebook, found = room.peer.notebook, []
    for index in range(len(notebook)):
        last = notebook.last_character(index)
        found += [
            each.author.name
            for each in room.link.recorded
            if last and each.client == last[0] and each.clock_from <= last[1] < each.clock_to
        ]
    return found


@pytest.mark.parametrize("aside", [True, False])
def test_new_neighbours_are_each_of_who_wrote_it(aside: bool) -> None:
    room = MemoryRoom(["a"])
    new = [(ADA, "x", "of Ada"), (ANA, "y", "of Ana"), (None, "z", "of nobody"), (ADA, "w", "hers")]
    merged(room, fork_of(room, *new), aside)
    assert room.sources() == ["a", "of Ada", "of Ana", "of nobody", "hers"]
    assert writers(room) == ["Ada", "Ana", "Bob", "Ada"]


@pytest.mark.parametrize("aside", [True, False])
def test_cells_that_were_moved_and_edited_are_of_who_edited_them(aside: bool) -> None:
    room = MemoryRoom(["a", "b", "c", "d"])
    doc: Doc[Any] = Doc()
    doc.apply_update(room.doc.get_update())
    notebook = Notebook(doc)
    with doc.transaction():
        notebook.set_source(2, "c of Ada")
        notebook.set_source(3, "d of Ana")
        notebook.move([2, 3], 0)
    notebook.close()
    base, content = (read_content("notebook", each.get_update()) for each in (room.doc, doc))
    merged(room, ForkState(base, content, {"cell-2": ADA, "cell-3": ANA}), aside)
    assert room.sources() == ["c of Ada", "d of Ana", "a", "b"]
    assert writers(room) == ["Ada", "Ana"]


def test_a_merge_is_one_step_to_undo() -> None:
    room = MemoryRoom(["a", "b"])
    here = merged(room, fork_of(room, (ADA, "cell-0", "x"), (ANA, "new", "y")), aside=True)
    with room.doc.transaction():
        room.notebook.set_source(1, "b of a person")
    asyncio.run(here.peer.catch_up())
    perform(here, undo(here, 1, None, False))
    assert room.sources() == ["a", "b of a person"]


def test_a_conflict_changes_nothing() -> None:
    room = MemoryRoom(["a", "b"])
    fork = fork_of(room, (ADA, "cell-0", "x"), (ADA, "cell-1", "y"))
    with room.doc.transaction():
        room.notebook.set_source(0, "of a person")
    with pytest.raises(MergeConflict) as refused:
        merged(room, fork, aside=True)
    assert room.sources() == ["of a person", "b"]
    conflicts: Sequence[dict[str, str]] = refused.value.detail["conflicts"]
    assert [each["cell_id"] for each in conflicts] == ["cell-0"]


class MemoryForks:
    """The fork of a document in memory, in which somebody writes whenever it is read."""

    def __init__(self, root: MemoryRoom, writes: Sequence[Callable[[MemoryRoom], None]]) -> None:
        self.fork = Fork("f", root.link.room_id, synchronize=True)
        self.room = MemoryRoom([])
        self.state = root.doc.get_update()
        self.apart = Apart(True)
        self.rebased: bytes | None = None
        self.ended = False
        self._count = 0
        self._writes = list(writes)
        self.room.doc.apply_update(self.state)

    @contextmanager
    def unsynchronized(self, fork: Fork) -> Iterator[Apart]:
        yield self.apart

    async def get(self, fork_id: str) -> Fork:
        return self.fork

    async def base(self, fork: Fork) -> bytes | None:
        return self.rebased or self.state

    async def contributions(self, fork: Fork) -> Sequence[Contribution]:
        if self._writes:
            self._count += 1
            self._writes.pop(0)(self.room)
        return ()

    def writes(self, fork: Fork) -> int:
        return self._count

    def rebase(self, fork: Fork, state: bytes) -> None:
        self.rebased = state

    async def end(self, fork: Fork, how: str, why: str, writes: int | None = None) -> bool:
        if self._writes:
            self._count += 1
            self._writes.pop(0)(self.room)
        self.ended = writes == self._count
        return self.ended


def writing(cell: int, source: str, *also: tuple[MemoryRoom, int, str]) -> Any:
    """Writes a cell of a fork, and of other documents."""

    def write(room: MemoryRoom) -> None:
        for where, index, text in ((room, cell, source), *also):
            with where.doc.transaction():
                where.notebook.set_source(index, text)

    return write


def merging(room: MemoryRoom, forks: MemoryForks) -> Merged:
    here = OpenDocument("memory.ipynb", room.peer, room.seat("Bob"), "merge")
    made: Any = forks
    return asyncio.run(merge_fork(here, made, forks.fork, forks.room.peer, None, "merged"))


def test_what_is_written_just_before_a_fork_ends_is_merged() -> None:
    room = MemoryRoom(["a", "b"])
    forks = MemoryForks(
        room, [writing(0, "x"), writing(0, "x y"), lambda _: None, writing(1, "last")]
    )
    merging(room, forks)
    assert forks.ended
    assert room.sources() == ["x y", "last"]


def test_a_conflict_with_what_was_written_since_says_what_was_merged() -> None:
    room = MemoryRoom(["a", "b"])
    forks = MemoryForks(room, [writing(0, "x"), writing(1, "fork", (room, 1, "document"))])
    with pytest.raises(MergeConflict) as refused:
        merging(room, forks)
    assert room.sources() == ["x", "document"]
    assert "f was merged as it was when this call began" in refused.value.happened
    assert "Nothing was merged" not in refused.value.happened
    assert [each["cell_id"] for each in refused.value.detail["conflicts"]] == ["cell-1"]
    assert not forks.ended
    assert forks.apart.stays
    with room.doc.transaction():
        room.notebook.set_source(0, "later")
        room.notebook.set_source(1, "b")
    merging(room, forks)  # from what was merged on
    assert room.sources() == ["later", "fork"]


def test_a_conflict_at_once_lets_the_fork_follow_again() -> None:
    room = MemoryRoom(["a", "b"])
    forks = MemoryForks(room, [writing(0, "x", (room, 0, "document"))])
    with pytest.raises(MergeConflict, match="Nothing was merged"):
        merging(room, forks)
    assert not forks.apart.stays
    assert forks.rebased is None
