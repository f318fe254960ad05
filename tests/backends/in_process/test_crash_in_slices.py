"""`kill -9` in the middle of a restore, or of its undo: all of it or nothing after the restart."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import pytest

from tests.conftest import MakeServer, Times
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.halted_slices import DELETE, KILL, MANAGER
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

PATH = "slices.ipynb"
CELLS = 2_000


def sources(word: str) -> list[str]:
    return [f"{word} {n}" for n in range(CELLS)]


class Crashes:
    """A server that is killed when a tab has seen some slices of what an agent does."""

    def __init__(self, server: JupyterProcess) -> None:
        self.server = server
        self.file = Path(server.root) / PATH
        self.partial = 0
        """How often the tab had seen some of it and not all."""

    def write(self, word: str) -> None:
        cells = [notebooks.code(f"cell-{n:04d}", each) for n, each in enumerate(sources(word))]
        notebooks.write(self.file, notebooks.notebook(cells))

    async def begin(self, ada: AgentClient) -> int:
        """Bring the notebook to its second content; returns the version of the first."""
        self.write("first")
        await ada.ask("get_notebook", path=PATH, end_index=1)
        facts = await ada.ask("get_document_history", path=PATH, limit=1)
        self.write("second")
        await ada.ask("get_notebook", path=PATH, end_index=1)
        return int(facts["versions"][0]["version"])

    async def make_one(self, ada: AgentClient, ana: Collaborator, undone: bool) -> None:
        version = await self.begin(ada)
        await ana.until(lambda: ana.sources() == sources("second"), timeout=30)
        restore = "restore_document_version"
        if not undone:
            await self.kill_during(ada, ana, restore, "first", version=version)
            return
        await ada.ask(restore, path=PATH, version=version)
        await ana.until(lambda: ana.sources() == sources("first"), timeout=30)
        await self.kill_during(ada, ana, "undo_agent_changes", "second")

    async def kill_during(
        self, ada: AgentClient, ana: Collaborator, tool: str, word: str, **more: object
    ) -> None:
        """Kill the server when the tab sees what a call did to one of the cells."""
        seen = f"cell-{random.randrange(CELLS // 2):04d}"
        call = asyncio.create_task(ada.call(tool, path=PATH, **more))
        await ana.until(lambda: ana.source(seen).startswith(word), timeout=60)
        self.server.kill()
        changed = sum(source.startswith(word) for source in ana.sources())
        self.partial += 0 < changed < CELLS
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    async def look(self, ana: Collaborator, connections: int) -> str:
        """What the restarted server has: one of the two contents, on disk and for everybody."""
        await self.server.start()
        found = await notebooks.whole_sources(self.file)
        word = found[0].split()[0]
        assert found == sources(word)
        await ana.until(lambda: ana.connections >= connections, timeout=40)
        async with agent(self.server) as ada:
            said = await ada.say("get_notebook", path=PATH, end_index=5)
            assert f"\n{word} 3\n" in said
            await ana.until(lambda: ana.sources() == found, timeout=40)
        return word


async def test_a_restore_and_its_undo_are_there_as_a_whole_or_not_at_all(
    make_server: MakeServer, times: Times
) -> None:
    async with make_server(env=NOT_MEASURED) as server:
        crashes = Crashes(server)
        crashes.write("first")
        found = []
        for _ in range(times(1, 12)):
            for undone in (False, True):
                async with Collaborator(server.url, server.token, PATH) as ana:
                    try:
                        async with agent(server) as ada:
                            await crashes.make_one(ada, ana, undone)
                    except* httpx2.TransportError:
                        pass  # the server was killed
                    found.append(await crashes.look(ana, 2))
        assert crashes.partial  # otherwise this has tested nothing
        # What people have seen of it is there: the journal had it before the first slice.
        assert found == ["first", "second"] * (len(found) // 2)


class Halts:
    """A server to which something happens right before the first slice of an edit."""

    def __init__(self, server: JupyterProcess) -> None:
        self.server = server
        self.file = Path(server.root) / PATH
        # The last cell is a slice of its own.
        self.first = [*[f"first {n}" for n in range(200)], "last"]
        self.second = [*[f"second {n}" for n in range(200)], "last, and more"]

    def write(self, sources: list[str]) -> None:
        cells = [notebooks.code(f"cell-{n:04d}", each) for n, each in enumerate(sources)]
        notebooks.write(self.file, notebooks.notebook(cells))

    async def begin(self, ada: AgentClient) -> dict[str, object]:
        """Bring the notebook to its second content; returns how to restore the first."""
        self.write(self.first)
        await ada.ask("get_notebook", path=PATH, end_index=1)
        facts = await ada.ask("get_document_history", path=PATH, limit=1)
        self.write(self.second)
        await ada.ask("get_notebook", path=PATH, end_index=1)
        return {"path": PATH, "version": facts["versions"][0]["version"]}

    def rows(self, table: str) -> int:
        """Rows of a table in the journal."""
        (journal,) = self.server.home.glob("data/collaboration-mcp/*/journal-0.db")
        with TemporaryDirectory() as folder:
            for file in journal.parent.glob(f"{journal.name}*"):
                shutil.copy(file, folder)
            with contextlib.closing(sqlite3.connect(Path(folder) / journal.name)) as database:
                (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)

    async def settled(self) -> None:
        """Wait until file and store have everything."""
        await until(lambda: self.rows("rooms") == 0, timeout=30)

    async def restarted_before(self, tool: str, **arguments: object) -> None:
        """Kill the server when a call is about to change something, and start it again."""
        (self.file.parent / KILL).touch()
        with contextlib.suppress(Exception):  # what the client makes of it, in groups
            async with agent(self.server) as ada:
                await ada.call(tool, **arguments)
        await until(lambda: not self.server.running)
        (self.file.parent / KILL).unlink()
        await self.server.start()
        assert self.rows("pending") == 0


async def test_a_server_that_dies_before_the_first_slice_has_it_all_with_its_step(
    make_server: MakeServer,
) -> None:
    async with make_server(MANAGER, env=NOT_MEASURED) as server:
        halts = Halts(server)
        async with agent(server) as ada:
            version = await halts.begin(ada)
            await halts.settled()
        await halts.restarted_before("restore_document_version", **version)
        assert notebooks.sources(halts.file) == halts.first
        async with agent(server) as ada:
            assert await ada.sources(PATH) == halts.first
            assert (await ada.ask("list_agent_changes", path=PATH))["total"] == 1
            await halts.settled()
        await halts.restarted_before("undo_agent_changes", path=PATH)
        assert notebooks.sources(halts.file) == halts.second
        async with agent(server) as ada:
            assert await ada.sources(PATH) == halts.second
            assert (await ada.ask("list_agent_changes", path=PATH))["total"] == 0


async def test_a_server_that_dies_before_it_commits_slices_in_a_fork_keeps_their_step(
    make_server: MakeServer,
) -> None:
    async with make_server(MANAGER, env=NOT_MEASURED) as server:
        halts = Halts(server)
        halts.write(halts.first)
        async with agent(server) as ada:
            fork = (await ada.ask("fork_document", path=PATH, title="Try"))["fork"]
            updates = [{"index": n, "content": each} for n, each in enumerate(halts.second)]
            await ada.ask("batch_update_notebook_cells", path=fork, updates=updates, exec=False)
        await halts.restarted_before("undo_agent_changes", path=fork)
        async with agent(server) as ada:
            assert await ada.sources(fork) == halts.second
            assert (await ada.ask("list_agent_changes", path=fork))["total"] == 1
            await ada.ask("undo_agent_changes", path=fork)
            assert await ada.sources(fork) == halts.first
            assert (await ada.ask("list_agent_changes", path=fork))["total"] == 0


async def test_a_slice_that_a_person_has_made_already_leaves_nothing_pending(
    make_server: MakeServer,
) -> None:
    async with make_server(MANAGER, env=NOT_MEASURED) as server:
        halts = Halts(server)
        async with agent(server) as ada:
            version = await halts.begin(ada)
            (halts.file.parent / DELETE).write_text(f"{len('last')}")
            await ada.ask("restore_document_version", **version)
            assert await ada.sources(PATH) == halts.first
            await until(lambda: notebooks.sources(halts.file) == halts.first, timeout=30)
            await halts.settled()
            assert halts.rows("pending") == 0
