"""The sessions of agents: each is one agent at one document, from joining to leaving, and so many
at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ..backends.protocols.forks import fork_name
from ..backends.protocols.room_ids import RoomId
from ..documents.awareness import people_in
from ..errors import TooManyDocuments
from .agent import Agent
from .open_document import escaped
from .open_rooms import OpenRooms


@dataclass(frozen=True, slots=True)
class Session:
    """One agent at one document."""

    id: str
    agent: str
    """The agent's key."""
    name: str
    path: str
    room_id: RoomId
    people: list[str]
    """Everybody else in the room, by name."""
    idle: float
    """Seconds since the agent's last call."""

    @property
    def document(self) -> str:
        """The document as a path; that of a fork is its name."""
        return fork_name(self.room_id) if self.room_id.is_fork else escaped(self.path)


def sessions_of(rooms: OpenRooms) -> Iterator[Session]:
    """All sessions of agents of this process on a server."""
    for opened, seat in rooms.sessions():
        if seat.presence is None:  # it has gone without leaving
            continue
        link = opened.peer.link
        people = people_in(link.states, without=seat.profile.username)
        idle = time.monotonic() - seat.used
        yield Session(
            seat.session, seat.agent, seat.profile.name, link.path, link.room_id, people, idle
        )


def require_place(rooms: OpenRooms, agent: Agent, document: str, most: int) -> None:
    """Refuse an agent one document more than it may have open.

    Args:
        document: What it wants to open: a path, or the id of a room.
        most: How many it may have open; 0: any number.

    Raises:
        TooManyDocuments: It has as many, and this is none of them.
    """
    if not most or len(rooms) < most:  # as almost always
        return
    key = agent.key
    its = [opened for opened in rooms if key in opened.agents]
    if len(its) >= most and not any(
        document in (*opened.paths, opened.peer.link.path, opened.peer.link.room_id)
        for opened in its
    ):
        raise TooManyDocuments.at_once(most, rooms.idle_timeout)
