"""Agents that are too fast, or have too much open: refused before anything is done, and told when
to go on; nobody else notices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from jupyter_collaboration_mcp.server.gate import RATE_LIMITED
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent, mcp_address
from tests.harness.jupyter import JupyterProcess
from tests.harness.ways import WAYS, served
from tests.transport.conftest import HEADERS

pytestmark = pytest.mark.anyio

CALLS, RUNS, BYTES, DOCUMENTS, CELLS = 12, 4, 2_000, 3, 8

SETTINGS = {
    "rate_limit": str(CALLS),
    "execution_rate_limit": str(RUNS),
    "write_rate_limit": str(BYTES),
    "max_open_documents": str(DOCUMENTS),
    "max_notebook_cells": str(CELLS),
}


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param, settings=SETTINGS, measured=True) as process:
        yield process


async def test_an_agent_that_calls_too_often_is_refused_before_any_effect(
    server: JupyterProcess,
) -> None:
    async with agent(server, "Hasty") as hasty, agent(server, "Calm") as calm:
        for _ in range(CALLS):
            await hasty.ask("document_exists", path="new.md")
        error = await hasty.refused("create_document", path="new.md", type="file", content="x")
        assert error["code"] == "rate_limited"
        assert error["limit"] == "rate_limit"
        assert 1 <= error["retry_after"] <= 60 / CALLS
        assert f"Go on in {error['retry_after']} s" in error["next_step"]
        assert not (Path(server.root) / "new.md").exists()
        await calm.ask("create_document", path="new.md", type="file", content="x")
        assert (Path(server.root) / "new.md").exists()
    async with agent(server, "Hasty") as again:  # another connection is the same agent
        assert (await again.refused("document_exists", path="a"))["code"] == "rate_limited"


async def test_resources_and_prompts_count_as_calls_and_are_refused_as_errors_of_the_protocol(
    server: JupyterProcess,
) -> None:
    async with agent(server, "Reader") as reader:
        for _ in range(CALLS - 1):
            await reader.client.read_resource("notebook://list")
        await reader.client.list_resources()
        for request in (
            reader.client.read_resource("notebook://list"),
            reader.client.list_resources(),
            reader.client.get_prompt("start_analysis", {}),
        ):
            with pytest.raises(MCPError, match=f"rate_limited: .* {CALLS} calls a min") as refused:
                await request
            assert refused.value.error.code == RATE_LIMITED
            assert refused.value.error.data["limit"] == "rate_limit"
        assert (await reader.refused("list_notebooks"))["code"] == "rate_limited"
        assert (await reader.client.list_tools()).tools  # which costs next to nothing


async def test_runs_are_counted_one_by_one_and_what_runs_nothing_goes_on(
    server: JupyterProcess,
) -> None:
    cells = [notebooks.code(f"cell-{number}", f"{number}") for number in range(RUNS + 2)]
    notebooks.write(Path(server.root) / "runs.ipynb", notebooks.notebook(cells))
    async with agent(server, "Runner") as runner:
        ran = await runner.ask("batch_execute_notebook_cells", path="runs.ipynb")
        assert [run["state"] for run in ran["runs"]] == ["completed"] * (RUNS + 2)
        update = {"cell_id": "cell-0", "content": "too_soon = 1"}
        too_soon: dict[str, dict[str, Any]] = {
            "run_code": {"code": "1"},
            "execute_notebook_cell": {"cell_id": "cell-0"},
            "batch_update_notebook_cells": {"updates": [update]},
            "restart_notebook_kernel": {"exec": True},
        }
        for tool, arguments in too_soon.items():
            error = await runner.refused(tool, path="runs.ipynb", **arguments)
            assert (error["code"], error["limit"]) == ("rate_limited", "execution_rate_limit")
            assert error["retry_after"] > 30  # all that ran is paid off first
        assert (await runner.sources("runs.ipynb"))[0] == "0"
        await runner.ask("interrupt_notebook_kernel", path="runs.ipynb")
        await runner.ask("inspect_variables", path="runs.ipynb")
        await runner.write("runs.ipynb", "cell-0", "later = 1")
        await runner.ask("restart_notebook_kernel", path="runs.ipynb")


async def test_an_agent_that_writes_too_much_is_refused_and_can_still_read(
    server: JupyterProcess,
) -> None:
    async with agent(server, "Writer") as writer:
        await writer.ask(
            "create_document", path="first.md", type="file", content="ä" * (BYTES // 2 - 100)
        )
        error = await writer.refused(
            "create_document", path="second.md", type="file", content="x" * 1_000
        )
        assert (error["code"], error["limit"]) == ("rate_limited", "write_rate_limit")
        assert 20 <= error["retry_after"] <= 30
        assert not (Path(server.root) / "second.md").exists()
        await writer.ask("get_document", path="first.md")
        await writer.ask("create_document", path="short.md", type="file", content="x")


async def test_a_tool_that_writes_what_it_runs_is_limited_by_what_it_writes(
    server: JupyterProcess,
) -> None:
    async with agent(server, "Appender", toolsets="connect") as appender:
        name = {"notebook_name": "nb"}
        await appender.ask("connect_notebook", notebook_path="written.ipynb", mode="create", **name)
        new = {**name, "cell_type": "markdown"}
        await appender.ask("append_execute_cell", cell_content="x" * (BYTES - 100), **new)
        error = await appender.refused("append_execute_cell", cell_content="x" * 1_000, **new)
        assert (error["code"], error["limit"]) == ("rate_limited", "write_rate_limit")


async def test_an_agent_has_so_many_documents_open_and_may_leave_one_for_another(
    server: JupyterProcess,
) -> None:
    paths = [f"open-{number}.md" for number in range(DOCUMENTS + 1)]
    for path in paths:
        (Path(server.root) / path).write_text("text")
    async with agent(server, "Collector") as collector, agent(server, "Other") as other:
        for path in paths[:-1]:
            last = await collector.ask("create_document_session", path=path)
        error = await collector.refused("get_document", path=paths[-1])
        assert (error["code"], error["limit"]) == ("too_many_documents", DOCUMENTS)
        assert "leave_session" in error["next_step"]
        await collector.ask("get_document", path=paths[0])
        await other.ask("get_document", path=paths[-1])
        await collector.ask("leave_session", session_id=last["session_id"])
        await collector.ask("get_document", path=paths[-1])


async def test_nobody_inserts_cells_into_a_notebook_without_end(server: JupyterProcess) -> None:
    path = "growing.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(CELLS - 2))
    new: dict[str, Any] = {"path": path, "exec": False}
    async with agent(server, "Gardener", toolsets="default,rtc") as gardener:
        three = [{"content": "x"}] * 3
        for tool, more in (
            ("batch_insert_notebook_cells", {}),
            ("insert_nb_cells", {"position": 0}),
        ):
            error = await gardener.refused(tool, cells=three, **new, **more)
            assert error["code"] == "too_large"
            assert "max_notebook_cells" in error["message"]
        assert len(await gardener.sources(path)) == CELLS - 2
        await gardener.ask("batch_insert_notebook_cells", cells=three[:2], **new)
        assert len(await gardener.sources(path)) == CELLS


async def test_a_call_that_runs_code_counts_what_it_writes(server: JupyterProcess) -> None:
    path = "written.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(1))
    async with agent(server, "Scribe", toolsets="connect") as scribe:
        await scribe.ask("connect_notebook", notebook_name="n", notebook_path=path)
        arguments = {"notebook_name": "n", "cell_content": f"x = {'1' * (BYTES - 200)}"}
        await scribe.ask("append_execute_code_cell", **arguments)
        error = await scribe.refused("append_execute_code_cell", **arguments)
        assert (error["code"], error["limit"]) == ("rate_limited", "write_rate_limit")


async def test_a_flood_of_requests_is_answered_with_429_and_says_when_to_come_back(
    server: JupyterProcess,
) -> None:
    url, headers = mcp_address(server)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with httpx2.AsyncClient(headers={**HEADERS, **headers}, timeout=30, verify=False) as http:
        for _ in range(10 * CALLS + 60):  # more than a minute's worth, as some come back meanwhile
            answer = await http.post(f"{url}?agent=Flood", json=ping)
            if answer.status_code == 429:
                break
        assert answer.status_code == 429
        assert answer.headers["Retry-After"] == "1"
        assert "rate_limit" in answer.text.replace("-", "_")
        # Another name is no way around it.
        assert (await http.post(f"{url}?agent=Another", json=ping)).status_code == 429
    async with httpx2.AsyncClient(headers=HEADERS, timeout=30, verify=False) as stranger:
        assert (await stranger.post(url, json=ping)).status_code == 401  # as ever
        if server.standalone is None:
            counted = (await stranger.get(f"{server.url}metrics", headers=server.headers)).text
            assert "jupyter_collaboration_mcp_floods_total 2.0" in counted
