"""What many do in one notebook at once, and what everybody must read afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import notebooks
from .agents import AgentClient
from .collaborator import Collaborator
from .jupyter import JupyterProcess
from .waiting import until
from .yjs import YjsClient

Cells = list[tuple[str, str]]
"""The id and the source of each cell, in order."""


class SharedCell:
    """One cell with a line for each agent and one for a person, who all write at once.

    Every edit stays to be seen: what is lost, doubled or moved makes another text.
    """

    id = "shared"

    def __init__(self, agents: int, edits: int) -> None:
        self._agents = range(agents)
        self._edits = range(edits)
        self._typed = ""
        self._writing = 0

    def notebook(self) -> dict[str, Any]:
        """Before anybody writes."""
        lines = [f"line{n}:é😀|" for n in self._agents]
        return notebooks.notebook([notebooks.code(self.id, "\n".join([*lines, "person:"]))])

    @property
    def whole(self) -> str:
        """When all have written."""
        lines = [
            f"line{n}:" + "".join(f"{n}.{step:02d};" for step in reversed(self._edits)) + "é😀|"
            for n in self._agents
        ]
        return "\n".join([*lines, f"person:{self._typed}"])

    async def write(self, path: str, agents: Sequence[AgentClient], person: Collaborator) -> None:
        """All at once, each on a line of its own, the person for as long as any of the agents;
        returns when the room has everything."""
        self._writing = len(agents)
        async with asyncio.TaskGroup() as group:
            for number, client in zip(self._agents, agents, strict=True):
                group.create_task(self._edit(path, client, number))
            group.create_task(person.type(self.id, None, self._letters(), delay=0.005))
        await person.flush()

    async def _edit(self, path: str, client: AgentClient, number: int) -> None:
        line = f"line{number}:"
        for step in self._edits:
            await client.replace(path, self.id, line, f"{line}{number}.{step:02d};")
        self._writing -= 1

    def _letters(self) -> Iterator[str]:
        while self._writing or len(self._typed) < 200:
            self._typed += chr(ord("a") + len(self._typed) % 26)
            yield self._typed[-1]


async def everybody_reads(server: JupyterProcess, path: str, cells: Cells) -> None:
    """Hold those who come now, with pycrdt and with yjs, and the saved file to these cells."""
    async with Collaborator(server.url, server.token, path, "Newcomer") as newcomer:
        assert list(zip(newcomer.ids(), newcomer.sources(), strict=True)) == cells
        await newcomer.save()
    view = await YjsClient.read(server, path)
    assert view.cells == cells
    assert not view.pending
    on_disk = [source for _, source in cells]
    await until(lambda: notebooks.sources(Path(server.root) / path) == on_disk)


async def read(client: AgentClient, path: str) -> Cells:
    """A notebook as an agent reads it, page by page."""
    cells: Cells = []
    start: int | None = 0
    while start is not None:
        page = await client.ask("get_notebook", path=path, start_index=start)
        cells += [(cell["id"], cell["source"]) for cell in page["cells"]]
        start = page.get("next_index")
    return cells


async def edit_while_cells_come_above(
    client: AgentClient, person: Collaborator, path: str
) -> Cells:
    """Edit each cell by its id and revision while a person inserts some above, one every 10 ms.

    Returns:
        What the notebook must be now.
    """
    before = (await client.ask("get_notebook", path=path))["cells"]
    above: list[str] = []

    async def insert_above() -> None:
        while True:
            above.insert(0, person.insert_cell(0, "# above"))
            await asyncio.sleep(0.01)

    inserting = asyncio.create_task(insert_above())
    try:
        for cell in before:
            cell_id = cell["id"]
            facts = await client.write(
                path, cell_id, f"edited = '{cell_id}'", if_revision=cell["revision"]
            )
            assert facts["cells"][0]["id"] == cell_id
    finally:
        inserting.cancel()
    await person.flush()
    assert len(above) > 5
    edited = [(cell["id"], f"edited = '{cell['id']}'") for cell in before]
    return [*((cell_id, "# above") for cell_id in above), *edited]
