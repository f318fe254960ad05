"""The agents at one document: what each has seen, can undo, and has yet to be notified of."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..backends.protocols.rooms import RoomLink
from ..documents.members import Member
from .activity.absence import Absence
from .known_places import KnownPlaces
from .presence import DocumentPresence, Profile
from .seen_sources import KnownRevisions
from .undo import UndoLog

#: Announcements that an answer repeats.
_ANNOUNCEMENTS = 10


@dataclass(slots=True)
class Seat:
    """One agent at one document."""

    profile: Profile
    """What the agent tells about itself."""
    undo: UndoLog = field(default_factory=UndoLog)
    seen: int = 0
    """The version of the document that the agent last looked at."""
    used: float = field(default_factory=time.monotonic)
    presence: DocumentPresence | None = None
    """How people see the agent, while it is here."""
    session: str = ""
    """The id of its session at the document, from joining to leaving; empty if it is not here."""
    bound: bool = False
    """Whether the agent stays as long as this process runs."""
    runs: int = 0
    """Runs that it waits for: it does not leave before they are over."""
    notes: list[str] = field(default_factory=list)
    """Notes for its next answer; each is shown once."""
    announcements: list[str] = field(default_factory=list)
    """The latest announcements of other agents, for its next answer."""
    missed: int = 0
    """How many there were before those."""
    people: dict[str, list[str]] = field(default_factory=dict)
    """For its next answer: by cell or line that it changed, people whose carets are there."""
    known: KnownRevisions = field(default_factory=KnownRevisions)
    """What the agent knows about the document's text."""
    places: KnownPlaces = field(default_factory=KnownPlaces)
    """Where the agent believes cells to be, if it names them by their indexes."""
    absence: Absence | None = None
    """What others did while it was away, until it is told."""
    person: Member | None = None
    """The person who edits here through us, if it is not an agent."""

    @property
    def member(self) -> Member:
        """The agent, or the person, as others know it."""
        return self.person or Member.agent(self.agent, self.name)

    @property
    def agent(self) -> str:
        """The agent's key, which is also the origin of its transactions."""
        return self.profile.key

    @property
    def name(self) -> str:
        """The agent's own name."""
        return self.profile.name


class Seats:
    """All seats at one document."""

    def __init__(self, link: RoomLink) -> None:
        self._link = link
        self._seats: dict[str, Seat] = {}
        self.notes: list[str] = []
        """Notes for the next answer, whichever agent gets it."""

    def __contains__(self, seat: Seat) -> bool:
        return self._seats.get(seat.agent) is seat

    def __len__(self) -> int:
        return len(self._seats)

    def add(self, seat: Seat, visible: bool) -> None:
        self._seats[seat.agent] = seat
        if visible:
            seat.presence = DocumentPresence(self._link, seat.profile)
            seat.presence.show()

    def hide(self, seat: Seat) -> None:
        # First, because a link may report the farewell at once as a change of who is here.
        presence, seat.presence = seat.presence, None
        if presence is not None:
            presence.leave()

    def remove(self, seat: Seat) -> None:
        self._seats.pop(seat.agent, None)
        self.hide(seat)

    def show_presence(self) -> None:
        for seat in self._seats.values():
            if seat.presence is not None:
                seat.presence.show_soon()

    def notify(self, note: str, keep: bool) -> None:
        """Notify all agents that are here with their next answers, or else the next one to come.

        Args:
            keep: Whether to deliver it even if the server crashes first.
        """
        for notes in [seat.notes for seat in self._seats.values()] or [self.notes]:
            notes.append(note)
        if keep:
            self._link.remember(note)

    def tell_others(self, agent: str, note: str) -> None:
        for seat in self._seats.values():
            if seat.agent != agent:
                seat.announcements.append(note)
                if len(seat.announcements) > _ANNOUNCEMENTS:
                    del seat.announcements[0]
                    seat.missed += 1

    def take_notes(self, seat: Seat) -> Sequence[str]:
        """The notes for an answer to an agent; each is returned once."""
        notes = [*self.notes, *seat.notes, *seat.announcements]
        if seat.missed:
            notes.append(f"({seat.missed} earlier announcements are left out.)")
        self.notes.clear()
        seat.notes.clear()
        seat.announcements.clear()
        seat.missed = 0
        if notes and not any(other.notes for other in self._seats.values()):
            self._link.remember(None)
        return notes
