"""Which documents people and agents have open on a server, and who wants to hear of changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..backends.protocols.rooms import Backend
from ..documents.members import agent_username
from .open_rooms import OpenRoom, OpenRooms
from .people import users_in
from .room_watchers import Stop

#: Seconds after a hint in which to look: changes are then seen together; and once more, as somebody
#: who leaves may still be on the way out.
_LOOKS = (0.1, 1.0)

_log = logging.getLogger(__name__)


class OpenPaths:
    """The paths of what is open. Rooms that only we are in do not count.

    What opens or closes something only hints that there may be a change; watchers hear of each path
    that was not there before, or is not any more.

    Args:
        backend: Tells what others have open; from outside a server, only the lobby does.
    """

    def __init__(self, rooms: OpenRooms, backend: Backend) -> None:
        self._rooms, self._backend = rooms, backend
        self._watchers: dict[object, Callable[[str], None]] = {}
        self._known: set[str] = set()
        self._looks: dict[float, asyncio.TimerHandle] = {}

    async def find(self) -> set[str]:
        """All of them, as far as known."""
        if self._backend.open_paths() is None:
            await self._rooms.lobby.enter()
        return self._now()

    def watch(self, tell: Callable[[str], None]) -> Stop:
        """Call a function with the path of each document that is opened, closed or renamed."""
        if not self._watchers:
            self._known = self._now()
        if self._backend.open_paths() is None:
            self._rooms.lobby.follow(self.look_soon)
        token = object()
        self._watchers[token] = tell

        def stop() -> None:
            self._watchers.pop(token, None)

        return stop

    def look_soon(self) -> None:
        """Something may have been opened, closed or renamed. It costs nothing if nobody watches."""
        if self._watchers:
            loop = asyncio.get_running_loop()
            for pause in _LOOKS:
                if pause not in self._looks:
                    self._looks[pause] = loop.call_later(pause, self._look, pause)

    def close(self) -> None:
        """Look at nothing more."""
        self._watchers.clear()
        for timer in self._looks.values():
            timer.cancel()

    def _now(self) -> set[str]:
        used = [opened for opened in self._rooms if opened.agents]
        paths = {opened.peer.link.path for opened in used if _is_open(opened)}
        others = self._backend.open_paths()
        if others is not None:
            return paths.union(others)
        own = {agent_username(agent) for opened in used for agent in opened.agents}
        for user in users_in(self._rooms.lobby.states, ()):
            if user.id not in own:
                paths.update(path for path in (user.current, *user.documents) if path)
        return paths

    def _look(self, pause: float) -> None:
        del self._looks[pause]
        try:
            before, self._known = self._known, self._now()
        except Exception:
            _log.exception("Could not look at what is open")
            return
        for path in before ^ self._known:
            for tell in list(self._watchers.values()):
                tell(path)


def _is_open(opened: OpenRoom) -> bool:
    """Whether a room has a document that is there. From outside, a server may be restarting."""
    link = opened.peer.link
    return not (link.room_id.is_fork or opened.gone) and (link.alive or not link.at_once)
