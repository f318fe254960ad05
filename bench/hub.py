"""An edit in the server of a user of a JupyterHub: straight, through the Hub's proxy, and through
our service. Then many users at once, with one agent each, through one process of the service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path
from time import perf_counter

from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.hub import Hub, hub_agent
from tests.harness.waiting import until

from .measuring import Call, Goal, Row, Sizes, interleave

PROXY, SERVICE, ALIVE = Goal(1.5), Goal(2.0), Goal(150.0)

_PATH = "work.ipynb"

#: Seconds between two edits of an agent while all work.
_PAUSE = 0.5

#: Seconds between two questions whether all is well.
_LOOK = 0.05


async def run(sizes: Sizes) -> list[Row]:
    users = [f"user{number:02d}" for number in range(sizes.users)]
    async with Hub(*users, service=(), settings=_QUIET) as hub:
        few = asyncio.Semaphore(2)  # all at once would take longer than the Hub waits for one
        await asyncio.gather(*(_begin(hub, user, few) for user in users))
        return [*await _edit(hub, users[0], sizes), *await _all_at_once(hub, users, sizes)]


#: As in a Hub that is in use: the tests have it look at its proxy each second.
_QUIET = {"JupyterHub": {"last_activity_interval": 300, "log_level": "WARN"}}


async def _begin(hub: Hub, user: str, few: asyncio.Semaphore) -> None:
    for name in (_PATH, *(f"{way}.ipynb" for way in ("straight", "proxy", "service"))):
        cells = [notebooks.code("text", f"of {user}"), notebooks.code("other", "x")]
        notebooks.write(hub.root(user) / name, notebooks.notebook(cells))
    async with few:
        await hub.start(user)


async def _edit(hub: Hub, user: str, sizes: Sizes) -> list[Row]:
    token = await hub.token(user)
    urls = {
        "straight": f"{hub.own_url(user)}mcp",
        "proxy": f"{hub.url}user/{user}/mcp",
        "service": hub.service_url,
    }
    async with AsyncExitStack() as stack:
        edits: dict[str, Call] = {}
        for way, url in urls.items():
            agent = await stack.enter_async_context(hub_agent(url, token, way))
            edits[way] = _edits(agent, f"{way}.ipynb")
        times = await interleave(edits, sizes)
    floor = times["straight"]
    return [
        Row.compare("hub", "an edit through the Hub's proxy", floor, times["proxy"], PROXY),
        Row.compare("hub", "an edit through the service", floor, times["service"], SERVICE),
    ]


def _edits(agent: AgentClient, path: str) -> Call:
    numbers = count()

    async def edit() -> None:
        await agent.write(path, "text", f"number {next(numbers)}")

    return edit


async def _all_at_once(hub: Hub, users: list[str], sizes: Sizes) -> list[Row]:
    """Each agent edits its user's notebook, and nobody's text is ever in another one."""
    async with AsyncExitStack() as stack:
        tokens = {user: await hub.token(user) for user in users}
        agents = {
            user: await stack.enter_async_context(hub_agent(hub.service_url, token, "Ada"))
            for user, token in tokens.items()
        }
        for user, agent in agents.items():
            # The first call loads what a server needs, and its first save compiles a schema.
            await agent.write(_PATH, "text", f"{user} is ready")
        for user in users:
            await until(partial(_is_ready, hub.root(user) / _PATH))
        working = [
            asyncio.ensure_future(_work(agent, user, sizes.rounds))
            for user, agent in agents.items()
        ]
        health: list[float] = []
        status: list[float] = []
        while not all(task.done() for task in working):
            health.append(await _timed(partial(hub.http.get, f"{hub.url}hub/health")))
            user = users[len(status) % len(users)]
            headers = {"Authorization": f"token {tokens[user]}"}
            url = f"{hub.url}user/{user}/api/status"
            status.append(await _timed(partial(hub.http.get, url, headers=headers)))
            await asyncio.sleep(_LOOK)
        edits = [each for task in working for each in task.result()]
    named = f"{len(users)} users at once"
    return [
        Row.absolute("hub", f"{named}: an edit", edits, None, "ms"),
        Row.absolute("hub", f"{named}: worst /hub/health", [max(health)], ALIVE, "ms"),
        Row.absolute("hub", f"{named}: worst /api/status", [max(status)], ALIVE, "ms"),
    ]


def _is_ready(notebook: Path) -> bool:
    return "is ready" in notebook.read_text()


async def _work(agent: AgentClient, user: str, rounds: int) -> list[float]:
    times = []
    for number in range(rounds):
        await asyncio.sleep(_PAUSE)
        text = f"{user}, {number}"
        times.append(await _timed(partial(agent.write, _PATH, "text", text)))
        read = await agent.sources(_PATH)
        if read != [text, "x"]:
            raise AssertionError(f"{user} reads {read}")
    return times


async def _timed(call: Callable[[], Awaitable[object]]) -> float:
    began = perf_counter()
    await call()
    return (perf_counter() - began) * 1000
