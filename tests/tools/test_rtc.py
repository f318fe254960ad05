"""The toolset `rtc`: what the document of that server shows, and what that server got wrong."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent, TextResourceContents

from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent, text_of
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi
from tests.tools.conftest import New, Tab, Warm
from tests.tools.seed_documents import documented, same_shape

pytestmark = pytest.mark.anyio

SHOWN = documented("rtc.md")

#: Our own tools, which have more parameters than that document shows.
BORROWED = {
    *("list_documents", "create_document", "get_document_info", "delete_document"),
    *("rename_document", "copy_document", "document_exists"),
}

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
async def rtc(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    """An agent of this toolset: of the newer era in Jupyter, and of the older one beside it."""
    era = MODERN if server.standalone is None else LEGACY
    async with agent(server, "Rita", era, toolsets="rtc", structured="false") as client:
        yield client


def blocks(result: CallToolResult) -> list[str]:
    return [part.text for part in result.content if isinstance(part, TextContent)]


async def parsed(client: AgentClient, tool: str, **arguments: Any) -> Any:
    """The JSON in the first block of an answer."""
    result = await client.call(tool, **arguments)
    assert not result.is_error, text_of(result)
    return json.loads(blocks(result)[0])


async def message(client: AgentClient, tool: str, **arguments: Any) -> str:
    """The message in an answer that has nothing else."""
    return message_of(await client.call(tool, **arguments))


def message_of(result: CallToolResult) -> str:
    assert not result.is_error, text_of(result)
    facts = json.loads(blocks(result)[0])
    assert facts.keys() == {"message"}
    said: str = facts["message"]
    return said


async def refused(client: AgentClient, tool: str, **arguments: Any) -> str:
    result = await client.call(tool, **arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def contents(client: AgentClient, path: str) -> list[str]:
    return [each["content"] for each in (await parsed(client, "read_nb_cells", path=path))["cells"]]


# -- what the document shows -----------------------------------------------------------------


async def test_the_toolset_has_the_documented_tools_parameters_and_defaults(
    rtc: AgentClient,
) -> None:
    tools = {tool.name: tool for tool in (await rtc.client.list_tools()).tools}
    assert tools.keys() == SHOWN.keys()
    assert len(tools) == 17
    for name, shown in SHOWN.items():
        shown.check_schema(tools[name].input_schema, more=name in BORROWED)
        properties = tools[name].input_schema["properties"]
        for owner, inner in shown.nested.items():
            found = (
                properties.get(owner) or properties["modifications"]["items"]["properties"][owner]
            )
            assert found.get("items", found)["properties"].keys() == inner, (name, owner)


async def test_begin_nb_session_joins_and_answers_with_its_fields(
    rtc: AgentClient, new: New, tab: Tab
) -> None:
    path = new("x = 1")
    ana = await tab(path)
    began = await parsed(rtc, "begin_nb_session", path=path)
    same_shape(SHOWN["begin_nb_session"].example, began)
    assert (began["path"], began["status"]) == (path, "connected")
    await ana.until(lambda: "Rita" in str(ana.awareness_users()))


async def test_end_nb_session_leaves_and_says_when_there_is_no_session(
    server: JupyterProcess, rtc: AgentClient, new: New, tab: Tab
) -> None:
    path = new("x = 1")
    assert (await parsed(rtc, "end_nb_session", path=path))["status"] == "not_found"
    await parsed(rtc, "begin_nb_session", path=path)
    async with agent(server, "Bob", toolsets="rtc") as bob:
        assert (await parsed(bob, "end_nb_session", path=path))["status"] == "not_found"
        theirs = await parsed(bob, "begin_nb_session", path=path)
        ended = await parsed(rtc, "end_nb_session", path=path)
        same_shape(SHOWN["end_nb_session"].example, ended)
        assert ended["status"] == "disconnected"
        assert (await parsed(rtc, "end_nb_session", path=path))["status"] == "not_found"
        # Concurrent clients have sessions of their own.
        again = await parsed(bob, "begin_nb_session", path=path)
        assert again["session_id"] == theirs["session_id"]
    assert (await parsed(rtc, "end_nb_session", path="no.ipynb"))["status"] == "not_found"


async def test_query_nb_sessions_counts_and_describes_sessions_below_a_folder(
    server: JupyterProcess, rtc: AgentClient
) -> None:
    folder = server.root / "queried"
    folder.mkdir()
    for name in ("a.ipynb", "b.ipynb"):
        notebooks.write(folder / name, notebooks.numbered(5))
    notebooks.write(server.root / "beside.ipynb", notebooks.numbered(1))
    for path in ("queried/a.ipynb", "queried/b.ipynb", "beside.ipynb"):
        await parsed(rtc, "begin_nb_session", path=path)
    ended = await parsed(rtc, "end_nb_session", path="/queried/b.ipynb")  # as its examples do
    assert ended["path"] == "queried/b.ipynb"
    found = await parsed(rtc, "query_nb_sessions", root_path="/queried")
    gone = frozenset({"session_id", "cell_count"})  # "if active"
    same_shape(SHOWN["query_nb_sessions"].example, found, gone)
    assert (found["root_path"], found["total_sessions"], found["active_sessions"]) == (
        "/queried",
        2,
        1,
    )
    active, ended = found["sessions"]
    same_shape(SHOWN["query_nb_sessions"].example["sessions"][0], active)
    assert (active["path"], active["status"], active["cell_count"]) == (
        "queried/a.ipynb",
        "connected",
        5,
    )
    assert TIME.fullmatch(active["last_activity"])
    assert (ended["path"], ended["status"]) == ("queried/b.ipynb", "disconnected")
    one = await parsed(rtc, "query_nb_sessions", root_path="queried/a.ipynb")
    assert [each["path"] for each in one["sessions"]] == ["queried/a.ipynb"]
    everything = await parsed(rtc, "query_nb_sessions")
    assert everything["root_path"] == ""
    assert "beside.ipynb" in [each["path"] for each in everything["sessions"]]


async def test_list_nbs_lists_all_notebooks_below_a_folder(
    server: JupyterProcess, rtc: AgentClient
) -> None:
    deep = server.root / "listed" / "deep" / "er"
    deep.mkdir(parents=True)
    notebooks.write(deep / "a.ipynb", notebooks.numbered(1))
    notebooks.write(server.root / "listed" / "b.ipynb", notebooks.numbered(1))
    (server.root / "listed" / "text.md").write_text("no notebook")
    found = await parsed(rtc, "list_nbs", path="listed")
    same_shape(SHOWN["list_nbs"].example, found)
    assert {each["path"]: each["name"] for each in found["notebooks"]} == {
        "listed/b.ipynb": "b.ipynb",
        "listed/deep/er/a.ipynb": "a.ipynb",
    }
    assert all(TIME.fullmatch(each["last_modified"]) for each in found["notebooks"])
    everywhere = await parsed(rtc, "list_nbs")
    assert "listed/b.ipynb" in [each["path"] for each in everywhere["notebooks"]]


async def test_get_nb_stat_shows_the_kernel_that_people_have(
    rtc: AgentClient, api: KernelApi, warm: Warm, new: New
) -> None:
    path = await warm("x = 1", "y = 2")
    stat = await parsed(rtc, "get_nb_stat", path=path)
    same_shape(SHOWN["get_nb_stat"].example, stat)
    (session,) = await api.sessions(path)
    assert stat["kernel"]["id"] == session["kernel"]["id"]
    assert (stat["kernel"]["name"], stat["cell_count"]) == ("python3", 2)
    cold = await parsed(rtc, "get_nb_stat", path=new("x = 1"))
    assert cold["kernel"] == {"name": "python3", "id": None, "state": "not_started"}


async def test_read_nb_cells_reads_all_cells_or_ranges(rtc: AgentClient, new: New) -> None:
    path = new("a", "b", notebooks.markdown("note", "# c"), "d")
    every = await parsed(rtc, "read_nb_cells", path=path)
    same_shape(SHOWN["read_nb_cells"].example, every)
    assert every["cells"][2] == {"index": 2, "id": "note", "content": "# c", "type": "markdown"}
    assert [each["content"] for each in every["cells"]] == ["a", "b", "# c", "d"]
    some = await parsed(
        rtc, "read_nb_cells", path=path, ranges=[{"start": 3}, {"start": 0, "end": 2}]
    )
    assert [each["index"] for each in some["cells"]] == [3, 0, 1]


async def test_modify_nb_cells_gives_ranges_new_content_and_runs_them(
    rtc: AgentClient, warm: Warm
) -> None:
    path = await warm("a = 1", "b = 2", "c = 3", "d = 4")
    changes = [
        {"range": {"start": 0}, "content": "print('one')"},
        {"range": {"start": 2, "end": 4}, "content": "print('many')"},
    ]
    result = await rtc.call("modify_nb_cells", path=path, modifications=changes)
    assert message_of(result) == "Successfully modified 2 cell ranges (3 cells); executed"
    assert blocks(result)[1].count("many") >= 2  # what they printed
    assert await contents(rtc, path) == ["print('one')", "b = 2", *["print('many')"] * 2]
    unrun = [{"range": {"start": 1}, "content": "1 / 0"}]
    said = await message(rtc, "modify_nb_cells", path=path, modifications=unrun, exec=False)
    assert said == "Successfully modified 1 cell range (1 cell); not executed"


async def test_insert_nb_cells_returns_the_ids_of_the_new_cells(
    rtc: AgentClient, warm: Warm
) -> None:
    path = await warm("first", "last")
    cells = [{"content": "print(6 * 7)"}, {"type": "markdown", "content": "# Title"}]
    result = await rtc.call("insert_nb_cells", path=path, position=1, cells=cells)
    made = json.loads(blocks(result)[0])
    assert made.keys() == {"message", "cell_ids"}
    assert made["message"] == "Successfully inserted 2 cells; executed"
    assert "42" in blocks(result)[1]
    found = (await parsed(rtc, "read_nb_cells", path=path))["cells"]
    assert [each["content"] for each in found] == ["first", "print(6 * 7)", "# Title", "last"]
    assert [each["id"] for each in found[1:3]] == made["cell_ids"]
    assert found[1]["type"] == "code"
    stat = await parsed(rtc, "get_nb_stat", path=path)
    assert TIME.fullmatch(stat["last_modified"])
    quiet = await parsed(
        rtc, "insert_nb_cells", path=path, position=0, cells=[{"content": "1/0"}], exec=False
    )
    assert quiet["message"] == "Successfully inserted 1 cell; not executed"


@pytest.mark.parametrize("position", [0, -1])
async def test_the_first_cells_of_a_new_notebook_are_all_that_it_has(
    rtc: AgentClient, position: int
) -> None:
    path = f"first-cells{position}.ipynb"
    await message(rtc, "create_document", path=path)
    cells = [{"type": "markdown", "content": "# Title"}, {"content": "x = 1"}]
    arguments = {"path": path, "position": position, "cells": cells, "exec": False}
    made = await parsed(rtc, "insert_nb_cells", **arguments)
    found = (await parsed(rtc, "read_nb_cells", path=path))["cells"]
    assert [(each["type"], each["content"]) for each in found] == [
        ("markdown", "# Title"),
        ("code", "x = 1"),
    ]
    assert [each["id"] for each in found] == made["cell_ids"]
    # What it knows of their places is right, too.
    await message(rtc, "delete_nb_cells", path=path, ranges=[{"start": 0}])
    assert await contents(rtc, path) == ["x = 1"]


async def test_delete_nb_cells_deletes_the_cells_of_several_ranges(
    rtc: AgentClient, new: New
) -> None:
    path = new(*"abcdefg")
    ranges = [{"start": 1, "end": 3}, {"start": 4}, {"start": 6}]
    said = await message(rtc, "delete_nb_cells", path=path, ranges=ranges)
    assert said == "Successfully deleted 4 cells"
    assert await contents(rtc, path) == ["a", "d", "f"]


async def test_restart_nb_kernel_runs_all_cells_and_clears_outputs_only(
    rtc: AgentClient, api: KernelApi, warm: Warm, tab: Tab
) -> None:
    path = await warm("print('ran')", "fresh = 'x' not in globals()\nx = 1\nprint(fresh)")
    result = await rtc.call("restart_nb_kernel", path=path)
    assert message_of(result) == "Kernel restarted successfully; executed"
    assert "True" in blocks(result)[1]
    said = await message(rtc, "restart_nb_kernel", path=path, clear_contents=True, exec=False)
    assert said == ("Kernel restarted successfully; outputs were cleared; cells were not executed")
    ana = await tab(path)
    assert [ana.cell(n)["outputs"] for n in range(2)] == [[], []]
    assert ana.source(0) == "print('ran')"


async def test_more_outputs_than_a_call_may_clear_stay_with_the_kernel(
    rtc: AgentClient, server: JupyterProcess
) -> None:
    cells = [notebooks.code(f"c{n}", "1", execution_count=1) for n in range(1_001)]
    notebooks.write(server.root / "many.ipynb", notebooks.notebook(cells))
    said = await refused(rtc, "restart_nb_kernel", path="many.ipynb", clear_contents=True)
    assert said.startswith("too_large: 1,001 cells in one call; ")
    assert "Next: Leave the outputs as they are; the person can clear them" in said


# -- its document tools ----------------------------------------------------------------------


async def test_list_documents_lists_one_level_as_an_array(
    server: JupyterProcess, rtc: AgentClient
) -> None:
    folder = server.root / "level"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "hidden.md").write_text("deeper")
    (folder / "a.md").write_text("# A")
    notebooks.write(folder / "b.ipynb", notebooks.numbered(1))
    found = await parsed(rtc, "list_documents", path="level")
    example = SHOWN["list_documents"].example[0]
    assert {each["name"]: each["type"] for each in found} == {
        "a.md": "file",
        "b.ipynb": "notebook",
        "below": "directory",
    }
    for each in found:
        assert each.keys() == example.keys()
        assert TIME.fullmatch(each["created"])
    same_shape(example, next(each for each in found if each["name"] == "a.md"))
    assert "level" in [each["path"] for each in await parsed(rtc, "list_documents")]


async def test_create_document_creates_each_type_with_content_and_notebooks_by_default(
    server: JupyterProcess, rtc: AgentClient
) -> None:
    said = await message(rtc, "create_document", path="/made/plain.ipynb")
    assert said == "Created the notebook made/plain.ipynb, and created the folders made."
    assert notebooks.sources(server.root / "made" / "plain.ipynb") == []
    for path, kind, content in (
        ("made/cells.ipynb", "notebook", "x = 1"),
        ("made/script.py", "file", "print()\n"),
        ("made/text.md", "markdown", "# Title"),
    ):
        made = {"path": path, "type": kind, "content": content}
        assert (await message(rtc, "create_document", **made)).startswith("Created the ")
    assert notebooks.sources(server.root / "made" / "cells.ipynb") == ["x = 1"]
    assert (server.root / "made" / "script.py").read_text() == "print()\n"
    assert (server.root / "made" / "text.md").read_text() == "# Title"
    assert (await refused(rtc, "create_document", **made)).startswith("already_exists: ")


async def test_get_document_info_describes_a_document_with_its_content(
    server: JupyterProcess, rtc: AgentClient
) -> None:
    (server.root / "described.md").write_text("# Document Content")
    info = await parsed(rtc, "get_document_info", path="/described.md")
    same_shape(SHOWN["get_document_info"].example, info)
    assert (info["name"], info["path"], info["type"]) == ("described.md", "described.md", "file")
    assert info["content"] == "# Document Content"
    assert (info["format"], info["mimetype"]) == ("text", "text/markdown")
    assert (info["size"], info["writable"]) == (18, True)
    assert all(TIME.fullmatch(info[name]) for name in ("created", "last_modified"))


async def test_rename_document_moves_a_document(server: JupyterProcess, rtc: AgentClient) -> None:
    (server.root / "old.md").write_text("text")
    said = await message(rtc, "rename_document", path="old.md", newPath="new.md")
    assert said == "Renamed old.md to new.md."
    assert not (server.root / "old.md").exists()
    assert (server.root / "new.md").read_text() == "text"


async def test_copy_document_leaves_the_first_one(server: JupyterProcess, rtc: AgentClient) -> None:
    (server.root / "one.md").write_text("text")
    said = await message(rtc, "copy_document", path="one.md", copyPath="two.md")
    assert said == "Copied one.md to two.md."
    assert (server.root / "one.md").read_text() == "text"
    assert (server.root / "two.md").read_text() == "text"


async def test_delete_document_deletes_and_document_exists_says_so(
    server: JupyterProcess, rtc: AgentClient
) -> None:
    (server.root / "gone.md").write_text("text")
    assert await parsed(rtc, "document_exists", path="gone.md") == {"exists": True}
    assert (await message(rtc, "delete_document", path="gone.md")).startswith("Deleted the ")
    assert not (server.root / "gone.md").exists()
    assert await parsed(rtc, "document_exists", path="gone.md") == {"exists": False}
    said = await refused(rtc, "delete_document", path="gone.md")
    assert said.startswith("document_not_found: ")
    assert "list_documents" in said


async def test_in_other_connections_our_document_tools_answer_as_before(
    server: JupyterProcess, ada: AgentClient
) -> None:
    (server.root / "ours.md").write_text("text")
    assert await ada.say("document_exists", path="ours.md") == "ours.md exists."
    async with agent(server, toolsets="all") as everything:
        assert await everything.say("document_exists", path="ours.md") == "ours.md exists."
        tools = {tool.name: tool for tool in (await everything.client.list_tools()).tools}
        listing = tools["list_documents"].input_schema["properties"]
        assert listing["max_results"]["default"] == 50
    async with agent(server, toolsets="rtc") as rtc:
        tools = {tool.name: tool for tool in (await rtc.client.list_tools()).tools}
        listing = tools["list_documents"].input_schema["properties"]
        assert listing["max_results"]["default"] == 1000


# -- what that server got wrong --------------------------------------------------------------


async def test_an_end_of_0_is_no_cell_and_not_the_rest(rtc: AgentClient, new: New) -> None:
    path = new(*"abc")
    nothing = [{"start": 0, "end": 0}]
    assert (await parsed(rtc, "read_nb_cells", path=path, ranges=nothing))["cells"] == []
    assert "start < end" in await refused(rtc, "delete_nb_cells", path=path, ranges=nothing)
    changes = [{"range": each, "content": "new"} for each in nothing]
    said = await refused(rtc, "modify_nb_cells", path=path, modifications=changes)
    assert "start < end" in said
    assert await contents(rtc, path) == ["a", "b", "c"]


async def test_a_kernel_that_was_never_started_can_be_restarted(
    rtc: AgentClient, new: New, api: KernelApi, tab: Tab
) -> None:
    old = {"output_type": "stream", "name": "stdout", "text": "old"}
    path = new(notebooks.code("c", "print('started')", outputs=[old], execution_count=1))
    ana = await tab(path)
    said = await message(rtc, "restart_nb_kernel", path=path, exec=False)
    assert said.startswith("No kernel was running, so there was none to restart")
    assert len(ana.cell(0)["outputs"]) == 1  # unless they are to be cleared
    said = await message(rtc, "restart_nb_kernel", path=path, clear_contents=True, exec=False)
    assert "; outputs were cleared; " in said
    await ana.until(lambda: ana.cell(0)["outputs"] == [])
    assert await api.sessions(path) == []
    result = await rtc.call("restart_nb_kernel", path=path)
    assert message_of(result).endswith("; executed")
    assert "started" in blocks(result)[1]


async def test_a_text_document_is_read_live_in_the_room_that_people_have(
    rtc: AgentClient, server: JupyterProcess
) -> None:
    (server.root / "live.txt").write_text("on disk")
    assert (await parsed(rtc, "get_document_info", path="live.txt"))["content"] == "on disk"
    async with agent(server, "Ada") as ada:
        edit = [{"old_text": "on disk", "new_text": "not saved yet"}]
        await ada.ask("batch_update_document", path="live.txt", operations=edit)
        info = await parsed(rtc, "get_document_info", path="live.txt")
        assert info["content"] == "not saved yet"
        opened = await ada.ask("create_document_session", path="live.txt")
        assert opened["room_id"].startswith("text:file:")


async def test_cells_run_in_the_kernel_that_people_use(
    rtc: AgentClient, api: KernelApi, warm: Warm
) -> None:
    path = await warm("value = 6")
    await rtc.call("restart_nb_kernel", path=path)
    (before,) = await api.sessions(path)
    cells = [{"content": "print(value * 7)"}]
    result = await rtc.call("insert_nb_cells", path=path, position=-1, cells=cells)
    assert "42" in blocks(result)[1]
    (after,) = await api.sessions(path)
    assert after["kernel"]["id"] == before["kernel"]["id"]


async def test_concurrent_clients_edit_the_same_notebook_without_losing_anything(
    server: JupyterProcess, rtc: AgentClient, new: New
) -> None:
    path = new("start")
    async with agent(server, "Bob", toolsets="rtc", structured="false") as bob:

        async def insert(client: AgentClient, name: str) -> None:
            for n in range(5):
                cells = [{"content": f"{name}{n}"}]
                arguments = {"path": path, "position": -1, "cells": cells, "exec": False}
                await parsed(client, "insert_nb_cells", **arguments)

        await asyncio.gather(insert(rtc, "r"), insert(bob, "b"))
        found = await contents(bob, path)
    assert sorted(found[1:]) == sorted(f"{name}{n}" for name in "rb" for n in range(5))


async def test_a_long_answer_stays_json_and_says_how_to_continue(
    rtc: AgentClient, server: JupyterProcess
) -> None:
    cells = [notebooks.code(f"c{n}", "é" * 6_000) for n in range(10)]
    notebooks.write(server.root / "long.ipynb", notebooks.notebook(cells))
    result = await rtc.call("read_nb_cells", path="long.ipynb")
    shown, note = blocks(result)[:2]
    some = json.loads(shown)["cells"]
    assert 0 < len(some) < 10
    assert f"{len(some)} of 10 cells fit; continue with ranges that begin at {len(some)}" in note
    rest = await parsed(rtc, "read_nb_cells", path="long.ipynb", ranges=[{"start": len(some)}])
    assert rest["cells"][0]["index"] == len(some)


async def test_a_cell_that_is_too_long_is_cut_and_linked(
    rtc: AgentClient, server: JupyterProcess
) -> None:
    cell = notebooks.code("huge", '"' * 80_000)
    notebooks.write(server.root / "huge.ipynb", notebooks.notebook([cell]))
    result = await rtc.call("read_nb_cells", path="huge.ipynb")
    (shown,) = json.loads(blocks(result)[0])["cells"]
    assert 10_000 < len(shown["content"]) < 80_000
    uri = next(part.uri for part in result.content if part.type == "resource_link")
    assert uri in blocks(result)[1]
    read = await rtc.client.read_resource(uri)
    (whole,) = read.contents
    assert isinstance(whole, TextResourceContents)
    assert '"' * 20_000 in whole.text


async def test_long_documents_and_folders_stay_json(
    rtc: AgentClient, server: JupyterProcess
) -> None:
    (server.root / "long.txt").write_text('"quoted"\n' * 20_000)
    result = await rtc.call("get_document_info", path="long.txt")
    assert json.loads(blocks(result)[0])["content"].startswith('"quoted"\n')
    assert "The content is cut" in blocks(result)[1]
    folder = server.root / "crowded"
    folder.mkdir()
    for n in range(300):
        (folder / f"{n:03d}.txt").write_text("")
    result = await rtc.call("list_documents", path="crowded")
    first = json.loads(blocks(result)[0])
    assert f"start_index={len(first)}" in blocks(result)[1]
    rest = await parsed(rtc, "list_documents", path="crowded", start_index=len(first))
    assert [each["name"] for each in first + rest] == [f"{n:03d}.txt" for n in range(300)]


# -- what goes wrong -------------------------------------------------------------------------


async def test_ranges_that_make_no_sense_change_nothing(rtc: AgentClient, new: New) -> None:
    path = new(*"abc")
    wrong: dict[str, list[dict[str, int]]] = {
        "turned round": [{"start": 2, "end": 1}],
        "out of range": [{"start": 3}],
        "beyond": [{"start": 0, "end": 4}],
        "before": [{"start": -4}],
        "overlapping": [{"start": 0, "end": 2}, {"start": 1}],
        "none": [],
    }
    for name, ranges in wrong.items():
        said = await refused(rtc, "delete_nb_cells", path=path, ranges=ranges)
        assert said.startswith("invalid_argument: "), name
        changes = [{"range": each, "content": "new"} for each in ranges]
        said = await refused(rtc, "modify_nb_cells", path=path, modifications=changes)
        assert said.startswith("invalid_argument: "), name
    assert await contents(rtc, path) == ["a", "b", "c"]


async def test_a_position_outside_of_the_notebook_inserts_and_runs_nothing(
    rtc: AgentClient, warm: Warm
) -> None:
    path = await warm(*"abc")
    for position in (4, -5):
        cells = [{"content": "1 / 0"}]
        said = await refused(rtc, "insert_nb_cells", path=path, position=position, cells=cells)
        assert said.startswith("invalid_argument: ")
        assert "has 3 cells" in said
    assert await contents(rtc, path) == ["a", "b", "c"]


async def test_reading_a_range_that_is_not_there_is_an_error(rtc: AgentClient, new: New) -> None:
    path = new(*"abc")
    for wrong in {"start": 2, "end": 1}, {"start": 3}, {"start": 7, "end": 9}:
        said = await refused(rtc, "read_nb_cells", path=path, ranges=[wrong])
        assert "the notebook has 3" in said, wrong


async def test_a_cell_that_moved_since_it_was_read_is_not_taken_for_another(
    rtc: AgentClient, new: New, tab: Tab
) -> None:
    path = new(*"abcd")
    await contents(rtc, path)
    ana = await tab(path)
    ana.insert_cell(1, "from Ana")
    await ana.flush()
    said = await refused(rtc, "delete_nb_cells", path=path, ranges=[{"start": 2, "end": 4}])
    assert said.startswith("stale_index: ")
    assert "Next: Call read_nb_cells to see the cells." in said
    assert ana.sources() == ["a", "from Ana", "b", "c", "d"]
    await contents(rtc, path)
    await message(rtc, "delete_nb_cells", path=path, ranges=[{"start": 2}])
    # Its own edits shift what it knows.
    await message(rtc, "delete_nb_cells", path=path, ranges=[{"start": 2}])
    assert await contents(rtc, path) == ["a", "from Ana", "d"]


async def test_errors_name_the_tools_of_this_toolset(rtc: AgentClient, new: New) -> None:
    said = await refused(rtc, "read_nb_cells", path="missing.ipynb")
    assert "list_documents" in said
    said = await refused(rtc, "get_document_info", path="missing.md")
    assert said.startswith("document_not_found: ")
    said = await refused(rtc, "begin_nb_session", path="")
    assert "list_nbs" in said
    said = await refused(rtc, "get_notebook", path=new("print(1)"))
    assert "not among this connection's toolsets" in said


async def test_resources_are_refused_in_the_words_of_this_toolset(
    rtc: AgentClient, new: New
) -> None:
    began = await parsed(rtc, "begin_nb_session", path=new("a"))
    cell = f"notebook://{began['session_id']}/{began['file_id']}/cells/missing"
    with pytest.raises(MCPError, match="Next: Call read_nb_cells to see the cells"):
        await rtc.client.read_resource(cell)


async def test_a_proposal_names_no_tool_that_is_not_there(
    server: JupyterProcess, rtc: AgentClient, new: New
) -> None:
    path = new("a")
    async with agent(server, "Pat", toolsets="rtc", works="propose", structured="false") as pat:
        changes = [{"range": {"start": 0}, "content": "proposed"}]
        result = await pat.call("modify_nb_cells", path=path, modifications=changes, exec=False)
        assert message_of(result).startswith("Successfully modified 1 cell range")
        assert "an agent with the default tools can show and merge it" in blocks(result)[1]
        assert await contents(pat, path) == ["a"]
    assert await contents(rtc, path) == ["a"]


@pytest.mark.parametrize("era", ["auto", LEGACY])
async def test_a_model_is_told_about_these_tools_only(server: JupyterProcess, era: str) -> None:
    for toolsets, tells in (
        ("rtc", "JSON"),
        ("connect", "connect_notebook"),
        ("rtc,connect", "connect_notebook"),
        ("all", "get_run"),
    ):
        async with agent(server, mode=era, toolsets=toolsets) as client:
            told = client.client.instructions or ""
            assert tells in told
            assert ("get_run" in told) is (toolsets == "all")
