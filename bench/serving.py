"""The servers that are measured, and agents connected to them."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mcp import Client

from tests.conftest import EXTENSIONS
from tests.harness import notebooks
from tests.harness.agents import LEGACY, MODERN, AgentClient
from tests.harness.jupyter import REPOSITORY, JupyterProcess

ERAS = (MODERN, LEGACY)

_EXTENSION_PATH = Path(__file__).parent / "extensions"

#: Some lines for each cell, about 200 characters.
_LINES = "\n".join(f"total_{n} = sum(values[{n}:{n + 10}]) / 10" for n in range(5))


@asynccontextmanager
async def jupyter(
    config: Mapping[str, Any] | None = None, extensions: Mapping[str, bool] | None = None
) -> AsyncIterator[JupyterProcess]:
    """Jupyter with our extension, whose MCP server has the no-op tool as well."""
    extensions = {**EXTENSIONS, "noop_extension": True, **(extensions or {})}
    with tempfile.TemporaryDirectory(prefix="bench-") as root:
        async with JupyterProcess(
            Path(root), extensions=extensions, extra_path=[_EXTENSION_PATH], config=config
        ) as server:
            yield server


@asynccontextmanager
async def bare() -> AsyncIterator[str]:
    """The address of an MCP server of the same SDK under uvicorn, with only the no-op tool."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.bare", cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = (await process.stdout.readline()).decode().strip()
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def connect(
    url: str, token: str, name: str = "Ada", mode: str = MODERN, **query: str
) -> AsyncIterator[AgentClient]:
    """An agent at the Jupyter server with this URL; it gets facts as JSON, too, if not told so."""
    asked = {"token": token, "agent": name, "structured": "true", **query}
    async with Client(f"{url}mcp?{urlencode(asked)}", mode=mode) as it:
        yield AgentClient(it)


def source(step: int, lines: str = _LINES) -> str:
    """A cell's content; another for each step."""
    return f"step = {step}\n{lines}"


def make_notebook(root: Path, path: str, cells: int, cell_length: int = 200) -> None:
    """A notebook of many cells with the ids `cell-00000`, `cell-00001`, ..."""
    lines = (_LINES + "\n") * max(1, cell_length // len(_LINES))
    content: list[dict[str, Any]] = [
        notebooks.code(f"cell-{n:05d}", source(n, lines)) for n in range(cells)
    ]
    notebooks.write(root / path, notebooks.notebook(content))


async def saved(client: AgentClient, path: str) -> None:
    """Return when Jupyter has saved a notebook: the save of a large one slows everybody down."""
    # Only the server knows, so it has to be asked.
    while not (await client.ask("get_notebook", path=path, end_index=1)).get("saved"):  # noqa: ASYNC110
        await asyncio.sleep(0.1)


@asynccontextmanager
async def asking(server: JupyterProcess) -> AsyncIterator[list[float]]:
    """Somebody asks for the status all the time; how long it took is there afterwards."""
    times: list[float] = []
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.status",
        server.url,
        server.token,
        cwd=REPOSITORY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await process.stdout.readline()
        yield times
        process.stdin.close()
        times += json.loads(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.stdin.close()
        await process.wait()
