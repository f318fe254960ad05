"""Agents: the official MCP client, with the few words that a test needs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from mcp import Client
from mcp.client.session import MessageHandlerFnT
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent

from . import forking
from .jupyter import JupyterProcess
from .standalone import BEARER, StandaloneProcess, environment

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
    server: JupyterProcess | StandaloneProcess,
    name: str | Sequence[str] = "Ada",
    mode: str = MODERN,
    bearer: str = BEARER,
    works: str | None = None,
    on_message: MessageHandlerFnT | None = None,
    **query: str | Sequence[str],
) -> AsyncIterator[AgentClient]:
    """An agent connected to `/mcp` of a server, or to the command that is joined to it.

    What is given as several texts stands in the URL as often. Unless it says otherwise, it gets the
    facts of answers as JSON, too.

    Args:
        mode: The era of the protocol.
        works: The `mode` in the URL: whether it edits or proposes.
        on_message: Called with what the server sends in a session by itself.
    """
    if works is not None:
        query["mode"] = works
    query.setdefault("structured", "true")
    beside = server if isinstance(server, StandaloneProcess) else server.standalone
    if beside is not None:
        url, headers = beside.url, {"Authorization": f"Bearer {bearer}"}
    else:
        assert isinstance(server, JupyterProcess)
        url, headers = f"{server.url}mcp", {}
        query["token"] = server.token
    address = f"{url}?{urlencode({'agent': name, **query}, doseq=True)}"
    async with (
        # To load the certificates of this machine takes longer than most calls.
        httpx2.AsyncClient(
            headers=headers, timeout=httpx2.Timeout(30, read=300), verify=False
        ) as http,
        Client(
            streamable_http_client(address, http_client=http),
            mode=mode,
            message_handler=on_message,
        ) as client,
    ):
        client.session.validate_tool_result = _nothing_to_validate  # type: ignore[method-assign]
        yield AgentClient(client)


async def _nothing_to_validate(name: str, result: CallToolResult) -> None:
    """No tool of ours has a schema of its output (`test_hints.py` shows that).

    To learn that, the SDK would list all tools for each client, which takes longer than most calls.
    """


@asynccontextmanager
async def over_stdio(
    home: Path,
    *arguments: str,
    cwd: Path | None = None,
    module: str = "jupyter_collaboration_mcp.cli",
    mode: str = "auto",
    on_message: MessageHandlerFnT | None = None,
    **more: str,
) -> AsyncIterator[AgentClient]:
    """An agent whose client has started the command for it, as a process of its own.

    It is forked from one that has imported everything, unless `more` tells Python how to start.
    """
    by_itself = any(name.startswith("PYTHON") for name in more)
    command = [sys.executable, "-m", module] if by_itself else forking.command(module)
    parameters = StdioServerParameters(
        command=command[0],
        args=[*command[1:], *arguments],
        env=environment(home, **more),
        cwd=cwd or home,
    )
    async with Client(stdio_client(parameters), mode=mode, message_handler=on_message) as client:
        yield AgentClient(client)


def mcp_address(server: JupyterProcess) -> tuple[str, dict[str, str]]:
    """Where agents reach a server, and what they send to be let in."""
    if server.standalone is None:
        return f"{server.url}mcp", server.headers
    return server.standalone.url, {"Authorization": f"Bearer {BEARER}"}


def structured_address(server: JupyterProcess) -> tuple[str, dict[str, str]]:
    """The same for one who gets facts as JSON, too."""
    url, headers = mcp_address(server)
    return f"{url}?structured=true", headers


def text_of(result: CallToolResult) -> str:
    """All text of an answer."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))
