"""A link to a kernel that says what no kernel should: the sockets are real, the kernel is not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
import zmq
from jupyter_client.session import DELIM, Session

from jupyter_collaboration_mcp.backends.in_process.zmq_wire import ZmqWire
from jupyter_collaboration_mcp.backends.kernels import conversation
from jupyter_collaboration_mcp.backends.kernels.conversation import KernelConversation
from jupyter_collaboration_mcp.backends.protocols.kernels import KernelMessage
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio

LARGE = 300_000


class StrangeKernel:
    """The kernel's side of the sockets, and what a manager says of it."""

    kernel_name = "strange"
    execution_state = "idle"
    alive = True
    provisioner = SimpleNamespace(process=object())

    def __init__(self) -> None:
        self.context = zmq.Context[zmq.Socket[bytes]]()
        self.session = Session(key=b"the key of this kernel")
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        for channel in ("shell", "stdin", "control", "iopub"):
            kind = zmq.PUB if channel == "iopub" else zmq.ROUTER
            socket = self._sockets[channel] = self.context.socket(kind)
            socket.linger = 0
            socket.bind(self._make_url(channel))

    def _make_url(self, channel: str) -> str:
        return f"inproc://{channel}"

    def is_alive(self) -> bool:
        return self.alive

    def publish(
        self,
        kind: str,
        content: dict[str, Any],
        request: str = "",
        key: bytes = b"the key of this kernel",
    ) -> None:
        """Say something on iopub, by default as the kernel itself."""
        session = Session(key=key)
        parent = {"header": {"msg_id": request, "msg_type": "execute_request"}}
        session.send(self._sockets["iopub"], kind, content, parent=parent)

    def introduce(self) -> None:
        """Answer the question that waits on the shell."""
        shell = self._sockets["shell"]
        identities, question = self.session.recv(shell)
        content = {"language_info": {"name": "strange"}}
        self.session.send(shell, "kernel_info_reply", content, parent=question, ident=identities)

    def publish_frames(self, *frames: bytes) -> None:
        self._sockets["iopub"].send_multipart(frames)

    def publish_signed(self, *parts: bytes) -> None:
        """Say something that is signed well, whatever it is."""
        self.publish_frames(b"topic", DELIM, self.session.sign(list(parts)), *parts)

    def close(self) -> None:
        self.context.destroy(linger=0)


@pytest.fixture
async def kernel() -> AsyncIterator[StrangeKernel]:
    kernel = StrangeKernel()
    yield kernel
    kernel.close()


async def connect(kernel: StrangeKernel, busy: bool = False) -> KernelConversation:
    log = logging.getLogger("test")
    wire = ZmqWire(kernel.context, kernel, "strange-1", lambda: True, log, busy=busy)
    link = KernelConversation(wire, "strange-1", log)
    await link.connect()
    return link


@pytest.fixture
async def link(kernel: StrangeKernel) -> AsyncIterator[KernelConversation]:
    link = await connect(kernel)
    yield link
    await link.close()


def listen(link: KernelConversation) -> list[KernelMessage]:
    heard: list[KernelMessage] = []
    link.listen(heard.append)
    return heard


def printed(heard: list[KernelMessage]) -> list[str]:
    return [message.content["text"] for message in heard if message.type == "stream"]


def stream(text: str) -> dict[str, Any]:
    return {"name": "stdout", "text": text}


def head(request: str, kind: str = "stream") -> bytes:
    return json.dumps({"msg_id": request, "msg_type": kind}).encode()


async def test_an_unreadable_message_does_not_block_the_next_ones(
    kernel: StrangeKernel, link: KernelConversation
) -> None:
    heard = listen(link)
    request = link.execute("code")
    kernel.publish("stream", stream("before"), request)
    kernel.publish_frames(b"no message at all")
    kernel.publish_frames(b"topic", DELIM, b"too", b"short")
    kernel.publish_frames(b"topic", DELIM, b"signature", b"{broken", b"{}", b"{}", b"{}")
    mine = head(request, "execute_request")
    deep = b"[" * 100_000
    kernel.publish_signed(b"[]", mine, b"{}", b"{}")
    kernel.publish_signed(b'"header"', b"null", b"{}", b"{}")
    kernel.publish_signed(head("x"), b"[1]", b"{}", b"{}")
    kernel.publish_signed(deep, mine, b"{}", b"{}")
    kernel.publish_signed(head("x", "status"), mine, b"{}", b"[]")
    kernel.publish_signed(head("x", "status"), mine, b"{}", b"{broken")
    kernel.publish_signed(head("x", "shutdown_reply"), mine, b"{}", b"null")
    for content in (b"{broken", b"\xff", deep, b"{broken" + b" " * LARGE):
        kernel.publish_signed(head("x"), mine, b"{}", content)
    kernel.publish_signed(head("x"), mine, b"{broken", b"{}")
    kernel.publish_signed(head("x"), mine, b"{broken", b"{}" + b" " * LARGE)
    kernel.publish("stream", stream("after"), request)
    await until(lambda: printed(heard)[-1:] == ["after"])
    assert printed(heard) == ["before", "after"]
    assert await link.fate() == "alive"


async def test_text_beyond_ascii_is_read_as_the_kernel_meant_it(
    kernel: StrangeKernel, link: KernelConversation
) -> None:
    heard = listen(link)
    request = link.execute("code")
    mine = head(request, "execute_request")
    texts = ["naïve 🙂", "half of a pair: \ud83d"]
    for text in texts:
        said = json.dumps(stream(text), ensure_ascii=False).encode(errors="surrogatepass")
        kernel.publish_signed(head("x"), mine, b"{}", said)
    await until(lambda: len(printed(heard)) == len(texts))
    assert printed(heard) == texts


@pytest.mark.parametrize("size", [1, LARGE])
async def test_messages_with_a_foreign_signature_are_ignored(
    kernel: StrangeKernel, link: KernelConversation, size: int
) -> None:
    heard = listen(link)
    request = link.execute("code")
    foreign = b"the key of another kernel"
    kernel.publish("status", {"execution_state": "busy"}, request)
    kernel.publish("stream", stream("forged" * size), request, foreign)
    kernel.publish("status", {"execution_state": "idle"}, request, foreign)
    kernel.publish("status", {"execution_state": "busy"}, "theirs", foreign)
    kernel.publish("shutdown_reply", {"restart": True}, "theirs", foreign)
    kernel.publish("stream", stream("genuine"), request)
    await until(lambda: printed(heard))
    assert printed(heard) == ["genuine"]
    assert link.busy_with == request
    assert await link.fate() == "alive"
    kernel.publish("status", {"execution_state": "idle"}, request)
    await until(lambda: link.busy_with is None)
    assert [m.content["execution_state"] for m in heard if m.type == "status"] == ["busy", "idle"]


async def test_a_failing_receiver_does_not_block_the_link(
    kernel: StrangeKernel, link: KernelConversation
) -> None:
    heard: list[str] = []

    def receive(message: KernelMessage) -> None:
        heard.append(message.content["text"])
        if heard == ["one"]:
            raise RuntimeError("out of order")

    link.listen(receive)
    request = link.execute("code")
    for text in ("one", "two", "three" * LARGE):
        kernel.publish("stream", stream(text), request)
    await until(lambda: len(heard) == 3)


async def test_a_closed_link_receives_nothing_and_has_no_live_kernel(
    kernel: StrangeKernel, link: KernelConversation
) -> None:
    heard = listen(link)
    request = link.execute("code")
    kernel.publish("stream", stream("large" * LARGE), request)
    kernel.publish("stream", stream("small"), request)
    await link.close()
    await link.close()
    assert await link.fate() == "gone"
    with pytest.raises(zmq.ZMQError):
        link.execute("code")
    await asyncio.sleep(0)  # the turn in which it would have read
    assert heard == []


async def test_a_kernel_that_announces_a_restart_has_restarted(
    kernel: StrangeKernel, link: KernelConversation
) -> None:
    kernel.publish("shutdown_reply", {"restart": True}, "theirs")
    kernel.publish("status", {"execution_state": "busy"}, "next")
    await until(lambda: link.busy_with == "next")
    assert await link.fate() == "restarted"


@pytest.mark.parametrize(("restart", "fate"), [(True, "restarted"), (False, "gone")])
async def test_pending_messages_are_read_before_a_kernel_is_declared_dead(
    kernel: StrangeKernel, link: KernelConversation, restart: bool, fate: str
) -> None:
    heard = listen(link)
    kernel.publish("update_display_data", {})
    await until(lambda: heard)
    kernel.publish("shutdown_reply", {"restart": restart}, "theirs")
    kernel.alive = False
    assert await link.fate() == fate  # nothing was awaited: the loop has not seen the message


async def test_a_kernel_that_exits_without_a_message_has_died(
    kernel: StrangeKernel, link: KernelConversation
) -> None:
    kernel.alive = False
    assert await link.fate() == "died"


@pytest.fixture
async def said_to_be_busy(kernel: StrangeKernel) -> AsyncIterator[KernelConversation]:
    """A link to a kernel that the server takes for busy, heard on the channel for control."""
    link = await connect(kernel, busy=True)
    heard = listen(link)
    question = head("theirs", "kernel_info_request")
    kernel.publish_signed(head("x", "status"), question, b"{}", b'{"execution_state": "busy"}')
    kernel.publish("update_display_data", {})
    await until(lambda: heard)
    yield link
    await link.close()


async def test_a_stale_busy_state_is_corrected_once_the_kernel_answers(
    kernel: StrangeKernel, said_to_be_busy: KernelConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that died and came back the server believes what it knew of the first."""
    monkeypatch.setattr(conversation, "_INTRODUCTION", 60)
    ready = asyncio.create_task(said_to_be_busy.ready())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not ready.done()
    kernel.introduce()
    await ready
    assert said_to_be_busy.busy_with is None
    assert said_to_be_busy.language == "strange"


async def test_a_busy_kernel_is_not_waited_for_long(
    said_to_be_busy: KernelConversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_INTRODUCTION", 0.01)
    await said_to_be_busy.ready()
    assert said_to_be_busy.busy_with is not None
