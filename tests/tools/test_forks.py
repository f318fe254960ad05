"""Forks of documents, as agents and people use them, over both ways to a server."""

from __future__ import annotations

import pytest

from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import JupyterProcess

pytestmark = pytest.mark.anyio


async def test_a_fork_is_edited_and_its_document_stays_as_it_is(server: JupyterProcess) -> None:
    notebooks.write(server.root / "a.ipynb", notebooks.numbered(3))
    async with agent(server) as ada:
        fork = (await ada.ask("fork_document", path="a.ipynb", title="Try"))["fork"]
        before = await ada.sources("a.ipynb")
        assert await ada.sources(fork) == before
        cells = (await ada.ask("get_notebook", path=fork))["cells"]
        await ada.write(fork, cells[0]["id"], "changed = 1")
        assert await ada.sources(fork) == ["changed = 1", *before[1:]]
        assert await ada.sources("a.ipynb") == before
