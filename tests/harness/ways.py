"""The two ways to a Jupyter server: through the extension in it, and through the command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from . import measuring
from .jupyter import JupyterProcess
from .standalone import StandaloneProcess

WAYS = ["extension", "standalone"]

#: The command, beside a server of which it knows that its files are on this machine.
NEAR = "near"


@asynccontextmanager
async def served(
    make_server: Callable[..., JupyterProcess],
    way: str,
    *arguments: str,
    measured: bool = False,
    settings: Mapping[str, str] | None = None,
    **options: Any,
) -> AsyncIterator[JupyterProcess]:
    """A server with some configuration, and agents that come one way or the other.

    Args:
        measured: Measure coverage even where only a few processes are measured.
        settings: Settings of ours by name, for whichever serves the agents.
    """
    if way == "extension":
        env = {
            **(measuring.shared_server() if measured else {}),
            **ours(settings or {}),
            **options.pop("env", {}),
        }
        async with make_server(*arguments, env=env, **options) as process:
            yield process
        return
    stock = {**options.pop("extensions", {}), "jupyter_collaboration_mcp": False}
    async with (
        make_server(*arguments, extensions=stock, **options) as process,
        StandaloneProcess(
            [process],
            near=way == NEAR,
            env={**(measuring.shared_command() if measured else {}), **ours(settings or {})},
        ) as command,
    ):
        process.standalone = command
        yield process


def ours(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment variables for settings of ours."""
    return {f"JUPYTER_COLLABORATION_MCP_{name.upper()}": text for name, text in settings.items()}
