"""What the panel costs a durable edit: the same with it, with somebody who looks, and without."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count

from tests.harness.agents import AgentClient
from tests.harness.panel import Panel

from .measuring import Goal, Row, Sizes, interleave
from .serving import connect, jupyter, make_notebook, source

GOAL = Goal(1.02)

_CELLS, _PATH = 100, "a.ipynb"


async def run(sizes: Sizes) -> list[Row]:
    off = {"JupyterCollaborationMCP": {"panel": False}}
    async with (
        jupyter(off) as without,
        jupyter() as unseen,
        jupyter() as seen,
        connect(without.url, without.token) as bob,
        connect(unseen.url, unseen.token) as ada,
        connect(seen.url, seen.token) as eve,
        Panel(seen),
    ):
        agents = {"off": bob, "on": ada, "seen": eve}
        for server in (without, unseen, seen):
            make_notebook(server.root, _PATH, _CELLS)
        calls = {name: partial(_edit, each, count(1)) for name, each in agents.items()}
        times = await interleave(calls, replace(sizes, calls=3 * sizes.calls))
    return [
        Row.compare("panel", "an edit with the panel", times["off"], times["on"], GOAL),
        Row.compare("panel", "the same, somebody looks", times["off"], times["seen"], GOAL),
    ]


async def _edit(agent: AgentClient, steps: count[int]) -> None:
    await agent.write(_PATH, f"cell-{_CELLS // 2:05d}", source(next(steps)))
