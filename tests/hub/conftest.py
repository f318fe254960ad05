"""A Hub that the tests of a module share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.hub import Hub


@pytest.fixture(scope="module")
async def hub(anyio_backend: str) -> AsyncIterator[Hub]:
    """A Hub with the users ana and ben, who may use the servers of team, and carl, who may not."""
    async with Hub("ana", "ben", "carl", "team") as running:
        yield running
