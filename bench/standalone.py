"""The standalone command beside the extension: the same calls, through the network and back.

Each has a Jupyter server of its own, so that neither sits in the other's rooms. Also how long the
command takes to its first answer, and what it weighs while it does nothing.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from time import perf_counter

import psutil  # type: ignore[import-untyped]
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.standalone import StandaloneProcess

from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import connect, jupyter, source

TWICE, NOT_SLOWER, FIRST = Goal(2.0), Goal(1.0), Goal(1.0)

_PATH = "work.ipynb"


async def run(sizes: Sizes) -> list[Row]:
    async with AsyncExitStack() as stack:
        inside = await stack.enter_async_context(jupyter())
        outside = await stack.enter_async_context(jupyter())
        for server in (inside, outside):
            cells = [notebooks.code("sum", "1+1"), notebooks.code("text", source(0))]
            notebooks.write(server.root / _PATH, notebooks.notebook(cells))
        command = await stack.enter_async_context(StandaloneProcess([outside]))
        parameters = _stdio(outside, command)
        agents: dict[str, AgentClient] = {
            "extension": await stack.enter_async_context(connect(inside.url, inside.token)),
            "http": await stack.enter_async_context(agent(command)),
            "stdio": AgentClient(await stack.enter_async_context(Client(stdio_client(parameters)))),
        }
        sums: dict[str, Call] = {}
        edits: dict[str, Call] = {}
        for name, ada in agents.items():
            await ada.ask("execute_notebook_cell", path=_PATH, cell_id="sum", timeout=60)
            sums[f"sum {name}"] = partial(
                ada.ask, "execute_notebook_cell", path=_PATH, cell_id="sum"
            )
            edits[f"edit {name}"] = _edits(ada)
        # Apart: a run right after an edit waits until the edit is saved.
        times = {**await interleave(sums, sizes), **await interleave(edits, sizes)}
        rows = []
        for what, case in (("edit", "an edit"), ("sum", "a stored 1+1")):
            floor, http = times[f"{what} extension"], times[f"{what} http"]
            rows.append(Row.compare("standalone", f"{case}, HTTP", floor, http, TWICE))
            stdio = times[f"{what} stdio"]
            rows.append(Row.compare("standalone", f"{case}, stdio", http, stdio, NOT_SLOWER))
        return [*rows, *await _starts(parameters, sizes)]


async def _starts(parameters: StdioServerParameters, sizes: Sizes) -> list[Row]:
    seconds, weights = [], []
    for _ in range(sizes.starts):
        began = perf_counter()
        async with Client(stdio_client(parameters)):
            seconds.append(perf_counter() - began)
            weights += [
                process.memory_info().rss / 1e6
                for process in psutil.Process().children(recursive=True)
                if "jupyter_collaboration_mcp.cli" in " ".join(process.cmdline())
                and "--transport=http" not in process.cmdline()
            ][-1:]
    return [
        Row.absolute("standalone", "first answer over stdio", seconds, FIRST, "s"),
        Row.absolute("standalone", "memory of an idle stdio process", weights, None, "MB"),
    ]


def _stdio(server: JupyterProcess, command: StandaloneProcess) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "jupyter_collaboration_mcp.cli", f"--server={server.url}"],
        env=command.environment,
        cwd=server.root,
    )


def _edits(ada: AgentClient) -> Call:
    steps = count(1)
    return lambda: ada.write(_PATH, "text", source(next(steps)))
