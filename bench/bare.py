"""The floor under the transport: the SDK's own server under uvicorn. `python -m bench.bare`."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult

NOOP = "noop"

_NOTHING = CallToolResult(content=[])


async def _noop() -> CallToolResult:
    """Do nothing."""
    return _NOTHING


def add_noop(server: MCPServer[Any]) -> None:
    """Give a server a tool as cheap as one can be: no arguments, no context, a ready answer."""
    server.add_tool(_noop, name=NOOP, structured_output=False)


async def serve() -> None:
    """Serve until killed; the first line on standard output is the port."""
    mcp: MCPServer[Any] = MCPServer("bare", log_level="WARNING")
    add_noop(mcp)
    # The port must be uvicorn's own choice: a socket that is handed to it gets no TCP_NODELAY from
    # asyncio, and each answer of the newer era would take 40 ms, a floor that is none.
    server = uvicorn.Server(uvicorn.Config(mcp.streamable_http_app(), port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await serving


if __name__ == "__main__":
    asyncio.run(serve())
