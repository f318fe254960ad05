"""Running code beside what cannot be avoided: the kernel itself, and a call that does nothing.

The floor is the sum of both, of the same round. 10,000 printed lines are compared with the bare
kernel alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.harness import notebooks
from tests.harness.agents import AgentClient, text_of

from .bare import NOOP
from .kernel import BareKernel, bare_kernel
from .measuring import Call, Goal, Row, Sizes, interleave
from .serving import ERAS, connect, jupyter, saved
from .tokens import CHARACTERS_PER_TOKEN

STORED, SCRATCH, LINES, TOKENS = Goal(1.4), Goal(1.15), Goal(1.3), Goal(1_000)

_PATH = "run.ipynb"
_LINES = "for n in range(10_000): print('line', n)"


async def run(sizes: Sizes) -> list[Row]:
    rows: list[Row] = []
    async with jupyter() as server, bare_kernel() as kernel:
        cells = [notebooks.code("sum", "1+1"), notebooks.code("lines", _LINES)]
        notebooks.write(server.root / _PATH, notebooks.notebook(cells))
        for mode in ERAS:
            async with connect(server.url, server.token, mode=mode) as ada:
                await ada.ask("execute_notebook_cell", path=_PATH, cell_id="sum", timeout=60)
                await saved(ada, _PATH)
                rows += await _sums(ada, kernel, sizes, mode)
                rows += await _lines(ada, kernel, sizes, mode)
    return rows


async def _sums(ada: AgentClient, kernel: BareKernel, sizes: Sizes, mode: str) -> list[Row]:
    calls: dict[str, Call] = {
        "kernel": partial(kernel.run, "1+1"),
        "noop": partial(ada.call, NOOP),
        "stored": partial(ada.ask, "execute_notebook_cell", path=_PATH, cell_id="sum"),
        "scratch": partial(ada.ask, "run_code", path=_PATH, code="1+1"),
    }
    times = await interleave(calls, sizes)
    floor = [sum(both) for both in zip(times["kernel"], times["noop"], strict=True)]
    return [
        Row.compare("execute", f"a stored 1+1, {mode}", floor, times["stored"], STORED),
        Row.compare("execute", f"run_code 1+1, {mode}", floor, times["scratch"], SCRATCH),
    ]


async def _lines(ada: AgentClient, kernel: BareKernel, sizes: Sizes, mode: str) -> list[Row]:
    calls: dict[str, Call] = {
        "kernel": partial(kernel.run, _LINES),
        "stored": partial(ada.ask, "execute_notebook_cell", path=_PATH, cell_id="lines"),
    }
    few = replace(sizes, calls=max(2, sizes.calls // 10), warm_up=1)
    times = await interleave(calls, few)
    answer = await ada.call("execute_notebook_cell", path=_PATH, cell_id="lines")
    tokens = len(text_of(answer)) / CHARACTERS_PER_TOKEN
    case = f"10,000 lines, {mode}"
    return [
        Row.compare("execute", case, times["kernel"], times["stored"], LINES),
        Row.absolute("execute", f"{case}: the answer", [tokens], TOKENS, "tokens"),
    ]
