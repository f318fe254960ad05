"""Pausing and stopping agents: at once, for good, and without a way around it for the agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import MCPError

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent, text_of
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.kernels import Gate, KernelApi, Person
from tests.harness.panel import Panel
from tests.test_agent_tokens import holder, ping

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

UPDATE = "batch_update_notebook_cells"


@pytest.fixture
async def panel(server: JupyterProcess) -> AsyncIterator[Panel]:
    async with Panel(server) as panel:
        yield panel


async def test_a_paused_agent_reads_on_and_edits_and_runs_nothing_until_a_person_lets_it(
    server: JupyterProcess, panel: Panel
) -> None:
    notebooks.write(server.root / "paused.ipynb", notebooks.numbered(2))
    async with agent(server, "Paul") as paul, agent(server, "Petra") as petra:
        before = await paul.sources("paused.ipynb")
        await petra.sources("paused.ipynb")
        await panel.until(lambda: panel.agent("Petra"))
        paused = await panel.patch(f"agents/{panel.agent('Paul')['id']}", state="paused")
        assert paused["state"] == "paused"
        for tool, arguments in (
            (UPDATE, {"updates": [{"cell_id": "cell-00000", "content": "no"}], "exec": False}),
            ("run_code", {"code": "no = 1"}),
            ("fork_document", {"title": "no"}),
        ):
            error = await paul.refused(tool, path="paused.ipynb", **arguments)
            assert error["code"] == "agent_paused"
            assert "only they can let you go on" in error["next_step"]
        assert await paul.sources("paused.ipynb") == before
        refused = await panel.until(lambda: panel.call_of("run_code", state="refused"))
        assert "paused" in refused["error"]
        await petra.write("paused.ipynb", "cell-00001", "others go on")
        await panel.patch(f"agents/{panel.agent('Paul')['id']}", state="active")
        await paul.write("paused.ipynb", "cell-00000", "again")


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_stopping_ends_an_endless_run_and_refuses_the_agent_within_a_second(
    server: JupyterProcess, panel: Panel, mode: str
) -> None:
    path, name = f"endless-{mode}.ipynb", f"Eve {mode}"
    notebooks.write(
        server.root / path,
        notebooks.notebook(
            [notebooks.code("loop", "while True: pass"), notebooks.code("x", "x = 1")]
        ),
    )
    async with (
        KernelApi(server) as kernels,
        agent(server, name, mode=mode) as eve,
        agent(server, "Fay") as fay,
    ):
        await fay.sources(path)
        await eve.say("run_code", path=path, code="1")
        running = asyncio.create_task(
            eve.call("batch_execute_notebook_cells", path=path, timeout=60)
        )
        await panel.until(lambda: panel.agent(name)["doing"] == "running while True: pass")
        began = time.monotonic()
        stopped = await panel.patch(f"agents/{panel.agent(name)['id']}", state="stopped")
        assert stopped["state"] == "stopped"
        ended = await running
        assert (await eve.refused("get_notebook", path=path))["code"] == "agent_stopped"
        assert time.monotonic() - began < 1
        assert "2" in await fay.say("run_code", path=path, code="1 + 1")
        assert ended.is_error or "cancelled" in text_of(ended)
        for tool, arguments in (
            ("get_notebook", {"path": path}),
            ("run_code", {"path": path, "code": "1"}),
            ("get_online_users", {}),
        ):
            error = await eve.refused(tool, **arguments)
            assert error["code"] == "agent_stopped"
        with pytest.raises(MCPError, match="agent_stopped"):
            await eve.client.list_resources()
        async with agent(server, f"{name} again", mode=mode) as other:
            error = await other.refused("get_notebook", path=path)
            assert error["code"] == "agent_stopped"
        await panel.until(lambda: panel.agent(f"{name} again")["state"] == "stopped")
        # Others with the same token, which are known, and people go on.
        assert len(await fay.sources(path)) == 2
        assert await kernels.contents(path)
        for each in (name, f"{name} again"):
            await panel.patch(f"agents/{panel.agent(each)['id']}", state="active")
        assert len(await eve.sources(path)) == 2


async def test_a_stopped_agent_loses_its_own_token_and_no_other_name_helps(
    server: JupyterProcess, panel: Panel
) -> None:
    notebooks.write(server.root / "own.ipynb", notebooks.numbered(1))
    made = await panel.post("connect", 201, client="claude-code", agent="Tom", permission="execute")
    token = made["token"]
    async with holder(server, token) as tom:
        await tom.say("run_code", path="own.ipynb", code="1")
        known = await panel.until(lambda: panel.agent("Tom"))
        assert known["token"] == {"id": made["id"], "expires": None, "paths": []}
        assert known["level"] == "execute"
        running = asyncio.create_task(
            tom.call("run_code", path="own.ipynb", code="while True: pass", timeout=60)
        )
        await panel.until(lambda: panel.agent("Tom")["doing"] == "running code")
        began = time.monotonic()
        stopped = await panel.patch(f"agents/{known['id']}", state="stopped")
        assert stopped["token"] is None
        assert known["can_return"]
        assert not stopped["can_return"]
        assert (await ping(server, token)).status_code == 401
        assert time.monotonic() - began < 1
        assert (await ping(server, token, "?agent=Other")).status_code in (401, 403)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    async with agent(server, "Fay") as fay:
        assert "2" in await fay.say("run_code", path="own.ipynb", code="1 + 1")
    error = await panel.patch(f"agents/{known['id']}", 409, state="active")
    assert error["code"] == "token_gone"
    await panel.delete(f"agents/{known['id']}")
    await panel.until(lambda: known["id"] not in panel.agents)


@pytest.mark.parametrize("how", ["interrupt", "stop"])
async def test_a_run_that_waits_behind_a_persons_ends_without_theirs(
    server: JupyterProcess, panel: Panel, tmp_path: Path, how: str
) -> None:
    path, name = f"behind-{how}.ipynb", f"Ben {how}"
    notebooks.write(server.root / path, notebooks.numbered(1))
    gate = Gate(tmp_path / "gate")
    async with agent(server, name) as ben, agent(server, "Fay") as fay:
        await ben.say("run_code", path=path, code="1")
        async with Person(server, path) as ana:
            hers = await ana.send(f"{gate.code}\nprint('to the end')")
            await gate.reached()
            running = asyncio.create_task(
                ben.call("run_code", path=path, code="while True: pass", timeout=60)
            )
            waiting = asyncio.create_task(
                ben.call("run_code", path=path, code="while 1: pass", timeout=60)
            )
            call = await panel.until(
                lambda: panel.call_of("run_code", agent=panel.agent(name)["id"], state="running")
            )
            await panel.until(lambda: panel.agent(name)["doing"] == "running code")
            if how == "interrupt":
                ended = await panel.post(f"calls/{call['id']}", action="interrupt")
                assert ended["id"] == call["id"]
            else:
                await panel.patch(f"agents/{panel.agent(name)['id']}", state="stopped")
            gate.open()
            assert (await ana.done(hers))["status"] == "ok"
            assert "to the end" in ana.printed(hers)
            async with asyncio.timeout(10):
                await asyncio.gather(running, waiting)
        await panel.patch(f"agents/{panel.agent(name)['id']}", state="active")
        assert "2" in await fay.say("run_code", path=path, code="1 + 1")


async def test_interrupting_ends_what_the_agent_runs_and_leaves_it_free_to_go_on(
    server: JupyterProcess, panel: Panel
) -> None:
    path = "interrupted.ipynb"
    notebooks.write(server.root / path, notebooks.numbered(1))
    async with agent(server, "Ivo") as ivo:
        await ivo.say("run_code", path=path, code="1")
        running = asyncio.create_task(
            ivo.call("run_code", path=path, code="while True: pass", timeout=60)
        )
        call = await panel.until(lambda: panel.call_of("run_code", path=path, state="running"))
        await panel.until(lambda: panel.agent("Ivo")["doing"] == "running code")
        await panel.post(f"calls/{call['id']}", action="interrupt")
        async with asyncio.timeout(10):
            await running
        assert "2" in await ivo.say("run_code", path=path, code="1 + 1")
    error = await panel.post("calls/nothing", 404, action="interrupt")
    assert error["code"] == "unknown"


async def test_stopping_all_and_a_restart_leave_all_stopped(make_server: MakeServer) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(1))
        async with Panel(server) as panel:
            async with agent(server, "Ada") as ada, agent(server, "Grace") as grace:
                await ada.sources("a.ipynb")
                await grace.sources("a.ipynb")
                done = await panel.patch("agents", state="stopped")
                assert {each["state"] for each in done["agents"]} == {"stopped"}
                assert (await grace.refused("get_notebook", path="a.ipynb"))[
                    "code"
                ] == "agent_stopped"
            server.kill()
            await server.start()
            for name in ("Ada", "Grace", "Somebody new"):
                async with agent(server, name) as stopped:
                    error = await stopped.refused("get_notebook", path="a.ipynb")
                    assert error["code"] == "agent_stopped"
            await panel.cut()
            await panel.follow()
            ada_id = panel.agent("Ada")["id"]
            assert (await panel.delete(f"agents/{ada_id}", 409))["code"] in (
                "agent_held",
                "agent_connected",
            )
            await panel.patch(f"agents/{ada_id}", state="active")
            async with agent(server, "Ada") as ada:
                assert len(await ada.sources("a.ipynb")) == 1


async def test_an_edit_on_its_way_when_its_agent_is_stopped_is_all_or_nothing(
    server: JupyterProcess, panel: Panel
) -> None:
    path = "large.ipynb"
    notebooks.write(server.root / path, notebooks.numbered(600))
    async with agent(server, "Lara") as lara:
        await lara.ask("get_notebook", path=path, format="outline")
        updates = [{"cell_id": f"cell-{n:05d}", "content": f"agent = {n}"} for n in range(600)]
        editing = asyncio.create_task(lara.call(UPDATE, path=path, updates=updates, exec=False))
        await panel.until(lambda: panel.call_of(UPDATE, path=path))
        await panel.patch(f"agents/{panel.agent('Lara')['id']}", state="stopped")
        await editing
        await panel.patch(f"agents/{panel.agent('Lara')['id']}", state="active")
    async with KernelApi(server) as kernels:

        def consistent(notebook: Any) -> bool:
            changed = [cell["source"].startswith("agent") for cell in notebook["cells"]]
            return all(changed) or not any(changed)

        assert consistent(await kernels.contents(path))


async def test_an_agent_cannot_use_the_panel(
    server: JupyterProcess, panel: Panel, tmp_path: Path
) -> None:
    made = await panel.post("connect", 201, client="codex", agent="Sly", permission="admin")
    async with holder(server, made["token"]) as sly:
        await sly.say("get_online_users")
    sly_id = (await panel.until(lambda: panel.agent("Sly")))["id"]
    for headers, query in (
        ({"Authorization": f"Bearer {made['token']}"}, ""),
        ({"Authorization": f"token {made['token']}"}, ""),
        ({}, f"?token={made['token']}"),
    ):
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            for method, place, body in (
                ("GET", "state", None),
                ("GET", "feed", None),
                ("PATCH", f"agents/{sly_id}", {"state": "active"}),
                ("POST", "connect", {"client": "codex", "agent": "Sly"}),
                ("POST", "review", {"action": "keep"}),
            ):
                answer = await http.request(method, f"{panel.url}{place}{query}", json=body)
                assert answer.status_code == 403, (method, place, answer.status_code)
