"""Many at once: agents and people in one notebook, and nothing lost, doubled or misplaced."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import Times
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.together import SharedCell, edit_while_cells_come_above, everybody_reads, read

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]


@pytest.mark.node
@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_eight_agents_and_a_person_share_one_cell(
    server: JupyterProcess, mode: str, times: Times
) -> None:
    path = f"shared-{mode}.ipynb"
    cell = SharedCell(agents=8, edits=times(20, 50))
    notebooks.write(Path(server.root) / path, cell.notebook())
    async with AsyncExitStack() as stack:
        ana = await stack.enter_async_context(Collaborator(server.url, server.token, path))
        agents = [
            await stack.enter_async_context(agent(server, f"Agent {n}", mode)) for n in range(8)
        ]
        await cell.write(path, agents, ana)
        for client in agents:
            assert await client.sources(path) == [cell.whole]
        await ana.until(lambda: ana.sources() == [cell.whole])
        await everybody_reads(server, path, [(cell.id, cell.whole)])


async def test_guarded_edits_hit_their_cell_while_cells_are_inserted_above(
    server: JupyterProcess,
) -> None:
    path = "moving.ipynb"
    cells = [notebooks.code(f"target-{n:02d}", f"value = {n}") for n in range(40)]
    notebooks.write(Path(server.root) / path, notebooks.notebook(cells))
    async with agent(server) as ada, Collaborator(server.url, server.token, path) as ana:
        expected = await edit_while_cells_come_above(ada, ana, path)
        assert await read(ada, path) == expected


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


async def test_deleting_a_cell_while_somebody_types_in_it_does_not_break_the_notebook(
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
