"""Jupyter servers with the test extension, and ways to talk to them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.harness.jupyter import JupyterProcess

EXTENSION = "tests.transport.extension"

#: Not needed here, slow to start, or on the very address that the test extension serves.
OTHERS = (
    "jupyter_collaboration_mcp",
    "jupyter_lsp",
    "jupyter_server_fileid",
    "jupyter_server_terminals",
    "jupyter_server_ydoc",
    "jupyterlab",
    "notebook_shim",
)

MakeJupyter = Callable[..., JupyterProcess]

ERAS = ["legacy", "2026-07-28"]

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.fixture(scope="session")
def make_jupyter(tmp_path_factory: pytest.TempPathFactory) -> MakeJupyter:
    def make(*extra_args: str, **options: Any) -> JupyterProcess:
        extensions = {EXTENSION: True, **dict.fromkeys(OTHERS, False)}
        root: Path = tmp_path_factory.mktemp("root")
        options = {"extensions": extensions, "fork": True, **options}
        return JupyterProcess(root, extra_args=extra_args, **options)

    return make


@pytest.fixture(scope="session")
async def jupyter(make_jupyter: MakeJupyter, anyio_backend: str) -> AsyncIterator[JupyterProcess]:
    """A server with default settings that logs all it can."""
    async with make_jupyter("--debug") as process:
        yield process


@pytest.fixture
async def http(anyio_backend: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client without a credential."""
    async with httpx2.AsyncClient(timeout=30, headers=HEADERS, verify=False) as client:
        yield client


@asynccontextmanager
async def connect(
    jupyter: JupyterProcess, mode: str, query: str = "", token: str | None = None
) -> AsyncIterator[Client]:
    """The SDK's own client, in the era asked for."""
    headers = {"Authorization": f"Bearer {token or jupyter.token}"}
    async with (
        httpx2.AsyncClient(timeout=30, headers=headers, verify=False) as client,
        Client(
            streamable_http_client(f"{jupyter.url}mcp{query}", http_client=client), mode=mode
        ) as session,
    ):
        yield session


def modern_call(tool: str, **arguments: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of a tool call in the stateless era, for raw HTTP."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta},
    }
    headers = {
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    return body, headers
