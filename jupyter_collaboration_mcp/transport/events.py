"""What was sent on streams, for clients that lost their connection and ask for the rest.

It is kept in memory, within limits for one stream and for all together. Beyond them, the oldest
events are dropped first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass

#: Seconds for which an event is kept, and so for which a client can be away.
AGE = 300.0

#: Events of one stream, and of all together.
MOST_OF_STREAM, MOST = 1_000, 20_000

#: One stream may fill this part of the store.
SHARE = 4

#: Bytes of memory that an event takes beside its text, about.
OVERHEAD = 500


@dataclass(eq=False, slots=True)
class _Event:
    stream: Events
    data: bytes
    at: float

    @property
    def size(self) -> int:
        return len(self.data) + OVERHEAD


class Events:
    """The events of one stream, numbered from 1, of which the latest are kept."""

    def __init__(self) -> None:
        self.latest = 0
        """The number of the latest event, also if it is not kept."""
        self.size = 0
        self.on_empty: Callable[[], None] = lambda: None
        """Called when the last event that was kept has been dropped."""
        self._kept: deque[_Event] = deque()

    def __len__(self) -> int:
        """How many events are kept."""
        return len(self._kept)

    def has_all_after(self, number: int) -> bool:
        """Whether each event after this one is kept, if there are any."""
        return self.latest - len(self._kept) <= number <= self.latest

    def after(self, number: int) -> bytes | None:
        """The event that follows this one; None if there is none yet, or it was dropped."""
        if number == self.latest or not self.has_all_after(number):
            return None
        return self._kept[number - self.latest].data

    def add(self, event: _Event) -> None:
        """Keep the next event."""
        self._kept.append(event)
        self.latest += 1
        self.size += event.size

    def drop_oldest(self) -> _Event:
        """Keep the oldest event no longer."""
        event = self._kept.popleft()
        self.size -= event.size
        return event


class EventStore:
    """The events of all streams.

    Args:
        size: Bytes of all together.
        age: Seconds for which an event is kept.
    """

    def __init__(self, size: int, age: float = AGE) -> None:
        self._limit, self._age = size, age
        self.size = 0
        self._order: OrderedDict[_Event, None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many events are kept."""
        return len(self._order)

    def add(self, stream: Events, data: bytes) -> None:
        """Keep the next event of a stream, within the limits."""
        loop = asyncio.get_running_loop()
        event = _Event(stream, data, loop.time())
        stream.add(event)
        self._order[event] = None
        self.size += event.size
        while stream.size > self._limit // SHARE or len(stream) > MOST_OF_STREAM:
            self._drop_oldest(stream)
        while self.size > self._limit or len(self._order) > MOST:
            self._drop_oldest(next(iter(self._order)).stream)
        if self._timer is None and self._order:
            self._timer = loop.call_later(self._age, self._drop_old)

    def forget(self, stream: Events) -> None:
        """Drop all events of a stream."""
        while stream:
            self._drop_oldest(stream)

    def _drop_oldest(self, stream: Events) -> None:
        event = stream.drop_oldest()
        del self._order[event]
        self.size -= event.size
        if not stream:
            stream.on_empty()

    def _drop_old(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        while self._order:
            oldest = next(iter(self._order))
            due = oldest.at + self._age
            if due > loop.time():
                self._timer = loop.call_at(due, self._drop_old)
                return
            self._drop_oldest(oldest.stream)
