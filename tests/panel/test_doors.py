"""Who may use the panel, and what nonsense it refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from jupyter_collaboration_mcp.documents.members import agent_username
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import KernelApi
from tests.harness.panel import Panel

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

UPDATE = "batch_update_notebook_cells"


@pytest.fixture(scope="module")
async def server(make_server: MakeServer, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    authorizer = "--ServerApp.authorizer_class=tests.harness.authorizers.AsHeaderSays"
    async with make_server(authorizer) as process:
        yield process


@pytest.fixture
async def panel(server: JupyterProcess) -> AsyncIterator[Panel]:
    async with Panel(server) as panel:
        yield panel


REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "state", None),
    ("GET", "calls/x", None),
    ("POST", "calls/x", {"action": "keep"}),
    ("POST", "review", {"action": "keep"}),
    ("PATCH", "agents", {"state": "stopped"}),
    ("PATCH", "agents/x", {"state": "stopped"}),
    ("DELETE", "agents/x", None),
    ("GET", "proposals/x", None),
    ("POST", "proposals/x", {"action": "discard"}),
    ("GET", "clients", None),
    ("POST", "connect", {"client": "codex", "agent": "Ada"}),
]


async def feed_status(panel: Panel, headers: dict[str, str], query: str = "") -> int:
    address = f"{panel.url.replace('http', 'ws', 1)}feed{query}"
    try:
        async with connect(address, additional_headers=headers, proxy=None):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"Authorization": ""}, "nobody"),
        ({"Authorization": "token wrong"}, "a wrong token"),
        ({"Origin": "https://evil.example"}, "a foreign page with the token"),
    ],
)
async def test_every_endpoint_refuses(panel: Panel, more: dict[str, str], why: str) -> None:
    headers = {**panel.headers, **more}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        for method, place, body in REQUESTS:
            answer = await http.request(method, f"{panel.url}{place}", json=body)
            assert answer.status_code == 403, (why, method, place, answer.text)
            assert set(answer.json()) >= {"code", "message", "remedy"}
    assert await feed_status(panel, headers) == 403, why


async def test_a_page_of_the_server_itself_is_let_in_with_a_cookie_and_its_xsrf_token(
    server: JupyterProcess, panel: Panel
) -> None:
    async with httpx2.AsyncClient(timeout=30, follow_redirects=True) as http:
        await http.get(f"{server.url}?token={server.token}")
        origin = {"Origin": server.url.rstrip("/")}
        body = {"action": "keep", "path": "nothing"}
        refused = await http.post(f"{panel.url}review", json=body, headers=origin)
        assert refused.status_code == 403
        xsrf = {"X-XSRFToken": http.cookies["_xsrf"], **origin}
        allowed = await http.post(f"{panel.url}review", json=body, headers=xsrf)
        assert allowed.status_code == 200, allowed.text
        cookies = "; ".join(f"{each.name}={each.value}" for each in http.cookies.jar)
        assert await feed_status(panel, {"Cookie": cookies, **origin}) == 101
        assert (
            await feed_status(panel, {"Cookie": cookies, "Origin": "https://evil.example"}) == 403
        )


async def test_jupyters_authorizer_decides_who_looks_and_who_acts(
    server: JupyterProcess, panel: Panel
) -> None:
    for name in ("open.ipynb", "secret.ipynb"):
        notebooks.write(server.root / name, notebooks.numbered(1))
    async with agent(server) as ada:
        await ada.write("open.ipynb", "cell-00000", "x")
        await ada.write("secret.ipynb", "cell-00000", "x")
    shown = await panel.open_call(UPDATE, "open.ipynb")
    secret = await panel.open_call(UPDATE, "secret.ipynb")
    reader = Panel(server, {**server.headers, "X-Only": "read"})
    async with reader:
        assert reader.calls[shown["id"]]["review"] == "open"
        await reader.get(f"calls/{shown['id']}")
        await reader.get(f"calls/{secret['id']}", 403)
        for method, place, body in REQUESTS:
            if method != "GET":
                answer = await reader.ask(method, place.replace("/x", f"/{shown['id']}"), body)
                assert answer.status_code == 403, (method, place)
    assert await feed_status(panel, {**server.headers, "X-Only": "write"}) == 403


@pytest.mark.parametrize(
    ("method", "place", "body", "status", "code"),
    [
        ("GET", "calls/nothing", None, 404, "unknown"),
        ("POST", "calls/nothing", {"action": "undo"}, 404, "unknown"),
        ("POST", "calls/CALL", None, 400, "invalid_argument"),
        ("POST", "calls/CALL", ["undo"], 400, "invalid_argument"),
        ("POST", "calls/CALL", {}, 400, "invalid_argument"),
        ("POST", "calls/CALL", {"action": "destroy"}, 400, "invalid_argument"),
        ("POST", "calls/CALL", {"action": ["undo"]}, 400, "invalid_argument"),
        ("POST", "calls/CALL", {"action": "undo", "force": "yes"}, 400, "invalid_argument"),
        ("POST", "calls/CALL", {"action": "undo", "cell_id": 5}, 400, "invalid_argument"),
        ("POST", "calls/CALL", {"action": "undo", "what": 1}, 400, "invalid_argument"),
        ("POST", "calls/CALL", {"action": "undo", "cell_id": "no-cell"}, 404, "unknown"),
        ("POST", "review", {"action": "burn"}, 400, "invalid_argument"),
        ("POST", "review", {"action": "keep", "path": 1}, 400, "invalid_argument"),
        ("POST", "review", {"action": "keep", "agent": "nobody"}, 404, "unknown"),
        ("PATCH", "agents", {"state": "paused"}, 400, "invalid_argument"),
        ("PATCH", "agents/nobody", {"state": "paused"}, 404, "unknown"),
        ("PATCH", "agents/AGENT", {"state": "gone"}, 400, "invalid_argument"),
        ("PATCH", "agents/AGENT", {"state": None}, 400, "invalid_argument"),
        ("DELETE", "agents/nobody", None, 404, "unknown"),
        ("DELETE", "agents/AGENT", None, 409, "agent_connected"),
        ("GET", "proposals/none", None, 404, "fork_not_found"),
        ("POST", "proposals/none", {"action": "merge"}, 404, "fork_not_found"),
        ("POST", "proposals/none", {"action": "merge", "cells": "all"}, 400, "invalid_argument"),
        ("POST", "proposals/none", {"action": "merge", "cells": []}, 400, "invalid_argument"),
        ("POST", "connect", {"client": "codex"}, 400, "invalid_argument"),
        ("POST", "connect", {"client": "vi", "agent": "Ada"}, 400, "invalid_argument"),
        ("POST", "connect", {"client": "codex", "agent": "A", "permission": "god"}, 400, None),
        ("POST", "connect", {"client": "codex", "agent": "A", "expires_in": -1}, 400, None),
        ("POST", "connect", {"client": "codex", "agent": "A", "paths": "a"}, 400, None),
    ],
)
async def test_nonsense_is_refused_in_plain_words_and_changes_nothing(
    server: JupyterProcess,
    panel: Panel,
    method: str,
    place: str,
    body: Any,
    status: int,
    code: str | None,
) -> None:
    notebooks.write(server.root / "nonsense.ipynb", notebooks.numbered(1))
    call = panel.call_of(UPDATE, path="nonsense.ipynb", review="open")
    if call is None:
        async with agent(server) as ada:
            await ada.write("nonsense.ipynb", "cell-00000", "x")
        call = await panel.open_call(UPDATE, "nonsense.ipynb")
    place = place.replace("CALL", call["id"]).replace("AGENT", call["agent"])
    answer = await panel.ask(method, place, body)
    assert answer.status_code == status, answer.text
    said = answer.json()
    assert said["code"] == code or code is None
    assert said["message"]
    assert said["remedy"]
    now = await panel.get(f"calls/{call['id']}")
    assert now["review"] == "open"
    assert now["agent"] == call["agent"]


async def test_nonsense_over_the_feed_gets_the_whole_state(panel: Panel) -> None:
    for query in ("since=x", "since=-1", "since=99999999", f"since=0&epoch={'e' * 500}", "epoch=1"):
        async with connect(
            f"{panel.url.replace('http', 'ws', 1)}feed?{query}",
            additional_headers=panel.headers,
            proxy=None,
        ) as feed:
            await feed.send("what?")
            assert '"kind": "state"' in str(await feed.recv())[:30]


async def test_a_document_that_is_renamed_or_deleted_is_followed(
    server: JupyterProcess, panel: Panel
) -> None:
    notebooks.write(server.root / "before.ipynb", notebooks.numbered(2))
    async with KernelApi(server) as people, agent(server) as ada:
        before = await ada.sources("before.ipynb")
        await ada.write("before.ipynb", "cell-00000", "x")
        await ada.write("before.ipynb", "cell-00001", "y")
        second = await panel.until(
            lambda: panel.call_of(UPDATE, path="before.ipynb", review="open", summary="edited y")
        )
        (first,) = [
            each
            for each in panel.calls.values()
            if each["path"] == "before.ipynb" and each["summary"] == "edited x"
        ]
        await people.rename("before.ipynb", "after.ipynb")
        await panel.until(lambda: panel.calls[first["id"]]["path"] == "after.ipynb")
        await panel.post(f"calls/{first['id']}", action="undo")
        assert await ada.sources("after.ipynb") == [before[0], "y"]
        await people._ask("DELETE", "contents/after.ipynb")
        await panel.until(lambda: panel.calls[second["id"]]["path"] is None)
        error = await panel.post(f"calls/{second['id']}", 410, action="undo")
        assert error["code"] == "gone"
        shown = await panel.get(f"calls/{second['id']}")
        assert shown["review"] == "open"
        kept = await panel.post(f"calls/{second['id']}", action="keep")
        assert kept["review"] == "kept"


async def test_what_an_agent_renames_or_deletes_is_followed(
    server: JupyterProcess, panel: Panel
) -> None:
    notebooks.write(server.root / "old.ipynb", notebooks.numbered(1))
    async with agent(server) as ada:
        await ada.write("old.ipynb", "cell-00000", "x")
        call = await panel.open_call(UPDATE, "old.ipynb")
        await ada.say("rename_document", path="old.ipynb", new_path="new.ipynb")
        await panel.until(lambda: panel.calls[call["id"]]["path"] == "new.ipynb")
        renamed = await panel.until(lambda: panel.call_of("rename_document", state="done"))
        assert renamed["kind"] == "file"
        await ada.say("delete_document", path="new.ipynb")
        await panel.until(lambda: panel.calls[call["id"]]["path"] is None)
        assert (await panel.post(f"calls/{call['id']}", 410, action="undo"))["code"] == "gone"
        await panel.post(f"calls/{call['id']}", action="keep")


async def test_a_flood_of_refused_calls_does_not_push_out_the_others(
    make_server: MakeServer,
) -> None:
    async with make_server("--JupyterCollaborationMCP.rate_limit=20") as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        async with Panel(server) as panel, agent(server) as ada:
            await ada.sources("a.ipynb")
            for _ in range(100):
                await ada.call("document_exists", path="a.ipynb")
            refused = await panel.until(lambda: panel.call_of("document_exists", state="refused"))
            assert "rate_limit" in refused["error"]
            state = await panel.get("state")
            shown = [each["state"] for each in state["calls"]]
            assert 0 < shown.count("refused") < 40
            assert shown.count("done") >= 20


async def test_a_cell_that_is_gone_leaves_nothing_to_undo(
    server: JupyterProcess, panel: Panel
) -> None:
    notebooks.write(server.root / "gone.ipynb", notebooks.numbered(3))
    async with agent(server) as ada, agent(server, "Grace") as grace:
        before = await ada.sources("gone.ipynb")
        updates = [{"cell_id": f"cell-0000{n}", "content": f"agent = {n}"} for n in (0, 1)]
        await ada.say(UPDATE, path="gone.ipynb", updates=updates, exec=False)
        call = await panel.open_call(UPDATE, "gone.ipynb")
        await grace.say(
            "batch_delete_notebook_cells", path="gone.ipynb", cell_ids=["cell-00000"], exec=False
        )
        diff = await panel.diff(call, "cell-00000")
        assert diff["now"] is None
        error = await panel.post(f"calls/{call['id']}", 410, action="undo", cell_id="cell-00000")
        assert error["code"] == "gone"
        done = await panel.post(f"calls/{call['id']}", action="undo")
        assert done["review"] == "undone"
        assert await ada.sources("gone.ipynb") == before[1:]


async def test_a_call_of_an_agent_that_calls_itself_like_a_person_has_its_own_id(
    server: JupyterProcess, panel: Panel
) -> None:
    async with agent(server, "<script>alert(1)</script>") as odd:
        await odd.say("get_online_users")
    known = await panel.until(
        lambda: [each for each in panel.agents.values() if each["name"].startswith("<script>")]
    )
    assert known[0]["id"] == known[0]["username"]
    assert known[0]["id"] == agent_username(f"{known[0]['name']} <token:server>")


async def test_without_the_panel_there_are_no_endpoints(make_server: MakeServer) -> None:
    async with make_server("--JupyterCollaborationMCP.panel=False") as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        async with agent(server) as ada:
            await ada.write("a.ipynb", "cell-00000", "x")
        async with httpx2.AsyncClient(headers=server.headers) as http:
            url = f"{server.url}api/collaboration-mcp/panel/"
            assert (await http.get(f"{url}state")).status_code == 404
