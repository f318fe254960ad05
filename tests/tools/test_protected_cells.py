"""Cells that people protect from agents, through every tool that changes cells."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually

from .conftest import MakeGate, New, Tab, Warm

pytestmark = pytest.mark.anyio

PRINTED = [{"output_type": "stream", "name": "stdout", "text": "1\n"}]

TAGGED = {"tags": ["agent-protected"]}


def cells(**metadata: Any) -> list[dict[str, Any]]:
    """Three code cells with outputs, of which the middle one has metadata."""
    return [
        notebooks.code("before-1", "x = 1", outputs=PRINTED, execution_count=1),
        notebooks.code(
            "marked-1", "print(6 * 7)", outputs=PRINTED, execution_count=2, metadata=metadata
        ),
        notebooks.code("after-01", "y = 2", outputs=PRINTED, execution_count=3),
    ]


def update(**wanted: Any) -> tuple[str, dict[str, Any]]:
    updates = [{"cell_id": "before-1", "content": "changed"}, {"cell_id": "marked-1", **wanted}]
    return "batch_update_notebook_cells", {"updates": updates}


BOTH = ["before-1", "marked-1"]

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "text": update(content="other"),
    "a part of the text": update(old_text="6 * 7", new_text="other"),
    "metadata": update(metadata={"k": 1}),
    "the mark": update(metadata={"editable": None, "deletable": None, "tags": None}),
    "type": update(cell_type="raw"),
    "deletion": ("batch_delete_notebook_cells", {"cell_ids": BOTH}),
    "run and deletion": ("batch_delete_notebook_cells", {"cell_ids": BOTH, "exec": True}),
    "overwriting": ("create_document", {"content": "x = 3", "overwrite": True}),
    "move": ("move_notebook_cells", {"cell_ids": BOTH, "to_index": -1}),
    "clearing": ("clear_notebook_outputs", {"cell_ids": BOTH}),
    "clearing of all": ("clear_notebook_outputs", {}),
    "restart": ("restart_notebook_kernel", {"clear_outputs": True}),
}

DELETION = {"type", "deletion", "run and deletion", "overwriting", "the mark"}
EDITING = {"text", "a part of the text", "metadata"} | DELETION


@pytest.mark.parametrize(
    ("metadata", "mark", "forbidden"),
    [
        ({"editable": False}, "editable: false", EDITING),
        ({"deletable": False}, "deletable: false", DELETION),
        (TAGGED, "tag agent-protected", set(CALLS)),
    ],
    ids=["edit", "delete", "tag"],
)
async def test_no_tool_does_what_a_mark_forbids(
    server: JupyterProcess,
    ada: AgentClient,
    new: New,
    metadata: dict[str, Any],
    mark: str,
    forbidden: set[str],
) -> None:
    path = new(*cells(**metadata))
    before = await ada.ask("get_notebook", path=path, format="full")
    for name in forbidden:
        tool, arguments = CALLS[name]
        error = await ada.refused(tool, path=path, **arguments)
        assert error["code"] == "cell_protected", name
        assert f"({mark})" in error["message"], name
        assert "[1] marked-1@" in error["message"], name
        assert "ask the person to remove the mark" in error["next_step"]
        assert error["cells"] == [{"cell_id": "marked-1", "mark": mark}]
    after = await ada.ask("get_notebook", path=path, format="full")
    assert after["cells"] == before["cells"]
    state = await ada.ask("get_notebook_status", path=path)
    assert state["kernel"] is None, "something was run"


async def test_an_agent_does_what_marks_do_not_forbid(ada: AgentClient, new: New, tab: Tab) -> None:
    path = new(*cells(deletable=False))
    ana = await tab(path)
    for tool, arguments in (
        update(old_text="6 * 7", new_text="42", metadata={"k": 1, "editable": False}),
        CALLS["move"],
        CALLS["clearing"],
        ("batch_insert_notebook_cells", {"cells": [{"content": "z"}], "after_cell_id": "marked-1"}),
    ):
        more = {"exec": False} if tool.startswith("batch") else {}
        await ada.ask(tool, path=path, **arguments, **more)
    await ana.until(lambda: ana.sources() == ["y = 2", "changed", "print(42)", "z"])
    cell = ana.cell("marked-1")
    assert cell["outputs"] == []
    assert {"deletable": False, "editable": False, "k": 1}.items() <= cell["metadata"].items()
    error = await ada.refused("undo_agent_changes", path=path, steps=4)
    assert error["code"] == "cell_protected"
    assert "You set the mark yourself, but only a person can remove it." in error["message"]


async def test_a_protected_cell_can_be_run(ada: AgentClient, warm: Warm) -> None:
    path = await warm(*cells(**TAGGED))
    assert "42" in await ada.say("execute_notebook_cell", path=path, cell_id="marked-1")
    same = {"cell_id": "marked-1", "content": "print(6 * 7)"}
    said = await ada.say("batch_update_notebook_cells", path=path, updates=[same])
    assert "42" in said


async def test_a_mark_that_a_person_sets_counts_at_once_also_for_undo(
    ada: AgentClient, new: New, tab: Tab
) -> None:
    path = new(*cells())
    ana = await tab(path)
    await ada.write(path, "marked-1", "first")
    ana.set_metadata("marked-1", **TAGGED)
    await ana.flush()

    numbers = count()

    async def write() -> Any:
        update = {"cell_id": "marked-1", "content": f"again {next(numbers)}"}
        found = await ada.call(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )
        return found.structured_content

    # From outside, what she did takes its time.
    refused = await eventually(write, lambda answer: "error" in answer)
    assert refused["error"]["code"] == "cell_protected"
    error = await ada.refused("undo_agent_changes", path=path)
    assert error["code"] == "cell_protected"
    ana.set_metadata("marked-1", tags=[])
    await ana.flush()

    async def undo() -> Any:
        found = await ada.call("undo_agent_changes", path=path, since=0)
        return found.structured_content

    await eventually(undo, lambda answer: "error" not in answer)
    await ana.until(lambda: ana.source("marked-1") == "print(6 * 7)")


async def test_a_cell_that_is_protected_while_it_runs_is_not_deleted(
    ada: AgentClient, warm: Warm, gate: MakeGate, tab: Tab
) -> None:
    door = gate()
    path = await warm(door.code)
    ana = await tab(path)
    deletion = {"path": path, "cell_ids": ["cell-0"], "exec": True}
    call = asyncio.create_task(ada.call("batch_delete_notebook_cells", **deletion))
    await door.reached()
    ana.set_metadata("cell-0", **TAGGED)
    await ana.flush()
    door.open()
    answer = (await call).structured_content
    assert answer["error"]["code"] == "cell_protected"
    assert answer["deleted"] == []
    (run,) = answer["runs"]  # it ran all the same
    assert run["state"] == "completed"
    assert ana.ids() == ["cell-0"]
