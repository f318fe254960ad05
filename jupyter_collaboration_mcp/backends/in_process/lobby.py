"""A seat in the lobby of the Jupyter server that this extension runs in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...documents.awareness import well_formed
from ..protocols.awareness import LOBBY
from .memory_channel import MemoryChannel, observe_arrivals

if TYPE_CHECKING:
    from jupyter_server_ydoc.rooms import TransientRoom


class InProcessLobby:
    """One member of the lobby, for all agents of this process."""

    def __init__(self, room: TransientRoom) -> None:
        self._room = room
        self._channel = MemoryChannel(LOBBY)
        self._arrivals: str | None = None

    async def enter(self, server: Any) -> None:
        """Take the seat."""
        await self._channel.enter(server)

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return well_formed(self._room.awareness.states)

    def send(self, message: bytes) -> None:
        self._channel.feed(message)

    @property
    def connected(self) -> bool:
        return True

    @property
    def complete(self) -> bool:
        return True

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._arrivals = observe_arrivals(self._room.awareness, tell)

    async def close(self) -> None:
        if self._arrivals is not None:
            self._room.awareness.unobserve(self._arrivals)
            self._arrivals = None
        await self._channel.leave()
