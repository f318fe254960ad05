"""The panel hears of a call once its answer has left, or a moment later, and in order."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from jupyter_collaboration_mcp.server import deferred_feed as module
from jupyter_collaboration_mcp.server.call_feed import CallFeed
from jupyter_collaboration_mcp.server.deferred_feed import DeferredFeed

pytestmark = pytest.mark.anyio


class Panel:
    """What it hears, and when somebody waits for that."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.hears = asyncio.Event()
        self.require = self.ready = None

    def begin(self, record: str) -> None:
        if record == "fault":
            raise ValueError(record)
        self._hear(f"begin {record}")

    def step(self, record: str, kept: str) -> None:
        self._hear(f"step {record} {kept}")

    def end(self, record: str) -> None:
        self._hear(f"end {record}")

    def on_run(self, here: str, run: str) -> None:
        self._hear(f"run {run}")

    async def close(self) -> None:
        self._hear("close")

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        self.hears.set()


@pytest.fixture
def panel() -> Panel:
    return Panel()


@pytest.fixture
def feed(panel: Panel) -> Any:
    return DeferredFeed(cast("CallFeed", panel))


async def test_a_short_call_is_heard_of_when_it_is_over(panel: Panel, feed: Any) -> None:
    feed.begin("one")
    feed.step("one", "edit")
    assert panel.heard == []
    feed.end("one")
    assert panel.heard == ["begin one", "step one edit", "end one"]


async def test_calls_at_once_are_heard_of_in_order(panel: Panel, feed: Any) -> None:
    for each in ("one", "two"):
        feed.begin(each)
    feed.step("two", "edit")
    feed.step("one", "edit")
    feed.end("two")
    feed.end("one")
    assert panel.heard == [
        *("begin one", "begin two", "step two edit", "step one edit", "end two", "end one")
    ]


async def test_a_call_that_goes_on_is_heard_of_before_its_end(panel: Panel, feed: Any) -> None:
    for each in ("one", "two"):  # also after the panel has heard of an earlier one
        panel.hears.clear()
        feed.begin(each)
        feed.step(each, "edit")
        async with asyncio.timeout(10):
            await panel.hears.wait()
        assert panel.heard[-2:] == [f"begin {each}", f"step {each} edit"]


async def test_a_run_is_heard_of_after_the_call_that_asked_for_it(panel: Panel, feed: Any) -> None:
    feed.begin("one")
    feed.on_run("here", "r-1")
    assert panel.heard == ["begin one", "run r-1"]


async def test_what_waits_is_kept_when_the_server_stops(
    panel: Panel, feed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SOON", 600.0)
    feed.begin("one")
    await feed.close()
    assert panel.heard == ["begin one", "close"]


async def test_a_fault_is_logged_and_keeps_nothing_else_back(
    panel: Panel, feed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    feed.begin("fault")
    feed.begin("one")
    with caplog.at_level(logging.ERROR):
        feed.end("one")
    assert panel.heard == ["begin one", "end one"]
    assert [record.exc_info is not None for record in caplog.records] == [True]
