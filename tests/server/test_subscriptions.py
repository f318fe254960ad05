"""Notifications of changes of toys: how many, to whom, and until when, in both eras."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from jupyter_collaboration_mcp.errors import PermissionRefused
from jupyter_collaboration_mcp.resources.kinds import Content, Kind, Watch
from jupyter_collaboration_mcp.server import subscriptions
from jupyter_collaboration_mcp.server.server import CollaborationServer
from jupyter_collaboration_mcp.server.subscriptions import MOST_OF_CLIENT, Pace, Subscriber
from jupyter_collaboration_mcp.workspace.permits import Call
from tests.harness.agents import LEGACY, MODERN, AgentClient
from tests.harness.subscribers import legacy, only, subscribed
from tests.harness.toys import serve
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

ERAS = [MODERN, LEGACY]

#: The code for what is not there, by era.
NOT_FOUND = {MODERN: INVALID_PARAMS, LEGACY: -32002}


class Toys(Kind):
    """Resources `toy://NAME` that change when a test says so."""

    template = "toy://{name}"
    description = "A toy."

    def __init__(self) -> None:
        self.watches: dict[str, list[Callable[[], None]]] = {}
        self.denied: set[str] = set()
        self.restless = False
        """Whether something changes as soon as somebody watches it."""
        self.deciding: asyncio.Event | None = None
        """Set when it is to be decided who may read."""
        self.asked: list[str] = []

    async def read(self, call: Call, uri: str) -> list[Content] | None:
        return [Content("text/plain", "x")] if uri.startswith("toy://") else None

    async def watch(self, call: Call, uri: str, tell: Callable[[], None]) -> Watch | None:
        if not uri.startswith("toy://") or uri == "toy://constant":
            return None
        if uri == "toy://secret":
            raise PermissionRefused("No.", "Ask.")
        self.watches.setdefault(uri, []).append(tell)
        if self.restless:
            tell()
            for _ in range(10):
                await asyncio.sleep(0)  # as joining a room lets others go on
        return _ToyWatch(self, uri, tell)

    def change(self, uri: str) -> None:
        for tell in self.watches.get(uri, []):
            tell()

    @property
    def count(self) -> int:
        return sum(map(len, self.watches.values()))


class _ToyWatch:
    def __init__(self, toys: Toys, uri: str, tell: Callable[[], None]) -> None:
        self._toys, self._uri, self._tell = toys, uri, tell

    async def may_read(self, call: Call) -> bool:
        self._toys.asked.append(self._uri)
        if self._toys.deciding is not None:
            await self._toys.deciding.wait()
        return self._uri not in self._toys.denied

    def close(self) -> None:
        self._toys.watches[self._uri].remove(self._tell)


@asynccontextmanager
async def connect_toys(
    server: CollaborationServer, mode: str, on_message: Any
) -> AsyncIterator[AgentClient]:
    async with Client(server, mode=mode, message_handler=on_message) as client:
        yield AgentClient(client)


def toy_server() -> tuple[Toys, CollaborationServer, Any]:
    toys = Toys()
    server = serve(resource=toys)
    assert isinstance(server, CollaborationServer)
    return toys, server, partial(connect_toys, server)


@pytest.mark.parametrize("mode", ERAS)
async def test_both_eras_announce_subscriptions_and_list_changes(mode: str) -> None:
    _, _, connect = toy_server()
    async with connect("auto" if mode == MODERN else mode, None) as ada:
        resources = ada.client.server_capabilities.resources
        assert resources is not None
        assert (resources.subscribe, resources.list_changed) == (True, True)


@pytest.mark.parametrize("mode", ERAS)
async def test_a_thousand_changes_in_a_second_are_few_notifications_and_one_after_the_last(
    mode: str,
) -> None:
    toys, _, connect = toy_server()
    async with subscribed(connect, mode, ["toy://a", "toy://b"]) as heard:
        began = time.monotonic()
        toys.change("toy://a")
        await until(lambda: heard.uris)
        for _ in range(1000):
            last = time.monotonic()  # before it: its notification may be here at once
            toys.change("toy://a")
            await asyncio.sleep(0.001)
        await until(lambda: heard.times[-1] >= last)
        assert heard.count("toy://a") <= 5 * (heard.times[-1] - began) + 2
        assert heard.count("toy://b") == 0


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_hears_of_a_change_at_once_and_of_the_next_one_later(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "INTERVAL", 3600)
    toys, _, connect = toy_server()
    async with subscribed(connect, mode, ["toy://a", "toy://b"]) as heard:
        async with heard.hearing("toy://a"):
            toys.change("toy://a")
        toys.change("toy://a")
        async with heard.hearing("toy://b"):
            toys.change("toy://b")
        assert heard.count("toy://a") == 1


@pytest.mark.parametrize("mode", ERAS)
async def test_nobody_is_notified_of_what_they_may_no_longer_read(mode: str) -> None:
    toys, _, connect = toy_server()
    async with subscribed(connect, mode, ["toy://a", "toy://b"]) as heard:
        toys.denied = {"toy://a"}
        toys.change("toy://a")
        async with heard.hearing("toy://b"):  # what is due is sent in the order of subscription
            toys.change("toy://b")
        assert heard.count("toy://a") == 0
        toys.denied = set()
        async with heard.hearing("toy://a"):
            toys.change("toy://a")


@pytest.mark.parametrize("mode", ERAS)
async def test_watches_end_with_the_session_or_stream(mode: str) -> None:
    toys, server, connect = toy_server()
    async with subscribed(connect, mode, ["toy://a", "toy://b", "toy://constant"], lists=True):
        assert toys.count == 2
        assert len(server.subscriptions) == 3
    await until(lambda: toys.count == 0)
    assert (len(server.subscriptions), server.subscriptions.subscribers) == (0, 0)


@pytest.mark.parametrize(("clients", "most"), [(1, 5), (8, 5), (100, 1.4), (1_000, 0.3)])
def test_the_more_notifications_there_are_the_longer_each_client_waits(
    clients: int, most: float
) -> None:
    """Everything changes all the time; `most` is what one client gets in a second."""
    pace, due, sent, now = Pace(), [0.0] * clients, 0, 0.0
    while now < 20:
        for client, at in enumerate(due):
            if at <= now:
                due[client] = now + pace.after(now)
                sent += 1
        now += 0.02
    assert most / 2 < sent / clients / 20 <= most * 1.05


async def test_unsubscribing_ends_a_watch_and_subscribing_twice_makes_one() -> None:
    toys, _, connect = toy_server()
    async with subscribed(connect, LEGACY, ["toy://a", "toy://a", "toy://b"]) as heard:
        assert toys.count == 2
        with legacy():
            await heard.client.unsubscribe_resource("toy://a")
            await heard.client.unsubscribe_resource("toy://never")
        assert toys.count == 1
        async with heard.hearing("toy://b"):
            toys.change("toy://b")


@pytest.mark.parametrize("mode", ERAS)
async def test_what_changes_while_somebody_subscribes_to_it_is_heard_then_and_later(
    mode: str,
) -> None:
    toys, _, connect = toy_server()
    toys.restless = True
    async with subscribed(connect, mode, ["toy://a"]) as heard:
        await until(lambda: heard.count("toy://a") == 1)
        async with heard.hearing("toy://a"):
            toys.change("toy://a")


async def test_who_unsubscribes_while_something_is_about_to_be_sent_does_not_hear_it() -> None:
    toys, _, connect = toy_server()
    async with subscribed(connect, LEGACY, ["toy://a", "toy://b", "toy://c"]) as heard:
        toys.deciding = asyncio.Event()
        for uri in ("toy://a", "toy://b", "toy://c"):
            toys.change(uri)
        await until(lambda: toys.asked)
        with legacy():
            await heard.client.unsubscribe_resource("toy://a")
            await heard.client.unsubscribe_resource("toy://b")
        async with heard.hearing("toy://c"):
            toys.deciding.set()
        assert heard.uris == ["toy://c"]


async def test_who_only_unsubscribes_leaves_nothing() -> None:
    _, server, connect = toy_server()
    async with connect(LEGACY, None) as ada:
        with legacy():
            await ada.client.unsubscribe_resource("toy://a")
        assert server.subscriptions.subscribers == 0


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_has_at_most_so_many_subscriptions(mode: str) -> None:
    toys, server, connect = toy_server()
    uris = [f"toy://{n}" for n in range(MOST_OF_CLIENT + 1)]
    with pytest.raises((MCPError, ExceptionGroup)) as refused:
        async with subscribed(connect, mode, uris):
            pass
    assert f"{MOST_OF_CLIENT} resources at once" in str(only(refused.value))
    await until(lambda: toys.count == 0)
    async with subscribed(connect, mode, uris[:-1]):
        assert len(server.subscriptions) == MOST_OF_CLIENT


@pytest.mark.parametrize("mode", ERAS)
async def test_one_credential_cannot_take_all_subscriptions(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST_OF_CREDENTIAL", 3)
    toys, server, connect = toy_server()
    async with subscribed(connect, mode, ["toy://a", "toy://b"]):
        with pytest.raises((MCPError, ExceptionGroup)) as refused:
            async with subscribed(connect, mode, ["toy://c", "toy://d"]):
                pass
        assert "with one credential" in str(only(refused.value))
        async with subscribed(connect, mode, ["toy://c"]):
            assert len(server.subscriptions) == 3
        server.subscriptions._subscribers.add(other := Subscriber(_never, _forget, Pace(), "other"))
        other.reserved = 3  # those of another one do not count
        async with subscribed(connect, mode, ["toy://c"]):
            assert len(server.subscriptions) == 6
    await until(lambda: toys.count == 0)


async def _never(uri: str) -> None:
    raise AssertionError(uri)


def _forget(subscriber: Subscriber) -> None: ...


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("uri", ["nothing://a", "toy://secret"])
async def test_what_is_refused_is_refused_with_its_uri_and_leaves_nothing(
    mode: str, uri: str
) -> None:
    toys, server, connect = toy_server()
    with pytest.raises((MCPError, ExceptionGroup)) as refused:
        async with subscribed(connect, mode, ["toy://a", uri]):
            pass
    error = only(refused.value)
    assert error.error.data == {"uri": uri}
    assert error.error.code == (INVALID_PARAMS if "nothing" in uri else NOT_FOUND[mode])
    await until(lambda: toys.count == 0 and server.subscriptions.subscribers == 0)


async def test_a_server_that_stops_ends_its_streams_in_good_order() -> None:
    toys, server, connect = toy_server()
    async with subscribed(connect, MODERN, ["toy://a"]) as heard:
        await server.subscriptions.close()
        await until(lambda: heard.ended)
        assert toys.count == 0
        with pytest.raises(MCPError):
            async with heard.client.listen(resource_subscriptions=["toy://a"]):
                pass
