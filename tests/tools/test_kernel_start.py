"""Notebooks that are renamed while their kernel is being started."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import AgentClient
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, KernelApi
from tests.harness.runs import printed, run
from tests.harness.ways import WAYS, served
from tests.tools.conftest import SAVE_SOON

pytestmark = pytest.mark.anyio

HELD = "--ServerApp.kernel_manager_class=tests.harness.held_kernels.HeldKernels"


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Gate:
    """At which every kernel waits before it is started."""
    return Gate(tmp_path_factory.mktemp("held") / "gate")


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, held: Gate, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    env = {"HELD_KERNELS": str(held.path)}
    async with served(make_server, request.param, HELD, SAVE_SOON, env=env) as process:
        yield process


@pytest.fixture(autouse=True)
def closed(held: Gate) -> None:
    held.close()


async def start(ada: AgentClient, held: Gate, path: str) -> asyncio.Task[dict[str, object]]:
    """Have a cell run whose kernel waits to be started."""
    call = asyncio.create_task(run(ada, path, 0, timeout=60))
    await held.reached()
    return call


def write(server: JupyterProcess, path: str) -> None:
    file = Path(server.root) / path
    file.parent.mkdir(exist_ok=True)
    cells = [notebooks.code("a", "x = 41"), notebooks.code("b", "print(x + 1)")]
    notebooks.write(file, notebooks.notebook(cells))


@pytest.mark.parametrize(
    ("path", "renamed", "new_path"),
    [
        ("one.ipynb", ("one.ipynb", "two.ipynb"), "two.ipynb"),
        ("a/b.ipynb", ("a", "c"), "c/b.ipynb"),
    ],
    ids=["notebook", "folder"],
)
async def test_a_session_follows_a_rename_while_its_kernel_starts(
    server: JupyterProcess,
    api: KernelApi,
    ada: AgentClient,
    bob: AgentClient,
    held: Gate,
    path: str,
    renamed: tuple[str, str],
    new_path: str,
) -> None:
    write(server, path)
    call = await start(ada, held, path)
    old, new = renamed
    await bob.ask("rename_document", path=old, newPath=new)
    assert await api.sessions(new_path) == []
    held.open()
    assert (await call)["state"] == "completed"
    (session,) = await api.sessions(new_path)
    assert session["name"] == new_path.rpartition("/")[2]
    assert await api.sessions(path) == []
    assert printed(await run(bob, new_path, 1)) == "42"  # in the same kernel
    assert len(await api.sessions(new_path)) == 1
    await api.close(session["id"])


async def test_two_renames_and_another_run_during_the_start_leave_one_kernel(
    server: JupyterProcess, api: KernelApi, ada: AgentClient, bob: AgentClient, held: Gate
) -> None:
    if server.standalone is not None:
        pytest.skip("a stock server would start two")
    write(server, "first.ipynb")
    before = set(await api.kernels())
    call = await start(ada, held, "first.ipynb")
    async with httpx.AsyncClient(headers=server.headers, trust_env=False) as person:
        for old, new in (("first", "second"), ("second", "third")):
            answer = await person.patch(
                f"{server.url}api/contents/{old}.ipynb", json={"path": f"{new}.ipynb"}
            )
            answer.raise_for_status()
    again = asyncio.create_task(run(bob, "third.ipynb", 1, timeout=60))
    opening = asyncio.create_task(api.open("third.ipynb"))  # in JupyterLab
    held.open()
    assert (await call)["state"] == "completed"
    await again
    (session,) = await api.sessions("third.ipynb")
    assert (await opening)["id"] == session["id"]
    assert set(await api.kernels()) - before == {session["kernel"]["id"]}
    assert await api.sessions("first.ipynb") == await api.sessions("second.ipynb") == []
    await api.close(session["id"])
