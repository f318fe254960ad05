"""Rooms of a real server: the traps of its API, each met from outside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import psutil  # type: ignore[import-untyped]
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.harness.yjs import YjsClient

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def write(server: JupyterProcess, path: str, count: int = 3) -> Path:
    file = Path(server.root) / path
    notebooks.write(file, notebooks.numbered(count))
    return file


async def rest(
    server: JupyterProcess, method: str, resource: str, **body: object
) -> dict[str, object]:
    async with httpx2.AsyncClient(headers=server.headers, timeout=60, verify=False) as http:
        answer = await http.request(method, f"{server.url}api/{resource}", json=body or None)
        answer.raise_for_status()
        return dict(answer.json())


async def test_a_room_that_never_loaded_is_not_mistaken_for_an_empty_notebook(
    server: JupyterProcess,
) -> None:
    """B4: a tab with an expired token leaves such a room behind."""
    file = write(server, "unloaded.ipynb")
    session = await rest(
        server, "PUT", f"collaboration/session/{file.name}", format="json", type="notebook"
    )
    room = f"json:notebook:{session['fileId']}"
    url = f"{server.url.replace('http', 'ws', 1)}api/collaboration/room/{room}"
    with pytest.raises(InvalidStatus):
        async with connect(f"{url}?sessionId={session['sessionId']}"):
            pass
    async with agent(server) as ada:
        assert len(await ada.sources(file.name)) == 3
        await ada.write(file.name, "cell-00000", "edited")
        await until(lambda: notebooks.sources(file)[:1] == ["edited"])


@pytest.mark.node
async def test_an_edit_made_as_soon_as_a_room_opens_is_shared_stored_and_saved(
    server: JupyterProcess,
) -> None:
    """B2: before the room observes its document, edits are neither sent nor stored."""
    file = write(server, "at-once.ipynb")
    async with agent(server) as ada:
        await ada.write(file.name, "cell-00001", "at once")
        view = await YjsClient.read(server, file.name)
        assert dict(view.cells)["cell-00001"] == "at once"
        await until(lambda: notebooks.sources(file)[1:2] == ["at once"])


async def test_progressive_loading_works(make_server: MakeServer) -> None:
    """B12: there, jupyter-server-ydoc's own way of copying a document hangs for ever."""
    server = make_server(config={"YDocExtension": {"document_load_progressively": True}})
    file = write(server, "progressive.ipynb", 200)
    async with server, agent(server) as ada:
        for text in ("first", "second"):
            assert len(await ada.sources(file.name)) == 200
            await ada.write(file.name, "cell-00150", text)
            await until(lambda text=text: notebooks.sources(file)[150:151] == [text])  # type: ignore[misc]
            await server.terminate()
            await server.start()


async def test_an_agent_stays_in_a_room_that_people_left(make_server: MakeServer) -> None:
    """B3: a room is cleaned up when the last person leaves; edits after it would vanish."""
    server = make_server(config={"YDocExtension": {"document_cleanup_delay": 0.1}})
    file = write(server, "left.ipynb")
    async with server, agent(server) as ada:
        async with Collaborator(server.url, server.token, file.name) as ana:
            await ada.write(file.name, "cell-00000", "with Ana")
            await ana.until(lambda: ana.source(0) == "with Ana")
        await ada.write(file.name, "cell-00001", "without Ana")
        async with Collaborator(server.url, server.token, file.name) as ana:
            assert ana.sources()[:2] == ["with Ana", "without Ana"]
        await until(lambda: notebooks.sources(file)[:2] == ["with Ana", "without Ana"])


async def test_an_agent_that_joins_as_the_last_person_leaves_keeps_the_room_open(
    make_server: MakeServer,
) -> None:
    """B3: upstream cleans up without a look at who is there by then."""
    server = make_server(config={"YDocExtension": {"document_cleanup_delay": 0.01}})
    files = [write(server, f"passing-{number}.ipynb") for number in range(10)]
    async with server, agent(server) as ada:
        for file in files:
            ana = Collaborator(server.url, server.token, file.name)
            await ana.__aenter__()
            async with asyncio.TaskGroup() as group:
                group.create_task(ana.__aexit__(None, None, None))
                group.create_task(ada.write(file.name, "cell-00000", "with Ana or without"))
            async with Collaborator(server.url, server.token, file.name) as ben:
                await ada.write(file.name, "cell-00001", "with Ben")
                await ben.flush()
                assert ben.sources()[:2] == ["with Ana or without", "with Ben"]


async def test_a_renamed_notebook_keeps_its_room(server: JupyterProcess) -> None:
    file = write(server, "before.ipynb")
    async with agent(server) as ada, Collaborator(server.url, server.token, file.name) as ana:
        await ada.write(file.name, "cell-00000", "before the rename")
        await rest(server, "PATCH", "contents/before.ipynb", path="after.ipynb")
        facts = await ada.write("after.ipynb", "cell-00001", "after the rename")
        assert facts["path"] == "after.ipynb"
        await ana.until(lambda: ana.source(1) == "after the rename")
        renamed = file.with_name("after.ipynb")
        await until(lambda: notebooks.sources(renamed)[1:2] == ["after the rename"])
        assert (await ada.refused("get_notebook", path="before.ipynb"))["code"] == (
            "document_not_found"
        )


async def test_renaming_a_file_during_a_save_leaves_no_old_copy(
    server: JupyterProcess,
) -> None:
    """A large file takes a while to be saved; who renames it meanwhile waits for that."""
    large = "a line of a large file\n" * 170_000
    (Path(server.root) / "hops-0.md").write_text(large)
    async with Collaborator(server.url, server.token, "hops-0.md", kind="file") as ana:
        for number in range(4):
            old, new = f"hops-{number}.md", f"hops-{number + 1}.md"
            ana.insert(None, 0, "A")
            saving = asyncio.create_task(ana.save(timeout=30))
            await until(lambda name=old: f"Saving file: {name}" in server.log)  # type: ignore[misc]
            await rest(server, "PATCH", f"contents/{old}", path=new)
            await saving
            names = {path.name for path in Path(server.root).glob("hops-*")}
            assert names == {new}
        file, whole = Path(server.root) / "hops-4.md", "A" * 4 + large
        await ana.save()
        await until(lambda: file.read_text() == whole)
        assert ana.source() == whole


async def test_the_next_read_shows_an_external_change_of_the_file(server: JupyterProcess) -> None:
    file = write(server, "outside.ipynb")
    async with agent(server) as ada:
        await ada.ask("create_notebook_session", path=file.name)
        content = json.loads(file.read_text())
        content["cells"][2]["source"] = "written by an editor"
        notebooks.write(file, content)
        while (await ada.sources(file.name))[2] != "written by an editor":
            pass
        await ada.write(file.name, "cell-00000", "and then by an agent")
        await until(
            lambda: (
                notebooks.sources(file)
                == ["and then by an agent", "x = 1\n", "written by an editor"]
            )
        )


async def test_a_server_that_is_stopped_while_a_room_opens_exits(make_server: MakeServer) -> None:
    """A thread of the store that nobody ends would keep the process for ever."""
    server = make_server()
    file = write(server, "opening.ipynb")
    async with server:
        for _ in range(3):
            async with agent(server) as ada:
                assert len(await ada.sources(file.name)) == 3
                await server.terminate(limit=15)
            await server.start()


async def test_rooms_that_agents_have_left_are_freed_with_their_resources(
    make_server: MakeServer,
) -> None:
    """Each has an open database of its own, which can be seen from outside."""
    config = {
        "YDocExtension": {"document_cleanup_delay": 0.1, "document_save_delay": 0.1},
        "JupyterCollaborationMCP": {"idle_timeout": 0.5},
    }
    count = 12

    async with make_server(config=config) as server:
        process = psutil.Process(server.pid)

        def stores() -> int:
            return sum(".jupyter_ystore.db" in file.path for file in process.open_files())

        async with agent(server) as ada:
            for number in range(count):
                path = write(server, f"{number}.ipynb").name
                await ada.write(path, "cell-00000", "edited")
        await until(lambda: server.log.count("deleted") >= count)
        # Garbage is collected now and then: work makes some.
        async with agent(server) as ada:
            async with asyncio.timeout(60):
                while stores() > 3:
                    await ada.ask("list_notebooks")
