"""Staying in sync with a room on another server, over connections that break.

What was written while there was no connection is in the Doc, and the sync after the reconnect
carries it over. A room with another history than the one we left must never get our Doc, or its
text could be duplicated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pycrdt import Doc, create_sync_message, handle_sync_message, read_message

from ...documents.updates import decode_state
from .room_inbox import RoomInbox
from .room_state import RoomState


class ConnectionSync:
    """What we have sent, what the room has confirmed, and what the room has sent."""

    def __init__(self) -> None:
        self.state: RoomState | None = None
        """What the server reports about saves; None before a Doc is attached."""
        self.on_news: Callable[[], None] | None = None
        """Called when the room has sent an update of somebody else by itself."""
        self._doc: Doc[Any] | None = None
        self._ahead: RoomState | None = None  # includes what has not been received yet
        self._inbox = RoomInbox()
        self._sent = self._applied = 0  # updates, and how many of them the room certainly has
        self._own_clock = 0  # ... up to which it certainly has ours

    def attach(self, doc: Doc[Any], path: str) -> RoomState:
        """Keep a Doc in sync from now on."""
        self._doc = doc
        self.state = RoomState(doc, path)
        return self.state

    def close(self) -> None:
        """Stop watching the Doc."""
        if self.state is not None:
            self.state.close()

    # -- what we send ------------------------------------------------------------------------

    def on_sent(self, update: bytes, echoes: bool) -> None:
        """Count an update of ours.

        Args:
            echoes: Whether it is sent now, so that the room will send it back.
        """
        if self.state is not None and self._sent == self._applied:
            for waiting in self._inbox.waiting:  # they reach the Doc later, but came first
                self.state.doubt(waiting)
        self._sent += 1
        if echoes:
            self._inbox.expect_echo(update)

    def question(self) -> tuple[bytes, Callable[[], None]]:
        """The message that asks the room for everything missing here, and a function to call when
        it has answered: the room then has everything that was sent before."""
        doc: Doc[Any] = Doc() if self._doc is None else self._doc
        sent, clock = self._sent, decode_state(doc.get_state()).get(doc.client_id, 0)

        def answered() -> None:
            self._applied, self._own_clock = sent, clock

        return create_sync_message(doc), answered

    def missing_in_room(self, message: bytes) -> bytes | None:
        """The message with what the room lacks, given the server's state vector."""
        return None if self._doc is None else handle_sync_message(message[1:], self._doc)

    def is_other_history(self, message: bytes) -> bool:
        """Whether the room lacks something that it had, according to the server's state vector.

        A room is cleaned up a minute after the last one left. Where it is not kept in a store it
        starts a new history, into which the old one must not be merged.
        """
        if self._doc is None:
            return False
        has, own = decode_state(read_message(message[2:])), self._doc.client_id
        return any(
            has.get(client, 0) < (self._own_clock if client == own else clock)
            for client, clock in decode_state(self._doc.get_state()).items()
        )

    # -- what the room sends -----------------------------------------------------------------

    def on_answer(self, update: bytes) -> None:
        """Add what the room had when it was queried."""
        if (piece := self._inbox.answer(update)) is not None:
            self._look_at(piece)

    def on_update(self, update: bytes) -> None:
        """Add an update that the room sent by itself."""
        if self._inbox.is_echo(update):
            if self._ahead is not None:
                self._ahead.doc.apply_update(update)
        elif self._inbox.news(update):
            self._look_at(update)
            if self.on_news is not None:
                self.on_news()

    def on_lost(self) -> None:
        """Note that the connection is lost: nothing is echoed through it any more."""
        self._inbox.forget_echoes()

    def receive(self, everything: bool) -> Sequence[bytes]:
        """The updates since the last call, oldest first.

        Args:
            everything: If False, only those until the room last answered.
        """
        if self.state is not None:
            self.state.updates = 0
        return self._inbox.drain(everything)

    @contextmanager
    def ahead(self, state: RoomState) -> Iterator[RoomState]:
        """A copy of a state that also includes updates that have not been received yet."""
        self._ahead = ahead = state.copy()
        try:
            for update in self._inbox.waiting:
                ahead.doc.apply_update(update)
            yield ahead
        finally:
            self._ahead = None
            ahead.close()

    def _look_at(self, update: bytes) -> None:
        """Look at an update that is not known yet."""
        if self.state is not None:
            self._inbox.drop_backlog()  # before a Doc is attached there is no next question
            if self._sent != self._applied:
                self.state.doubt(update)
        if self._ahead is not None:
            if self._sent != self._applied:
                self._ahead.doubt(update)
            self._ahead.doc.apply_update(update)
