"""What a crash took is made again, tried on thousands of histories: once, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook
from pycrdt import Doc

from jupyter_collaboration_mcp.collaboration import unsaved
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.reapply import Redone
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.errors import NothingToUndo, UndoRefused
from tests.harness.memory_room import MemoryLink

from .test_undo import TYPED, WRITTEN, Story

places = st.integers(0, 9)
own_steps = st.one_of(
    st.tuples(st.just("update"), places, WRITTEN),
    st.tuples(st.just("append"), places, WRITTEN),
    st.tuples(st.just("insert"), places, WRITTEN),
    st.tuples(st.just("delete"), places, st.just("")),
    st.tuples(st.just("retype"), places, st.sampled_from(["markdown", "raw", "code"])),
    st.tuples(st.just("undo"), st.integers(1, 3), st.just("")),
)
own = st.lists(own_steps, max_size=8)
shared = st.lists(st.one_of(own_steps, st.tuples(st.just("type"), places, TYPED)), max_size=8)
#: Without those that delete a cell or write it anew: who types in it at that moment loses that.
texts = st.lists(
    own_steps.filter(lambda step: step[0] in ("update", "append", "insert")), max_size=8
)

#: How far the store and the file had come when the server died.
moments = st.integers(0, 8)


class Crash:
    """A history, and a server that comes back with one of the states that its room was in."""

    def __init__(self, history: Any) -> None:
        self.story = Story()
        self._states = [self.story.room.doc.get_update()]
        for step in history:
            self._play(*step)
            self._states.append(self.story.room.doc.get_update())
        asyncio.run(self.story.room.peer.catch_up())

    @property
    def cells(self) -> Cells:
        """As they were in the end."""
        return cells(self.story.room.doc)

    def stored(self, moment: int) -> Doc[Any]:
        """A room that is loaded from the store."""
        doc: Doc[Any] = Doc()
        doc.apply_update(self._states[min(moment, len(self._states) - 1)])
        return doc

    def overruled(self, stored: int, saved: int) -> Doc[Any]:
        """A room whose store had other contents than the file, which won."""
        return self._take_over(self.stored(max(stored, saved)), saved)

    def anew(self, saved: int) -> Doc[Any]:
        """A room that had no store."""
        return self._take_over(Doc(), saved)

    def inherit(self, doc: Doc[Any]) -> list[str]:
        """A new peer comes into the room; returns what it would tell its agents."""
        peer = RoomPeer(MemoryLink(doc))
        peer.inherit(self.story.room.peer)
        return peer.notes

    def bring_back(self, doc: Doc[Any]) -> None:
        """A tab left open comes back."""
        doc.apply_update(self.story.room.doc.get_update())

    def _take_over(self, doc: Doc[Any], saved: int) -> Doc[Any]:
        YNotebook(doc).set(YNotebook(self.stored(saved)).get())
        return doc

    def _play(self, kind: str, place: int, what: str) -> None:
        room = self.story.room
        if kind == "undo":
            with contextlib.suppress(NothingToUndo, UndoRefused):
                self.story.undo(place)
        elif kind == "append":
            self.story.play("update", place, room.sources()[place % len(room.notebook)] + what)
        elif kind != "delete" or len(room.notebook) > 1:  # into an empty one Jupyter puts a cell
            self.story.play(kind, place, what)


Cells = list[tuple[str, str, str]]


def cells(doc: Doc[Any]) -> Cells:
    """Id, type and source of each cell."""
    shared = YNotebook(doc).ycells
    return [(cell["id"], cell["cell_type"], str(cell["source"])) for cell in shared]


@settings(max_examples=60, deadline=None)
@given(own, moments)
@example(
    [("update", 2, "a"), ("update", 0, ""), ("undo", 1, ""), ("append", 2, "a"), ("undo", 2, "")], 1
)
def test_what_the_store_lacks_is_made_again(history: Any, stored: int) -> None:
    crash = Crash(history)
    doc = crash.stored(stored)
    crash.inherit(doc)
    assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(own, moments, moments)
@example([("delete", 0, ""), ("update", 0, ""), ("undo", 1, "")], 0, 0)
@example([("retype", 0, "markdown")], 1, 0)
@example([("update", 0, "a"), ("update", 0, "")], 2, 0)
@example([("update", 0, ""), ("delete", 0, ""), ("undo", 2, "")], 3, 1)
@example([("update", 0, ""), ("delete", 0, ""), ("undo", 1, ""), ("update", 1, "a")], 2, 0)
@example([("retype", 0, "raw"), ("insert", 1, "b"), ("insert", 1, "c")], 1, 0)
def test_what_the_file_lacks_is_made_again(history: Any, stored: int, saved: int) -> None:
    crash = Crash(history)
    for doc in (crash.overruled(stored, saved), crash.anew(saved)):
        crash.inherit(doc)
        assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(shared, moments)
@example([("append", 3, "aaaaaaaaaa"), ("type", 7, "Ä"), ("type", 7, "Ä")], 2)
@example([("update", 1, "a"), ("type", 0, "Ä"), ("delete", 0, "")], 0)
@example([("type", 4, "Ä"), ("update", 0, "a")], 0)
def test_a_tab_that_brings_the_same_back_doubles_nothing(history: Any, stored: int) -> None:
    crash = Crash(history)
    doc = crash.stored(stored)
    crash.inherit(doc)
    crash.bring_back(doc)
    assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(texts, moments, moments)
@example([("append", 0, "a"), ("append", 0, "b")], 1, 0)
def test_nor_does_it_where_the_file_won(history: Any, stored: int, saved: int) -> None:
    crash = Crash(history)
    doc = crash.overruled(stored, saved)
    crash.inherit(doc)
    crash.bring_back(doc)
    assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(shared, moments)
def test_where_nothing_is_missing_nothing_is_said(history: Any, saved: int) -> None:
    crash = Crash(history)
    for doc in (crash.stored(len(history)), crash.overruled(saved, len(history))):
        assert crash.inherit(doc) == []
        assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(texts, moments, moments)
def test_what_a_person_was_the_first_to_type_stays(history: Any, stored: int, saved: int) -> None:
    crash = Crash(history)
    for doc in (crash.stored(stored), crash.overruled(stored, saved), crash.anew(saved)):
        for cell in YNotebook(doc).ycells:
            cell["source"].insert(len(str(cell["source"])) // 2, "Ä")
        typed_in = {cell_id for cell_id, _, _ in cells(doc)}
        crash.inherit(doc)
        now = {cell_id: source.count("Ä") for cell_id, _, source in cells(doc)}
        assert {cell_id for cell_id, count in now.items() if count == 1} == typed_in


def test_it_is_said_that_edits_are_gone_which_were_too_many_to_be_remembered() -> None:
    history = [("update", 0, "first"), ("update", 1, "second"), ("update", 2, "third")]
    with patch.object(unsaved, "MAX_STEPS", 2):
        crash = Crash(history)
        (note,) = crash.inherit(crash.anew(0))
        assert crash.inherit(crash.stored(3)) == []
    assert "reapplied in cell cell-1, cell cell-2, and these could not be reapplied: " in note
    assert "the oldest changes in cell cell-0, of which too many were unsaved" in note


def test_what_somebody_else_removed_is_not_made_again() -> None:
    crash = Crash([("append", 0, "<word>"), ("append", 0, "<other>")])
    room = crash.story.room
    with room.doc.transaction():
        room.notebook.set_source(0, room.sources()[0].replace("<word>", "<wand>"))
    asyncio.run(room.peer.catch_up())
    doc: Doc[Any] = Doc()
    doc.apply_update(room.doc.get_update())
    source = YNotebook(doc).ycells[0]["source"]
    source.insert(0, "typed since ")
    del source[len(str(source)) - len("<other>") :]  # which the server had not saved
    expected = f"{source}<other>"
    (note,) = crash.inherit(doc)
    assert "reapplied in cell cell-0." in note
    assert cells(doc)[0][2] == expected


def test_nor_is_it_if_its_letters_stand_elsewhere() -> None:
    crash = Crash([("append", 0, "\n<word>"), ("append", 0, "\n<w-o-r-d->\n<other>")])
    room = crash.story.room
    with room.doc.transaction():
        room.notebook.set_source(0, room.sources()[0].replace("<word>\n", ""))
    asyncio.run(room.peer.catch_up())
    expected = crash.cells
    doc = crash.anew(0)
    (note,) = crash.inherit(doc)
    assert "reapplied in cell cell-0." in note
    assert cells(doc) == expected


def test_what_somebody_deleted_since_the_restart_stays_deleted() -> None:
    crash = Crash([("insert", 0, "new"), ("append", 2, "<other>")])
    (new,) = {cell_id for cell_id, _, _ in crash.cells} - {f"cell-{n}" for n in range(4)}
    doc = crash.stored(2)
    notebook = Notebook(doc)
    with doc.transaction():
        notebook.delete([notebook.find(new)])
    assert crash.inherit(doc) == []
    assert new not in notebook.ids


def test_a_notice_about_thousands_of_cells_names_the_first() -> None:
    cells = [f"cell-{number:05}" for number in range(5_000)]
    said = str(Redone(cells, [f"cell {cell} is gone" for cell in cells]))
    assert "cell cell-00000, cell cell-00001, " in said
    assert said.count("4,980 more") == 2
    assert "cell cell-00019 is gone; 4,980 more" in said
    assert len(said) < 2_000


def test_a_type_that_somebody_else_gave_a_cell_is_not_changed_back() -> None:
    crash = Crash([("retype", 0, "markdown")])
    doc = crash.stored(1)
    notebook = Notebook(doc)
    with doc.transaction():
        notebook.set_type(0, "raw")  # which was on its way when the server died
    assert crash.inherit(doc) == []
    assert cells(doc)[0][1] == "raw"
