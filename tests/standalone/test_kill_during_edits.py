"""A server that is killed in the middle of a stream of edits: each answer keeps its word.

What was answered is there once. What was refused, or never answered, is there once or not at all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import NOT_MEASURED
from tests.harness.standalone import StandaloneProcess
from tests.harness.ways import WAYS

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

PATH = "killed.ipynb"
AGENTS = 3
KILLS = 3
BEFORE_A_KILL = 8  # edits that were answered


class Story:
    """Agents that write marks, each on a line of its own, and what they were answered."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.uncertain: dict[str, str] = {}
        self.over = False
        self._changed = asyncio.Condition()

    async def write(self, number: int, client: AgentClient) -> None:
        step = 0
        while not self.over:
            step += 1
            mark = f"<{number}.{step}>"
            update = {"cell_id": f"of-{number}", "old_text": "|", "new_text": f"{mark}|"}
            if step % 3:
                result = await client.call(
                    "batch_update_notebook_cells", path=PATH, updates=[update], exec=False
                )
            else:
                cell = {"content": mark, "cell_type": "markdown"}
                result = await client.call("batch_insert_notebook_cells", path=PATH, cells=[cell])
            async with self._changed:
                if result.is_error:
                    self.uncertain[mark] = text_of(result)
                else:
                    self.kept.append(mark)
                self._changed.notify_all()

    async def goes_on(self, count: int = BEFORE_A_KILL) -> None:
        """Wait until some more edits were answered."""
        goal = len(self.kept) + count
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: len(self.kept) >= goal)


@pytest.mark.parametrize("way", WAYS)
async def test_acknowledged_edits_appear_once_and_others_at_most_once(
    make_server: MakeServer, way: str
) -> None:
    enabled = {"jupyter_collaboration_mcp": way == "extension"}
    cells = [notebooks.markdown(f"of-{number}", "|") for number in range(AGENTS)]
    story = Story()
    async with make_server(extensions=enabled, env=NOT_MEASURED) as server:
        notebooks.write(Path(server.root) / PATH, notebooks.notebook(cells))
        async with (
            StandaloneProcess([server]) as command,
            agent(command, "0") as first,
            agent(command, "1") as second,
            agent(command, "2") as third,
        ):
            clients = (first, second, third)
            writing = [
                asyncio.create_task(story.write(number, client))
                for number, client in enumerate(clients)
            ]
            for _ in range(KILLS):
                await story.goes_on()
                server.kill()
                await server.start()
            await story.goes_on()
            story.over = True
            await asyncio.gather(*writing)
            seen = Counter(_marks(await first.sources(PATH)))
            async with Collaborator(server.url, server.token, PATH, "Ana") as ana:
                assert Counter(_marks(ana.sources())) == seen
                await ana.save()
        lost = [mark for mark in story.kept if not seen[mark]]
        doubled = [mark for mark, count in seen.items() if count > 1]
        assert (lost, doubled) == ([], []), story.uncertain
        assert set(seen) <= {*story.kept, *story.uncertain}
        saved = await notebooks.whole_sources(Path(server.root) / PATH)
        assert Counter(_marks(saved)) == seen


def _marks(sources: list[str]) -> list[str]:
    text = "".join(sources).replace("|", "")
    return [f"<{mark}" for mark in text.split("<") if mark]
