"""Where the day is spent: our server, and jupyter-mcp-server in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlencode

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.conftest import EXTENSIONS
from tests.harness.agents import MODERN
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import REPOSITORY, JupyterProcess

from .sides import BeforeChange, Ours, Peer, Side

PEER_VENV = REPOSITORY / ".venv-peer"

#: The peer, and the Jupyter that it asks for; the latter as we have it, for a fair comparison.
_REQUIREMENTS = (
    "jupyter-mcp-server",
    "jupyterlab>=4.6,<5",
    "jupyter-collaboration>=5.0.4,<5.1",
    "ipykernel",
)

#: Without our package, and without the peer's own extension: its documentation starts it beside.
_PEER_EXTENSIONS = {
    **EXTENSIONS,
    "jupyter_collaboration_mcp": False,
    "jupyter_mcp_server": False,
}

#: Seconds for a call.
_PATIENCE = 180


def has_peer() -> bool:
    return (PEER_VENV / ".made").exists()


def make_peer() -> None:
    """Make the peer's environment, if there is none."""
    if has_peer():
        return
    print(f"making {PEER_VENV.name} with {_REQUIREMENTS[0]}", file=sys.stderr, flush=True)
    venv.create(PEER_VENV, with_pip=True, clear=True)
    python = str(PEER_VENV / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *_REQUIREMENTS], check=True)
    (PEER_VENV / ".made").touch()


class Place:
    """A Jupyter server, and an agent's connection to it or beside it."""

    def __init__(self, server: JupyterProcess, side: Side) -> None:
        self.server = server
        self.side = side

    def person(self, path: str, name: str = "Ana") -> Collaborator:
        """Somebody in a notebook, for a block."""
        return Collaborator(self.server.url, self.server.token, path, name)

    def overtake(self, path: str, old: str, new: str) -> BeforeChange:
        """Somebody who replaces text when their moment comes."""

        async def act() -> None:
            async with self.person(path) as ana:
                sources = ana.sources()
                [index] = [n for n, source in enumerate(sources) if old in source]
                start = sources[index].index(old)
                ana.delete(index, start, len(old))
                ana.insert(index, start, new)
                await ana.flush()

        return act

    async def cells(self, path: str) -> list[Any]:
        """The cells of a live notebook, as somebody sees them who comes in."""
        async with self.person(path, "Visitor") as visitor:
            return list(visitor.notebook.get()["cells"])


@asynccontextmanager
async def ours(root: Path) -> AsyncIterator[Place]:
    """Our extension in a Jupyter server, and an agent as real clients connect it."""
    async with JupyterProcess(root, extensions=EXTENSIONS) as server, our_client(server) as client:
        yield Place(server, Ours(client))


@asynccontextmanager
async def our_client(server: JupyterProcess, **query: str) -> AsyncIterator[Client]:
    query = {"token": server.token, "agent": "Ada", **query}
    async with Client(
        f"{server.url}mcp?{urlencode(query)}", mode=MODERN, read_timeout_seconds=_PATIENCE
    ) as client:
        yield client


@asynccontextmanager
async def peers(root: Path) -> AsyncIterator[Place]:
    """The peer over stdio beside a Jupyter server, as its documentation starts it.

    Nobody has JupyterLab open, so it has none of the tools that work through a browser.
    """
    programs = PEER_VENV / "bin"
    async with JupyterProcess(
        root, extensions=_PEER_EXTENSIONS, python=programs / "python"
    ) as server:
        environment = {
            **os.environ,
            "JUPYTER_URL": server.url.rstrip("/"),
            "JUPYTER_TOKEN": server.token,
            "ALLOW_IMG_OUTPUT": "true",
        }
        command = StdioServerParameters(
            command=str(programs / "jupyter-mcp-server"), env=environment, cwd=server.home
        )
        with _nowhere() as log:
            async with Client(
                stdio_client(command, errlog=log), read_timeout_seconds=_PATIENCE
            ) as client:
                yield Place(server, Peer(client))


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w")
