"""What a person sees in JupyterLab while a fork of their notebook is merged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.browser import EXPOSE_APP, open_notebook
from tests.harness.kernels import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

PATH = "fork.ipynb"


async def test_a_person_who_types_while_a_fork_is_merged_loses_nothing(
    make_server: MakeServer,
) -> None:
    extensions = {"jupyterlab": True, "notebook_shim": True}
    server = make_server(EXPOSE_APP, app="lab", extensions=extensions)
    cells = [notebooks.code(f"c{number}", f"cell = {number}") for number in range(6)]
    notebooks.write(Path(server.root) / PATH, notebooks.notebook(cells))
    typed = "".join(f"# word{number} " for number in range(16))
    async with server, open_notebook(server, PATH) as page, agent(server, "Ada") as ada:
        fork = (await ada.ask("fork_document", path=PATH, title="Try"))["fork"]
        updates = [{"cell_id": f"c{number}", "content": "merged"} for number in (0, 1, 4)]
        await ada.ask("batch_update_notebook_cells", path=fork, updates=updates, exec=False)
        await ada.ask("batch_delete_notebook_cells", path=fork, cell_ids=["c3"])
        await ada.ask(
            "batch_insert_notebook_cells",
            path=fork,
            cells=[{"content": "added"}],
            after_cell_id="c1",
            exec=False,
        )
        await ada.ask("move_notebook_cells", path=fork, cell_ids=["c5"], to_index=0)

        typing = asyncio.create_task(page.type(2, typed, delay=0.02))
        await page.wait_for_text("word2", 2, timeout=30)
        await ada.ask("merge_document_fork", fork=fork)
        await typing

        wanted = ["cell = 5", "merged", "merged", "added", f"cell = 2{typed}", "merged"]
        sources = await eventually(lambda: ada.sources(PATH), lambda read: read == wanted)
        assert sources == wanted
        for index, source in enumerate(wanted):
            await page.wait_for_text(source.rstrip(), index, timeout=30)
        undone = await ada.ask("undo_agent_changes", path=PATH)
        assert undone["steps"] == 1
        original = [f"cell = {number}" for number in range(6)]
        original[2] += typed
        await page.wait_for_text(original[2].rstrip(), 2, timeout=30)
        assert await ada.sources(PATH) == original
        assert page.errors == []
