"""Changes by call, by cell and by kind."""

from __future__ import annotations

from jupyter_collaboration_mcp.collaboration.changes import (
    CellDeletion,
    CellInsertion,
    CellMove,
    MetadataChange,
    OutputClearing,
    SourceChange,
    Step,
    by_cell,
    by_kind,
    existence,
    known_texts,
    parts_of,
)

EDIT = SourceChange("a", "1", "22")
AGAIN = SourceChange("a", "22", "333")
TAG = MetadataChange("a", {"k": None}, {"k": 1})
OTHER = SourceChange("b", "", "x")
NEW = CellInsertion("c", "new")
GONE = CellDeletion("c", {"id": "c", "source": "old", "cell_type": "code"}, None)


def test_a_step_is_as_large_as_its_changes() -> None:
    assert Step(1, "call", (EDIT, AGAIN)).characters == 8
    assert Step(1, "call", ()).characters == 0


def test_changes_that_are_work_are_grouped_by_cell_in_order() -> None:
    steps = [Step(1, "one", (EDIT, OTHER, CellMove("b", None))), Step(2, "two", (TAG, AGAIN))]
    assert by_cell(steps) == {"a": [EDIT, TAG, AGAIN], "b": [OTHER]}
    assert by_cell([Step(1, "clear", (OutputClearing("a", {}),))]) == {}


def test_changes_are_grouped_by_kind() -> None:
    assert by_kind([EDIT, TAG, AGAIN]) == {SourceChange: [EDIT, AGAIN], MetadataChange: [TAG]}


def test_the_latest_insertion_or_deletion_decides_whether_a_cell_is_there() -> None:
    assert existence([NEW, GONE, EDIT]) is GONE
    assert existence([GONE, NEW, EDIT]) is NEW
    assert existence([EDIT, TAG]).exists_after is None
    assert existence([EDIT]) is EDIT


def test_every_text_that_a_cell_ever_had_is_known() -> None:
    assert known_texts([EDIT, AGAIN, TAG]) == {"1", "22", "333"}
    assert known_texts([NEW, GONE]) == {"new", "old"}


def test_the_parts_that_changes_concern_are_listed() -> None:
    assert parts_of([EDIT, TAG, OTHER]) == {"a": {"source", "metadata"}, "b": {"source"}}
    assert parts_of([EDIT, CellMove("a", None), TAG]) == {"a": None}
