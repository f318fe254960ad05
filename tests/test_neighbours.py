"""Another extension of the same Jupyter server that serves MCP at the same path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from traitlets import TraitError

from jupyter_collaboration_mcp.app import JupyterCollaborationMCP
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.standalone.doctor import Check, examine
from tests.conftest import MakeServer
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.transport.conftest import HEADERS, INITIALIZE

pytestmark = pytest.mark.anyio

_NEIGHBOUR = """
from tornado.web import RequestHandler

class Neighbour(RequestHandler):
    def post(self):
        self.finish({"who": "neighbour"})

    def check_xsrf_cookie(self):
        pass

def _load_jupyter_server_extension(serverapp):
    base = serverapp.web_app.settings["base_url"]
    serverapp.web_app.add_handlers(".*$", [(base + "mcp(?:/)?", Neighbour)])
"""

Beside = Callable[..., JupyterProcess]


@pytest.fixture
def beside(make_server: MakeServer, tmp_path: Path) -> Beside:
    """A server with ours and another one; Jupyter loads them in the order of their names."""

    def make(name: str, *arguments: str) -> JupyterProcess:
        (tmp_path / f"{name}.py").write_text(_NEIGHBOUR)
        return make_server(
            "--ServerApp.allow_unauthenticated_access=True",
            *arguments,
            extra_path=[tmp_path],
            extensions={name: True},
            base_url="/people/ana/",
        )

    return make


async def who_answers(server: JupyterProcess, path: str) -> str:
    async with httpx2.AsyncClient(headers={**HEADERS, **server.headers}, timeout=30) as http:
        answer = await http.post(f"{server.url}{path}", json=INITIALIZE)
    return "neighbour" if "neighbour" in answer.text else "ours"


async def served_at(server: JupyterProcess) -> str:
    """The URL in the log; all that is said at the start is said by then."""
    said = "MCP is served at "
    await until(lambda: said in server.log)
    (line,) = [line for line in server.log.splitlines() if said in line]
    return line.partition(said)[2]


async def extension_check(server: JupyterProcess) -> Check:
    checks = await examine(ServerAddress(server.url, server.token))
    return next(check for check in checks if check.name == "extension")


async def test_a_path_that_another_extension_serves_too_causes_a_warning(beside: Beside) -> None:
    async with beside("z_neighbour") as server:
        assert await served_at(server) == f"{server.url}mcp"
        await until(lambda: "url_path" in server.log)
        (line,) = [line for line in server.log.splitlines() if "url_path" in line]
        assert "z_neighbour.Neighbour serves /people/ana/mcp too" in line
        assert "requests go to this extension" in line
        assert await who_answers(server, "mcp") == "ours"
        check = await extension_check(server)
        assert check.state == "warning"
        assert "z_neighbour.Neighbour serves" in check.said


async def test_a_neighbour_that_receives_our_requests_is_detected_by_a_real_request(
    beside: Beside,
) -> None:
    async with beside("a_neighbour") as server:
        await until(lambda: "requests go to a_neighbour" in server.log)
        assert await who_answers(server, "mcp") == "neighbour"
        check = await extension_check(server)
        assert check.state == "failed"
        assert "does not speak MCP" in check.said


async def test_the_extension_works_beside_a_neighbour_with_its_own_path(beside: Beside) -> None:
    setting = "--JupyterCollaborationMCP.url_path=/agents/mcp/"
    async with beside("a_neighbour", setting) as server:
        assert await served_at(server) == f"{server.url}agents/mcp"
        assert await who_answers(server, "mcp") == "neighbour"
        assert await who_answers(server, "agents/mcp") == "ours"
        check = await extension_check(server)
        assert check.state == "ok"
        assert f"at {server.url}agents/mcp: jupyter-collaboration-mcp 0.1.0 has" in check.said
        assert "url_path" not in server.log.replace(setting, "")
        assert server.token not in server.log


@pytest.mark.parametrize("path", ["", "/", "a b", "../mcp", "mcp/..", "mcp?x", "(.*)", "a//b"])
def test_an_invalid_endpoint_path_is_refused(path: str) -> None:
    with pytest.raises(TraitError, match="collaboration-mcp"):
        JupyterCollaborationMCP(url_path=path)
