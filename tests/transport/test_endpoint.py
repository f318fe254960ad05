"""The life of the MCP endpoint: built late and once, off the loop, and ended for certain."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from jupyter_collaboration_mcp.transport import endpoint as endpoint_module
from jupyter_collaboration_mcp.transport.endpoint import EndpointStopped, MCPEndpoint

pytestmark = pytest.mark.anyio

LIMIT = 10.0
LOG = logging.getLogger("test.endpoint")


def build() -> MCPServer:
    return MCPServer("test", version="0")


class Counted:
    """Builds a server and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> MCPServer:
        self.times += 1
        return build()


@contextlib.asynccontextmanager
async def running(endpoint: MCPEndpoint) -> AsyncIterator[MCPEndpoint]:
    try:
        yield endpoint
    finally:
        await endpoint.stop()


@contextlib.contextmanager
def bare_root_logger() -> Iterator[logging.Logger]:
    """The root logger as a program without logging configuration has it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def test_importing_the_transport_imports_no_mcp() -> None:
    program = (
        "import sys, jupyter_collaboration_mcp.transport.bridge\n"
        "import jupyter_collaboration_mcp.transport.endpoint\n"
        "heavy = {'mcp', 'mcp_types', 'pydantic', 'starlette', 'httpx2'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


async def test_nothing_is_built_before_the_first_request() -> None:
    counted = Counted()
    endpoint = MCPEndpoint(counted, LOG)
    await endpoint.stop()
    assert counted.times == 0


async def test_the_endpoint_is_built_once_jupyter_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_collaboration_mcp.transport.endpoint._LOOK", 0.05)
    spent = iter([0.0, 1.0, 1.0, 2.0, *[3.0] * 100])  # two looks at a busy server, then an idle one
    monkeypatch.setattr("time.process_time", lambda: next(spent))
    counted = Counted()
    async with running(MCPEndpoint(counted, LOG)) as endpoint:
        await endpoint.prepare_when_idle()
        assert (counted.times, next(spent)) == (1, 3.0)
        await endpoint.application()
        await endpoint.prepare_when_idle()  # there is nothing left to do
    assert counted.times == 1


async def test_preparation_does_not_delay_shutdown() -> None:
    counted = Counted()
    endpoint = MCPEndpoint(counted, LOG)
    getting_ready = asyncio.ensure_future(endpoint.prepare_when_idle())
    await asyncio.sleep(0)
    await endpoint.stop()
    async with asyncio.timeout(5):
        await getting_ready
    assert counted.times == 0


async def test_concurrent_first_requests_build_once() -> None:
    counted = Counted()
    async with running(MCPEndpoint(counted, LOG)) as endpoint:
        applications = await asyncio.gather(*(endpoint.application() for _ in range(5)))
        applications.append(await endpoint.application())
    assert counted.times == 1
    assert all(application is applications[0] for application in applications)


async def test_a_failed_build_is_reported_to_every_waiter_and_retried() -> None:
    failures = [ValueError("first")]

    def fail_once() -> MCPServer:
        if failures:
            raise failures.pop()
        return build()

    async with running(MCPEndpoint(fail_once, LOG)) as endpoint:
        waiting = (endpoint.application() for _ in range(3))
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["first"] * 3
        assert callable(await endpoint.application())


async def test_a_cancelled_request_does_not_stop_the_others() -> None:
    async with running(MCPEndpoint(build, LOG)) as endpoint:
        first = asyncio.create_task(endpoint.application())
        second = asyncio.create_task(endpoint.application())
        await asyncio.sleep(0)
        first.cancel()
        assert callable(await asyncio.wait_for(second, LIMIT))


async def test_the_modules_are_imported_and_the_server_is_built_in_worker_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: dict[str, threading.Thread] = {}
    import_all = endpoint_module._import_all

    def note_import(modules: Any) -> None:
        threads["import"] = threading.current_thread()
        import_all(modules)

    def note_build() -> MCPServer:
        threads["build"] = threading.current_thread()
        return build()

    monkeypatch.setattr(endpoint_module, "_import_all", note_import)
    async with running(MCPEndpoint(note_build, LOG, preload=["json.tool"])) as endpoint:
        await endpoint.application()
    assert threads["import"] is not threading.current_thread()
    assert threads["build"] is not threading.current_thread()
    assert "json.tool" in sys.modules


async def test_the_build_does_not_see_the_context_of_the_request_that_started_it() -> None:
    handler: contextvars.ContextVar[str] = contextvars.ContextVar("handler", default="none")
    handler.set("a request with a token")
    seen: list[str] = []

    def look() -> MCPServer:
        seen.append(handler.get())
        return build()

    async with running(MCPEndpoint(look, LOG)) as endpoint:
        await endpoint.application()
    assert seen == ["none"]


async def test_building_leaves_the_logging_configuration_unchanged() -> None:
    with bare_root_logger() as root:
        async with running(MCPEndpoint(build, LOG)) as endpoint:
            await endpoint.application()
        assert root.handlers == []
        assert root.level == logging.WARNING


async def test_a_failed_build_leaves_the_logging_configuration_unchanged() -> None:
    def fail() -> MCPServer:
        raise ValueError("broken")

    with bare_root_logger() as root:
        async with running(MCPEndpoint(fail, LOG)) as endpoint:
            with pytest.raises(ValueError, match="broken"):
                await endpoint.application()
        assert root.handlers == []


async def test_a_stopped_endpoint_refuses_requests_and_can_be_stopped_again() -> None:
    endpoint = MCPEndpoint(build, LOG)
    await endpoint.application()
    await endpoint.stop()
    await endpoint.stop()
    with pytest.raises(EndpointStopped):
        await endpoint.application()


async def test_stopping_during_the_build_refuses_waiting_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    importing, go_on = threading.Event(), threading.Event()

    def slow_import(modules: Any) -> None:
        importing.set()
        go_on.wait(LIMIT)

    monkeypatch.setattr(endpoint_module, "_import_all", slow_import)
    endpoint = MCPEndpoint(build, LOG)
    waiting = asyncio.create_task(endpoint.application())
    await asyncio.to_thread(importing.wait, LIMIT)
    stopping = asyncio.create_task(endpoint.stop())
    go_on.set()
    with pytest.raises(EndpointStopped):
        await asyncio.wait_for(waiting, LIMIT)
    await asyncio.wait_for(stopping, LIMIT)


async def test_stopping_ends_the_lifespan_of_the_server() -> None:
    events: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[None]:
        events.append("up")
        yield
        events.append("down")

    endpoint = MCPEndpoint(lambda: MCPServer("test", version="0", lifespan=lifespan), LOG)
    await endpoint.application()
    assert events == ["up"]
    await endpoint.stop()
    assert events == ["up", "down"]


async def test_stopping_does_not_wait_forever_for_a_stuck_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @contextlib.asynccontextmanager
    async def stuck(server: MCPServer) -> AsyncIterator[None]:
        yield
        await asyncio.Event().wait()

    endpoint = MCPEndpoint(lambda: MCPServer("test", version="0", lifespan=stuck), LOG)
    await endpoint.application()
    await asyncio.wait_for(endpoint.stop(timeout=0.05), LIMIT)
    assert "did not end within 0.05 s" in caplog.text


async def test_an_endpoint_that_fails_while_running_is_rebuilt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    crash = asyncio.Event()
    servers: list[MCPServer] = []

    @contextlib.asynccontextmanager
    async def fragile(server: MCPServer) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail_when_told())
            yield

    async def fail_when_told() -> None:
        await crash.wait()
        raise OSError("gone")

    def build_fragile() -> MCPServer:
        lifespan = None if servers else fragile
        servers.append(MCPServer("test", version="0", lifespan=lifespan))
        return servers[-1]

    async with running(MCPEndpoint(build_fragile, LOG)) as endpoint:
        await endpoint.application()
        task = endpoint._task
        assert task is not None
        crash.set()
        await asyncio.wait({task}, timeout=LIMIT)
        assert callable(await endpoint.application())
    assert len(servers) == 2
    assert "the next request restarts it" in caplog.text
