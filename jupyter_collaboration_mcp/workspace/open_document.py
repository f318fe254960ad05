"""An agent at an open document."""

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
    """The tool that opened it, which names the steps to undo."""
    alias: str = ""
    """The alias of the server, if it has one."""
    other_path: str | None = None
    """The path of the room, if the given path is a link or the room was opened through one."""
    loads: int = 0
    """How often the room had been loaded when the agent's access was checked."""
    link_path: str = ""
    """The path of the room when it was opened; outdated if the file was renamed since."""
    expected: str | None = None
    """The revision that the caller has read, if its handle gives one."""

    async def perform(self, edit: Edit[T]) -> T:
        """Make an edit, all or nothing."""
        return await self.peer.perform(self.seat, self.tool, edit)

    @property
    def room_path(self) -> str:
        """The path under which people and the kernel have it open; follows a rename."""
        now = self.peer.link.path
        return now if self.link_path not in ("", now) else self.other_path or self.path

    @property
    def name(self) -> str:
        """The path as agents write it, with the server's alias."""
        return f"{self.alias}:{self.path}" if self.alias else self.path

    @property
    def label(self) -> str:
        """`name`, made safe to put into a sentence."""
        return inline(self.name, PATH)
