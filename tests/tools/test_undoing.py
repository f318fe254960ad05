"""Listing what can be undone, and undoing one call, or another agent's, in a live document."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess

from .conftest import New, Tab

pytestmark = pytest.mark.anyio

UNDO, LIST = "undo_agent_changes", "list_agent_changes"


async def listed(client: AgentClient, path: str, **arguments: object) -> list[str]:
    """The ids of the calls that can be undone, newest first."""
    facts = await client.ask(LIST, path=path, **arguments)
    return [change["call_id"] for change in facts["changes"]]


async def test_calls_are_listed_newest_first_with_their_cells(ada: AgentClient, new: New) -> None:
    path = new("a = 1\nb = 2", "c = 3")
    empty = await ada.ask(LIST, path=path)
    assert (empty["total"], empty["changes"]) == (0, [])
    await ada.replace(path, "cell-0", "b = 2", "b = 3\nd = 4")
    cells = [{"content": "new", "cell_type": "markdown"}]
    inserted = await ada.ask("batch_insert_notebook_cells", path=path, cells=cells, exec=False)
    await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-1"], exec=False)

    facts = await ada.ask(LIST, path=path)
    assert facts["total"] == 3
    assert [(each["tool"], each["summary"], each["cells"]) for each in facts["changes"]] == [
        ("batch_delete_notebook_cells", "deleted 1 cell, -1 line", ["cell-1"]),
        (
            "batch_insert_notebook_cells",
            "inserted 1 cell, +1 line",
            [inserted["cells"][0]["id"]],
        ),
        ("batch_update_notebook_cells", "changed 1 cell, +2 -1 lines", ["cell-0"]),
    ]
    versions = [each["version"] for each in facts["changes"]]
    assert versions == sorted(versions, reverse=True)
    lines = (await ada.say(LIST, path=path)).splitlines()
    assert lines[0] == f"Calls of yours that can be undone in {path}: 3."
    pattern = r"c-[0-9a-f]{8} \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d "
    pattern += "batch_update_notebook_cells: "
    assert re.fullmatch(pattern + r"changed 1 cell, \+2 -1 lines \(\[0\] cell-0\)", lines[3])
    assert lines[1].endswith("(cell-1)")  # it has no index, because it is gone

    latest = await ada.say(LIST, path=path, limit=1)
    assert latest.splitlines()[0].endswith("undone in " + path + ": 3. The latest 1:")
    await ada.ask(UNDO, path=path)
    assert await listed(ada, path) == [each["call_id"] for each in facts["changes"][1:]]


async def test_one_call_is_undone_and_later_ones_stay(ada: AgentClient, new: New, tab: Tab) -> None:
    path = new("first", "second")
    person = await tab(path)
    await ada.replace(path, "cell-0", "first", "first, edited")
    await ada.replace(path, "cell-1", "second", "second, edited")
    later, earlier = await listed(ada, path)
    person.insert("cell-0", 0, "typed ")
    await person.flush()

    done = await ada.ask(UNDO, path=path, call_id=earlier)
    assert (done["steps"], done["left"]) == (1, 1)
    assert await ada.sources(path) == ["typed first", "second, edited"]
    await person.until(lambda: person.sources() == ["typed first", "second, edited"])
    assert await listed(ada, path) == [later]
    again = await ada.refused(UNDO, path=path, call_id=earlier)
    assert (again["code"], LIST in again["next_step"]) == ("step_not_found", True)


async def test_a_later_call_that_is_in_the_way_is_named(ada: AgentClient, new: New) -> None:
    path = new("x")
    await ada.write(path, "cell-0", "x and some words")
    await ada.replace(path, "cell-0", "some", "a few")
    later, earlier = await listed(ada, path)
    error = await ada.refused(UNDO, path=path, call_id=earlier)
    assert error["code"] == "undo_refused"
    assert f"where your later call {later} changed what you wrote" in error["message"]
    assert await ada.sources(path) == ["x and a few words"]


async def test_a_text_file_is_undone_call_by_call(ada: AgentClient, server: JupyterProcess) -> None:
    path = "undone.md"
    (Path(server.root) / path).write_text("one\ntwo\n")
    for old, new in (("one", "1"), ("two", "2\n3")):
        operation = {"old_text": old, "new_text": new}
        await ada.ask("batch_update_document", path=path, operations=[operation])
    facts = await ada.ask(LIST, path=path)
    assert [(each["summary"], each["cells"]) for each in facts["changes"]] == [
        ("changed the text, +2 -1 lines", []),
        ("changed the text, +1 -1 lines", []),
    ]
    await ada.ask(UNDO, path=path, call_id=facts["changes"][1]["call_id"])
    assert (await ada.ask("get_document", path=path))["content"] == "one\n2\n3\n"


async def test_all_calls_after_a_version_are_undone(ada: AgentClient, new: New) -> None:
    path = new("x")
    await ada.write(path, "cell-0", "x 1")
    version = (await ada.ask("get_notebook", path=path))["version"]
    for number in (2, 3):
        await ada.write(path, "cell-0", f"x {number}")
    assert (await ada.ask(UNDO, path=path, since=version))["steps"] == 2
    assert await ada.sources(path) == ["x 1"]
    assert (await ada.refused(UNDO, path=path, since=version))["code"] == "nothing_to_undo"


async def test_bad_arguments_change_nothing(ada: AgentClient, new: New) -> None:
    path = new("x")
    version = (await ada.write(path, "cell-0", "y"))["version"]
    (call,) = await listed(ada, path)
    for tool, arguments, code in (
        (UNDO, {"steps": 0}, "invalid_argument"),
        (UNDO, {"steps": -1}, "invalid_argument"),
        (UNDO, {"since": version + 10**9}, "invalid_argument"),
        (UNDO, {"since": version, "call_id": call}, "invalid_argument"),
        (UNDO, {"call_id": "c-00000000"}, "step_not_found"),
        (UNDO, {"call_id": ""}, "step_not_found"),
        (UNDO, {"agent": "Nobody"}, "nothing_to_undo"),
        (LIST, {"agent": "Nobody"}, "nothing_to_undo"),
        (LIST, {"limit": 0}, "invalid_argument"),
        (LIST, {"limit": 1000}, "invalid_argument"),
    ):
        assert (await ada.refused(tool, path=path, **arguments))["code"] == code, arguments
    assert (await ada.refused(LIST, path="nowhere.ipynb"))["code"] == "document_not_found"
    assert await ada.sources(path) == ["y"]
    assert await listed(ada, path) == [call]


async def test_outputs_stay_when_the_source_is_undone(ada: AgentClient, new: New) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "printed\n"}
    path = new(notebooks.code("cell-0", "print(1)", outputs=[output], execution_count=7))
    await ada.replace(path, "cell-0", "print(1)", "print(2)")
    await ada.ask(UNDO, path=path)
    (cell,) = (await ada.ask("get_notebook", path=path))["cells"]
    assert (cell["source"], cell["execution_count"]) == ("print(1)", 7)
    assert "printed" in await ada.say("get_notebook", path=path, include_outputs=True)

    await ada.ask("clear_notebook_outputs", path=path)
    assert "printed" not in await ada.say("get_notebook", path=path, include_outputs=True)
    await ada.ask(UNDO, path=path)  # an undone clearing is what restores outputs
    assert "printed" in await ada.say("get_notebook", path=path, include_outputs=True)


class TestAnotherAgent:
    async def test_its_calls_are_listed_and_undone_at_the_admin_level(
        self, ada: AgentClient, bob: AgentClient, new: New
    ) -> None:
        path = new("x")
        await ada.write(path, "cell-0", "x by Ada")
        (call,) = await listed(ada, path)
        assert await listed(bob, path) == []
        assert await listed(bob, path, agent="Ada") == [call]
        assert "Calls of Ada that can be undone" in await bob.say(LIST, path=path, agent="ada")
        assert (await bob.refused(UNDO, path=path, call_id=call))["code"] == "step_not_found"
        said = await bob.say(UNDO, path=path, agent="Ada", call_id=call)
        assert said.startswith("Undid 1 of Ada's calls (batch_update_notebook_cells); 0 left.")
        assert await bob.sources(path) == ["x"]
        told = await ada.say(LIST, path=path)
        assert f"Bob has undone calls of yours here: {call}." in told
        assert (await ada.refused(UNDO, path=path))["code"] == "nothing_to_undo"

    async def test_below_the_admin_level_nothing_is_said_about_it(
        self, server: JupyterProcess, ada: AgentClient, new: New
    ) -> None:
        path = new("x")
        await ada.write(path, "cell-0", "y")
        async with agent(server, "Eve", permission="write") as eve:
            for wanted in ("Ada", "Nobody"):
                for tool in (LIST, UNDO):
                    error = await eve.refused(tool, path=path, agent=wanted)
                    assert (error["code"], error["level"]) == ("permission_refused", "admin")
            await eve.replace(path, "cell-0", "y", "y z")
            assert len(await listed(eve, path, agent="Eve")) == 1
            assert (await eve.ask(UNDO, path=path, agent="eve"))["steps"] == 1
        assert await ada.sources(path) == ["y"]

    async def test_a_reader_lists_its_own_calls_only(
        self, server: JupyterProcess, ada: AgentClient, new: New
    ) -> None:
        path = new("x")
        await ada.write(path, "cell-0", "y")
        async with agent(server, "Ada", permission="read") as reader:
            assert len(await listed(reader, path)) == 1
            assert UNDO not in {tool.name for tool in (await reader.client.list_tools()).tools}


async def test_a_deleted_document_takes_its_calls_along(ada: AgentClient, new: New) -> None:
    path = new("x")
    await ada.write(path, "cell-0", "y")
    await ada.ask("delete_document", path=path)
    content = json.dumps(notebooks.notebook([notebooks.code("cell-0", "y")]))
    await ada.ask("create_document", path=path, content=content, type="notebook")
    assert await listed(ada, path) == []
    assert (await ada.refused(UNDO, path=path))["code"] == "nothing_to_undo"
    assert await ada.sources(path) == ["y"]


async def test_calls_follow_a_renamed_document(ada: AgentClient, new: New) -> None:
    path = new("x")
    await ada.write(path, "cell-0", "y")
    calls = await listed(ada, path)
    await ada.ask("rename_document", path=path, newPath=f"renamed-{path}")
    assert await listed(ada, f"renamed-{path}") == calls
    await ada.ask(UNDO, path=f"renamed-{path}")
    assert await ada.sources(f"renamed-{path}") == ["x"]
