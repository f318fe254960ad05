"""A Jupyter extension for the tests: the conformance suite's diagnostic tools on our own server.

Some checks can only be made of a server that has the tools that the suite calls. They are added
to the server that our extension builds, so it is our transport, gate and middleware that answer.
Extensions are loaded in the order of their names, and this one's is after ours.
"""

import itertools
from typing import Annotated, Any

from jupyter_server.serverapp import ServerApp
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from mcp.server.mcpserver.prompts import Prompt
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel

from jupyter_collaboration_mcp.transport.endpoint import MCPEndpoint


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    ours = serverapp.web_app.settings["jupyter_collaboration_mcp"]
    endpoint: MCPEndpoint = ours._endpoint
    build = endpoint._build

    def build_with_diagnostics() -> MCPServer[Any]:
        server = build()
        _add_diagnostics(server)
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

    @server.tool(name="test_trigger_tool_change")
    async def change_tools(ctx: Context[Any, Any]) -> str:
        """Adds a tool."""
        name = f"test_added_tool_{next(changes)}"
        server.add_tool(_nothing, name=name)
        await ctx.notify_tools_changed()
        return name

    @server.tool(name="test_trigger_prompt_change")
    async def change_prompts(ctx: Context[Any, Any]) -> str:
        """Adds a prompt."""
        name = f"test_added_prompt_{next(changes)}"
        server.add_prompt(Prompt.from_function(_nothing, name=name))
        await ctx.notify_prompts_changed()
        return name


def _nothing() -> str:
    """Does nothing."""
    return ""
