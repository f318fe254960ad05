"""A change of the file on disk overwrites a room, tried on thousands of histories."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jupyter_ydoc import YFile
from pycrdt import Doc, Text

from jupyter_collaboration_mcp.backends.protocols.room_ids import RoomId
from jupyter_collaboration_mcp.backends.protocols.rooms import Overwrite
from jupyter_collaboration_mcp.collaboration import unsaved_steps
from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    CellMove,
    Change,
    MetadataChange,
    SourceChange,
    Step,
    TypeChange,
)
from jupyter_collaboration_mcp.collaboration.changes.change import ReapplyReport
from jupyter_collaboration_mcp.collaboration.overwrite import reapply_overwritten
from jupyter_collaboration_mcp.collaboration.peer import RoomPeer
from jupyter_collaboration_mcp.collaboration.presence import Profile
from jupyter_collaboration_mcp.collaboration.seats import Seat
from jupyter_collaboration_mcp.collaboration.unsaved_steps import MAX_CHARACTERS
from jupyter_collaboration_mcp.documents.differ import Edit
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell
from jupyter_collaboration_mcp.workspace import cell_updates, editing, guards
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.cell_updates import CellUpdate
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from jupyter_collaboration_mcp.workspace.text_editing import TextChange, change_text
from tests.harness.examples import examples
from tests.harness.memory_room import MemoryLink, MemoryRoom, perform

from .changes.documents import notebook
from .changes.documents import sources as texts

LINES = [f"line {letter} é😀" for letter in "ABCDE"]

lines = st.integers(0, len(LINES) - 1)
histories = st.lists(
    st.one_of(
        st.tuples(st.just("agent"), lines),
        st.tuples(st.just("agent"), lines),
        st.tuples(st.just("person"), lines),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("save"), st.just(0)),
    ),
    max_size=12,
)
disks = st.lists(st.tuples(st.sampled_from(["change", "insert", "remove"]), lines), max_size=3)


class OverwrittenLink(MemoryLink):
    """A seat in a text's room that knows when the file came over it."""

    room_id = RoomId("text:file:memory")
    path = "memory.md"

    def __init__(self, room: Doc[Any]) -> None:
        self._before: int | None = None
        super().__init__(room)

    def overwrite(self, content: str) -> None:
        """What jupyter-server-ydoc does when a file has been changed."""
        self.note_overwrite()
        YFile(self._room).set(content)

    def note_overwrite(self) -> None:
        """The next update brings what a file says."""
        if self._before is None:
            self._before = len(self._received)

    def overwritten(self) -> Overwrite | None:
        before, self._before = self._before, None
        return None if before is None else Overwrite(range(before, before + 1))


class Story:
    """An agent and a person in a text, whose file somebody changes; all words are told apart."""

    def __init__(self, lines: Sequence[str] = LINES) -> None:
        self.doc: Doc[Any] = Doc()
        self.text: Text = self.doc.get("source", type=Text)
        self.text += "\n".join(lines)
        self.link = OverwrittenLink(self.doc)
        self.peer = RoomPeer(self.link)
        self.here = OpenDocument("memory.md", self.peer, Seat(Profile("ada <test>", "Ada")), "test")
        self.file = list(lines)
        self._count = 0

    def play(self, kind: str, number: int) -> None:
        if kind == "look":
            self.look()
        elif kind == "save":  # typing may cancel the word of it, when it is already done
            self.file = str(self).split("\n")
        elif kind == "agent":
            self.look()
            if (place := self._end_of(number)) is not None:
                self._change(TextChange(self._word("a"), place))
        elif kind == "within":
            self.look()
            self._change(TextChange(self._word("a"), number % (len(str(self)) + 1)))
        elif kind == "cut":
            self.look()
            self._cut(number)
        elif kind == "person":
            if (place := self._end_of(number)) is not None:
                self.text.insert(len(str(self)[:place].encode()), self._word("p"))
        elif words := self.words("a"):
            word = f" {words[number % len(words)]}"
            start = len(str(self)[: str(self).index(word)].encode())
            del self.text[start : start + len(word)]

    def change_file(self, changes: list[tuple[str, int]]) -> None:
        for kind, number in changes:
            number = number % len(self.file) if self.file else 0
            if kind == "insert" or not self.file:
                self.file.insert(number, f"new{self._word('d')}")
            elif kind == "change":
                self.file[number] += self._word("d")
            elif kind == "rewrite":
                self.file[number] = f"other{self._word('d')}"
            else:
                del self.file[number]
        self.link.overwrite("\n".join(self.file))

    def look(self) -> None:
        asyncio.run(self.peer.catch_up())

    def words(self, by: str) -> list[str]:
        return re.findall(rf"{by}\d+_", str(self))

    def __str__(self) -> str:
        return str(self.text)

    def _change(self, change: TextChange) -> None:
        perform(self.here, change_text(self.here, [change], Limits()))
        asyncio.run(self.peer.wait_acknowledged())

    def _cut(self, number: int) -> None:
        """As an agent, delete a line."""
        lines = str(self).splitlines(keepends=True)
        if lines:
            number %= len(lines)
            place = sum(map(len, lines[:number]))
            self._change(TextChange("", place, len(lines[number])))

    def _word(self, by: str) -> str:
        self._count += 1
        return f" {by}{self._count:03d}_"

    def _end_of(self, number: int) -> int | None:
        found = re.search(rf"^{LINES[number]}.*$", str(self), re.MULTILINE)
        return found.end() if found else None


@examples(150, 500)
@given(histories, disks, histories, disks)
def test_agents_edits_appear_once_or_are_reported_as_lost(
    first: Any, changes: Any, then: Any, more: Any
) -> None:
    story = Story()
    for history, change in ((first, changes), (then, more)):
        for step in history:
            story.play(*step)
        before = set(story.words("a"))
        saved = before & set(re.findall(r"a\d+_", "\n".join(story.file)))
        story.peer.notes.clear()
        story.change_file(change)
        removed = saved - set(story.words("a"))
        on_disk = sorted(story.words("d"))
        story.look()
        after = story.words("a")
        assert len(after) == len(set(after))  # nothing is doubled
        on_file = set(re.findall(r"a\d+_", "\n".join(story.file)))
        assert set(after) <= before | on_file  # what the person deleted stays so
        lost = before - set(after) - removed
        assert not lost or "could not be" in " ".join(story.peer.notes)
        assert sorted(story.words("d")) == on_disk
        assert str(story.peer.text) == str(story)
        for line in LINES:
            assert str(story).count(line) <= 1


@examples(150, 500)
@given(
    st.lists(st.sampled_from(["", "", "- item", "- item", "x", "else"]), min_size=1, max_size=6),
    st.lists(st.tuples(st.sampled_from(["within", "within", "cut"]), st.integers(0, 60))),
    st.lists(
        st.tuples(st.sampled_from(["rewrite", "insert", "remove"]), st.integers(0, 5)), max_size=4
    ),
    st.sampled_from([MAX_CHARACTERS, 100]),
)
@example(
    ["", "- item", "x", ""], [("within", 4), ("cut", 0)], [("remove", 0), ("rewrite", 0)], 100_000
)
def test_no_unsaved_word_is_lost_without_a_note(
    content: list[str], history: Any, changes: Any, remembered: int
) -> None:
    story = Story(content)
    with patch.object(unsaved_steps, "MAX_CHARACTERS", remembered):
        for step in history:
            story.play(*step)
    before = story.words("a")
    story.change_file(changes)
    on_disk = sorted(story.words("d"))
    story.look()
    lost = set(before) - set(story.words("a"))
    assert not lost or "could not be" in " ".join(story.peer.notes)
    assert sorted(story.words("d")) == on_disk


@examples(100, 300)
@given(histories)
def test_touching_the_file_loses_nothing_that_agents_wrote(history: Any) -> None:
    story = Story()
    for kind, number in history:
        if kind not in (
            "person",
            "save",
        ):  # what people had not saved is gone, and what stood on it
            story.play(kind, number)
    before = str(story)
    story.change_file([])
    story.look()
    assert str(story) == before


def test_a_reapplied_edit_can_be_undone() -> None:
    story = Story()
    story.play("agent", 1)
    story.change_file([("change", 3)])
    story.look()
    assert story.words("a") == ["a001_"]
    perform(story.here, editing.undo(story.here, 1, None, False))
    assert story.words("a") == []
    assert str(story) == "\n".join(story.file)


@pytest.mark.parametrize(("changed", "added"), [(10, 0), (0, 20_000)])
def test_reapplying_in_a_large_text_leaves_the_event_loop_free(changed: int, added: int) -> None:
    story = Story([f"{n:06d} the quick red fox" for n in range(40_000)])

    async def reapply() -> float:
        await story.peer.catch_up()
        for n in range(changed):
            change = TextChange(old_text=f"{3000 * n:06d} the", new_text=f"{3000 * n:06d} one")
            edit = change_text(story.here, [change], Limits())
            story.peer.perform_now(story.here.seat, "test", edit)
        if added:
            lines = "".join(f"\nown {n}" for n in range(added))
            edit = change_text(story.here, [TextChange(lines)], Limits())
            story.peer.perform_now(story.here.seat, "test", edit)
        # As much again at the same place, so that it is searched for what is lost.
        story.link.overwrite("\n".join([*story.file, *(f"disk {n}" for n in range(2 * added + 1))]))
        start = time.thread_time()
        await story.peer.catch_up()
        return time.thread_time() - start

    spent = asyncio.run(reapply())
    found = str(story)
    assert [found.count(word) for word in ("one", "own", "disk")] == [changed, added, 2 * added + 1]
    assert spent < 0.1


def test_typing_costs_little_while_many_cells_are_unsaved() -> None:
    room = MemoryRoom([f"step = {n}" for n in range(3_000)])
    here = OpenDocument("memory.ipynb", room.peer, room.seat(), "test")
    updates = [CellUpdate(n, old_text="step", new_text="x") for n in range(1_000)]
    perform(here, cell_updates.update_cells(here, updates, Limits(), guards.RunRequest(False)))

    async def follow() -> float:
        for n in range(200):
            with room.doc.transaction():
                room.notebook.set_source(500 + n % 2 * 1_000, f"typed {n}")
        start = time.thread_time()
        await room.peer.catch_up()
        return time.thread_time() - start

    assert asyncio.run(follow()) < 0.1
    assert room.peer.notebook.source(500) == "typed 198"
    assert room.peer._sync.unsaved.texts()["cell-500"] == "typed 198"


class TestReapply:
    """Cells that a file has overwritten, without a room."""

    def reapply(
        self,
        document: Notebook,
        before: dict[str, str],
        *changes: Change,
        late: Sequence[str] = (),
        strays: Sequence[str] = (),
    ) -> tuple[ReapplyReport, list[Change]]:
        steps = [Step(n, "call", (change,)) for n, change in enumerate(changes)]
        self.searches = 0

        def find() -> dict[str, list[Edit]]:
            self.searches += 1
            return {cell_id: [Edit(0, 1, "")] for cell_id in strays}

        with document.doc.transaction():
            return reapply_overwritten(document, steps, before, find, late)

    def test_text_metadata_and_type_come_back(self) -> None:
        document = notebook("disk", "other")
        changes = [
            SourceChange("a", "disk", "disk\nown"),
            TypeChange("a", {"cell_type": "code"}, "raw"),
            MetadataChange("a", {"k": None}, {"k": 1}),
        ]
        report, left = self.reapply(document, {"a": "disk\nown"}, *changes)
        assert (document.cell_type(0), document.metadata(0)["k"]) == ("raw", 1)
        assert document.source(0) == "disk\nown"
        assert report.cells == ["a"]
        assert left[-2:] == changes[1:]
        report, left = self.reapply(document, {"a": document.source(0)}, *changes)
        assert (report.cells, left) == ([], changes)

    def test_an_inserted_cell_comes_back_as_it_was(self) -> None:
        document = notebook("one")
        changes = [
            CellInsertion("x", "new", "code", "a"),
            SourceChange("x", "new", "newer"),
            TypeChange("x", {"cell_type": "code"}, "markdown"),
            MetadataChange("x", {"k": None}, {"k": 1}),
        ]
        report, left = self.reapply(document, {"x": "newer"}, *changes)
        assert texts(document) == {"a": "one", "x": "newer"}
        assert (document.cell_type(1), document.metadata(1)["k"]) == ("markdown", 1)
        assert (report.cells, report.lost) == (["x"], [])
        assert left == [CellInsertion("x", "newer", "code", "a"), *changes[2:]]

    def test_an_inserted_cell_that_still_exists_stays_unsaved(self) -> None:
        change = CellInsertion("a", "one")
        report, left = self.reapply(notebook("one"), {"a": "one"}, change)
        assert (report, left) == (ReapplyReport(), [change])

    def test_a_cell_that_existed_before_is_reported_as_gone(self) -> None:
        document = notebook()
        report, left = self.reapply(document, {"a": ""}, SourceChange("a", "one", ""))
        assert (report.lost, report.cells, left) == (["cell a is gone"], [], [])
        assert document.ids == []

    def test_a_deleted_cell_is_deleted_again_unless_it_was_edited_since(self) -> None:
        gone = {**new_cell("code", "old"), "id": "a"}
        change = CellDeletion("a", gone, None)
        document = notebook("old")
        report, left = self.reapply(document, {}, change)
        assert (document.ids, report.cells, left) == ([], ["a"], [change])
        report, left = self.reapply(document, {}, change)
        assert (report.cells, left) == ([], [change])
        document = notebook("of Ana")
        report, left = self.reapply(document, {}, change)
        assert (document.ids, report.cells, left) == (["a"], [], [])
        assert report.lost == ["cell a, which was deleted, is back and was edited since"]

    def test_every_earlier_text_of_a_deleted_cell_is_recognized(self) -> None:
        gone = {**new_cell("code", "new"), "id": "a"}
        document = notebook("old")
        self.reapply(document, {}, SourceChange("a", "old", "new"), CellDeletion("a", gone, None))
        assert document.ids == []

    def test_a_cell_that_others_deleted_before_the_overwrite_is_left_to_the_file(self) -> None:
        document = notebook("one")
        report, left = self.reapply(document, {}, SourceChange("a", "", "one"))
        assert (document.ids, report, left) == (["a"], ReapplyReport(), [])

    def test_a_deletion_that_was_undone_does_not_count(self) -> None:
        gone = {**new_cell("code", "one"), "id": "a"}
        document = notebook("one")
        back = CellInsertion("a", "one")
        _, left = self.reapply(document, {"a": "one"}, CellDeletion("a", gone, None), back)
        assert (document.ids, left) == (["a"], [back])

    def test_moves_are_not_reapplied(self) -> None:
        document = notebook("one", "two")
        assert self.reapply(document, {}, CellMove("a", "b")) == (ReapplyReport(), [])
        assert document.ids == ["a", "b"]

    def test_stray_text_is_searched_once_and_only_when_needed(self) -> None:
        document = notebook("own", "own")
        changes = [SourceChange("a", "", "own"), SourceChange("b", "", "own")]
        before = {"a": "own", "b": "own"}
        self.reapply(document, before, *changes)
        assert self.searches == 0
        self.reapply(document, before, *changes, late=["b"])
        assert self.searches == 1
        self.reapply(document, before, *changes, late=["a", "b"])
        assert self.searches == 1
