"""An agent at an open document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ..backends.protocols.forks import PREFIX, fork_name, kernel_path
from ..collaboration.edits import CallRecord, Edit, OnStep, no_step
from ..collaboration.peer import RoomPeer
from ..collaboration.seats import Seat
from ..documents.differ import Edit as TextEdit
from ..documents.foreign_text import PATH, inline
from ..documents.notebook import Notebook
from ..documents.text_document import TextDocument
from .etiquette import Etiquette, Touched
from .holds import Hold, no_hold
from .permissions import Level

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """An agent at a document that is current with its room."""

    path: str
    """Of a fork, that of the document that it was forked from."""
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
    etiquette: Etiquette = field(default_factory=Etiquette)
    hold: Hold = no_hold
    """Refuses what people do not let the agent do now."""
    on_step: OnStep = no_step
    """Called with what the call has changed here."""

    async def perform(self, edit: Edit[T]) -> T:
        """Make an edit, all or nothing.

        Raises:
            AgentHeld: A person has paused or stopped the agent.
        """
        self.hold(Level.write)
        return await self.peer.perform(self.seat, self.tool, edit, self.on_step)

    def check_cells(
        self, notebook: Notebook, record: CallRecord, touched: Touched, note: str = ""
    ) -> None:
        """Check what a call is about to do to cells of this notebook, or of a copy of it.

        Raises:
            CellError: They are protected or busy.
        """
        self.etiquette.check_cells(self.peer.link, notebook, record, touched, note)

    def check_text(
        self, document: TextDocument, record: CallRecord, source: str, edits: Sequence[TextEdit]
    ) -> None:
        """Check edits of this text, or of a copy of it, which says `source`.

        Raises:
            CellError: A person is busy where they are.
        """
        self.etiquette.check_text(self.peer.link, document, record, source, edits)

    @property
    def room_path(self) -> str:
        """The path under which people and the kernel have it open; follows a rename."""
        now = self.peer.link.path
        if self.is_fork:
            return kernel_path(self.peer.link.room_id, now)
        return now if self.link_path not in ("", now) else self.other_path or self.path

    @property
    def name(self) -> str:
        """The path as agents write it, with the server's alias; or the name of a fork."""
        if self.is_fork:
            return named(self.alias, fork_name(self.peer.link.room_id))
        return named(self.alias, escaped(self.path))

    @property
    def is_fork(self) -> bool:
        """Whether it is a fork of a document."""
        return self.peer.link.room_id.is_fork

    @property
    def label(self) -> str:
        """`name`, made safe to put into a sentence."""
        return inline(self.name, PATH)


def escaped(path: str) -> str:
    """The path of a file as agents write it, whose name may begin like that of a fork."""
    return f"./{path}" if path.startswith(PREFIX) else path


def named(alias: str, path: str) -> str:
    """A path with the alias of its server."""
    return f"{alias}:{path}" if alias else path
