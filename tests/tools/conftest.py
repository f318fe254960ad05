"""Notebooks with and without a kernel, and agents, for the tests of tools that run code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient, agent
from tests.harness.collaborator import Collaborator
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, KernelApi
from tests.harness.ways import WAYS, served

New = Callable[..., str]
Warm = Callable[..., Awaitable[str]]
MakeGate = Callable[[], Gate]
Tab = Callable[[str], Awaitable[Collaborator]]

#: Many tests wait for the file; a second for each of them makes minutes.
SAVE_SOON = "--YDocExtension.document_save_delay=0.1"


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    """A server and a way to it: agents come through the extension, or through the command."""
    async with served(make_server, request.param, SAVE_SOON, measured=True) as process:
        yield process


@pytest.fixture(scope="module")
async def api(server: JupyterProcess) -> AsyncIterator[KernelApi]:
    async with KernelApi(server) as client:
        yield client


@pytest.fixture
async def ada(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server, "Ada") as client:
        yield client


@pytest.fixture
async def bob(server: JupyterProcess) -> AsyncIterator[AgentClient]:
    async with agent(server, "Bob") as client:
        yield client


@pytest.fixture
def gate(tmp_path: Path) -> MakeGate:
    """Makes gates at which code waits."""
    count = 0

    def make() -> Gate:
        nonlocal count
        count += 1
        return Gate(tmp_path / f"gate-{count}")

    return make


@pytest.fixture
async def new(
    server: JupyterProcess, api: KernelApi, request: pytest.FixtureRequest
) -> AsyncIterator[New]:
    """Writes notebooks that have no kernel yet; what they are given ends with the test.

    Cells are given as they are, or as the source of code cells with ids `cell-0`, `cell-1`, ...
    """
    paths: list[str] = []

    def write(*cells: str | dict[str, Any], **more: Any) -> str:
        paths.append(f"{notebooks.name_for(request.node.name)}-{len(paths)}.ipynb")
        notebooks.write(Path(server.root) / paths[-1], notebooks.notebook(_cells(cells), **more))
        return paths[-1]

    yield write
    for path in paths:
        for session in await api.sessions(path):
            await _end(api.close(session["id"]))


@pytest.fixture(scope="module")
def kernel_ids() -> list[str]:
    """The kernel that the tests of a module share; starting one takes a second."""
    return []


@pytest.fixture
async def warm(
    server: JupyterProcess,
    api: KernelApi,
    kernel_ids: list[str],
    request: pytest.FixtureRequest,
) -> AsyncIterator[Warm]:
    """Writes notebooks whose session has a kernel already: one that is idle, and is shared."""
    count = 0

    async def write(*cells: str | dict[str, Any], **more: Any) -> str:
        nonlocal count
        path = f"{notebooks.name_for(request.node.name)}-warm-{count}.ipynb"
        count += 1
        notebooks.write(Path(server.root) / path, notebooks.notebook(_cells(cells), **more))
        session = await api.open(path, kernel_id=kernel_ids[0] if kernel_ids else None)
        kernel_ids[:] = [session["kernel"]["id"]]
        return path

    yield write
    kernels = await api.kernels()
    for kernel_id in kernel_ids[:]:
        state = kernels[kernel_id]["execution_state"] if kernel_id in kernels else None
        if state not in ("idle", "starting"):  # a test failed, and its code still runs
            kernel_ids.remove(kernel_id)
            if state is not None:
                await _end(api.shut_down(kernel_id))


@pytest.fixture
async def tab(server: JupyterProcess) -> AsyncIterator[Tab]:
    """Opens a person's tab, to see and change what the notebook shows."""
    tabs: list[Collaborator] = []

    async def open_tab(path: str) -> Collaborator:
        person = Collaborator(server.url, server.token, path)
        await person.__aenter__()
        tabs.append(person)
        return person

    yield open_tab
    for person in tabs:
        await person.__aexit__(None, None, None)


async def _end(ending: Awaitable[None]) -> None:
    """End what may have ended by itself since it was listed."""
    try:
        await ending
    except httpx.HTTPStatusError as error:
        if error.response.status_code not in (404, 410):
            raise


def _cells(cells: tuple[str | dict[str, Any], ...]) -> list[dict[str, Any]]:
    return [
        notebooks.code(f"cell-{number}", cell) if isinstance(cell, str) else cell
        for number, cell in enumerate(cells)
    ]
