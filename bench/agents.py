"""Eight agents at once: durable edits a second beside calls of the no-op a second."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from itertools import count
from multiprocessing.connection import Connection

from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.jupyter import JupyterProcess

from .bare import NOOP
from .measuring import Goal, Row, Sizes
from .serving import ERAS, connect, jupyter, make_notebook, source

AGENTS = 8
CALLS = 25
"""Of each agent in one round."""
PROCESSES = 1
"""Of clients, beside the server's own.

On two cores one is right: the server has a core for itself, and the clients have the other. In one
interleaved run eight agents made 437 no-ops a second from one process, 367 from two and 349 from
four, which take the server's core away from it; the edits' share stayed the same (0.43, 0.42,
0.44). With more cores more processes are right, as long as the no-op gets faster by them.
"""

GOAL = Goal(0.4, at_least=True)

_OWN, _SHARED = "own.ipynb", "shared.ipynb"

KINDS = {"noop": "no-op", "own": "own cells", "shared": "one cell, own lines"}


async def run(sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    for mode in ERAS:
        async with jupyter() as server:
            rows += await _measure(server, mode, sizes)
    return rows


async def _measure(server: JupyterProcess, mode: str, sizes: Sizes) -> list[Row]:
    make_notebook(server.root, _OWN, AGENTS)
    lines = "\n".join(_line(number, 0) for number in range(AGENTS))
    notebooks.write(server.root / _SHARED, notebooks.notebook([notebooks.code("shared", lines)]))
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with _clients(server.url, server.token, mode) as clients:
        for number in range(1 + sizes.rounds):
            for kind in KINDS:
                rate = await asyncio.to_thread(_round, clients, kind)
                if number:  # the first warms up
                    rates[kind].append(rate)
                await asyncio.sleep(0.3)  # for what the round left behind
    return [
        Row.compare("agents", f"{KINDS[kind]}, {mode}", rates["noop"], rates[kind], GOAL, "calls/s")
        for kind in ("own", "shared")
    ]


def _round(clients: list[Connection], kind: str) -> float:
    """Let all agents work at once; calls a second."""
    for client in clients:
        client.send(kind)
    spans: list[tuple[float, float]] = [client.recv() for client in clients]
    return AGENTS * CALLS / (max(end for _, end in spans) - min(start for start, _ in spans))


# -- the agents' processes -------------------------------------------------------------------


@contextmanager
def _clients(url: str, token: str, mode: str) -> Iterator[list[Connection]]:
    context = multiprocessing.get_context("spawn")
    share = AGENTS // PROCESSES
    ours: list[Connection] = []
    processes = []
    for first in range(0, AGENTS, share):
        mine, theirs = context.Pipe()
        arguments = (url, token, mode, range(first, first + share), theirs)
        process = context.Process(target=_run_agents, args=arguments, daemon=True)
        process.start()
        theirs.close()
        ours.append(mine)
        processes.append(process)
    try:
        for connection in ours:
            connection.recv()  # all its agents are connected
        yield ours
    finally:
        for connection in ours:
            connection.close()
        for process in processes:
            process.join(10)


def _run_agents(url: str, token: str, mode: str, numbers: range, orders: Connection) -> None:
    asyncio.run(_follow_orders(url, token, mode, numbers, orders))


async def _follow_orders(
    url: str, token: str, mode: str, numbers: range, orders: Connection
) -> None:
    async with AsyncExitStack() as stack:
        workers = []
        for number in numbers:
            client = connect(url, token, f"Agent {number}", mode)
            workers.append(_Worker(await stack.enter_async_context(client), number))
        orders.send(None)
        while True:
            try:
                kind = await asyncio.to_thread(orders.recv)
            except EOFError:
                return
            start = time.monotonic()
            await asyncio.gather(*(worker.work(kind) for worker in workers))
            orders.send((start, time.monotonic()))


class _Worker:
    """One agent, which changes something with every edit."""

    def __init__(self, client: AgentClient, number: int) -> None:
        self._client = client
        self._number = number
        self._own_steps, self._shared_steps = count(), count()

    async def work(self, kind: str) -> None:
        call: Callable[[], Awaitable[object]] = getattr(self, kind)
        for _ in range(CALLS):
            await call()

    async def noop(self) -> None:
        await self._client.call(NOOP)

    async def own(self) -> None:
        cell_id = f"cell-{self._number:05d}"
        await self._client.write(_OWN, cell_id, source(-1 - next(self._own_steps)))

    async def shared(self) -> None:
        step = next(self._shared_steps)
        before, after = _line(self._number, step), _line(self._number, step + 1)
        await self._client.replace(_SHARED, "shared", before, after)


def _line(number: int, step: int) -> str:
    return f"value_{number} = {step:06d}"
