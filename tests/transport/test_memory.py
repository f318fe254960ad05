"""What belongs to a call is freed when the call is over, and not when the collector comes."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx2
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess

pytestmark = pytest.mark.anyio

CALLS = 20

#: What each call has: the request, and what the tool was given and has made of it.
OF_A_CALL = ("MCPHandler", "Request", "Call", "CallRecord", "OpenDocument")

#: A session keeps its last request, and a save that a call has begun keeps that call's.
FEW = 12


async def living(server: JupyterProcess) -> dict[str, int]:
    async with httpx2.AsyncClient(headers=server.headers, verify=False) as http:
        answer = await http.get(f"{server.url}living")
        found: dict[str, int] = answer.raise_for_status().json()
    return found


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_nothing_of_a_call_waits_for_the_garbage_collector(
    make_server: MakeServer, mode: str
) -> None:
    extensions = {"tests.transport.living": True}
    async with make_server(extensions=extensions, env=NOT_MEASURED) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(3))
        async with agent(server, mode=mode) as ada:
            cells = (await ada.ask("get_notebook", path="a.ipynb"))["cells"]
            before = await living(server)
            for step in range(CALLS):
                await ada.ask("get_notebook", path="a.ipynb")
                await ada.write("a.ipynb", cells[0]["id"], f"step = {step}")
                await ada.refused("get_notebook", path="missing.ipynb")
            after = await living(server)
    more = {name: after.get(name, 0) - before.get(name, 0) for name in OF_A_CALL}
    assert {name: count for name, count in more.items() if count > FEW} == {}


async def test_a_session_keeps_no_handler_of_a_request(make_server: MakeServer) -> None:
    """It keeps its first and its last request, and a handler is larger than all else it has."""
    extensions = {"tests.transport.living": True}
    async with make_server(extensions=extensions, env=NOT_MEASURED) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        for _ in range(2):
            async with AsyncExitStack() as stack:
                for number in range(FEW):
                    client = agent(server, f"Agent {number}", mode=LEGACY)
                    ada = await stack.enter_async_context(client)
                    await ada.ask("get_notebook", path="a.ipynb")
                found = await living(server)
    assert found["StreamableHTTPServerTransport"] >= FEW
    # One for each stream of notifications, which is open, and who is just coming or going.
    assert found.get("MCPHandler", 0) < 2 * FEW
