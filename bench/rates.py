"""What the limits cost a call that they allow: the same small call with limits and without."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .measuring import Goal, Row, Sizes, interleave
from .serving import connect, jupyter

GOAL = Goal(1.03)

_OFF = dict.fromkeys(
    ("rate_limit", "execution_rate_limit", "write_rate_limit", "max_open_documents"), 0
)


async def run(sizes: Sizes) -> list[Row]:
    off = {"JupyterCollaborationMCP": _OFF}
    async with (
        jupyter(off) as unlimited,
        jupyter() as limited,
        connect(unlimited.url, unlimited.token) as bob,
        connect(limited.url, limited.token) as ada,
    ):
        calls = {
            "off": partial(bob.ask, "document_exists", path="a.md"),
            "on": partial(ada.ask, "document_exists", path="a.md"),
        }
        times = await interleave(calls, replace(sizes, calls=5 * sizes.calls))
    return [Row.compare("rates", "a small call with limits", times["off"], times["on"], GOAL)]
