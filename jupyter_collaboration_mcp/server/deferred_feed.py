"""Keeps the panel out of the way of answers: most calls are over before anybody could see them."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

from ..collaboration.edits import Kept
from ..execution.run import Run
from ..workspace.open_document import OpenDocument
from .call_feed import CallFeed
from .call_record import CallRecord

#: Seconds after which a call is shown although it is not over.
_SOON = 0.005

_log = logging.getLogger(__name__)


class DeferredFeed:
    """Passes on what calls do, in order, once one of them is over or goes on for a moment."""

    def __init__(self, feed: CallFeed) -> None:
        self._feed = feed
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False
        self.require = feed.require
        self.ready = feed.ready

    def begin(self, record: CallRecord) -> None:
        self._wait(partial(self._feed.begin, record))

    def step(self, record: CallRecord, kept: Kept) -> None:
        self._wait(partial(self._feed.step, record, kept))

    def end(self, record: CallRecord) -> None:
        """A call is over, and its answer has left."""
        self.flush()
        self._feed.end(record)

    def on_run(self, here: OpenDocument, run: Run) -> None:
        """A run was asked for, or is over."""
        self.flush()
        self._feed.on_run(here, run)

    async def close(self) -> None:
        self.flush()
        await self._feed.close()

    def flush(self) -> None:
        """Pass on everything now."""
        while self._waiting:
            try:
                self._waiting.popleft()()
            except Exception:  # the call itself goes on
                _log.exception("What a call does could not be shown")

    def _wait(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_SOON, self._on_due)

    def _on_due(self) -> None:
        self._is_due = False
        self.flush()
