"""What the cells said before a file came over them, however the updates arrive."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Doc

from jupyter_collaboration_mcp.backends.protocols.rooms import Overwrite, Piece
from jupyter_collaboration_mcp.collaboration import unsaved_steps as module
from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    SourceChange,
    Step,
)
from jupyter_collaboration_mcp.collaboration.unsaved_steps import UnsavedSteps
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell


class Room:
    """A notebook in which an agent has changed cell `a`, and `UnsavedSteps` of it."""

    def __init__(self) -> None:
        self.doc: Doc[Any] = Doc()
        self.notebook = Notebook(self.doc)
        cells = [{**new_cell("markdown", f"old {name}"), "id": name} for name in "ab"]
        with self.doc.transaction():
            self.notebook.insert(0, cells)
        self.unsaved = UnsavedSteps(self.notebook)
        self.edit("a", "old a, of Ada")

    def write(self, cell: str, text: str) -> None:
        with self.doc.transaction():
            self.notebook.set_source(self.notebook.find(cell), text)

    def edit(self, cell: str, text: str) -> None:
        """As an agent."""
        before = self.notebook.source(self.notebook.find(cell))
        self.write(cell, text)
        self.unsaved.add(Step(1, "edit", (SourceChange(cell, before, text),)))

    def update(self, cell: str, text: str, piece: bool = False) -> None:
        """As the room."""
        before = self.unsaved.before()
        self.write(cell, text)
        self.unsaved.after(Piece() if piece else b"", before)


@pytest.fixture
def room() -> Room:
    return Room()


def test_the_texts_before_an_update_are_known(room: Room) -> None:
    room.unsaved.begin()
    room.update("b", "of Ana")
    room.update("a", "from disk")
    assert room.unsaved.texts_before(Overwrite(range(1, 2))) == {"a": "old a, of Ada"}
    assert room.unsaved.texts_before(Overwrite(range(2, 3))) == {"a": "from disk"}


def test_partial_updates_belong_to_the_update_that_completes_them(room: Room) -> None:
    for _ in range(2):
        room.unsaved.begin()
        room.update("a", "half from disk", piece=True)
    room.unsaved.begin()
    room.update("a", "from disk")
    assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {"a": "old a, of Ada"}


def test_the_texts_before_the_previous_round_are_known_too(room: Room) -> None:
    room.unsaved.begin()
    room.update("a", "from disk")
    room.unsaved.begin()
    assert room.unsaved.texts_before(Overwrite.between(-1, 0)) == {"a": "old a, of Ada"}


def test_edits_made_between_partial_updates_are_not_forgotten(room: Room) -> None:
    room.unsaved.begin()
    room.update("a", "old a", piece=True)
    room.edit("b", "old b, of Ada")
    room.edit("a", "very old a")
    gone = {**new_cell("markdown", "old b"), "id": "b"}
    room.unsaved.add(Step(1, "delete", (CellDeletion("b", gone, "a"),)))
    room.unsaved.add(Step(1, "insert", (CellInsertion("c", "new"),)))
    room.unsaved.begin()
    room.update("a", "old a")
    assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {
        "a": "very old a, of Ada",
        "c": "new",
    }


def test_two_insertions_at_the_same_place_are_both_known(room: Room) -> None:
    room.unsaved.begin()
    room.update("a", "old a", piece=True)
    room.edit("a", "old a, again of Ada")
    room.unsaved.begin()
    room.update("a", "old a")
    assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {"a": "old a, of Ada, again of Ada"}


def test_the_later_of_two_changes_at_the_same_place_counts(room: Room) -> None:
    room.unsaved.begin()
    room.update("a", "old a", piece=True)
    room.edit("a", "old")
    room.unsaved.begin()
    room.update("a", "old a")
    assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {"a": "old"}


def test_the_update_that_removed_the_most_counts_as_the_overwrite(room: Room) -> None:
    room.unsaved.begin()
    room.update("a", "from disk")
    room.update("b", "of Ana")
    assert room.unsaved.texts_before(Overwrite(range(0, 2))) == {"a": "old a, of Ada"}
    room.unsaved.begin()
    room.edit("a", "of Ada again")
    room.update("b", "once more of Ana")
    room.update("a", "from disk")
    assert room.unsaved.texts_before(Overwrite(range(0, 2))) == {"a": "of Ada again"}


def test_acknowledged_steps_are_forgotten_after_a_save(room: Room) -> None:
    sent = room.unsaved.snapshot()
    room.edit("b", "later")
    room.unsaved.acknowledge(sent)
    room.unsaved.mark_saved()
    assert [step.changes for step in room.unsaved.steps] == [(SourceChange("b", "old b", "later"),)]
    room.unsaved.begin()
    assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {"b": "later"}


def test_a_save_forgets_only_the_steps_sent_before_it(room: Room) -> None:
    sent = room.unsaved.snapshot()
    room.edit("b", "later")
    room.unsaved.mark_saved(sent)
    assert [step.changes for step in room.unsaved.steps] == [(SourceChange("b", "old b", "later"),)]


def test_a_step_without_an_agent_may_belong_to_anyone(room: Room) -> None:
    room.unsaved.clear()
    assert not room.unsaved.has_of("ada")
    room.unsaved.add(Step(1, "edit", (), "ada"))
    assert [room.unsaved.has_of(agent) for agent in ("ada", "bob")] == [True, False]
    room.unsaved.add(Step(2, "reapply", ()))
    assert room.unsaved.has_of("bob")


def test_a_new_step_has_only_the_given_facts(room: Room) -> None:
    room.unsaved.add(Step(1, "edit", ()), True, (3, 7))
    first, second = room.unsaved.snapshot()
    assert (first.acknowledged, first.written) == (False, (0, 0))
    assert (second.acknowledged, second.written) == (True, (3, 7))


def test_cell_texts_stay_known_when_cells_are_inserted_and_deleted(room: Room) -> None:
    assert room.unsaved.texts() == {"a": "old a, of Ada"}
    with room.doc.transaction():
        room.notebook.insert(0, [{**new_cell("code", "new"), "id": "c"}])
        room.notebook.set_source(1, "typed")
    assert room.unsaved.texts() == {"a": "typed"}
    with room.doc.transaction():
        room.notebook.delete([1])
    assert room.unsaved.texts() == {}


def test_before_the_first_update_the_current_texts_count(room: Room) -> None:
    room.write("a", "typed")
    room.unsaved.begin()
    room.update("a", "from disk")
    assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {"a": "typed"}


class TestVeryMany:
    """Steps that a server cannot save."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_CHARACTERS", 100)

    def test_no_more_steps_are_remembered_than_the_size_limit_allows(self, room: Room) -> None:
        for number in range(1_000):
            room.edit("b", f"{number:03d} of Ada")
        assert sum(step.characters for step in room.unsaved.steps) <= 100
        assert room.unsaved.steps[-1].changes == (SourceChange("b", "998 of Ada", "999 of Ada"),)

    def test_steps_are_remembered_up_to_the_size_limit(self, room: Room) -> None:
        size = room.unsaved.steps[0].characters
        room.unsaved.add(Step(2, "edit", (SourceChange("b", "", "x" * (100 - size)),)))
        assert len(room.unsaved.steps) == 2
        room.unsaved.add(Step(3, "edit", (SourceChange("b", "", "x"),)))
        assert [step.version for step in room.unsaved.steps] == [2, 3]

    def test_steps_after_an_update_are_limited_too(self, room: Room) -> None:
        room.unsaved.begin()
        room.update("a", "half from disk", piece=True)
        for number in range(100):
            room.edit("b", f"{number} of Ada")
        assert room.unsaved.before().since == room.unsaved.steps

    def test_one_step_is_always_remembered(self, room: Room) -> None:
        room.edit("b", "b" * 1_000)
        assert [step.characters for step in room.unsaved.steps] == [1_005]

    def test_small_steps_are_limited_by_their_number(
        self, room: Room, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MAX_STEPS", 3)
        for _ in range(10):
            room.unsaved.add(Step(1, "move", ()))
        assert len(room.unsaved.steps) == 3

    def test_cell_texts_are_known_even_for_forgotten_steps(self, room: Room) -> None:
        room.unsaved.begin()
        room.update("a", "half from disk", piece=True)
        for number in range(100):
            room.edit("b", f"{number} of Ada")
        room.unsaved.begin()
        room.update("a", "from disk")
        assert room.unsaved.texts_before(Overwrite(range(0, 1))) == {
            "a": "old a, of Ada",
            "b": "99 of Ada",
        }

    def test_forgotten_changes_are_reported_for_cells_whose_text_differs(self, room: Room) -> None:
        for number in range(100):
            room.edit("b", f"{number} of Ada")
        said = room.unsaved.texts()
        assert said == {"a": "old a, of Ada", "b": "99 of Ada"}
        assert room.unsaved.missing(said) == []
        room.write("a", "old a")
        assert room.unsaved.missing(said) == [
            "the oldest changes in cell a, of which too many were unsaved"
        ]

    def test_forgotten_changes_are_safe_once_later_ones_are_saved(self, room: Room) -> None:
        for number in range(100):
            room.edit("b", f"{number} of Ada")
        said = room.unsaved.texts()
        room.unsaved.mark_saved()  # but the room had none of it
        room.write("a", "old a")
        assert room.unsaved.missing(said)
        room.unsaved.acknowledge(room.unsaved.snapshot())
        room.unsaved.mark_saved()
        assert not room.unsaved
        assert room.unsaved.missing(said) == []


def test_an_edit_next_to_text_from_a_partial_overwrite_does_not_keep_that_text(
    room: Room,
) -> None:
    before = room.unsaved.texts()["a"]
    room.unsaved.begin()
    room.update("a", f"back {before}", piece=True)  # which had been removed
    room.edit("a", f"new back {before}")
    room.unsaved.begin()
    room.update("a", "old a")
    assert room.unsaved.texts_before(Overwrite(range(0, 1)))["a"] == f"new {before}"
