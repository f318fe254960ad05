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
        self._observed: list[str] = []

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
        self._observed.append(observe_arrivals(self._room.awareness, tell))

    def on_change(self, tell: Callable[[], None]) -> None:
        def changed(topic: str, _: Any) -> None:
            if topic == "change":
                tell()

        self._observed.append(self._room.awareness.observe(changed))

    async def close(self) -> None:
        while self._observed:
            self._room.awareness.unobserve(self._observed.pop())
        await self._channel.leave()
