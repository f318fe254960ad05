"""The command with --hub joins the servers that a person has on a real JupyterHub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from jupyter_collaboration_mcp.backends.remote.hub_api import HubApi, UserServer
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.cli import main
from jupyter_collaboration_mcp.errors import (
    CollaborationError,
    HubRefused,
    NotJupyter,
    TokenRefused,
)
from jupyter_collaboration_mcp.standalone.doctor import examine
from tests.harness import notebooks
from tests.harness.agents import AgentClient, over_stdio, text_of
from tests.harness.http_proxy import Front
from tests.harness.hub import Hub
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(240)]

#: Seconds for which the command takes it that a server that has answered still runs.
_A_WHILE = 1.1


@asynccontextmanager
async def command(hub: Hub, home: Path, token: str, *arguments: str) -> AsyncIterator[AgentClient]:
    """An agent whose client has started the command for the Hub."""
    async with over_stdio(
        home, f"--hub={hub.url}", *arguments, JUPYTERHUB_API_TOKEN=token
    ) as agent:
        yield agent


@pytest.fixture(scope="module")
async def hub(anyio_backend: str) -> AsyncIterator[Hub]:
    # It answers at once when it is asked to start a server, as it does where that takes long.
    slow = {"tornado_settings": {"slow_spawn_timeout": 0}, "active_server_limit": 2}
    async with Hub("ana", "ben", "carl", settings={"JupyterHub": slow}) as running:
        for user in ("ana", "ben"):
            notebooks.write(running.root(user) / "work.ipynb", notebooks.numbered(2))
        yield running


async def test_a_server_is_started_when_an_agent_needs_it(hub: Hub, tmp_path: Path) -> None:
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(str(message))

    token = await hub.token("ana")
    async with command(hub, tmp_path, token, "--start-servers") as agent:
        assert not await hub.model("ana")
        result = await agent.client.call_tool(
            "get_notebook", {"path": "work.ipynb"}, progress_callback=hear
        )
        assert "x = 0" in text_of(result)
        assert any("ready" in each for each in heard), heard
        # It is stopped between two calls: the next one starts it again.
        await agent.write("work.ipynb", "cell-00000", "kept")
        await hub.stop("ana")
        await asyncio.sleep(_A_WHILE)
        assert (await agent.sources("work.ipynb"))[0] == "kept"


async def test_a_server_that_the_hub_does_not_start_is_reported(hub: Hub, tmp_path: Path) -> None:
    for user in ("ana", "ben"):
        if not await hub.model(user):
            await hub.start(user)
    async with command(hub, tmp_path, await hub.token("carl"), "--start-servers") as agent:
        error = await agent.refused("get_notebook", path="work.ipynb")
        assert error["code"] == "hub_refused"
        assert "limit exceeded" in error["message"]
        assert f"{hub.url}hub/home" in error["next_step"]
    await hub.stop("ben")


async def test_a_stopped_server_is_named_as_such(hub: Hub, tmp_path: Path) -> None:
    async with command(hub, tmp_path, await hub.token("ben")) as agent:
        for tool, arguments in (("get_notebook", {"path": "work.ipynb"}), ("list_notebooks", {})):
            error = await agent.refused(tool, **arguments)
            assert error["code"] == "server_unreachable"
            assert "is stopped" in error["message"]
            assert f"{hub.url}hub/spawn/ben" in error["next_step"]
            assert "--start-servers" in error["next_step"]
        await hub.start("ben")  # a person does
        assert "x = 0" in await agent.say("get_notebook", path="work.ipynb")
        await hub.stop("ben")


async def test_named_servers_are_joined_under_their_names(hub: Hub, tmp_path: Path) -> None:
    await hub.start("ana", "gpu")
    if not await hub.model("ana"):
        await hub.start("ana")
    async with command(hub, tmp_path, await hub.token("ana")) as agent:
        listed = await agent.ask("list_servers")
        found = {each["alias"]: each["url"] for each in listed["servers"]}
        assert found == {
            "default": f"{hub.url}user/ana/",
            "gpu": f"{hub.url}user/ana/gpu/",
        }
        assert "x = " in await agent.say("get_notebook", path="gpu:work.ipynb")
        # The default server, which runs, does not answer in the place of one that is stopped.
        await hub.stop("ana", "gpu")
        await asyncio.sleep(_A_WHILE)
        error = await agent.refused("get_notebook", path="gpu:work.ipynb")
        assert f"{hub.url}hub/spawn/ana/gpu" in error["next_step"]


@pytest.mark.parametrize(
    ("scopes", "said"),
    [
        (["access:servers!user=ana"], "lacks the scope read:servers!user=ana"),
        (["access:servers!user=ana", "read:servers!user=ana"], "lacks the scope start:servers"),
    ],
)
async def test_a_missing_scope_is_named(
    hub: Hub, tmp_path: Path, scopes: list[str], said: str
) -> None:
    if await hub.model("ana"):
        await hub.stop("ana")
    token = await hub.token("ana", *scopes)
    async with command(hub, tmp_path, token, "--start-servers") as agent:
        error = await agent.refused("get_notebook", path="work.ipynb")
        assert error["code"] == "hub_refused"
        assert said in error["message"]
        assert f"{hub.url}hub/token" in error["next_step"]


async def test_a_wrong_token_is_refused_and_goes_nowhere_else(hub: Hub, tmp_path: Path) -> None:
    async with command(hub, tmp_path, "wrong", "--start-servers") as agent:
        error = await agent.refused("get_notebook", path="work.ipynb")
        assert error["code"] == "token_refused"
        assert f"{hub.url}hub/token" in error["next_step"]
    # A server at another host gets no token, whatever the Hub says.
    api = HubApi(ServerAddress(hub.url, "wrong"))
    try:
        for url in ("https://evil.example/user/ana/", "//evil.example/user/ana/"):
            with pytest.raises(NotJupyter):
                api.url_of(UserServer("", url, True, None))
    finally:
        await api.close()


async def test_a_hub_that_was_away_is_joined_when_it_is_back(tmp_path: Path, hub: Hub) -> None:
    async with Front(hub.url, {"GET": 0}) as front:
        token = await hub.token("ana")
        if not await hub.model("ana"):
            await hub.start("ana")
        async with over_stdio(tmp_path, f"--hub={front.url}", JUPYTERHUB_API_TOKEN=token) as agent:
            error = await agent.refused("get_notebook", path="work.ipynb")
            assert error["code"] == "server_unreachable"
            front.answers = {}
            assert "x = " in await agent.say("get_notebook", path="work.ipynb")


async def test_a_hub_may_be_restarted_under_the_command(hub: Hub, tmp_path: Path) -> None:
    if not await hub.model("ana"):
        await hub.start("ana")
    await hub.start("ana", "gpu")
    async with command(hub, tmp_path, await hub.token("ana")) as agent:
        await agent.write("default:work.ipynb", "cell-00001", "before")
        hub.kill("hub")
        # Servers ask the Hub about a token from time to time, and have to refuse it without.
        result = await agent.call("get_notebook", path="gpu:work.ipynb")
        assert not result.is_error or text_of(result).startswith("server_unreachable: ")
        await hub.start_hub()
        assert (await agent.sources("default:work.ipynb"))[1] == "before"
        # Both serve the home directory, so the other one has it as soon as it is saved.
        await until(lambda: "before" in (hub.root("ana") / "work.ipynb").read_text())
        assert (await agent.sources("gpu:work.ipynb"))[1] == "before"
    await hub.stop("ana", "gpu")


@pytest.mark.parametrize(
    ("headers", "said"),
    [("", "is not a JupyterHub"), ("x-jupyterhub-version: 1.5.1\r\n", "version 1.5.1")],
)
async def test_what_is_no_hub_or_too_old_is_named(headers: str, said: str) -> None:
    async def speak(head: bytes, writer: object) -> None:
        answer = f"HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\nconnection: close\r\n\r\n{{}}"
        writer.write(answer.encode())  # type: ignore[attr-defined]

    async with Front("http://127.0.0.1:9/", {"GET": speak}) as front:
        api = HubApi(ServerAddress(front.url, "token"))
        try:
            with pytest.raises(CollaborationError) as refused:
                await api.check()
        finally:
            await api.close()
    assert isinstance(refused.value, NotJupyter | HubRefused)
    assert said in refused.value.happened


async def test_doctor_says_what_a_token_may_do_at_a_hub(hub: Hub) -> None:
    if not await hub.model("ana"):
        await hub.start("ana")
    checks = {c.name: c for c in await examine(ServerAddress(hub.url, await hub.token("ana")))}
    assert set(checks) == {"reachable", "hub", "token", "scopes", "servers"}
    assert {check.state for check in checks.values()} == {"ok"}
    assert "JupyterHub 6." in checks["hub"].said
    assert "ana" in checks["token"].said
    assert "default (running)" in checks["servers"].said
    less = await hub.token("ana", "access:servers!user=ana", "read:servers!user=ana")
    checks = {c.name: c for c in await examine(ServerAddress(f"{hub.url}hub/", less))}
    assert checks["scopes"].state == "warning"
    assert "start:servers" in checks["scopes"].said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hub=https://hub.example", "--server=http://127.0.0.1:8888"], "together"),
        (["--start-servers"], "--start-servers needs --hub"),
        (["--hub=hub.example"], "--hub: 'hub.example' is not the URL of a JupyterHub"),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await asyncio.to_thread(main, arguments) == 2
    assert said in capsys.readouterr().err


async def test_no_token_is_not_called_a_wrong_one(hub: Hub) -> None:
    api = HubApi(ServerAddress(hub.url))
    try:
        with pytest.raises(TokenRefused) as refused:
            await api.user()
        assert "none is known" in refused.value.happened
    finally:
        await api.close()
