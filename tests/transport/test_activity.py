"""What agents do counts as activity of the Jupyter server, unless it is configured otherwise."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import httpx
import pytest
from jupyter_server._tz import utcnow

from jupyter_collaboration_mcp.backends.in_process.server_activity import ServerActivity
from tests.conftest import MakeServer
from tests.harness import notebooks
from tests.harness.agents import agent
from tests.harness.jupyter import JupyterProcess
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served

pytestmark = pytest.mark.anyio


async def last_activity(server: JupyterProcess) -> datetime:
    """As the culler of a Hub is told; the question itself does not count."""
    async with httpx.AsyncClient(headers=server.headers, trust_env=False) as http:
        status = (await http.get(f"{server.url}api/status")).json()
    return datetime.fromisoformat(status["last_activity"].replace("Z", "+00:00"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("counts", [True, False])
async def test_calls_of_agents_are_activity_if_they_should_be(
    make_server: MakeServer, way: str, counts: bool
) -> None:
    settings = {"count_activity": str(counts).lower()}
    async with served(make_server, way, settings=settings) as server:
        notebooks.write(server.root / "a.ipynb", notebooks.numbered(2))
        before = await last_activity(server)
        async with agent(server) as ada:
            assert await ada.sources("a.ipynb")
            await ada.write("a.ipynb", "cell-00000", "y")
        assert (await last_activity(server) > before) is counts


async def test_a_run_that_prints_nothing_is_activity_until_it_is_over() -> None:
    settings: dict[str, Any] = {"last_activity_times": {}}
    works = True
    activity = ServerActivity(settings, lambda: works, look_again=0.01)
    activity.start()
    times = settings["last_activity_times"]
    try:
        await until(lambda: times)
        (first,) = times.values()
        await until(lambda: next(iter(times.values())) > first)
        assert abs((utcnow() - first).total_seconds()) < 60
        works = False
        await asyncio.sleep(0.03)
        (last,) = times.values()
        await asyncio.sleep(0.05)
        assert list(times.values()) == [last]
    finally:
        await activity.close()
