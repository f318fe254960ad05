"""The MCP Inspector with our tools: over stdio, over HTTP, and at the extension's `/mcp`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.resources import RESOURCES
from tests.conftest import MakeServer
from tests.harness import forking, notebooks
from tests.harness.agents import AgentClient, agent, over_stdio, structured_address
from tests.harness.collaborator import Collaborator
from tests.harness.inspector import Era, Inspector
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import environment
from tests.harness.ways import served

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(180)]

PRINTED = "\n".join(f"line {n}" for n in range(2000))
CELLS = [
    notebooks.code("one", "1 + 1"),
    notebooks.code("long", "for n in range(2000): print('line', n)"),
]

PROTOCOLS: dict[Era, str] = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@dataclass(frozen=True)
class Way:
    """A way to our tools."""

    server: JupyterProcess
    entry: dict[str, Any]
    """What the Inspector needs to know of it."""
    connect: Callable[[], AbstractAsyncContextManager[AgentClient]]
    """The official client, on the same way."""
    path: str
    """A notebook that no other test has: the room of one that was edited lives on for a while."""


@pytest.fixture(scope="module")
async def stock(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A Jupyter server that has nothing of ours, and the command joined to it over HTTP."""
    async with served(make_server, "standalone") as process:
        yield process


@pytest.fixture(params=["stdio", "http", "extension"])
def way(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    server: JupyterProcess = request.getfixturevalue(
        "server" if request.param == "extension" else "stock"
    )
    path = f"{notebooks.name_for(request.node.name)}.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.notebook(CELLS))
    if request.param == "stdio":
        joined = f"--server={server.url}"
        command, *arguments = forking.command("jupyter_collaboration_mcp.cli")
        entry = {
            "type": "stdio",
            "command": command,
            "args": [*arguments, joined],
            "env": environment(tmp_path, HOME=str(tmp_path), JUPYTER_TOKEN=server.token),
        }

        def connect() -> AbstractAsyncContextManager[AgentClient]:
            return over_stdio(tmp_path, joined, JUPYTER_TOKEN=server.token)

        return Way(server, entry, connect, path)
    url, headers = structured_address(server)
    entry = {"type": "streamable-http", "url": url, "headers": headers}
    return Way(server, entry, lambda: agent(server), path)


@pytest.fixture
def inspector(way: Way, tmp_path: Path) -> Inspector:
    home = tmp_path / "inspector"
    home.mkdir()
    return Inspector(way.entry, home)


@pytest.mark.parametrize("era", PROTOCOLS)
async def test_the_inspector_lists_exactly_the_tools_of_the_server(
    way: Way, inspector: Inspector, era: Era
) -> None:
    greeting = await inspector.ask("initialize", era=era)
    assert greeting.result["protocolVersion"] == PROTOCOLS[era]
    # Strict: it also fails for a schema that some clients refuse.
    listed = await inspector.ask("tools/list", "--strict", era=era)
    assert listed.exit_code == 0, listed.complaints
    async with way.connect() as ada:
        tools = (await ada.client.list_tools()).tools
    shown = [(tool["name"], tool["inputSchema"]) for tool in listed.result["tools"]]
    assert shown == [(tool.name, tool.input_schema) for tool in tools]
    assert ("list_servers" in dict(shown)) is (way.server.standalone is not None)


async def test_the_inspector_lists_the_notebooks_of_the_server(
    way: Way, inspector: Inspector
) -> None:
    notebooks.write(Path(way.server.root) / "other.ipynb", notebooks.notebook([]))
    listed = await inspector.call("list_notebooks")
    assert listed.exit_code == 0, listed.complaints
    facts = listed.result["structuredContent"]
    assert {entry["path"] for entry in facts["notebooks"]} >= {way.path, "other.ipynb"}
    assert "other.ipynb" in listed.text
    one = await inspector.call("list_notebooks", path_prefix="other.ipynb", max_results=1)
    assert [entry["path"] for entry in one.result["structuredContent"]["notebooks"]] == [
        "other.ipynb"
    ]


@pytest.mark.parametrize("era", PROTOCOLS)
async def test_people_see_what_the_inspector_edits(
    way: Way, inspector: Inspector, era: Era
) -> None:
    path = way.path
    async with Collaborator(way.server.url, way.server.token, path) as ana:
        assert ana.ids() == ["one", "long"]
        edited = await inspector.call(
            "batch_update_notebook_cells",
            era,
            path=path,
            updates=[{"cell_id": "one", "old_text": "1 + 1", "new_text": f"'é 😀 {era}'"}],
            exec=False,
        )
        assert edited.exit_code == 0, edited.complaints
        await ana.until(lambda: ana.source("one") == f"'é 😀 {era}'")
        inserted = await inspector.call(
            "batch_insert_notebook_cells",
            era,
            path=path,
            cells=[{"content": "# New", "cell_type": "markdown"}],
            start_position=0,
        )
        assert inserted.exit_code == 0, inserted.complaints
        (cell,) = inserted.result["structuredContent"]["cells"]
        await ana.until(lambda: ana.ids() == [cell["id"], "one", "long"])
        assert ana.source(0) == "# New"


async def test_the_inspector_shows_our_message_for_a_wrong_argument(
    way: Way, inspector: Inspector
) -> None:
    refused = await inspector.call("list_notebooks", max_results=0)
    assert refused.exit_code == 5
    assert refused.result["isError"] is True
    assert refused.text.startswith("invalid_argument: The arguments of list_notebooks are invalid")
    assert "max_results should be greater than or equal to 1" in refused.text
    assert "\nNext: " in refused.text
    missing = await inspector.call("get_notebook", path="nowhere.ipynb")
    assert (missing.exit_code, missing.result["isError"]) == (5, True)
    assert missing.text.startswith("document_not_found: ")
    assert missing.result["structuredContent"]["error"]["path"] == "nowhere.ipynb"


async def test_the_inspector_reads_an_output_by_the_address_in_the_answer(
    way: Way, inspector: Inspector
) -> None:
    templates = await inspector.ask("resources/templates/list")
    names = {template["name"] for template in templates.result["resourceTemplates"]}
    single = {"open notebooks", "current document"}  # they have no variables
    assert names == {kind.name for kind in RESOURCES} - single
    ran = await inspector.call("execute_notebook_cell", path=way.path, cell_id="long", timeout=60)
    assert ran.exit_code == 0, ran.complaints
    assert PRINTED not in ran.text
    (link,) = [part for part in ran.result["content"] if part["type"] == "resource_link"]
    read = await inspector.ask("resources/read", "--uri", link["uri"])
    if way.entry["type"] == "stdio":  # each request has a command of its own, which knows no run
        assert "run_not_found" in read.complaints
        return
    assert read.exit_code == 0, read.complaints
    (content,) = read.result["contents"]
    assert content["text"] == PRINTED


@pytest.mark.parametrize("way", ["http", "extension"], indirect=True)
async def test_the_inspector_sees_nothing_without_the_token(way: Way, tmp_path: Path) -> None:
    stranger = Inspector({**way.entry, "headers": {"Authorization": "Bearer wrong"}}, tmp_path)
    refused = await stranger.ask("tools/list")
    assert (refused.exit_code, refused.result) == (3, {})
    assert "auth_required" in refused.complaints
