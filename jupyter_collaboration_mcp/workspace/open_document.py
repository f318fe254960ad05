"""An agent at a document that is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from ..collaboration.edits import Edit
from ..collaboration.peer import RoomPeer
from ..collaboration.seats import Seat
from ..documents.foreign_text import PATH, inline

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """An agent at a document that is current with its room."""

    path: str
    peer: RoomPeer
    seat: Seat
    tool: str
    """Which opened it: what steps to undo are called."""
    alias: str = ""
    """Of the server, if it has one."""
    other_path: str | None = None
    """Of the room, if the path is a link or the room was opened through one."""
    loads: int = 0
    """How often the room had been loaded when it was decided that the agent may be here."""
    link_path: str = ""
    """Of the room when it was opened; another one now if it was renamed since."""
    expected: str | None = None
    """The revision at which the caller has read it, if its handle says so."""

    async def perform(self, edit: Edit[T]) -> T:
        """Make an edit, all or nothing."""
        return await self.peer.perform(self.seat, self.tool, edit)

    @property
    def room_path(self) -> str:
        """The path by which people have it open, and its kernel; it follows a rename."""
        now = self.peer.link.path
        return now if self.link_path not in ("", now) else self.other_path or self.path

    @property
    def name(self) -> str:
        """The path as agents know it."""
        return f"{self.alias}:{self.path}" if self.alias else self.path

    @property
    def label(self) -> str:
        """The same, as a text names it."""
        return inline(self.name, PATH)
