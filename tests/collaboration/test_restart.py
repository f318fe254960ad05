"""What a crash took is made again, tried on thousands of histories: once, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jupyter_ydoc import YNotebook
from pycrdt import Doc

from jupyter_collaboration_mcp.collaboration import unsaved_steps
from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    Change,
    MetadataChange,
    SourceChange,
    Step,
    TypeChange,
)
from jupyter_collaboration_mcp.collaboration.changes.change import ReapplyReport
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.restart import REAPPLY, reapply_lost
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.documents.text_document import Document
from jupyter_collaboration_mcp.errors import NothingToUndo, UndoRefused
from tests.harness.memory_room import MemoryLink

from .changes.documents import notebook, text_file
from .changes.documents import sources as said
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
def test_edits_missing_from_the_store_are_reapplied(history: Any, stored: int) -> None:
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
def test_edits_missing_from_the_file_are_reapplied(history: Any, stored: int, saved: int) -> None:
    crash = Crash(history)
    for doc in (crash.overruled(stored, saved), crash.anew(saved)):
        crash.inherit(doc)
        assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(shared, moments)
@example([("append", 3, "aaaaaaaaaa"), ("type", 7, "Ä"), ("type", 7, "Ä")], 2)
@example([("update", 1, "a"), ("type", 0, "Ä"), ("delete", 0, "")], 0)
@example([("type", 4, "Ä"), ("update", 0, "a")], 0)
def test_a_tab_that_brings_back_the_same_edits_duplicates_nothing(
    history: Any, stored: int
) -> None:
    crash = Crash(history)
    doc = crash.stored(stored)
    crash.inherit(doc)
    crash.bring_back(doc)
    assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(texts, moments, moments)
@example([("append", 0, "a"), ("append", 0, "b")], 1, 0)
def test_a_tab_that_brings_back_edits_overruled_by_the_file_duplicates_nothing(
    history: Any, stored: int, saved: int
) -> None:
    crash = Crash(history)
    doc = crash.overruled(stored, saved)
    crash.inherit(doc)
    crash.bring_back(doc)
    assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(shared, moments)
def test_nothing_is_reported_if_nothing_is_missing(history: Any, saved: int) -> None:
    crash = Crash(history)
    for doc in (crash.stored(len(history)), crash.overruled(saved, len(history))):
        assert crash.inherit(doc) == []
        assert cells(doc) == crash.cells


@settings(max_examples=60, deadline=None)
@given(texts, moments, moments)
def test_text_that_a_person_typed_first_stays(history: Any, stored: int, saved: int) -> None:
    crash = Crash(history)
    for doc in (crash.stored(stored), crash.overruled(stored, saved), crash.anew(saved)):
        for cell in YNotebook(doc).ycells:
            cell["source"].insert(len(str(cell["source"])) // 2, "Ä")
        typed_in = {cell_id for cell_id, _, _ in cells(doc)}
        crash.inherit(doc)
        now = {cell_id: source.count("Ä") for cell_id, _, source in cells(doc)}
        assert {cell_id for cell_id, count in now.items() if count == 1} == typed_in


def test_edits_beyond_the_remembered_limit_are_reported_as_lost() -> None:
    history = [("update", 0, "first"), ("update", 1, "second"), ("update", 2, "third")]
    with patch.object(unsaved_steps, "MAX_STEPS", 2):
        crash = Crash(history)
        (note,) = crash.inherit(crash.anew(0))
        assert crash.inherit(crash.stored(3)) == []
    assert "reapplied in cell cell-1, cell cell-2, and these could not be reapplied: " in note
    assert "the oldest changes in cell cell-0, of which too many were unsaved" in note


def test_text_that_somebody_else_removed_is_not_reapplied() -> None:
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


def test_removed_text_is_not_reapplied_even_if_its_letters_remain_elsewhere() -> None:
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


def test_a_cell_deleted_since_the_restart_stays_deleted() -> None:
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
    said = str(ReapplyReport(cells, [f"cell {cell} is gone" for cell in cells]))
    assert "cell cell-00000, cell cell-00001, " in said
    assert said.count("4,980 more") == 2
    assert "cell cell-00019 is gone; 4,980 more" in said
    assert len(said) < 2_000


def test_a_cell_type_set_by_somebody_else_is_not_changed_back() -> None:
    crash = Crash([("retype", 0, "markdown")])
    doc = crash.stored(1)
    notebook = Notebook(doc)
    with doc.transaction():
        notebook.set_type(0, "raw")  # which was on its way when the server died
    assert crash.inherit(doc) == []
    assert cells(doc)[0][1] == "raw"


def reapplied(now: Document, before: Document, *changes: Change) -> ReapplyReport:
    """Reapply changes, each of a step, that this process made."""
    steps = [Step(number, "call", (change,)) for number, change in enumerate(changes)]
    return reapply_lost(now, before, steps, [before.doc.client_id], transactions(now, []))


def transactions(document: Document, begun: list[str]) -> Any:
    @contextmanager
    def transaction(origin: str) -> Iterator[None]:
        begun.append(origin)
        with document.doc.transaction(origin=origin):
            yield

    return transaction


def copied(document: Document) -> Any:
    doc: Doc[Any] = Doc()
    doc.apply_update(document.doc.get_update())
    return type(document)(doc)


class TestAnotherHistory:
    """A room that took over a file, as it seems without any history."""

    def test_text_metadata_and_type_come_back(self) -> None:
        now = notebook("one\ndisk")
        before = notebook({**new_cell("raw", "one\nown"), "metadata": {"k": 1}})
        report = reapplied(
            now,
            before,
            SourceChange("a", "one", "one\nown"),
            TypeChange("a", {"cell_type": "code"}, "raw"),
            MetadataChange("a", {"k": None}, {"k": 1}),
        )
        assert said(now) == {"a": "one\ndisk\nown"}
        assert (now.cell_type(0), now.metadata(0)["k"]) == ("raw", 1)
        assert (report.cells, report.lost) == (["a"], [])

    def test_nothing_is_written_if_nothing_is_missing(self) -> None:
        before, begun = notebook("one two"), list[str]()
        steps = [Step(1, "call", (SourceChange("a", "one", "one two"),))]
        for source, expected in (("one two", []), ("one", [REAPPLY])):
            now = notebook(source)
            authors = [before.doc.client_id]
            reapply_lost(now, before, steps, authors, transactions(now, begun))
            assert begun == expected

    @pytest.mark.parametrize(
        ("there", "expected"), [("abc", "abxc"), ("ac", "axc"), ("ab", "abx"), ("c", "xc")]
    )
    def test_a_restored_cell_follows_its_nearest_former_predecessor(
        self, there: str, expected: str
    ) -> None:
        before = notebook(*({"id": cell_id, "source": f"of {cell_id}"} for cell_id in "abxc"))
        now = notebook(*({"id": cell_id, "source": f"of {cell_id}"} for cell_id in there))
        report = reapplied(now, before, CellInsertion("x", "of x", "code", "b"))
        assert "".join(now.ids) == expected
        assert said(now)["x"] == "of x"
        assert report == ReapplyReport(["x"])

    def test_a_deleted_cell_is_deleted_again_unless_it_was_edited_since(self) -> None:
        change = CellDeletion("b", {**new_cell("code", "two"), "id": "b"}, "a")
        now = notebook("one", "two")
        assert reapplied(now, notebook("one"), change) == ReapplyReport(["b"])
        assert now.ids == ["a"]
        now = notebook("one", "of Ana")
        assert reapplied(now, notebook("one"), change) == ReapplyReport(
            lost=["cell b, which was deleted, is back and was edited since"]
        )
        assert now.ids == ["a", "b"]

    def test_a_missing_cell_is_reported_only_if_it_existed_before(self) -> None:
        change = SourceChange("b", "", "two")
        assert reapplied(notebook("one"), notebook("one", "two"), change) == ReapplyReport(
            lost=["cell b is gone"]
        )
        assert reapplied(notebook("one"), notebook("one"), change) == ReapplyReport()
        inserted = CellInsertion("b", "")
        assert reapplied(notebook("one"), notebook("one"), inserted, change) == ReapplyReport()

    def test_an_undone_insertion_is_not_reported_as_lost(self) -> None:
        changes = [
            CellInsertion("b", "two"),
            CellDeletion("b", {**new_cell("code", "two"), "id": "b"}, "a"),
        ]
        assert reapplied(notebook("one"), notebook("one"), *changes) == ReapplyReport()


class TestWhatTheRoomHas:
    """It has all that came before something that it has."""

    FIRST = SourceChange("a", "one", "one <first>")

    def missing(self, now: Notebook, before: Notebook, *later: Change) -> list[str]:
        """Where something is reapplied that the first change and others did."""
        return reapplied(now, before, self.FIRST, *later).cells

    def test_an_inserted_cell_counts(self) -> None:
        inserted = CellInsertion("b", "two")
        before = notebook("one <first>", "two")
        assert self.missing(notebook("one", "two"), before, inserted) == []
        assert self.missing(notebook("one"), before, inserted) == ["a", "b"]
        assert self.missing(notebook("one", "two"), notebook("one <first>"), inserted) == ["a", "b"]

    def test_a_cell_that_existed_before_its_deletion_does_not_count(self) -> None:
        gone = CellDeletion("b", {**new_cell("code", "two"), "id": "b"}, "a")
        before = notebook("one <first>", "two")
        back = CellInsertion("b", "two")
        assert self.missing(notebook("one", "two"), before, gone, back) == ["a"]

    def test_a_text_with_a_new_word_counts(self) -> None:
        before = notebook("one <first>", "two <second>")
        second = SourceChange("b", "two", "two <second>")
        assert self.missing(notebook("one", "two <second>"), before, second) == []
        assert self.missing(notebook("one", "two"), before, second) == ["a", "b"]
        assert self.missing(notebook("one", "<second> two!"), before, second)[0] == "a"

    def test_a_text_with_a_word_that_it_had_before_does_not_count(self) -> None:
        changes = [
            SourceChange("b", "two <second>", "two"),
            SourceChange("b", "two", "two <second>"),
        ]
        before = notebook("one <first>", "two <second>")
        assert self.missing(notebook("one", "two <second>"), before, *changes) == ["a"]

    def test_later_edits_may_be_missing(self) -> None:
        before = notebook("one <first>", "two <second>", "three <third>")
        second = SourceChange("b", "two", "two <second>")
        third = SourceChange("c", "three", "three <third>")
        now = notebook("one", "two <second>", "three")
        assert self.missing(now, before, second, third) == ["c"]
        assert said(now) == {"a": "one", "b": "two <second>", "c": "three <third>"}


class TestTheSameHistory:
    """A room that came back with an earlier state: it gets the same characters."""

    def test_text_is_not_duplicated_when_somebody_else_brings_it_back_too(self) -> None:
        before = text_file("one")
        now = copied(before)
        before.set_source(0, "one two")
        assert reapplied(now, before, SourceChange("", "one", "one two")) == ReapplyReport([""])
        now.doc.apply_update(before.doc.get_update())
        assert str(now) == "one two"

    def test_text_is_not_duplicated_when_the_room_has_new_edits_elsewhere(self) -> None:
        before = notebook("one", "two")
        now = copied(before)
        with before.doc.transaction():
            before.set_source(0, "one own")
        with now.doc.transaction():
            now.set_source(1, "two of Ana")
        report = reapplied(now, before, SourceChange("a", "one", "one own"))
        assert report == ReapplyReport(["a"])
        now.doc.apply_update(before.doc.get_update())
        assert said(now) == {"a": "one own", "b": "two of Ana"}

    def test_a_cell_is_not_duplicated(self) -> None:
        before = notebook("one", "two")
        now = copied(before)
        with before.doc.transaction():
            before.insert(1, [{**new_cell("code", "new"), "id": "x"}])
        with now.doc.transaction():
            now.set_source(1, "two of Ana")
        report = reapplied(now, before, CellInsertion("x", "new", "code", "a"))
        assert report == ReapplyReport(["x"])
        now.doc.apply_update(before.doc.get_update())
        assert now.ids == ["a", "x", "b"]

    def test_text_of_others_around_own_text_is_restored_with_it(self) -> None:
        before = text_file("one")
        now, ana = copied(before), copied(before)
        ana.set_source(0, "one of Ana")
        before.doc.apply_update(ana.doc.get_update())
        before.set_source(0, "own one of Ana")
        change = SourceChange("", "one of Ana", "own one of Ana")
        assert reapplied(now, before, change) == ReapplyReport([""])
        assert str(now) == "own one of Ana"

    def test_text_of_others_elsewhere_is_not_restored(self) -> None:
        before = notebook("one", "two")
        now, ana = copied(before), copied(before)
        with ana.doc.transaction():
            ana.set_source(1, "two of Ana")
        before.doc.apply_update(ana.doc.get_update())
        with before.doc.transaction():
            before.set_source(0, "one own")
        change = SourceChange("a", "one", "one own")
        assert reapplied(now, before, change) == ReapplyReport(["a"])
        assert said(now) == {"a": "one own", "b": "two"}

    def test_a_deletion_is_reapplied(self) -> None:
        before = notebook("one", "two")
        now = copied(before)
        value = before.value(1)
        with before.doc.transaction():
            before.delete([1])
        assert reapplied(now, before, CellDeletion("b", value, "a")) == ReapplyReport(["b"])
        assert now.ids == ["a"]
