"""Kernels behind a kernel gateway work as those of the server do, both ways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent, text_of
from tests.harness.collaborator import Collaborator
from tests.harness.gateway import Gateway
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate
from tests.harness.ways import WAYS, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]


class Place(NamedTuple):
    """A server, and the gateway that its kernels are behind."""

    server: JupyterProcess
    gateway: Gateway


@pytest.fixture(scope="module")
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with Gateway() as running:
        yield running


@pytest.fixture(scope="module", params=WAYS)
async def place(
    request: pytest.FixtureRequest, make_server: MakeServer, gateway: Gateway
) -> AsyncIterator[Place]:
    async with served(make_server, request.param, *gateway.arguments) as server:
        yield Place(server, gateway)


@pytest.fixture
def path(request: pytest.FixtureRequest, place: Place) -> str:
    name = f"{notebooks.name_for(request.node.name)}.ipynb"
    notebooks.write(place.server.root / name, notebooks.numbered(3))
    return name


async def test_code_runs_there_and_its_output_is_in_the_cell(place: Place, path: str) -> None:
    async with (
        Collaborator(place.server.url, place.server.token, path) as person,
        agent(place.server) as ada,
    ):
        source = "for n in range(300): print(n)\nn"
        await ada.write(path, "cell-00000", source)
        said = await ada.say("execute_notebook_cell", path=path, cell_id="cell-00000")
        assert "299" in said
        await person.until(lambda: person.cell("cell-00000")["execution_count"] == 1)
        outputs = person.cell("cell-00000")["outputs"]
        assert "".join(outputs[0]["text"]) == "".join(f"{n}\n" for n in range(300))
        # It is the one kernel of the notebook's session, and it is at the gateway.
        (kernel,) = (await ada.ask("list_kernels"))["running"]
        assert kernel["id"] in {each["id"] for each in await place.gateway.kernels()}
        failed = await ada.ask("run_code", path=path, code="1 / 0")
        assert "ZeroDivisionError" in str(failed)


async def test_a_question_is_answered(place: Place, path: str) -> None:
    async with agent(place.server) as ada:
        asked = await ada.ask("run_code", path=path, code="print('Hello ' + input('Who? '))")
        (run,) = asked["runs"]
        assert "Who?" in str(asked)
        said = await ada.say("reply_to_input", run_id=run["run_id"], text="Ana")
        assert "Hello Ana" in said


async def test_an_interrupt_arrives(place: Place, path: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with agent(place.server) as ada:
        run = asyncio.ensure_future(ada.call("run_code", path=path, code=gate.code, timeout=60))
        await gate.reached()
        await ada.say("interrupt_notebook_kernel", path=path)
        assert "KeyboardInterrupt" in text_of(await run)
        assert "4" in await ada.say("run_code", path=path, code="2 + 2")


async def test_a_restart_forgets_variables(place: Place, path: str) -> None:
    async with agent(place.server) as ada:
        await ada.ask("run_code", path=path, code="x = 1")
        await ada.ask("restart_notebook_kernel", path=path)
        assert "NameError" in await ada.say("run_code", path=path, code="x")


async def test_a_kernel_that_dies_is_reported_and_comes_back(place: Place, path: str) -> None:
    async with agent(place.server) as ada:
        result = await ada.call("run_code", path=path, code="import os; os._exit(1)", timeout=60)
        assert "died" in text_of(result) or "restarted" in text_of(result), text_of(result)
        assert "4" in await ada.say("run_code", path=path, code="2 + 2", timeout=60)


async def test_a_gateway_that_dies_during_a_run_is_reported_and_the_next_one_is_used(
    place: Place, path: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    async with agent(place.server) as ada:
        await ada.write(path, "cell-00001", "kept")
        run = asyncio.ensure_future(ada.call("run_code", path=path, code=gate.code, timeout=120))
        await gate.reached()
        await asyncio.to_thread(place.gateway.kill)
        # What does not need a kernel goes on meanwhile.
        await ada.write(path, "cell-00002", "kept too")
        assert not run.done()
        await place.gateway.start()
        lost = text_of(await run)
        assert "LOST" in lost or "lost" in lost, lost
        again = await ada.call("run_code", path=path, code="2 + 2", timeout=60)
        if again.is_error:  # what the kernel had is gone, and the agent is told once
            assert "is gone" in text_of(again)
            again = await ada.call("run_code", path=path, code="2 + 2", timeout=60)
        assert "4" in text_of(again)
        assert (await ada.sources(path))[1:] == ["kept", "kept too"]


async def test_a_gateway_that_is_away_is_named_in_the_error(place: Place, path: str) -> None:
    await asyncio.to_thread(place.gateway.kill)
    try:
        async with agent(place.server) as ada:
            error = await ada.refused("run_code", path=path, code="2 + 2")
            assert error["code"] == "kernel_unavailable"
            assert "ateway" in error["message"]
            assert await ada.sources(path)
    finally:
        await place.gateway.start()
