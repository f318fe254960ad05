"""The command with the toolset `connect`: notebooks on several servers, connected by URL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, over_stdio, text_of
from tests.harness.jupyter import JupyterProcess

pytestmark = pytest.mark.anyio

STOCK = {"jupyter_collaboration_mcp": False}


@pytest.fixture(scope="module")
async def first(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(extensions=STOCK) as process:
        notebooks.write(process.root / "work.ipynb", notebooks.notebook([notebooks.code("a", "1")]))
        yield process


@pytest.fixture(scope="module")
async def second(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(extensions=STOCK) as process:
        cell = notebooks.code("a", "print(6 * 7)")
        notebooks.write(process.root / "work.ipynb", notebooks.notebook([cell]))
        yield process


async def refused(client: AgentClient, tool: str, **arguments: str) -> str:
    result = await client.call(tool, **arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def test_notebooks_of_several_servers_are_connected_by_url(
    first: JupyterProcess, second: JupyterProcess, tmp_path: Path
) -> None:
    work = {"notebook_path": "work.ipynb"}
    async with over_stdio(
        tmp_path, f"--server={first.url}", "--toolsets=connect", JUPYTER_TOKEN=first.token
    ) as kim:
        await kim.say("connect_notebook", notebook_name="here", **work)
        await kim.say("connect_notebook", notebook_name="named", server_url=first.url, **work)
        there = {"server_url": second.url, "token": second.token}
        for mode in "connect", "reconnect":
            again = {"notebook_name": "here", "mode": mode}
            said = await refused(kim, "connect_notebook", **again, **there, **work)
            assert f"'here' is the name of another notebook, 'work.ipynb' on {first.url}" in said
        await kim.say("connect_notebook", notebook_name="there", **there, **work)
        said = await kim.say("execute_cell", notebook_name="there", cell_index=0)
        assert "42" in said
        assert "print" not in await kim.say("read_cell", notebook_name="here", cell_index=0)
        # Whatever its address is: nothing is connected twice.
        twin = second.url.replace("127.0.0.1", "127.1").replace("localhost", "127.1")
        await kim.say("connect_notebook", notebook_name="twin", server_url=twin, **work)
        rows = [row.split("\t") for row in (await kim.say("list_notebook")).splitlines()[1:]]
        assert [row[:3] for row in rows] == [
            ["here", first.url, "work.ipynb"],
            ["named", first.url, "work.ipynb"],
            ["there", second.url, "work.ipynb"],
            ["twin", second.url, "work.ipynb"],
        ]
        assert rows[0][3] == "none yet"
        assert rows[2][3].startswith("python3 ")
        assert rows[2][3] == rows[3][3]


async def test_names_are_listed_although_their_server_is_gone(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server(extensions=STOCK)
    async with AsyncExitStack() as stack:
        async with server:
            notebooks.write(server.root / "work.ipynb", notebooks.numbered(1))
            options = (f"--server={server.url}", "--toolsets=connect")
            kim = await stack.enter_async_context(
                over_stdio(tmp_path, *options, JUPYTER_TOKEN=server.token)
            )
            await kim.say("connect_notebook", notebook_name="nb", notebook_path="work.ipynb")
        said = await kim.say("list_notebook")
        assert f"nb\t{server.url}\twork.ipynb\tserver does not answer\n" in said
        assert "cannot be reached" in said


async def test_what_is_no_jupyter_server_or_has_another_token_is_not_connected(
    first: JupyterProcess, second: JupyterProcess, tmp_path: Path
) -> None:
    work = {"notebook_name": "nb", "notebook_path": "work.ipynb"}
    tools = "--toolsets=connect,server"
    async with over_stdio(
        tmp_path, f"--server={first.url}", tools, JUPYTER_TOKEN=first.token
    ) as kim:
        wrong = {"server_url": second.url, "token": "no-such-token"}
        said = await refused(kim, "connect_notebook", **wrong, **work)
        assert said.startswith("token_refused: ")
        assert "no-such-token" not in said
        assert "Next: Leave token out if the server runs on this machine; " in said
        said = await refused(kim, "connect_notebook", server_url="http://127.0.0.1:9/", **work)
        assert said.startswith("server_unreachable: ")
        nowhere = f"{first.url}elsewhere/"
        said = await refused(kim, "connect_notebook", server_url=nowhere, **work)
        assert said.startswith("not_jupyter: ")
        assert len((await kim.say("list_servers")).splitlines()) == 1
        assert await kim.say("list_notebook") == "No notebook is currently connected"


async def test_calls_that_connect_the_same_server_at_once_both_succeed(
    first: JupyterProcess, second: JupyterProcess, tmp_path: Path
) -> None:
    async with over_stdio(
        tmp_path, f"--server={first.url}", "--toolsets=connect", JUPYTER_TOKEN=first.token
    ) as kim:
        there = {"server_url": second.url, "token": second.token, "mode": "create"}
        names = ["a", "b", "c"]
        await asyncio.gather(
            *(
                kim.say(
                    "connect_notebook", notebook_name=name, notebook_path=f"{name}.ipynb", **there
                )
                for name in names
            )
        )
        rows = [row.split("\t") for row in (await kim.say("list_notebook")).splitlines()[1:]]
        assert [row[:3] for row in rows] == [[name, second.url, f"{name}.ipynb"] for name in names]


async def test_images_are_left_out_where_the_environment_does_not_allow_them(
    first: JupyterProcess, tmp_path: Path
) -> None:
    pixel = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5E"
        "rkJggg=="
    )
    output = {"output_type": "display_data", "data": {"image/png": pixel}, "metadata": {}}
    cell = notebooks.code("a", "plot()", outputs=[output], execution_count=1)
    notebooks.write(first.root / "picture.ipynb", notebooks.notebook([cell]))
    for allowed, images in ("true", 1), ("false", 0):
        options = (f"--server={first.url}", "--toolsets=connect")
        async with over_stdio(
            tmp_path, *options, JUPYTER_TOKEN=first.token, ALLOW_IMG=allowed
        ) as kim:
            await kim.say("connect_notebook", notebook_name="nb", notebook_path="picture.ipynb")
            result = await kim.call("read_cell", notebook_name="nb", cell_index=0)
            assert len([part for part in result.content if part.type == "image"]) == images
            assert "image/png" in text_of(result)


async def test_connecting_another_server_needs_the_level_admin(
    first: JupyterProcess, second: JupyterProcess, tmp_path: Path
) -> None:
    options = ("--toolsets=connect", "--permission=execute")
    async with over_stdio(
        tmp_path, f"--server={first.url}", *options, JUPYTER_TOKEN=first.token
    ) as kim:
        work = {"notebook_path": "work.ipynb"}
        await kim.say("connect_notebook", notebook_name="here", server_url=first.url, **work)
        there = {"server_url": second.url, "token": second.token}
        said = await refused(kim, "connect_notebook", notebook_name="there", **there, **work)
        assert said.startswith("permission_refused: ")
        assert "admin" in said
