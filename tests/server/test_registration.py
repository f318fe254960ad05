"""What is registered is served: toolsets, kinds of resources and prompts, each in one way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, PromptReference, TextContent, TextResourceContents

from jupyter_collaboration_mcp.errors import InvalidArgument
from jupyter_collaboration_mcp.prompts import PROMPTS
from jupyter_collaboration_mcp.prompts.kinds import Argument, Message
from jupyter_collaboration_mcp.resources import RESOURCES
from jupyter_collaboration_mcp.resources.kinds import Content, Kind
from jupyter_collaboration_mcp.tools import TOOLSETS, toolset_names
from jupyter_collaboration_mcp.tools.parts import Extension, Parts, Standalone
from jupyter_collaboration_mcp.tools.registration import Registration
from jupyter_collaboration_mcp.tools.registry import Answer, all_tools, tool
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.permits import Call
from jupyter_collaboration_mcp.workspace.sites import Site, Sites
from tests.harness.agents import LEGACY, MODERN, text_of
from tests.harness.toys import serve

pytestmark = pytest.mark.anyio


async def connect(url: str, alias: str | None) -> Site:
    raise NotImplementedError


class Toys:
    @tool("Name", Level.read)
    async def name_of_this_call(self, call: Call) -> Answer:
        """Say what was called."""
        return Answer(call.tool, {})


class ToyResource(Kind):
    template = "toy://{name}"
    description = "A toy."

    async def read(self, call: Call, uri: str) -> Sequence[Content] | None:
        scheme, _, name = uri.partition("://")
        if scheme != "toy":
            return None
        await call.authorize(Level.write if name == "forbidden" else Level.read)
        if name == "broken":
            raise ValueError("secret")
        text, lasting = f"{name} for {call.agent.name}", name.startswith("lasting")
        parts = [Content("text/plain", text, lasting=lasting)]
        return [*parts, Content("text/plain", "")] if name.endswith("and live") else parts


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


async def test_a_client_may_keep_only_what_stays_the_same_in_all_its_parts() -> None:
    async with Client(serve(resource=ToyResource())) as client:
        for name, kept in (("ball", 0), ("lasting", 3_600_000), ("lasting and live", 0)):
            result = await client.read_resource(f"toy://{name}")
            assert (result.ttl_ms, result.cache_scope) == (kept, "private")


async def test_reading_a_resource_never_grants_more_than_read_permission() -> None:
    async with Client(serve(resource=ToyResource())) as client:
        with pytest.raises(MCPError):
            await client.read_resource("toy://forbidden")


class ToyPrompt:
    title = "Explain"
    description = "Explain a notebook."
    arguments: Sequence[Argument] = (
        Argument("path", "Which one.", required=True),
        Argument("tone", "How."),
    )

    async def messages(
        self, call: Call, given: Mapping[str, str], tools: Collection[str]
    ) -> Sequence[Message]:
        await call.authorize(Level.write if given["path"] == "forbidden" else Level.read)
        if given["path"] == "broken":
            raise ValueError("secret")
        return [f"Read {given['path']} and explain it. {sorted(given)} {sorted(tools)}"]

    async def complete(
        self, call: Call, argument: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        values = [*given.values(), *(f"{argument}-{n}" for n in range(150))]
        return [value for value in values if value.startswith(beginning)]


async def test_a_prompt_is_listed_and_filled_in() -> None:
    async with Client(serve(prompt=ToyPrompt(), tools=Toys())) as client:
        (listed,) = (await client.list_prompts()).prompts
        assert (listed.name, listed.title) == ("toy", "Explain")
        assert listed.description == "Explain a notebook."
        assert [(each.name, each.required) for each in listed.arguments or ()] == [
            ("path", True),
            ("tone", False),
        ]
        filled = await client.get_prompt("toy", {"path": "a.ipynb", "tone": ""})
        (message,) = filled.messages
        assert isinstance(message.content, TextContent)
        said = "Read a.ipynb and explain it. ['path'] ['name_of_this_call']"
        assert message.content.text == said


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("toi", {}, "There is no prompt 'toi'; there are: toy.\nNext: Did you mean toy?"),
        ("toy", {}, "The argument path is missing"),
        ("toy", {"path": " "}, "The argument path is missing"),
        ("toy", {"path": "a", "pth": "b"}, "This prompt has no argument 'pth'. It has path, tone."),
        ("toy", {"path": "a" * 10_000}, "too_large"),
    ],
)
async def test_a_prompt_refuses_what_it_does_not_have(
    name: str, arguments: dict[str, str], error: str
) -> None:
    async with Client(serve(prompt=ToyPrompt())) as client:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt(name, arguments)
        assert refused.value.error.code == INVALID_PARAMS
        assert error in refused.value.error.message


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_what_a_fault_of_ours_says_is_logged_and_not_sent(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = serve(prompt=ToyPrompt(), resource=ToyResource())
    async with Client(server, mode=mode) as client:
        for request in (
            client.get_prompt("toy", {"path": "broken"}),
            client.read_resource("toy://broken"),
        ):
            with pytest.raises(MCPError, match="Internal error in this server") as refused:
                await request
            assert "secret" not in str(refused.value)
    assert caplog.text.count("ValueError: secret") == 2


async def test_a_prompt_never_grants_more_than_read_permission() -> None:
    async with Client(serve(prompt=ToyPrompt())) as client:
        with pytest.raises(MCPError):
            await client.get_prompt("toy", {"path": "forbidden"})


async def test_arguments_of_a_prompt_are_completed_at_most_a_hundred_at_a_time() -> None:
    toy = PromptReference(type="ref/prompt", name="toy")
    async with Client(serve(prompt=ToyPrompt())) as client:
        found = (await client.complete(toy, {"name": "path", "value": "path-14"})).completion
        assert found.values == ["path-14", *(f"path-{n}" for n in range(140, 150))]
        assert found.has_more is False
        many = (await client.complete(toy, {"name": "path", "value": ""})).completion
        assert (len(many.values), many.has_more) == (100, True)
        chosen = {"path": "mine"}
        found = (await client.complete(toy, {"name": "tone", "value": "m"}, chosen)).completion
        assert found.values == ["mine"]
        other = PromptReference(type="ref/prompt", name="other")
        with pytest.raises(MCPError, match="There is no 'other' to complete"):
            await client.complete(other, {"name": "path", "value": ""})


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
        template = each.make(parts).template
        assert template.startswith(("notebook://", "file:///notebooks/"))
    for prompt in PROMPTS:
        required = [each.required for each in prompt.make(parts).arguments]
        assert required == sorted(required, reverse=True)  # some clients take them by order


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
