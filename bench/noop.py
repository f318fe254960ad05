"""A no-op through Jupyter's port beside the same no-op under uvicorn: what the bridge costs."""

from __future__ import annotations

from functools import partial

from mcp import Client

from .bare import NOOP
from .measuring import Goal, Row, Sizes, interleave
from .serving import ERAS, bare, connect, jupyter

GOAL = Goal(1.25)


async def run(sizes: Sizes) -> list[Row]:
    rows = []
    async with bare() as url, jupyter() as server:
        for mode in ERAS:
            async with (
                Client(url, mode=mode) as direct,
                connect(server.url, server.token, mode=mode) as ada,
            ):
                calls = {
                    "uvicorn": partial(direct.call_tool, NOOP),
                    "jupyter": partial(ada.call, NOOP),
                }
                times = await interleave(calls, sizes)
            rows.append(Row.compare("noop", mode, times["uvicorn"], times["jupyter"], GOAL))
    return rows
