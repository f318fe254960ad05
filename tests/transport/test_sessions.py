"""Sessions that clients have left behind: so many are kept, and no living one ends for them."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio import CancelScope
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from jupyter_collaboration_mcp.transport.sessions import MOST_SESSIONS, bound_sessions
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, agent, mcp_address
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.ways import WAYS, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "forgetful", "version": "1"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param) as process:
        yield process


class Forgetful:
    """A client of the older era that ends no session."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http, self._url = http, url

    async def open(self) -> str:
        answer = await self._http.post(self._url, json=INITIALIZE)
        assert answer.status_code == 200
        return str(answer.headers["mcp-session-id"])

    async def ping(self, session: str) -> int:
        headers = {"Mcp-Session-Id": session}
        return (await self._http.post(self._url, json=PING, headers=headers)).status_code


async def test_the_longest_idle_session_ends_if_there_are_too_many(
    server: JupyterProcess,
) -> None:
    url, headers = mcp_address(server)
    limits = httpx2.Limits(max_connections=10)
    async with httpx2.AsyncClient(
        verify=False, headers={**HEADERS, **headers}, timeout=60, limits=limits
    ) as http:
        client = Forgetful(http, url)
        listening, oldest, second = [await client.open() for _ in range(3)]
        async with http.stream("GET", url, headers={"Mcp-Session-Id": listening}) as stream:
            assert stream.status_code == 200
            assert await client.ping(oldest) == 200  # so the second is idle for longer
            for _ in range(MOST_SESSIONS - 2):
                latest = await client.open()
            assert await client.ping(second) == 404
            assert await client.ping(oldest) == 200
            assert await client.ping(latest) == 200
            assert await client.ping(listening) == 200
        # As the protocol wants it, a client whose session is gone opens another.
        assert await client.ping(await client.open()) == 200


async def test_an_agent_that_ends_its_session_is_no_longer_present(server: JupyterProcess) -> None:
    path = "left.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(1))
    async with agent(server, "Bob") as bob:

        async def here() -> list[str]:
            facts = await bob.ask("get_notebook", path=path)
            return list(facts["collaboration"]["people"])

        async with agent(server, "Ada", mode=LEGACY) as ada:
            await ada.ask("get_notebook", path=path)
            async with agent(server, "Ada", mode=LEGACY) as again:
                await again.ask("get_notebook", path=path)
            assert await here() == ["Ada (agent)"]  # in her other session
        assert await eventually(here, lambda people: not people) == []
        async with agent(server, "Ada", mode=LEGACY) as ada:
            await ada.ask("get_notebook", path=path)
            assert await here() == ["Ada (agent)"]


class Transport:
    """A session as the SDK's manager keeps it."""

    def __init__(self, deadline: float) -> None:
        self.idle_scope = CancelScope(deadline=deadline)


def manager_with(sessions: dict[str, tuple[str, float]]) -> StreamableHTTPSessionManager:
    """A manager of sessions with an owner and a time at which they will have been idle for long."""
    manager: Any = StreamableHTTPSessionManager(Server("test"))
    for session, (owner, deadline) in sessions.items():
        manager._server_instances[session] = Transport(deadline)
        manager._session_owners[session] = owned_by(owner)
    return manager  # type: ignore[no-any-return]


def owned_by(owner: str) -> AuthorizationContext:
    return AuthorizationContext(client_id=owner, issuer=None, subject=None)


def ended(manager: StreamableHTTPSessionManager) -> list[str]:
    instances = manager._server_instances.items()
    return [name for name, each in instances if each.idle_scope and each.idle_scope.cancel_called]


async def test_sessions_of_the_credential_with_most_of_them_end_first() -> None:
    manager = manager_with(
        {"a": ("ada", 1.0), "b1": ("bob", 5.0), "b2": ("bob", 4.0), "b3": ("bob", math.inf)}
    )
    bound_sessions(manager, most=4)
    assert manager._admit_session(owned_by("ada")) is not None
    assert ended(manager) == ["b2"]


async def test_a_credential_has_only_so_many_sessions_in_use() -> None:
    manager = manager_with({"a1": ("ada", math.inf), "a2": ("ada", math.inf), "a3": ("ada", 9.0)})
    bound_sessions(manager, in_use=2)
    assert manager._admit_session(owned_by("ada")) is None
    assert manager._admit_session(owned_by("bob")) is not None
    assert ended(manager) == []
