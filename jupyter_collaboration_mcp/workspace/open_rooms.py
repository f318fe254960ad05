"""The rooms that this process has joined: keeps them alive, watches until edits are saved, and
leaves them when idle.

A room that agents have used is not left while people are in it: we stay as an observer whom nobody
sees, so that agents that come back learn what happened.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from logging import Logger

from ..backends.protocols.room_ids import RoomId
from ..backends.protocols.rooms import Backend, RoomLink
from ..collaboration.activity.absence import Absence
from ..collaboration.activity.activity import CHANGES
from ..collaboration.activity.log import ActivityLog
from ..collaboration.changes import Step
from ..collaboration.peer import RoomPeer
from ..collaboration.room_activity import RoomActivity
from ..collaboration.seats import Seat
from ..documents.foreign_text import inline
from ..documents.members import agent_username
from ..errors import CollaborationError, DocumentNotFound, ForkNotFound, PathError, TokenRefused
from ..owned_tasks import TaskPerKey
from .agent import Agent
from .lobby import Attendance, Lobby
from .room_watchers import RoomWatchers
from .undo_steps import UndoSteps

#: Seconds between announcements of presence. After 30 seconds without one, a member counts as gone.
_HEARTBEAT = 10.0

#: Seconds without a call after which an agent counts as gone: most leave without notice. Its seat
#: is kept for longer.
_SILENCE = 45.0

#: Seconds until the first check whether an edit is saved; a server saves after about one.
_FOLLOW = 0.5

#: Seconds after which we save an edit that the server has not saved, and report if that fails.
_LATE = 4.0

#: Seconds after which what others did is received, even if no agent asks for it.
_HEARING = 0.5

#: Rooms in which there are people and no agents, and in which we stay.
_OBSERVED = 20

#: Seconds that an agent who comes back may have to wait for what the log has.
_RECALL = 1.0

#: Documents whose notes are kept until somebody opens them again; the oldest are dropped.
_UNSAID = 500


@dataclass(slots=True)
class OpenRoom:
    """A room with our peer in it, and the agents that use it."""

    peer: RoomPeer
    activity: RoomActivity
    """Records what people do in it."""
    agents: dict[str, Seat] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    gone: bool = False
    """Whether the document no longer exists."""
    paths: set[str] = field(default_factory=set)
    """The paths by which it was opened."""
    unheard: bool = False
    """Whether others have changed something that was not received yet."""


class OpenRooms:
    """One peer for each room, however many agents are at it."""

    def __init__(
        self, backend: Backend, idle_timeout: float, log: Logger, activity: ActivityLog
    ) -> None:
        self.activity = activity
        self.idle_timeout = idle_timeout
        self.on_join: Callable[[RoomPeer], Awaitable[None]] | None = None
        """Called with a peer that has just joined its room."""
        self.lobby = Lobby(backend, log)
        self._backend = backend
        self._log = log
        self._open: dict[RoomId, OpenRoom] = {}
        self.watchers = RoomWatchers(self.peer)
        """Who wants to hear of changes; a room is not left while somebody watches it."""
        self._joining = TaskPerKey[RoomId, RoomPeer]()
        self._seats: dict[tuple[str, str], Seat] = {}  # kept after an idle agent has left
        self.undo_steps = UndoSteps(self._seats)
        self._rejoining = TaskPerKey[RoomId, None]()
        self._following = TaskPerKey[RoomId, None]()
        self._current: dict[str, RoomId] = {}  # where each agent was last
        self._hearing = TaskPerKey[RoomId, None]()
        self._observing = TaskPerKey[RoomId, None]()
        self._unsaid: dict[str, list[str]] = {}  # notes by room, for whoever opens it again
        self._sweeping = TaskPerKey[None, None]()

    def __iter__(self) -> Iterator[OpenRoom]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)

    def get(self, room_id: RoomId) -> OpenRoom | None:
        """The room, if we are in it; it may have died."""
        return self._open.get(room_id)

    def peer(self, room_id: RoomId) -> RoomPeer | None:
        """Our peer in a room, if we are in it."""
        opened = self._open.get(room_id)
        return None if opened is None else opened.peer

    async def forget(self, paths: tuple[str, ...]) -> None:
        """Leave the rooms of everything at or below some paths, and keep nothing of them."""
        gone = tuple(f"{path}/" for path in paths)
        for room_id, opened in list(self._open.items()):
            # A fork survives what it was forked from.
            if not room_id.is_fork and f"{opened.peer.link.path}/".startswith(gone):
                await self.forget_room(room_id)

    async def forget_room(self, room_id: RoomId) -> None:
        """Leave a room that is gone, and keep nothing of it."""
        if (opened := self._open.pop(room_id, None)) is not None:
            await self._close(opened)
            self.watchers.on_left(room_id)
        for key in [key for key in self._seats if key[0] == room_id]:
            del self._seats[key]
        await self.undo_steps.forget(room_id)

    async def close(self) -> None:
        """Leave all rooms."""
        background = (self._sweeping, self._rejoining, self._following)
        for tasks in (*background, self._hearing, self._observing):
            await tasks.end()
        await self.lobby.close()
        for opened in self._open.values():
            await self._close(opened)
        self._open.clear()

    async def enter(self, room_id: RoomId) -> OpenRoom:
        """Return the room; join it if we are not in it, or if it has died."""
        opened = self._open.get(room_id)
        if opened is None or not opened.peer.link.alive:
            opened = await self._join(room_id)
        return opened

    async def _join(self, room_id: RoomId) -> OpenRoom:
        """Create one peer for a room, however many agents request it at once."""
        await asyncio.shield(self._joining.ensure(room_id, lambda: self._new_peer(room_id)))
        self._sweeping.ensure(None, self._sweep)
        # A room that was forgotten in the meantime is closed and stays closed.
        return self._open.get(room_id) or await self._join(room_id)

    async def _new_peer(self, room_id: RoomId) -> RoomPeer:
        before = self._open.get(room_id)
        link: RoomLink = await self._backend.join(room_id)
        try:
            peer, agents = await self._take_over(room_id, link, before)
        except BaseException:
            await link.close()
            raise
        peer.notes += self._unsaid.pop(room_id, [])
        opened = OpenRoom(peer, RoomActivity(self.activity, peer), agents)
        self._open[room_id] = opened
        if before is not None:
            opened.paths |= before.paths
        link.on_update(lambda: self._hear_soon(room_id, opened))
        self.watchers.on_joined(room_id, peer, again=before is not None)
        return peer

    async def _take_over(
        self, room_id: RoomId, link: RoomLink, before: OpenRoom | None
    ) -> tuple[RoomPeer, dict[str, Seat]]:
        """Make a peer in a room, with the agents and edits of its predecessor if the room died."""
        peer = RoomPeer(link, await self.undo_steps.opened())
        peer.on_edit(lambda: self._follow_soon(room_id))
        link.on_end = lambda: self._rejoin_soon(room_id)
        await asyncio.sleep(0)  # taking over a large document takes as long as others may wait
        if self.on_join is not None:
            await self.on_join(peer)
        if before is None:
            return peer, {}
        before.activity.close()
        agents = dict(before.agents)
        visible = {key for key, seat in agents.items() if seat.presence is not None}
        await self._leave_room(before)
        for key, seat in agents.items():
            peer.seat(seat, key in visible)
        if before.peer.unsaved:
            await peer.catch_up()
            peer.inherit(before.peer)
        peer.notes += before.peer.notes
        before.peer.close()
        return peer, agents

    def _rejoin_soon(self, room_id: RoomId) -> None:
        """Join a room that has ended again as soon as possible."""
        if room_id in self._open:
            self._rejoining.ensure(room_id, lambda: self._rejoin(room_id))

    async def _rejoin(self, room_id: RoomId) -> None:
        pause = 0.2
        while (opened := self._open.get(room_id)) is not None and not opened.peer.link.alive:
            try:
                await self._join(room_id)
            except (TokenRefused, PathError, ForkNotFound) as error:
                self._log.warning("%s: %s", room_id, error.happened)
                opened.gone = isinstance(error, DocumentNotFound | ForkNotFound)
                self.watchers.on_left(room_id)
                return
            except CollaborationError as error:
                self._log.info("%s: %s", room_id, error.happened)
                await asyncio.sleep(pause)
                pause = min(10.0, 2 * pause)

    def _follow_soon(self, room_id: RoomId) -> None:
        """Watch a document that somebody has edited until it is saved."""
        self._following.ensure(room_id, lambda: self._follow(room_id))

    async def _follow(self, room_id: RoomId) -> None:
        """Until everything is saved, reapply what a file overwrites and report late saves."""
        pause, waited, told = _FOLLOW, 0.0, False
        oldest: Step | None = None
        while True:
            await asyncio.sleep(pause)
            opened = self._open.get(room_id)
            if opened is None or not opened.peer.unsaved or not opened.peer.link.alive:
                return
            peer = opened.peer
            if peer.unsaved[0] is not oldest:  # everything that was unsaved before has been saved
                oldest, pause, waited, told = peer.unsaved[0], _FOLLOW, 0.0, False
            waited += pause
            pause = min(_HEARTBEAT, 1.5 * pause)
            late = waited > _LATE
            try:
                if late and peer.link.autosaves:
                    # Each output of a run and each key press postpones the server's own save. The
                    # server neither retries nor reports a failed one.
                    await peer.save()
                await peer.catch_up()
            except CollaborationError as error:
                self._log.debug("%s: %s", room_id, error.happened)
            except Exception:  # keep watching what is unsaved
                self._log.exception("Could not check %s", room_id)
            if late and not told and peer.unsaved:
                told = True
                peer.notes.append(
                    f"The server has not saved {inline(peer.link.path)} for {waited:.0f} s; "
                    "the latest edits are in the live document only."
                )

    # -- what others do --------------------------------------------------------------------

    def _hear_soon(self, room_id: RoomId, opened: OpenRoom) -> None:
        """Receive what others did within a second, even if no agent asks for it."""
        self.watchers.receive_soon(room_id, opened.peer)
        if self.activity.enabled and not opened.unheard:
            opened.unheard = True
            self._hearing.ensure(room_id, lambda: self._hear(room_id, opened))

    async def _hear(self, room_id: RoomId, opened: OpenRoom) -> None:
        while opened.unheard and self._open.get(room_id) is opened:
            await asyncio.sleep(_HEARING)
            opened.unheard = False
            try:
                await opened.peer.catch_up()
            except CollaborationError as error:
                self._log.debug("%s: %s", room_id, error.happened)
            except Exception:
                self._log.exception("Could not receive what others did in %s", room_id)
            opened.activity.look()

    def observe(self, room_id: RoomId) -> None:
        """Join a room that people have opened, if agents have used its document before."""
        if self.activity.enabled and not (room_id in self._open or room_id in self._joining):
            self._observing.ensure(room_id, lambda: self._observe(room_id))

    async def _observe(self, room_id: RoomId) -> None:
        if len(self._observed()) >= _OBSERVED:
            return
        try:
            if await self.activity.used_by_agents(room_id.file_id) and room_id not in self._open:
                await self._join(room_id)
                self._log.info("Observing %s, which agents have used before", room_id)
        except CollaborationError as error:
            self._log.debug("%s: %s", room_id, error.happened)
        except Exception:
            self._log.exception("Could not observe %s", room_id)

    def _observed(self) -> list[OpenRoom]:
        """The rooms without agents or watchers, in the order in which they were joined."""
        return [each for room, each in self._open.items() if not self._is_needed(room, each)]

    def _is_needed(self, room_id: RoomId, opened: OpenRoom) -> bool:
        return bool(opened.agents) or room_id in self.watchers

    def _observes(self, opened: OpenRoom) -> bool:
        """Whether to stay in a room without agents: for watchers, or to see what people do."""
        return opened.peer.link.room_id in self.watchers or (
            self.activity.enabled
            and opened.peer.link.alive
            and not opened.gone
            and opened.activity.has_people
            and any(each is opened for each in self._observed()[-_OBSERVED:])
        )

    # -- agents ----------------------------------------------------------------------------

    async def absence(self, room_id: RoomId, opened: OpenRoom, agent: Agent) -> Absence | None:
        """What others did after an agent last looked and before our peer joined the room.

        None if the agent has missed nothing, or if nothing is known.
        """
        start, file_id = opened.peer.changes.start, room_id.file_id
        seat = opened.agents.get(agent.key) or self._seats.get((room_id, agent.key))
        if not self.activity.enabled or (seat is not None and seat.seen >= start):
            return None
        username = agent_username(agent.key)
        try:
            async with asyncio.timeout(_RECALL):
                if seat is not None and seat.seen:
                    since = seat.seen
                elif (last := await self.activity.last_of(username, file_id)) is not None:
                    since = last.time
                else:
                    return None
                activities = await self.activity.since(
                    file_id, since, username, until=start, kinds=CHANGES
                )
        except TimeoutError:
            return None
        return Absence(since, activities) if activities or seat is None else None

    def seat(
        self, room_id: RoomId, opened: OpenRoom, agent: Agent, absence: Absence | None = None
    ) -> Seat:
        """The seat of an agent in a room: the one that it had, if it was there before.

        Args:
            absence: What it is told with its next answer.
        """
        seat = opened.agents.get(agent.key)
        if seat is None:
            seat = self._seats.setdefault((room_id, agent.key), Seat(self.lobby.profile(agent)))
            if not seat.seen:
                seat.seen = opened.peer.version if absence is None else absence.since
            opened.agents[agent.key] = seat
            seat.session = seat.session or f"s-{secrets.token_hex(5)}"
        if absence is not None:
            seat.absence = absence
        came = not opened.peer.shows(seat)
        if came:  # it has left, or the room died while it joined
            opened.peer.seat(seat)
            opened.activity.agent_joined(seat.member)
            self.undo_steps.limit_seats()
        seat.bound, seat.used = agent.bound, time.monotonic()
        self.watchers.on_agent(agent.key)
        before = self._current.get(agent.key)
        self._current[agent.key] = room_id
        if came:
            self._tell_lobby()
        elif before != room_id:
            self.lobby.update_soon(self._attending)
        return seat

    def _tell_lobby(self) -> None:
        self.lobby.update(self._attending())
        self.watchers.on_list()

    def _attending(self) -> Sequence[Attendance]:
        """Who is in which documents."""
        seats: dict[str, list[tuple[Seat, RoomLink]]] = {}
        for opened in self._open.values():
            for key, seat in opened.agents.items():
                if seat.presence is not None:
                    seats.setdefault(key, []).append((seat, opened.peer.link))
        self._current = {key: room for key, room in self._current.items() if key in seats}
        return [Attendance.at(each) for each in seats.values()]

    def leave(self, agent: str) -> None:
        """Hide an agent that has ended its session. Its runs continue, and its seats are kept for a
        while because it may come back."""
        for opened in self._open.values():
            if (seat := opened.agents.get(agent)) is not None:
                self._hide(opened, seat)
        self.lobby.leave(agent)
        self._tell_lobby()

    def _hide(self, opened: OpenRoom, seat: Seat) -> None:
        if seat.presence is not None:
            opened.activity.agent_left(seat.member)
        opened.peer.hide(seat)

    def sessions(self) -> Iterator[tuple[OpenRoom, Seat]]:
        """Who is at which document."""
        for opened in self._open.values():
            for seat in opened.agents.values():
                yield opened, seat

    def last_used(self, agent: str) -> tuple[float, RoomId] | None:
        """When an agent last used a document of this server, and the room of that."""
        return max(((seat.used, room) for room, seat in self.seats_of(agent)), default=None)

    def seats_of(self, agent: str) -> list[tuple[RoomId, Seat]]:
        """The seats of an agent, also those that it has left and may come back to."""
        return [(RoomId(room), seat) for (room, key), seat in self._seats.items() if key == agent]

    def end_session(self, session: str) -> bool:
        """Take an agent out of a document at once; returns whether there was such a session.

        Its runs continue, and what it can undo is kept for a while.
        """
        for opened, seat in self.sessions():
            if seat.session == session:
                self._unseat(opened, seat)
                self._tell_lobby()
                return True
        return False

    def _unseat(self, opened: OpenRoom, seat: Seat) -> None:
        opened.agents.pop(seat.agent, None)
        self._hide(opened, seat)
        opened.peer.unseat(seat)
        seat.session = ""

    async def _sweep(self) -> None:
        while self._open:
            await asyncio.sleep(min(_HEARTBEAT, self.idle_timeout / 10))
            for room_id, opened in list(self._open.items()):
                try:
                    await self._look_after(room_id, opened)
                except Exception:  # the other rooms still need attention
                    self._log.exception("Could not look after %s", room_id)
            self._tell_lobby()
            self.lobby.announce()

    async def _look_after(self, room_id: RoomId, opened: OpenRoom) -> None:
        """Announce the agents in a room, hide those who are silent, and leave it if it is idle."""
        now = time.monotonic()
        idle_since, silent_since = now - self.idle_timeout, now - _SILENCE
        for seat in list(opened.agents.values()):
            if seat.used < idle_since and not seat.runs:
                self._unseat(opened, seat)
            elif seat.used < silent_since and not (seat.runs or seat.bound):
                self._hide(opened, seat)
        self.watchers.on_path(room_id, opened.peer.link.path)
        if opened.agents:
            opened.peer.show_presence()
        elif opened.since < idle_since and not self._observes(opened):
            # Otherwise its opener is about to take a seat.
            await self._leave(room_id, opened)

    async def _leave(self, room_id: RoomId, opened: OpenRoom) -> None:
        if not await self._nothing_unsaved(room_id, opened):
            return  # otherwise it would be lost with the server that is unreachable just now
        if not self._is_needed(room_id, opened) and self._open.get(room_id) is opened:
            del self._open[room_id]
            self.watchers.on_left(room_id)
            if opened.peer.notes:
                self._unsaid[room_id] = opened.peer.notes
                if len(self._unsaid) > _UNSAID:
                    del self._unsaid[next(iter(self._unsaid))]
            try:
                await self._close(opened)
            except Exception:  # the other rooms still need attention
                self._log.exception("Could not leave %s cleanly", room_id)

    async def _nothing_unsaved(self, room_id: RoomId, opened: OpenRoom) -> bool:
        """Save what agents wrote; returns whether it is saved or its file is gone."""
        peer = opened.peer
        try:
            await peer.link.flush()
            if peer.unsaved:
                await peer.catch_up()
        except CollaborationError as error:
            self._log.debug("%s: %s", room_id, error.happened)
        except Exception:
            self._log.exception("Could not save %s before leaving it", room_id)
        return opened.gone or not peer.unsaved

    async def _close(self, opened: OpenRoom) -> None:
        for seat in opened.agents.values():
            self._hide(opened, seat)
        opened.activity.close()
        await self._leave_room(opened)
        opened.peer.close()

    async def _leave_room(self, opened: OpenRoom) -> None:
        for seat in opened.agents.values():
            opened.peer.unseat(seat)
        await opened.peer.link.close()
