"""A restore and its undo, as a person sees them who goes on typing elsewhere in the notebook."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.browser import EXPOSE_APP, open_notebook
from tests.harness.jupyter import REPOSITORY
from tests.harness.kernels import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

#: Where pictures of the page are kept, to be looked at.
PICTURES = REPOSITORY / "build" / "screenshots"

PATH = "restored.ipynb"

_OUTPUT = {"output_type": "stream", "name": "stdout", "text": "the output of before\n"}

CELLS = [
    notebooks.markdown("title", "# Sales"),
    notebooks.code("load", "data = read()", outputs=[_OUTPUT], execution_count=3),
    notebooks.code("check", "assert data"),
    notebooks.code("own", "notes = '"),
    notebooks.code("plot", "plot(data)"),
]


async def test_a_person_types_on_while_an_agent_restores_cells_and_undoes_it(
    make_server: MakeServer,
) -> None:
    extensions = {"jupyterlab": True, "notebook_shim": True}
    server = make_server(EXPOSE_APP, app="lab", extensions=extensions)
    notebooks.write(Path(server.root) / PATH, notebooks.notebook(CELLS))
    typed = "".join(f"{n:02d}," for n in range(60)) + "'"
    async with server, open_notebook(server, PATH) as page, agent(server, "Ada") as ada:
        facts = await ada.ask("get_document_history", path=PATH, limit=1)
        version = facts["versions"][0]["version"]
        await ada.write(PATH, "load", "data = read('elsewhere')\nclean(data)")
        await ada.ask("batch_delete_notebook_cells", path=PATH, cell_ids=["check"])
        await ada.ask("clear_notebook_outputs", path=PATH)
        await page.wait_for_text("clean(data)", 1)
        await page.wait_for_text("notes = '", 2)

        typing = asyncio.create_task(page.type(2, typed, delay=0.05))
        await page.wait_for_text("notes = '00,01,", 2)
        chosen = ["load", "check"]
        said = await ada.say(
            "restore_document_version", path=PATH, version=version, cell_ids=chosen
        )
        assert "1 cell inserted, 1 edited" in said
        await page.wait_for_text("assert data", 2)
        await page.wait_for_output("the output of before", 1)
        assert not typing.done()
        PICTURES.mkdir(parents=True, exist_ok=True)
        await page.screenshot(PICTURES / "restored.png")
        await ada.ask("undo_agent_changes", path=PATH)
        await page.wait_for_text("clean(data)", 1)
        assert not typing.done()
        await typing

        # Every character is where it was typed, in the page and for everybody.
        await page.wait_for_text(f"notes = '{typed}", 2)
        sources = await eventually(lambda: ada.sources(PATH), lambda read: typed in read[2])
        assert sources == [
            "# Sales",
            "data = read('elsewhere')\nclean(data)",
            f"notes = '{typed}",
            "plot(data)",
        ]
        assert list((await page.texts()).values())[1:] == sources[1:]
        assert page.errors == []
        await page.screenshot(PICTURES / "undone.png")
