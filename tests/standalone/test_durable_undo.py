"""What an agent can undo outlives its connection, the command, the server, and `kill -9`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MakeServer, Times
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.standalone import StandaloneProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PATH = "kept.ipynb"
UNDO, LIST = "undo_agent_changes", "list_agent_changes"


class Place:
    """A server that restarts, and the way on which agents come to it."""

    def __init__(self, server: JupyterProcess, way: str) -> None:
        self.server = server
        self.way = way
        self.file = Path(server.root) / PATH

    def write(self, *sources: str, **more: str) -> None:
        """Write the notebook: cells with ids `cell-0`, `cell-1`, ..., and others by their ids."""
        named = {f"cell-{n}": source for n, source in enumerate(sources)} | more
        cells = [notebooks.code(cell_id, source) for cell_id, source in named.items()]
        notebooks.write(self.file, notebooks.notebook(cells))

    @asynccontextmanager
    async def agent(self, name: str = "Ada", **query: Any) -> AsyncIterator[AgentClient]:
        """An agent with a connection of its own, and with a command of its own if it needs one."""
        if self.way == "extension":
            async with agent(self.server, name, **query) as client:
                yield client
        else:
            async with (
                StandaloneProcess([self.server]) as command,
                agent(command, name, **query) as client,
            ):
                yield client

    async def restart(self) -> None:
        if self.way == "extension":
            await self.server.terminate()
        else:
            self.server.kill()  # stopped while it saves, a stock server may not end
        await self.server.start()

    async def saved(self, *sources: str) -> None:
        await until(lambda: notebooks.sources(self.file) == list(sources))


@pytest.fixture(params=WAYS)
async def place(make_server: MakeServer, request: pytest.FixtureRequest) -> AsyncIterator[Place]:
    enabled = {"jupyter_collaboration_mcp": request.param == "extension"}
    async with make_server(extensions=enabled, env=NOT_MEASURED) as server:
        yield Place(server, request.param)


async def calls(client: AgentClient, **arguments: object) -> list[str]:
    facts = await client.ask(LIST, path=PATH, **arguments)
    return [change["call_id"] for change in facts["changes"]]


async def test_steps_outlive_the_agent_the_command_and_the_server(place: Place) -> None:
    place.write("one", "two", "three")
    async with (
        place.agent() as ada,
        Collaborator(place.server.url, place.server.token, PATH) as person,
    ):
        await ada.write(PATH, "cell-0", "one by Ada")
        await ada.write(PATH, "cell-1", "two by Ada")
        await ada.ask("batch_delete_notebook_cells", path=PATH, cell_ids=["cell-2"], exec=False)
        before = await calls(ada)
        assert len(before) == 3
        person.insert("cell-0", 0, "typed; ")
        person.insert("cell-1", len("two by"), " Ana and")
        await person.flush()
    await place.saved("typed; one by Ada", "two by Ana and Ada")

    await place.restart()
    # Another person has edited the file meanwhile: the room is loaded anew, with new items.
    place.write("typed; one by Ada", "two by Ana and Ada", elsewhere="new")
    async with place.agent("Bob") as bob:
        assert await calls(bob) == []
    async with place.agent() as ada:
        assert await calls(ada) == before
        await ada.ask(UNDO, path=PATH, call_id=before[2])
        refused = await ada.refused(UNDO, path=PATH, call_id=before[1])
        assert refused["code"] == "undo_refused"
        assert "where others changed what you wrote" in refused["message"]
        done = await ada.ask(UNDO, path=PATH, steps=2, force=True)
        assert (done["steps"], done["left"]) == (2, 0)
        sources = await ada.sources(PATH)
        assert sources[0] == "typed; one"
        assert "Ana and" in sources[1]
        assert "by Ada" not in sources[1]
        assert sources[2:] == ["three", "new"]
    await place.saved(*sources)

    await place.restart()
    async with place.agent() as ada:
        assert await calls(ada) == []
        assert (await ada.refused(UNDO, path=PATH))["code"] == "nothing_to_undo"
        assert await ada.sources(PATH) == sources


async def test_an_agent_is_the_same_after_a_start_with_another_token(
    make_server: MakeServer,
) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        place = Place(server, "extension")
        place.write("one")
        async with place.agent() as ada:
            await ada.write(PATH, "cell-0", "one by Ada")
            before = await calls(ada)
        await place.saved("one by Ada")
        await server.terminate()
        server.change_token(secrets.token_hex(24))  # as Jupyter does it, if it is given none
        await server.start()
        async with place.agent("Bob") as bob:
            assert await calls(bob) == []
        async with place.agent() as ada:
            assert await calls(ada) == before
            await ada.ask(UNDO, path=PATH)
            assert await ada.sources(PATH) == ["one"]


async def test_steps_of_an_acknowledged_edit_survive_a_kill(place: Place) -> None:
    place.write("one")
    for number in range(3):
        async with place.agent() as ada:
            await ada.write(PATH, "cell-0", f"number {number}")
            kept = await calls(ada)
            place.server.kill()
        await place.server.start()
        async with place.agent() as ada:
            assert await calls(ada) == kept
    async with place.agent() as ada:
        # From outside, an edit may be lost with a server that has not saved it, but not its step.
        for left in (2, 1, 0):
            assert (await ada.ask(UNDO, path=PATH, force=True))["left"] == left
        if place.way == "extension":
            assert await ada.sources(PATH) == ["one"]
        place.server.kill()
    await place.server.start()
    async with place.agent() as ada:
        assert await calls(ada) == []


async def test_an_undo_that_is_killed_is_done_with_its_steps_or_not_at_all(
    make_server: MakeServer, times: Times
) -> None:
    # Large enough to be prepared on a copy and committed in the thread: there is time to be killed.
    count, text = 120, "some words to make it heavy\n" * 60
    async with make_server(env=NOT_MEASURED) as server:
        place = Place(server, "extension")
        place.write(*[f"{n}" for n in range(count)])
        for moment in range(times(3, 30)):
            async with agent(server) as ada:
                updates = [{"index": n, "content": f"{text}{n}"} for n in range(count)]
                await ada.ask("batch_update_notebook_cells", path=PATH, updates=updates, exec=False)
            answered = await _undo_and_kill(server, 0.04 * moment)
            await server.start()
            sources = notebooks.sources(place.file)
            assert len({source.startswith(text) for source in sources}) == 1, "half of it"
            is_undone = not sources[0].startswith(text)
            assert is_undone or not answered
            async with agent(server) as ada:
                assert len(await calls(ada)) == int(not is_undone), f"killed at {moment}"
                if not is_undone:
                    await ada.ask(UNDO, path=PATH)
                assert await ada.sources(PATH) == [f"{n}" for n in range(count)]


async def _undo_and_kill(server: JupyterProcess, seconds: float) -> bool:
    """Kill a server while it undoes something; returns whether that had been answered."""
    answered = False
    with contextlib.suppress(Exception):  # what the client makes of it, in groups
        async with agent(server) as ada:
            await ada.ask("create_notebook_session", path=PATH)
            undoing = asyncio.ensure_future(ada.call(UNDO, path=PATH))
            await asyncio.wait([undoing], timeout=seconds)
            answered = undoing.done()
            server.kill()
            await asyncio.gather(undoing, return_exceptions=True)
    return answered


async def test_a_deleted_document_is_forgotten_for_good(place: Place) -> None:
    place.write("one")
    async with place.agent() as ada:
        await ada.write(PATH, "cell-0", "one by Ada")
        await ada.ask("delete_document", path=PATH)
    await place.restart()
    place.write("one by Ada")
    async with place.agent() as ada:
        assert await calls(ada) == []


async def test_a_server_takes_over_the_steps_of_one_beside_it_once_that_is_gone(
    make_server: MakeServer, tmp_path: Path
) -> None:
    journals = f"--JupyterCollaborationMCP.journal_dir={tmp_path}"
    async with make_server(journals, env=NOT_MEASURED) as first:
        place = Place(first, "extension")
        place.write("one")
        # The same agent at both: the same credential and name; and the same ids of files.
        data = {**NOT_MEASURED, "JUPYTER_DATA_DIR": str(first.home / "data")}
        second = make_server(journals, root=Path(first.root), env=data, token=first.token)
        async with second:
            async with agent(second) as ada:
                await ada.write(PATH, "cell-0", "one by Ada")
                kept = await calls(ada)
            async with agent(first) as ada:
                assert await calls(ada) == []  # those of a server that runs are left alone
            second.kill()
        await place.restart()
        async with agent(first) as ada:
            assert await calls(ada) == kept
            await ada.ask(UNDO, path=PATH)
            assert await ada.sources(PATH) == ["one"]
