"""In which cells and lines people's carets are, by the states that their tabs send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Assoc, Doc, Text

from jupyter_collaboration_mcp.collaboration.carets import (
    carets_in,
    people_in_cells,
    people_in_lines,
)
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.documents.differ import Edit
from jupyter_collaboration_mcp.documents.text_document import TextDocument
from tests.harness.memory_room import MemoryRoom

LINES = "one\ntwo\nthree\n"


def state(name: str, *ends: dict[str, Any], username: str = "") -> dict[str, Any]:
    """A tab's state with a caret at each of some positions."""
    cursors = [{"anchor": end, "head": end, "primary": True, "empty": True} for end in ends]
    user = {"username": username or name.lower(), "name": name, "display_name": name}
    return {"user": user, "cursors": cursors}


def in_text(text: Text, position: int) -> dict[str, Any]:
    scope = text.sticky_index(0, Assoc.BEFORE).to_json()
    after = position < len(text)
    item = text.sticky_index(position, Assoc.AFTER).to_json()["item"] if after else None
    return {"type": scope.get("type"), "tname": scope.get("tname"), "item": item, "assoc": 0}


def room(*sources: str) -> MemoryRoom:
    return MemoryRoom(sources)


def people_at(peer: RoomPeer, cell_ids: Iterable[str]) -> dict[str, list[str]]:
    """The people whose carets are in some cells, by cell."""
    notebook = peer.notebook
    indexes = {notebook.find(cell_id): cell_id for cell_id in cell_ids if notebook.has(cell_id)}
    found = people_in_cells(notebook, indexes, carets_in(peer.link.states))
    return {indexes[index]: names for index, names in found.items()}


def in_cell(made: MemoryRoom, index: int, position: int = 0) -> dict[str, Any]:
    """Where a person clicks: in the room's own document, not in the peer's."""
    return in_text(made.notebook.shared_source(index), position)


def test_carets_are_found_in_their_cells_whatever_these_say() -> None:
    made = room("x = 1", "", "Größe 😀 = 1", "y")
    made.link.states = {
        1: state("Ana", in_cell(made, 1), in_cell(made, 2, 3)),
        2: state("Bo", in_cell(made, 2, 0)),
        3: state("Bo", in_cell(made, 2, 1)),  # in another tab
        4: state("Cy"),
        5: state("Ada", in_cell(made, 0), username="agent-0123456789abcdef"),
    }
    everywhere = people_at(made.peer, [f"cell-{n}" for n in range(4)])
    assert everywhere == {"cell-1": ["Ana"], "cell-2": ["Ana", "Bo"]}
    assert people_at(made.peer, ["cell-2", "gone"]) == {"cell-2": ["Ana", "Bo"]}
    assert people_at(made.peer, []) == {}


def test_a_caret_stays_in_its_cell_while_cells_and_text_change() -> None:
    made = room("first", "second")
    made.link.states = {1: state("Ana", in_cell(made, 1, 6))}
    notebook = made.peer.notebook
    with made.peer.doc.transaction():
        notebook.insert(0, [{"cell_type": "code", "source": "new"}])
        notebook.set_source(2, "nd, and more")
    assert people_at(made.peer, notebook.ids) == {"cell-1": ["Ana"]}


def test_a_person_without_a_name_is_somebody() -> None:
    made = room("x")
    nameless = state("", in_cell(made, 0))
    users: list[Any] = [{}, "odd", None]
    for user in users:
        made.link.states = {1: {**nameless, "user": user}}
        assert people_at(made.peer, ["cell-0"]) == {"cell-0": ["Somebody"]}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["user", "cursors", "head", "anchor", "type", "tname", "item"])
            | st.sampled_from(["client", "clock", "assoc", "name", "username", "display_name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.integers(0, 9), json_values, max_size=4))
def test_states_of_any_shape_do_no_harm(states: dict[int, Any]) -> None:
    made, text = room("x"), document(LINES)
    carets = carets_in(states)
    people_in_cells(made.notebook, [0], carets)
    people_in_lines(text, LINES, [Edit(0, 0, "x")], carets)


# -- lines of a text file --------------------------------------------------------------------


def document(source: str) -> TextDocument:
    made = TextDocument(Doc())
    shared = made.shared_source(0)
    shared += source
    return made


def lines(source: str, edit: Edit, *positions: int) -> dict[int, list[str]]:
    made = document(source)
    carets = carets_in({1: state("Ana", *(in_text(made.shared_source(0), p) for p in positions))})
    return people_in_lines(made, source, [edit], carets)


@pytest.mark.parametrize(
    ("edit", "position", "line"),
    [
        (Edit(5, 6, "X"), 4, 2),
        (Edit(5, 6, "X"), 7, 2),
        (Edit(5, 6, "X"), 3, None),
        (Edit(5, 6, "X"), 8, None),
        (Edit(0, 14, ""), 9, 3),
        (Edit(14, 14, "four\n"), 14, 4),
        (Edit(14, 14, "four\n"), 13, None),
        (Edit(0, 0, "zero\n"), 2, 1),
    ],
)
def test_a_caret_counts_in_the_lines_that_an_edit_touches(
    edit: Edit, position: int, line: int | None
) -> None:
    assert lines(LINES, edit, position) == ({} if line is None else {line: ["Ana"]})


def test_a_selection_counts_in_all_its_lines() -> None:
    made = document(LINES)
    shared = made.shared_source(0)
    selected = {"anchor": in_text(shared, 1), "head": in_text(shared, 9)}
    carets = carets_in({1: {**state("Ana"), "cursors": [selected]}})
    assert people_in_lines(made, LINES, [Edit(5, 5, "X")], carets) == {3: ["Ana"]}
    assert people_in_lines(made, LINES, [Edit(14, 14, "X")], carets) == {}


def test_nobodys_line_is_known_in_a_text_that_is_not_ascii() -> None:
    source = "Größe\ntwo\n"
    made = document(source)
    start = {"type": None, "tname": "source", "item": None, "assoc": -1}
    carets = carets_in({1: state("Ana", start)})
    assert carets
    assert people_in_lines(made, source, [Edit(0, 1, "X")], carets) == {}


def test_a_caret_at_a_character_that_has_not_arrived_is_nowhere() -> None:
    made = document(LINES)
    unknown = {"type": None, "tname": "source", "item": {"client": 5, "clock": 3}, "assoc": 0}
    later = in_text(made.shared_source(0), 3)
    later["item"]["clock"] += 1000
    carets = carets_in({1: state("Ana", unknown, later)})
    assert people_in_lines(made, LINES, [Edit(0, 14, "")], carets) == {}


def test_a_caret_in_text_that_was_deleted_is_where_that_was() -> None:
    made = document(LINES)
    shared = made.shared_source(0)
    carets = carets_in({1: state("Ana", in_text(shared, 5))})
    del shared[4:7]
    assert people_in_lines(made, "one\n\nthree\n", [Edit(4, 4, "2")], carets) == {2: ["Ana"]}
