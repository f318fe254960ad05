"""A run whose client loses its connection, as agents start it, through both front doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from tests.conftest import MakeServer, Times
from tests.harness import notebooks
from tests.harness.agents import agent, mcp_address
from tests.harness.jupyter import JupyterProcess
from tests.harness.kernels import Gate, eventually
from tests.harness.proxy import Proxy
from tests.harness.waiting import until
from tests.harness.ways import WAYS, served
from tests.transport.raw_streams import RawSession

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PATH = "long.ipynb"

#: Seconds between two lines of progress.
REPORT = 5.0


@pytest.fixture(scope="module", params=WAYS)
async def server(
    make_server: MakeServer, anyio_backend: str, request: pytest.FixtureRequest
) -> AsyncIterator[JupyterProcess]:
    async with served(make_server, request.param) as process:
        notebooks.write(Path(process.root) / PATH, notebooks.numbered(1))
        yield process


class Answers:
    """The answers that a client reads as streams."""

    resumable = False
    """Whether the client has read from where to go on with the last one after a cut."""

    async def follow(self, response: httpx2.Response) -> None:
        """Stand between the client and an answer."""
        kind = response.headers.get("content-type", "")
        call = b"tools/call" in response.request.content
        if call and kind.startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            self.resumable = False
            response.stream = _Followed(response.stream, self)


class _Followed(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, answers: Answers) -> None:
        self._stream, self._answers = stream, answers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk
            # The client asks for more, so it is done with that.
            self._answers.resumable |= b"retry: " in chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.mark.parametrize("over", ["before it is back", "after it is back"])
async def test_a_raw_client_gets_the_result_of_a_run_once(
    server: JupyterProcess, tmp_path: Path, over: str
) -> None:
    gate = Gate(tmp_path / "gate")
    async with RawSession(*mcp_address(server)) as ada:
        code = f"{gate.code}\nprint('x' * 100, 'gone through')"
        async with ada.call("run_code", path=PATH, code=code, timeout=60) as call:
            first = await call.next()
            assert first.data is None
            await gate.reached()
        if over == "before it is back":
            gate.open()
        async with ada.listen(first.id) as stream:
            gate.open()
            *_, result = await stream.rest()
        assert "gone through" in result.text
        assert await ada.resumed(first.id or "") == [result]


async def test_the_official_client_gets_the_result_of_a_run_once(
    server: JupyterProcess, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    url, headers = mcp_address(server)
    answers = Answers()
    hooks = {"response": [answers.follow]}
    async with (
        Proxy(url) as proxy,
        httpx2.AsyncClient(headers=headers, timeout=60, event_hooks=hooks, verify=False) as http,
    ):
        transport = streamable_http_client(proxy.url, http_client=http)
        async with Client(transport, mode="legacy") as client:
            code = f"{gate.code}\nprint('gone through')"
            arguments = {"path": PATH, "code": code, "timeout": 60}
            calling = asyncio.ensure_future(client.call_tool("run_code", arguments))
            await gate.reached()
            await until(lambda: answers.resumable)
            before = proxy.connections
            proxy.cut()
            proxy.resume()
            await until(lambda: proxy.connections > before)  # it is back
            gate.open()
            (said,) = (await calling).content
            assert isinstance(said, TextContent)
            assert "gone through" in said.text


async def test_a_long_run_loses_no_line_of_progress_and_no_result(
    server: JupyterProcess, times: Times
) -> None:
    """With the official client, cut off in the middle, and over raw HTTP, away to the end."""
    seconds = times(7, 32)
    lines = int(seconds // REPORT)
    async with asyncio.TaskGroup() as clients:
        raw = clients.create_task(_away_to_the_end(server, seconds))
        official = clients.create_task(_cut_at_the_first_line(server, seconds))
    for progress, said in (raw.result(), official.result()):
        assert len(progress) in (lines, lines + 1)
        assert progress == sorted(set(progress))
        assert said.count("gone through") == 1


def _code(path: str, seconds: float) -> dict[str, Any]:
    code = f"import time; time.sleep({seconds}); print('gone', 'through')"
    return {"path": path, "code": code, "timeout": 120}


async def _away_to_the_end(server: JupyterProcess, seconds: float) -> tuple[list[float], str]:
    notebooks.write(Path(server.root) / "away.ipynb", notebooks.numbered(1))
    async with RawSession(*mcp_address(server)) as ada, agent(server, "Bob") as bob:
        async with ada.call("run_code", **_code("away.ipynb", seconds)) as call:
            first = await call.next()

        async def runs() -> int:
            return len((await bob.ask("get_notebook_status", path="away.ipynb"))["runs"])

        await eventually(runs, lambda count: count == 1)
        await eventually(runs, lambda count: count == 0)
        *progress, result = await ada.resumed(first.id or "")
        assert len({event.id for event in (first, *progress, result)}) == len(progress) + 2
        return [event.data["params"]["progress"] for event in progress if event.data], result.text


async def _cut_at_the_first_line(server: JupyterProcess, seconds: float) -> tuple[list[float], str]:
    notebooks.write(Path(server.root) / "cut.ipynb", notebooks.numbered(1))
    url, headers = mcp_address(server)
    lines: list[float] = []
    async with Proxy(url) as proxy, httpx2.AsyncClient(headers=headers, timeout=60) as http:

        async def note(progress: float, total: float | None, message: str | None) -> None:
            lines.append(progress)
            if len(lines) == 1:  # the client gives up after a few
                proxy.cut()
                proxy.resume()

        transport = streamable_http_client(proxy.url, http_client=http)
        async with Client(transport, mode="legacy") as client:
            before = proxy.connections
            arguments = _code("cut.ipynb", seconds)
            said = await client.call_tool("run_code", arguments, progress_callback=note)
            assert proxy.connections > before
            assert isinstance(said.content[0], TextContent)
            return lines, said.content[0].text


async def test_a_server_that_keeps_nothing_sends_plain_answers(
    make_server: MakeServer,
) -> None:
    for way in WAYS:
        async with served(make_server, way, settings={"event_store_size": "0"}) as server:
            notebooks.write(Path(server.root) / PATH, notebooks.numbered(1))
            async with RawSession(*mcp_address(server)) as ada:
                code = "import time; time.sleep(0.2); print('done')"
                (only,) = await ada.ask("run_code", path=PATH, code=code)
                assert only.id is None
                assert "done" in only.text
