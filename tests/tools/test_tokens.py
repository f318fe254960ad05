"""Each word in the list of tools costs every user tokens, in every conversation."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp_types import Tool

from bench.tokens import ALL, CORE, DIALECTS, TOOLS, cost
from docs.generate import _tools as every_tool
from jupyter_collaboration_mcp.server.gate import ServerOptions
from jupyter_collaboration_mcp.server.server import build_server
from jupyter_collaboration_mcp.tools.parts import Standalone
from jupyter_collaboration_mcp.workspace.sites import Site, Sites


async def connect(url: str, alias: str | None) -> Site:
    raise NotImplementedError("only to have the tools of the command, too")


async def _tools(toolsets: str) -> list[Tool]:
    server = build_server(Sites([]), ServerOptions(toolsets=toolsets), Standalone(connect))
    async with Client(server) as client:
        return (await client.list_tools()).tools


async def _cost(toolsets: str) -> dict[str, float]:
    return cost(await _tools(toolsets))


@pytest.mark.anyio
async def test_all_tools_cost_few_tokens() -> None:
    costs = await _cost("default")
    assert sum(costs.values()) <= ALL
    assert sum(costs.values()) / len(costs) <= ALL / TOOLS  # so that those to come fit, too


@pytest.mark.anyio
async def test_the_core_tools_cost_fewer_tokens() -> None:
    assert sum((await _cost("core")).values()) <= CORE


@pytest.mark.anyio
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_only_those_who_ask_for_a_dialect_pay_for_it(dialect: str) -> None:
    costs = await _cost(dialect)
    assert sum(costs.values()) <= DIALECTS[dialect]
    own = costs.keys() - (await _cost("core,document,files")).keys()
    assert own
    assert not own & (await _cost("default")).keys()


@pytest.mark.anyio
async def test_all_lists_every_tool_once_in_one_order() -> None:
    everything = [tool.name for tool in await _tools("all")]
    assert everything == [tool.name for tool in await _tools("all")]
    assert len(set(everything)) == len(everything)  # no name means two things
    parts = ("default", *DIALECTS)
    chosen = [[tool.name for tool in await _tools(name)] for name in parts]
    assert set(everything) == set().union(*chosen)
    for names in chosen:  # and each of them has the order that it has in all
        assert names == [name for name in everything if name in names]
    # Whichever way they are named.
    named = [tool.name for tool in await _tools(",".join(reversed(parts)))]
    assert named == everything


def test_a_description_says_when_to_use_the_tool_in_under_60_words() -> None:
    for tool in every_tool():
        first = tool.description.partition(".")[0]
        assert 3 <= len(first.split()) <= 25, (tool.name, first)
        assert len(tool.description.split()) < 60, tool.name


def test_the_first_tool_is_harmless_and_needs_no_argument() -> None:
    first = every_tool()[0]
    assert first.declaration.annotations.read_only_hint
    assert not first.schema.get("required")
