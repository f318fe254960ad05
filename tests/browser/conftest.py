"""One browser for the tests of a module, each of which has its own pages in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.browser import shared_browser


@pytest.fixture(scope="module", autouse=True)
async def browser(anyio_backend: str) -> AsyncIterator[None]:
    async with shared_browser():
        yield
