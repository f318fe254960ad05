"""Who is in a room of another server, as that server reports it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal

from pycrdt import Awareness, Doc, read_message

from ...documents.awareness import Arrivals, well_formed

_log = logging.getLogger(__name__)


class RoomAwareness:
    """The awareness states of everybody in one room."""

    def __init__(self) -> None:
        self._awareness = Awareness(Doc())
        self._awareness.set_local_state(None)  # we are nobody: each agent has its own client id
        self._arrivals = Arrivals()
        self._on_arrival: Callable[[], None] | None = None
        self._on_change: Callable[[], None] | None = None
        self._awareness.observe(self._changed)

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """The awareness states by client id."""
        return well_formed(self._awareness.states)

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Set a function to call when somebody joins, or switches autosave on or off."""
        self._on_arrival = tell

    def on_change(self, tell: Callable[[], None]) -> None:
        """Set a function to call when anybody comes, goes or says something else."""
        self._on_change = tell

    def announce(self) -> None:
        """Announce our agents again: the room may have forgotten who is here."""
        if self._on_arrival is not None:
            self._on_arrival()

    def apply(self, message: bytes, origin: Literal["own", "room"]) -> None:
        """Apply an awareness message that we send, or that the room sends."""
        try:
            self._awareness.apply_awareness_update(read_message(message[1:]), origin)
        except Exception:  # any member of the room can send anything
            _log.debug("An awareness message is malformed", exc_info=True)

    async def run(self) -> None:
        """Drop the states of clients that are silent for too long, until cancelled."""
        await self._awareness.start()

    def _changed(self, topic: str, changes: tuple[dict[str, Any], Any]) -> None:
        if topic != "change":
            return
        if self._on_change is not None:
            self._on_change()
        if self._arrivals.noticed(self.states):
            self.announce()
