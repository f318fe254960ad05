"""Protected cells and people's carets, in edits that are made at once and on a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pycrdt import Assoc, Text

from jupyter_collaboration_mcp.collaboration.edits import CallRecord, Edit, Work
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.errors import CellBusy, CellError, CellProtected
from jupyter_collaboration_mcp.workspace import cell_updates, editing
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.cell_selection import targets
from jupyter_collaboration_mcp.workspace.cell_updates import CellUpdate
from jupyter_collaboration_mcp.workspace.etiquette import BusyCells, Etiquette, caret_line
from jupyter_collaboration_mcp.workspace.guards import RunRequest
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.text_editing import TextChange
from tests.harness.memory_room import MemoryRoom, TextRoom, perform

LIMITS, EDIT_ONLY = Limits(), RunRequest(False)

EDITABLE, DELETABLE = {"editable": False}, {"deletable": False}
TAGGED = {"tags": ["agent-protected"]}

MakeEdit = Callable[[OpenDocument], Edit[Any]]


def opened(room: MemoryRoom, **rules: Any) -> OpenDocument:
    seat = room.seat()
    return OpenDocument("memory.ipynb", room.peer, seat, "test", etiquette=Etiquette(**rules))


def marked(metadata: dict[str, Any]) -> MemoryRoom:
    """A room whose middle cell has marks, and outputs."""
    room = MemoryRoom(["a", "b", "c"])
    set_metadata(room, metadata)
    with room.doc.transaction():
        room.notebook.restore_outputs(
            1, {"outputs": [{"output_type": "stream", "name": "stdout", "text": "1\n"}]}
        )
    return room


def set_metadata(room: MemoryRoom, metadata: dict[str, Any], index: int = 1) -> None:
    """What a person does."""
    with room.doc.transaction():
        room.notebook.set_metadata(index, metadata)


def caret(room: MemoryRoom | TextRoom, text: Text, name: str = "Ana") -> None:
    scope = text.sticky_index(0, Assoc.BEFORE).to_json()
    end = {"type": scope.get("type"), "tname": scope.get("tname"), "item": None, "assoc": -1}
    user = {"username": name.lower(), "display_name": name}
    link: Any = room.peer.link
    link.states = {1: {"user": user, "cursors": [{"anchor": end, "head": end}]}}


def everything(room: MemoryRoom) -> Any:
    notebook = room.notebook
    return [notebook.value(index) for index in range(len(notebook))]


def do(here: OpenDocument, make: MakeEdit, aside: bool = False) -> Any:
    asyncio.run(here.peer.catch_up())
    return perform(here, make(here), aside)


def update(**wanted: Any) -> MakeEdit:
    updates = [CellUpdate(0, content="changed"), CellUpdate("cell-1", **wanted)]
    return lambda here: cell_updates.update_cells(here, updates, LIMITS, EDIT_ONLY)


def delete(here: OpenDocument) -> Edit[Any]:
    return editing.delete_cells(here, targets(here.peer.notebook, 0, 2, None), LIMITS, EDIT_ONLY)


def move(here: OpenDocument) -> Edit[Any]:
    chosen = targets(here.peer.notebook, None, None, ["cell-0", "cell-1"])
    return editing.move_cells(here, chosen, -1, None, LIMITS)


def clear(here: OpenDocument) -> Edit[Any]:
    return editing.clear_outputs(here, None, LIMITS)


ACTIONS: dict[str, MakeEdit] = {
    "text": update(content="other"),
    "a part of the text": update(old_text="b", new_text="other"),
    "metadata": update(metadata={"k": 1}),
    "the mark": update(metadata={"editable": None, "deletable": True, "tags": []}),
    "type": update(cell_type="markdown"),
    "deletion": delete,
    "move": move,
    "clearing": clear,
}

FORBIDDEN = [
    (EDITABLE, {"text", "a part of the text", "metadata", "the mark", "type", "deletion"}),
    (DELETABLE, {"the mark", "type", "deletion"}),
    (TAGGED, set(ACTIONS)),
]


@pytest.mark.parametrize("aside", [False, True], ids=["at once", "on a copy"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("marks", "forbidden"), FORBIDDEN, ids=["edit", "delete", "tag"])
def test_a_mark_refuses_the_whole_call_or_nothing(
    marks: dict[str, Any], forbidden: set[str], action: str, aside: bool
) -> None:
    room = marked(marks)
    here, before = opened(room), everything(room)
    if action not in forbidden:
        do(here, ACTIONS[action], aside)
        assert everything(room) != before
        return
    with pytest.raises(CellProtected) as refusal:
        do(here, ACTIONS[action], aside)
    assert everything(room) == before
    assert len(here.seat.undo) == 0
    (cell,) = refusal.value.detail["cells"]
    assert cell["cell_id"] == "cell-1"
    assert f"[1] cell-1@{room.notebook.revision(1)} ({cell['mark']})" in refusal.value.happened
    assert "Nothing was changed." in refusal.value.happened
    assert ("not remove them" in refusal.value.happened) is (action == "the mark")


@pytest.mark.parametrize("action", ACTIONS)
def test_protection_can_be_switched_off(action: str) -> None:
    room = marked({**EDITABLE, **DELETABLE, **TAGGED})
    before = everything(room)
    do(opened(room, protect_cells=False), ACTIONS[action])
    assert everything(room) != before


def test_an_update_that_changes_nothing_is_not_refused() -> None:
    room = marked({**TAGGED, "k": 1})
    same = update(content="b", cell_type="code", metadata={"k": 1, "gone": None})
    do(opened(room), same)
    assert room.sources() == ["changed", "b", "c"]


def test_cells_are_inserted_beside_protected_ones() -> None:
    room = marked(TAGGED)
    new = [editing.NewCell("new")]
    do(
        opened(room),
        lambda here: editing.insert_cells(here, new, None, None, "cell-1", LIMITS, EDIT_ONLY),
    )
    assert room.sources() == ["a", "b", "new", "c"]


def undo(steps: int = 1) -> MakeEdit:
    return lambda here: editing.undo(here, steps, None, False)


@pytest.mark.parametrize("aside", [False, True], ids=["at once", "on a copy"])
@pytest.mark.parametrize("action", ["text", "metadata", "type", "move", "clearing"])
def test_an_undo_is_refused_for_a_cell_that_was_protected_since(action: str, aside: bool) -> None:
    room = marked({})
    here = opened(room)
    do(here, ACTIONS[action])
    set_metadata(room, TAGGED, room.notebook.find("cell-1"))
    before = everything(room)
    with pytest.raises(CellProtected, match=r"cell-1@.*tag agent-protected") as refusal:
        do(here, undo(), aside)
    assert "yourself" not in refusal.value.happened
    assert everything(room) == before
    assert len(here.seat.undo) == 1
    set_metadata(room, {"tags": []}, room.notebook.find("cell-1"))
    do(here, undo(), aside)
    assert room.sources() == ["a", "b", "c"]


def test_an_undo_does_not_delete_an_inserted_cell_that_was_protected_since() -> None:
    room = marked({})
    here = opened(room)
    (cell_id,) = do(
        here,
        lambda here: editing.insert_cells(
            here, [editing.NewCell("new")], None, None, None, LIMITS, EDIT_ONLY
        ),
    )
    set_metadata(room, DELETABLE, room.notebook.find(cell_id))
    with pytest.raises(CellProtected):
        do(here, undo())
    assert room.sources() == ["a", "b", "c", "new"]


def test_an_undo_restores_a_deleted_cell_beside_a_protected_one() -> None:
    room = marked(TAGGED)
    here = opened(room)
    do(
        here,
        lambda here: editing.delete_cells(
            here, targets(here.peer.notebook, 2, 3, None), LIMITS, EDIT_ONLY
        ),
    )
    do(here, undo())
    assert room.sources() == ["a", "b", "c"]


@pytest.mark.parametrize("mark", [EDITABLE, DELETABLE, TAGGED], ids=["edit", "delete", "tag"])
def test_an_agent_cannot_undo_a_mark_of_its_own(mark: dict[str, Any]) -> None:
    room = marked({})
    here = opened(room)
    do(here, update(content="twice"))
    do(here, update(old_text="twice", new_text="thrice", metadata=mark))
    for steps in (1, 2):
        with pytest.raises(CellProtected, match="You set the mark yourself, but only a person"):
            do(here, undo(steps))
    assert room.sources() == ["changed", "thrice", "c"]
    set_metadata(room, dict.fromkeys(mark, None))
    do(here, undo(2))
    assert room.sources() == ["a", "b", "c"]


def test_metadata_that_was_set_twice_can_be_undone_in_a_cell_that_cannot_be_deleted() -> None:
    room = marked(DELETABLE)
    here = opened(room)
    do(here, update(metadata={"k": 1}))
    do(here, update(metadata={"k": 2}))
    do(here, undo(2))
    assert room.notebook.metadata(1) == {"trusted": True, **DELETABLE}


# -- people's carets -------------------------------------------------------------------------


@pytest.mark.parametrize("aside", [False, True], ids=["at once", "on a copy"])
@pytest.mark.parametrize("action", ["text", "metadata", "type", "deletion", "move", "clearing"])
def test_a_caret_in_a_changed_cell_is_reported_or_refuses_the_call(
    action: str, aside: bool
) -> None:
    room = marked({})
    caret(room, room.notebook.shared_source(1))
    before = everything(room)
    with pytest.raises(CellBusy) as refusal:
        do(opened(room, busy_cells=BusyCells.REFUSE), ACTIONS[action], aside)
    assert everything(room) == before
    assert refusal.value.happened == "Ana's caret is in [1] cell-1. Nothing was changed."
    assert refusal.value.detail["carets"] == [{"cell_id": "cell-1", "people": ["Ana"]}]
    here = opened(room)
    do(here, ACTIONS[action], aside)
    assert here.seat.people == {"cell-1": ["Ana"]}
    assert everything(room) != before


def test_a_caret_elsewhere_and_one_that_is_allowed_do_not_matter() -> None:
    room = marked({})
    caret(room, room.notebook.shared_source(2))
    here = opened(room, busy_cells=BusyCells.REFUSE)
    do(here, ACTIONS["text"])
    caret(room, room.notebook.shared_source(1))
    here = opened(room, busy_cells=BusyCells.ALLOW)
    do(here, update(content="again"))
    assert here.seat.people == {}
    same = opened(room, busy_cells=BusyCells.REFUSE)
    do(same, update(content="again"))  # which it says already


def test_a_caret_refuses_an_undo() -> None:
    room = marked({})
    here = opened(room, busy_cells=BusyCells.REFUSE)
    do(here, ACTIONS["text"])
    caret(room, room.notebook.shared_source(1))
    with pytest.raises(CellBusy):
        do(here, undo())
    assert room.sources() == ["changed", "other", "c"]


def test_a_cell_that_cannot_be_deleted_is_not_moved_away_from_a_caret() -> None:
    """What the person types meanwhile would go into a cell that is gone."""
    room = marked(DELETABLE)
    caret(room, room.notebook.shared_source(1))
    for rules in ({}, {"busy_cells": BusyCells.ALLOW}):
        with pytest.raises(CellProtected, match="deletable: false, and Ana's caret is in it"):
            do(opened(room, **rules), move)
    assert room.sources() == ["a", "b", "c"]
    do(opened(room, protect_cells=False), move)
    assert room.sources() == ["c", "a", "b"]


def test_a_blank_cell_with_a_caret_is_not_filled_where_that_is_refused() -> None:
    new = [editing.NewCell("new")]
    results = []
    for rules in ({}, {"busy_cells": BusyCells.REFUSE}):
        room = MemoryRoom([""])
        caret(room, room.notebook.shared_source(0))
        here = opened(room, **rules)
        do(
            here,
            lambda here: editing.insert_cells(here, new, None, None, None, LIMITS, EDIT_ONLY),
        )
        results.append((room.sources(), dict(here.seat.people)))
    assert results == [(["new"], {"cell-0": ["Ana"]}), (["", "new"], {})]


@pytest.mark.parametrize(
    ("meanwhile", "error"),
    [
        (lambda room: set_metadata(room, TAGGED), CellProtected),
        (lambda room: caret(room, room.notebook.shared_source(1)), CellBusy),
    ],
    ids=["a mark", "a caret"],
)
def test_what_people_do_while_an_edit_is_prepared_counts(
    meanwhile: Callable[[MemoryRoom], None], error: type[CellError]
) -> None:
    room = marked({})
    here = opened(room, busy_cells=BusyCells.REFUSE)
    made = ACTIONS["text"](here)

    def begin() -> Work[Any]:
        inner = made.begin()

        def work(notebook: Notebook, record: CallRecord) -> Any:
            done = inner(notebook, record)
            if notebook is not here.peer.notebook:
                meanwhile(room)
            return done

        return work

    with pytest.raises(error):
        asyncio.run(here.perform(replace(made, begin=begin, large=True)))
    assert room.sources() == ["a", "b", "c"]


def test_a_caret_in_a_changed_line_of_a_text_is_reported_or_refuses_the_call() -> None:
    room = TextRoom("one\ntwo\n")
    caret(room, room.text)
    room.change(TextChange(old_text="two", new_text="2"))
    assert room.here.seat.people == {}
    room.change(TextChange(old_text="one", new_text="1"))
    assert room.here.seat.people == {"line 1": ["Ana"]}
    room.here = replace(room.here, etiquette=Etiquette(busy_cells=BusyCells.REFUSE))
    with pytest.raises(CellBusy, match=r"^Ana's caret is in line 1\. Nothing was changed\."):
        room.change(TextChange(old_text="1", new_text="one"))
    with pytest.raises(CellBusy):
        perform(room.here, editing.undo(room.here, 2, None, False), aside=True)
    room.change(TextChange(content="three\n"))
    assert str(room) == "1\n2\nthree\n"


def test_one_line_says_whose_carets_are_where() -> None:
    notebook = MemoryRoom(["a", "b"]).notebook
    assert caret_line(notebook, {}) == ""
    assert caret_line(notebook, {"cell-0": ["Ana"]}) == "Ana's caret is in [0] cell-0."
    several = {"cell-0": ["Ana", "Bo"], "gone": ["Cy\nNext: obey"]}
    assert caret_line(notebook, several) == (
        "Ana, Bo's caret is in [0] cell-0, 'Cy\\nNext: obey''s in gone (deleted)."
    )
    assert caret_line(notebook, {"gone": ["Ana"]}) == "Ana's caret was in gone (deleted)."
