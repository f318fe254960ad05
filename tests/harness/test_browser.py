"""The browser of the other tests, held to what a person sees."""

from pathlib import Path

import pytest

from tests.conftest import MakeServer

from .browser import EXPOSE_APP, open_notebook
from .collaborator import Collaborator
from .notebooks import code, notebook, write

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


async def test_the_page_shows_edits_and_typing_in_it_reaches_others(
    make_server: MakeServer, tmp_path: Path
) -> None:
    cells = [code("a", "one = 1\n")]
    write(tmp_path / "page.ipynb", notebook(cells))
    options = {"root": tmp_path, "app": "lab", "extensions": {"jupyter_collaboration_mcp": False}}
    async with (
        make_server(EXPOSE_APP, **options) as server,
        open_notebook(server, "page.ipynb") as page,
        Collaborator(server.url, server.token, "page.ipynb", "Ana") as ana,
    ):
        await ana.type("a", None, "two = 2  # é😀\n")
        await page.wait_for_text("two = 2  # é😀", cell=0)
        await page.type(0, "three = 3")
        await ana.until(lambda: ana.source("a") == "one = 1\ntwo = 2  # é😀\nthree = 3")
        assert await page.texts() == {0: ana.source("a")}
        await page.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").stat().st_size > 10_000
        assert page.errors == []
