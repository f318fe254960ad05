"""What the list of tools costs a model in tokens, before it has done anything."""

from __future__ import annotations

import json
from collections.abc import Iterable

from mcp_types import Tool

from .bare import NOOP
from .measuring import Goal, Row, Sizes
from .serving import connect, jupyter

CHARACTERS_PER_TOKEN = 4

#: Tokens of the default toolsets, and of `core`. With those that are still to come there are 52
#: tools.
ALL, CORE, TOOLS = 5_500, 2_500, 52

#: Tokens of each dialect, which only those pay who ask for it.
DIALECTS = {"rtc": 1_500, "connect": 1_400}


async def run(sizes: Sizes) -> list[Row]:
    async with jupyter() as server:
        async with connect(server.url, server.token) as ada:
            costs = cost((await ada.client.list_tools()).tools)
        async with connect(server.url, server.token, toolsets="core") as ada:
            core = cost((await ada.client.list_tools()).tools)
        dialects = {}
        for name in DIALECTS:
            async with connect(server.url, server.token, toolsets=name) as ada:
                dialects[name] = cost((await ada.client.list_tools()).tools)
    total = sum(costs.values())
    return [
        *(Row.absolute("tokens", name, [cost], None, "tokens") for name, cost in costs.items()),
        Row.absolute("tokens", f"default {len(costs)}", [total], Goal(ALL), "tokens"),
        Row.absolute("tokens", "average", [total / len(costs)], Goal(ALL / TOOLS), "tokens"),
        Row.absolute("tokens", f"core {len(core)}", [sum(core.values())], Goal(CORE), "tokens"),
        *(
            Row.absolute(
                "tokens",
                f"{name} {len(costs)}",
                [sum(costs.values())],
                Goal(DIALECTS[name]),
                "tokens",
            )
            for name, costs in dialects.items()
        ),
    ]


def cost(tools: Iterable[Tool]) -> dict[str, float]:
    """The tokens of each tool, as a client shows it to a model."""
    return {
        tool.name: len(compact([tool.name, tool.description, tool.input_schema]))
        / CHARACTERS_PER_TOKEN
        for tool in tools
        if tool.name != NOOP
    }


def compact(value: object) -> str:
    """JSON without a needless character."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
