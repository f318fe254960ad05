"""Which documents people and agents have open, as far as they say so in the lobby.

From outside a server, nothing else tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .lobby import Lobby
from .people import users_in

#: Seconds in which changes are looked at together.
_PAUSE = 0.1


class LobbyDocuments:
    """Notices documents that are opened and closed.

    Args:
        tell: Called with the path of each.
    """

    def __init__(self, lobby: Lobby, tell: Callable[[str], None]) -> None:
        self._lobby, self._tell = lobby, tell
        self._known: set[str] = set()
        self._looking: asyncio.TimerHandle | None = None

    def paths(self) -> set[str]:
        """The paths of what is open."""
        users = users_in(self._lobby.states, ())
        return {path for user in users for path in (user.current, *user.documents) if path}

    def follow(self) -> None:
        """Notice from now on what is opened and closed."""
        self._lobby.follow(self._look_soon)

    def close(self) -> None:
        """Notice nothing more."""
        if self._looking is not None:
            self._looking.cancel()

    def _look_soon(self) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(_PAUSE, self._look)

    def _look(self) -> None:
        self._looking = None
        before, self._known = self._known, self.paths()
        for path in before ^ self._known:
            self._tell(path)
