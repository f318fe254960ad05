"""The document operations of a backend: rooms to join, and the files behind them.

A `RoomLink` is one seat in one room. It speaks the Yjs sync protocol in messages, as a
`pycrdt.Channel` does, and adds what a trustworthy answer needs: being current with the room, and
knowing when an edit would survive a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from pycrdt import Doc

from ...documents.members import Member
from .awareness import LobbyLink
from .files import Files
from .forks import Forks
from .room_ids import Kind, RoomId
from .versions import Versions


@dataclass(frozen=True, slots=True)
class Authorship:
    """What a call wrote: a range of one client's clock, which is empty if it only deleted."""

    client: int
    clock_from: int
    clock_to: int
    author: Member
    call: str
    time: float


def autosave_is_on(states: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether the server saves by itself: unless everybody in the room has switched that off.

    This is how jupyter-server-ydoc decides, by the awareness states of the people in a room.
    """
    wishes = [state.get("autosave", True) for state in states.values() if state]
    return any(wishes) if wishes else True


@dataclass(frozen=True, slots=True)
class Limitation:
    """How a seat is less than one in a live room; every answer about its document reports it."""

    mode: str
    """The limitation in one word."""
    notice: str
    """The limitation in a sentence."""


class Piece(bytes):
    """An update with what a room had when it was queried, perhaps in the middle of a change."""


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Which update from the room may be the change of the file on disk that overwrote it (B9).

    It is one of a few consecutive updates.
    """

    updates: range
    """Updates of the last `receive`, counting only those that changed something, from 0."""
    or_previous: bool = False
    """Whether it may also be the last update before that `receive` that changed something."""

    @classmethod
    def between(cls, start: int, end: int) -> Overwrite:
        """From one update up to another; number -1 is the last of the previous `receive`."""
        return cls(range(max(start, 0), end), start < 0)


class RoomLink(Protocol):
    """One seat in one room, shared by all agents of this process."""

    on_end: Callable[[], None] | None
    """Called once when the room is gone for good and `alive` has become false."""

    @property
    def room_id(self) -> RoomId:
        """The id of the room."""

    @property
    def session_id(self) -> str:
        """The collaboration session of the server, which changes when it restarts."""

    @property
    def path(self) -> str:
        """The current path of the document; follows a rename."""

    def whereabouts(self) -> Sequence[str]:
        """The paths of the file itself: where the document's path leads, and what it was loaded
        from if a link led elsewhere then. A caller must be allowed to touch all of them.

        Raises:
            DocumentNotFound: There is no file any more, as far as known.
            PathRefused: It is outside of the root.
        """

    @property
    def loads(self) -> int:
        """How often it was loaded from another file than before, as far as known."""

    def loaded_since(self, loads: int) -> Sequence[str]:
        """The paths of the files that it was loaded from since a number of loads.

        Raises:
            PathRefused: One is outside of the root.
            RoomUnavailable: There were too many.
        """

    @property
    def alive(self) -> bool:
        """Whether the room is still alive: edits of a dead one would vanish silently (B3)."""

    @property
    def saved(self) -> bool:
        """Whether the file has everything that the room has."""

    @property
    def autosaves(self) -> bool:
        """Whether the server saves by itself, as far as known: people can switch that off."""

    @property
    def at_once(self) -> bool:
        """Whether the room receives everything at the moment it is sent."""

    @property
    def pends(self) -> bool:
        """Whether `as_one` commits all updates before the first one is sent, with the steps that
        were stored before."""

    @property
    def limitation(self) -> Limitation | None:
        """How it is less than a live room, if it is."""

    @property
    def writable(self) -> bool:
        """Whether the file is writable, as far as known."""

    @property
    def states(self) -> Mapping[int, Mapping[str, Any]]:
        """The awareness states of everybody in the room, by client id."""

    def attach(self, doc: Doc[Any]) -> None:
        """Keep a Doc in sync with the room: it provides what the room lacks."""

    def on_arrival(self, tell: Callable[[], None]) -> None:
        """Set a function to call when somebody joins, or switches autosave on or off."""

    def on_update(self, tell: Callable[[], None]) -> None:
        """Set a function to call when others have changed something, which `receive` will return
        once `current` has been awaited. Called for each key press: must be quick."""

    def notices(self) -> Sequence[str]:
        """Notices for the next answer about this document, for example after a crash; each once."""

    def remember(self, notice: str | None) -> None:
        """Keep a notice for agents in case of a crash; None once they have received it."""

    def send(self, message: bytes) -> None:
        """Send the room a message; `wait_acknowledged` waits until it has taken effect."""

    def as_one(self, updates: Sequence[bytes]) -> AbstractAsyncContextManager[None]:
        """Send several updates, of which the room has all or nothing after a crash.

        All are sent inside, in turns of the loop; none is, if the caller decides against it. The
        file does not overwrite the room in between, as far as that can be prevented.

        Raises:
            RoomUnavailable: They cannot be kept together; none was sent.
        """

    def receive(self) -> Sequence[bytes]:
        """The updates since the last call, oldest first; some may be a `Piece`."""

    def record(self, authorship: Authorship) -> None:
        """Record who wrote what, and who deleted what was sent since the last record.

        It is durable with the next acknowledgement.
        """

    def give_up(self) -> None:
        """Stop using the room: the attached Doc has something that the room must never get."""

    async def current(self) -> None:
        """Wait until `receive` will return everything that the room has now.

        Do not await anything between this and the use of what it promises.
        """

    async def wait_acknowledged(self) -> None:
        """Wait until the room has applied everything that was sent and it would survive a crash.

        Raises:
            RoomUnavailable: The room went away, or the edit could not be made durable.
        """

    def overwritten(self) -> Overwrite | None:
        """The change of the file on disk that has overwritten the room since the last call, if any.

        Call this after each `receive`, when all of it has been applied.
        """

    async def stale(self) -> bool:
        """Whether somebody has changed the file on disk and the room has not reloaded it yet.

        Raises:
            DocumentNotFound: Somebody has deleted it.
            NotText, CorruptDocument: It can no longer be loaded.
        """

    async def save(self) -> None:
        """Save the file, and return when it has everything that the room has now.

        Raises:
            CollaborationError: It could not be saved.
        """

    async def flush(self) -> None:
        """Save what is unsaved, as far as the server allows.

        Raises:
            NotText, CorruptDocument: A save would destroy a file that can no longer be loaded.
        """

    async def close(self) -> None:
        """Leave the room, unless already left; it is cleaned up when the last one leaves."""


class Backend(Protocol):
    """The rooms and files of a server."""

    @property
    def files(self) -> Files:
        """The files and folders of the server."""

    @property
    def forks(self) -> Forks:
        """The forks of the documents of the server."""

    @property
    def versions(self) -> Versions:
        """Earlier versions of the documents of the server."""

    async def identify(self, path: str, kind: Kind | None = "notebook") -> RoomId:
        """The room id of the document at a path.

        Args:
            kind: What it must be; None if it may be either.

        Raises:
            PathError: There is no such document, or it cannot be edited as text.
        """

    def known_room(self, path: str, kind: Kind = "notebook") -> RoomId | None:
        """The room id of a path that was identified before; cheap, does not access any file."""

    def path_of(self, file_id: str) -> str | None:
        """The path of the document with a file id, as far as known; cheap."""

    def open_paths(self) -> Sequence[str] | None:
        """The paths of the documents that others have open; None if that is not known."""

    async def locate(self, file_id: str) -> str | None:
        """The path of the document with a file id; None if there is none.

        Raises:
            CollaborationError: The server does not answer.
        """

    async def join(self, room_id: RoomId) -> RoomLink:
        """Take a seat in a room; opens it if necessary.

        Raises:
            PathError: The document cannot be loaded.
            RoomUnavailable: There is no collaboration on this server.
        """

    async def enter_lobby(self) -> LobbyLink:
        """Take a seat in the lobby, where people see who is online.

        Raises:
            RoomUnavailable: There is no collaboration on this server.
        """
