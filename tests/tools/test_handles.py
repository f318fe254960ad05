"""What answers call a cell or a text file goes back in as it came out, and guards the call."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.harness.agents import AgentClient, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess

from .conftest import New, Tab, Warm

pytestmark = pytest.mark.anyio

HANDLE = re.compile(r"\[(\d+)\] (\S+?@[0-9a-f]{6})")

ID = "8f2c41d0-1111-4222-8333-444455556666"


def code(cell_id: str, source: str) -> dict[str, Any]:
    return {"id": cell_id, "cell_type": "code", "source": source, "metadata": {},
            "outputs": [], "execution_count": None}  # fmt: skip


async def handle_of(ada: AgentClient, path: str, index: int = 0) -> str:
    text = await ada.say("get_notebook", path=path, format="outline")
    found: dict[str, str] = dict(HANDLE.findall(text))
    return found[str(index)]


async def type_new(ana: Collaborator) -> None:
    await ana.type("cell-0", 0, "new_")
    await ana.flush()


async def test_every_answer_names_cells_by_handles(ada: AgentClient, warm: Warm) -> None:
    path = await warm(code(ID, "1"), code("other", "boom"))
    one = {"path": path, "cell_ids": [0]}
    answers = [
        await ada.say("get_notebook", path=path, format="outline"),
        await ada.say("get_notebook", path=path),
        await ada.say("get_notebook", path=path, format="full"),
        await ada.say("get_notebook", path=path, query="1"),
        await ada.say("batch_execute_notebook_cells", **one),
    ]
    handle = await handle_of(ada, path)
    assert handle.startswith("8f2c41d0@")  # the shortest beginning of at least 8 characters
    assert all(f"[0] {handle}" in answer for answer in answers)
    update = {"cell_id": handle, "content": "2"}
    edited = await ada.say("batch_update_notebook_cells", path=path, updates=[update], exec=False)
    after = await handle_of(ada, path)
    assert f"Updated [0] {after}." in edited
    undone = await ada.say("undo_agent_changes", path=path)
    assert f"[0] {handle}" in undone
    moved = await ada.say("move_notebook_cells", path=path, cell_ids=[handle], to_index=-1)
    assert f"Moved [1] {handle}" in moved
    error = text_of(await ada.call("batch_update_notebook_cells", path=path, updates=[update]))
    assert ID not in "".join([*answers, edited, undone, moved, error])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("batch_update_notebook_cells", {"updates": [{"cell_id": "@", "content": "no"}]}),
        ("batch_update_notebook_cells", {"updates": [{"content": "no"}], "cell_ids": ["@"]}),
        ("batch_delete_notebook_cells", {"cell_ids": ["@"]}),
        ("batch_delete_notebook_cells", {"cell_ids": ["@"], "exec": True}),
        ("move_notebook_cells", {"cell_ids": ["@"], "to_index": -1}),
        ("move_notebook_cells", {"cell_ids": ["cell-1"], "after_cell_id": "@"}),
        ("batch_insert_notebook_cells", {"cells": [{"content": "no"}], "after_cell_id": "@"}),
        ("execute_notebook_cell", {"cell_id": "@"}),
        ("batch_execute_notebook_cells", {"cell_ids": ["cell-1", "@"]}),
        ("clear_notebook_outputs", {"cell_ids": ["@"]}),
    ],
)
async def test_a_handle_guards_every_call(
    ada: AgentClient, new: New, tab: Tab, tool: str, arguments: dict[str, Any]
) -> None:
    path = new("x = 1", "y = 2")
    handle = await handle_of(ada, path)
    await type_new(await tab(path))

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(filled, value))
        if isinstance(value, dict):
            return {key: filled(item) for key, item in value.items()}
        return handle if value == "@" else value

    error = await ada.refused(tool, path=path, **filled(arguments))
    assert error["code"] == "stale_revision"
    assert error["source"] == "new_x = 1"
    fresh = HANDLE.findall(error["message"])[0][1]
    assert error["next_step"].endswith(f"the handle {fresh}.")
    assert await ada.sources(path) == ["new_x = 1", "y = 2"]


async def test_the_handle_in_an_error_makes_the_call_succeed(
    ada: AgentClient, new: New, tab: Tab
) -> None:
    path = new("x = 1")
    handle = await handle_of(ada, path)
    await type_new(await tab(path))
    update = {"cell_id": handle, "content": "mine"}
    call = {"path": path, "exec": False}
    error = await ada.refused("batch_update_notebook_cells", **call, updates=[update])
    update["cell_id"] = HANDLE.findall(error["message"])[0][1]
    await ada.ask("batch_update_notebook_cells", **call, updates=[update])
    assert await ada.sources(path) == ["mine"]


async def test_reading_accepts_an_old_handle(ada: AgentClient, new: New, tab: Tab) -> None:
    path = new("x = 1")
    handle = await handle_of(ada, path)
    await type_new(await tab(path))
    assert "new_x = 1" in await ada.say("get_notebook", path=path, cell_ids=[f"[0] {handle}"])


@pytest.mark.parametrize(
    ("name", "code_", "said"),
    [
        ("cell-0@ffffff", "stale_revision", "Revision ffffff was not shown here lately."),
        ("cell-0@a@b", "invalid_argument", "two @ signs"),
        ("@9ab1c2", "invalid_argument", "no id"),
        ("cell-0@", "invalid_argument", "no revision"),
        ("cell-0@newest", "invalid_argument", "six hexadecimal digits"),
        ("cell-9@9ab1c2", "cell_not_found", "No cell has the id 'cell-9'"),
    ],
)
async def test_an_invalid_handle_is_refused(
    ada: AgentClient, new: New, name: str, code_: str, said: str
) -> None:
    path = new("x = 1")
    for tool, arguments in (
        ("batch_delete_notebook_cells", {"cell_ids": [name]}),
        ("batch_update_notebook_cells", {"updates": [{"cell_id": name, "content": ""}]}),
        ("execute_notebook_cell", {"cell_id": name}),
    ):
        error = await ada.refused(tool, path=path, **arguments)
        assert (error["code"], said in error["message"]) == (code_, True), error
    assert await ada.sources(path) == ["x = 1"]


async def test_a_handle_and_another_revision_contradict_each_other(
    ada: AgentClient, new: New
) -> None:
    path = new("x = 1")
    handle = await handle_of(ada, path)
    call = {"path": path, "cell_ids": [handle]}
    error = await ada.refused("batch_delete_notebook_cells", **call, if_revision="ffffff")
    assert error["code"] == "invalid_argument"
    same = handle.partition("@")[2]
    await ada.ask("batch_delete_notebook_cells", **call, if_revision=f"r:{same}")


async def test_an_id_with_an_at_sign_is_an_id(ada: AgentClient, new: New) -> None:
    path = new(code("a@9ab1c2", "x"), code("b", "y"))
    await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["a@9ab1c2"])
    assert await ada.sources(path) == ["y"]


async def test_an_odd_id_is_accepted_as_it_was_shown(ada: AgentClient, new: New) -> None:
    path = new(code("an odd id, with space", "x"), code("b", "y"))
    text = await ada.say("get_notebook", path=path, format="outline")
    (handle,) = re.findall(r"^\[0\] (.*?@[0-9a-f]{6})", text, re.MULTILINE)
    await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=[handle])
    assert await ada.sources(path) == ["y"]


class TestTextFiles:
    @pytest.fixture
    def file(self, server: JupyterProcess, request: pytest.FixtureRequest) -> Path:
        path = Path(server.root) / f"{abs(hash(request.node.nodeid))}.md"
        path.write_text("one\ntwo\n")
        return path

    async def handle(self, ada: AgentClient, file: Path) -> str:
        return (await ada.say("get_document", path=file.name)).partition(": ")[0]

    async def test_a_path_and_its_revision_form_a_handle(
        self, ada: AgentClient, file: Path
    ) -> None:
        handle = await self.handle(ada, file)
        assert re.fullmatch(rf"{file.name}@[0-9a-f]{{6}}", handle)
        operations = [{"old_text": "one", "new_text": "1"}]
        said = await ada.say("batch_update_document", path=handle, operations=operations)
        after = await self.handle(ada, file)
        assert said.startswith(f"Changed {after} at line 1.")
        assert (await ada.ask("get_document", path=after))["content"] == "1\ntwo\n"
        assert "1\ntwo" in await ada.say("get_document", path=handle)  # a reader may be late
        assert after != handle

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("batch_update_document", {"operations": [{"content": "x"}]}),
            ("batch_insert_text", {"operations": [{"text": "x", "position": 0}]}),
            ("batch_delete_text", {"operations": [{"position": 0, "length": 1}]}),
            ("delete_document", {}),
            ("undo_agent_changes", {}),
            ("rename_document", {"newPath": "elsewhere.md"}),
            ("copy_document", {"copyPath": "elsewhere.md"}),
            ("create_document", {"type": "file", "content": "x", "overwrite": True}),
        ],
    )
    async def test_the_handle_of_a_text_file_guards_every_call(
        self, ada: AgentClient, bob: AgentClient, file: Path, tool: str, arguments: dict[str, Any]
    ) -> None:
        handle = await self.handle(ada, file)
        change = [{"old_text": "one", "new_text": "of Bob"}]
        await bob.ask("batch_update_document", path=file.name, operations=change)
        error = await ada.refused(tool, path=handle, **arguments)
        assert error["code"] == "stale_revision"
        assert error["source"] == "of Bob\ntwo\n"
        assert (await ada.ask("get_document", path=file.name))["content"] == "of Bob\ntwo\n"
        assert not file.with_name("elsewhere.md").exists()

    async def test_a_file_whose_name_looks_like_a_handle_is_that_file(
        self, ada: AgentClient, file: Path
    ) -> None:
        handle = await self.handle(ada, file)
        odd = file.with_name(f"{file.name}@9ab1c2")
        odd.write_text("odd\n")
        assert (await ada.ask("get_document", path=odd.name))["content"] == "odd\n"
        assert (await ada.ask("get_document", path=handle))["content"] == "one\ntwo\n"

    async def test_a_notebook_has_no_revision(self, ada: AgentClient, new: New) -> None:
        path = new("x")
        error = await ada.refused("get_notebook", path=f"{path}@9ab1c2")
        assert error["code"] == "invalid_argument"
        assert "Its cells have revisions" in error["message"]
