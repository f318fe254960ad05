"""An agent whose connection may break, and is made again when the server is back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from mcp_types import CallToolResult

from .agents import AgentClient, agent
from .jupyter import JupyterProcess
from .standalone import StandaloneProcess

Call = tuple[str, dict[str, Any], asyncio.Future[CallToolResult | None]]


class Line:
    """One agent's connection to a server that may be killed at any moment.

    The client lives in a task of its own: when the connection breaks, the SDK cancels the task
    that entered it.

    Args:
        server: Where the agent is connected.
        name: The agent.
        up: Waits until the server can be reached.
    """

    def __init__(
        self,
        server: JupyterProcess | StandaloneProcess,
        name: str,
        up: Callable[[], Any],
    ) -> None:
        self._server, self.name, self._up = server, name, up
        self._calls: asyncio.Queue[Call] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def call(self, tool: str, **arguments: Any) -> CallToolResult | None:
        """The answer of a tool, or None if the connection broke before it came."""
        answer: asyncio.Future[CallToolResult | None] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((tool, arguments, answer))
        return await answer

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(self, *exception: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _stay_connected(self) -> None:
        while True:
            await self._up()
            # A group of errors, from the tasks of a client whose connection is lost.
            with suppress(Exception):
                async with agent(self._server, self.name) as client:
                    await self._serve(client)
            await asyncio.sleep(0.05)

    async def _serve(self, client: AgentClient) -> None:
        while True:
            tool, arguments, answer = await self._calls.get()
            try:
                result = await client.call(tool, **arguments)
                answer.set_result(result)
            finally:
                if not answer.done():
                    answer.set_result(None)
