"""Changes of what a cell has beside its text."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    ExtrasChange,
    MetadataChange,
    OutputClearing,
    TypeChange,
)
from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.shared_cells import new_cell

from .documents import notebook, overwritten, planned, repaired, restarted, undone

STREAM = {"output_type": "stream", "name": "stdout", "text": "1\n"}
RUN = {
    **new_cell("code", "print(1)"),
    "id": "a",
    "outputs": [STREAM],
    "execution_count": 3,
    "metadata": {"execution": {"iopub.status.idle": "now"}, "tags": ["x"]},
}
TO_MARKDOWN = TypeChange("a", RUN, "markdown")
TO_RAW = TypeChange("a", {**new_cell("markdown", "text"), "id": "a"}, "raw")


def typed(cell_type: str) -> Notebook:
    return notebook({**new_cell(cell_type, "text"), "id": "a"})


def described(**metadata: Any) -> Notebook:
    return notebook({"metadata": metadata})


def test_property_changes_know_their_size_and_their_keys() -> None:
    metadata = MetadataChange("a", {"k": None}, {"k": 12})
    cleared = OutputClearing("a", RUN)
    assert (TO_MARKDOWN.size, TO_MARKDOWN.keys) == (len(str(RUN)), None)
    assert (metadata.size, set(metadata.keys or ())) == (len("{'k': None}{'k': 12}"), {"metadata"})
    assert cleared.size == len(str(RUN))
    assert set(cleared.keys or ()) == {"outputs", "execution_count", "execution_state", "metadata"}
    assert [change.is_work for change in (TO_MARKDOWN, metadata, cleared)] == [True, True, False]
    assert {change.exists_after for change in (TO_MARKDOWN, metadata, cleared)} == {None}


class TestUndoOfAType:
    def test_the_cell_gets_its_outputs_back_and_keeps_edits_of_others(self) -> None:
        document = notebook({**new_cell("markdown", "of Ana"), "metadata": {"theirs": 1}})
        plan = undone(document, TO_MARKDOWN)
        value = document.value(0)
        assert (value["cell_type"], value["source"]) == ("code", "of Ana")
        assert (value["execution_count"], value["metadata"]) == (3, {"theirs": 1})
        assert [output["text"] for output in value["outputs"]] == ["1\n"]
        assert plan.changes == [TypeChange("a", {"cell_type": "markdown"}, "code")]
        assert plan.types == {"a": "code"}

    def test_several_changes_are_undone_in_turn(self) -> None:
        document = typed("raw")
        plan = undone(document, TO_MARKDOWN, TO_RAW)
        assert document.cell_type(0) == "code"
        assert plan.notes == []

    def test_a_type_set_by_others_stays(self) -> None:
        plan = planned(typed("raw"), TO_MARKDOWN)
        assert plan.notes == ["cell a has been given another type since"]
        assert (plan.actions, plan.changes, plan.types) == ([], [], {})

    def test_a_cell_that_is_gone_is_noted(self) -> None:
        plan = planned(notebook(), TO_MARKDOWN)
        assert (plan.notes, plan.actions) == (["cell a is gone"], [])


class TestUndoOfMetadata:
    def test_only_own_keys_that_nobody_changed_since_are_restored(self) -> None:
        document = described(mine=2, new=1, shared="of Ana", theirs=1)
        change = MetadataChange(
            "a", {"mine": 1, "new": None, "shared": 0}, {"mine": 2, "new": 1, "shared": 5}
        )
        plan = undone(document, change)
        assert document.metadata(0) == {"mine": 1, "shared": "of Ana", "theirs": 1}
        assert plan.changes == [MetadataChange("a", change.after, change.before)]

    def test_a_cell_that_is_gone_is_noted(self) -> None:
        plan = planned(notebook(), MetadataChange("a", {"k": 1}, {"k": 2}))
        assert (plan.notes, plan.actions, plan.changes) == (["cell a is gone"], [], [])


class TestUndoOfCleared:
    def test_outputs_come_back(self) -> None:
        document = notebook("print(1)")
        plan = undone(document, OutputClearing("a", RUN))
        value = document.value(0)
        assert [output["text"] for output in value["outputs"]] == ["1\n"]
        assert value["execution_count"] == 3
        assert (plan.notes, plan.changes) == ([], [])

    def test_outputs_do_not_come_back_if_the_cell_was_run_since(self) -> None:
        plan = planned(notebook({"execution_count": 7}), OutputClearing("a", RUN))
        assert (plan.notes, plan.actions) == (["cell a has been run since"], [])

    def test_outputs_do_not_come_back_for_a_missing_or_restored_cell(self) -> None:
        cleared = OutputClearing("a", RUN)
        assert planned(notebook(), cleared).actions == []
        plan = planned(notebook(), cleared, CellDeletion("a", RUN, None))
        assert plan.has("a")
        assert (len(plan.actions), plan.notes) == (1, [])  # the cell, with what it had

    def test_outputs_do_not_come_back_if_this_undo_removes_the_cell(self) -> None:
        plan = planned(notebook("print(1)"))
        plan.removed.add("a")
        OutputClearing("a", RUN).plan_undo(plan)
        assert (plan.actions, plan.notes) == ([], [])


@pytest.mark.parametrize(
    ("current", "expected"),
    [("code", "raw"), ("markdown", "raw"), ("raw", "raw")],
)
class TestLostTypes:
    def test_after_a_restart(self, current: str, expected: str) -> None:
        document = typed(current)
        cell = repaired(document, typed("raw"), [TO_MARKDOWN, TO_RAW])
        assert document.cell_type(0) == expected
        assert bool(cell.repairs) is (current != expected)

    def test_after_an_overwrite(self, current: str, expected: str) -> None:
        document = typed(current)
        cell, left = overwritten(document, "text", [TO_MARKDOWN, TO_RAW])
        assert document.cell_type(0) == expected
        assert cell.is_changed is (current != expected)
        assert left == [TO_MARKDOWN, TO_RAW]


def test_a_type_set_by_somebody_else_stays() -> None:
    document = typed("raw")
    cell, _ = overwritten(document, "text", [TO_MARKDOWN])
    assert document.cell_type(0) == "raw"
    assert not cell.is_changed
    assert not restarted(document, typed("markdown"), [TO_MARKDOWN]).lacks_something


def test_a_type_that_the_cell_no_longer_had_before_a_restart_does_not_come_back() -> None:
    assert not restarted(typed("code"), typed("raw"), [TO_MARKDOWN]).lacks_something


def test_a_repaired_type_is_not_set_twice() -> None:
    document = typed("code")
    cell = restarted(document, typed("markdown"), [TO_MARKDOWN])
    with document.doc.transaction():
        document.set_type(0, "markdown")  # as when the original characters came back
    state = document.doc.get_state()
    with document.doc.transaction():
        cell.repair()
    assert document.doc.get_state() == state


FIRST = MetadataChange("a", {"k": None, "other": 0}, {"k": 1, "other": 1})
SECOND = MetadataChange("a", {"k": 1}, {"k": 2})


@pytest.mark.parametrize(
    ("current", "expected"),
    [
        ({"other": 1}, {"k": 2, "other": 1}),
        ({"k": 1, "other": 0, "theirs": 1}, {"k": 2, "other": 1, "theirs": 1}),
        ({"k": 2, "other": 1}, {"k": 2, "other": 1}),
        ({"k": "of Ana", "other": 0}, {"k": "of Ana", "other": 1}),
    ],
    ids=["as at first", "as in between", "nothing is missing", "somebody changed it"],
)
class TestLostMetadata:
    def test_after_a_restart(self, current: dict[str, Any], expected: dict[str, Any]) -> None:
        document = described(**current)
        cell = repaired(document, described(k=2, other=1), [FIRST, SECOND])
        assert document.metadata(0) == expected
        assert cell.lacks_something is bool(cell.repairs) is (current != expected)

    def test_after_an_overwrite(self, current: dict[str, Any], expected: dict[str, Any]) -> None:
        document = described(**current)
        cell, left = overwritten(document, "", [FIRST, SECOND])
        assert document.metadata(0) == expected
        assert cell.is_changed is (current != expected)
        assert left == [FIRST, SECOND]


def test_metadata_that_others_had_changed_before_a_restart_does_not_come_back() -> None:
    assert not restarted(described(), described(k=3), [SECOND]).lacks_something
    document = described(other=0)
    repaired(document, described(k=3, other=1), [FIRST, SECOND])
    assert document.metadata(0) == {"other": 1}


class TestUndoOfExtras:
    def test_outputs_count_and_attachments_come_back(self) -> None:
        document = notebook("print(1)")
        change = ExtrasChange(
            "a",
            {"outputs": RUN["outputs"], "execution_count": 3},
            {"outputs": [], "execution_count": None},
        )
        plan = undone(document, change)
        value = document.value(0)
        assert [output["text"] for output in value["outputs"]] == ["1\n"]
        assert value["execution_count"] == 3
        assert plan.notes == []
        assert plan.changes == [ExtrasChange("a", change.after, change.before)]

    def test_nothing_comes_back_if_the_cell_was_run_since(self) -> None:
        change = ExtrasChange("a", {"execution_count": 3}, {"execution_count": None})
        plan = planned(notebook({"execution_count": 7}), change)
        assert (plan.notes, plan.actions) == (["cell a has been run since"], [])

    def test_several_changes_are_undone_in_turn(self) -> None:
        document = notebook({"execution_count": 5})
        first = ExtrasChange("a", {"execution_count": 3}, {"execution_count": 4})
        second = ExtrasChange("a", {"execution_count": 4}, {"execution_count": 5})
        undone(document, first, second)
        assert document.value(0)["execution_count"] == 3
