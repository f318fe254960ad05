"""What the SDK keeps of a request: its body once, that the client has gone, and what is left."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from jupyter_collaboration_mcp.transport.agent_tokens import AgentToken
from jupyter_collaboration_mcp.transport.incoming import Afterwards, Incoming, authorizer_for_all

pytestmark = pytest.mark.anyio


async def test_the_body_comes_once_and_then_that_the_client_has_gone() -> None:
    incoming = Incoming()
    incoming.begin(b"asked")
    assert await incoming.receive() == {
        "type": "http.request",
        "body": b"asked",
        "more_body": False,
    }
    waiting = asyncio.ensure_future(incoming.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    incoming.gone.set()
    assert (await waiting)["type"] == "http.disconnect"


async def test_what_comes_after_the_answer_is_done_then_or_at_once_if_it_has_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    afterwards, done = Afterwards("/mcp"), list[int]()
    afterwards.do(lambda: done.append(1))
    afterwards.do(lambda: done.append(1 // 0))
    afterwards.do(lambda: done.append(2))
    assert done == []
    with caplog.at_level(logging.ERROR):
        afterwards.finish()
    assert done == [1, 2]
    assert ["/mcp" in record.getMessage() for record in caplog.records] == [True]
    afterwards.do(lambda: done.append(3))
    afterwards.finish()
    assert done == [1, 2, 3]


async def test_a_token_that_expires_meanwhile_lets_nobody_go_on() -> None:
    now = time.time()
    for expires, may in ((None, True), (now + 600, True), (now - 1, False)):
        token = AgentToken("id", "Ada", "write", (), now, expires, "user", "A user", "digest")
        authorize = authorizer_for_all(token)
        assert await authorize("read", "contents", "a.ipynb") is may
    assert await authorizer_for_all(None)("write", "contents", None)
