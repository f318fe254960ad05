"""What is registered is served: toolsets, kinds of resources and prompts, each in one way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver.prompts import Prompt
from mcp_types import GetPromptResult, TextContent, TextResourceContents

from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.resources import RESOURCES
from jupyter_collaboration_mcp.resources.kinds import Content
from jupyter_collaboration_mcp.tools import TOOLSETS, toolset_names
from jupyter_collaboration_mcp.tools.parts import Extension, Parts, Standalone
from jupyter_collaboration_mcp.tools.registration import Registration
from jupyter_collaboration_mcp.tools.registry import Answer, all_tools, tool
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.permits import Call
from jupyter_collaboration_mcp.workspace.sites import Site, Sites
from tests.harness.agents import text_of
from tests.harness.toys import serve

pytestmark = pytest.mark.anyio


async def connect(url: str, alias: str | None) -> Site:
    raise NotImplementedError


class Toys:
    @tool("Name", Level.read)
    async def name_of_this_call(self, call: Call) -> Answer:
        """Say what was called."""
        return Answer(call.tool, {})


class ToyResource:
    template = "toy://{name}"
    description = "A toy."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        scheme, _, name = uri.partition("://")
        if scheme != "toy":
            return None
        await call.authorize(Level.write if name == "forbidden" else Level.read)
        return [Content("text/plain", f"{name} for {call.agent.name}")]


async def test_a_call_knows_the_name_of_its_tool() -> None:
    async with Client(serve(tools=Toys())) as client:
        assert text_of(await client.call_tool("name_of_this_call", {})) == "name_of_this_call"


async def test_a_kind_of_resource_is_listed_and_read() -> None:
    async with Client(serve(resource=ToyResource())) as client:
        (template,) = (await client.list_resource_templates()).resource_templates
        assert (template.uri_template, template.name) == ("toy://{name}", "toy")
        assert template.description == "A toy."
        (content,) = (await client.read_resource("toy://ball")).contents
        assert isinstance(content, TextResourceContents)
        assert content.text.startswith("ball for ")
        with pytest.raises(MCPError, match="Addresses are toy://"):
            await client.read_resource("other://ball")


async def test_reading_a_resource_never_grants_more_than_read_permission() -> None:
    async with Client(serve(resource=ToyResource())) as client:
        with pytest.raises(MCPError):
            await client.read_resource("toy://forbidden")


async def test_a_prompt_is_listed_and_filled_in() -> None:
    def explain(path: str) -> str:
        """Explain a notebook."""
        return f"Read {path} and explain it."

    async with Client(serve(prompt=Prompt.from_function(explain))) as client:
        (listed,) = (await client.list_prompts()).prompts
        assert (listed.name, listed.description) == ("explain", "Explain a notebook.")
        filled = await client.get_prompt("explain", {"path": "a.ipynb"})
        assert isinstance(filled, GetPromptResult)
        (message,) = filled.messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Read a.ipynb and explain it."


def test_only_the_command_offers_its_own_tools() -> None:
    toolsets = (
        Registration("everywhere", lambda _: Toys()),
        Registration("command", lambda _: Toys(), standalone=True),
    )

    def offered(host: Extension | Standalone) -> list[str]:
        return [each.toolset for each in all_tools(Parts(Sites(), None, host), toolsets)]

    assert offered(Extension()) == ["everywhere"]
    assert offered(Standalone(connect)) == ["everywhere", "command"]


def test_every_registered_toolset_can_be_chosen() -> None:
    assert toolset_names(", ".join(each.name for each in TOOLSETS)) == {
        each.name for each in TOOLSETS
    }
    with pytest.raises(InvalidArgument, match="There is no toolset nowhere") as refused:
        toolset_names("notebook,nowhere")
    for each in TOOLSETS:
        assert each.name in refused.value.next_step


def test_everything_registered_can_be_created() -> None:
    parts = Parts(Sites(), None, Standalone(connect))
    assert {each.toolset for each in all_tools(parts)} == {each.name for each in TOOLSETS}
    for each in RESOURCES:
        assert each.make(parts).template.startswith("notebook://")


def test_nothing_is_left_to_import_when_the_server_is_built() -> None:
    """That happens on Jupyter's event loop, and importing takes long."""
    code = """
import sys
from importlib import import_module
from jupyter_collaboration_mcp.server import MODULES
assert not {"mcp", "pydantic", "starlette"} & set(sys.modules)
for module in MODULES:
    import_module(module)
from jupyter_collaboration_mcp.server.gate import ServerOptions
from jupyter_collaboration_mcp.server.server import build_server
from jupyter_collaboration_mcp.tools.parts import Extension
from jupyter_collaboration_mcp.workspace.sites import Sites
before = set(sys.modules)
build_server(Sites(), ServerOptions(), Extension())
print({name for name in set(sys.modules) - before if name.startswith("jupyter_collaboration_mcp")})
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "set()"
