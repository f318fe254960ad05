"""This process's own copy of a room's document: transactions, and who wrote what.

A room's own Doc is never written to (B1). An edit is made in the replica and sent to the room as
one update, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from pycrdt import Doc, Subscription, TransactionEvent, create_update_message

from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.rooms import Authorship, RoomLink
from ..documents.cell_mirror import CellChange
from ..documents.members import Member, member_of
from ..documents.notebook import Notebook
from ..documents.text_document import Document, TextDocument
from ..documents.updates import decode_state, first_block, sole_author
from ..errors import CollaborationError, DocumentBusy, InternalError
from ..panics import contained, is_panic
from .change_log import ChangeLog

#: The origin of updates from the room; the origin of an agent's edits is its key.
_ROOM = "room"

Clocks = tuple[int, int]
"""What a client wrote: from one clock up to another, half-open."""


#: Texts that are looked at to count what one update writes; it may change thousands of cells.
_COUNTED = 200

#: Members whose names are remembered after they have left.
_KNOWN = 1_000


class EditIsLarge(Exception):
    """An edit turns out to be large, before it has done anything: it is made on a copy instead."""


class Contribution(NamedTuple):
    """What somebody else has done to the document in one update."""

    author: Member | None
    """None if nobody knows who it was."""
    changes: Sequence[CellChange]
    version: int
    added: int
    """Characters; of very many cells, those of the first."""
    removed: int
    """The same; of characters that are not ASCII, their bytes."""


class Replica:
    """A document with the same content as a room's."""

    def __init__(self, link: RoomLink) -> None:
        self._link = link
        self.doc: Doc[Any] = Doc()
        self.document = _document(link.room_id, self.doc)
        self.version = _now()
        """Grows with every change; milliseconds, so that it stays comparable after a restart."""
        self.changes = ChangeLog(self.version)
        self.author: Member | None = None
        """The author of the next changes."""
        self.own_agents: set[str] = set()
        """The usernames of the agents that have written or could have written here."""
        self.on_contribution: Callable[[Contribution], None] | None = None
        """Called with what others do, whenever it is received."""
        self.updates = 0
        """Transactions that changed something."""
        self.writes = 0
        """Transactions of this process, and calls that changed nothing."""
        self.broken = False
        """Whether it differs from the room: an edit or an update failed halfway."""
        self._reserved = False
        self._clock = 0
        self._members: dict[int, Member] = {}  # by client, also those who have left
        self._texts = self._added = self._removed = 0  # of the update that is being received
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

        Raises:
            DocumentBusy: An edit is being applied in slices.
        """
        if self._reserved:
            raise DocumentBusy.while_replacing()
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
            if isinstance(error, CollaborationError | EditIsLarge) or not self._withholding:
                raise
            if isinstance(error, Exception) or is_panic(error):
                raise InternalError.undone(error) from error
            raise
        finally:
            self._withholding = False

    @contextmanager
    def reserving(self) -> Iterator[None]:
        """Refuse transactions while others have their turn: the next clocks are taken."""
        self._reserved = True
        try:
            yield
        finally:
            self._reserved = False

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """A round of updates from the room, passed to `receive`."""
        self._receiving = True
        if self.on_contribution is not None:
            self.document.on_text = self._on_text
        try:
            yield
        except BaseException:
            self._give_up()  # the rest of the updates would be missing here forever
            raise
        finally:
            self._receiving = False
            self.document.on_text = None

    def receive(self, update: bytes) -> bool:
        """Apply an update from the room; returns whether it changed anything."""
        known = self.updates
        self.author = self._author_of(update)
        self._texts = self._added = self._removed = 0
        with contained(), self.doc.transaction(origin=_ROOM):
            self.doc.apply_update(update)
        return self.updates > known

    def attribute(
        self,
        author: Member,
        call: str,
        until: int | None = None,
        written_for: Sequence[tuple[int, Member | None]] = (),
    ) -> Clocks:
        """What was written since the last call, which the link records as an agent's.

        Args:
            until: The clock up to which it will be written at once.
            written_for: Others whose it is, by the clocks up to which it is theirs.
        """
        start, end = self.advance(until)
        client, at, now = self.doc.client_id, start, time.time()
        for clock, writer in written_for:
            if at < clock <= end:
                self._link.record(Authorship(client, at, clock, writer or author, call, now))
                at = clock
        if at < end or start == end:
            self._link.record(Authorship(client, at, end, author, call, now))
        return start, end

    def advance(self, until: int | None = None) -> Clocks:
        """What was written since the last call, or is about to be, up to a clock."""
        before = self._clock
        if until is None:
            until = decode_state(self.doc.get_state()).get(self.doc.client_id, 0)
        self._clock = until
        return before, until

    def next_version(self) -> int:
        """The version that a change would make of the current one now."""
        return max(self.version + 1, _now())

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
        self.version = self.next_version()
        self.changes.add(self.version, self.author, changes)
        if self._receiving and self.on_contribution is not None:
            part = Contribution(self.author, changes, self.version, self._added, self._removed)
            self._added = self._removed = 0
            self.on_contribution(part)

    def _on_text(self, event: Any) -> None:
        self._texts += 1
        if self._texts <= _COUNTED:
            for operation in event.delta:
                self._added += len(operation.get("insert", ""))
                self._removed += int(operation.get("delete", 0))

    def meet(self) -> None:
        """Remember who is here: what they did may arrive when they have left."""
        for client, state in self._link.states.items():
            if (member := member_of(state)) is not None:
                self._members.pop(client, None)
                self._members[client] = member
        while len(self._members) > _KNOWN:
            del self._members[next(iter(self._members))]

    def _author_of(self, update: bytes) -> Member | None:
        client = sole_author(update)
        if client is not None:
            return member_of(self._link.states.get(client)) or self._members.get(client)
        # A deletion does not say whose it is. It can only be that of the only one who is here.
        return self._only_person() if first_block(update) is None else None

    def _only_person(self) -> Member | None:
        members = {member_of(state) for state in self._link.states.values() if state}
        others = [who for who in members if who is None or who.id not in self.own_agents]
        return others[0] if len(others) == 1 and others[0] and not others[0].is_agent else None


def _document(room_id: RoomId, doc: Doc[Any]) -> Document:
    return Notebook(doc) if room_id.kind == "notebook" else TextDocument(doc)


def _now() -> int:
    return time.time_ns() // 1_000_000
