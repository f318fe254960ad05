"""What each further agent in a large notebook costs the server in memory, and what stays of
documents that were left and of sessions that nobody ended.

Work costs memory too, whoever does it: histories, the allocator. So there is a control, in which
one agent does the work of all; what an agent itself costs is the difference.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import httpx2
import psutil  # type: ignore[import-untyped]

from tests.harness.agents import LEGACY, AgentClient

from .measuring import Goal, Row, Sizes
from .serving import ERAS, connect, jupyter, make_notebook, saved, source

AGENTS, CELLS, CELL_LENGTH = 20, 1_000, 3_000

GOAL = Goal(1.5)

#: Documents that are opened and left, and how many before they count: undo steps of 500 are kept.
DOCUMENTS, FIRST = 400, 300

#: No session has to end for another.
SESSIONS, FEW = 150, 40

LEFT_GOAL = Goal(20)

_PATH = "large.ipynb"

#: Agents leave at once, and so do rooms.
_HASTY = {
    "YDocExtension": {"document_cleanup_delay": 0.1, "document_save_delay": 0.1},
    "JupyterCollaborationMCP": {"idle_timeout": 1.0},
}


async def run(sizes: Sizes) -> list[Row]:
    rows = [await _measure(mode, alone) for mode in ERAS for alone in (False, True)]
    return [*rows, await _left_documents(), await _left_sessions()]


async def _left_documents() -> Row:
    """What stays of a document of 10 cells that was edited, saved and left."""
    async with jupyter(_HASTY) as server:
        resident: list[float] = []
        for first, last in ((0, FIRST), (FIRST, FIRST + DOCUMENTS)):
            async with connect(server.url, server.token) as agent:
                for number in range(first, last):
                    make_notebook(server.root, f"{number}.ipynb", 10)
                    await agent.write(f"{number}.ipynb", "cell-00001", source(-number))
            # Only the log tells when a room is gone.
            while server.log.count("deleted") < last:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            resident.append(psutil.Process(server.pid).memory_info().rss / 1e3)
    each = (resident[1] - resident[0]) / DOCUMENTS
    case = "each document that was left"
    return Row(
        "memory", case, DOCUMENTS, "KB", resident[0], None, resident[1], None, each, LEFT_GOAL
    )


async def _left_sessions() -> Row:
    """What a session costs that its client left open."""
    async with jupyter() as server, AsyncExitStack() as stack:
        resident: list[float] = []
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=server.headers))
        initialize = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": LEGACY, "version": "1"},
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}
        accepted = {"Accept": "application/json, text/event-stream"}
        for count in (FEW, SESSIONS):
            for _ in range(count):
                answer = await http.post(f"{server.url}mcp", json=request, headers=accepted)
                answer.raise_for_status()
            resident.append(psutil.Process(server.pid).memory_info().rss / 1e3)
    each = (resident[1] - resident[0]) / SESSIONS
    case = "each session that was left open"
    return Row("memory", case, SESSIONS, "KB", resident[0], None, resident[1], None, each, None)


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
