"""What each further agent in a large notebook costs the server in memory.

Work costs memory too, whoever does it: histories, the allocator. So there is a control, in which
one agent does the work of all; what an agent itself costs is the difference.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import psutil  # type: ignore[import-untyped]

from tests.harness.agents import AgentClient

from .measuring import Goal, Row, Sizes
from .serving import ERAS, connect, jupyter, make_notebook, saved, source

AGENTS, CELLS, CELL_LENGTH = 20, 1_000, 3_000

GOAL = Goal(1.5)

_PATH = "large.ipynb"


async def run(sizes: Sizes) -> list[Row]:
    return [await _measure(mode, alone) for mode in ERAS for alone in (False, True)]


async def _measure(mode: str, alone: bool) -> Row:
    async with jupyter() as server, AsyncExitStack() as stack:
        make_notebook(server.root, _PATH, CELLS, CELL_LENGTH)
        process = psutil.Process(server.pid)
        agents: list[AgentClient] = []
        resident: list[float] = []
        for number in range(AGENTS):
            if not (alone and agents):
                client = connect(server.url, server.token, f"Agent {number}", mode)
                agents.append(await stack.enter_async_context(client))
            await _work(agents[-1], number)
            if number in (0, AGENTS - 1):
                # After a save, which needs memory of its own and gives not all of it back.
                await saved(agents[0], _PATH)
                resident.append(process.memory_info().rss / 1e6)
    first, last = resident
    further = AGENTS - 1
    each = (last - first) / further
    case = f"{'the same work by one' if alone else 'each further agent'}, {mode}"
    goal = None if alone else GOAL
    return Row("memory", case, further, "MB", first, None, last, None, each, goal)


async def _work(agent: AgentClient, number: int) -> None:
    """Read the whole notebook and edit a cell of one's own, often enough to be at home."""
    start: int | None = 0
    while start is not None:
        start = (await agent.ask("get_notebook", path=_PATH, start_index=start)).get("next_index")
    for step in range(20):
        await agent.write(_PATH, f"cell-{number:05d}", source(-step))
