"""Which marks protect a cell, and from what."""

from __future__ import annotations

from typing import Any

import pytest
from pycrdt import Array, Doc, Map

from jupyter_collaboration_mcp.documents.notebook import Notebook
from jupyter_collaboration_mcp.documents.protection import (
    CellAction,
    Mark,
    marks_in,
    metadata_actions,
)
from jupyter_collaboration_mcp.documents.shared_cells import new_cell

EDIT, RETYPE, DELETE = CellAction.EDIT, CellAction.RETYPE, CellAction.DELETE
MOVE, CLEAR, UNMARK = CellAction.MOVE, CellAction.CLEAR, CellAction.UNMARK

EDITABLE, DELETABLE = {"editable": False}, {"deletable": False}
TAGGED: dict[str, Any] = {"tags": ["slow", "agent-protected"]}


def notebook(*metadata: dict[str, Any]) -> Notebook:
    made = Notebook(Doc())
    with made.doc.transaction():
        made.insert(0, [{**new_cell("code", "x"), "metadata": each} for each in metadata])
    return made


@pytest.mark.parametrize(
    ("metadata", "allowed"),
    [
        (EDITABLE, {MOVE, CLEAR}),
        (DELETABLE, {EDIT, MOVE, CLEAR}),
        (TAGGED, set()),
        ({**EDITABLE, **DELETABLE}, {MOVE, CLEAR}),
        ({}, set(CellAction)),
    ],
)
def test_each_mark_forbids_its_actions(metadata: dict[str, Any], allowed: set[CellAction]) -> None:
    marks = marks_in(metadata)
    assert {a for a in CellAction if not any(mark.forbids(a) for mark in marks)} == allowed


@pytest.mark.parametrize(
    "metadata",
    [
        {"editable": True, "deletable": True, "tags": []},
        {"editable": None, "deletable": 0, "tags": None},
        {"editable": "false", "deletable": "", "tags": "agent-protected"},
        {"tags": ["Agent-Protected", "agent-protected ", None, 1]},
        {"agent-protected": True},
    ],
)
def test_only_false_and_the_exact_tag_are_marks(metadata: dict[str, Any]) -> None:
    assert marks_in(metadata) == ()
    assert notebook(metadata).marks(0) == ()


@pytest.mark.parametrize(
    ("before", "changes", "actions"),
    [
        ({}, {"k": 1}, {EDIT}),
        ({"k": 1}, {"k": 1}, set()),
        ({}, {"k": None}, set()),
        ({}, EDITABLE, {EDIT}),
        (DELETABLE, {"k": 1}, {EDIT}),
        (DELETABLE, EDITABLE, {EDIT}),
        (DELETABLE, {"deletable": None}, {EDIT, UNMARK}),
        (DELETABLE, {"deletable": True}, {EDIT, UNMARK}),
        (DELETABLE, {"deletable": 0, "k": 1}, {EDIT, UNMARK}),
        (TAGGED, {"tags": ["agent-protected"]}, {EDIT}),
        (TAGGED, {"tags": ["slow"]}, {EDIT, UNMARK}),
    ],
)
def test_setting_metadata_may_remove_a_mark(
    before: dict[str, Any], changes: dict[str, Any], actions: set[CellAction]
) -> None:
    assert metadata_actions(before, changes) == actions


def test_a_live_cell_has_the_marks_of_its_metadata() -> None:
    book = notebook({"trusted": True}, EDITABLE, DELETABLE, TAGGED, {**TAGGED, **EDITABLE})
    assert [book.marks(index) for index in range(5)] == [
        (),
        (Mark.NOT_EDITABLE,),
        (Mark.NOT_DELETABLE,),
        (Mark.PROTECTED,),
        (Mark.NOT_EDITABLE, Mark.PROTECTED),
    ]


def test_marks_are_found_in_metadata_of_any_shape() -> None:
    book = notebook({}, {}, {}, {})
    cells = [book._cells[index].shared for index in range(4)]
    cells[0]["metadata"] = {"editable": False, "tags": ["agent-protected"]}
    cells[1]["metadata"] = Map({"tags": Array(["agent-protected"])})
    cells[2]["metadata"] = None
    del cells[3]["metadata"]
    assert [book.marks(index) for index in range(4)] == [
        (Mark.NOT_EDITABLE, Mark.PROTECTED),
        (Mark.PROTECTED,),
        (),
        (),
    ]
