"""Agents: the official MCP client, with the few words that a test needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from mcp import Client
from mcp_types import CallToolResult, TextContent

from .jupyter import JupyterProcess

MODERN, LEGACY = "2026-07-28", "legacy"


class AgentClient:
    """One agent's connection to `/mcp`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The facts of an answer that must be a success."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        facts: dict[str, Any] = result.structured_content
        return facts

    async def say(self, tool: str, **arguments: Any) -> str:
        """The text of an answer that must be a success."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result)

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The error of an answer that must be one; its text names code and next step."""
        result = await self.call(tool, **arguments)
        assert result.is_error, text_of(result)
        error: dict[str, Any] = result.structured_content["error"]
        assert text_of(result).startswith(f"{error['code']}: ")
        assert f"Next: {error['next_step']}" in text_of(result)
        return error

    async def sources(self, path: str) -> list[str]:
        """All cells' sources, as this agent reads them."""
        notebook = await self.ask("get_notebook", path=path)
        assert "next_index" not in notebook
        return [cell["source"] for cell in notebook["cells"]]

    async def replace(self, path: str, cell_id: str, old: str, new: str, **more: Any) -> Any:
        """One literal replacement in one cell."""
        update = {"cell_id": cell_id, "old_text": old, "new_text": new, **more}
        return await self.ask(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )

    async def write(self, path: str, cell_id: str, content: str, **more: Any) -> Any:
        """New content for one cell."""
        update = {"cell_id": cell_id, "content": content, **more}
        return await self.ask(
            "batch_update_notebook_cells", path=path, updates=[update], exec=False
        )


@asynccontextmanager
async def agent(
    server: JupyterProcess, name: str = "Ada", mode: str = MODERN, **query: str
) -> AsyncIterator[AgentClient]:
    """An agent connected with the server's token."""
    parameters = urlencode({"token": server.token, "agent": name, **query})
    async with Client(f"{server.url}mcp?{parameters}", mode=mode) as client:
        yield AgentClient(client)


def text_of(result: CallToolResult) -> str:
    """All text of an answer."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))
