"""Replacing the content of a live document: the result, its undo, and people who type meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Text

from jupyter_collaboration_mcp.collaboration.edits import Edit, Work
from jupyter_collaboration_mcp.collaboration.seats import Seat
from jupyter_collaboration_mcp.documents.content import (
    NotebookContent,
    TextContent,
    content_of,
    read_content,
)
from jupyter_collaboration_mcp.errors import CellProtected, DocumentBusy
from jupyter_collaboration_mcp.workspace.editing import undo
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.replacing import Replaced, replace_content
from tests.harness.examples import examples
from tests.harness.memory_room import MemoryRoom, TextRoom, perform

T = TypeVar("T")

Cell = Mapping[str, Any]

#: Letters of several widths, and lines.
_SOURCES = st.text(st.sampled_from("ab \nä😀"), max_size=8)

_STREAM = {"output_type": "stream", "name": "stdout", "text": "hi\n"}
_RESULT = {
    "output_type": "execute_result",
    "data": {"text/plain": "1"},
    "metadata": {},
    "execution_count": 1,
}

_METADATA = st.dictionaries(
    st.sampled_from(["tags", "collapsed", "custom"]),
    st.sampled_from([["x"], True, {"a": 1}]),
    max_size=2,
)


@st.composite
def _cells(draw: st.DrawFn) -> Sequence[Cell]:
    ids = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8))
    cells: list[Cell] = []
    for cell_id in ids:
        kind = draw(st.sampled_from(["code", "markdown"]))
        cell: dict[str, Any] = {
            "id": cell_id,
            "cell_type": kind,
            "source": draw(_SOURCES),
            "metadata": draw(_METADATA),
        }
        if kind == "code":
            cell["outputs"] = draw(st.lists(st.sampled_from([_STREAM, _RESULT]), max_size=2))
            cell["execution_count"] = draw(st.sampled_from([None, 1, 2]))
        elif draw(st.booleans()):
            cell["attachments"] = {"a.png": {"image/png": draw(st.sampled_from(["QQ==", "Qg=="]))}}
        cells.append(cell)
    return cells


class Room(MemoryRoom):
    """A room with an agent in it."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        super().__init__([])
        with self.doc.transaction():
            self.notebook.insert(0, cells)
        self.here = OpenDocument("memory.ipynb", self.peer, self.seat(), "restore")
        self.catch_up()

    def catch_up(self) -> None:
        asyncio.run(self.peer.catch_up())

    def cells(self) -> Sequence[Cell]:
        content = read_content("notebook", self.doc.get_update())
        assert isinstance(content, NotebookContent)
        return content.cells

    def replace(
        self, cells: Sequence[Cell], cell_ids: Sequence[str] | None = None, aside: bool = False
    ) -> Replaced:
        return self.perform(replace_content(self.here, NotebookContent(cells), cell_ids), aside)

    def undo(self, aside: bool = False) -> None:
        self.perform(undo(self.here, 1, None, False), aside)

    def perform(self, edit: Edit[T], aside: bool) -> T:
        self.catch_up()
        return perform(self.here, edit, aside)


@examples(80, 600)
@given(_cells(), _cells())
def test_any_notebook_becomes_any_other_and_undo_gives_back_the_former(
    before: Sequence[Cell], after: Sequence[Cell]
) -> None:
    room = Room(before)
    replaced = room.replace(after)
    assert room.cells() == after
    assert bool(replaced) == (list(before) != list(after))
    if replaced:
        room.undo()
        assert room.cells() == before


@examples(30, 150)
@given(_cells(), _cells())
def test_in_slices_the_result_and_its_undo_are_the_same(
    before: Sequence[Cell], after: Sequence[Cell]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jupyter_collaboration_mcp.collaboration.edits._SLICE_CHANGES", 1)
        patch.setattr("jupyter_collaboration_mcp.workspace.replacing._DELETED_AT_ONCE", 1)
        room = Room(before)
        replaced = room.replace(after, aside=True)
        assert room.cells() == after
        assert content_of(room.peer.notebook) == NotebookContent(after)
        if replaced:
            room.undo(aside=True)
            assert room.cells() == before


@examples(60, 400)
@given(_cells(), _cells(), st.data())
def test_chosen_cells_become_as_they_were_and_all_others_stay(
    before: Sequence[Cell], after: Sequence[Cell], data: st.DataObject
) -> None:
    ids = [str(cell["id"]) for cell in after]
    chosen = data.draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
    room = Room(before)
    replaced = room.replace(after, chosen)
    now = {str(cell["id"]): cell for cell in room.cells()}
    known = {str(cell["id"]): cell for cell in before}
    wanted = {str(cell["id"]): cell for cell in after}
    assert now == {**known, **{cell_id: wanted[cell_id] for cell_id in chosen}}
    assert [cell_id for cell_id in now if cell_id in known] == list(known)
    if replaced:
        room.undo()
        assert room.cells() == before


@examples(60, 400)
@given(_cells(), _cells(), st.data())
def test_what_a_person_types_meanwhile_stays_in_every_cell_that_stays(
    before: Sequence[Cell], after: Sequence[Cell], data: st.DataObject
) -> None:
    room = Room(before)
    typed = {
        str(cell["id"]): data.draw(st.integers(0, len(cell["source"])))
        for cell in before
        if data.draw(st.booleans())
    }
    for cell_id, place in typed.items():  # the agent's peer has not heard of it yet
        shared: Text = room.notebook.shared_source(room.notebook.find(cell_id))
        shared.insert(len(str(shared)[:place].encode()), "XY")
    replaced = perform(room.here, replace_content(room.here, NotebookContent(after)))
    room.catch_up()
    wanted = {str(cell["id"]): cell for cell in after}
    types = {str(cell["id"]): cell["cell_type"] for cell in before}
    now = {str(cell["id"]): str(cell["source"]) for cell in room.cells()}
    assert list(now) == list(wanted)
    for cell_id, source in now.items():
        is_anew = cell_id in replaced.moved or types.get(cell_id) != wanted[cell_id]["cell_type"]
        if cell_id in typed and not is_anew:
            assert "XY" in source
            assert source.replace("XY", "", 1) == wanted[cell_id]["source"]
        else:
            assert source == wanted[cell_id]["source"]


@pytest.mark.parametrize("aside", [False, True])
def test_a_text_becomes_another_and_undo_gives_it_back(aside: bool) -> None:
    room = TextRoom("one\ntwo\n")
    perform(room.here, replace_content(room.here, TextContent("one\n2\nthree\n")), aside)
    assert str(room) == "one\n2\nthree\n"
    perform(room.here, undo(room.here, 1, None, False), aside)
    assert str(room) == "one\ntwo\n"


def test_cells_that_are_the_same_are_not_written_anew() -> None:
    cells = [_code(f"c{n}", f"x = {n}") for n in range(6)]
    room = Room(cells)
    identities = {cell_id: room.notebook.identity(n) for n, cell_id in enumerate(room.notebook.ids)}
    wanted = [cells[5], *cells[:2], _code("new", "y"), {**cells[3], "source": "x = 33"}]
    replaced = room.replace(wanted)
    assert (replaced.inserted, replaced.deleted) == (["new"], ["c2", "c4"])
    assert (replaced.moved, replaced.edited, replaced.outputs) == (["c5"], ["c3"], [])
    for cell_id in ("c0", "c1", "c3"):
        assert room.notebook.identity(room.notebook.find(cell_id)) == identities[cell_id]


def test_outputs_alone_count_as_outputs_and_come_back_with_undo() -> None:
    before = {**_code("a", "1"), "outputs": [_RESULT], "execution_count": 1}
    room = Room([before])
    assert room.replace([_code("a", "1")]).outputs == ["a"]
    room.undo()
    assert room.cells() == [before]


def test_the_outputs_of_a_running_cell_are_left_alone() -> None:
    room = Room([_code("a", "1")])
    with room.doc.transaction():
        room.notebook.begin_run(0)
    wanted = {**_code("a", "2"), "outputs": [_RESULT], "execution_count": 1}
    replaced = room.replace([wanted])
    assert (replaced.edited, replaced.running) == (["a"], ["a"])
    assert room.cells()[0]["outputs"] == []


def test_a_protected_cell_refuses_the_whole_replacement() -> None:
    protected = {**_code("a", "1"), "metadata": {"tags": ["agent-protected"]}}
    room = Room([protected, _code("b", "1")])
    with pytest.raises(CellProtected):
        room.replace([_code("b", "2")], aside=True)
    assert room.cells() == [protected, _code("b", "1")]


def test_only_one_replacement_runs_at_a_time() -> None:
    room = Room([_code("a", "1")])

    async def both() -> list[Replaced | BaseException]:
        edits = [replace_content(room.here, NotebookContent([_code("a", s)])) for s in "23"]
        return await asyncio.gather(*map(room.here.perform, edits), return_exceptions=True)

    first, second = asyncio.run(both())
    assert isinstance(first, Replaced)
    assert isinstance(second, DocumentBusy)
    assert room.sources() == ["2"]


def test_cells_with_the_same_id_are_read_under_ids_of_their_own() -> None:
    room = Room([_code("a", "1"), _code("b", "2"), _code("a", "3")])
    assert [cell["id"] for cell in room.cells()] == ["a", "b", "a-2"]


def _code(cell_id: str, source: str) -> dict[str, Any]:
    return {
        "id": cell_id,
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }


class Typing:
    """A person who types while an edit is applied in slices, at each turn of the loop."""

    def __init__(self, room: Room, cell_id: str) -> None:
        self._room, self._cell_id = room, cell_id
        self.typed = 0

    async def go_on(self) -> None:
        while True:
            shared = self._room.notebook.shared_source(self._room.notebook.find(self._cell_id))
            with self._room.doc.transaction():
                shared.insert(0, "#")
            self.typed += 1
            await asyncio.sleep(0)


def _many(word: str) -> list[dict[str, Any]]:
    return [_code(f"c{n}", f"{word} {n}") for n in range(500)]


async def _apply(room: Room, word: str) -> Replaced:
    return await room.here.perform(replace_content(room.here, NotebookContent(_many(word))))


def test_who_types_between_slices_loses_nothing_and_is_named() -> None:
    room = Room(_many("old"))
    person = Typing(room, "c400")

    edit = replace_content(room.here, NotebookContent(_many("new")))

    def begin() -> Work[Replaced]:
        person.typed = 0  # what was typed before is part of what is replaced
        return edit.begin()

    async def both() -> Replaced:
        typing = asyncio.create_task(person.go_on())
        try:
            return await room.here.perform(replace(edit, begin=begin))
        finally:
            typing.cancel()

    done = asyncio.run(both())
    room.catch_up()
    sources = [cell["source"] for cell in room.cells()]
    assert person.typed > 3
    assert sources[400] == "#" * person.typed + "new 400"
    assert [source.replace("#", "") for source in sources] == [f"new {n}" for n in range(500)]
    assert done.people == {"c400": ["somebody"]}
    asyncio.run(room.here.perform(undo(room.here, 1, None, False)))
    sources = [cell["source"] for cell in room.cells()]
    assert sources[400].count("#") >= person.typed
    assert [source.replace("#", "") for source in sources] == [f"old {n}" for n in range(500)]


def test_a_call_that_is_cancelled_between_slices_is_completed() -> None:
    room = Room(_many("old"))

    async def cancelled() -> None:
        call = asyncio.create_task(_apply(room, "new"))
        while room.notebook.source(0) == "old 0":
            await asyncio.sleep(0)
        assert room.notebook.source(499) == "old 499"
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(cancelled())
    assert room.sources() == [f"new {n}" for n in range(500)]
    room.undo()
    assert room.sources() == [f"old {n}" for n in range(500)]


def test_a_peer_that_breaks_between_slices_leaves_all_of_it_in_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Room(_many("old"))
    applied = 0
    apply_one = room.peer._apply_one

    def failing(seat: Seat, update: bytes) -> None:
        nonlocal applied
        applied += 1
        if applied == 3:
            with room.peer._replica.transaction(seat.agent):
                room.peer.doc.apply_update(update)
                raise RuntimeError("a fault of this test")
        apply_one(seat, update)

    monkeypatch.setattr(room.peer, "_apply_one", failing)
    asyncio.run(_apply(room, "new"))
    assert applied == 3
    assert room.peer.broken
    assert room.sources() == [f"new {n}" for n in range(500)]


def test_nobody_else_of_this_process_writes_between_slices() -> None:
    room = Room(_many("old"))
    bob = OpenDocument("memory.ipynb", room.peer, room.seat("Bob"), "write")

    async def both() -> None:
        call = asyncio.create_task(_apply(room, "new"))
        while room.notebook.source(0) == "old 0":
            await asyncio.sleep(0)
        with pytest.raises(DocumentBusy), room.peer.output(bob.seat):
            room.peer.notebook.set_source(0, "at once")
        changed = replace_content(bob, NotebookContent(_many("other")), ["c7"])
        with pytest.raises(DocumentBusy):
            await bob.perform(changed)
        await room.peer.catch_up_to_write()  # waits
        with room.peer.output(bob.seat):
            room.peer.notebook.set_source(1, "after it")
        await call

    asyncio.run(both())
    assert room.sources() == ["new 0", "after it", *(f"new {n}" for n in range(2, 500))]
