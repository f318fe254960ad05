"""Connecting an agent: a token of its own, and what its client is configured with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from jupyter_collaboration_mcp.cli import main
from jupyter_collaboration_mcp.standalone.clients import CLIENTS
from tests.harness import notebooks
from tests.harness.agents import AgentClient, text_of
from tests.harness.jupyter import JupyterProcess
from tests.harness.panel import Panel
from tests.test_agent_tokens import holder

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
async def panel(server: JupyterProcess) -> AsyncIterator[Panel]:
    async with Panel(server) as panel:
        yield panel


async def test_all_clients_that_can_be_configured_are_offered(panel: Panel) -> None:
    offered = await panel.get("clients")
    # Claude Desktop sends no token to a URL.
    assert {each["id"] for each in offered["clients"]} == set(CLIENTS) - {"claude-desktop"}
    names = {each["id"]: each["name"] for each in offered["clients"]}
    assert names["claude-code"] == "Claude Code"
    assert names["vscode"] == "VS Code"
    assert offered["highest"] == "admin"


async def test_the_text_is_that_of_the_command_with_a_token_within_its_limits(
    server: JupyterProcess,
    panel: Panel,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebooks.write(server.root / "open.ipynb", notebooks.numbered(1))
    notebooks.write(server.root / "closed.ipynb", notebooks.numbered(1))
    for each in (await panel.get("clients"))["clients"]:
        client = each["id"]
        made = await panel.post(
            "connect",
            201,
            client=client,
            agent="Ada",
            permission="write",
            paths=["open*"],
            expires_in=3600,
        )
        assert made["configuration"].count(made["token"]) == 1
        assert made["where"] == made["configuration"].splitlines()[0]
    monkeypatch.setenv("JUPYTER_TOKEN", server.token)

    def printed() -> str:
        assert main(["config", client, "--http", server.url]) == 0
        return capsys.readouterr().out

    said = await asyncio.to_thread(printed)
    start = said.index("jcm_")
    token = said[start:].split('"')[0].split("'")[0].split()[0]
    assert said.replace(token, made["token"]) == made["configuration"]
    async with holder(server, made["token"]) as ada:
        await ada.write("open.ipynb", "cell-00000", "x = 1")
        assert "closed" in text_of(await ada.call("get_notebook", path="closed.ipynb"))
        await _refused(ada)
    known = await panel.until(lambda: panel.agent("Ada"))
    assert known["level"] == "write"
    assert known["token"]["paths"] == ["open*"]
    assert known["token"]["expires"] > known["seen"]


async def _refused(ada: AgentClient) -> None:
    assert (await ada.call("run_code", path="open.ipynb", code="1")).is_error


async def test_the_address_is_the_one_that_the_page_has(
    server: JupyterProcess, panel: Panel
) -> None:
    """Behind a proxy the server sees another scheme than the browser."""
    body = {"client": "codex", "agent": "Ada"}
    host = server.url.split("/")[2]
    async with httpx2.AsyncClient(
        headers={**server.headers, "Origin": f"https://{host}"}, timeout=30
    ) as http:
        answer = await http.post(f"{panel.url}connect", json=body)
    assert answer.status_code == 201, answer.text
    assert f"https://{host}/mcp" in answer.json()["configuration"]
