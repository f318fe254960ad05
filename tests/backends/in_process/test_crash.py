"""`kill -9` right after an answer: what was acknowledged, and what people typed, is still there."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conftest import MakeServer, Times
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED, JupyterProcess
from tests.harness.waiting import until
from tests.harness.yjs import YjsClient

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(900)]

PATH = "crash.ipynb"
AGENTS_CELL, PERSONS_CELL = "cell-00001", "cell-00002"


class Crashes:
    """A server that is killed again and again while two tabs stay open."""

    def __init__(self, server: JupyterProcess, ana: Collaborator, tab: YjsClient) -> None:
        self.server, self.ana, self.tab = server, ana, tab
        self.agents_tokens: list[str] = []
        self.persons_tokens: list[str] = []

    async def edit_and_kill(self, number: int, wait_for_save: bool = False) -> None:
        """The person types, the agent edits, and the server dies with the answer."""
        typed, written = f"person{number};", f"agent{number};"
        async with agent(self.server) as ada:
            await ada.ask("create_notebook_session", path=PATH)
            saves = self._saves()
            self.ana.insert(PERSONS_CELL, len(self.ana.source(PERSONS_CELL)), typed)
            await self.ana.flush()
            self.persons_tokens.append(typed)
            if wait_for_save:
                # Jupyter writes the file now, as near as one can see it from outside.
                await until(lambda: self._saves() > saves)
            await ada.replace(PATH, AGENTS_CELL, "# end", f"{written}# end")
            self.server.kill()
        self.agents_tokens.append(written)

    def _saves(self) -> int:
        """How many have begun so far."""
        return self.server.log.count("Saving file: ")

    async def restart_and_look(self, number: int) -> None:
        await self.server.start()
        self._check("the file", await self._on_disk())
        await self.ana.until(lambda: self.ana.connections >= number + 2, timeout=40)
        await self.tab.connections(number + 2)
        view = await YjsClient.read(self.server, PATH)
        assert not view.pending
        self._check("a fresh yjs client", dict(view.cells))
        last = self.agents_tokens[-1]
        await self.ana.until(lambda: last in self.ana.source(AGENTS_CELL))
        await self.tab.wait(last)
        tab = await self.tab.view()
        assert not tab.pending
        self._check("the yjs tab left open", dict(tab.cells))
        own = dict(zip(self.ana.ids(), self.ana.sources(), strict=True))
        self._check("the tab left open", own)

    async def _on_disk(self) -> dict[str, str]:
        # Tabs are back at once, and Jupyter may save again.
        texts = await notebooks.whole_sources(Path(self.server.root) / PATH)
        return {f"cell-{n:05d}": text for n, text in enumerate(texts)}

    def _check(self, where: str, cells: dict[str, str]) -> None:
        begin = cells[AGENTS_CELL].index("\n") + 1
        assert cells[AGENTS_CELL][begin:] == "".join(self.agents_tokens) + "# end", where
        begin = cells[PERSONS_CELL].index("\n") + 1
        assert cells[PERSONS_CELL][begin:] == "# end" + "".join(self.persons_tokens), where


async def run(server: JupyterProcess, cells: int, kills: int, during_save: bool = False) -> None:
    padding = "# end" if cells < 100 else "y = 'some more text to make it heavy'\n" * 60 + "# end"
    content = notebooks.numbered(cells, padding)
    for index in (1, 2):
        content["cells"][index]["source"] = f"x = {index}\n# end"
    notebooks.write(Path(server.root) / PATH, content)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(server)
        tab = await stack.enter_async_context(YjsClient(server, PATH))
        ana = await stack.enter_async_context(Collaborator(server.url, server.token, PATH))
        crashes = Crashes(server, ana, tab)
        for number in range(kills):
            await crashes.edit_and_kill(number, wait_for_save=during_save)
            await crashes.restart_and_look(number)


async def test_edits_survive_every_kill_while_tabs_stay_open(
    make_server: MakeServer, times: Times
) -> None:
    await run(make_server(env=NOT_MEASURED), cells=10, kills=times(5, 30))


async def test_a_large_notebook_survives_every_kill(make_server: MakeServer, times: Times) -> None:
    await run(make_server(env=NOT_MEASURED), cells=1000, kills=times(2, 5))


async def test_a_kill_during_an_autosave_loses_nothing(
    make_server: MakeServer, times: Times
) -> None:
    await run(make_server(env=NOT_MEASURED), cells=1000, kills=times(3, 5), during_save=True)
