"""For the tests, a Jupyter extension: our server, with what the conformance suite calls and reads.

Some checks can only be made of a server that has the tools, resources and prompts of the suite.
They are added to the server that our extension builds, so it is our transport, gate and handlers
that answer. Extensions are loaded in the order of their names, and this one's is after ours.
"""

import asyncio
import itertools
from functools import partial
from typing import Annotated, Any

from jupyter_server import CallContext
from jupyter_server.serverapp import ServerApp
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

from jupyter_collaboration_mcp.prompts import PROMPTS
from jupyter_collaboration_mcp.resources import RESOURCES
from jupyter_collaboration_mcp.resources.watching import ListWatch
from jupyter_collaboration_mcp.server.server import CollaborationServer
from jupyter_collaboration_mcp.tools.parts import Extension, Parts
from jupyter_collaboration_mcp.tools.registration import make_all
from jupyter_collaboration_mcp.transport.bridge import MCPHandler
from jupyter_collaboration_mcp.transport.endpoint import MCPEndpoint
from jupyter_collaboration_mcp.transport.streams import PRIMING
from jupyter_collaboration_mcp.workspace.sites import Sites

from .suite_content import SUITE_PROMPTS, SuiteResources


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    ours = serverapp.web_app.settings["jupyter_collaboration_mcp"]
    endpoint: MCPEndpoint = ours._endpoint
    build = endpoint._build
    sites: Sites = ours._assembly._sites

    def build_with_diagnostics() -> MCPServer[Any]:
        server = build()
        assert isinstance(server, CollaborationServer)
        _add_diagnostics(server)
        parts = Parts(sites, None, Extension())
        kinds = [*make_all(RESOURCES, parts), ("suite", SuiteResources())]
        prompts = [*make_all(PROMPTS, parts), *SUITE_PROMPTS]
        server.serve_resources(kinds, partial(ListWatch, sites))
        server.serve_prompts(prompts)
        server.serve_completions(kinds, prompts)
        return server

    endpoint._build = build_with_diagnostics


class _Confirmation(BaseModel):
    confirmed: bool


def _ask_the_model() -> Sample:
    question = TextContent(type="text", text="Are you there?")
    return Sample([SamplingMessage(role="user", content=question)], max_tokens=10)


async def _ask_the_person(ctx: Context[Any, Any]) -> Elicit[_Confirmation]:
    await ctx.report_progress(1, 2, "asking")
    return Elicit("Shall this go on?", _Confirmation)


def _add_diagnostics(server: MCPServer[Any]) -> None:
    changes = itertools.count(1)

    @server.tool(name="test_missing_capability")
    async def missing_capability(
        answer: Annotated[CreateMessageResult, Resolve(_ask_the_model)],
    ) -> str:
        """Needs a client that can sample."""
        return answer.model

    @server.tool(name="test_streaming_elicitation")
    async def streaming_elicitation(
        answer: Annotated[_Confirmation, Resolve(_ask_the_person)],
    ) -> str:
        """Asks the person while the answer is streamed."""
        return str(answer.confirmed)

    @server.tool(name="test_logging_tool")
    async def log(ctx: Context[Any, Any]) -> str:
        """Sends log messages to clients that want them."""
        await ctx.debug("a detail")
        await ctx.error("a problem")
        return "logged"

    @server.tool(name="test_reconnection")
    async def lose_connection() -> str:
        """Ends its connection before it answers, as a proxy does that has waited long enough."""
        handler = CallContext.get(CallContext.JUPYTER_HANDLER)
        assert isinstance(handler, MCPHandler)
        await asyncio.sleep(2 * PRIMING)
        await handler.finish()
        return "answered"

    @server.tool(name="test_trigger_tool_change")
    async def change_tools(ctx: Context[Any, Any]) -> str:
        """Adds a tool."""
        name = f"test_added_tool_{next(changes)}"
        server.add_tool(_nothing, name=name)
        await ctx.notify_tools_changed()
        return name

    @server.tool(name="test_trigger_prompt_change")
    async def change_prompts(ctx: Context[Any, Any]) -> str:
        """Tells clients that there are other prompts."""
        await ctx.notify_prompts_changed()
        return "told"


def _nothing() -> str:
    """Does nothing."""
    return ""
