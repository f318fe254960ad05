"""What it costs a server that a hundred clients watch the document that an agent edits.

Beside it, in the same run, are the same edits on a server where nobody watches: first how long the
answers to single edits take, then the processor time of many edits without a rest, so that the
notifications of some are sent while others are made. The clients are in processes of their own,
which need more of the machine than the servers: run this while nothing else runs.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count

import psutil  # type: ignore[import-untyped]

from tests.harness.agents import AgentClient
from tests.harness.jupyter import REPOSITORY, JupyterProcess
from tests.harness.subscribers import address

from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import ERAS, connect, jupyter, make_notebook, source

GOAL = Goal(1.2)

#: Edits in a row.
_EDITS = 100

_PATH = "watched.ipynb"


async def run(sizes: Sizes) -> list[Row]:
    clients, turns = (100, sizes.calls // 20) if sizes.calls >= 100 else (3, 2)
    async with AsyncExitStack() as stack:
        edits: dict[str, Callable[[], Awaitable[float]]] = {}
        single: dict[str, Call] = {}
        heard: dict[str, list[int]] = {mode: [] for mode in ERAS}
        for name in ("nobody", *ERAS):
            server = await stack.enter_async_context(jupyter())
            make_notebook(server.root, _PATH, 10)
            ada = await stack.enter_async_context(connect(server.url, server.token))
            steps = count(1)
            single[name] = partial(_edit, ada, steps)
            edits[name] = _edits(server, single[name])
            await edits[name]()
            if name in heard:
                watching = _watchers(server, name, clients, heard[name])
                await stack.enter_async_context(watching)
        answers = await interleave(single, sizes)
        times: dict[str, list[float]] = {name: [] for name in edits}
        order, shuffle = list(edits), random.Random(0).shuffle
        for _ in range(turns):
            shuffle(order)
            for name in order:
                times[name].append(await edits[name]())
    rows = []
    for mode in ERAS:
        case = f"an answer, {clients} subscribers, {mode}"
        rows.append(Row.compare("watching", case, answers["nobody"], answers[mode], GOAL))
        case = f"{_EDITS} edits, {clients} subscribers, {mode}"
        rows.append(Row.compare("watching", case, times["nobody"], times[mode], GOAL, "CPU ms"))
        case = f"notifications meanwhile, {mode}"
        rows.append(Row.absolute("watching", case, heard[mode], None, "sent"))
    return rows


async def _edit(client: AgentClient, steps: Iterator[int]) -> None:
    await client.write(_PATH, "cell-00005", source(next(steps)))


def _edits(server: JupyterProcess, edit: Call) -> Callable[[], Awaitable[float]]:
    """Edits in a row; they return the milliseconds of processor time that the server needed."""
    process = psutil.Process(server.pid)

    def spent() -> float:
        times = process.cpu_times()
        return float(1000 * (times.user + times.system))

    async def edits() -> float:
        before = spent()
        for _ in range(_EDITS):
            await edit()
        return spent() - before

    return edits


@asynccontextmanager
async def _watchers(
    server: JupyterProcess, mode: str, clients: int, heard: list[int]
) -> AsyncIterator[None]:
    """Clients that watch the notebook; how often they were notified is there afterwards."""
    uri = await address(server, _PATH)
    command = ["-m", "bench.watchers", server.url, server.token, mode, str(clients), uri]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield
        process.stdin.close()
        heard.append(int(await process.stdout.readline()))
    finally:
        if process.returncode is None:
            process.stdin.close()
        await process.wait()
