"""What a backend must offer about documents: rooms to join, and the files behind them.

A room is handed up as a `RoomLink`, one seat in one room. It speaks the Yjs sync protocol in
messages, as a `pycrdt.Channel` does, and adds what a trustworthy answer needs: being current
with the room, and knowing when an edit would survive a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pycrdt import Doc

from .files import Files
from .room_ids import Kind, RoomId


@dataclass(frozen=True, slots=True)
class Authorship:
    """Which characters came from which call: a range of one client's clock."""

    client: int
    clock_from: int
    clock_to: int
    agent: str
    call: str
    time: float


def autosave_is_on(states: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether the server saves by itself: unless everybody in the room has switched that off.

    So jupyter-server-ydoc decides, by the awareness states of the people in a room.
    """
    wishes = [state.get("autosave", True) for state in states.values() if state]
    return any(wishes) if wishes else True


@dataclass(frozen=True, slots=True)
class Limitation:
    """How a seat is less than one in a live room; every answer about its document says so."""

    mode: str
    """In a word."""
    notice: str
    """In a sentence."""


class Piece(bytes):
    """An update with what a room had when it was asked, perhaps in the middle of a change."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Which update from the room may be the change of the file on disk that overwrote it (B9).

    It is one of a few that came one after another.
    """

    updates: range
    """Of the last `receive`: only those that brought something, counted from 0."""
    or_previous: bool = False
    """Whether it may also be the last one that brought something before that `receive`."""

    @classmethod
    def between(cls, start: int, end: int) -> Overwrite:
        """From one update and before another; the last of the `receive` before is number -1."""
        return cls(range(max(start, 0), end), start < 0)


class RoomLink(Protocol):
    """One seat in one room, shared by all agents of this process."""

    on_end: Callable[[], None] | None
    """Called once when the room is gone for good and `alive` has become false."""

    @property
    def room_id(self) -> RoomId:
        """Of the room."""

    @property
    def session_id(self) -> str:
        """The collaboration session of the server, which changes when it restarts."""

    @property
    def path(self) -> str:
        """Where the document is now; it follows a rename."""

    def whereabouts(self) -> Sequence[str]:
        """The paths of the file itself: where the document's path leads to, and what it was loaded
        from if a link led elsewhere then. Who works on it must be allowed to touch them.

        Raises:
            DocumentNotFound: There is no file any more, as far as that is known.
            PathRefused: It is out of the root.
        """

    @property
    def loads(self) -> int:
        """How often it was loaded from another file than before, as far as that is known."""

    def loaded_since(self, loads: int) -> Sequence[str]:
        """The paths of the files that it was loaded from since then.

        Raises:
            PathRefused: One is out of the root.
            RoomUnavailable: There were too many.
        """

    @property
    def alive(self) -> bool:
        """Whether the room still lives: editing a dead one would vanish silently (B3)."""

    @property
    def saved(self) -> bool:
        """Whether all that the room has is in the file."""

    @property
    def autosaves(self) -> bool:
        """Whether the server saves by itself, as far as that is known: people may not want it."""

    @property
    def at_once(self) -> bool:
        """Whether the room has everything in the moment in which it is sent."""

    @property
    def limitation(self) -> Limitation | None:
        """How it is less than a room that people may be in, if it is."""

    @property
    def writable(self) -> bool:
        """Whether the file may be written, as far as that is known."""

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """Who is in the room: awareness states by client id."""

    def attach(self, doc: Doc[Any]) -> None:
        """Keep a Doc in sync with the room: it provides what the room lacks."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Have a function called when somebody comes, or changes a wish about saving."""

    def notices(self) -> Sequence[str]:
        """What the next answer about this document should report (after a crash, say), once."""

    def remember(self, notice: str | None) -> None:
        """Keep a notice for agents in case of a crash; None when they have got it."""

    def send(self, message: bytes) -> None:
        """Give the room a message; `acknowledged` tells when it has taken effect."""

    def receive(self) -> Sequence[bytes]:
        """The updates that came since the last call, oldest first; some may be a `Piece`."""

    def record(self, authorship: Authorship) -> None:
        """Keep who wrote what; it is durable with the next acknowledgement."""

    def give_up(self) -> None:
        """Be dead from now on: the attached Doc has something that the room must never get."""

    async def current(self) -> None:
        """Return when `receive` will give everything that the room has now.

        Nothing may be awaited between this and the use of what it promised.
        """

    async def wait_acknowledged(self) -> None:
        """Return when all that was sent is applied by the room and would survive a crash.

        Raises:
            RoomUnavailable: The room went away or the edit could not be made durable.
        """

    def overwritten(self) -> Overwrite | None:
        """The change of the file on disk that overwrote the room; None if none did since the last
        call.

        To be asked after each `receive`, when all of it has been applied.
        """

    async def stale(self) -> bool:
        """Whether somebody has changed the file on disk and the room has not taken it over yet.

        Raises:
            DocumentNotFound: Somebody has deleted it.
            NotText, CorruptDocument: It cannot be loaded any more.
        """

    async def save(self) -> None:
        """Have the file saved, and return when it has all that the room has now.

        Raises:
            CollaborationError: It could not be saved.
        """

    async def flush(self) -> None:
        """Save what is unsaved, as far as the server is allowed to.

        Raises:
            NotText, CorruptDocument: A save would destroy a file that cannot be loaded any more.
        """

    async def close(self) -> None:
        """Leave the room, if not left yet; the last one out has it cleaned up."""


class Backend(Protocol):
    """Where rooms and files live."""

    @property
    def files(self) -> Files:
        """The files of the server, and its folders."""

    async def identify(self, path: str, kind: Kind | None = "notebook") -> RoomId:
        """The room id of the document at a path.

        Args:
            kind: What it has to be; None if it may be either.

        Raises:
            PathError: There is no such document, or none that could be edited as text.
        """

    def known_room(self, path: str, kind: Kind = "notebook") -> RoomId | None:
        """The room id of a path that was identified before; cheap, touches no file."""

    def path_of(self, file_id: str) -> str | None:
        """Where the document with a file id is, as far as that is known; cheap."""

    async def locate(self, file_id: str) -> str | None:
        """Where the document with a file id is; None if there is none.

        Raises:
            CollaborationError: The server does not say.
        """

    async def join(self, room_id: RoomId) -> RoomLink:
        """Take a seat in a room, opening it if need be.

        Raises:
            PathError: The document cannot be loaded.
            RoomUnavailable: There is no collaboration on this server.
        """
