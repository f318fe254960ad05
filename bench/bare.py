"""The floor under the transport: the SDK's own server under uvicorn. `python -m bench.bare`."""

from __future__ import annotations

import socket
from typing import Any

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


def main() -> None:
    """Serve until killed; the first line on standard output is the port."""
    import uvicorn

    server: MCPServer[Any] = MCPServer("bare")
    add_noop(server)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
