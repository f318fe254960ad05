"""A seat in an awareness: who is here, and what everybody says about themselves.

Each room of a document has one. The lobby is the one that all people of a server share: from it
JupyterLab's side panel knows who is online, and in which documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

#: The room of the lobby.
LOBBY = "JupyterLab:globalAwareness"


class AwarenessLink(Protocol):
    """A seat in an awareness. A `RoomLink` is one, too."""

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """What everybody says about themselves, by client id. They may say anything."""

    def send(self, message: bytes) -> None:
        """Send an awareness message."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Set a function to call when somebody joins: nobody else tells them who is here."""

    async def close(self) -> None:
        """Leave, unless already left."""


class LobbyLink(AwarenessLink, Protocol):
    """A seat in the lobby."""

    @property
    def connected(self) -> bool:
        """Whether what is sent arrives now."""

    @property
    def complete(self) -> bool:
        """Whether everybody who is there is known."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Set a function to call when anybody comes, goes or says something else: must be quick."""
