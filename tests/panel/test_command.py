"""Agents of the command in the panel of a server with the extension, as if they were its own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from websockets.asyncio.client import connect

from jupyter_collaboration_mcp.documents.members import agent_username
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.kernels import Gate, KernelApi, eventually
from tests.harness.panel import Panel
from tests.harness.proxy import Proxy
from tests.harness.standalone import StandaloneProcess
from tests.panel.test_reviews import open_calls

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

UPDATE = "batch_update_notebook_cells"


@pytest.fixture(scope="module")
async def command(server: JupyterProcess) -> AsyncIterator[StandaloneProcess]:
    async with StandaloneProcess([server]) as command:
        yield command


@pytest.fixture
async def panel(server: JupyterProcess) -> AsyncIterator[Panel]:
    async with Panel(server) as panel:
        yield panel


async def test_calls_appear_while_they_run_with_what_they_do(
    server: JupyterProcess, command: StandaloneProcess, panel: Panel, tmp_path: Path
) -> None:
    notebooks.write(server.root / "run.ipynb", notebooks.numbered(1))
    gate = Gate(tmp_path / "gate")
    async with agent(command, "Cora") as cora:
        await cora.sources("run.ipynb")
        began = time.monotonic()
        running = asyncio.create_task(cora.say("run_code", path="run.ipynb", code=gate.code))
        call = await panel.until(lambda: panel.call_of("run_code", path="run.ipynb"))
        assert call["state"] == "running"
        assert time.monotonic() - began < 2
        await panel.until(lambda: panel.agent("Cora")["doing"] == "running code")
        assert panel.agent("Cora")["connected"]
        gate.open()
        await running
        await panel.until(lambda: panel.call_of("run_code", path="run.ipynb", state="done"))
        read = panel.call_of("get_notebook", path="run.ipynb")
        assert read is not None
        assert read["kind"] == "read"


async def test_what_they_did_is_reviewed_like_that_of_others(
    server: JupyterProcess, command: StandaloneProcess, panel: Panel
) -> None:
    path = "reviewed.ipynb"
    notebooks.write(server.root / path, notebooks.numbered(3))
    async with agent(command, "Cora") as cora:
        before = await cora.sources(path)
        updates = [{"cell_id": f"cell-0000{n}", "content": f"agent = {n}"} for n in range(2)]
        await cora.say(UPDATE, path=path, updates=updates, exec=False)
        await cora.write(path, "cell-00002", "later = 1")
        first, second = await open_calls(panel, path, 2)
        diff = await panel.diff(first, "cell-00000")
        assert (diff["before"], diff["after"]) == (before[0], "agent = 0")
        assert diff["undone"] == before[0]
        part = await panel.post(f"calls/{first['id']}", action="undo", cell_id="cell-00000")
        assert [cell["review"] for cell in part["cells"]] == ["undone", "open"]
        assert await cora.sources(path) == [before[0], "agent = 1", "later = 1"]
        await eventually(
            lambda: cora.ask("list_agent_changes", path=path),
            lambda left: [len(change["cells"]) for change in left["changes"]] == [1, 1],
        )
        await panel.post(f"calls/{second['id']}", action="undo")
        await panel.post(f"calls/{first['id']}", action="undo")
        assert await cora.sources(path) == before
        await eventually(
            lambda: cora.ask("list_agent_changes", path=path), lambda left: left["total"] == 0
        )
        await cora.write(path, "cell-00001", "own = 1")
        await open_calls(panel, path, 1)
        await cora.say("undo_agent_changes", path=path)
        await open_calls(panel, path, 0)
        undone = panel.call_of(UPDATE, path=path)
        assert undone is not None
        assert (undone["review"], undone["reviewed_by"]) == ("undone", "Cora")


async def test_they_are_paused_and_stopped_within_a_second(
    server: JupyterProcess, command: StandaloneProcess, panel: Panel
) -> None:
    path = "held.ipynb"
    notebooks.write(server.root / path, notebooks.numbered(1))
    async with agent(command, "Cyd") as cyd:
        await cyd.sources(path)
        known = await panel.until(lambda: panel.agent("Cyd"))
        place = f"agents/{known['id']}"
        await panel.patch(place, state="paused")
        error = await cyd.refused("run_code", path=path, code="1")
        assert error["code"] == "agent_paused"
        await cyd.sources(path)
        await panel.patch(place, state="active")
        await cyd.say("run_code", path=path, code="1")
        endless = {"path": path, "code": "while True: pass", "timeout": 60}
        running = asyncio.create_task(cyd.call("run_code", **endless))
        call = await panel.until(lambda: panel.call_of("run_code", path=path, state="running"))
        await panel.until(lambda: panel.agent("Cyd")["doing"] == "running code")
        await panel.post(f"calls/{call['id']}", action="interrupt")
        async with asyncio.timeout(10):
            await running
        await panel.until(lambda: panel.agent("Cyd")["doing"] is None)
        running = asyncio.create_task(cyd.call("run_code", **endless))
        await panel.until(lambda: panel.agent("Cyd")["doing"] == "running code")
        began = time.monotonic()
        await panel.patch(place, state="stopped")
        await running
        assert (await cyd.refused("get_notebook", path=path))["code"] == "agent_stopped"
        assert time.monotonic() - began < 1.5
    async with StandaloneProcess([server]) as other, agent(other, "Cyd") as again:
        error = await again.refused("get_notebook", path=path)
        assert error["code"] == "agent_stopped"
    await panel.patch(place, state="active")


class _Through:
    """A server as it is reached through a network that can be cut."""

    def __init__(self, server: JupyterProcess, way: Proxy) -> None:
        self._server = server
        self.url = way.url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


async def cut(server: JupyterProcess, way: Proxy) -> None:
    """Cut all lines, also that to the kernel, and wait until the server has noticed."""
    async with KernelApi(server) as kernels:

        async def lines() -> int:
            return sum(kernel["connections"] for kernel in (await kernels.kernels()).values())

        before = await lines()
        way.cut()
        await eventually(lines, lambda left: left < before)


async def restore(way: Proxy, command: StandaloneProcess, panel: Panel) -> None:
    """Let lines through, and wait until the command reports again, which others than its agents
    under test make it do."""
    way.resume()
    async with agent(command, "Dan") as dan:
        await dan.call("list_notebooks")
        await panel.until(lambda: panel.call_of("list_notebooks", state="done"))


async def test_what_people_decide_reaches_a_command_whose_line_was_cut(
    server: JupyterProcess, panel: Panel
) -> None:
    path = "cut.ipynb"
    notebooks.write(server.root / path, notebooks.numbered(1))
    async with (
        Proxy(server.url) as way,
        StandaloneProcess([cast("JupyterProcess", _Through(server, way))]) as command,
        agent(command, "Dora") as dora,
    ):
        before = await dora.sources(path)
        await dora.write(path, "cell-00000", "agent = 1")
        (call,) = await open_calls(panel, path, 1)
        place = f"agents/{panel.agent('Dora')['id']}"
        running = asyncio.create_task(
            dora.call("run_code", path=path, code="while True: pass", timeout=60)
        )
        await panel.until(lambda: panel.agent("Dora")["doing"] == "running code")

        await cut(server, way)
        await restore(way, command, panel)
        await panel.patch(place, state="stopped")
        async with asyncio.timeout(20):  # the line to the kernel may come back later
            await running
        assert (await dora.refused("get_notebook", path=path))["code"] == "agent_stopped"

        await cut(server, way)
        await panel.patch(place, state="active")
        await panel.post(f"calls/{call['id']}", action="undo")
        way.resume()
        await eventually(
            lambda: dora.call("get_notebook", path=path), lambda said: not said.is_error
        )
        assert await dora.sources(path) == before
        assert (await dora.ask("list_agent_changes", path=path))["total"] == 0


async def test_what_they_do_while_the_server_is_restarted_is_told_after_it(
    make_server: MakeServer,
) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        async with (
            Panel(server) as panel,
            StandaloneProcess([server]) as command,
            agent(command, "Cora") as cora,
        ):
            await cora.write("a.ipynb", "cell-00000", "before = 1")
            (first,) = await open_calls(panel, "a.ipynb", 1)
            await server.terminate()
            await cora.call("get_online_users")
            await server.start()
            await panel.cut()
            await panel.follow()
            await panel.until(lambda: panel.call_of("get_online_users"), timeout=20)
            assert panel.calls[first["id"]]["review"] == "open"
            await panel.post(f"calls/{first['id']}", action="undo")


@pytest.mark.parametrize(
    "message",
    [
        "no json",
        "[]",
        '{"kind": "event", "n": 1}',
        '{"kind": "event", "n": 1, "key": "Eve <local>", "event": {"agent": {"id": "agent-1"}}}',
        '{"kind": "step", "n": 1, "call": "nothing", "room": "x", "step": {}}',
        '{"kind": "undone", "n": "x", "steps": 5}',
    ],
)
async def test_nonsense_of_a_command_changes_nothing(panel: Panel, message: str) -> None:
    before = await panel.get("state")
    address = f"{panel.url.replace('http', 'ws', 1)}reports"
    async with connect(address, additional_headers=panel.headers, proxy=None) as line:
        await line.send(message)
        await line.send(json.dumps({"kind": "hello", "source": "x"}))
        answer: Any = {}
        while answer.get("kind") != "welcome":
            answer = json.loads(await asyncio.wait_for(line.recv(), 10))
    after = await panel.get("state")
    assert after["calls"] == before["calls"]
    assert after["agents"] == before["agents"]


async def test_a_command_cannot_report_calls_of_agents_that_it_does_not_have(
    server: JupyterProcess, panel: Panel
) -> None:
    notebooks.write(server.root / "mine.ipynb", notebooks.numbered(1))
    async with agent(server, "Ada") as ada:
        await ada.write("mine.ipynb", "cell-00000", "x")
    (call,) = await open_calls(panel, "mine.ipynb", 1)
    whose = panel.agents[call["agent"]]
    assert whose["id"] == agent_username("Ada <token:server>")
    forged = {**call, "summary": "forged"}
    address = f"{panel.url.replace('http', 'ws', 1)}reports"
    async with connect(address, additional_headers=panel.headers, proxy=None) as line:
        event = {"agent": whose, "call": forged}
        said = {"kind": "event", "n": 1, "key": "Ada <token:server>", "event": event}
        await line.send(json.dumps(said))
        answer: Any = {"kind": "hold"}
        while answer["kind"] == "hold":
            answer = json.loads(await asyncio.wait_for(line.recv(), 10))
        assert answer == {"kind": "ack", "n": 1}
    assert (await panel.get(f"calls/{call['id']}"))["summary"] == call["summary"]


async def test_a_server_without_the_panel_is_not_bothered(make_server: MakeServer) -> None:
    stock = {"jupyter_collaboration_mcp": False}
    async with (
        make_server(extensions=stock) as server,
        StandaloneProcess([server]) as command,
        agent(command) as ada,
    ):
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        await ada.write("a.ipynb", "cell-00000", "x")
        await ada.write("a.ipynb", "cell-00000", "y")
        assert server.log.count("panel/reports") <= 1
        assert "Traceback" not in command.log
