"""Lists of toy resources, page by page, in both eras."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from jupyter_collaboration_mcp.resources.kinds import Kind, Listed
from jupyter_collaboration_mcp.workspace.permits import Call
from tests.harness.agents import LEGACY, MODERN
from tests.harness.toys import serve

pytestmark = pytest.mark.anyio


class Many(Kind):
    """As many resources as a test wants."""

    template = "toy://{name}"
    description = "A toy."

    def __init__(self, count: int) -> None:
        self.names = [f"{number:03d}" for number in range(count)]

    async def read(self, call: Call, uri: str) -> None:
        return None

    async def listed(self, call: Call) -> AsyncIterator[Listed]:
        for name in list(self.names):
            yield Listed(f"toy://{name}", name, "A toy.", "text/plain")


async def page(client: Client, cursor: str | None = None) -> tuple[list[str], str | None]:
    found = await client.list_resources(cursor=cursor)
    return [each.name for each in found.resources], found.next_cursor


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
async def test_pages_add_up_to_the_whole_list(mode: str, count: int) -> None:
    many = Many(count)
    async with Client(serve(resource=many), mode=mode) as client:
        found, sizes, cursor = list[str](), list[int](), None
        while not sizes or cursor is not None:
            names, cursor = await page(client, cursor)
            found += names
            sizes.append(len(names))
        assert found == many.names
        assert sizes[:-1] == [100] * (len(sizes) - 1)
        assert len(sizes) == max(1, -(-count // 100))


async def test_what_comes_and_goes_between_two_pages_moves_nothing_else() -> None:
    many = Many(250)
    async with Client(serve(resource=many), mode=MODERN) as client:
        _, cursor = await page(client)
        many.names = many.names[50:]
        assert (await page(client, cursor))[0] == many.names[50:150]
        many.names = [*(f"new {number}" for number in range(70)), *many.names]
        assert (await page(client, cursor))[0] == many.names[120:220]
        del many.names[119]  # that which the first page ended with
        assert len((await page(client, cursor))[0]) == 100


@pytest.mark.parametrize("mode", [MODERN, LEGACY])
@pytest.mark.parametrize("cursor", ["x", "", "é", "MTA=", "LTE6eA==", "OTk5OTk5OTk5OTk6eA=="])
async def test_a_cursor_of_nobody_is_refused(mode: str, cursor: str) -> None:
    async with Client(serve(resource=Many(3)), mode=mode) as client:
        with pytest.raises(MCPError, match="There is no such page") as refused:
            await page(client, cursor)
        assert refused.value.error.code == INVALID_PARAMS
