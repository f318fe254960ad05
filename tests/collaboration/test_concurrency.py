"""Many at once: agents and people in one notebook, and nothing lost, doubled or misplaced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.harness.yjs import YjsClient

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]


@pytest.mark.node
@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_eight_agents_and_a_person_share_one_cell(server: JupyterProcess, mode: str) -> None:
    path = f"shared-{mode}.ipynb"
    file = Path(server.root) / path
    lines = [f"line{n}:é😀|" for n in range(8)]
    source = "\n".join([*lines, "person:"])
    notebooks.write(file, notebooks.notebook([notebooks.code("shared", source)]))
    typed = "".join(chr(ord("a") + n % 26) for n in range(200))

    async def work(client: AgentClient, number: int) -> None:
        for step in range(50):
            await client.replace(
                path, "shared", f"line{number}:", f"line{number}:{number}.{step:02d};"
            )

    async with AsyncExitStack() as stack:
        ana = await stack.enter_async_context(Collaborator(server.url, server.token, path))
        agents = [
            await stack.enter_async_context(agent(server, f"Agent {n}", mode)) for n in range(8)
        ]
        async with asyncio.TaskGroup() as group:
            for number, client in enumerate(agents):
                group.create_task(work(client, number))
            group.create_task(ana.type("shared", None, typed, delay=0.005))
        await ana.flush()
        expected = [
            f"line{n}:" + "".join(f"{n}.{step:02d};" for step in reversed(range(50))) + "é😀|"
            for n in range(8)
        ]
        whole = "\n".join([*expected, f"person:{typed}"])
        for client in agents:
            assert await client.sources(path) == [whole]
        await ana.until(lambda: ana.source("shared") == whole)
        view = await YjsClient.read(server, path)
        assert view.cells == [("shared", whole)]
        assert not view.pending
        await until(lambda: notebooks.sources(file) == [whole])


async def test_guarded_edits_hit_their_cell_while_cells_are_inserted_above(
    server: JupyterProcess,
) -> None:
    path = "moving.ipynb"
    cells = [notebooks.code(f"target-{n:02d}", f"value = {n}") for n in range(40)]
    notebooks.write(Path(server.root) / path, notebooks.notebook(cells))
    async with (
        agent(server) as ada,
        Collaborator(server.url, server.token, path) as ana,
        asyncio.TaskGroup() as group,
    ):
        seen = {
            cell["id"]: cell["revision"]
            for cell in (await ada.ask("get_notebook", path=path))["cells"]
        }
        done = asyncio.Event()

        async def insert_above() -> None:
            while not done.is_set():
                ana.insert_cell(0, "# above")
                await asyncio.sleep(0.01)

        group.create_task(insert_above())
        for cell_id, revision in seen.items():
            facts = await ada.write(path, cell_id, f"edited = '{cell_id}'", if_revision=revision)
            assert facts["cells"][0]["id"] == cell_id
        done.set()
        inserted = len(ana.ids()) - 40
        assert inserted > 10
        await ana.flush()
        now = await ada.ask("get_notebook", path=path)
        texts = {cell["id"]: cell["source"] for cell in now["cells"]}
        assert len(texts) == inserted + 40
        assert all(texts[cell_id] == f"edited = '{cell_id}'" for cell_id in seen)


async def test_no_answer_is_older_than_the_room(server: JupyterProcess) -> None:
    """What one agent was told is done, every other agent sees in its very next answer."""
    path = "fresh.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(100))
    async with AsyncExitStack() as stack:
        agents = [await stack.enter_async_context(agent(server, f"A{n}")) for n in range(6)]

        async def work(number: int) -> None:
            writer, reader = agents[number], agents[(number + 1) % len(agents)]
            for step in range(15):
                cell_id = f"cell-{number:05d}"
                await writer.write(path, cell_id, f"{number} {step}")
                facts = await reader.ask("get_notebook", path=path, cell_ids=[cell_id])
                assert facts["cells"][0]["source"] == f"{number} {step}"

        async with asyncio.TaskGroup() as group:
            for number in range(len(agents)):
                group.create_task(work(number))


async def test_deleting_while_somebody_types_in_it_does_not_break_the_notebook(
    server: JupyterProcess,
) -> None:
    path = "deleted.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.numbered(5))
    async with agent(server) as ada, Collaborator(server.url, server.token, path) as ana:
        async with asyncio.TaskGroup() as group:
            group.create_task(
                ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["cell-00002"])
            )
            ana.insert("cell-00002", 0, "typing into it")
        await ana.flush()
        ids = [f"cell-0000{n}" for n in (0, 1, 3, 4)]
        await ana.until(lambda: ana.ids() == ids)
        facts = await ada.ask("get_notebook", path=path)
        assert [cell["id"] for cell in facts["cells"]] == ids
        error = await ada.refused(
            "batch_update_notebook_cells",
            path=path,
            updates=[{"cell_id": "cell-00002", "content": "x"}],
            exec=False,
        )
        assert error["code"] == "cell_not_found"
