"""MCP over standard input and output, to which nothing else is ever written."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


def say(line: str) -> None:
    """Print a line for the person, to stderr: standard output belongs to MCP."""
    print(line, file=sys.stderr, flush=True)


def take_standard_output() -> int:
    """Reserve standard output for MCP; returns its new file descriptor.

    Anything else that is printed goes to standard error, from the first import to the exit of the
    process. The SDK redirects it only while it serves.
    """
    sys.stdout.flush()
    wire = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return wire


async def serve_stdio(server: MCPServer, wire: int) -> None:
    """Serve one client until it closes our standard input."""
    import anyio
    from mcp.server.stdio import stdio_server

    # Never closed: a thread of the SDK may still write to it after everything else has ended.
    text = TextIOWrapper(os.fdopen(wire, "wb", closefd=False), encoding="utf-8")
    lowlevel = server._lowlevel_server
    async with stdio_server(stdout=anyio.wrap_file(text)) as (read, write):
        await lowlevel.run(read, write, lowlevel.create_initialization_options())
