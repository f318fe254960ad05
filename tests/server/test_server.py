"""What a tool does wrong is an answer, whatever it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ResourceTemplateReference
from pycrdt import Doc, Map

from jupyter_collaboration_mcp.resources.kinds import Content, Kind, Listed
from jupyter_collaboration_mcp.tools.registry import Answer, tool
from jupyter_collaboration_mcp.workspace.permissions import Level
from jupyter_collaboration_mcp.workspace.permits import Call
from tests.harness.agents import LEGACY, MODERN, text_of
from tests.harness.subscribers import legacy
from tests.harness.toys import serve

pytestmark = pytest.mark.anyio


def panic() -> Any:
    """A real one: pycrdt has no such integers."""
    shared: Map[Any] = Doc[Any]().get("map", type=Map)
    shared["number"] = 2**70


class Tools:
    @tool("Panic", Level.read)
    async def panic(self, call: Call) -> Answer:
        """Do what pycrdt panics at."""
        return Answer("not reached", panic())

    @tool("Answer", Level.read)
    async def answer(self, call: Call) -> Answer:
        """Say something."""
        return Answer("fine", {})


async def test_a_panic_in_a_library_fails_only_its_own_call() -> None:
    async with Client(serve(tools=Tools())) as client:
        failed = await client.call_tool("panic", {})
        assert failed.is_error
        assert text_of(failed).startswith("internal_error: ")
        assert text_of(await client.call_tool("answer", {})) == "fine"


async def test_a_panic_in_a_resource_fails_only_that_request() -> None:
    async with Client(serve(tools=Tools(), resource=Panics())) as client:
        with pytest.raises(MCPError):
            await client.read_resource("jupyter-output://run/0")
        assert text_of(await client.call_tool("answer", {})) == "fine"


class Panics(Kind):
    template = "jupyter-output://{kind}/{n}"
    description = "What pycrdt panics at."

    async def read(self, call: Call, uri: str) -> Any:
        return panic()


@pytest.mark.parametrize("letter", ["a", "é", "日"])
async def test_no_answer_is_longer_than_clients_show(letter: str) -> None:
    class Talkative:
        @tool("Talk", Level.read)
        async def talk(self, call: Call, length: int) -> Answer:
            """Say as much as is wanted."""
            return Answer("first\n" + letter * 20_000 + "x" * length + letter * 20_000, {})

    async with Client(serve(tools=Talkative())) as client:
        said = text_of(await client.call_tool("talk", {"length": 30_000}))
        assert len(said.encode()) <= 48_000
        assert said.startswith("Of 70,006 characters, some in the middle are left out.")
        assert said.endswith(letter)


class Broken(Kind):
    """A kind of resource with a mistake in all that it does."""

    template = "broken://{name}"
    description = "Broken."

    async def read(self, call: Call, uri: str) -> list[Content] | None:
        raise RuntimeError("internals")

    async def listed(self, call: Call) -> AsyncIterator[Listed]:
        raise RuntimeError("internals")
        yield

    async def complete(
        self, call: Call, variable: str, beginning: str, given: Mapping[str, str]
    ) -> Sequence[str]:
        raise RuntimeError("internals")

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> None:
        raise RuntimeError("internals")


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
async def test_no_client_is_told_the_internals_of_a_fault(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(serve(resource=Broken()), mode=mode) as client:
        reference = ResourceTemplateReference(type="ref/resource", uri=Broken.template)
        requests: list[Callable[[], Awaitable[object]]] = [
            lambda: client.read_resource("broken://a"),
            client.list_resources,
            lambda: client.complete(reference, {"name": "name", "value": ""}),
        ]
        if mode == LEGACY:
            requests.append(lambda: client.subscribe_resource("broken://a"))
        for request in requests:
            with legacy(), pytest.raises(MCPError) as refused:
                await request()
            assert "internal_error" in refused.value.error.message
            assert "internals" not in str(refused.value.error)
    assert caplog.text.count("RuntimeError: internals") >= len(requests)
