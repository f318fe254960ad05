"""What it costs that people see agents: an edit beside one that nobody sees, and the traffic.

Twenty agents are in one notebook, with one person. The traffic is what reaches that person, through
the room of the notebook and through the lobby.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from itertools import count

from tests.harness.agents import AgentClient
from tests.harness.collaborator import Collaborator
from tests.harness.lobby import Lobby

from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import asking, connect, jupyter, make_notebook, source

EDIT = Goal(1.05)
IDLE, BUSY = Goal(5), Goal(200)
"""Kilobytes a second."""
WORST = Goal(100)

AGENTS = 20

_PATH = "presence.ipynb"


async def run(sizes: Sizes) -> list[Row]:
    seconds = 1.0 if sizes.calls < 100 else 20.0
    return [await _edits(sizes), *await _crowd(seconds)]


async def _edits(sizes: Sizes) -> Row:
    async with AsyncExitStack() as stack:
        calls: dict[str, Call] = {}
        for name, extension in (("unseen", {"unseen_extension": True}), ("seen", {})):
            server = await stack.enter_async_context(jupyter(extensions=extension))
            make_notebook(server.root, _PATH, 10)
            ada = await stack.enter_async_context(connect(server.url, server.token))
            await stack.enter_async_context(Collaborator(server.url, server.token, _PATH))
            await stack.enter_async_context(Lobby(server, "Ana"))
            calls[name] = _edit(ada, 5)
        times = await interleave(calls, sizes)
    return Row.compare("presence", "an edit", times["unseen"], times["seen"], EDIT)


async def _crowd(seconds: float) -> list[Row]:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(jupyter())
        make_notebook(server.root, _PATH, AGENTS)
        ana = await stack.enter_async_context(Collaborator(server.url, server.token, _PATH))
        lobby = await stack.enter_async_context(Lobby(server, "Ana"))
        agents = [
            await stack.enter_async_context(connect(server.url, server.token, f"Agent {number}"))
            for number in range(AGENTS)
        ]
        edits = [_edit(each, number) for number, each in enumerate(agents)]
        await asyncio.gather(*(edit() for edit in edits))
        await asyncio.sleep(3)  # until they have stopped to show what they did
        idle = await _traffic(ana, lobby, asyncio.sleep(seconds), seconds)
        async with asking(server) as times:
            busy = await _traffic(ana, lobby, _work(edits, seconds), seconds)
    return [
        Row.absolute("presence", f"{AGENTS} agents that do nothing", [idle], IDLE, "kB/s"),
        Row.absolute("presence", f"{AGENTS} agents that edit", [busy], BUSY, "kB/s"),
        Row.absolute("presence", "worst /api/status meanwhile", [max(times)], WORST, "ms"),
    ]


async def _work(edits: list[Call], seconds: float) -> None:
    """Let everybody edit about twice a second, each in their own time."""
    chance, end = random.Random(0), time.monotonic() + seconds

    async def work(edit: Call) -> None:
        while time.monotonic() < end:
            await asyncio.sleep(chance.uniform(0.25, 0.75))
            await edit()

    await asyncio.gather(*map(work, edits))


async def _traffic(ana: Collaborator, lobby: Lobby, work: object, seconds: float) -> float:
    before = ana.awareness_bytes + lobby.received
    assert asyncio.iscoroutine(work)
    await work
    return (ana.awareness_bytes + lobby.received - before) / seconds / 1000


def _edit(ada: AgentClient, cell: int) -> Call:
    steps = count(1_000)
    return lambda: ada.write(_PATH, f"cell-{cell:05d}", source(next(steps)))
