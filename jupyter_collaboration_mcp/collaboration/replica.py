"""This process's own copy of a room's document: transactions, and who wrote what.

A room's own Doc is never written to (B1). An edit is made in the replica and sent to the room as
one update, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pycrdt import Doc, Subscription, TransactionEvent, create_update_message

from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.rooms import Authorship, RoomLink
from ..documents.awareness import name_of
from ..documents.cell_mirror import CellChange
from ..documents.notebook import Notebook
from ..documents.text_document import Document, TextDocument
from ..documents.updates import decode_state, sole_author
from ..errors import CollaborationError, InternalError
from ..panics import contained, is_panic
from .change_log import ChangeLog

#: The origin of updates from the room; the origin of an agent's edits is its key.
_ROOM = "room"

Clocks = tuple[int, int]
"""What a client wrote: from one clock up to another, half-open."""


class Replica:
    """A document with the same content as a room's."""

    def __init__(self, link: RoomLink) -> None:
        self._link = link
        self.doc: Doc[Any] = Doc()
        self.document = _document(link.room_id, self.doc)
        self.version = _now()
        """Grows with every change; milliseconds, so that it stays comparable after a restart."""
        self.changes = ChangeLog(self.version)
        self.author: str | None = None
        """The author of the next changes."""
        self.updates = 0
        """Transactions that changed something."""
        self.writes = 0
        """Transactions of this process, and calls that changed nothing."""
        self.broken = False
        """Whether it differs from the room: an edit or an update failed halfway."""
        self._clock = 0
        self._receiving = False
        self._withholding = False
        self._subscription: Subscription | None = None

    def follow(self) -> None:
        """Start to follow changes, once the whole document has arrived."""
        self.document.on_change = self._on_change
        self._subscription = self.doc.observe(self._on_update)

    def close(self) -> None:
        """Stop observing.

        B28: pycrdt refers to the observers of a Doc in a way that Python's garbage collector does
        not see, so the document, the room and its store would stay in memory forever.
        """
        if self._subscription is not None:
            self.doc.unobserve(self._subscription)
        self.document.close()

    @contextmanager
    def transaction(self, origin: str) -> Iterator[None]:
        """A transaction of which the room gets nothing if it fails halfway.

        pycrdt cannot roll back: the Doc keeps what was done until then. So the replica is marked as
        broken, and its users join the room again.
        """
        known = self.updates
        try:
            with self.doc.transaction(origin=origin):
                try:
                    yield
                except BaseException:
                    self._withholding = True
                    raise
        except BaseException as error:
            if self.updates > known:
                self._give_up()
            if isinstance(error, CollaborationError) or not self._withholding:
                raise
            if isinstance(error, Exception) or is_panic(error):
                raise InternalError.undone(error) from error
            raise
        finally:
            self._withholding = False

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """A round of updates from the room, passed to `receive`."""
        self._receiving = True
        try:
            yield
        except BaseException:
            self._give_up()  # the rest of the updates would be missing here forever
            raise
        finally:
            self._receiving = False

    def receive(self, update: bytes) -> bool:
        """Apply an update from the room; returns whether it changed anything."""
        known = self.updates
        self.author = self._name_of(sole_author(update))
        with contained(), self.doc.transaction(origin=_ROOM):
            self.doc.apply_update(update)
        return self.updates > known

    def attribute(self, agent: str, call: str) -> Clocks:
        """What was written since the last call, which the link records as an agent's."""
        start, end = self.advance()
        if start < end:
            client = self.doc.client_id
            self._link.record(Authorship(client, start, end, agent, call, time.time()))
        return start, end

    def advance(self) -> Clocks:
        """What was written since the last call."""
        before = self._clock
        self._clock = decode_state(self.doc.get_state()).get(self.doc.client_id, 0)
        return before, self._clock

    def _give_up(self) -> None:
        self.broken = True
        self._link.give_up()

    def _on_update(self, event: TransactionEvent) -> None:
        self.updates += 1
        if not self._receiving:
            self.writes += 1
            if not self._withholding:
                self._link.send(create_update_message(event.update))

    def _on_change(self, changes: list[CellChange]) -> None:
        self.version = max(self.version + 1, _now())
        self.changes.add(self.version, self.author, changes)

    def _name_of(self, client: int | None) -> str | None:
        return None if client is None else name_of(self._link.states.get(client))


def _document(room_id: RoomId, doc: Doc[Any]) -> Document:
    return Notebook(doc) if room_id.kind == "notebook" else TextDocument(doc)


def _now() -> int:
    return time.time_ns() // 1_000_000
