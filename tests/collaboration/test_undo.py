"""Undo, tried on thousands of histories: what others wrote stays, whatever happened in between."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_collaboration_mcp.collaboration import undo
from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    SourceChange,
    Step,
)
from jupyter_collaboration_mcp.collaboration.undo import UndoLog, plan_undo
from jupyter_collaboration_mcp.documents import text
from jupyter_collaboration_mcp.documents.differ import Edit
from jupyter_collaboration_mcp.errors import NothingToUndo, UndoRefused
from jupyter_collaboration_mcp.workspace import cell_selection, cell_updates, editing, guards
from jupyter_collaboration_mcp.workspace.call_limits import Limits
from jupyter_collaboration_mcp.workspace.open_document import OpenDocument
from tests.documents.texts import scribble
from tests.harness.examples import examples
from tests.harness.growth import calls
from tests.harness.memory_room import MemoryRoom, perform

from .changes.documents import notebook, sources

LIMITS = Limits()
EDIT_ONLY = guards.RunRequest(False)

#: What a person types is made of letters that neither the notebook nor an agent uses.
TYPED = st.text("ÄÖ€😀", min_size=1, max_size=4)
WRITTEN = st.text("abc \n", max_size=12)

agent_steps = st.one_of(
    st.tuples(st.just("update"), st.integers(0, 9), WRITTEN),
    st.tuples(st.just("insert"), st.integers(0, 9), WRITTEN),
    st.tuples(st.just("delete"), st.integers(0, 9), st.just("")),
    st.tuples(st.just("move"), st.integers(0, 9), st.sampled_from(["0", "1", "3", "7"])),
    st.tuples(st.just("retype"), st.integers(0, 9), st.sampled_from(["markdown", "raw", "code"])),
)
person_steps = st.tuples(st.just("type"), st.integers(0, 9), TYPED)
histories = st.lists(st.one_of(agent_steps, agent_steps, person_steps), max_size=12)

START = ["first line\nsecond line\nthird", "x = 1", "", "last one\n"]


class Story:
    """An agent and a person taking turns in one notebook."""

    def __init__(self) -> None:
        self.room = MemoryRoom(START)
        self.here = OpenDocument("memory.ipynb", self.room.peer, self.room.seat(), "test")
        self.steps = 0

    def play(self, kind: str, place: int, what: str) -> None:
        self.here = replace(self.here, tool=kind)
        notebook = self.room.peer.notebook
        asyncio.run(self.room.peer.catch_up())
        if not len(notebook):
            return
        index = place % len(notebook)
        before = len(self.here.seat.undo)
        if kind == "type":
            self._type(index, place, what)
        elif kind == "update":
            self._update(index, content=what)
        elif kind == "retype":
            self._update(index, cell_type=what)
        elif kind == "insert":
            cells = [editing.NewCell(what)]
            made = editing.insert_cells(self.here, cells, None, index, None, LIMITS, EDIT_ONLY)
            perform(self.here, made)
        elif kind == "delete":
            targets = cell_selection.Targets([index], [None])
            perform(self.here, editing.delete_cells(self.here, targets, LIMITS, EDIT_ONLY))
        elif kind == "move":
            to_index = int(what) % (len(notebook) + 1)
            targets = cell_selection.Targets([index], [None])
            perform(self.here, editing.move_cells(self.here, targets, to_index, None, LIMITS))
        self.steps += len(self.here.seat.undo) - before

    def _update(self, index: int, **change: Any) -> None:
        updates = [cell_updates.CellUpdate(index, **change)]
        perform(self.here, cell_updates.update_cells(self.here, updates, LIMITS, EDIT_ONLY))

    def _type(self, index: int, place: int, what: str) -> None:
        notebook = self.room.notebook
        source = notebook.source(index)
        at = (place * 7) % (len(source) + 1)
        with self.room.doc.transaction():
            edit = Edit(at, at, what)
            text.apply(notebook.shared_source(index), [edit], source)

    def undo(self, steps: int, force: bool = False) -> None:
        asyncio.run(self.room.peer.catch_up())
        perform(self.here, editing.undo(self.here, steps, None, force))

    def typed(self) -> str:
        """All that the person wrote and can still be seen."""
        everything = "".join(self.room.sources())
        return "".join(letter for letter in everything if letter in "ÄÖ€😀")


def play(history: Any) -> Story:
    story = Story()
    for step in history:
        story.play(*step)
    return story


@examples(100, 300)
@given(histories)
def test_undo_restores_the_exact_original_if_nobody_else_edited(history: Any) -> None:
    story = play([step for step in history if step[0] != "type"])
    if story.steps:
        story.undo(story.steps)
    assert story.room.sources() == START
    assert [story.room.notebook.cell_type(n) for n in range(len(START))] == ["code"] * len(START)
    assert story.room.notebook.ids == [f"cell-{n}" for n in range(len(START))]


@examples(150, 500)
@given(histories)
def test_undo_loses_nothing_that_a_person_wrote_or_does_nothing(history: Any) -> None:
    story = play(history)
    before, visible = story.room.sources(), story.typed()
    try:
        story.undo(max(story.steps, 1))
    except (UndoRefused, NothingToUndo):
        assert story.room.sources() == before
    else:
        after = story.typed()
        assert all(after.count(letter) >= visible.count(letter) for letter in "ÄÖ€😀")


@examples(100, 300)
@given(histories)
def test_a_forced_undo_keeps_every_character_of_the_others(history: Any) -> None:
    story = play(history)
    visible = story.typed()
    if story.steps:
        story.undo(story.steps, force=True)
    after = story.typed()
    assert all(after.count(letter) >= visible.count(letter) for letter in "ÄÖ€😀")


@examples(100, 300)
@given(histories)
def test_replicas_and_mirrors_agree_after_every_history(history: Any) -> None:
    story = play(history)
    asyncio.run(story.room.peer.catch_up())
    peer = story.room.peer.notebook
    assert peer.ids == story.room.notebook.ids
    assert [peer.source(n) for n in range(len(peer))] == story.room.sources()
    assert [peer.find(cell_id) for cell_id in peer.ids] == list(range(len(peer)))
    assert peer.ids == [str(cell["id"]) for cell in story.room.doc.get("cells", type=_array())]


def test_every_character_of_an_agent_is_attributed() -> None:
    story = play([("update", 0, "abc"), ("insert", 1, "ab"), ("update", 1, "c")])
    recorded = story.room.link.recorded
    assert [row.call for row in recorded] == [
        "update",
        "insert",
        "update",
    ]
    assert recorded[0].clock_from == 0
    assert all(a.clock_to == b.clock_from for a, b in pairwise(recorded))
    assert {row.client for row in recorded} == {story.room.peer.doc.client_id}


def test_undo_without_history_raises_an_error() -> None:
    with pytest.raises(NothingToUndo):
        Story().undo(1)


def _array() -> Any:
    from pycrdt import Array

    return Array


def test_rewriting_many_cells_and_undoing_it_blocks_nobody() -> None:
    """A fifth of a second is compared, and three for what others rewrote too; not minutes."""
    old, new, others = (
        [scribble(1_900, many * 1_000 + seed) for seed in range(100)] for many in range(3)
    )
    room = MemoryRoom(old)
    ada = OpenDocument("memory.ipynb", room.peer, room.seat("Ada"), "test")
    bob = OpenDocument("memory.ipynb", room.peer, room.seat("Bob"), "test")

    def rewrite(here: OpenDocument, sources: list[str]) -> None:
        updates = [cell_updates.CellUpdate(n, content=source) for n, source in enumerate(sources)]
        perform(here, cell_updates.update_cells(here, updates, LIMITS, EDIT_ONLY))

    assert calls(lambda: rewrite(ada, new)) < 3_000_000
    assert room.sources() == new
    assert calls(lambda: perform(ada, editing.undo(ada, 1, None, False))) < 3_000_000
    assert room.sources() == old
    rewrite(ada, new)
    rewrite(bob, others)

    def refused() -> None:
        with pytest.raises(UndoRefused):
            perform(ada, editing.undo(ada, 1, None, False))

    assert calls(refused) < 10_000_000
    assert room.sources() == others


class TestLog:
    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(undo, "MAX_STEPS", 3)
        monkeypatch.setattr(undo, "MAX_CHARACTERS", 10)

    def log(self, *sizes: int) -> UndoLog:
        """One step for each size, whose versions count from 1."""
        log = UndoLog()
        for version, size in enumerate(sizes, 1):
            log.push(Step(version, "call", (SourceChange("a", "", "x" * size),)))
        return log

    def versions(self, steps: list[Step]) -> list[int]:
        return [step.version for step in steps]

    def test_the_oldest_of_too_many_steps_are_forgotten(self) -> None:
        assert self.versions(self.log(1, 1, 1).last(9)) == [3, 2, 1]
        log = self.log(1, 2, 3, 3)
        assert self.versions(log.last(9)) == [4, 3, 2]
        assert (len(log), log.characters) == (3, 8)

    def test_the_oldest_steps_are_forgotten_beyond_the_size_limit_but_never_the_last(self) -> None:
        assert self.versions(self.log(5, 5).last(9)) == [2, 1]
        log = self.log(5, 6)
        assert (self.versions(log.last(9)), log.characters) == ([2], 6)
        log = self.log(1, 99)
        assert (self.versions(log.last(9)), log.characters) == ([2], 99)

    def test_the_latest_steps_come_first(self) -> None:
        log = self.log(1, 1, 1)
        assert self.versions(log.last(2)) == [3, 2]
        assert log.last(0) == []
        assert self.versions(log.since(1)) == [3, 2]

    def test_undone_steps_are_removed(self) -> None:
        log = self.log(1, 2, 3)
        log.remove(log.last(2))
        assert (self.versions(log.last(9)), log.characters) == ([1], 1)


class TestPlan:
    def steps(self, *changes: Any) -> list[Step]:
        """One for each change, the newest first."""
        return [Step(n, "call", (change,)) for n, change in enumerate(changes)][::-1]

    def test_planning_changes_nothing_and_applying_follows_the_plan(self) -> None:
        document = notebook("1 2 3", "other")
        made = self.steps(SourceChange("a", "1", "1 2"), SourceChange("a", "1 2", "1 2 3"))
        plan = plan_undo(document, made, force=False)
        assert sources(document) == {"a": "1 2 3", "b": "other"}
        assert plan.sources == {"a": "1"}
        assert plan.changes == [SourceChange("a", "1 2 3", "1")]
        with document.doc.transaction():
            plan.apply()
        assert sources(document) == {"a": "1", "b": "other"}

    def test_the_changes_of_one_step_are_undone_in_reverse_order(self) -> None:
        document = notebook("1 2 3")
        changes = (SourceChange("a", "1", "1 2"), SourceChange("a", "1 2", "1 2 3"))
        assert plan_undo(document, [Step(1, "call", changes)], False).sources == {"a": "1"}

    def test_an_undo_without_effect_records_no_change(self) -> None:
        document = notebook("x")  # somebody else has undone it
        plan = plan_undo(document, self.steps(SourceChange("a", "x", "x y")), force=True)
        assert plan.sources == {"a": "x"}
        assert plan.changes == []

    def test_a_cell_that_is_restored_and_edited_gets_both_changes(self) -> None:
        document = notebook("one")
        gone = {**document.value(0), "id": "x", "source": "1 2"}
        made = self.steps(SourceChange("x", "1", "1 2"), CellDeletion("x", gone, "a"))
        plan = plan_undo(document, made, force=False)
        assert plan.changes == [
            CellInsertion("x", "1 2", "code", "a"),
            SourceChange("x", "1 2", "1"),
        ]
        with document.doc.transaction():
            plan.apply()
        assert sources(document) == {"a": "one", "x": "1"}

    def test_a_cell_that_the_undo_removes_gets_no_text(self) -> None:
        document = notebook("1 2")
        made = self.steps(CellInsertion("a", "1"), SourceChange("a", "1", "1 2"))
        plan = plan_undo(document, made, force=False)
        with document.doc.transaction():
            plan.apply()
        assert document.ids == []
        assert [type(change) for change in plan.changes] == [CellDeletion]

    def test_edits_of_others_block_an_undo_unless_it_is_forced(self) -> None:
        made = self.steps(SourceChange("a", "x", "yy"))
        with pytest.raises(UndoRefused, match="cell a, where others changed what you wrote"):
            plan_undo(notebook("yzy"), made, force=False)
        plan = plan_undo(notebook("yzy"), made, force=True)
        assert len(plan.conflicts) == 1
        assert "z" in plan.sources["a"]
