"""A model may name any server; it gets neither the person's token nor more than they allowed."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.standalone.discovery import place_of
from tests.conftest import MakeServer
from tests.harness.agents import agent, over_stdio
from tests.harness.jupyter import JupyterProcess
from tests.harness.proxy import Proxy
from tests.harness.standalone import StandaloneProcess

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

STOCK = {"jupyter_collaboration_mcp": False}


@pytest.fixture(scope="module")
async def stock(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(extensions=STOCK) as process:
        yield process


@pytest.fixture(scope="module")
async def other(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server(extensions=STOCK) as process:
        yield process


class Thief(BaseHTTPRequestHandler):
    """Remembers what it was sent."""

    headers_seen: list[str]

    def do_GET(self) -> None:
        self.headers_seen.append(f"GET {self.path}\n{self.headers}")
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def thief() -> Iterator[str]:
    Thief.headers_seen = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Thief) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()


# -- tokens ----------------------------------------------------------------------------------


async def test_the_persons_token_is_not_sent_to_a_server_named_by_a_model(
    stock: JupyterProcess, thief: str, tmp_path: Path
) -> None:
    for name in ("JUPYTER_TOKEN", "JUPYTER_COLLABORATION_MCP_TOKEN"):
        more: dict[str, Any] = {name: stock.token}
        async with over_stdio(tmp_path, f"--server={stock.url}", cwd=tmp_path, **more) as ada:
            error = await ada.refused("connect_server", url=thief, alias="thief")
            assert error["code"] == "token_refused"
            assert "none is known" in error["message"]
            assert (await ada.ask("list_servers"))["servers"][0]["state"] == "ok"
    assert Thief.headers_seen
    assert not any("uthorization" in headers for headers in Thief.headers_seen)
    assert not any(stock.token in headers for headers in Thief.headers_seen)


async def test_the_persons_token_is_not_sent_to_other_users_on_the_same_hub(
    thief: str, tmp_path: Path
) -> None:
    named = f"--server={thief}user/ada/"
    async with over_stdio(tmp_path, named, cwd=tmp_path, JUPYTER_TOKEN="of-ada") as ada:
        for url in (f"{thief}user/eve/", f"{thief}user/ada/../eve/", thief, f"{thief}user/adam"):
            await ada.refused("connect_server", url=url, alias="eve")
        others = [seen for seen in Thief.headers_seen if not seen.startswith("GET /user/ada/api/")]
        assert others
        assert not any("of-ada" in seen for seen in others)
        await ada.ask("list_servers")
        assert "of-ada" in Thief.headers_seen[-1]
        await ada.ask("disconnect_server", alias="(default)")
        Thief.headers_seen.clear()
        await ada.refused("connect_server", url=f"{thief}user//ada/lab/tree/x", alias="again")
        assert "of-ada" in Thief.headers_seen[0]


async def test_a_server_named_by_the_person_gets_their_token_again(
    stock: JupyterProcess, other: JupyterProcess, tmp_path: Path
) -> None:
    servers = (f"--server=a={stock.url}", f"--server=b={other.url}?token={other.token}")
    async with over_stdio(tmp_path, *servers, JUPYTER_TOKEN=stock.token) as ada:
        await ada.ask("disconnect_server", alias="a")
        connected = await ada.ask("connect_server", url=stock.url, alias="c")
        assert connected["alias"] == "c"


async def test_a_server_of_this_machine_gets_its_own_token_from_its_file(
    stock: JupyterProcess, other: JupyterProcess, tmp_path: Path
) -> None:
    runtime = str(other.home / "runtime")
    async with over_stdio(
        tmp_path,
        f"--server={stock.url}",
        JUPYTER_TOKEN=stock.token,
        JUPYTER_RUNTIME_DIR=runtime,
    ) as ada:
        await ada.ask("connect_server", url=other.url, alias="other")


# -- levels ----------------------------------------------------------------------------------


async def test_a_server_is_not_connected_twice_under_any_name(
    stock: JupyterProcess, other: JupyterProcess
) -> None:
    async with (
        StandaloneProcess([stock, other], "--permission=s2=read") as command,
        Proxy(other.url) as detour,
        agent(command) as ada,
    ):
        token = f"?token={other.token}"
        for host in ("127.0.0.1", "localhost", "LOCALHOST", "127.1", "[::ffff:127.0.0.1]"):
            url = f"http://{host}:{other.port}/{token}"
            error = await ada.refused("connect_server", url=url, alias="again")
            assert (error["code"], error["alias"]) == ("unknown_server", "s2")
            assert "connected already" in error["message"]
        # Nothing in this address says so; the server itself does.
        error = await ada.refused("connect_server", url=f"{detour.url}{token}", alias="again")
        assert (error["code"], error["alias"]) == ("unknown_server", "s2")
        assert len((await ada.ask("list_servers"))["servers"]) == 2


async def test_a_permission_level_stays_with_its_server_and_alias(
    stock: JupyterProcess, other: JupyterProcess
) -> None:
    async with (
        StandaloneProcess([stock, other], "--permission=s1=admin", "--permission=s2=read") as run,
        agent(run) as ada,
    ):
        first, second = (f"{server.url}?token={server.token}" for server in (stock, other))
        await ada.ask("disconnect_server", alias="s2")
        facts = await ada.ask("connect_server", url=second, alias="free")
        assert facts["permission"] == "read"
        await ada.ask("disconnect_server", alias="free")
        await ada.ask("disconnect_server", alias="s1")
        error = await ada.refused("connect_server", url=second, alias="s1")
        assert (error["code"], error["alias"]) == ("unknown_server", "s1")
        assert (await ada.ask("connect_server", url=second, alias="s2"))["permission"] == "read"
        assert (await ada.ask("connect_server", url=first, alias="s1"))["permission"] == "admin"


async def test_a_proxied_address_does_not_bypass_a_permission_level(
    stock: JupyterProcess, other: JupyterProcess
) -> None:
    levels = ("--permission=admin", "--permission=s2=read")
    async with (
        StandaloneProcess([stock, other], *levels) as command,
        Proxy(other.url) as detour,
        agent(command) as ada,
    ):
        await ada.ask("disconnect_server", alias="s2")
        url = f"{detour.url}?token={other.token}"
        assert (await ada.ask("connect_server", url=url, alias="x"))["permission"] == "read"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["--permission=s1=execute"], "execute"),
        (["--permission=admin", "--permission=s1=read"], "admin"),
        ([], "admin"),
    ],
    ids=["single", "general", "none"],
)
async def test_a_server_connected_by_an_agent_gets_the_general_level_or_the_lowest(
    stock: JupyterProcess, other: JupyterProcess, tmp_path: Path, given: list[str], expected: str
) -> None:
    server = f"--server=s1={stock.url}?token={stock.token}"
    async with over_stdio(tmp_path, server, *given) as ada:
        url = f"{other.url}?token={other.token}"
        assert (await ada.ask("connect_server", url=url))["permission"] == expected


def test_different_spellings_of_an_address_are_the_same_place() -> None:
    same = {
        place_of(url)
        for url in (
            "http://localhost:8888/a b/",
            "http://LOCALHOST:8888/a%20b",
            "http://127.0.0.1:8888//a%20b/",
            "http://[::1]:8888/./a%20b/",
            "http://0x7f000001:8888/a%20b/",
            "http://ada:hush@localhost.:8888/a%20b/",
        )
    }
    assert len(same) == 1
    different = {
        place_of(f"http://{rest}") for rest in ("h:1/", "h:2/", "g:1/", "h:1/a", "h:1/A", "h/")
    }
    assert len(different) == 6


# -- what is said of the default -------------------------------------------------------------


async def test_the_server_without_an_alias_has_a_name_in_texts(
    stock: JupyterProcess, other: JupyterProcess, tmp_path: Path
) -> None:
    async with over_stdio(tmp_path, f"--server={stock.url}", JUPYTER_TOKEN=stock.token) as ada:
        await ada.ask("connect_server", url=f"{other.url}?token={other.token}", alias="b")
        error = await ada.refused("disconnect_server", alias="c")
        assert "there are: (default), b." in error["message"]
        said = await ada.say("disconnect_server", alias="(default)")
        assert said.startswith("Disconnected (default); left: b.")
        assert other.url in said
        await ada.ask("disconnect_server", alias="b")
        for tool in ("list_kernels", "list_notebooks"):
            assert (await ada.refused(tool))["code"] == "unknown_server"
