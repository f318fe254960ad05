"""What is missed while a wire is cut, which is known by the numbers of messages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jupyter_collaboration_mcp.backends.kernels import recovery
from jupyter_collaboration_mcp.backends.kernels.recovery import MessageNumbers, Recovery
from jupyter_collaboration_mcp.backends.kernels.requests import Requests
from jupyter_collaboration_mcp.backends.protocols.kernels import OUTPUT_MISSING, KernelMessage
from jupyter_collaboration_mcp.backends.remote.kernel_frames import Frame
from tests.harness.waiting import until


@pytest.mark.parametrize(
    ("heard", "missing"),
    [
        (["a_7_1", "a_7_2", "a_7_3"], [None, 0, 0]),
        (["a_7_1", "a_7_5"], [None, 3]),
        (["a_7_1", "a_7_3", "a_7_2", "a_7_4"], [None, 1, 0, 0]),
        (["a_7_9", "b_8_0", "b_8_1"], [None, None, 0]),
        (["a_7_1", "0f3c", "a_7_2"], [None, None, 0]),
        (["a_7_x", "_3", "", "4"], [None, None, None, None]),
    ],
)
def test_gaps_between_message_numbers_are_counted(
    heard: list[str], missing: list[int | None]
) -> None:
    numbers = MessageNumbers()
    assert [numbers.take({"msg_id": name}) for name in heard] == missing


def test_a_message_without_an_id_is_not_counted() -> None:
    assert MessageNumbers().take({}) is None


# -- after a cut ------------------------------------------------------------------------------


class Cut:
    """Requests of a link whose wire was cut, and what is heard of them."""

    def __init__(self) -> None:
        self.heard: list[KernelMessage] = []
        self.asked = 0
        self.requests = Requests("kernel", logging.getLogger("test"))
        self.requests.listen(self.heard.append)
        self.recovery = Recovery(self.requests, self._ask)

    def send(self, request: str) -> None:
        self.requests.add(request)
        self.requests.on_sent(request)

    def count(self, number: int, kind: str = "stream", **content: Any) -> None:
        """The kernel says something of the request that is called "run"."""
        header = {"msg_id": f"process_1_{number}", "msg_type": kind}
        parent = {"msg_id": "run"}
        self.recovery.count(Frame("iopub", header, parent, 1, {}, content))

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return [(message.parent, message.type) for message in self.heard]

    def _ask(self) -> None:
        self.asked += 1


@pytest.fixture
async def cut() -> AsyncIterator[Cut]:
    cut = Cut()
    yield cut
    cut.recovery.stop()


@pytest.mark.anyio
@pytest.mark.parametrize(("number", "missing"), [(3, False), (4, True)])
async def test_a_gap_in_the_numbers_is_reported_once_to_the_active_request(
    cut: Cut, number: int, missing: bool
) -> None:
    cut.send("run")
    cut.requests.add("not sent")
    cut.count(2)
    cut.recovery.on_reconnected(1.5)
    cut.count(number)
    cut.count(number + 5)
    assert cut.kinds == ([("run", OUTPUT_MISSING)] if missing else [])
    assert all("cut for 1.5 s" in message.content["reason"] for message in cut.heard)


@pytest.mark.anyio
async def test_a_reply_on_another_channel_is_not_missing_yet(cut: Cut) -> None:
    cut.send("run")
    cut.count(2)
    cut.recovery.on_reconnected(1)
    cut.count(4, "status", execution_state="idle")
    assert cut.heard == []


@pytest.mark.anyio
async def test_a_request_lost_in_a_cut_ends_with_an_error_and_later_ones_do_not(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_LATE", 0)
    cut.send("lost")
    cut.send("heard")
    cut.recovery.on_reconnected(1)
    cut.send("later")
    cut.requests.finish("heard")
    cut.recovery.on_answer()
    await until(lambda: len(cut.heard) == 3)
    assert cut.kinds == [("lost", "error"), ("lost", "execute_reply"), ("lost", "status")]
    assert cut.heard[0].content["ename"] == "ConnectionCut"
    assert cut.requests.open() == ["later"]


@pytest.mark.anyio
async def test_no_request_is_ended_without_a_cut_or_after_stop(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_LATE", 0)
    cut.send("run")
    cut.recovery.on_answer()
    cut.recovery.on_reconnected(1)
    cut.recovery.on_answer()
    cut.recovery.stop()
    for _ in range(5):
        await asyncio.sleep(0)  # the turns in which it would have ended
    assert cut.heard == []


@pytest.mark.anyio
async def test_a_kernel_that_stays_silent_after_a_cut_is_probed(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_ASK_SOON", 0)
    cut.recovery.on_reconnected(1)  # while nothing runs
    cut.send("run")
    cut.recovery.on_reconnected(1)
    await until(lambda: cut.asked)
    assert cut.asked == 1


@pytest.mark.anyio
async def test_a_server_that_reports_idle_twice_triggers_a_probe(cut: Cut) -> None:
    cut.recovery.compare("idle")
    cut.recovery.compare("idle")
    assert cut.asked == 0  # nothing runs indeed
    cut.send("run")
    for state, asked in (("idle", 0), ("busy", 0), ("idle", 0), ("idle", 1)):
        cut.recovery.compare(state)
        assert cut.asked == asked
