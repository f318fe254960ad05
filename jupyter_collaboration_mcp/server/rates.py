"""How fast an agent may go on: a few limits a minute, each a token bucket for each agent.

A bucket holds a minute's worth, so only who is too fast for longer is ever refused.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import RateLimited

#: Seconds for which a full bucket lasts at the allowed rate.
_BURST = 60.0

#: Buckets that are remembered; one that is full again is the same as none.
_REMEMBERED = 1_000

#: HTTP requests of a credential for each call of an agent that `rate_limit` allows: several agents
#: share a credential, and a call may take more than one request.
_REQUESTS_OF_A_CALL = 10

Clock = Callable[[], float]


class Buckets:
    """Token buckets by key, all of the same size.

    Args:
        per_minute: What each allows in a minute, and at once; 0: everything.
        clock: The time in seconds.
    """

    def __init__(self, per_minute: float, clock: Clock = time.monotonic) -> None:
        self.per_minute = per_minute
        self._clock = clock
        self._full_at: dict[str, float] = {}
        """When a bucket will be full again: one number says how much is in it."""

    def __len__(self) -> int:
        """How many buckets are remembered."""
        return len(self._full_at)

    def take(self, key: str, amount: float = 1.0) -> float:
        """Take something from a bucket.

        What is more than a bucket holds is given once it is full, and paid off afterwards.

        Returns:
            0 if it was taken. Otherwise nothing was, and this is in how many seconds it can be.
        """
        if not self.per_minute or not amount:
            return 0.0
        now, cost = self._clock(), amount * _BURST / self.per_minute
        full_at = max(now, self._full_at.get(key, now))
        wait = full_at - now + min(cost, _BURST) - _BURST
        if wait > 1e-9:
            return wait
        self._set(key, full_at + cost, now)
        return 0.0

    def charge(self, key: str, amount: float) -> None:
        """Take something that was used already, even if the bucket does not have as much."""
        if self.per_minute and amount > 0:
            now = self._clock()
            full_at = max(now, self._full_at.get(key, now))
            self._set(key, full_at + amount * _BURST / self.per_minute, now)

    def _set(self, key: str, full_at: float, now: float) -> None:
        if key not in self._full_at and len(self._full_at) >= _REMEMBERED:
            self._forget(now)
        self._full_at[key] = full_at

    def _forget(self, now: float) -> None:
        """Forget the buckets that are full, and if these are few, those that soon will be."""
        left = sorted((at, key) for key, at in self._full_at.items() if at > now)
        self._full_at = {key: at for at, key in left[-_REMEMBERED // 2 :]}


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What each agent may do in a minute; 0: as much as it likes."""

    calls: int = 0
    runs: int = 0
    written: int = 0
    """Bytes."""


class Rates:
    """Refuses agents that are too fast, before anything is done for them.

    Args:
        clock: The time in seconds.
    """

    def __init__(self, limits: RateLimits, clock: Clock = time.monotonic) -> None:
        self._calls = Buckets(limits.calls, clock)
        self._runs = Buckets(limits.runs, clock)
        self._written = Buckets(limits.written, clock)

    def call(self, agent: str) -> None:
        """Count a call of an agent, by its key.

        Raises:
            RateLimited: It calls too often.
        """
        if wait := self._calls.take(agent):
            raise RateLimited.calls(self._calls.per_minute, wait)

    def run(self, agent: str) -> None:
        """Count a call that runs code.

        Raises:
            RateLimited: It runs too much.
        """
        if wait := self._runs.take(agent):
            raise RateLimited.runs(self._runs.per_minute, wait)

    def ran(self, agent: str, count: int) -> None:
        """Count what such a call has run, once that is known; it has been counted as one."""
        self._runs.charge(agent, count - 1)

    def write(self, agent: str, size: int) -> None:
        """Count the bytes of a call that writes.

        Raises:
            RateLimited: It writes too much.
        """
        if wait := self._written.take(agent, size):
            raise RateLimited.written(self._written.per_minute, wait)


def flood_limit(rate_limit: int) -> Buckets:
    """The limit on HTTP requests of a credential, for a `rate_limit` of its agents."""
    return Buckets(_REQUESTS_OF_A_CALL * rate_limit)


def retry_after(wait: float) -> str:
    """A wait as the header `Retry-After` has it."""
    return str(math.ceil(wait))
