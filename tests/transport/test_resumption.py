"""A client of the era with sessions that lost its connection reads on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from jupyter_collaboration_mcp.transport import http as http_module
from jupyter_collaboration_mcp.transport import streams
from jupyter_collaboration_mcp.transport.http import application, bind
from jupyter_collaboration_mcp.transport.resumption import Resumption
from tests.harness.jupyter import JupyterProcess
from tests.harness.proxy import Proxy
from tests.harness.waiting import until
from tests.transport.conftest import MakeJupyter
from tests.transport.extension import EVENT_STORE_SIZE
from tests.transport.raw_streams import RawSession
from tests.transport.tools import build

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

TOKEN = "token-of-the-command"


@dataclass
class Door:
    """Where the test tools are served."""

    url: str
    headers: dict[str, str]

    @asynccontextmanager
    async def session(self, url: str = "", **options: str) -> AsyncIterator[RawSession]:
        async with RawSession(url or self.url, self.headers, **options) as session:
            yield session


@dataclass
class Command(Door):
    """The same, in this process."""

    resumption: Resumption


@asynccontextmanager
async def command(size: int = EVENT_STORE_SIZE) -> AsyncIterator[Command]:
    """What the standalone command serves over HTTP, with the test tools."""
    server = build()
    app = application(server, TOKEN, [], event_store_size=size)
    resumption = server.session_manager.asgi_app
    assert isinstance(resumption, Resumption)
    http = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=3)
    )
    with bind("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(http.serve([listener]))
        await until(lambda: http.started)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        yield Command(url, {"Authorization": f"Bearer {TOKEN}"}, resumption)
        http.should_exit = True
        await serving


@pytest.fixture(scope="module")
async def here(anyio_backend: str) -> AsyncIterator[Command]:
    async with command() as door:
        yield door


@pytest.fixture(params=["extension", "standalone"])
def door(request: pytest.FixtureRequest, jupyter: JupyterProcess, here: Command) -> Door:
    return Door(f"{jupyter.url}mcp", jupyter.headers) if request.param == "extension" else here


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


async def test_a_client_gets_what_came_while_it_was_away(door: Door, name: str) -> None:
    async with door.session() as ada:
        async with ada.call("narrate", name=name) as call:
            await ada.ask("tell", name=name, texts=["one", "two"])
            events = [await call.next(), await call.next()]
        await ada.ask("tell", name=name, texts=["three", "four", ""])
        last = events[-1].id
        assert last is not None
        missed = await ada.resumed(last)
        assert [e.text for e in events + missed] == ["one", "two", "three", "four", "the end"]
        assert len({event.id for event in events + missed}) == 5
        # The connection may have broken again before it read that.
        assert await ada.resumed(last) == missed
        assert await ada.resumed(missed[1].id or "") == missed[2:]


async def test_a_client_that_resumes_gets_what_is_still_to_come(door: Door, name: str) -> None:
    async with door.session() as ada:
        async with ada.call("narrate", name=name) as call:
            await ada.ask("tell", name=name, texts=["one"])
            event = await call.next()
        await ada.ask("tell", name=name, texts=["two"])
        seen = [event.text]
        for line in ("three", "four", ""):  # each over another connection
            async with ada.listen(event.id) as stream:
                event = await stream.next()
                seen.append(event.text)
                await ada.ask("tell", name=name, texts=[line])
        seen += [each.text for each in await ada.resumed(event.id or "")]
        assert seen == ["one", "two", "three", "four", "the end"]


async def test_a_call_that_takes_time_can_be_resumed_before_it_has_sent_anything(
    door: Door, name: str
) -> None:
    async with door.session() as ada:
        async with ada.call("narrate", name=name) as call:
            first = await call.next()
        assert first.id is not None
        assert first.data is None
        await ada.ask("tell", name=name, texts=["one", ""])
        assert [event.text for event in await ada.resumed(first.id)] == ["one", "the end"]


async def test_an_answer_that_comes_at_once_is_one_event_that_is_not_stored(here: Command) -> None:
    async with here.session() as ada:
        before = len(here.resumption.streams), here.resumption.streams.store.size
        events = await ada.ask("echo", text="hello")
        assert [(event.id, event.text) for event in events] == [(None, "hello")]
        assert (len(here.resumption.streams), here.resumption.streams.store.size) == before


async def test_an_older_client_gets_no_event_that_it_does_not_understand(
    door: Door, name: str
) -> None:
    async with door.session(version="2025-06-18") as ada:
        async with ada.call("narrate", name=name) as call:
            await ada.ask("tell", name=name, texts=["one"])
            event = await call.next()
        assert event.text == "one"
        await ada.ask("tell", name=name, texts=[""])
        assert [each.text for each in await ada.resumed(event.id or "")] == ["the end"]


@pytest.mark.parametrize("ends", ["while it is away", "after it is back"])
async def test_the_official_client_resumes_by_itself(door: Door, name: str, ends: str) -> None:
    seen: list[str | None] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(Proxy(door.url))
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=door.headers, timeout=30, verify=False)
        )
        transport = streamable_http_client(proxy.url, http_client=http)
        client = await stack.enter_async_context(Client(transport, mode="legacy"))
        bob = await stack.enter_async_context(door.session())
        calling = asyncio.ensure_future(
            client.call_tool("narrate", {"name": name}, progress_callback=note)
        )
        await bob.ask("tell", name=name, texts=["one"])
        await until(lambda: seen == ["one"])
        proxy.cut()
        await bob.ask("tell", name=name, texts=["two", "three"])
        if ends == "while it is away":
            await bob.ask("tell", name=name, texts=[""])
        proxy.resume()
        if ends == "after it is back":
            await until(lambda: len(seen) == 3)
            await bob.ask("tell", name=name, texts=["four", ""])
        result = await asyncio.wait_for(calling, 20)
        assert result.content == [TextContent(type="text", text="the end")]
    expected = ["one", "two", "three", "four"]
    assert seen == (expected[:3] if ends == "while it is away" else expected)


async def test_the_stream_goes_on_where_the_server_has_not_noticed_that_a_connection_broke(
    door: Door, name: str
) -> None:
    async with Proxy(door.url) as proxy, door.session() as ada:
        async with ada.http.stream("GET", ada.url) as notifications:
            assert notifications.status_code == 200
        async with door.session(proxy.url) as bob:
            async with bob.call("narrate", name=name) as call:
                await ada.ask("tell", name=name, texts=["one"])
                event = await call.next()
                proxy.forget()
            async with bob.listen(event.id, url=door.url) as stream:
                await ada.ask("tell", name=name, texts=["two", ""])
                assert [each.text for each in await stream.rest()] == ["two", "the end"]
        assert b"two" not in proxy.swallowed


async def test_a_client_that_stopped_reading_goes_on_over_another_connection(
    door: Door, name: str
) -> None:
    async with Proxy(door.url) as proxy, door.session(proxy.url) as ada:
        async with ada.call("flood", count=400, size=20_000) as call:
            first = await call.next()
            proxy.pause()
            # It has 8 MB to read, a fourth of the store at most is kept.
            async with ada.listen(first.id, url=door.url) as stream:
                events = await stream.rest() if stream.status == 200 else []
        # Either it was in time for all of them, or it learns that it was not.
        numbers = [event.data["params"]["progress"] for event in events[:-1] if event.data]
        assert numbers == list(range(1, 1 + len(numbers)))


async def test_what_is_no_longer_kept_is_refused(door: Door) -> None:
    async with door.session() as ada:
        async with ada.call("flood", count=200, size=10_000) as call:
            first, *_, before, last = await call.rest()
        assert await ada.refused(first.id or "") == 400
        assert [event.text for event in await ada.resumed(before.id or "")] == ["x" * 10_000]
        assert await ada.resumed(last.id or "") == []
        for unknown in ("999999-1", "1", "x", "-1-1", "999999999999999999999-1", f"{last.id}0"):
            assert await ada.refused(unknown) == 400


async def test_a_flood_that_nobody_reads_does_not_fill_the_memory(here: Command) -> None:
    async with here.session() as ada:
        async with ada.call("flood", count=320, size=100_000) as call:
            first = await call.next()
        away = here.resumption.streams.find(ada.id, int((first.id or "").split("-")[0]))
        assert away is not None
        await asyncio.wait_for(away.closed.wait(), 20)
        assert away.events is not None
        assert 0 < away.events.size <= EVENT_STORE_SIZE / 4
        assert here.resumption.streams.store.size <= EVENT_STORE_SIZE
        assert await ada.refused(first.id or "") == 400


async def test_nobody_resumes_the_stream_of_another_session(door: Door, name: str) -> None:
    async with door.session() as ada, door.session() as bob:
        async with ada.call("narrate", name=name) as call:
            first = (await call.next()).id or ""
        assert await bob.refused(first) == 400
        assert await bob.refused(first, **{"mcp-session-id": "f" * 32}) == 404
        await bob.ask("tell", name=name, texts=[""])
        assert [event.text for event in await ada.resumed(first)] == ["the end"]


async def test_nobody_resumes_the_stream_of_another_credential(
    make_jupyter: MakeJupyter, name: str
) -> None:
    provider = "--ServerApp.identity_provider_class=tests.transport.extension.TwoPeople"
    async with make_jupyter(provider) as jupyter:
        url = f"{jupyter.url}mcp"
        async with RawSession(url, {"Authorization": "token ada"}) as ada:
            async with ada.call("narrate", name=name) as call:
                first = (await call.next()).id or ""
            grace = {"Authorization": "token grace"}
            assert await ada.refused(first, **grace) == 404
            async with ada.http.stream("GET", url, headers=grace) as notifications:
                assert notifications.status_code == 404
            await ada.ask("tell", name=name, texts=[""])
            assert [event.text for event in await ada.resumed(first)] == ["the end"]


async def test_nothing_is_kept_of_a_session_that_has_ended(here: Command, name: str) -> None:
    async with here.session() as ada:
        async with ada.call("narrate", name=name) as call:
            await ada.ask("tell", name=name, texts=["one"])
            event = await call.next()
        async with ada.listen(event.id) as stream:
            assert stream.status == 200
            assert (await ada.http.delete(ada.url)).status_code == 200
            assert await stream.rest() == []  # it ends, too
        assert await ada.refused(event.id or "") == 404
        assert here.resumption.streams.find(ada.id, int((event.id or "").split("-")[0])) is None


async def test_notifications_of_a_session_are_resumed(door: Door) -> None:
    async with door.session() as ada:
        async with ada.listen() as notifications:
            event = await notifications.next()  # only an id
            assert event.data is None
            await ada.ask("announce")
            told = await notifications.next()
            assert told.data is not None
            assert told.data["method"] == "notifications/tools/list_changed"
        await ada.ask("announce")
        async with ada.listen(told.id) as notifications:
            assert (await notifications.next()).data == told.data
            await ada.ask("announce")
            assert (await notifications.next()).data == told.data
        # A client that does not ask for what it missed gets what is to come.
        async with ada.listen() as notifications:
            assert notifications.status == 200
            await ada.ask("announce")
            assert (await notifications.next()).data in (None, told.data)

    async with door.session() as ada, ada.listen("n1-999") as notifications:
        # So does one that asks for what is no longer kept.
        await ada.ask("announce")
        assert (await notifications.next()).data in (None, told.data)


async def test_only_so_many_streams_are_continued_without_their_clients(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_AWAY", 1)
    async with here.session() as ada, here.session() as bob:
        for session in (ada, bob):
            async with session.listen() as notifications:
                await notifications.next()
        await until(lambda: here.resumption.streams.continued(ada.id) is None)
        await until(lambda: here.resumption.streams.continued(bob.id))


async def test_a_server_that_keeps_nothing_sends_no_ids(name: str) -> None:
    async with command(0) as door, door.session() as ada:
        async with ada.call("narrate", name=name) as call:
            await ada.ask("tell", name=name, texts=["one", ""])
            assert [(e.id, e.text) for e in await call.rest()] == [(None, "one"), (None, "the end")]
        assert await ada.refused("1-1") == 400
        async with ada.listen("n1-1") as notifications:
            assert notifications.status == 200


async def test_a_client_that_does_not_send_its_request_is_not_waited_for(
    here: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_module, "_BODY_LIMIT", 0.1)
    url = httpx2.URL(here.url)
    sent = f"POST /mcp HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nContent-Length: 9\r\n"
    sent += "".join(f"{name}: {value}\r\n" for name, value in here.headers.items())
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"{sent}\r\n{{".encode())
    assert b" 408 " in await asyncio.wait_for(reader.readline(), 10)
    writer.close()
    monkeypatch.undo()
    async with httpx2.AsyncClient(headers=here.headers, timeout=30) as http:
        values = b"[" + b"0," * 600_001 + b"0]"
        assert (await http.post(here.url, content=values)).status_code == 413


async def test_jupyter_stops_in_time_while_clients_are_away(
    make_jupyter: MakeJupyter, name: str
) -> None:
    async with make_jupyter() as jupyter:
        door = Door(f"{jupyter.url}mcp", jupyter.headers)
        async with door.session() as ada:
            async with ada.call("narrate", name=name) as call:
                await call.next()
            async with ada.call("narrate", name=f"{name} 2") as call:
                first = await call.next()
            async with ada.listen(first.id) as stream:
                assert stream.status == 200
                assert await jupyter.terminate() == 0
        assert "Traceback" not in jupyter.log
