"""The two ways to a Jupyter server: through the extension in it, and through the command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from .jupyter import JupyterProcess
from .standalone import StandaloneProcess

WAYS = ["extension", "standalone"]

#: The command, beside a server of which it knows that its files are on this machine.
NEAR = "near"


@asynccontextmanager
async def served(
    make_server: Callable[..., JupyterProcess], way: str, *arguments: str, **options: Any
) -> AsyncIterator[JupyterProcess]:
    """A server with some configuration, and agents that come one way or the other."""
    if way == "extension":
        async with make_server(*arguments, **options) as process:
            yield process
        return
    stock = {**options.pop("extensions", {}), "jupyter_collaboration_mcp": False}
    async with (
        make_server(*arguments, extensions=stock, **options) as process,
        StandaloneProcess([process], near=way == NEAR) as command,
    ):
        process.standalone = command
        yield process
