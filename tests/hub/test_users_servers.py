"""The extension in the servers of a real JupyterHub, reached through its proxy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.harness import notebooks
from tests.harness.agents import text_of
from tests.harness.collaborator import Collaborator
from tests.harness.hub import LEVEL_SCOPE, Hub, HubServer, hub_agent, until_stopped
from tests.harness.kernels import Gate, eventually

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(240)]


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    """A notebook that no other test has: all share the servers."""
    return f"{notebooks.name_for(request.node.name)}.ipynb"


async def running(hub: Hub, user: str, path: str) -> HubServer:
    """The server of a user, which runs and has a notebook there."""
    if not (await hub.model(user)).get("ready"):
        await hub.start(user)
    server = await hub.server(user)
    notebooks.write(server.root / path, notebooks.numbered(3))
    return server


async def statuses(url: str, headers: dict[str, str]) -> list[int]:
    """How each method of an endpoint is answered."""
    client = {"name": "test", "version": "0"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accept = {"Accept": "application/json, text/event-stream", **headers}
    async with httpx.AsyncClient(headers=accept, trust_env=False, timeout=30) as http:
        found = [
            await http.post(url, json=hello),
            await http.get(url),
            await http.delete(url),
            await http.post(f"{url}?permission=read&agent=Ada", json=hello),
        ]
    return [answer.status_code for answer in found]


async def test_nobodys_token_opens_the_server_of_somebody_else(hub: Hub, path: str) -> None:
    ana, ben = await running(hub, "ana", path), await running(hub, "ben", path)
    bens = {"Authorization": f"Bearer {ben.token}"}
    for headers in (bens, {"Authorization": "Bearer wrong"}, {}):
        assert set(await statuses(f"{ana.url}mcp", headers)) <= {401, 403}
        answer = await hub.http.get(f"{ana.url}api/collaboration-mcp", headers=headers)
        assert answer.status_code in (302, 401, 403)
    in_url = await statuses(f"{ana.url}mcp?token={ben.token}", {})
    assert set(in_url[:3]) <= {401, 403}
    # Ben's own server has a notebook at the same path, and takes the same token.
    async with hub_agent(f"{ben.url}mcp", ben.token) as agent:
        await agent.write(path, "cell-00000", "ben")
        assert (await agent.sources(path))[0] == "ben"
    async with hub_agent(f"{ana.url}mcp", ana.token) as agent:
        assert (await agent.sources(path))[0].startswith("x = 0")


async def test_a_token_needs_the_scope_and_stops_counting_when_it_is_revoked(
    hub: Hub, path: str
) -> None:
    ana = await running(hub, "ana", path)
    without = await hub.token("ana", "read:users!user=ana")
    assert set(await statuses(f"{ana.url}mcp", {"Authorization": f"Bearer {without}"})) <= {
        401,
        403,
    }
    token = await hub.token("ana", "access:servers!user=ana")
    headers = {"Authorization": f"Bearer {token}"}
    assert (await statuses(f"{ana.url}mcp", headers))[0] == 200
    await hub.revoke("ana", token)

    async def look() -> set[int]:
        return set(await statuses(f"{ana.url}mcp", headers))

    await eventually(look, lambda seen: seen <= {401, 403})


async def test_a_scope_of_the_token_limits_what_its_agents_may_do(hub: Hub, path: str) -> None:
    ana = await running(hub, "ana", path)
    token = await hub.token("ana", "access:servers!user=ana", f"{LEVEL_SCOPE}read")
    async with hub_agent(f"{ana.url}mcp?permission=admin", token) as agent:
        assert await agent.sources(path)
        update = {"cell_id": "cell-00000", "content": "no"}
        error = await agent.refused("batch_update_notebook_cells", path=path, updates=[update])
        assert error["code"] == "permission_refused"
        assert (await agent.sources(path))[0].startswith("x = 0")
    # Nor does it make a token for an agent that may do more.
    tokens, headers = f"{ana.url}api/collaboration-mcp/tokens", {"Authorization": f"token {token}"}
    for level, status in (("write", 400), ("read", 201)):
        wanted = {"agent": "Ada", "permission": level}
        answer = await hub.http.post(tokens, json=wanted, headers=headers)
        assert answer.status_code == status, answer.text


async def test_progress_and_output_arrive_while_a_run_goes_on(
    hub: Hub, path: str, tmp_path: Path
) -> None:
    ana, gate = await running(hub, "ana", path), Gate(tmp_path / "gate")
    heard: list[str] = []
    told = asyncio.Event()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(str(message))
        told.set()

    async with (
        Collaborator(ana.url, ana.token, path) as person,
        hub_agent(f"{ana.url}mcp", ana.token) as agent,
    ):
        code = f"print('first', flush=True)\n{gate.code}\nprint('second')"
        await agent.write(path, "cell-00001", code)
        run = asyncio.ensure_future(
            agent.client.call_tool(
                "execute_notebook_cell",
                {"path": path, "cell_id": "cell-00001", "timeout": 120},
                progress_callback=hear,
            )
        )
        await gate.reached()
        await person.until(lambda: "first" in str(person.cell("cell-00001")["outputs"]))
        async with asyncio.timeout(30):
            await told.wait()
        assert not run.done()
        gate.open()
        assert "second" in text_of(await run)


async def test_a_long_run_outlives_the_call_and_the_connection(
    hub: Hub, path: str, tmp_path: Path
) -> None:
    ana, gate = await running(hub, "ana", path), Gate(tmp_path / "gate")
    async with hub_agent(f"{ana.url}mcp", ana.token) as agent:
        await agent.write(path, "cell-00001", f"{gate.code}\nprint('over')")
        begun = await agent.ask(
            "execute_notebook_cell", path=path, cell_id="cell-00001", timeout=0.1
        )
        await gate.reached()
    gate.open()
    (run,) = begun["runs"]
    async with hub_agent(f"{ana.url}mcp", ana.token) as agent:
        said = await agent.say("get_run", run_id=run["run_id"], wait=60)
        assert "over" in said


async def test_people_and_agents_see_each_other_under_the_names_of_the_hub(
    hub: Hub, path: str
) -> None:
    ana = await running(hub, "ana", path)
    me = (await hub.http.get(f"{ana.url}api/me", headers=ana.headers)).json()["identity"]
    assert me["name"] == "ana"
    async with (
        Collaborator(ana.url, ana.token, path, name=me["display_name"]) as person,
        hub_agent(f"{ana.url}mcp", ana.token, "Ada") as agent,
    ):
        await agent.sources(path)
        await person.until(lambda: any("Ada" in user["name"] for user in person.awareness_users()))
        online = await agent.say("get_online_users")
        assert "ana" in online


async def test_an_agent_stays_the_same_when_its_person_takes_another_token(
    hub: Hub, path: str
) -> None:
    ana = await running(hub, "ana", path)
    async with hub_agent(f"{ana.url}mcp", ana.token) as agent:
        await agent.write(path, "cell-00000", "by Ada")
    async with hub_agent(f"{ana.url}mcp", await hub.token("ana")) as agent:
        await agent.say("undo_agent_changes", path=path)
        assert (await agent.sources(path))[0].startswith("x = 0")


async def test_two_users_work_in_a_shared_server_with_the_scopes_for_it(
    hub: Hub, path: str
) -> None:
    team = await running(hub, "team", path)
    ana, ben, carl = [await hub.token(user) for user in ("ana", "ben", "carl")]
    assert set(await statuses(f"{team.url}mcp", {"Authorization": f"Bearer {carl}"})) <= {401, 403}
    async with (
        Collaborator(team.url, ana, path, name="ana") as person,
        hub_agent(f"{team.url}mcp", ana, "Ada") as ada,
        hub_agent(f"{team.url}mcp", ben, "Bob") as bob,
    ):
        await ada.write(path, "cell-00000", "of ana")
        await bob.write(path, "cell-00001", "of ben")
        await person.until(lambda: person.sources()[:2] == ["of ana", "of ben"])
        # They are different agents, whatever they call themselves.
        await bob.say("undo_agent_changes", path=path)
        await person.until(lambda: person.sources()[1].startswith("x = 1"))
        assert person.sources()[0] == "of ana"
        assert "Bob" in await ada.say("get_online_users")


async def test_a_server_that_is_killed_during_a_run_loses_nothing(
    hub: Hub, path: str, tmp_path: Path
) -> None:
    ben, gate = await running(hub, "ben", path), Gate(tmp_path / "gate")
    async with hub_agent(f"{ben.url}mcp", ben.token) as agent:
        await agent.write(path, "cell-00001", gate.code)
        run = asyncio.ensure_future(
            agent.call("execute_notebook_cell", path=path, cell_id="cell-00001", timeout=120)
        )
        await gate.reached()
        await agent.write(path, "cell-00002", "kept")
        await hub.kill_server("ben")
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the client makes of it
            await run
        await until_stopped(hub, "ben")
        answer = await hub.http.post(f"{ben.url}mcp", headers=ben.headers, json={})
        assert answer.status_code in (403, 424)
        await hub.start("ben")
        # The same client goes on.
        assert (await agent.sources(path))[2] == "kept"
        gate.open()


async def test_the_hub_and_its_proxy_may_be_restarted(hub: Hub, path: str) -> None:
    ana = await running(hub, "ana", path)
    async with hub_agent(f"{ana.url}mcp", ana.token) as agent:
        await agent.write(path, "cell-00000", "before")
        hub.kill("hub")
        await hub.start_hub()
        await agent.write(path, "cell-00001", "between")
        hub.kill("proxy")
        hub.start_proxy()

        async def look() -> int:
            try:
                return await ana.status()
            except httpx.HTTPError:
                return 0

        await eventually(look, lambda status: status == 200)
        assert (await agent.sources(path))[:2] == ["before", "between"]
