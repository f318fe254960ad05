"""What a person sees in JupyterLab while an agent works in their notebook.

It edits, merges a fork and restores a version, all in one page, in a notebook for each.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_collaboration_mcp.server.subscriptions import INTERVAL
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient, agent
from tests.harness.browser import EXPOSE_APP, LabPage, open_notebook
from tests.harness.jupyter import REPOSITORY, JupyterProcess
from tests.harness.kernels import eventually
from tests.harness.subscribers import Heard, address, subscribed
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

#: Where pictures of the page are kept, to be looked at.
PICTURES = REPOSITORY / "build" / "screenshots"

PATH = "live.ipynb"

_OUTPUT = {"output_type": "stream", "name": "stdout", "text": "the output of before\n"}

TO_RESTORE = [
    notebooks.markdown("title", "# Sales"),
    notebooks.code("load", "data = read()", outputs=[_OUTPUT], execution_count=3),
    notebooks.code("check", "assert data"),
    notebooks.code("own", "notes = '"),
    notebooks.code("plot", "plot(data)"),
]

_log = logging.getLogger(__name__)


async def time_to_see(ada: AgentClient, page: LabPage, number: int) -> float:
    """Seconds from an answer to the edit on the screen."""
    await ada.replace(PATH, "load", "import pandas", f"# {number}\nimport pandas")
    answered = time.monotonic()
    await page.wait_for_text(f"# {number}", 1, timeout=30)
    return time.monotonic() - answered


async def edits_until_seen_at_once(ada: AgentClient, page: LabPage) -> int:
    """How many edits it takes until one is on the screen within a second of its answer.

    What else the machine does makes it later, never sooner: the fastest is what we cost.
    """
    for number in range(10):
        if await time_to_see(ada, page, number) < 1:
            return number + 1
    raise AssertionError("No edit was on the screen within a second of its answer.")


@pytest.fixture(scope="module")
async def shared(
    make_server: MakeServer, anyio_backend: str, browser: None
) -> AsyncIterator[tuple[JupyterProcess, LabPage]]:
    """JupyterLab with a notebook that a person has opened."""
    extensions = {"jupyterlab": True, "notebook_shim": True}
    server = make_server(EXPOSE_APP, app="lab", extensions=extensions)
    cells = [
        notebooks.markdown("title", "# Sales"),
        notebooks.code("load", "import pandas as pd\ntotal = 1"),
    ]
    notebooks.write(Path(server.root) / PATH, notebooks.notebook(cells))
    async with server, open_notebook(server, PATH) as page:
        yield server, page


@pytest.fixture
async def lab(shared: tuple[JupyterProcess, LabPage]) -> tuple[JupyterProcess, LabPage]:
    """The same, with only that notebook open, and errors only of the test."""
    _, page = shared
    await page.show(PATH)
    await page.close_others()
    page.errors.clear()
    return shared


async def test_the_page_shows_the_agents_edit_within_a_second(
    lab: tuple[JupyterProcess, LabPage], tmp_path: Path
) -> None:
    server, page = lab
    async with agent(server, "Ada") as ada:
        await ada.replace(PATH, "load", "total = 1", "total = 2  # 😀 by an agent")
        await page.wait_for_text("total = 2  # 😀 by an agent", 1, timeout=30)
        edits = 1 + await edits_until_seen_at_once(ada, page)
        flag = page.page.locator(".jp-remote-userFlag-name, .jp-remote-userFlag")
        await flag.first.wait_for(state="attached", timeout=30_000)
        assert "Ada (agent)" in (await flag.first.text_content() or "")

        await page.type(1, "\nperson = 'typed in the page'")
        await ada.ask(
            "batch_insert_notebook_cells",
            path=PATH,
            cells=[{"content": "new = 'cell of the agent'"}],
            exec=False,
        )
        await page.wait_for_text("new = 'cell of the agent'", 2, timeout=30)
        # What is drawn in the page may still be on its way to the server.
        sources = await eventually(
            lambda: ada.sources(PATH), lambda read: "person = 'typed in the page'" in read[1]
        )
        assert "total = 2  # 😀 by an agent" in sources[1]

        undone = await ada.ask("undo_agent_changes", path=PATH, steps=edits + 1)
        (caret,) = undone["carets"]  # the person has typed there
        assert caret["cell_id"] == "load"
        assert caret["people"]
        sources = await ada.sources(PATH)
        assert len(sources) == 2
        assert "total = 1" in sources[1]
        assert "person = 'typed in the page'" in sources[1]
        await page.wait_for_text("total = 1", 1, timeout=30)
        assert page.errors == []
        await page.screenshot(tmp_path / "live.png")


async def time_to_hear(page: LabPage, heard: Heard) -> float:
    """Seconds from a key press in the page to the notification."""
    await asyncio.sleep(INTERVAL)  # a person pauses, too; otherwise it may wait for the next one
    before, pressed = len(heard.uris), time.monotonic()
    await page.page.keyboard.press("x")
    await until(lambda: len(heard.uris) > before, 20)
    return heard.times[before] - pressed


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_a_subscriber_hears_within_half_a_second_that_a_person_types(
    lab: tuple[JupyterProcess, LabPage], mode: str
) -> None:
    server, page = lab
    uri = await address(server, PATH)

    def connect(mode: str, on_message: Any) -> Any:
        return agent(server, "Watcher", mode, on_message=on_message)

    async with subscribed(connect, mode, [uri]) as heard:
        async with heard.hearing(uri):
            await page.type(1, "#")
        # What else the machine does makes it later, never sooner.
        times = [await time_to_hear(page, heard) for _ in range(10)]
    _log.info("%s: heard after %s ms", mode, sorted(round(1000 * each) for each in times))
    assert min(times) < 0.5


async def test_a_person_who_types_while_a_fork_is_merged_loses_nothing(
    lab: tuple[JupyterProcess, LabPage],
) -> None:
    server, page = lab
    path = "fork.ipynb"
    cells = [notebooks.code(f"c{number}", f"cell = {number}") for number in range(6)]
    notebooks.write(Path(server.root) / path, notebooks.notebook(cells))
    typed = "".join(f"# word{number} " for number in range(16))
    await page.show(path)
    async with agent(server, "Ada") as ada:
        fork = (await ada.ask("fork_document", path=path, title="Try"))["fork"]
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
        sources = await eventually(lambda: ada.sources(path), lambda read: read == wanted)
        assert sources == wanted
        for index, source in enumerate(wanted):
            await page.wait_for_text(source.rstrip(), index, timeout=30)
        undone = await ada.ask("undo_agent_changes", path=path)
        assert undone["steps"] == 1
        original = [f"cell = {number}" for number in range(6)]
        original[2] += typed
        await page.wait_for_text(original[2].rstrip(), 2, timeout=30)
        assert await ada.sources(path) == original
        assert page.errors == []


async def test_a_person_types_on_while_an_agent_restores_cells_and_undoes_it(
    lab: tuple[JupyterProcess, LabPage],
) -> None:
    server, page = lab
    path = "restored.ipynb"
    notebooks.write(Path(server.root) / path, notebooks.notebook(TO_RESTORE))
    typed = "".join(f"{n:02d}," for n in range(60)) + "'"
    await page.show(path)
    async with agent(server, "Ada") as ada:
        facts = await ada.ask("get_document_history", path=path, limit=1)
        version = facts["versions"][0]["version"]
        await ada.write(path, "load", "data = read('elsewhere')\nclean(data)")
        await ada.ask("batch_delete_notebook_cells", path=path, cell_ids=["check"])
        await ada.ask("clear_notebook_outputs", path=path)
        await page.wait_for_text("clean(data)", 1)
        await page.wait_for_text("notes = '", 2)

        typing = asyncio.create_task(page.type(2, typed, delay=0.05))
        await page.wait_for_text("notes = '00,01,", 2)
        chosen = ["load", "check"]
        said = await ada.say(
            "restore_document_version", path=path, version=version, cell_ids=chosen
        )
        assert "1 cell inserted, 1 edited" in said
        await page.wait_for_text("assert data", 2)
        await page.wait_for_output("the output of before", 1)
        assert not typing.done()
        PICTURES.mkdir(parents=True, exist_ok=True)
        await page.screenshot(PICTURES / "restored.png")
        await ada.ask("undo_agent_changes", path=path)
        await page.wait_for_text("clean(data)", 1)
        assert not typing.done()
        await typing

        # Every character is where it was typed, in the page and for everybody.
        await page.wait_for_text(f"notes = '{typed}", 2)
        sources = await eventually(lambda: ada.sources(path), lambda read: typed in read[2])
        assert sources == [
            "# Sales",
            "data = read('elsewhere')\nclean(data)",
            f"notes = '{typed}",
            "plot(data)",
        ]
        assert list((await page.texts()).values())[1:] == sources[1:]
        assert page.errors == []
        await page.screenshot(PICTURES / "undone.png")
