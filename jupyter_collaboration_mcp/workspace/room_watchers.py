"""Who wants to hear of changes in the rooms of a server, and of where an agent is.

A change is only noted while it is made; watchers are told in the next turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from ..backends.protocols.room_ids import RoomId
from ..collaboration.peer import RoomPeer

Tell = Callable[[], None]
Stop = Callable[[], None]
"""Ends what was begun; calling it again does nothing."""

#: Seconds after which what others did is received in a room that somebody watches.
_PROMPT = 0.05

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Watcher:
    tell: Tell
    part: str | None
    """The cell that it is about; None if it is the whole document."""


@dataclass(eq=False, slots=True)
class _WatchedRoom:
    watchers: list[_Watcher] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    """Cells that have changed and of which nobody has been told yet."""
    everything: bool = False
    """Whether anything may have changed."""
    telling: bool = False
    receiving: bool = False

    def touch(self, parts: Collection[str]) -> None:
        """Note a change. This is on the path of each edit."""
        self.touched.update(parts)
        self._tell_soon()

    def touch_all(self) -> None:
        """Note that anything may have changed."""
        self.everything = True
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self.telling:
            self.telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        touched, everything = self.touched, self.everything
        self.touched, self.everything, self.telling = set(), False, False
        for watcher in list(self.watchers):
            if everything or watcher.part is None or watcher.part in touched:
                watcher.tell()


class RoomWatchers:
    """The watchers of one server. It costs nothing where nobody watches.

    Args:
        peer_of: The peer that is in a room, if one is.
    """

    def __init__(self, peer_of: Callable[[RoomId], RoomPeer | None]) -> None:
        self._peer_of = peer_of
        self._rooms: dict[RoomId, _WatchedRoom] = {}
        self._of_agents: dict[str, dict[object, Tell]] = {}
        self._paths: dict[RoomId, str] = {}  # of rooms that we are in
        self.on_list: Callable[[], None] = lambda: None
        """Called when other documents may be open than before, or at other paths."""

    def __len__(self) -> int:
        """How many watchers there are, of anything."""
        rooms = sum(len(room.watchers) for room in self._rooms.values())
        return rooms + sum(map(len, self._of_agents.values()))

    def __contains__(self, room_id: RoomId) -> bool:
        """Whether anybody watches a room."""
        return room_id in self._rooms

    # -- one room ----------------------------------------------------------------------------

    def watch(self, room_id: RoomId, tell: Tell, part: str | None = None) -> Stop:
        """Call a function after each change in a room, also when it is joined again.

        Args:
            part: A cell; changes elsewhere are then left out.
        """
        room, watcher = self._rooms.get(room_id), _Watcher(tell, part)
        if room is None:
            room = self._rooms[room_id] = _WatchedRoom()
            self._follow(room_id, self._peer_of(room_id))
        room.watchers.append(watcher)

        def stop() -> None:
            if watcher in room.watchers:
                room.watchers.remove(watcher)
            if not room.watchers and self._rooms.get(room_id) is room:
                del self._rooms[room_id]
                if (peer := self._peer_of(room_id)) is not None:
                    peer.document.watch(None)

        return stop

    def _follow(self, room_id: RoomId, peer: RoomPeer | None) -> None:
        room = self._rooms.get(room_id)
        if room is not None and peer is not None:
            peer.document.watch(room.touch)

    def on_joined(self, room_id: RoomId, peer: RoomPeer, again: bool) -> None:
        """Our peer is in a room, perhaps in place of one whose room has ended."""
        self._follow(room_id, peer)
        self._touch_all(room_id)
        self._paths[room_id] = peer.link.path
        if not again:
            self.on_list()

    def on_left(self, room_id: RoomId) -> None:
        """Our peer has left a room, or the room has ended."""
        self._touch_all(room_id)
        self._paths.pop(room_id, None)
        self.on_list()

    def on_path(self, room_id: RoomId, path: str) -> None:
        """The document of a room that we are in is at a path, perhaps at a new one.

        Others may read it there than before, and they may have missed something.
        """
        if self._paths.get(room_id, path) != path:
            self._paths[room_id] = path
            self._touch_all(room_id)
            self.on_list()

    def on_moved(self) -> None:
        """Files have been renamed."""
        for room_id in list(self._paths):
            if (peer := self._peer_of(room_id)) is not None:
                self.on_path(room_id, peer.link.path)

    def _touch_all(self, room_id: RoomId) -> None:
        if (room := self._rooms.get(room_id)) is not None:
            room.touch_all()

    def receive_soon(self, room_id: RoomId, peer: RoomPeer) -> None:
        """Receive what others did in a moment, if somebody watches the room."""
        room = self._rooms.get(room_id)
        if room is not None and not room.receiving:
            room.receiving = True
            loop = asyncio.get_running_loop()
            loop.call_later(_PROMPT, self._receive, room_id, room, peer)

    def _receive(self, room_id: RoomId, room: _WatchedRoom, peer: RoomPeer) -> None:
        room.receiving = False
        if self._peer_of(room_id) is not peer:
            return
        try:
            peer.receive()
        except Exception:
            _log.exception("Could not receive what others did in %s", room_id)

    # -- where an agent is -------------------------------------------------------------------

    def watch_agent(self, agent: str, tell: Tell) -> Stop:
        """Call a function whenever an agent uses a document."""
        token = object()
        self._of_agents.setdefault(agent, {})[token] = tell

        def stop() -> None:
            watchers = self._of_agents.get(agent, {})
            watchers.pop(token, None)
            if not watchers:
                self._of_agents.pop(agent, None)

        return stop

    def on_agent(self, agent: str) -> None:
        """An agent uses a document."""
        for tell in list(self._of_agents.get(agent, {}).values()):
            tell()
