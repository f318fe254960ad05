"""Tokens of agents in a real server: what they open, what they do not, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from jupyter_collaboration_mcp.cli import main
from jupyter_collaboration_mcp.documents.addresses import Document
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, eventually
from tests.harness.subscribers import address

pytestmark = pytest.mark.anyio

#: A user who may do nothing, and a path that nobody may.
AUTHORIZER = """
from jupyter_server.auth import Authorizer


class Picky(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        if resource == "mcp_tokens" and handler.request.headers.get("X-Denied"):
            return False
        return (getattr(handler, "collaboration_mcp_path", None) or "") != "reports/closed.ipynb"
"""


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    async with make_server() as process:
        root = Path(process.root)
        (root / "reports").mkdir()
        notebooks.write(root / "reports/a.ipynb", notebooks.numbered(2))
        notebooks.write(root / "secret.ipynb", notebooks.numbered(2))
        (root / "reports/notes.md").write_text("# Notes\n")
        yield process


def tokens_url(server: JupyterProcess) -> str:
    return f"{server.url}api/collaboration-mcp/tokens"


async def make(server: JupyterProcess, **body: Any) -> dict[str, Any]:
    async with httpx2.AsyncClient(headers=server.headers) as http:
        response = await http.post(tokens_url(server), json={"agent": "Ada", **body})
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()
    return made


async def revoke(server: JupyterProcess, token_id: str) -> int:
    async with httpx2.AsyncClient(headers=server.headers) as http:
        return (await http.delete(f"{tokens_url(server)}/{token_id}")).status_code


@asynccontextmanager
async def holder(
    server: JupyterProcess, token: str, query: str = "", mode: str = MODERN
) -> AsyncIterator[AgentClient]:
    """An agent that has only a token of its own."""
    headers = {"Authorization": f"Bearer {token}"}
    url = f"{server.url}mcp?structured=true{query}"
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield AgentClient(client)


async def ping(server: JupyterProcess, token: str, query: str = "") -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        return await http.post(f"{server.url}mcp{query}", json=body)


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_token_lets_its_agent_in_under_its_own_name(
    server: JupyterProcess, mode: str
) -> None:
    made = await make(server, permission="write")
    async with (
        holder(server, made["token"], mode=mode) as ada,
        Collaborator(server.url, server.token, "reports/a.ipynb") as ana,
    ):
        await ana.synced()
        await ada.write("reports/a.ipynb", "cell-00000", f"written in {mode}")
        await ana.until(lambda: ana.source("cell-00000") == f"written in {mode}")
        assert "Ada (agent)" in [user["display_name"] for user in ana.awareness_users()]
        names = [tool.name for tool in (await ada.client.list_tools()).tools]
        assert "batch_update_notebook_cells" in names
        assert "run_code" not in names
        refused = await ada.call("run_code", path="reports/a.ipynb", code="1")
        assert refused.is_error
        assert "execute" in text_of(refused)
    assert made["token"] not in server.log
    assert await revoke(server, made["id"]) == 204


async def test_it_opens_nothing_else_of_jupyter(server: JupyterProcess) -> None:
    made = await make(server)
    file = (await make(server))["id"]
    async with httpx2.AsyncClient(timeout=30) as http:
        for url in (
            f"{server.url}api/contents",
            f"{server.url}api/sessions",
            f"{server.url}api/collaboration-mcp",
            tokens_url(server),
        ):
            for headers, query in (
                ({"Authorization": f"Bearer {made['token']}"}, ""),
                ({"Authorization": f"token {made['token']}"}, ""),
                ({}, f"?token={made['token']}"),
            ):
                response = await http.get(f"{url}{query}", headers=headers)
                assert response.status_code in (401, 403), (url, response.status_code)
        headers = {"Authorization": f"Bearer {made['token']}"}
        for response in (
            await http.post(tokens_url(server), json={"agent": "x"}, headers=headers),
            await http.delete(f"{tokens_url(server)}/{file}", headers=headers),
            await http.post(f"{server.url}api/kernels", headers=headers),
        ):
            assert response.status_code in (401, 403)
        assert (await ping(server, made["token"])).status_code != 401


#: What Jupyter and its extensions serve, and how it is asked for.
ROUTES = (
    *(
        "api",
        "api/status",
        "api/me",
        "api/kernels",
        "api/kernelspecs",
        "api/sessions",
        "api/config/x",
    ),
    *("api/contents/secret.ipynb", "api/contents/secret.ipynb/checkpoints", "api/spec.yaml"),
    *("files/secret.ipynb", "view/secret.ipynb", "nbconvert/html/secret.ipynb", "tree", "lab"),
    *("api/nbconvert", "api/security/csp-report", "api/shutdown", "api/terminals", "metrics"),
    *("api/collaboration/session/secret.ipynb", "api/collaboration/fork/x", "api/fileid/id"),
    *("api/collaboration/undo_redo/x", "api/collaboration/timeline/secret.ipynb", "logout"),
    *("api/collaboration-mcp", "api/collaboration-mcp/forks", "api/collaboration-mcp/tokens"),
    *("api/collaboration-mcp/tokens/00000000", "api/collaboration-mcp/history/json:notebook:x"),
)

SOCKETS = (
    *("api/kernels/x/channels", "api/events/subscribe", "terminals/websocket/1"),
    "api/collaboration/room/json:notebook:{id}",
    "api/collaboration/room/JupyterLab:globalAwareness",
)

#: What anybody may see, with or without a token.
_PUBLIC = {"api", "logout"}


def files(server: JupyterProcess) -> set[str]:
    """What is in a server's directory, without what it keeps there itself."""
    root = Path(server.root)
    found = [path.relative_to(root) for path in root.rglob("*")]
    return {str(path) for path in found if not any(part.startswith(".") for part in path.parts)}


def forms(token: str) -> list[tuple[dict[str, str], str]]:
    """All ways to send a token: headers and a query."""
    return [
        ({"Authorization": f"Bearer {token}"}, ""),
        ({"Authorization": f"token {token}"}, ""),
        ({"Authorization": f"Identity.token {token}"}, ""),
        ({"Authorization": token}, ""),
        ({}, f"?token={token}"),
        ({"Cookie": f"token={token}; username-127-0-0-1={token}"}, ""),
    ]


async def test_no_other_route_of_jupyter_is_opened_by_it(server: JupyterProcess) -> None:
    made = await make(server, permission="admin")
    found = Document.parse(await address(server, "secret.ipynb"))
    assert found is not None
    socket = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
    }
    before = files(server)
    async with httpx2.AsyncClient(timeout=30, follow_redirects=False) as http:
        for headers, query in forms(made["token"]):
            for route in ROUTES:
                for method in ("GET", "POST", "DELETE"):
                    if route in _PUBLIC and method == "GET":
                        continue
                    said = await http.request(
                        method, f"{server.url}{route}{query}", headers=headers, json={}
                    )
                    refused = said.status_code in (401, 403, 404, 405)
                    to_login = said.status_code == 302 and "/login" in said.headers["Location"]
                    assert refused or to_login, (method, route, headers, said.status_code)
            for route in SOCKETS:
                url = f"{server.url}{route.format(id=found.notebook)}{query}"
                said = await http.get(url, headers={**headers, **socket})
                assert said.status_code in (302, 403, 404), (route, said.status_code)
    assert files(server) == before
    assert (await ping(server, made["token"])).status_code != 401


async def test_its_agent_cannot_take_another_name_or_a_higher_level(
    server: JupyterProcess,
) -> None:
    made = await make(server, permission="read")
    assert (await ping(server, made["token"], "?agent=Bob")).status_code == 403
    async with holder(server, made["token"], "&agent=Ada&permission=admin") as ada:
        names = [tool.name for tool in (await ada.client.list_tools()).tools]
        assert "get_notebook" in names
        assert "batch_update_notebook_cells" not in names
        refused = await ada.call("delete_document", path="secret.ipynb")
        assert refused.is_error
    assert (Path(server.root) / "secret.ipynb").exists()


async def test_two_agents_with_tokens_are_two_even_with_one_name(server: JupyterProcess) -> None:
    one, two = await make(server), await make(server)
    async with holder(server, one["token"]) as first, holder(server, two["token"]) as second:
        await first.write("secret.ipynb", "cell-00000", "mine")
        assert (await second.refused("undo_agent_changes", path="secret.ipynb"))["code"]
        await first.ask("undo_agent_changes", path="secret.ipynb")


async def test_a_token_with_paths_shows_and_opens_nothing_else(server: JupyterProcess) -> None:
    made = await make(server, paths=["reports/*"])
    secret = "secret.ipynb"
    async with holder(server, made["token"]) as ada, agent(server, "Bob") as bob:
        await bob.ask("get_notebook", path=secret)  # it is open
        listed = await ada.ask("list_notebooks")
        assert [each["path"] for each in listed["notebooks"]] == ["reports/a.ipynb"]
        for tool, arguments in {
            "list_documents": {"path": ""},
            "get_active_sessions": {},
            "get_online_users": {},
            "get_user_activity": {},
            "list_kernels": {},
        }.items():
            assert "secret" not in await ada.say(tool, **arguments), tool
        assert "secret" not in await ada.say("list_documents", path_filter="*")
        (Path(server.root) / "secrets").mkdir(exist_ok=True)
        folders = (await ada.ask("list_documents", path=""))["documents"]
        assert [each["path"] for each in folders] == ["reports"]
        error = await ada.refused("list_documents", path="secrets")
        assert error["code"] == "permission_refused"
        assert "secret" not in str(await ada.client.list_resources())
        for tool, arguments in {
            "get_notebook": {"path": secret},
            "get_document_info": {"path": secret},
            "document_exists": {"path": secret},
            "run_code": {"path": secret, "code": "1"},
            "delete_document": {"path": secret},
            "copy_document": {"path": secret, "copyPath": "reports/stolen.ipynb"},
            "create_document": {"path": "new.ipynb"},
            "rename_document": {"path": "reports/notes.md", "newPath": "notes.md"},
            "get_document_history": {"path": secret},
            "fork_document": {"path": secret, "title": "x"},
        }.items():
            error = await ada.refused(tool, **arguments)
            assert error["code"] == "permission_refused", (tool, error)
            assert "This agent's token keeps" in error["message"]
        with pytest.raises(MCPError):
            await ada.client.read_resource("notebook://x/secret.ipynb")
        made_now = await ada.ask("create_document", path="reports/new.ipynb")
        await ada.ask("rename_document", path=made_now["path"], newPath="reports/old.ipynb")
        await ada.ask("delete_document", path="reports/old.ipynb")
    assert not (Path(server.root) / "reports/stolen.ipynb").exists()
    assert (Path(server.root) / "reports/notes.md").exists()


async def test_a_copied_folder_takes_nothing_along_that_the_token_keeps(
    server: JupyterProcess,
) -> None:
    root = Path(server.root)
    (root / "mixed").mkdir()
    notebooks.write(root / "mixed/open.ipynb", notebooks.numbered(1))
    (root / "mixed/secret.txt").write_text("secret")
    made = await make(server, paths=["mixed", "mixed/open*", "copied*"])
    async with holder(server, made["token"]) as ada:
        calls: dict[str, dict[str, Any]] = {
            "copy_document": {"copyPath": "copied"},
            "rename_document": {"newPath": "copied"},
            "delete_document": {"recursive": True},
        }
        for tool, arguments in calls.items():
            error = await ada.refused(tool, path="mixed", **arguments)
            assert error["code"] == "permission_refused", (tool, error)
    assert (root / "mixed/secret.txt").exists()
    assert not (root / "copied").exists()


@pytest.mark.parametrize("token", ["expired", "revoked", "never"])
async def test_a_token_that_is_no_longer_good_is_refused(
    server: JupyterProcess, token: str
) -> None:
    made = await make(server, expires_in=0.001 if token == "expired" else 60)
    if token == "revoked":
        assert await revoke(server, made["id"]) == 204
        assert await revoke(server, made["id"]) == 404
    sent = f"{made['token']}x" if token == "never" else made["token"]
    response = await ping(server, sent)
    assert response.status_code == 401
    assert "revoked, has expired, or never was one" in response.json()["error"]
    # Nothing that comes with it counts instead.
    response = await ping(server, sent, f"?token={server.token}")
    assert response.status_code == 401


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_revoking_ends_requests_sessions_and_runs_at_once(
    server: JupyterProcess, tmp_path: Path, mode: str
) -> None:
    made, path = await make(server), "reports/a.ipynb"
    gate = Gate(tmp_path / f"gate-{mode}")
    async with agent(server, "Bob") as bob:
        await bob.write(path, "cell-00000", gate.code)
        await bob.write(path, "cell-00001", "print('never')")

        async def run() -> None:
            async with holder(server, made["token"], mode=mode) as ada:
                await ada.call("batch_execute_notebook_cells", path=path, timeout=600)

        running = asyncio.create_task(run())
        await gate.reached()
        assert await revoke(server, made["id"]) == 204
        done, _ = await asyncio.wait({running}, timeout=20)
        assert done
        assert running.exception() is not None

        async def outputs() -> list[str]:
            found = await bob.ask("get_notebook", path=path, include_outputs=True)
            return [str(cell.get("outputs")) for cell in found["cells"]]

        found = await eventually(outputs, lambda each: "error" in each[0])
        assert found[1] == "[]"
        status = await bob.ask("get_notebook_status", path=path)
        assert status["kernel"]["state"] == "idle"
    assert (await ping(server, made["token"])).status_code == 401


async def test_rest_lists_tokens_without_what_lets_anybody_in(server: JupyterProcess) -> None:
    made = await make(server, agent="Eve", paths=["x/*"], expires_in=60)
    async with httpx2.AsyncClient(headers=server.headers) as http:
        listed = (await http.get(tokens_url(server))).json()["tokens"]
    (row,) = (each for each in listed if each["id"] == made["id"])
    assert (row["agent"], row["paths"], row["expired"]) == ("Eve", ["x/*"], False)
    assert made["token"] not in str(listed)
    assert "digest" not in str(listed)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "agent"),
        ({"agent": 3}, "agent"),
        ({"agent": "Ada", "permission": "root"}, "no permission level"),
        ({"agent": "Ada", "paths": "x"}, "not a list"),
        ({"agent": "Ada", "expires_in": "1h"}, "not a number"),
        ({"agent": "Ada", "expires_in": -1}, "cannot expire"),
        ({"agent": "Ada", "expires": 60}, "no field 'expires'"),
        (["Ada"], "not a JSON object"),
    ],
)
async def test_a_request_for_a_token_that_makes_no_sense_is_refused(
    server: JupyterProcess, body: Any, says: str
) -> None:
    async with httpx2.AsyncClient(headers=server.headers) as http:
        before = (await http.get(tokens_url(server))).json()
        response = await http.post(tokens_url(server), json=body)
        assert response.status_code == 400
        assert says in response.text
        assert (await http.get(tokens_url(server))).json() == before


async def test_no_token_is_worth_more_than_the_server_allows_agents(
    make_server: MakeServer, tmp_path: Path
) -> None:
    (tmp_path / "picky_authorizer.py").write_text(AUTHORIZER)
    async with make_server(
        "--JupyterCollaborationMCP.permission=write",
        "--ServerApp.authorizer_class=picky_authorizer.Picky",
        extra_path=[tmp_path],
    ) as server:
        root = Path(server.root)
        (root / "reports").mkdir()
        for name in ("open", "closed"):
            notebooks.write(root / f"reports/{name}.ipynb", notebooks.numbered(1))
        async with httpx2.AsyncClient(headers=server.headers) as http:
            body = {"agent": "Ada", "permission": "admin"}
            assert (await http.post(tokens_url(server), json=body)).status_code == 400
            denied = {"X-Denied": "1"}
            refused = await http.post(tokens_url(server), json={"agent": "A"}, headers=denied)
            assert refused.status_code == 403
        made = await make(server)
        assert made["permission"] == "write"
        async with holder(server, made["token"]) as ada:
            await ada.ask("get_notebook", path="reports/open.ipynb")
            error = await ada.refused("get_notebook", path="reports/closed.ipynb")
            assert error["code"] == "permission_refused"
        before = await ping(server, made["token"])
        assert before.status_code != 401
        await server.terminate()
        await server.start()
        assert (await ping(server, made["token"])).status_code != 401


@pytest.mark.parametrize("allowed", [False, True])
async def test_without_a_token_nobody_beyond_this_machine_is_served_unless_that_is_allowed(
    make_server: MakeServer, allowed: bool
) -> None:
    no_xsrf = "--ServerApp.disable_check_xsrf=True"
    setting = f"--JupyterCollaborationMCP.allow_without_token={allowed}"
    async with make_server(no_xsrf, setting, token="", ip="0.0.0.0") as server:
        url = f"{server.url}mcp"
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(timeout=30, headers=headers) as http:
            response = await http.post(url, json=body)
            assert (response.status_code == 403) is not allowed
            if not allowed:
                assert "neither token nor password" in response.json()["error"]
                made = await http.post(tokens_url(server), json={"agent": "Ada"})
                own = {"Authorization": f"Bearer {made.json()['token']}"}
                assert (await http.post(url, json=body, headers=own)).status_code != 403


async def test_the_command_makes_lists_and_revokes_tokens(
    server: JupyterProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_TOKEN", server.token)

    def command(*words: str) -> tuple[int, str]:
        code = main(["token", *words, "--url", server.url])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    async def run(*words: str) -> tuple[int, str]:
        return await asyncio.to_thread(command, *words)

    create = ("create", "Zoe", "--permission", "read", "--path", "reports/*", "--expires", "8h")
    code, token = await run(*create)
    assert code == 0
    async with holder(server, token.strip()) as zoe:
        assert (await zoe.sources("reports/a.ipynb"))[1:]
    code, listed = await run("list")
    (line,) = (line for line in listed.splitlines() if "Zoe" in line)
    assert "Zoe  read  reports/*  expires " in line
    assert token.strip() not in listed
    code, said = await run("revoke", line.split()[0])
    assert (code, said) == (0, f"Revoked {line.split()[0]}.\n")
    assert (await ping(server, token.strip())).status_code == 401
    code, said = await run("revoke", "00000000")
    assert code == 2
    assert "There is no such token" in said
    code, said = await run("create", "Zoe", "--permission", "root")
    assert code == 2
    assert "no permission level" in said
