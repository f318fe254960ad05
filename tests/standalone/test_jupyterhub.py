"""Servers behind a JupyterHub, which answers in their place while they do not run.

The answers are those of JupyterHub 6.1.1 with configurable-http-proxy, headers and all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.standalone.doctor import examine
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, over_stdio, text_of
from tests.harness.http_proxy import Front, Speech
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

PATH = "work.ipynb"
VERSION = "6.1.1"
HUB = f"server: TornadoServer/6.6.1\r\nx-jupyterhub-version: {VERSION}\r\nconnection: close\r\n"
PAGE = '<!DOCTYPE HTML>\n<html lang="en">\n<head><title>JupyterHub</title></head>\n</html>\n'


async def redirect(head: bytes, writer: asyncio.StreamWriter) -> None:
    target = head.split(b" ")[1].decode()
    writer.write(
        f"HTTP/1.1 302 Found\r\n{HUB}content-type: text/html\r\n"
        f"location: /hub{target}\r\ncontent-length: 0\r\n\r\n".encode()
    )


async def page(head: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(
        f"HTTP/1.1 403 Forbidden\r\n{HUB}content-type: text/html\r\n"
        f"content-length: {len(PAGE)}\r\n\r\n{PAGE}".encode()
    )


async def failed(head: bytes, writer: asyncio.StreamWriter) -> None:
    said = '{"message": "JupyterHub server no longer running at /user/ana/api/status."}'
    writer.write(
        f"HTTP/1.1 424 Failed Dependency\r\n{HUB}content-type: application/json\r\n"
        f"content-length: {len(said)}\r\n\r\n{said}".encode()
    )


#: What a Hub says to a question for a server that does not run, by method.
STOPPED: dict[str, int | Speech] = {
    "GET": redirect,
    "PUT": page,
    "POST": page,
    "PATCH": page,
    "DELETE": page,
    "OPTIONS": page,
}


@pytest.fixture(scope="module")
async def single(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A user's server, which says that it belongs to a Hub."""
    settings = (
        f'--ServerApp.tornado_settings={{"headers": {{"X-JupyterHub-Version": "{VERSION}"}}}}'
    )
    async with make_server(
        settings, extensions={"jupyter_collaboration_mcp": False}, base_url="/user/ana/"
    ) as server:
        yield server


@asynccontextmanager
async def joined(
    server: JupyterProcess,
    home: Path,
    token: str = "",
    module: str = "jupyter_collaboration_mcp.cli",
) -> AsyncIterator[tuple[AgentClient, Front]]:
    notebooks.write(Path(server.root) / PATH, notebooks.numbered(1))
    async with (
        Front(server.url, {}) as front,
        over_stdio(
            home, f"--server={front.url}", module=module, JUPYTER_TOKEN=token or server.token
        ) as ada,
    ):
        yield ada, front


def is_stopped(error: dict[str, Any], front: Front) -> bool:
    root = front.url.removesuffix("/user/ana/")
    assert error["code"] == "server_unreachable"
    assert f"{front.url} is not running" in error["message"]
    assert "not a Jupyter server" not in error["message"]
    assert f"{root}/hub/spawn/ana" in error["next_step"]
    return True


@pytest.mark.parametrize("known", [STOPPED, {**STOPPED, "GET": failed}], ids=["302", "424"])
async def test_a_server_stopped_by_its_hub_is_reported_as_stopped(
    single: JupyterProcess, tmp_path: Path, known: dict[str, int | Speech]
) -> None:
    async with joined(single, tmp_path) as (ada, front):
        front.answers = known
        update = {"cell_id": "cell-00000", "content": "2"}
        for tool, arguments in (
            ("get_notebook", {"path": PATH}),
            ("batch_update_notebook_cells", {"path": PATH, "updates": [update], "exec": False}),
            ("execute_notebook_cell", {"path": PATH, "cell_id": "cell-00000"}),
            ("create_document", {"path": "new.txt", "type": "file"}),
            ("list_notebooks", {}),
            ("list_kernels", {}),
            ("connect_server", {"url": f"{front.url}named/", "alias": "again"}),
        ):
            error = await ada.refused(tool, **arguments)
            if tool == "connect_server":
                assert "/hub/spawn/ana/named" in error["next_step"]
            else:
                assert is_stopped(error, front)
        assert "is not running" in await ada.say("list_servers")
        (check,) = await examine(ServerAddress(front.url, single.token))
        assert (check.name, check.state) == ("reachable", "failed")
        assert "is not running" in check.said
        assert "/hub/spawn/ana" in str(check.remedy)


async def test_a_server_that_is_restarted_is_joined_again(
    single: JupyterProcess, tmp_path: Path
) -> None:
    async with joined(single, tmp_path, module="tests.harness.impatient") as (ada, front):
        await ada.write(PATH, "cell-00000", "one")
        ran = await ada.ask("execute_notebook_cell", path=PATH, cell_id="cell-00000")
        assert ran["runs"]
        front.answers = STOPPED
        asked = len(front.asked)
        await front.cut()
        # The seat in the room and the link to the kernel try to come back by their WebSockets.
        await until(lambda: any("/channels" in line for line in front.asked[asked:]))
        error = await ada.refused("get_notebook", path=PATH)
        assert "is not running" in error["message"]
        front.answers = {}
        assert (await ada.ask("get_notebook", path=PATH))["cells"][0]["source"] == "one"


async def test_a_token_refused_by_a_hub_leads_to_its_token_page(
    single: JupyterProcess, tmp_path: Path
) -> None:
    async with joined(single, tmp_path, "wrong") as (ada, front):
        root = front.url.removesuffix("/user/ana/")
        for tool, arguments in (("get_notebook", {"path": PATH}), ("list_kernels", {})):
            result = await ada.call(tool, **arguments)
            assert text_of(result).startswith("token_refused: ")
            assert f"{root}/hub/token" in text_of(result)
            assert "access:servers!user=ana" in text_of(result)
            assert "jupyter server list" not in text_of(result)
        checks = await examine(ServerAddress(front.url, "wrong"))
        assert checks[-1].name == "token"
        assert f"{root}/hub/token" in str(checks[-1].remedy)
        assert "jupyter server list" not in str(checks[-1].remedy)


@pytest.mark.parametrize("base", ["", "hub/"])
async def test_a_hub_itself_is_not_taken_for_a_users_server(
    single: JupyterProcess, tmp_path: Path, base: str
) -> None:
    async def nothing(head: bytes, writer: asyncio.StreamWriter) -> None:
        said = '{"status": 404, "message": null}'
        writer.write(
            f"HTTP/1.1 404 Not Found\r\n{HUB}content-type: application/json\r\n"
            f"content-length: {len(said)}\r\n\r\n{said}".encode()
        )

    async with Front("http://127.0.0.1:9/", {"GET": nothing if base else redirect}) as front:
        url = f"{front.url}{base}"
        reachable, check = await examine(ServerAddress(url, "token"))
        assert reachable.state == "ok"
        assert "JupyterHub itself" in check.said
        assert f"{front.url}user/NAME/" in str(check.remedy)
