"""What is kept of streams: the latest of each and of all, and nothing for long."""

from __future__ import annotations

import pytest

from jupyter_collaboration_mcp.transport import events
from jupyter_collaboration_mcp.transport.events import MOST_OF_STREAM, OVERHEAD, Events, EventStore
from tests.harness.waiting import until

pytestmark = pytest.mark.anyio


async def test_events_are_found_by_the_number_of_the_one_before() -> None:
    store, stream = EventStore(1_000_000), Events()
    for data in (b"one", b"two"):
        store.add(stream, data)
    assert [stream.after(number) for number in range(-1, 4)] == [None, b"one", b"two", None, None]
    assert [stream.has_all_after(number) for number in range(-1, 4)] == [
        *(False, True, True, True, False)
    ]


async def test_one_stream_fills_a_part_of_the_store() -> None:
    store, flood, other = EventStore(40_000), Events(), Events()
    store.add(other, b"other")
    for number in range(100):
        store.add(flood, b"%d" % number + b"x" * 1_000)
    assert 0 < flood.size <= 10_000
    assert not flood.has_all_after(50)
    assert other.after(0) == b"other"
    assert store.size == flood.size + other.size


async def test_one_stream_has_so_many_events() -> None:
    store, stream = EventStore(100_000_000), Events()
    for _ in range(MOST_OF_STREAM + 1):
        store.add(stream, b"")
    assert len(stream) == len(store) == MOST_OF_STREAM
    assert stream.latest == MOST_OF_STREAM + 1


async def test_the_oldest_of_all_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST", 6)
    store, streams = EventStore(40_000), [Events() for _ in range(5)]
    for stream in streams:
        for _ in range(2):
            store.add(stream, b"x" * 1_000)
    assert [len(stream) for stream in streams] == [0, 0, 2, 2, 2]
    monkeypatch.setattr(events, "MOST", 100)
    store, streams = EventStore(4 * (1_000 + OVERHEAD)), [Events() for _ in range(6)]
    for stream in streams:
        store.add(stream, b"x" * 1_000)
    assert [len(stream) for stream in streams] == [0, 0, 1, 1, 1, 1]


async def test_an_event_that_is_too_large_is_not_kept() -> None:
    store, stream = EventStore(40_000), Events()
    store.add(stream, b"x" * 20_000)
    assert (len(stream), store.size) == (0, 0)
    assert not stream.has_all_after(0)  # nobody gets what comes next without it
    store.add(stream, b"next")
    assert stream.after(1) == b"next"


async def test_events_are_dropped_when_they_are_old() -> None:
    store, stream = EventStore(40_000, age=0.05), Events()
    emptied: list[bool] = []
    stream.on_empty = lambda: emptied.append(True)
    for _ in range(2):
        store.add(stream, b"x")
        await until(lambda: not stream)
        assert store.size == 0
    assert emptied == [True, True]
    assert stream.latest == 2


async def test_a_stream_can_be_forgotten() -> None:
    store, stream, other = EventStore(40_000), Events(), Events()
    for each in (stream, other, stream):
        store.add(each, b"x")
    store.forget(stream)
    assert (len(stream), len(other), store.size) == (0, 1, other.size)
