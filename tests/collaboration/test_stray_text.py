"""Edits that reach a room after it reloaded its file, found by who wrote them."""

from __future__ import annotations

from typing import Any

from pycrdt import Doc

from jupyter_collaboration_mcp.collaboration.changes import SourceChange, Step
from jupyter_collaboration_mcp.collaboration.stray_text import find_stray_text
from jupyter_collaboration_mcp.collaboration.unsaved_steps import Entry
from jupyter_collaboration_mcp.documents.differ import Edit
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.text_document import Document
from jupyter_collaboration_mcp.documents.updates import decode_state

from .changes.documents import notebook, sources, text_file


class Late:
    """A room that reloads its file, and an agent that has not heard of that yet."""

    def __init__(self, room: Document) -> None:
        self.room = room
        self._doc: Doc[Any] = Doc()
        self._doc.apply_update(room.doc.get_update())
        self._own = type(room)(self._doc)
        self.client = self._doc.client_id

    def write(self, source: str, cell: str = "", acknowledged: bool = False) -> Entry:
        """As the agent."""
        index, start = self._own.find(cell), self._clock()
        before = self._own.source(index)
        with self._doc.transaction():
            self._own.set_source(index, source)
        step = Step(1, "edit", (SourceChange(cell, before, source),))
        return Entry(step, acknowledged, (start, self._clock()))

    def reload(self, source: str, cell: str = "") -> None:
        """As the room."""
        shared = self.room.shared_source(self.room.find(cell))
        with self.room.doc.transaction():
            shared.clear()
            shared += source

    def arrive(self) -> None:
        """Now the room receives what the agent wrote."""
        self.room.doc.apply_update(self._doc.get_update(self.room.doc.get_state()))

    def found(self, *unsaved: Entry) -> dict[str, list[Edit]]:
        """What is found, which changes nothing."""
        before = sources(self.room)
        found = find_stray_text(self.room, self.client, unsaved)
        assert sources(self.room) == before
        return dict(found)

    def cut(self, edits: dict[str, list[Edit]], cell: str = "") -> list[str]:
        source = self.room.source(self.room.find(cell))
        return [source[edit.start : edit.end] for edit in edits[cell]]

    def _clock(self) -> int:
        return decode_state(self._doc.get_state()).get(self.client, 0)


def test_text_that_arrived_after_the_file_is_found() -> None:
    late = Late(text_file("a é😀 b"))
    entry = late.write("a é😀 of Ada 😀 b")
    late.reload("from 😀 disk é")
    late.arrive()
    found = late.found(entry)
    assert late.cut(found) == ["of Ada 😀 "]
    assert [edit.text for edit in found[""]] == [""]


def test_each_piece_of_text_is_found() -> None:
    late = Late(text_file("first é second"))
    steps = [late.write("first one é second"), late.write("first one é two second")]
    late.reload("disk")
    late.arrive()
    with late.room.doc.transaction():
        shared = late.room.shared_source(0)
        shared.insert(str(shared).index("two"), "é of Bob ")
    assert "".join(late.cut(late.found(*steps))) == "one two "
    assert late.cut(late.found(steps[1])) == ["two "]


def test_text_that_the_file_did_not_overwrite_is_found_where_it_is() -> None:
    late = Late(text_file("é b"))
    entry = late.write("é x b")
    late.arrive()
    assert late.found(entry) == {"": [Edit(2, 4, "")]}


def test_nothing_is_found_before_it_arrived() -> None:
    late = Late(text_file("a b"))
    entry = late.write("a new b")
    late.reload("disk")
    assert late.found(entry) == {}


def test_nothing_is_found_of_a_step_that_only_deleted() -> None:
    late = Late(text_file("a b"))
    assert late.found(late.write("a")) == {}
    assert late.found() == {}


def test_text_that_the_room_had_before_the_file_is_not_late() -> None:
    late = Late(text_file("a b"))
    entry = late.write("a new b", acknowledged=True)
    late.arrive()
    assert late.found(entry) == {}


def test_text_that_the_room_has_only_in_part_is_not_late() -> None:
    late = Late(text_file("a b"))
    entry = late.write("a new b")
    late.arrive()
    with late.room.doc.transaction():
        late.room.set_source(0, "a ne b")
    assert late.found(entry) == {}


def test_text_of_other_steps_and_clients_is_left_alone() -> None:
    late = Late(text_file("a b"))
    late.write("a old b")
    entry = late.write("a old new b")
    late.write("a old new newest b")
    late.reload("disk")
    late.arrive()
    assert late.cut(late.found(entry)) == ["new "]
    assert find_stray_text(late.room, late.client + 1, [entry]) == {}


class TestNotebook:
    def cells(self) -> Notebook:
        return notebook("one", "two", "three")

    def test_text_is_found_in_each_cell(self) -> None:
        late = Late(self.cells())
        entries = [late.write("one, é", "a"), late.write("é, two", "b")]
        late.reload("disk", "a")
        late.reload("disk", "b")
        late.arrive()
        found = late.found(*entries)
        assert found.keys() == {"a", "b"}
        assert late.cut(found, "a") == [", é"]
        assert late.cut(found, "b") == ["é, "]

    def test_text_is_found_even_if_the_room_has_had_it_or_has_a_part_of_it(self) -> None:
        late = Late(self.cells())
        entry = late.write("one, of Ada", "a", acknowledged=True)
        late.arrive()
        with late.room.doc.transaction():
            late.room.set_source(0, "one, of")
        assert late.cut(late.found(entry), "a") == [", of"]

    def test_a_cell_that_is_gone_is_skipped(self) -> None:
        late = Late(self.cells())
        entries = [late.write("one, x", "a"), late.write("two, y", "b")]
        late.arrive()
        assert isinstance(late.room, Notebook)
        with late.room.doc.transaction():
            late.room.delete([0])
        found = late.found(*entries)
        assert found.keys() == {"b"}
        assert late.cut(found, "b") == [", y"]

    def test_a_step_that_only_deleted_does_not_hide_others(self) -> None:
        late = Late(self.cells())
        entries = [late.write("o", "a"), late.write("two, y", "b")]
        late.arrive()
        assert late.found(*entries) == {"b": [Edit(3, 6, "")]}
