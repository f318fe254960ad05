"""Requests that are being answered, by credential, so that they can be ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Drop = Callable[[], None]


class OpenRequests:
    """Requests of those whose permission may be withdrawn."""

    def __init__(self) -> None:
        self._open: defaultdict[str, list[Drop]] = defaultdict(list)

    @contextmanager
    def open(self, credential: str, drop: Drop) -> Iterator[None]:
        """Meanwhile, a request of a credential can be ended by calling `drop`."""
        self._open[credential].append(drop)
        try:
            yield
        finally:
            left = self._open[credential]
            left.remove(drop)
            if not left:
                del self._open[credential]

    def end(self, credential: str) -> None:
        """End all requests of a credential."""
        for drop in list(self._open.get(credential, ())):
            drop()
