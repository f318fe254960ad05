"""What changes are handed when they are undone or reapplied."""

from __future__ import annotations

from jupyter_collaboration_mcp.collaboration.changes import cell_name
from jupyter_collaboration_mcp.collaboration.changes.change import (
    OverwrittenCell,
    ReapplyReport,
    RestartedCell,
    UndoPlan,
)
from jupyter_collaboration_mcp.documents.differ import WORK

from .documents import notebook, text_file


def test_the_text_of_a_file_has_no_id() -> None:
    assert (cell_name("abc"), cell_name("")) == ("cell abc", "the text")


class TestUndoPlan:
    def test_a_plan_has_a_cell_unless_it_removes_it(self) -> None:
        plan = UndoPlan(notebook("one", "two"), removed={"b"}, added={"x": "new", "b": "two"})
        assert [plan.has(cell_id) for cell_id in "abx?"] == [True, False, True, False]
        assert plan.requires("a")
        assert plan.notes == []
        assert not plan.requires("b")
        assert plan.notes == ["cell b is gone"]

    def test_a_plan_gives_the_planned_source_of_a_cell(self) -> None:
        plan = UndoPlan(notebook("one", "two"), sources={"b": "changed"})
        assert (plan.source("a"), plan.source("b")) == ("one", "changed")

    def test_actions_run_in_order(self) -> None:
        plan, done = UndoPlan(text_file("")), list[int]()
        plan.actions += [lambda: done.append(1), lambda: done.append(2)]
        plan.apply()
        assert done == [1, 2]

    def test_a_plan_has_the_comparison_budget_of_three_cells(self) -> None:
        assert UndoPlan(text_file("")).differ._work == 3 * WORK


class TestReport:
    def test_an_empty_report_has_no_text(self) -> None:
        assert str(ReapplyReport()) == ""

    def test_a_report_names_the_cells_and_what_was_lost(self) -> None:
        report = ReapplyReport(["a", ""])
        assert str(report) == "lost edits were reapplied in cell a, the text"
        report.report_gone("b")
        report.report_gone("b")
        assert str(report) == (
            "lost edits were reapplied in cell a, the text, "
            "and these could not be reapplied: cell b is gone"
        )

    def test_a_failure_names_all_cells(self) -> None:
        report = ReapplyReport.failed(["a", "b"])
        assert report.cells == []
        assert report.lost == ["edits in cell a, cell b, because of an internal error"]


def test_a_restarted_cell_lacks_something_if_its_text_or_a_property_differs() -> None:
    document = notebook("one", "two")
    cell = RestartedCell("b", document, notebook("other", "before", "b"), ReapplyReport())
    assert (cell.source, cell.index, cell.index_before) == ("two", 1, 1)
    assert not cell.lacks_something
    cell.source = "three"
    assert cell.lacks_something
    done = list[str]()
    cell.repairs.append(lambda: done.append(document.source(1)))
    with document.doc.transaction():
        cell.repair()
    assert done == ["three"]
    assert cell.lacks_something
    cell.repairs.clear()
    assert not cell.lacks_something


def test_an_overwritten_cell_starts_without_findings() -> None:
    cell = OverwrittenCell("a", notebook("one"), "before", ReapplyReport())
    assert (cell.is_late, cell.is_inserted, cell.is_changed) == (False, False, False)
    assert (cell.index, dict(cell.find_stray_text())) == (0, {})
