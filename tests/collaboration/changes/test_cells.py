"""Cells that come, go or are moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    CellMove,
    Change,
    SourceChange,
)
from jupyter_collaboration_mcp.collaboration.changes.change import OverwrittenCell, ReapplyReport
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell

from .documents import notebook, planned, sources, undone

CELL = {**new_cell("markdown", "of x"), "id": "x"}


def test_an_insertion_concerns_a_whole_cell_that_exists_afterwards() -> None:
    change = CellInsertion("x", "12345")
    assert (change.size, change.texts(), change.keys) == (5, ("12345",), None)
    assert change.exists_after is True
    assert change.is_work


def test_a_deletion_concerns_a_whole_cell_that_is_gone_afterwards() -> None:
    change = CellDeletion("x", CELL, None)
    assert (change.size, change.texts(), change.keys) == (len(str(CELL)), ("of x",), None)
    assert change.exists_after is False
    assert change.is_work


def test_a_move_loses_nobodys_work() -> None:
    change = CellMove("x", None)
    assert (change.size, change.texts(), change.keys) == (0, (), None)
    assert change.exists_after is None
    assert not change.is_work


class TestUndoOfAnInsertion:
    def test_the_cell_goes(self) -> None:
        document = notebook("one", "two")
        value = document.value(1)
        plan = undone(document, CellInsertion("b", "two", "code", "a"))
        assert sources(document) == {"a": "one"}
        assert plan.removed == {"b"}
        assert plan.changes == [CellDeletion("b", value, "a")]

    def test_a_cell_that_others_edited_stays(self) -> None:
        plan = planned(notebook("one", "of Ana"), CellInsertion("b", "two"))
        (conflict,) = plan.conflicts
        assert conflict.startswith("cell b, which you inserted and others edited, stays:\n")
        assert "+of Ana" in conflict
        assert (plan.removed, plan.actions, plan.changes) == (set(), [], [])

    def test_of_a_cell_that_others_edited_only_their_text_stays(self) -> None:
        plan = planned(notebook("one", "two\nof Ana"), CellInsertion("b", "two"))
        assert plan.sources == {"b": "\nof Ana"}
        assert len(plan.conflicts) == 1
        assert plan.removed == set()

    def test_a_missing_cell_is_not_a_conflict(self) -> None:
        plan = planned(notebook("one"), CellInsertion("b", "two"))
        assert (plan.conflicts, plan.notes, plan.actions, plan.removed) == ([], [], [], set())

    def test_undoing_all_later_changes_too_removes_the_cell(self) -> None:
        document = notebook("one")
        gone = {**CELL, "source": "later"}
        changes = [
            CellInsertion("x", "of x"),
            SourceChange("x", "of x", "later"),
            CellDeletion("x", gone, "a"),
        ]
        plan = undone(document, *changes)
        assert sources(document) == {"a": "one"}
        assert plan.removed == {"x"}
        assert plan.conflicts == []


class TestUndoOfADeletion:
    @pytest.mark.parametrize(
        ("follows", "expected"), [(None, "xab"), ("a", "axb"), ("b", "abx"), ("gone", "abx")]
    )
    def test_the_cell_comes_back_where_it_was(self, follows: str | None, expected: str) -> None:
        document = notebook("one", "two")
        plan = undone(document, CellDeletion("x", CELL, follows))
        assert "".join(document.ids) == expected
        index = document.find("x")
        assert (document.source(index), document.cell_type(index)) == ("of x", "markdown")
        assert plan.changes == [CellInsertion("x", "of x", "markdown", follows)]
        assert (plan.sources, plan.types) == ({"x": "of x"}, {"x": "markdown"})
        assert plan.added == {"x": "of x"}

    def test_a_cell_that_already_came_back_stays_as_it_is(self) -> None:
        plan = planned(notebook("one"), CellDeletion("a", {**CELL, "id": "a"}, None))
        assert (plan.actions, plan.changes, plan.sources, plan.added) == ([], [], {}, {})

    def test_a_cell_that_the_same_undo_removed_comes_back(self) -> None:
        document = notebook("one")
        changes = [CellDeletion("a", {**CELL, "id": "a"}, None), CellInsertion("a", "one")]
        plan = planned(document, *changes)
        assert plan.has("a")
        assert plan.removed == set()


class TestUndoOfAMove:
    @pytest.mark.parametrize(
        ("follows", "expected"), [(None, "bac"), ("a", "abc"), ("c", "acb"), ("gone", "acb")]
    )
    def test_the_cell_goes_back(self, follows: str | None, expected: str) -> None:
        document = notebook("one", "two", "three")
        undone(document, CellMove("b", follows))
        assert "".join(document.ids) == expected

    def test_a_missing_cell_is_ignored(self) -> None:
        plan = planned(notebook("one"), CellMove("b", None))
        assert (plan.actions, plan.notes, plan.conflicts) == ([], [], [])


class TestReplay:
    def test_insertions_deletions_and_moves_are_replayed(self) -> None:
        document, texts = notebook("one", "two"), {"b": "older"}
        CellInsertion("x", "of x").replay(texts, document)
        CellMove("a", None).replay(texts, document)
        CellMove("b", None).replay(texts, document)
        CellMove("gone", None).replay(texts, document)
        assert texts == {"a": "one", "b": "older", "x": "of x"}
        CellDeletion("x", CELL, None).replay(texts, document)
        CellDeletion("x", CELL, None).replay(texts, document)
        assert texts == {"a": "one", "b": "older"}

    def test_the_presence_or_absence_of_a_cell_counts(self) -> None:
        lines = Counter(["of x"])
        inserted, deleted = CellInsertion("x", "of x"), CellDeletion("x", CELL, None)
        assert (inserted.amount_in(lines), inserted.amount_in(None)) == (1, 0)
        assert (deleted.amount_in(lines), deleted.amount_in(None)) == (0, 1)
        assert (CellMove("x", None).amount_in(lines), CellMove("x", None).amount_in(None)) == (0, 0)


def test_an_insertion_wrote_no_text() -> None:
    assert not CellInsertion("x", "of x").wrote("of x", ())


class TestOverwrite:
    def cell(self, document: Notebook, said: str = "") -> OverwrittenCell:
        return OverwrittenCell("x", document, said, ReapplyReport())

    def done(self, document: Notebook, changes: Iterable[Change]) -> list[Change]:
        with document.doc.transaction():
            return list(changes)

    def test_a_cell_is_inserted_again_with_what_it_said(self) -> None:
        document = notebook("one", "two")
        change = CellInsertion("x", "of x", "markdown", "a")
        cell = self.cell(document, "of x, edited")
        left = self.done(document, change.insert_again(cell))
        assert document.ids == ["a", "x", "b"]
        assert (document.source(1), document.cell_type(1)) == ("of x, edited", "markdown")
        assert left == [CellInsertion("x", "of x, edited", "markdown", "a")]
        assert cell.is_inserted
        assert cell.is_changed

    def test_a_cell_that_was_not_inserted_is_reported_as_gone(self) -> None:
        document = notebook("one")
        cell = self.cell(document, "of x")
        for change in (SourceChange("x", "", "of x"), CellDeletion("x", CELL, None)):
            assert self.done(document, change.insert_again(cell)) == []
        assert cell.report.lost == ["cell x is gone"] * 2
        assert not cell.is_inserted

    def test_a_cell_is_deleted_again(self) -> None:
        document = notebook("one", {**CELL})
        change = CellDeletion("x", CELL, None)
        cell = self.cell(document)
        assert self.done(document, change.delete_again(cell, {"of x"})) == [change]
        assert document.ids == ["a"]
        assert cell.is_changed
        cell = self.cell(document)
        assert self.done(document, change.delete_again(cell, {"of x"})) == [change]
        assert not cell.is_changed

    def test_an_edited_cell_is_not_deleted_again(self) -> None:
        document = notebook("one", {**CELL, "source": "of Ana"})
        cell = self.cell(document)
        assert self.done(document, CellDeletion("x", CELL, None).delete_again(cell, {"of x"})) == []
        assert document.ids == ["a", "x"]
        assert cell.report.lost == ["cell x, which was deleted, is back and was edited since"]
        assert not cell.is_changed

    def test_a_cell_that_was_not_deleted_stays(self) -> None:
        document = notebook({**CELL})
        assert (
            self.done(document, CellInsertion("x", "of x").delete_again(self.cell(document), ()))
            == []
        )
        assert document.ids == ["x"]
