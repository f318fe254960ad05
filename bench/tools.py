"""What the list of tools costs a model in tokens, before it has done anything."""

from __future__ import annotations

import json

from .bare import NOOP
from .measuring import Goal, Row, Sizes
from .serving import connect, jupyter

CHARACTERS_PER_TOKEN = 4

GOAL = Goal(150)


async def run(sizes: Sizes) -> list[Row]:
    async with jupyter() as server, connect(server.url, server.token) as ada:
        listed = (await ada.client.list_tools()).tools
    costs = {}
    for tool in listed:
        if tool.name != NOOP:
            shown = [tool.name, tool.description, tool.input_schema]
            costs[tool.name] = len(compact(shown)) / CHARACTERS_PER_TOKEN
    total = sum(costs.values())
    return [
        *(Row.absolute("tools", name, [cost], None, "tokens") for name, cost in costs.items()),
        Row.absolute("tools", f"all {len(costs)}", [total], None, "tokens"),
        Row.absolute("tools", "average", [total / len(costs)], GOAL, "tokens"),
    ]


def compact(value: object) -> str:
    """JSON without a needless character."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
