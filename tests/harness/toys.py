"""Our MCP server with toy tools, resources and prompts instead of its own."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

from jupyter_collaboration_mcp.prompts.kinds import Prompt
from jupyter_collaboration_mcp.resources.kinds import ResourceKind
from jupyter_collaboration_mcp.server.gate import ServerOptions
from jupyter_collaboration_mcp.server.server import build_server
from jupyter_collaboration_mcp.tools.parts import Extension
from jupyter_collaboration_mcp.tools.registration import Registration
from jupyter_collaboration_mcp.workspace.sites import Sites


def serve(
    *,
    tools: object | None = None,
    resource: ResourceKind | None = None,
    prompt: Prompt | None = None,
) -> MCPServer:
    """A server without Jupyter, of what is given."""
    toolsets = [] if tools is None else [Registration("notebook", lambda _: tools)]
    resources = [] if resource is None else [Registration("toy", lambda _: resource)]
    prompts = [] if prompt is None else [Registration("toy", lambda _: prompt)]
    return build_server(
        Sites([]),
        ServerOptions(),
        Extension(),
        toolsets=toolsets,
        resources=resources,
        prompts=prompts,
    )
