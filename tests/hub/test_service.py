"""One URL for the agents of all users: our service of a real JupyterHub, behind its proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import httpx2
import pytest

from jupyter_collaboration_mcp.hub_service.owners import TokenOwners
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, text_of
from tests.harness.hub import LEVEL_SCOPE, Hub, hub_agent
from tests.harness.kernels import Gate, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(240)]

ACCEPT = {"Accept": "application/json, text/event-stream"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}


@pytest.fixture(scope="module")
async def hub(anyio_backend: str) -> AsyncIterator[Hub]:
    async with Hub("ana", "ben", "team", service=()) as running:
        async with asyncio.timeout(60):
            while (await running.http.get(f"{running.service_url}health")).status_code != 200:
                await asyncio.sleep(0.05)
        for user in ("ana", "ben"):
            await running.start(user)
        yield running


@pytest.fixture
def path(request: pytest.FixtureRequest, hub: Hub) -> str:
    """A notebook that both users have, each with a text of their own."""
    name = f"{notebooks.name_for(request.node.name)}.ipynb"
    for user in hub.users:
        cells = [notebooks.code("first", f"of {user}"), notebooks.code("second", "y")]
        notebooks.write(hub.root(user) / name, notebooks.notebook(cells))
    return name


async def ask(hub: Hub, token: str | None, below: str = "", **headers: str) -> httpx.Response:
    """Begin a session at the service."""
    credentials = {} if token is None else {"Authorization": f"Bearer {token}"}
    return await hub.http.post(
        f"{hub.service_url}{below}", json=HELLO, headers={**ACCEPT, **credentials, **headers}
    )


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_each_token_leads_to_the_server_of_its_owner(hub: Hub, path: str, mode: str) -> None:
    ana, ben = await hub.token("ana"), await hub.token("ben")
    async with (
        hub_agent(hub.service_url, ana, "Ada", mode) as ada,
        hub_agent(hub.service_url, ben, "Bob", mode) as bob,
    ):
        for _ in range(3):
            sources = await asyncio.gather(ada.sources(path), bob.sources(path))
            assert [each[0] for each in sources] == ["of ana", "of ben"]
        await ada.write(path, "second", "by Ada")
        assert (await bob.sources(path))[1] == "y"
        assert (await ada.sources(path))[1] == "by Ada"


async def test_no_token_opens_what_it_does_not_open_elsewhere(hub: Hub, path: str) -> None:
    ana, ben = await hub.token("ana"), await hub.token("ben")
    for token in (None, "wrong"):
        answer = await ask(hub, token)
        assert answer.status_code == 401
        assert "WWW-Authenticate" in answer.headers
        assert "token" in answer.json()["error"]
    for below in ("user/ana/", "user/ana", "user/ana/gpu/", "user/%61na/"):
        answer = await ask(hub, ben, below)
        assert answer.status_code == 403, below
        assert "access:servers!user=ana" in answer.json()["error"]
    for below in (
        "user/ben/../ana/",
        "user/../user/ana/",
        "user/ben/%2e%2e/",
        "elsewhere",
        "user/",
    ):
        answer = await ask(hub, ben, below)
        assert answer.status_code in (403, 404), below
    # Whatever stands in the URL is for the server of the token's owner, and no credential there.
    async with hub_agent(f"{hub.service_url}?token={ana}", ben) as agent:
        me = await agent.sources(path)
        assert me[0] == "of ben"
    answer = await ask(hub, None, f"?token={ana}")
    assert answer.status_code == 401
    assert (await ask(hub, ana, "user/ana/")).status_code == 200
    assert "set-cookie" not in (await ask(hub, ana)).headers


async def test_a_scope_that_was_removed_counts_no_longer_after_a_second(
    hub: Hub, path: str
) -> None:
    token = await hub.token("ana", "access:servers!user=ana")
    async with hub_agent(hub.service_url, token) as agent:
        assert await agent.sources(path)
        await hub.revoke("ana", token)
        async with asyncio.timeout(5):
            while (await ask(hub, token)).status_code != 401:
                await asyncio.sleep(0.1)
        # Neither does another token of the same person, nor somebody else, lose anything.
        assert (await ask(hub, await hub.token("ana"))).status_code == 200
    less = await hub.token("ana", "read:users!user=ana")
    answer = await ask(hub, less)
    assert answer.status_code == 403
    assert "access:servers!user=ana" in answer.json()["error"]


async def test_the_level_of_a_token_is_the_most_that_a_connection_has(hub: Hub, path: str) -> None:
    token = await hub.token("ana", "access:servers!user=ana", f"{LEVEL_SCOPE}write")
    async with hub_agent(f"{hub.service_url}?permission=admin", token) as agent:
        await agent.write(path, "second", "written")
        error = await agent.refused("run_code", path=path, code="1")
        assert error["code"] == "permission_refused"


async def test_pages_of_other_origins_are_refused(hub: Hub) -> None:
    token = await hub.token("ana")
    assert (await ask(hub, token, Origin="https://evil.example")).status_code == 403
    assert (await ask(hub, token, Origin="null")).status_code == 403
    assert (await ask(hub, token, Origin=hub.url.rstrip("/"))).status_code == 200


async def test_progress_is_streamed_while_a_run_goes_on(
    hub: Hub, path: str, tmp_path: Path
) -> None:
    gate, told = Gate(tmp_path / "gate"), asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.set()

    async with hub_agent(hub.service_url, await hub.token("ana"), mode=LEGACY) as agent:
        run = asyncio.ensure_future(
            agent.client.call_tool(
                "run_code",
                {"path": path, "code": f"{gate.code}\nprint('over')", "timeout": 120},
                progress_callback=hear,
            )
        )
        await gate.reached()
        async with asyncio.timeout(30):
            await told.wait()
        assert not run.done()
        gate.open()
        assert "over" in text_of(await run)


async def test_a_server_is_started_on_demand_if_the_scope_allows(hub: Hub, path: str) -> None:
    await hub.stop("ben")
    without = await hub.token("ben", "access:servers!user=ben", "read:servers!user=ben")
    answer = await ask(hub, without)
    assert answer.status_code == 403
    assert "start:servers!user=ben" in answer.json()["error"]
    enough = ["access:servers!user=ben", "read:servers!user=ben", "start:servers!user=ben"]
    async with hub_agent(hub.service_url, await hub.token("ben", *enough)) as agent:
        assert (await agent.sources(path))[0] == "of ben"
        # It is stopped between two calls of the same client.
        await agent.write(path, "second", "kept")
        await hub.stop("ben")
        assert (await agent.sources(path))[1] == "kept"


async def test_a_server_that_is_killed_during_a_run_is_started_again(
    hub: Hub, path: str, tmp_path: Path
) -> None:
    if not await hub.model("ben"):
        await hub.start("ben")
    gate = Gate(tmp_path / "gate")
    async with hub_agent(hub.service_url, await hub.token("ben")) as agent:
        run = asyncio.ensure_future(agent.call("run_code", path=path, code=gate.code, timeout=120))
        await gate.reached()
        await agent.write(path, "second", "kept")
        await hub.kill_server("ben")
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the client makes of it
            await run
        gate.open()
        # Nobody has told the Hub yet, and the same client goes on.
        assert (await agent.sources(path))[1] == "kept"


async def test_a_shared_server_is_reached_by_those_who_may(hub: Hub, path: str) -> None:
    ana = await hub.token("ana")
    if not await hub.model("team"):
        answer = await ask(hub, ana, "user/team/")
        assert answer.status_code == 503
        assert "/hub/spawn/team" in answer.json()["error"]
        await hub.start("team")
    async with hub_agent(f"{hub.service_url}user/team/", ana) as agent:
        assert (await agent.sources(path))[0] == "of team"


async def test_a_named_server_has_a_url_of_its_own(hub: Hub, path: str) -> None:
    ana = await hub.token("ana")
    async with hub_agent(f"{hub.service_url}user/ana/gpu/", ana) as agent:  # starts it
        assert (await agent.sources(path))[0] == "of ana"
    await hub.stop("ana", "gpu")


async def test_what_the_hub_said_of_a_token_is_kept_for_a_moment_and_by_its_hash() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        token = request.headers["authorization"].removeprefix("token ")
        asked.append(token)
        model = {"kind": "user", "name": token.partition("-")[0], "scopes": []}
        return httpx2.Response(200, headers={"x-jupyterhub-version": "6.1.1"}, json=model)

    async with httpx2.MockTransport(answer) as http:
        owners = TokenOwners(http, "http://hub/", "http://hub/", 60.0)
        names = [(await owners.find(token)).name for token in ("ana-1", "ben-1", "ana-1", "ana-2")]
        assert names == ["ana", "ben", "ana", "ana"]
        assert asked == ["ana-1", "ben-1", "ana-2"]
        assert "ana-1" not in str(owners._known)
        owners.forget("ana-1")
        await owners.find("ana-1")
        assert asked[-1] == "ana-1"
        none = TokenOwners(http, "http://hub/", "http://hub/", 0.0)
        await none.find("ana-1")
        await none.find("ana-1")
        assert asked[-2:] == ["ana-1", "ana-1"]
        assert not none._known


async def test_the_hub_and_its_proxy_may_be_restarted_under_a_client(hub: Hub, path: str) -> None:
    ana = await hub.token("ana")
    async with hub_agent(hub.service_url, ana) as agent:
        await agent.write(path, "second", "before")
        hub.kill("proxy")
        hub.start_proxy()

        async def look() -> int:
            try:
                return (await ask(hub, ana)).status_code
            except httpx.HTTPError:
                return 0

        await eventually(look, lambda status: status == 200)
        assert (await agent.sources(path))[1] == "before"
        hub.kill("hub")
        await eventually(look, lambda status: status == 503)
        await hub.start_hub()
        await eventually(look, lambda status: status == 200)
        assert (await agent.sources(path))[1] == "before"


async def test_without_a_hub_the_service_says_what_it_is_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from jupyter_collaboration_mcp.cli import main

    assert await asyncio.to_thread(main, ["hub-service"]) == 2
    assert "JUPYTERHUB_SERVICE_URL is not set" in capsys.readouterr().err
