"""Ephemeral notebooks: real ones that belong to one agent, until nobody uses them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, KernelApi, eventually
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS, ours, served

pytestmark = pytest.mark.anyio

#: Seconds without use after which they go.
IDLE = "2"

HELD = "--ServerApp.kernel_manager_class=tests.harness.held_kernels.HeldKernels"


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    """One on which they stay for long enough."""
    async with served(make_server, request.param, measured=True) as process:
        notebooks.write(Path(process.root) / "a.ipynb", notebooks.numbered(1))
        yield process


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """At which the kernels of the hasty server wait before they start."""
    return Gate(tmp_path_factory.mktemp("kernels") / "start")


@pytest.fixture(scope="module", params=WAYS)
async def hasty(
    make_server: MakeServer, request: pytest.FixtureRequest, start: Gate, anyio_backend: str
) -> AsyncIterator[JupyterProcess]:
    """One on which they go soon."""
    settings, env = {"ephemeral_timeout": IDLE}, {"HELD_KERNELS": str(start.path)}
    async with served(make_server, request.param, HELD, settings=settings, env=env) as process:
        yield process


async def create(ada: AgentClient, name: str = "scratch", **more: Any) -> str:
    made = await ada.ask("create_document", path=name, ephemeral=True, **more)
    assert made["ephemeral"] is True
    return str(made["path"])


def there(server: JupyterProcess, path: str) -> bool:
    return (Path(server.root) / path).exists()


def metadata(server: JupyterProcess, path: str) -> dict[str, Any] | None:
    """What its file says about it; None while it is being written."""
    try:
        found: dict[str, Any] = json.loads((Path(server.root) / path).read_text())
    except ValueError:
        return None
    return dict(found["metadata"].get("collaboration_mcp") or {})


async def test_an_ephemeral_notebook_is_a_real_one_that_people_can_open(
    server: JupyterProcess,
) -> None:
    async with agent(server) as ada:
        text = await ada.say("create_document", path="idea", ephemeral=True, template="mcts")
        assert "is deleted with its kernel after 30 minutes without use" in text
        (path,) = (
            each["path"] for each in (await ada.ask("list_notebooks"))["notebooks"]
            if each["path"].startswith("ephemeral/idea~")
        )  # fmt: skip
        assert "'pattern': 'mcts'" in str(metadata(server, path))
        runs = await ada.ask("batch_execute_notebook_cells", path=path, timeout=60)
        assert {run["state"] for run in runs["runs"]} == {"completed"}
        async with Collaborator(server.url, server.token, path) as ana, KernelApi(server) as people:
            await ana.synced()
            assert "# Monte Carlo tree search" in ana.source(0)
            assert len(await people.sessions(path)) == 1
        await ada.ask("delete_document", path=path)
        assert not there(server, "ephemeral")
        async with KernelApi(server) as people:
            assert await people.sessions(path) == []


async def test_other_agents_neither_list_nor_read_it_below_admin(server: JupyterProcess) -> None:
    async with (
        agent(server, "Ada") as ada,
        agent(server, "Bob", permission="execute") as bob,
        agent(server, "Root") as root,
    ):
        path = await create(ada, content="secret = 42")
        (run,) = (await ada.ask("batch_execute_notebook_cells", path=path, timeout=60))["runs"]
        current = (await ada.client.read_resource("notebook://current")).contents[0]
        assert "secret = 42" in getattr(current, "text", "")
        listed = (await ada.client.list_resources()).resources
        (uri,) = (
            e.uri for e in listed if (e.meta or {}).get("path") == path and "cells" not in e.uri
        )
        assert path in await root.say("list_notebooks")
        assert "secret" in await root.say("get_notebook", path=path)

        for tool, arguments in {
            "list_notebooks": {},
            "list_documents": {"path": "ephemeral"},
            "get_active_sessions": {},
            "get_user_activity": {},
            "get_online_users": {},
            "list_kernels": {},
        }.items():
            said = await bob.call(tool, **arguments)
            assert "scratch~" not in str(said.structured_content), tool
            assert "scratch~" not in str(said.content), tool
        assert path not in str(await bob.client.list_resources())
        assert (await bob.ask("document_exists", path=path))["exists"] is False
        for tool, arguments in {
            "get_notebook": {"path": path},
            "get_document_info": {"path": path},
            "get_notebook_status": {"path": path},
            "delete_document": {"path": path},
            "rename_document": {"path": path, "newPath": "stolen.ipynb"},
            "copy_document": {"path": path, "copyPath": "stolen.ipynb"},
            "run_code": {"path": path, "code": "secret"},
            "get_document_history": {"path": path},
            "fork_document": {"path": path, "title": "x"},
            "create_document": {"path": "stolen.ipynb", "template": path},
        }.items():
            error = await bob.refused(tool, **arguments)
            assert error["code"] in ("document_not_found", "permission_refused"), (tool, error)
            assert "secret" not in str(error)
        assert (await bob.refused("get_run", run_id=run["run_id"]))["code"] == "run_not_found"
        for each in (uri, f"{uri}/json", f"{uri}/cells"):
            with pytest.raises(MCPError):
                await bob.client.read_resource(each)
        assert not there(server, "stolen.ipynb")
        assert there(server, path)
        await ada.ask("delete_document", path=path)


@pytest.mark.parametrize("tool", ["rename_document", "copy_document"])
async def test_it_is_kept_by_renaming_or_copying_it(server: JupyterProcess, tool: str) -> None:
    to = "newPath" if tool == "rename_document" else "copyPath"
    kept = f"kept/{tool}-{server.standalone is None}.ipynb"
    async with agent(server) as ada, agent(server, "Bob", permission="read") as bob:
        path = await create(ada, content="x = 1")
        await ada.ask(tool, **{"path": path, to: kept})
        assert await bob.sources(kept) == ["x = 1"]
        await until(lambda: metadata(server, kept) == {})
        assert there(server, path) is (tool == "copy_document")
        if tool == "copy_document":
            await until(lambda: "ephemeral" in (metadata(server, path) or {}))
            await ada.ask("delete_document", path=path)
        assert not there(server, "ephemeral")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"path": "folder/x"}, "in a folder of its own"),
        ({"path": ".hidden"}, "in a folder of its own"),
        ({"path": ""}, "in a folder of its own"),
        ({"path": "x", "type": "file", "content": "x"}, "Only a notebook can be ephemeral"),
        ({"path": "x", "template": "edda"}, "There is no template"),
        ({"path": "x", "kernel": "cobol"}, "cobol"),
    ],
)
async def test_what_cannot_be_ephemeral_is_refused(
    server: JupyterProcess, arguments: dict[str, Any], says: str
) -> None:
    async with agent(server) as ada:
        error = await ada.refused("create_document", **{"ephemeral": True, **arguments})
        assert says in error["message"]
        assert not there(server, "ephemeral")


async def test_no_ordinary_notebook_gets_such_a_name(server: JupyterProcess) -> None:
    name = "ephemeral/mine~0123abcd.ipynb"
    async with agent(server) as ada:
        for tool, arguments in {
            "create_document": {"path": name},
            "copy_document": {"path": "a.ipynb", "copyPath": name},
            "rename_document": {"path": "a.ipynb", "newPath": name},
        }.items():
            error = await ada.refused(tool, **arguments)
            assert "would be the name of an ephemeral notebook" in error["message"]
    assert there(server, "a.ipynb")
    assert not there(server, "ephemeral")


async def test_an_agent_has_at_most_twenty_of_them(server: JupyterProcess) -> None:
    async with agent(server) as ada:
        paths = [await create(ada, f"n{number}") for number in range(20)]
        error = await ada.refused("create_document", path="n20", ephemeral=True)
        assert error["code"] == "too_large"
        assert all(there(server, path) for path in paths)
        await ada.ask("delete_document", path="ephemeral", recursive=True)
        await ada.ask("delete_document", path=await create(ada, "n20"))
        assert not there(server, "ephemeral")


async def test_it_goes_with_its_kernel_when_nobody_uses_it(
    hasty: JupyterProcess, start: Gate, tmp_path: Path
) -> None:
    server, gate = hasty, Gate(tmp_path / "gate")
    start.close()
    async with agent(server) as ada, KernelApi(server) as people:
        path = await create(ada, content=gate.code)
        call = partial(ada.ask, "batch_execute_notebook_cells", path=path, timeout=60)
        running = asyncio.create_task(call())
        await start.reached()
        await outlives_another(server, ada, path)  # for what runs soon
        start.open()
        await gate.reached()
        async with Collaborator(server.url, server.token, path) as ana:
            await ana.synced()
            assert len(await people.sessions(path)) == 1
            gate.open()
            assert [run["state"] for run in (await running)["runs"]] == ["completed"]
            await outlives_another(server, ada, path)  # for a person
        # longer than the idle time since the agent's last call
        await eventually(lambda: people.sessions(path), lambda sessions: not sessions)
        await until(lambda: not there(server, "ephemeral"))
        error = await ada.refused("get_notebook", path=path)
        assert error["code"] == "document_not_found"


async def outlives_another(server: JupyterProcess, ada: AgentClient, path: str) -> None:
    """Wait until one that nobody uses has gone; this one is still there."""
    other = await create(ada, "other")
    await ada.sources(other)

    async def listed() -> bool:
        await ada.client.list_resources()  # which is no use of what it lists
        return there(server, other)

    await eventually(listed, lambda found: not found)
    assert there(server, path)


async def test_a_person_who_renames_it_keeps_it(hasty: JupyterProcess) -> None:
    server = hasty
    async with agent(server) as ada, KernelApi(server) as people:
        path = await create(ada, content="x = 1")
        other = await create(ada, "other")
        await people.rename(path, "kept.ipynb")
        await until(lambda: not there(server, other))
        await until(lambda: metadata(server, "kept.ipynb") == {})
        assert await ada.sources("kept.ipynb") == ["x = 1"]


async def test_nothing_is_left_after_a_crash(make_server: MakeServer, way: str) -> None:
    settings = {"ephemeral_timeout": IDLE}
    async with served(make_server, way, settings=settings) as server:
        async with agent(server) as ada:
            path = await create(ada, content="x = 1")
            mine = await create(ada, "mine")
            await ada.ask("run_code", path=path, code="1")
        command = server.standalone
        # Somebody replaces one by a file of their own, which is not ours to delete.
        if command is None:
            server.kill()
        else:
            os.kill(command.pid, signal.SIGKILL)
        notebooks.write(Path(server.root) / mine, notebooks.numbered(1))
        async with AsyncExitStack() as stack:
            if command is None:
                await server.start()
            else:
                await stack.enter_async_context(StandaloneProcess([server], env=ours(settings)))
            await until(lambda: not there(server, path))
            async with KernelApi(server) as people:
                await eventually(lambda: people.sessions(path), lambda sessions: not sessions)
            await until(lambda: not any(each.stat().st_size for each in records(server)))
            assert there(server, mine)


async def test_a_server_that_stops_takes_them_along(make_server: MakeServer) -> None:
    async with make_server() as server:
        async with agent(server) as ada:
            await ada.sources(await create(ada, content="x = 1"))
        await server.terminate()
        assert not there(server, "ephemeral")


async def test_a_server_that_stops_leaves_what_a_person_is_in_to_the_next(
    make_server: MakeServer,
) -> None:
    async with make_server(env=ours({"ephemeral_timeout": IDLE})) as server:
        async with agent(server) as ada:
            path, other = await create(ada, content="x = 1"), await create(ada, "other")
            await ada.sources(other)
            async with Collaborator(server.url, server.token, path) as ana:
                await ana.synced()
                await eventually(
                    lambda: ada.say("get_notebook_status", path=path), lambda said: "Ana" in said
                )
                await server.terminate()
        assert (there(server, path), there(server, other)) == (True, False)
        await server.start()
        await until(lambda: not there(server, "ephemeral"))


def records(server: JupyterProcess) -> list[Path]:
    """What says which of them a process has still to delete."""
    return list(server.home.rglob("ephemeral/*.jsonl"))
