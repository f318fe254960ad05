"""Jupyter's identity provider says who may enter: with a password, or a JupyterHub. Agents with
tokens of their own come in beside it. One of a site's own: tests/transport/test_bridge.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
from jupyter_server.auth.security import passwd

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.jupyter import JupyterProcess
from tests.transport.conftest import HEADERS, INITIALIZE

pytestmark = pytest.mark.anyio

PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}

READ = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "get_notebook", "arguments": {"path": "a.ipynb"}},
}


class Visitor:
    """Somebody with a credential, over raw HTTP."""

    def __init__(self, http: httpx2.AsyncClient, server: JupyterProcess, **headers: str) -> None:
        self._http, self._url = http, f"{server.url}mcp"
        self._tokens = f"{server.url}api/collaboration-mcp/tokens"
        self._headers = {**HEADERS, **headers}

    async def open(self) -> httpx2.Response:
        return await self._http.post(self._url, json=INITIALIZE, headers=self._headers)

    async def session(self) -> str:
        opened = await self.open()
        assert opened.status_code == 200, opened.text
        return str(opened.headers["mcp-session-id"])

    async def send(self, session: str, body: dict[str, Any] | None = None) -> httpx2.Response:
        headers = {**self._headers, "Mcp-Session-Id": session}
        return await self._http.post(self._url, json=body or PING, headers=headers)

    async def make_token(self) -> dict[str, Any]:
        made = await self._http.post(self._tokens, json={"agent": "Ada"}, headers=self._headers)
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        return found


async def check_agent(
    http: httpx2.AsyncClient, server: JupyterProcess, person: Visitor, theirs: str
) -> None:
    """The agent of a person reads what the person may, in sessions of its own."""
    made = await person.make_token()
    ada = Visitor(http, server, Authorization=f"Bearer {made['token']}")
    session = await ada.session()
    read = await ada.send(session, READ)
    assert "x = 0" in read.text, read.text
    assert (await person.send(session)).status_code == 404
    assert (await ada.send(theirs)).status_code == 404
    for path in ("api/contents", "api/collaboration-mcp/tokens"):
        own = {"Authorization": f"Bearer {made['token']}"}
        assert (await http.get(f"{server.url}{path}", headers=own)).status_code in (401, 403)
    kept = next(server.home.rglob("agent-tokens.json")).read_text()
    assert "hush" not in kept
    assert made["token"] not in kept


async def test_behind_a_password_a_browser_is_known_by_its_login(make_server: MakeServer) -> None:
    hashed = passwd("hush", "sha256")  # type: ignore[no-untyped-call]
    password = f"--PasswordIdentityProvider.hashed_password={hashed}"
    async with (
        make_server(password, token="", ip="0.0.0.0") as server,
        httpx2.AsyncClient(timeout=30) as http,
        httpx2.AsyncClient(timeout=30) as bare,
    ):
        notebooks.write(Path(server.root) / "a.ipynb", notebooks.numbered(1))
        assert (await Visitor(bare, server).open()).status_code == 401
        for wrong in ("hush", hashed):
            sent = Visitor(bare, server, Authorization=f"Bearer {wrong}")
            assert (await sent.open()).status_code == 401
        login = f"{server.url}login"
        await http.get(login)
        form = {"_xsrf": http.cookies["_xsrf"], "password": "wrong"}
        await http.post(login, data=form)
        assert (await Visitor(http, server).open()).status_code == 401
        await http.post(login, data={**form, "password": "hush"})
        assert (await Visitor(http, server).open()).status_code == 403  # no XSRF token
        ana = Visitor(http, server, **{"X-XSRFToken": http.cookies["_xsrf"]})
        session = await ana.session()
        assert (await ana.send(session)).status_code == 200
        await check_agent(bare, server, ana, session)


async def test_on_a_jupyterhub_the_hub_says_who_may_enter(make_server: MakeServer) -> None:
    async with (
        make_server(
            "--ServerApp.identity_provider_class=tests.harness.identity.HubIdentity",
            "--ServerApp.authorizer_class=tests.harness.identity.HubAuthorizer",
            base_url="/user/ana/",
        ) as server,
        httpx2.AsyncClient(timeout=30) as http,
    ):
        notebooks.write(Path(server.root) / "a.ipynb", notebooks.numbered(1))

        def with_token(token: str) -> Visitor:
            return Visitor(http, server, Authorization=f"token {token}")

        for wrong in ("hub-bob", "nobody", server.token):
            assert (await with_token(wrong).open()).status_code == 401
        ana = with_token("hub-ana")
        session = await ana.session()
        assert (await ana.send(session)).status_code == 200
        # Tokens are replaced; whoever has another one of hers is still Ana.
        assert (await with_token("hub-other").send(session)).status_code == 200
        assert (await with_token("hub-eve").send(session)).status_code == 404
        assert (await with_token("hub-bob").send(session)).status_code == 401
        await check_agent(http, server, ana, session)
        # The Hub's authorizer is asked about the same user after a restart, too.
        made = await ana.make_token()
        await server.terminate()
        await server.start()
        ada = Visitor(http, server, Authorization=f"Bearer {made['token']}")
        assert "x = 0" in (await ada.send(await ada.session(), READ)).text
