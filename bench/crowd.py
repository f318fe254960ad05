"""Two hundred agents connect, fifty of them work for a minute, faster than they may, and all leave.

How long others wait for the server meanwhile, whether the limits hold, and what memory stays.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import psutil  # type: ignore[import-untyped]

from tests.harness.agents import LEGACY
from tests.harness.jupyter import JupyterProcess

from .measuring import Goal, Row, Sizes
from .serving import asking, jupyter, make_notebook, source

#: Agents that connect, those that work, and for how many seconds.
AGENTS, ACTIVE, SECONDS = 200, 50, 60.0

#: Calls of each in a minute that are allowed; and seconds from one to the next, so that an active
#: agent makes more than that, even though it may make twice as many in the first minute.
RATE, _PAUSE = 40, 0.5

#: Notebooks that they work in.
NOTEBOOKS = 10

PATIENCE, LEFT = Goal(150), Goal(1.1)

#: Seconds until Jupyter has saved a document and forgotten its room.
_PUT_AWAY = 4.0

_HEADERS = {"Accept": "application/json, text/event-stream"}

_HASTY = {
    "YDocExtension": {"document_cleanup_delay": 1},
    "JupyterCollaborationMCP": {"idle_timeout": 2.0, "rate_limit": RATE},
}


class Worker:
    """An agent with a session, over raw HTTP: two hundred clients of the SDK would be the load."""

    def __init__(self, http: httpx2.AsyncClient, server: JupyterProcess, number: int) -> None:
        self._http, self._number = http, number
        self._url = f"{server.url}mcp?structured=true"
        self._tokens = f"{server.url}api/collaboration-mcp/tokens"
        self._path = f"crowd-{number % NOTEBOOKS}.ipynb"
        self._headers = dict(_HEADERS)
        self._calls = 0
        self.outcomes: Counter[str] = Counter()

    async def connect(self) -> None:
        """With a token of its own: what is sent with one credential is limited, too."""
        wanted = {"agent": f"Agent {self._number}", "expires_in": 600}
        made = (await self._http.post(self._tokens, json=wanted)).raise_for_status().json()
        self._headers["Authorization"] = f"Bearer {made['token']}"
        params: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": LEGACY, "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        answer = await self._http.post(self._url, json=body, headers=self._headers)
        answer.raise_for_status()
        self._headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        self._headers["MCP-Protocol-Version"] = "2025-11-25"

    async def call(self, tool: str, **arguments: Any) -> str:
        """The outcome of a call."""
        self._calls += 1
        params = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": self._calls + 1, "method": "tools/call", "params": params}
        answer = await self._http.post(self._url, json=body, headers=self._headers)
        if answer.status_code != 200:
            return str(answer.status_code)
        text = answer.text
        if '"isError":true' not in text:
            return "ok"
        return "limited" if "rate_limited" in text else "error"

    async def work(self, until: float) -> None:
        """Read and edit, whatever the server says about going on later."""
        cell = f"cell-{self._number % 10:05d}"
        while time.monotonic() < until:
            update = {"cell_id": cell, "content": source(self._calls)}
            if self._calls % 3:
                said = await self.call("get_notebook", path=self._path, cell_ids=[cell])
            else:
                more: dict[str, Any] = {"updates": [update], "exec": False}
                said = await self.call("batch_update_notebook_cells", path=self._path, **more)
            self.outcomes[said] += 1
            await asyncio.sleep(_PAUSE * random.random() * 2)

    async def leave(self) -> None:
        await self._http.delete(self._url, headers=self._headers)


async def run(sizes: Sizes) -> list[Row]:
    share = min(1.0, sizes.calls / 200)
    agents, active = max(4, round(AGENTS * share)), max(2, round(ACTIVE * share))
    seconds = SECONDS * share
    async with jupyter(_HASTY) as server, AsyncExitStack() as stack:
        for number in range(NOTEBOOKS):
            make_notebook(server.root, f"crowd-{number}.ipynb", 10)
        http = await stack.enter_async_context(_client(server))
        # What is imported, cached and set aside once does not belong to the crowd.
        async with _client(server) as theirs:
            count = max(NOTEBOOKS, active // 2)
            first = [Worker(theirs, server, -1 - number) for number in range(count)]
            await _be_there(first, seconds / 6)
        process = psutil.Process(server.pid)
        await _settled(http, server)
        before = process.memory_info().rss / 1e6
        # Who leaves closes its connections, too.
        async with _client(server) as theirs, asking(server) as times:
            workers = [Worker(theirs, server, number) for number in range(agents)]
            await asyncio.gather(*(worker.connect() for worker in workers))
            until = time.monotonic() + seconds
            await asyncio.gather(*(worker.work(until) for worker in workers[:active]))
            most = process.memory_info().rss / 1e6
            await asyncio.gather(*(worker.leave() for worker in workers))
        await _settled(http, server)
        after = process.memory_info().rss / 1e6
    outcomes: Counter[str] = Counter()
    for worker in workers:
        outcomes += worker.outcomes
    # A bucket is full at the start, and is filled again meanwhile.
    allowed = RATE * (1 + seconds / 60)
    excess = max(worker.outcomes["ok"] for worker in workers) / allowed
    said = ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()))
    ordered = sorted(times)
    patience = ordered[round(0.99 * (len(ordered) - 1))]
    case = f"{agents} agents, {active} active, {seconds:.0f} s"
    worst, count = ordered[-1], len(times)
    waited = f"{case}: /api/status, 99 % and worst"
    called = f"{case}: calls of the fastest, against the limit ({said})"
    left = f"{case}: memory after they left, against before (most: {most:.0f})"
    total = sum(outcomes.values())
    fastest = excess * allowed
    return [
        Row("crowd", waited, count, "ms", None, None, patience, worst, patience, PATIENCE),
        Row("crowd", called, total, "calls", allowed, None, fastest, None, excess, Goal(1.02)),
        Row("crowd", left, 1, "MB", before, None, after, None, after / before, LEFT),
    ]


def _client(server: JupyterProcess) -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=100, max_keepalive_connections=100)
    return httpx2.AsyncClient(headers=server.headers, timeout=60, limits=limits)


async def _be_there(workers: list[Worker], seconds: float) -> None:
    for worker in workers:
        await worker.connect()
    until = time.monotonic() + seconds
    await asyncio.gather(*(worker.work(until) for worker in workers))
    for worker in workers:
        await worker.leave()


async def _settled(http: httpx2.AsyncClient, server: JupyterProcess) -> None:
    """Return when everybody has left all documents, and Jupyter has put them away."""
    none = re.compile(r"^jupyter_collaboration_mcp_open_documents 0", re.MULTILINE)
    async with asyncio.timeout(60):
        # Only the server knows, so it has to be asked.
        while not none.search(await _metrics(http, server)):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
    await asyncio.sleep(_PUT_AWAY)


async def _metrics(http: httpx2.AsyncClient, server: JupyterProcess) -> str:
    return (await http.get(f"{server.url}metrics")).text
