"""What a person sees in JupyterLab while an agent works in their notebook."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.browser import EXPOSE_APP, LabPage, open_notebook
from tests.harness.kernels import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.browser, pytest.mark.timeout(180)]

PATH = "live.ipynb"


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


async def test_the_page_shows_the_agents_edit_within_a_second(
    make_server: MakeServer, tmp_path: Path
) -> None:
    extensions = {"jupyterlab": True, "notebook_shim": True}
    server = make_server(EXPOSE_APP, app="lab", extensions=extensions)
    cells = [
        notebooks.markdown("title", "# Sales"),
        notebooks.code("load", "import pandas as pd\ntotal = 1"),
    ]
    notebooks.write(Path(server.root) / PATH, notebooks.notebook(cells))
    async with server, open_notebook(server, PATH) as page, agent(server, "Ada") as ada:
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
