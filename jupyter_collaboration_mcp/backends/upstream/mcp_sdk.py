"""Private parts of the MCP SDK that we need.

The SDK takes a second to import, so these are checked once a first request has loaded it.
"""

from __future__ import annotations

import sys
from abc import abstractmethod

from .workaround import Server, Workaround, changed_signature, missing_fields

#: The last module of the SDK that we import.
_SDK = "mcp.server.streamable_http_manager"


class SdkWorkaround(Workaround):
    """A workaround for the MCP SDK."""

    package = "mcp"
    stage = "first MCP request"
    optional = False

    def check(self, server: Server) -> list[str]:
        return self.mismatches()

    def check_if_loaded(self) -> list[str]:
        """The same, once somebody else has imported the SDK."""
        return self.mismatches() if _SDK in sys.modules else []

    @abstractmethod
    def mismatches(self) -> list[str]:
        """What differs, for any server."""


class LowLevelServer(SdkWorkaround):
    name = "low_level_server"
    fault = (
        "The session manager takes a low-level server, and `MCPServer` does not give its own "
        "away; its method that makes a manager allows requests to localhost only."
    )
    patches = ("MCPServer._lowlevel_server",)
    without = "there is no MCP endpoint; Jupyter works as before"

    def mismatches(self) -> list[str]:
        from mcp.server.mcpserver import MCPServer

        return missing_fields(MCPServer, "_lowlevel_server")


class ToolLookup(SdkWorkaround):
    name = "tool_lookup"
    fault = "Whether a server has a tool cannot be asked; a call of an unknown tool is no error."
    patches = ("MCPServer._tool_manager",)
    without = "no tool can be called"

    def mismatches(self) -> list[str]:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.tools import ToolManager

        return [
            *missing_fields(MCPServer, "_tool_manager"),
            *changed_signature(ToolManager, "get_tool", "name", is_async=False),
        ]


class SessionAdmission(SdkWorkaround):
    name = "session_admission"
    fault = "Sessions that clients leave open stay for half an hour, 50 KB each, up to 10,000."
    patches = ("StreamableHTTPSessionManager._admit_session",)
    without = "sessions that clients leave open take memory for half an hour"

    def mismatches(self) -> list[str]:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        return [
            *changed_signature(
                StreamableHTTPSessionManager, "_admit_session", "requestor", is_async=False
            ),
            *missing_fields(StreamableHTTPSessionManager, "_server_instances", "_session_owners"),
        ]
