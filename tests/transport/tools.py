"""The MCP server of the test extension: tools that show what a tool can see.

A module of its own, imported with the first request: the SDK resolves annotations among the
globals of the tool's module, so `Context` must be one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

from jupyter_collaboration_mcp.server.caller import SCOPE_KEY, Caller

#: Less than the 15 s after which the SDK pings, and so finds a closed connection anyway.
LIMIT = 10.0


def build() -> MCPServer:
    server = MCPServer("transport", version="0")
    started: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
    released: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
    lines: defaultdict[str, asyncio.Queue[str]] = defaultdict(asyncio.Queue)
    outcomes: defaultdict[str, asyncio.Future[str]] = defaultdict(asyncio.Future)

    def request_of(context: Context[Any, Any]) -> Any:
        assert context.request_context.request is not None
        return context.request_context.request

    def caller_of(context: Context[Any, Any]) -> Caller:
        caller = request_of(context).scope[SCOPE_KEY]
        assert isinstance(caller, Caller)
        return caller

    @server.tool()
    async def echo(text: str) -> str:
        """Say the same."""
        return text

    @server.tool()
    async def hold(name: str, ctx: Context[Any, Any]) -> str:
        """Report progress, then wait for `release`."""
        started[name].set()
        try:
            await ctx.report_progress(1, 2, "holding")
            await asyncio.wait_for(released[name].wait(), 10 * LIMIT)
        except asyncio.CancelledError:
            outcomes[name].set_result("cancelled")
            raise
        outcomes[name].set_result("finished")
        return "released"

    @server.tool()
    async def narrate(name: str, ctx: Context[Any, Any]) -> str:
        """Report what `tell` says, until it says nothing."""
        told = 0
        while line := await asyncio.wait_for(lines[name].get(), 10 * LIMIT):
            told += 1
            await ctx.report_progress(told, None, line)
        return "the end"

    @server.tool()
    async def tell(name: str, texts: list[str]) -> str:
        """Let `narrate` report something."""
        for each in texts:
            lines[name].put_nowait(each)
        return name

    @server.tool()
    async def flood(count: int, size: int, ctx: Context[Any, Any]) -> str:
        """Report much progress."""
        for number in range(count):
            await ctx.report_progress(number, None, "x" * size)
        return "x" * size

    @server.tool()
    async def announce(ctx: Context[Any, Any]) -> str:
        """Notify the session, not the call."""
        await ctx.session.send_tool_list_changed()
        return "announced"

    @server.tool(name="started")
    async def wait_for_start(name: str) -> str:
        """Wait until `hold` runs."""
        await asyncio.wait_for(started[name].wait(), LIMIT)
        return name

    @server.tool()
    async def release(name: str) -> str:
        """Let `hold` go on."""
        released[name].set()
        return name

    @server.tool()
    async def outcome(name: str) -> str:
        """Wait until `hold` has ended and say how."""
        return await asyncio.wait_for(asyncio.shield(outcomes[name]), LIMIT)

    @server.tool()
    async def whoami(ctx: Context[Any, Any]) -> dict[str, Any]:
        """Who the transport says that I am."""
        caller = caller_of(ctx)
        asked = caller.options
        return {
            "credential": caller.credential,
            "agent": asked.agent,
            "toolsets": list(asked.toolsets),
            "permission": None if asked.permission is None else asked.permission.name,
        }

    @server.tool()
    async def may(action: str, resource: str, path: str, ctx: Context[Any, Any]) -> bool:
        """Ask Jupyter's authorizer."""
        return await caller_of(ctx).authorize(action, resource, path)

    @server.tool()
    async def may_both(first: str, second: str, ctx: Context[Any, Any]) -> list[bool]:
        """Ask Jupyter's authorizer two questions at a time."""
        ask = caller_of(ctx).authorize
        return list(
            await asyncio.gather(ask("read", "contents", first), ask("read", "contents", second))
        )

    @server.tool()
    async def look(ctx: Context[Any, Any]) -> str:
        """Everything there is to see of the request."""
        request = request_of(ctx)
        seen = [request.scope, request.url, request.headers, request.cookies, request.query_params]
        seen += [ctx.headers, request.user.display_name, vars(request.user.access_token)]
        return repr(seen)

    @server.tool()
    async def logging_state() -> dict[str, Any]:
        """The root logger of this process."""
        root = logging.getLogger()
        return {"handlers": [repr(h) for h in root.handlers], "level": root.level}

    return server
