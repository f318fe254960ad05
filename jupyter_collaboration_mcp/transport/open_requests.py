"""Requests that are being answered, by credential: so many at once, and all can be ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Drop = Callable[[], None]

#: Requests of one credential that are answered at the same time. A session has two or three: its
#: stream of notifications, and what it calls.
MOST_OPEN = 2_000


class TooManyRequests(Exception):
    """A credential has as many requests open as it may have."""


class OpenRequests:
    """The requests of all who are let in.

    Args:
        most: How many of one credential there may be at once.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: defaultdict[str, set[Drop]] = defaultdict(set)

    def __len__(self) -> int:
        """How many requests are open."""
        return sum(map(len, self._open.values()))

    @contextmanager
    def open(self, credential: str, drop: Drop) -> Iterator[None]:
        """Meanwhile, a request of a credential can be ended by calling `drop`.

        Raises:
            TooManyRequests: The credential has too many already.
        """
        its = self._open[credential]
        if len(its) >= self._most:
            raise TooManyRequests
        its.add(drop)
        try:
            yield
        finally:
            its.discard(drop)
            if not its:
                self._open.pop(credential, None)

    def end(self, credential: str) -> None:
        """End all requests of a credential."""
        for drop in list(self._open.get(credential, ())):
            drop()
