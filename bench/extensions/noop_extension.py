"""A Jupyter extension for the benchmarks: our own MCP server with a no-op tool.

Extensions are loaded in the order of their names, and this one's is after ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_server.serverapp import ServerApp

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from jupyter_collaboration_mcp.transport.endpoint import MCPEndpoint


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    ours = serverapp.web_app.settings["jupyter_collaboration_mcp"]
    endpoint: MCPEndpoint = ours._endpoint
    build = endpoint._build

    def build_with_noop() -> MCPServer[Any]:
        from bench.bare import add_noop

        server = build()
        add_noop(server)
        return server

    endpoint._build = build_with_noop
