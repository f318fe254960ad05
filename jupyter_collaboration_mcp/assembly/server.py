"""The MCP server of either front door. Importing this imports the MCP SDK, which takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..documents.images import ImageLimits
from ..server.gate import ServerOptions
from ..server.server import build_server
from ..settings.settings import Settings
from ..tools.parts import Host
from ..workspace.sites import Sites

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def make_server(settings: Settings, sites: Sites, host: Host) -> MCPServer:
    """The MCP server for some Jupyter servers."""
    options = ServerOptions(
        settings.toolsets,
        settings.permission.highest,
        settings.agent_name,
        _image_limits(settings),
        settings.structured,
        settings.mode == "propose",
    )
    return build_server(sites, options, host)


def _image_limits(settings: Settings) -> ImageLimits | None:
    width, height = settings.max_image_width, settings.max_image_height
    return ImageLimits(width, height) if width > 0 and height > 0 else None
