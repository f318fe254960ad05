"""A seat in the room of a fork, in the Jupyter server that this extension runs in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pycrdt import Doc, YMessageType, handle_sync_message

from ...documents.awareness import well_formed
from ...errors import RoomUnavailable
from ..protocols.forks import Fork
from ..protocols.room_ids import RoomId
from ..protocols.rooms import Authorship
from .memory_channel import MemoryChannel, observe_arrivals

if TYPE_CHECKING:
    from .fork_watch import ForkWatch


class ForkOwner(Protocol):
    """The forks of a server, as far as a seat needs them."""

    def lives(self, watch: ForkWatch) -> bool:
        """Whether the fork still exists."""

    def last_path(self, fork: Fork) -> str:
        """The path of the root, or the last one that is known if the root is gone."""

    async def durable(self) -> None:
        """Return when everything that forks have got would survive a crash."""

    def uncommitted(self) -> AbstractContextManager[None]:
        """Commit nothing meanwhile."""


class ForkLink:
    """One member of a fork's room, for all agents in it. It has no file: nothing is unsaved."""

    limitation = None
    at_once = True
    pends = False
    saved = True
    autosaves = True
    writable = True
    loads = 0

    def __init__(self, watch: ForkWatch, forks: ForkOwner, server: Any) -> None:
        self._watch = watch
        self._forks = forks
        self._server = server
        self._room = watch.room
        self.room_id: RoomId = watch.fork.room_id
        self._channel = MemoryChannel(watch.fork.id)
        self._received: list[bytes] = []
        self._sending = False
        self._tell_update: Callable[[], None] | None = None
        self._arrivals: str | None = None
        self._over = False
        self.on_end: Callable[[], None] | None = None  # never called: users open dead rooms again

    async def enter(self) -> None:
        """Take a seat: from now on we miss nothing that the room does."""
        self._received.append(self._room.ydoc.get_update())
        self._watch.listeners.add(self._on_update)
        await self._channel.enter(self._server)

    @property
    def session_id(self) -> str:
        from jupyter_server_ydoc.utils import SERVER_SESSION

        return str(SERVER_SESSION)

    @property
    def path(self) -> str:
        return self._forks.last_path(self._watch.fork)

    def whereabouts(self) -> Sequence[str]:
        return (self.path,)

    def loaded_since(self, loads: int) -> Sequence[str]:
        return ()

    @property
    def alive(self) -> bool:
        return not self._over and self._forks.lives(self._watch)

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        return well_formed(self._room.awareness.states)

    def attach(self, doc: Doc[Any]) -> None:
        """Do nothing: this room passes on every update at once."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        self._arrivals = observe_arrivals(self._room.awareness, tell)

    def on_update(self, tell: Callable[[], None]) -> None:
        self._tell_update = tell

    def notices(self) -> Sequence[str]:
        return ()

    def remember(self, notice: str | None) -> None:
        """Do nothing: a crash loses nothing."""

    def send(self, message: bytes) -> None:
        if message[0] != YMessageType.SYNC:
            self._channel.feed(message)
            return
        self._sending = True  # at once, as `InProcessLink.send` does it
        try:
            handle_sync_message(message[1:], self._room.ydoc)
        finally:
            self._sending = False

    @asynccontextmanager
    async def as_one(self, updates: Sequence[bytes]) -> AsyncIterator[None]:
        """Commit nothing in between, and everything in the end."""
        with self._forks.uncommitted():
            yield
        await self._forks.durable()

    def receive(self) -> Sequence[bytes]:
        received, self._received = self._received, []
        return received

    def record(self, authorship: Authorship) -> None:
        self._watch.attribute(authorship.author)

    def give_up(self) -> None:
        self._over = True

    async def current(self) -> None:
        """Do nothing: what the room has is received at once."""

    async def wait_acknowledged(self) -> None:
        if not self.alive:
            raise RoomUnavailable(
                f"The fork {self._watch.fork.id} was closed while the edit was on its way; it may "
                "not have been kept.",
                "Read it again and repeat the edit if it is missing.",
            )
        await self._forks.durable()

    def overwritten(self) -> None:
        """Nothing: there is no file."""

    async def stale(self) -> bool:
        return False

    async def save(self) -> None:
        """Do nothing: there is no file."""

    async def flush(self) -> None:
        """Do nothing: there is no file."""

    async def close(self) -> None:
        if self._over and self._tell_update is None and self._arrivals is None:
            return
        self._over = True
        self._watch.listeners.discard(self._on_update)
        self._tell_update = None
        if self._arrivals is not None:
            self._room.awareness.unobserve(self._arrivals)
            self._arrivals = None
        await self._channel.leave()

    def _on_update(self, update: bytes) -> None:
        if not self._sending:  # otherwise it is our own update coming back
            self._received.append(update)
            if self._tell_update is not None:
                self._tell_update()
