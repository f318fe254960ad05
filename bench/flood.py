"""Much output: how long others wait for the server meanwhile, and what it costs in memory."""

from __future__ import annotations

import asyncio

import psutil  # type: ignore[import-untyped]

from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.jupyter import JupyterProcess

from .measuring import Goal, Row, Sizes
from .serving import asking, connect, jupyter, saved

WORST, GROWTH = Goal(100), Goal(100)

_PATH = "flood.ipynb"
_LINE = "'x' * 39"

#: Cells by name; the number is divided for a quick run.
_CASES = {
    "nothing": "pass",
    "50 MB in lines": f"for n in range(1_250_000 // {{0}}): print({_LINE})",
    "50,000 lines, each flushed": f"for n in range(50_000 // {{0}}): print({_LINE}, flush=True)",
    "one line of 10 MB": "print('x' * (10_000_000 // {0}))",
    "one display of 10 MB": (
        "from IPython.display import display\n"
        "display({{'text/html': 'x' * (10_000_000 // {0})}}, raw=True)"
    ),
}


async def run(sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    divisor = max(1, 200 // sizes.calls)
    async with jupyter() as server, connect(server.url, server.token) as ada:
        cells = [
            notebooks.code(f"cell-{number}", code.format(divisor))
            for number, code in enumerate(_CASES.values())
        ]
        notebooks.write(server.root / _PATH, notebooks.notebook(cells))
        await ada.ask("execute_notebook_cell", path=_PATH, cell_id="cell-0", timeout=60)
        for number, case in enumerate(_CASES):
            rows += await _measure(server, ada, f"cell-{number}", case)
    return rows


async def _measure(server: JupyterProcess, ada: AgentClient, cell_id: str, case: str) -> list[Row]:
    process = psutil.Process(server.pid)
    before = process.memory_info().rss / 1e6
    most = before
    async with asking(server) as times:
        running = asyncio.ensure_future(
            ada.ask("execute_notebook_cell", path=_PATH, cell_id=cell_id, timeout=300)
        )
        while not running.done():
            await asyncio.wait([running], timeout=0.1)
            most = max(most, process.memory_info().rss / 1e6)
        seconds = (await running)["runs"][0]["seconds"]
        await saved(ada, _PATH)
    worst = Row(
        "flood",
        f"{case} ({seconds:.1f} s): /api/status, worst",
        len(times),
        "ms",
        None,
        None,
        max(times),
        sorted(times)[round(0.99 * (len(times) - 1))],
        max(times),
        WORST,
    )
    growth = Row.absolute("flood", f"{case}: memory", [most - before], GROWTH, "MB")
    return [worst, growth]
