"""What the service of a Hub does when its callers, the Hub or a user's server misbehave."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jupyter_collaboration_mcp.hub_service import service as service_module
from jupyter_collaboration_mcp.hub_service.service import HubService
from jupyter_collaboration_mcp.server.hub_scopes import LEVEL_SCOPE
from tests.harness.http_proxy import HANG_UP, ForwardProxy, Front, Speech
from tests.harness.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

ANA: dict[str, Any] = {
    "kind": "user",
    "name": "ana",
    "scopes": ["access:servers!user=ana"],
    "servers": {},
}
BODY = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'


def says(status: int, content: Any, kind: str = "application/json") -> Speech:
    """An answer as the Hub sends or forwards it."""

    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        writer.write(
            f"HTTP/1.1 {status} Because\r\nx-jupyterhub-version: 6.1.1\r\ncontent-type: {kind}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode()
        )
        writer.write(body)

    return speak


class Answer:
    """What a request is answered with, as far as it has come."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.begun = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
            self.begun.set()
        self.body += message.get("body", b"")

    @property
    def said(self) -> str:
        return str(json.loads(self.body)["error"])


class Caller:
    """Hands the service a request; nothing more comes after its body."""

    def __init__(self, *parts: bytes, ends: bool = True) -> None:
        self._parts = list(parts)
        self._ends = ends
        self.read = 0

    async def receive(self) -> Any:
        if not self._parts:
            await asyncio.Event().wait()
        self.read += 1
        part = self._parts.pop(0)
        return {
            "type": "http.request",
            "body": part,
            "more_body": bool(self._parts) or not self._ends,
        }


async def ask(
    service: HubService,
    caller: Caller | None = None,
    method: str = "POST",
    query: bytes = b"",
    answer: Answer | None = None,
) -> Answer:
    answer = answer or Answer()
    scope = {
        "type": "http",
        "method": method,
        "path": "/services/mcp/",
        "query_string": query,
        "headers": [(b"authorization", b"Bearer secret"), (b"host", b"hub.example")],
    }
    caller = caller or Caller(BODY)
    await service(scope, caller.receive, answer.send)
    return answer


@asynccontextmanager
async def serving(answers: Mapping[str, int | Speech]) -> AsyncIterator[tuple[HubService, Front]]:
    """The service of a Hub that answers as it is told to."""
    async with Front("http://127.0.0.1:9/", {"GET hub/api/user": says(200, ANA), **answers}) as hub:
        service = HubService("/services/mcp/", hub.url, hub.url, "mcp")
        try:
            yield service, hub
        finally:
            await service.close()


async def test_nothing_is_read_for_a_token_that_opens_nothing() -> None:
    for model, status in (({}, 401), ({**ANA, "scopes": []}, 403)):
        user = says(200, model) if model else says(403, {"message": "no"})
        caller = Caller(b"x" * 1_000, b"y", ends=False)
        async with serving({"GET hub/api/user": user}) as (service, _):
            assert (await ask(service, caller)).status == status
        assert caller.read == 0


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_BODY_LIMIT", 0.05)
    async with serving({}) as (service, hub):
        answer = await ask(service, Caller(b"{", ends=False))
        assert answer.status == 408
        assert hub.asked == ["GET /hub/api/user"]


async def test_one_token_has_so_many_requests_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving({}) as (service, _):
        monkeypatch.setattr(service._requests, "_most", 1)
        caller = Caller(b"{", ends=False)
        first = asyncio.ensure_future(ask(service, caller))
        await until(lambda: caller.read)
        answer = await ask(service)
        assert (answer.status, answer.headers[b"retry-after"]) == (429, b"1")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not len(service._requests)


@pytest.mark.parametrize(
    ("hub", "api", "verified"),
    [
        ("http://proxy/", "http://hub/", False),
        ("http://proxy/", "https://hub/", True),
        ("https://proxy/", "http://hub/", True),
    ],
)
async def test_certificates_are_verified_wherever_a_token_goes(
    hub: str, api: str, verified: bool
) -> None:
    service = HubService("/services/mcp/", hub, api, "mcp")
    context: Any = service._http._pool._ssl_context
    assert (context.verify_mode is ssl.CERT_REQUIRED) == verified
    await service.close()


async def test_a_call_that_may_have_been_carried_out_is_not_called_repeatable() -> None:
    lost: dict[str, int | Speech] = {"POST user/ana/mcp": HANG_UP, "GET user/ana/mcp": HANG_UP}
    async with serving(lost) as (service, hub):
        answer = await ask(service)
        assert answer.status == 502
        assert b"retry-after" not in answer.headers
        assert "look before you repeat it" in answer.said
        assert hub.asked.count("POST /user/ana/mcp") == 1
        # A stream carries nothing out, and neither does a question about a token.
        assert (await ask(service, method="GET")).status == 503
        hub.answers = {"GET hub/api/user": HANG_UP}
        assert (await ask(service)).headers[b"retry-after"] == b"5"


async def test_a_proxy_that_cannot_be_reached_can_be_asked_again() -> None:
    async with serving({}) as (service, _):
        service._hub = "http://127.0.0.1:9/"
        answer = await ask(service)
        assert (answer.status, answer.headers[b"retry-after"]) == (503, b"5")


def stopped_server(hub: list[Front], waiting: int) -> dict[str, int | Speech]:
    """A server that the Hub starts when so many requests wait for it."""
    scopes = [f"{scope}:servers!user=ana" for scope in ("access", "read", "start")]
    server = {"name": "", "url": "/user/ana/", "ready": True, "pending": None}
    started = asyncio.Event()

    async def start(head: bytes, writer: asyncio.StreamWriter) -> None:
        await until(lambda: hub[0].asked.count("POST /user/ana/mcp") == waiting)
        started.set()
        await says(202, {})(head, writer)

    async def answer(head: bytes, writer: asyncio.StreamWriter) -> None:
        stopped = says(503, b"<html>", "text/html")
        await (says(200, {}) if started.is_set() else stopped)(head, writer)

    return {
        "GET hub/api/user": says(200, {**ANA, "scopes": scopes, "servers": {"": server}}),
        "POST hub/api/users/ana/server": start,
        "POST user/ana/mcp": answer,
    }


async def test_many_requests_to_a_stopped_server_are_one_start() -> None:
    fronts: list[Front] = []
    async with serving(stopped_server(fronts, 5)) as (service, hub):
        fronts.append(hub)
        found = await asyncio.gather(*(ask(service) for _ in range(5)))
        assert [each.status for each in found] == [200] * 5
        assert hub.asked.count("POST /hub/api/users/ana/server") == 1


async def test_no_token_goes_to_a_proxy_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fronts: list[Front] = []
    async with ForwardProxy() as proxy, serving(stopped_server(fronts, 1)) as (service, hub):
        fronts.append(hub)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", proxy.url)
        # A name of this machine that does not look like it.
        service._api = hub.url.replace("127.0.0.1", "127.1")
        assert (await ask(service)).status == 200
        assert "POST /hub/api/users/ana/server" in hub.asked
        assert proxy.asked == []


async def test_what_the_server_itself_says_is_passed_on_and_starts_nothing() -> None:
    busy: dict[str, int | Speech] = {"POST user/ana/mcp": says(503, {"message": "stopping"})}
    async with serving(busy) as (service, hub):
        answer = await ask(service)
        assert (answer.status, json.loads(answer.body)) == (503, {"message": "stopping"})
        assert hub.asked == ["GET /hub/api/user", "POST /user/ana/mcp"]


@pytest.mark.parametrize("query", [b"agent=Ada#", b"#", b"agent=\x01", b"a=" + b"x" * 100_000])
async def test_a_query_that_cannot_be_passed_on_whole_is_refused(query: bytes) -> None:
    async with serving({"POST user/ana/mcp": says(200, {})}) as (service, hub):
        assert (await ask(service, query=query)).status == 400
        assert hub.asked == ["GET /hub/api/user"]


async def test_the_level_of_a_token_comes_first_in_the_query() -> None:
    limited = {**ANA, "scopes": [*ANA["scopes"], f"{LEVEL_SCOPE}write"]}
    answers = {"GET hub/api/user": says(200, limited), "POST user/ana/mcp": says(200, {})}
    async with serving(answers) as (service, hub):
        for query, asked in (
            (b"agent=Ada&", "permission=write&agent=Ada&"),
            (b"", "permission=write"),
        ):
            assert (await ask(service, query=query)).status == 200
            assert hub.asked[-1] == f"POST /user/ana/mcp?{asked}"


@pytest.mark.parametrize(
    "after",
    [
        says(403, {"message": "no"}),
        says(200, {**ANA, "scopes": []}),
        says(200, {**ANA, "scopes": [*ANA["scopes"], f"{LEVEL_SCOPE}read"]}),
    ],
    ids=["revoked", "less", "lower"],
)
async def test_a_stream_ends_when_its_token_allows_it_no_more(
    after: Speech, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "_LOOK_AGAIN", 0.02)

    async def stream(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n:\n")
        await asyncio.Event().wait()

    async with serving({"GET user/ana/mcp": stream}) as (service, hub):
        answer = Answer()
        streaming = asyncio.ensure_future(ask(service, method="GET", answer=answer))
        async with asyncio.timeout(10):
            await answer.begun.wait()
            hub.answers = {**hub.answers, "GET hub/api/user": HANG_UP}  # the Hub is away
            asked = len(hub.asked)
            await until(lambda: len(hub.asked) >= asked + 2)
            assert not streaming.done()
            hub.answers = {**hub.answers, "GET hub/api/user": after}
            await streaming
        assert answer.status == 200
