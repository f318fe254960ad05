"""The heart: one peer for each open notebook, shared by all agents of this process.

A peer has a Doc of its own and sits in the room like anybody else. It catches up with the room
before each read or edit, so that nobody acts on a stale text, and every edit is one transaction
with no `await` in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pycrdt import Doc, TransactionEvent, create_update_message

from ..backends.base import Authorship, RoomLink
from ..backends.updates import decode_state, sole_author
from ..documents.notebook import CellChange, Notebook
from .changes import ChangeLog
from .presence import Presence
from .reapply import reapply
from .shown import ShownSources
from .undo import Change, Step, UndoLog

#: The origin of what comes from the room; an agent's own is its key.
_ROOM = "room"


class CallRecord:
    """What one call changed, kept so that it can be taken back."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.wrote_text = False
        """Whether the latest thing that was done is the insertion of text into a cell."""
        self.written: tuple[int, int] | None = None
        """The last character that was written, by client and clock, where that is known."""

    def __call__(
        self, change: Change, wrote_text: bool = False, written: tuple[int, int] | None = None
    ) -> None:
        self.changes.append(change)
        self.wrote_text = wrote_text
        self.written = written


@dataclass(slots=True)
class Seat:
    """One agent at one notebook: what it has seen and what it could take back."""

    agent: str
    """The agent's key, which is also the origin of its transactions."""
    name: str
    """The agent's name as people see it."""
    undo: UndoLog = field(default_factory=UndoLog)
    seen: int = 0
    """The version of the notebook that the agent last looked at."""
    used: float = field(default_factory=time.monotonic)
    presence: Presence | None = None
    """How people see it, while it is there."""
    runs: int = 0
    """Runs that it waits for: it does not leave before they are over."""


@dataclass(slots=True)
class _Unsaved:
    step: Step
    acknowledged: bool = False
    """Whether the room has it."""


class RoomPeer:
    """A collaborator in one room."""

    def __init__(self, link: RoomLink) -> None:
        self.link = link
        self.doc: Doc[Any] = Doc()
        self.notebook = Notebook(self.doc)
        self.version = _now()
        """Grows with every change; milliseconds, so that it means the same after a restart."""
        self.changes = ChangeLog(self.version)
        self.shown = ShownSources()
        self._author: str | None = None
        self._clock = 0
        self._seats: dict[str, Seat] = {}
        self._receiving = False
        self._unsaved: list[_Unsaved] = []
        self.notes: list[str] = []
        """What the next answers should say once."""
        link.attach(self.doc)
        self._receive()  # the whole document; before anybody observes changes
        self.notebook.on_change = self._on_change
        self.doc.observe(self._on_update)
        link.on_arrival(self.show_presence)

    async def catch_up(self) -> None:
        """Have what the room has. Nothing may be awaited between this and an edit."""
        await self.link.current()
        self._receive()

    @contextmanager
    def edit(self, seat: Seat, call: str) -> Iterator[CallRecord]:
        """One call's changes: one transaction, one step to take back, one author."""
        record = CallRecord()
        self._author = seat.name
        with self.doc.transaction(origin=seat.agent):
            yield record
        self._attribute(seat, call)
        if record.changes:
            step = Step(self.version, call, tuple(record.changes))
            seat.undo.push(step)
            if not self.link.durable:
                self._unsaved.append(_Unsaved(step))
        if seat.presence is not None and record.written is not None:
            seat.presence.write_at(*record.written)
        elif seat.presence is not None and record.wrote_text:
            seat.presence.write_at(self.doc.client_id, self._clock - 1)

    async def acknowledged(self) -> None:
        """Return when all edits are with the room, and would survive what it promises to survive.

        Raises:
            RoomUnavailable: The room went away.
        """
        mine = list(self._unsaved)
        await self.link.acknowledged()
        self._receive()  # what the room said of its saves before it had these edits
        for entry in mine:
            entry.acknowledged = True

    @property
    def unsaved(self) -> list[Step]:
        """What a server without our journal would lose if it went down now."""
        return [entry.step for entry in self._unsaved]

    def inherit(self, steps: Sequence[Step]) -> None:
        """Do again what the room has lost since another peer did it."""
        self._author = None
        with self.doc.transaction(origin="reapply"):
            done = reapply(self.notebook, steps)
        if done.cells:
            self._unsaved += [_Unsaved(step, acknowledged=True) for step in steps]
        if str(done):
            self.notes.append(str(done))

    @contextmanager
    def output(self, seat: Seat) -> Iterator[None]:
        """What a run of an agent shows in its cell: no step to take back, no caret."""
        self._author = seat.name
        with self.doc.transaction(origin=f"{seat.agent} run"):
            yield
        self._attribute(seat, "run")

    @contextmanager
    def take_back(self, seat: Seat, steps: int) -> Iterator[None]:
        """A transaction that takes back the last steps of an agent."""
        self._author = seat.name
        with self.doc.transaction(origin=seat.agent):
            yield
        self._attribute(seat, "undo_agent_changes")
        seat.undo.pop(steps)

    def seat(self, seat: Seat) -> None:
        """Let people see an agent that has come."""
        seat.presence = Presence(self.link, seat.agent, seat.name)
        seat.presence.show()
        self._seats[seat.agent] = seat

    def unseat(self, seat: Seat) -> None:
        """An agent has gone."""
        self._seats.pop(seat.agent, None)
        if seat.presence is not None:
            seat.presence.leave()
            seat.presence = None

    def show_presence(self) -> None:
        """Tell the room who is here: regularly, and whenever somebody comes who cannot know."""
        for seat in self._seats.values():
            if seat.presence is not None:
                seat.presence.show_soon()

    def _attribute(self, seat: Seat, call: str) -> None:
        client = self.doc.client_id
        clock = decode_state(self.doc.get_state()).get(client, 0)
        if clock > self._clock:
            self.link.record(Authorship(client, self._clock, clock, seat.agent, call, time.time()))
            self._clock = clock

    def _receive(self) -> None:
        self._receiving = True
        try:
            for update in self.link.receive():
                self._author = self._name_of(sole_author(update))
                with self.doc.transaction(origin=_ROOM):
                    self.doc.apply_update(update)
                self._follow_saves()
        finally:
            self._receiving = False

    def _follow_saves(self) -> None:
        """What was with the room before it saved is safe when it has saved."""
        if self._unsaved and self.link.saved:
            self._unsaved = [entry for entry in self._unsaved if not entry.acknowledged]

    def _on_update(self, event: TransactionEvent) -> None:
        if not self._receiving:
            self.link.send(create_update_message(event.update))

    def _on_change(self, changes: list[CellChange]) -> None:
        self.version = max(self.version + 1, _now())
        self.changes.add(self.version, self._author, changes)

    def _name_of(self, client: int | None) -> str | None:
        state = self.link.states.get(client) if client is not None else None
        user = state.get("user") if state else None
        return str(user.get("display_name") or user.get("name")) if user else None


def _now() -> int:
    return time.time_ns() // 1_000_000
