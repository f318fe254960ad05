"""What people and agents do is recorded, and agents that come back are told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from jupyter_collaboration_mcp.backends.in_process.activity_events import SCHEMA_ID
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.activity import activities, recorded
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS

from .conftest import SAVE_SOON, New, Warm

pytestmark = pytest.mark.anyio

#: Rooms end soon after the last one has left.
CLEAN_SOON = "--YDocExtension.document_cleanup_delay=0.1"

#: Seconds after which an agent that does nothing leaves.
IDLE = 0.5


@asynccontextmanager
async def impatient(
    make_server: MakeServer, way: str, *arguments: str
) -> AsyncIterator[JupyterProcess]:
    """A server from which idle agents leave at once, and a way to it."""
    if way == "extension":
        config = {"JupyterCollaborationMCP": {"idle_timeout": IDLE}}
        async with make_server(SAVE_SOON, *arguments, config=config, env=NOT_MEASURED) as process:
            yield process
        return
    stock = {"jupyter_collaboration_mcp": False}
    async with (
        make_server(SAVE_SOON, *arguments, extensions=stock) as process,
        StandaloneProcess([process], f"--idle-timeout={IDLE}") as command,
    ):
        process.standalone = command
        yield process


@pytest.fixture(scope="module", params=WAYS)
async def brief(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with impatient(make_server, request.param, CLEAN_SOON) as process:
        yield process


def write(server: JupyterProcess, request: pytest.FixtureRequest) -> str:
    path = f"{notebooks.name_for(request.node.name)}.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(4))
    return path


def person(server: JupyterProcess, path: str, name: str = "Ana 😀") -> Collaborator:
    return Collaborator(server.url, server.token, path, name)


async def known(ana: Collaborator) -> None:
    """From outside, a person's name is known only after their next heartbeat."""
    ana.awareness.set_local_state(ana.awareness.get_local_state())
    await ana.flush()


# -- what is recorded ------------------------------------------------------------------------


async def test_calls_and_runs_of_agents_are_recorded(
    server: JupyterProcess, ada: AgentClient, warm: Warm
) -> None:
    path = await warm("x = 1", "1 / 0")
    for _ in range(5):
        await ada.ask("get_notebook", path=path)
    await ada.write(path, "cell-0", "x = 2")
    await ada.refused("batch_update_notebook_cells", path=path, updates=[{"cell_id": "nobody"}])
    await ada.call("execute_notebook_cell", path=path, cell_id="cell-1")
    run = await recorded(server, path, "run")
    assert (run["actor"], run["agent"], run["cells"]) == ("Ada", 1, ["cell-1"])
    assert run["metadata"]["outcome"] == "failed"
    assert run["metadata"]["seconds"] > 0
    read = await recorded(server, path, "read", lambda entry: entry["metadata"]["calls"] == 5)
    assert activities(server, path, "read") == [read]
    edit = await recorded(server, path, "edit")
    assert (edit["cells"], edit["cell_count"]) == (["cell-0"], 1)
    assert edit["description"] == "Ada edited 1 cell"
    calls = [each["metadata"] for each in activities(server, path, "call")]
    assert [call["tool"] for call in calls] == [
        "batch_update_notebook_cells",
        "execute_notebook_cell",
    ]
    assert calls[0]["outcome"] not in ("ok", "")
    join = await recorded(server, path, "join")
    assert join["actor_id"] == edit["actor_id"]
    assert str(edit["actor_id"]).startswith("agent-")


async def test_a_file_that_is_renamed_is_recorded_as_a_call(
    server: JupyterProcess, ada: AgentClient, new: New
) -> None:
    path = new("x = 1")
    await ada.ask("rename_document", path=path, new_path=f"renamed-{path}")
    call = await recorded(server, path, "call")
    assert call["description"] == "Ada called rename_document"
    assert call["metadata"]["paths"] == [f"renamed-{path}"]


async def test_a_persons_edits_are_one_entry_with_cells_and_size(
    server: JupyterProcess, ada: AgentClient, new: New
) -> None:
    path = new("one", "two", "three")
    await ada.ask("get_notebook", path=path)
    async with person(server, path) as ana:
        await known(ana)
        await recorded(server, path, "join", lambda entry: not entry["agent"])
        await ana.type("cell-0", None, "# é😀!")
        await ana.type("cell-2", 0, "ab")
        ana.delete("cell-2", 0, 1)
        ana.delete_cell("cell-1")
        await ana.flush()
        edit = await recorded(server, path, "edit", lambda entry: entry["cell_count"] == 3)
        assert (edit["actor"], edit["actor_id"], edit["agent"]) == ("Ana 😀", "ana 😀", 0)
        assert edit["metadata"]["changes"] == {
            "edited": ["cell-0", "cell-2"],
            "deleted": ["cell-1"],
        }
        assert (edit["metadata"]["added"], edit["metadata"]["removed"]) == (7, 1)
        assert edit["description"] == "Ana 😀 changed 3 cells (+7 -1 characters)"
        await ada.write(path, "cell-0", "by an agent")
        await recorded(server, path, "save")
    leave = await recorded(server, path, "leave", lambda entry: not entry["agent"])
    assert leave["actor"] == "Ana 😀"
    people = [each for each in activities(server, path, "edit") if not each["agent"]]
    assert people == [edit]  # what the agent wrote is its own


# -- what agents are told --------------------------------------------------------------------


async def test_an_agent_that_left_is_told_who_changed_which_cells(
    brief: JupyterProcess, request: pytest.FixtureRequest
) -> None:
    path = write(brief, request)
    async with agent(brief, "Ada") as ada, agent(brief, "Bob") as bob:
        room = await ada.ask("create_notebook_session", path=path)
        async with person(brief, path) as ana:
            await known(ana)
            await recorded(brief, path, "leave", lambda entry: entry["actor"] == "Ada")
            ana.insert("cell-00001", 0, "# mine\n")
            ana.delete_cell("cell-00003")
            await ana.flush()
            # We are still there, as an observer whom nobody sees.
            await recorded(brief, path, "edit", lambda entry: entry["cell_count"] == 2)
            await ana.until(lambda: not ana.awareness_users())
            told = await ada.ask("get_notebook", path=path)
            assert told["others"] == (
                "Since you last looked, others changed by Ana 😀: [1] cell-00001 edited; "
                "cell-00003 deleted."
            )
            assert "others" not in await ada.ask("get_notebook", path=path)
            ana.insert("cell-00001", 0, "# é\n")
            ana.insert_cell(3, "new", cell_id="inserted-by-ana")
            await ana.flush()
            await recorded(brief, path, "edit", lambda entry: "inserted-by-ana" in entry["cells"])
            await bob.write(path, "cell-00000", "by an agent")
        # When the people have gone, so have we: now the log is all that remembers.
        await until(lambda: f"Room {room['room_id']} deleted" in brief.log)
        others = (await ada.ask("get_notebook", path=path))["others"]
        assert re.sub(r"\d\d:\d\d", "NN:NN", others) == (
            "While you were away since NN:NN UTC: Ana 😀 edited [1] cell-00001, inserted "
            "[3] inserted (4 characters added); Bob (agent) edited [0] cell-00000."
        )
        assert "others" not in await ada.ask("get_notebook", path=path)


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_is_told_after_a_restart_of_the_process_that_serves_it(
    make_server: MakeServer, request: pytest.FixtureRequest, way: str
) -> None:
    async with impatient(make_server, way) as server:
        path = write(server, request)
        async with person(server, path) as ana:
            async with agent(server, "Ada") as ada:
                await ada.ask("get_notebook", path=path)
            if way == "extension":  # the log says that an agent was here, so we join again
                await recorded(server, path, "read")
                await restarted(server, ana)
                await until(lambda: server.log.count("Observing") == 1)
            await known(ana)
            ana.insert("cell-00001", 0, "# mine\n")
            ana.insert("cell-00002", 0, "#")
            await ana.flush()
            await recorded(server, path, "edit", lambda entry: entry["cell_count"] == 2)
            if way == "extension":
                await restarted(server, ana)
                async with agent(server, "Ada") as ada:
                    told = (await ada.ask("get_notebook", path=path))["others"]
            else:
                async with StandaloneProcess([server]) as command, agent(command, "Ada") as ada:
                    told = (await ada.ask("get_notebook", path=path))["others"]
        assert re.sub(r"\d\d:\d\d", "NN:NN", told) == (
            "While you were away since NN:NN UTC: Ana 😀 edited [1] cell-00001, [2] cell-00002 "
            "(8 characters added)."
        )


async def restarted(server: JupyterProcess, ana: Collaborator) -> None:
    """Kill a server, and start it again under a person's open tab."""
    before = ana.connections
    server.kill()
    await server.start()
    await ana.until(lambda: ana.connections > before, timeout=30)


# -- who follows it live ---------------------------------------------------------------------


@pytest.mark.parametrize("server", ["extension"], indirect=True)
async def test_front_ends_follow_activity_over_jupyters_events(
    server: JupyterProcess, ada: AgentClient, new: New
) -> None:
    path = new("x = 1")
    url = f"{server.url.replace('http', 'ws', 1)}api/events/subscribe"
    async with connect(url, additional_headers=server.headers, proxy=None) as events:
        await ada.write(path, "cell-0", "secret text")
        event: dict[str, object] = {}
        async with asyncio.timeout(20):
            while event.get("kind") != "edit":
                event = json.loads(await events.recv())
    assert event.pop("schema_id") == SCHEMA_ID
    assert str(event["actor_id"]).startswith("agent-")
    for name in ("id", "time", "actor_id", "file_id"):
        assert event.pop(name)
    assert 0 < float(str(event.pop("seconds"))) < 20
    assert int(str(event.pop("version_before"))) < int(str(event.pop("version_after")))
    assert event == {
        "kind": "edit",
        "actor": "Ada",
        "agent": True,
        "path": path,
        "cells": ["cell-0"],
        "cell_count": 1,
        "description": "Ada edited 1 cell",
        "tool": "batch_update_notebook_cells",
        "outcome": "ok",
    }


async def test_recording_can_be_switched_off(make_server: MakeServer) -> None:
    async with make_server("--JupyterCollaborationMCP.activity_limit=0") as server:
        notebooks.write(Path(server.root) / "a.ipynb", notebooks.numbered(2))
        async with agent(server, "Ada") as ada:
            await ada.write("a.ipynb", "cell-00001", "x")
            assert (await ada.sources("a.ipynb"))[1] == "x"
        assert not list(server.home.glob("**/activity.db"))
