"""What a backend must offer: rooms to sit in and files to find. The rest of the house asks no more.

A room is handed up as a `RoomLink`, one seat in one room. It speaks the Yjs sync protocol in
messages, as a `pycrdt.Channel` does, and adds what a trustworthy answer needs: being current
with the room, and knowing when an edit would survive a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Authorship:
    """Which characters came from which call: a range of one client's clock."""

    client: int
    clock_from: int
    clock_to: int
    agent: str
    call: str
    time: float


@dataclass(frozen=True, slots=True)
class NotebookEntry:
    """A notebook as a listing shows it."""

    path: str
    last_modified: str | None
    size: int | None
    open: bool
    people: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """Some of the notebooks below a path; `complete` says whether these are all."""

    entries: tuple[NotebookEntry, ...]
    complete: bool


class RoomLink(Protocol):
    """One seat in one room, shared by all agents of this process."""

    @property
    def room_id(self) -> str:
        """`format:type:file id`, as the collaboration extension names rooms."""

    @property
    def session_id(self) -> str:
        """The collaboration session of the server, which changes when it restarts."""

    @property
    def path(self) -> str:
        """Where the document is now; it follows a rename."""

    @property
    def alive(self) -> bool:
        """Whether the room still lives: editing a dead one would vanish silently (B3)."""

    @property
    def saved(self) -> bool:
        """Whether all that the room has is in the file."""

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """Who is in the room: awareness states by client id."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Have a function called when somebody comes, or changes a wish about saving."""

    def notices(self) -> Sequence[str]:
        """What the people of this document should be told once (after a crash, say)."""

    def send(self, message: bytes) -> None:
        """Give the room a message; `acknowledged` tells when it has taken effect."""

    def receive(self) -> Sequence[bytes]:
        """The updates that came since the last call, oldest first."""

    def record(self, authorship: Authorship) -> None:
        """Keep who wrote what; it is durable with the next acknowledgement."""

    async def current(self) -> None:
        """Return when `receive` will give everything that the room has now.

        Nothing may be awaited between this and the use of what it promised.
        """

    async def acknowledged(self) -> None:
        """Return when all that was sent is applied by the room and would survive a crash.

        Raises:
            RoomUnavailable: The room went away or the edit could not be made durable.
        """

    async def flush(self) -> None:
        """Save what is unsaved, as far as the server is allowed to."""

    async def close(self) -> None:
        """Leave the room; the last one out has it cleaned up."""


class Backend(Protocol):
    """Where rooms and files live."""

    async def identify(self, path: str) -> str:
        """The room id of the notebook at a path.

        Raises:
            PathError: There is no notebook there.
        """

    def known(self, path: str) -> str | None:
        """The room id of a path that was identified before; cheap, touches no file."""

    async def join(self, room_id: str) -> RoomLink:
        """Take a seat in a room, opening it if need be.

        Raises:
            PathError: The document cannot be loaded.
            RoomUnavailable: There is no collaboration on this server.
        """

    async def list_notebooks(
        self, path_prefix: str, limit: int, visible: Callable[[str], bool]
    ) -> Listing:
        """Visible notebooks whose path starts with a prefix, breadth first."""
