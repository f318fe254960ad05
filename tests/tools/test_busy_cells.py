"""People's carets in what agents change: reported, or respected, as the settings say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.standalone import StandaloneProcess
from tests.harness.ways import WAYS

from .conftest import New, Tab

pytestmark = pytest.mark.anyio

REFUSED, UNPROTECTED = "busy.ipynb", "marked.ipynb"

#: Busy cells are refused, and protected cells are not.
OTHERWISE = {
    "JUPYTER_COLLABORATION_MCP_BUSY_CELLS": "refuse",
    "JUPYTER_COLLABORATION_MCP_PROTECT_CELLS": "false",
}


async def touched_until_seen(ada: AgentClient, path: str, cell_id: str) -> Any:
    """Change a cell until the agent's server knows of a caret: how soon, nobody promises."""
    numbers = count()

    async def touch() -> Any:
        update = {"cell_id": cell_id, "metadata": {"k": next(numbers)}}
        found = await ada.call(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )
        return found.structured_content

    return await eventually(touch, lambda found: "carets" in found or "error" in found)


async def test_an_answer_says_whose_caret_is_in_a_changed_cell(
    ada: AgentClient, new: New, tab: Tab
) -> None:
    path = new("x = 1", "y = 2", "z = 3")
    await ada.ask("get_notebook", path=path)
    ana = await tab(path)
    ana.put_caret("cell-1", 3)
    await touched_until_seen(ada, path, "cell-1")
    update = {"cell_id": "cell-1", "content": "y = 3"}
    found = await ada.call("batch_update_notebook_cells", path=path, updates=[update], exec=False)
    assert found.structured_content["carets"] == [{"cell_id": "cell-1", "people": ["Ana"]}]
    assert "\nAna's caret is in [1] cell-1." in text_of(found)
    elsewhere = await ada.write(path, "cell-0", "x = 2")
    assert "carets" not in elsewhere
    await ada.call("undo_agent_changes", path=path)
    undone = await ada.ask("undo_agent_changes", path=path)
    assert undone["carets"] == [{"cell_id": "cell-1", "people": ["Ana"]}]
    said = await ada.say("batch_delete_notebook_cells", path=path, cell_ids=["cell-1"])
    assert "Ana's caret was in cell-1 (deleted)." in said
    assert "Ana's caret" not in await ada.say("get_notebook", path=path)


async def test_carets_of_agents_are_not_reported(
    ada: AgentClient, bob: AgentClient, new: New
) -> None:
    path = new("x = 1")
    await bob.write(path, "cell-0", "x = 2")
    assert "carets" not in await ada.write(path, "cell-0", "x = 3")


async def test_an_answer_says_whose_caret_is_in_a_changed_line(
    server: JupyterProcess, ada: AgentClient
) -> None:
    (Path(server.root) / "busy.md").write_text("one\ntwo\nthree\n")
    await ada.ask("get_document", path="busy.md")
    async with Collaborator(server.url, server.token, "busy.md", kind="file") as ana:
        ana.put_caret(None, 5)
        await ana.flush()

        async def change() -> Any:
            operations = [{"position": 4, "content": "+"}]
            return await ada.ask("batch_update_document", path="busy.md", operations=operations)

        found = await eventually(change, lambda facts: "carets" in facts)
        assert found["carets"] == [{"place": "line 2", "people": ["Ana"]}]
        other = [{"old_text": "three", "new_text": "3"}]
        said = await ada.say("batch_update_document", path="busy.md", operations=other)
        assert "caret" not in said
        said = await ada.say(
            "create_document", path="busy.md", type="file", content="1\n2\n", overwrite=True
        )
        assert "\nAna's caret is in line " in said


@pytest.fixture(scope="module", params=WAYS)
async def otherwise(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server whose agents have other rules."""
    if request.param == "extension":
        async with make_server(env=OTHERWISE) as process:
            yield process
        return
    async with (
        make_server(extensions={"jupyter_collaboration_mcp": False}) as process,
        StandaloneProcess([process], env=OTHERWISE) as command,
    ):
        process.standalone = command
        yield process


async def test_a_call_is_refused_while_a_person_is_in_one_of_its_cells(
    otherwise: JupyterProcess,
) -> None:
    notebooks.write(
        Path(otherwise.root) / REFUSED,
        notebooks.notebook([notebooks.code(f"cell-{n}", f"x = {n}") for n in range(3)]),
    )
    async with (
        agent(otherwise) as ada,
        Collaborator(otherwise.url, otherwise.token, REFUSED) as ana,
    ):
        await ada.ask("get_notebook", path=REFUSED)
        ana.put_caret("cell-1")
        found = await touched_until_seen(ada, REFUSED, "cell-1")
        assert found["error"]["code"] == "cell_busy"
        updates = [{"index": 0, "content": "new"}, {"index": 1, "content": "new"}]
        for tool, arguments in (
            ("batch_update_notebook_cells", {"updates": updates, "exec": False}),
            ("batch_delete_notebook_cells", {"start_index": 0, "end_index": 2}),
            ("batch_delete_notebook_cells", {"cell_ids": [0, 1], "exec": True}),
            ("move_notebook_cells", {"cell_ids": [0, 1], "to_index": -1}),
            ("create_document", {"content": "new", "overwrite": True}),
        ):
            error = await ada.refused(tool, path=REFUSED, **arguments)
            assert error["code"] == "cell_busy"
            assert "Ana's caret is in [1] cell-1. Nothing was changed." in error["message"]
            assert error["next_step"] == "Try again later, or ask the person."
            assert error["carets"] == [{"cell_id": "cell-1", "people": ["Ana"]}]
        await ana.flush()
        assert ana.sources() == ["x = 0", "x = 1", "x = 2"]
        assert (await ada.ask("get_notebook_status", path=REFUSED))["kernel"] is None
        ana.put_caret("cell-2")
        await ana.flush()

        async def write() -> Any:
            updating = {"path": REFUSED, "updates": updates, "exec": False}
            return (await ada.call("batch_update_notebook_cells", **updating)).structured_content

        await eventually(write, lambda answer: "error" not in answer)
        await ana.until(lambda: ana.sources() == ["new", "new", "x = 2"])


async def test_protection_of_cells_can_be_switched_off(otherwise: JupyterProcess) -> None:
    metadata = {"editable": False, "deletable": False, "tags": ["agent-protected"]}
    cells = [notebooks.code("marked-1", "x", metadata=metadata)]
    notebooks.write(Path(otherwise.root) / UNPROTECTED, notebooks.notebook(cells))
    async with agent(otherwise) as ada:
        await ada.write(UNPROTECTED, "marked-1", "y", metadata={"editable": None})
        await ada.ask("batch_delete_notebook_cells", path=UNPROTECTED, cell_ids=["marked-1"])
