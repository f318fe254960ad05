"""What agents can undo: in memory while they are here, and on disk for later."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass

from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.steps import OpenSteps, Steps, no_steps
from ..collaboration.changes.storage import restored, stored
from ..collaboration.seats import Seat
from ..collaboration.undo import UndoLog
from ..documents.members import agent_username
from ..errors import AmbiguousUser, NothingToUndo
from .agent import name_in

#: Agents whose undo steps stay in memory after they left a document, and characters in all of them.
_SEATS, _KEPT = 500, 50_000_000


@dataclass(frozen=True, slots=True)
class AgentLog:
    """The steps of one agent in a document."""

    agent: str
    log: UndoLog
    seat: Seat | None
    """Its seat, if it has been at the document since this process started."""

    @property
    def name(self) -> str:
        return name_in(self.agent)

    @property
    def username(self) -> str:
        """The id by which it is told from others with the same name."""
        return agent_username(self.agent)

    def is_meant(self, wanted: str) -> bool:
        """Whether somebody means it by a name or an id."""
        return wanted.casefold() in (self.name.casefold(), self.username)


class UndoSteps:
    """The steps of all agents in the documents of one server.

    Args:
        seats: All seats that are in memory, by room and agent.
        open_steps: Opens what is on disk.
    """

    def __init__(
        self, seats: MutableMapping[tuple[str, str], Seat], open_steps: OpenSteps = no_steps
    ) -> None:
        self.open_steps = open_steps
        self._seats = seats

    def limit_seats(self) -> None:
        """Limit what stays in memory of agents that have left; drops the longest gone first."""
        left = {key: seat for key, seat in self._seats.items() if seat.presence is None}
        kept = sum(seat.undo.characters for seat in left.values())
        for key, seat in sorted(left.items(), key=lambda item: item[1].used):
            if len(left) <= _SEATS and kept <= _KEPT:
                break
            del left[key], self._seats[key]
            kept -= seat.undo.characters

    async def opened(self) -> Steps:
        """Where steps are kept; `RoomPeer` adds and removes them."""
        steps = await self.open_steps()
        steps.on_loss.add(self._keep_again)
        return steps

    async def recall(self, room: RoomId, agent: str) -> AgentLog:
        """The steps of an agent in a document, with those from before it came."""
        seat = self._seats.get((room, agent))
        log = UndoLog() if seat is None else seat.undo
        if not log.is_complete:
            kept = await (await self.opened()).of(room, agent)
            log.complete(await asyncio.to_thread(restored, kept) if kept else [])
        return AgentLog(agent, log, seat)

    async def find(self, room: RoomId, wanted: str) -> AgentLog:
        """The steps of an agent that somebody means by its name or id.

        Raises:
            AmbiguousUser: Several agents have that name.
            NothingToUndo: No such agent has changed the document.
        """
        known = await (await self.opened()).agents(room)
        known += [agent for at, agent in self._seats if at == room]
        agents = [AgentLog(agent, UndoLog(), None) for agent in dict.fromkeys(known)]
        found = [each for each in agents if each.is_meant(wanted)]
        if len(found) > 1:
            raise AmbiguousUser.among(wanted, [(each.name, each.username) for each in found])
        if not found:
            raise NothingToUndo.of_unknown(wanted, [each.name for each in agents])
        return await self.recall(room, found[0].agent)

    async def forget(self, *rooms: RoomId) -> None:
        """Forget all steps in documents that were deleted."""
        if rooms:
            steps = await self.opened()
            for room in rooms:
                steps.forget(room)
            await steps.durable()

    async def _keep_again(self) -> None:
        """Store what is in memory once more, in a file that has replaced a lost one."""
        steps = await self.open_steps()
        for (room, _), seat in list(self._seats.items()):
            for step in seat.undo:
                steps.add(RoomId(room), stored(step))
            await asyncio.sleep(0)
