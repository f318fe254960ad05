"""Earlier versions of documents: what they said, who wrote them, and which are kept.

The id of a version is a time in milliseconds, like the `version` of an open document, so that both
can be compared. What a version said is the state of the shared document at that time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ...documents.members import Member
from .room_ids import RoomId

Source = Literal["agent", "person", "file", "document", "several", "unknown"]
"""Where a change comes from; `file`: it was loaded from the file, or changed on disk; `document`: a
fork has it from the document that it was forked from."""


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """What a version changed, in numbers."""

    added: int = 0
    """Cells; of a text file, none."""
    edited: int = 0
    deleted: int = 0
    moved: int = 0
    outputs: int = 0
    """Cells whose outputs changed, and nothing else."""
    lines_added: int = 0
    lines_removed: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """What one author did to a document in one go."""

    id: int
    """Milliseconds; the document as it was after the last change of this version."""
    began: float
    """The time of its first change."""
    source: Source
    author: Member | None
    """The agent or the person, if it is one and known."""
    calls: tuple[str, ...]
    """The tools that the agent called."""
    counts: ChangeCounts
    name: str | None = None
    """The name that somebody gave it."""
    kept: str | None = None
    """Why retention does not take it, if it has no name; for example "before a restore"."""


@dataclass(frozen=True, slots=True)
class VersionList:
    """Some versions of a document, newest first."""

    versions: Sequence[Version]
    more: bool
    """Whether there are older ones."""


@dataclass(frozen=True, slots=True)
class CellAuthor:
    """Who wrote a cell last, or the text of a file (under the id "")."""

    source: Source
    author: Member | None
    time: float


class Versions(Protocol):
    """The history of the documents of one server."""

    async def list(self, room_id: RoomId, limit: int, before: int | None = None) -> VersionList:
        """The latest versions of a document, newest first.

        Args:
            before: Only versions with smaller ids.

        Raises:
            NeedsExtension: This server keeps no history that we can read.
        """

    async def state_at(self, room_id: RoomId, version: int) -> bytes:
        """The state of the shared document at a version, as one Yjs update.

        Raises:
            UnknownVersion: The document has no such version.
            NeedsExtension: As above.
        """

    async def current(self, room_id: RoomId) -> int:
        """The id of what the document says now; waits until the history has it."""

    async def name(self, room_id: RoomId, version: int, name: str) -> None:
        """Give a version a name, so that retention does not take it; an empty name removes it.

        Raises:
            UnknownVersion: The document has no such version.
            InvalidArgument: Another version of the document has this name.
        """

    async def named(self, room_id: RoomId) -> Mapping[str, int]:
        """The named versions of a document."""

    async def authors(self, room_id: RoomId) -> Mapping[str, CellAuthor]:
        """Who wrote each cell last, by its id; the text of a file has the id ""."""
