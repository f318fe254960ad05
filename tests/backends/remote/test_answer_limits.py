"""No server keeps a question unanswered for long, or fills the memory of whoever asks."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from jupyter_collaboration_mcp.backends.remote import answer_limits
from jupyter_collaboration_mcp.backends.remote.answer_limits import AnswerLimits, Deadline
from jupyter_collaboration_mcp.backends.remote.jupyter_api import JupyterApi
from jupyter_collaboration_mcp.backends.remote.server_address import ServerAddress
from jupyter_collaboration_mcp.backends.remote.websocket import BoundedConnection
from jupyter_collaboration_mcp.errors import AnswerTooLarge, NotJupyter, ServerUnreachable
from tests.harness.http_proxy import Front, Speech
from tests.harness.speeches import Flood, bomb, dripping, saying

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9/"

#: Longer than any of these tests should take, on a machine that others use.
PATIENT = 20


@asynccontextmanager
async def asking(
    speech: Speech, limits: AnswerLimits | None = None
) -> AsyncIterator[tuple[JupyterApi, Front]]:
    """Somebody who asks a server that says this, whatever the question."""
    async with Front(NOBODY, {"": speech}) as front:
        api = JupyterApi(ServerAddress(front.url, "token"), limits)
        try:
            async with asyncio.timeout(PATIENT):
                yield api, front
        finally:
            await api.close()


# -- time ----------------------------------------------------------------------------------


async def test_an_answer_that_trickles_in_times_out() -> None:
    async with asking(dripping(), AnswerLimits(seconds=0.4)) as (api, _):
        with pytest.raises(ServerUnreachable, match=r"no whole answer came within 0\.[4-9] s"):
            await api.get("api", "status")


async def test_a_download_that_progresses_gets_more_time_up_to_a_limit() -> None:
    now = asyncio.get_running_loop().time()
    async with Deadline(AnswerLimits(seconds=60), works=False, reads=True) as deadline:

        def left() -> float:
            when = deadline._timeout.when()
            assert when is not None
            return when - now

        deadline.received(60)  # a byte a second
        assert left() == pytest.approx(60, abs=1)
        deadline.received(5_000_000)
        assert left() == pytest.approx(110, abs=1)
        deadline.received(1_000_000_000)
        assert left() == pytest.approx(180, abs=1)


@pytest.mark.parametrize(
    ("method", "path", "seconds"),
    [
        ("GET", ("api", "status"), 60),
        ("PUT", ("api", "collaboration", "session", "a.ipynb"), 60),
        ("POST", ("api", "sessions"), 180),
        ("POST", ("api", "kernels", "1", "restart"), 180),
        ("PUT", ("api", "contents", "a.ipynb"), 180),
    ],
)
async def test_expensive_requests_get_more_time(
    method: str, path: tuple[str, ...], seconds: float
) -> None:
    deadline = answer_limits.deadline_for(AnswerLimits(), method, path, {})
    assert deadline._seconds == seconds


# -- size ----------------------------------------------------------------------------------


async def test_an_endless_answer_is_dropped_at_the_limit() -> None:
    flood = Flood()
    async with asking(flood, AnswerLimits(size=1_000_000)) as (api, _):
        with pytest.raises(AnswerTooLarge, match="more than 1,000,000 bytes"):
            await api.get("api", "status")
        assert flood.said < 50_000_000  # what the system holds on the way


async def test_an_answer_with_a_too_large_content_length_is_not_read() -> None:
    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000000\r\n\r\n")

    async with asking(speak) as (api, _):
        with pytest.raises(AnswerTooLarge, match="--max-answer-size"):
            await api.get("api", "status")


async def test_a_decompression_bomb_is_dropped_without_blocking_the_loop() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with asking(bomb(300_000_000), AnswerLimits(size=100_000_000)) as (api, _):
        counting = asyncio.create_task(count())
        with pytest.raises(AnswerTooLarge):
            await api.get("api", "status")
        counting.cancel()
    assert turns > 90  # a megabyte is unpacked at a time


async def test_an_answer_that_cannot_be_decompressed_is_refused() -> None:
    async with asking(saying(b"no gzip", Content_Encoding="gzip")) as (api, _):
        with pytest.raises(NotJupyter, match="cannot be unpacked"):
            await api.get("api", "status")


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b"[" + b"[]," * 3_000_000 + b"1]", b'["' + b'","' * 3_000_000 + b'"]'],
    ids=["deep", "lists", "texts"],
)
async def test_json_that_would_take_far_more_memory_than_its_size_is_not_parsed(
    body: bytes,
) -> None:
    async with asking(saying(body)) as (api, _):
        with pytest.raises(NotJupyter, match="not JSON that can be read"):
            await api.get("api", "status")


async def test_a_long_string_counts_as_one_value_whatever_it_contains() -> None:
    text = 'a,[{\\"' * 1_000_000
    async with asking(saying({"content": text})) as (api, _):
        assert (await api.get("api", "contents", "a.csv"))["content"] == text


# -- WebSockets ----------------------------------------------------------------------------


@asynccontextmanager
async def connected(
    speak: Callable[[ServerConnection], Awaitable[None]], limits: AnswerLimits
) -> AsyncIterator[BoundedConnection]:
    """A WebSocket to a server that says this."""
    async with serve(speak, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        api = JupyterApi(ServerAddress(f"http://127.0.0.1:{port}/", "token"), limits)
        try:
            async with asyncio.timeout(PATIENT):
                yield await api.websocket("api", "events")
        finally:
            await api.close()


async def test_an_endless_fragmented_message_closes_the_connection() -> None:
    async def speak(websocket: ServerConnection) -> None:
        async def pieces() -> AsyncIterator[bytes]:
            while True:
                yield b"."
                await asyncio.sleep(0.02)

        await websocket.send(pieces())

    async with connected(speak, AnswerLimits(seconds=0.3)) as websocket:
        with pytest.raises(ConnectionClosed):
            await websocket.recv()
        assert websocket.end == (None, "a message did not arrive within 0.3 s")


async def test_a_fragmented_message_is_reassembled() -> None:
    async def speak(websocket: ServerConnection) -> None:
        for _ in range(2):
            await websocket.send([b"a", b"b"])
        await websocket.recv()

    async with connected(speak, AnswerLimits(seconds=0.3)) as websocket:
        assert [await websocket.recv(), await websocket.recv()] == [b"ab", b"ab"]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(websocket.recv(), 0.5)  # and silence is no message


async def test_a_message_that_is_too_large_closes_the_connection() -> None:
    async def speak(websocket: ServerConnection) -> None:
        await websocket.send(bytes(2_000_000))

    async with connected(speak, AnswerLimits(size=1_000_000)) as websocket:
        with pytest.raises(ConnectionClosed):
            await websocket.recv()
        code, reason = websocket.end
        assert code == 1009
        assert "more than 1,000,000 bytes" in reason
        assert "--max-answer-size" in reason


async def test_a_server_that_insists_on_compression_is_refused() -> None:
    async def speak(head: bytes, writer: asyncio.StreamWriter) -> None:
        found = re.search(rb"Sec-WebSocket-Key: (\S+)", head, re.IGNORECASE)
        assert found is not None
        proof = hashlib.sha1(found[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Extensions: permessage-deflate\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(proof) + b"\r\n\r\n"
        )

    async with asking(speak) as (api, _):
        with pytest.raises(NotJupyter, match="WebSocket"):
            await api.websocket("api", "events")
