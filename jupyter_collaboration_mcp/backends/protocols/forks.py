"""Forks of documents: copies in rooms of their own, which can be merged back.

They are jupyter-collaboration's own forks, so that JupyterLab can list and join them. A fork has no
file: its path, and who may touch it, are those of the document that it was forked from, its *root*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, Self

from ...documents.members import Member
from ...errors import ForkNotFound
from .room_ids import RoomId

PREFIX = "fork:"
"""Stands before the id of a fork where a path goes."""

Ending = Literal["merged", "discarded", "deleted"]
"""How a fork ends; `deleted`: over the server's own API, perhaps after it was merged."""

_ID = re.compile(r"[\w-]{1,100}", re.ASCII)

#: Characters of a title and of a description.
TITLE, DESCRIPTION = 200, 2_000


class Contribution(NamedTuple):
    """One update of a fork's document."""

    update: bytes
    writer: Member | None
    time: float


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of a document, as it was forked."""

    id: str
    root: RoomId
    """The room of the document that it was forked from."""
    title: str = ""
    description: str = ""
    synchronize: bool = False
    """Whether what happens to the root happens to the fork, too."""
    created: float | None = None
    """A time; None if not known."""
    author: Member | None = None
    """Who created it; None if not known."""
    path: str = ""
    """The last known path of the root; empty if not known."""

    @property
    def room_id(self) -> RoomId:
        return RoomId.fork(self.root.kind, self.id)

    @property
    def name(self) -> str:
        """The fork where a path goes."""
        return fork_name(self.room_id)

    def info(self) -> dict[str, Any]:
        """What the server's API tells of it: jupyter-collaboration's own facts, and ours."""
        author = None if self.author is None else dict(self.author._asdict())
        return {
            "root_roomid": str(self.root),
            "synchronize": self.synchronize,
            "title": self.title,
            "description": self.description,
            "created": self.created,
            "author": author,
            "path": self.path,
        }

    @classmethod
    def of_info(cls, fork_id: str, info: Mapping[str, Any]) -> Self:
        """The fork that a server tells of; it may lack what only our extension knows.

        Raises:
            ValueError, KeyError, ForkNotFound: It is not a fork of a document.
        """
        author, created = info.get("author"), info.get("created")
        return cls(
            valid_id(fork_id),
            RoomId(str(info["root_roomid"])),
            str(info.get("title") or "")[:TITLE],
            str(info.get("description") or "")[:DESCRIPTION],
            bool(info.get("synchronize")),
            float(created) if isinstance(created, int | float) else None,
            _member(author) if isinstance(author, Mapping) else None,
            str(info.get("path") or ""),
        )


def fork_name(room_id: RoomId) -> str:
    """A fork where a path goes, by the id of its room."""
    return f"{PREFIX}{room_id.file_id}"


def kernel_path(room_id: RoomId, path: str) -> str:
    """The path of the Jupyter session of a notebook's kernel.

    That of a fork is beside its root, so that code finds the same files, and where no file is, so
    that nobody else has this kernel. It does not have the root's name, which may change.
    """
    if not room_id.is_fork:
        return path
    folder, slash, _ = path.rpartition("/")
    return f"{folder}{slash}{kernel_file(room_id.file_id)}"


def kernel_file(fork_id: str) -> str:
    """The name of the file that a fork's session pretends to have. No other session has it, so it
    is found in any folder: the root may have been moved since the kernel was started."""
    return f"fork-{fork_id}.ipynb"


def _member(said: Mapping[str, Any]) -> Member:
    return Member(str(said.get("id", "")), str(said.get("name", "")), bool(said.get("is_agent")))


def valid_id(fork_id: str) -> str:
    """The id of a fork.

    Raises:
        ForkNotFound: No fork has such an id.
    """
    if not _ID.fullmatch(fork_id):
        raise ForkNotFound.unknown(fork_id)
    return fork_id


@dataclass(slots=True)
class Apart:
    """A fork while it is merged."""

    gets_none: bool
    """Whether it gets no edits of its root; another server cannot be told."""
    stays: bool = False
    """Whether it gets none later on either: what was merged is in it already, in other items."""


class Forks(Protocol):
    """The forks of the documents of one server."""

    @property
    def limitation(self) -> str | None:
        """What forks of this server do not survive, in a sentence; None if they survive."""

    async def create(
        self, root: RoomId, title: str, description: str, synchronize: bool, author: Member
    ) -> Fork:
        """Fork a document as it is now.

        Raises:
            CollaborationError: It cannot be opened, or the fork cannot be kept.
        """

    async def list(self, root: RoomId | None = None) -> Sequence[Fork]:
        """The forks of a document, or all that are known."""

    async def get(self, fork_id: str) -> Fork:
        """A fork by its id.

        Raises:
            ForkNotFound: There is none, or no longer.
        """

    async def path_of(self, fork: Fork) -> str | None:
        """The current path of the document that it was forked from; None if that is gone."""

    def known_path(self, fork_id: str) -> str | None:
        """The last known path of what a fork was forked from; None if there is no such fork, as
        far as known. Cheap."""

    async def base(self, fork: Fork) -> bytes | None:
        """The state of the root when it was forked, or was last synchronized with the fork.

        None if not known.
        """

    async def contributions(self, fork: Fork) -> Sequence[Contribution]:
        """Who has written what in a fork, oldest first; the first is its base.

        Empty if not known.
        """

    def unsynchronized(self, fork: Fork) -> AbstractContextManager[Apart]:
        """Let a fork get no edits of its root meanwhile: merging it is one.

        After an error it gets them again, unless it stays apart.
        """

    def writes(self, fork: Fork) -> int | None:
        """How often something was written into a fork; None if not known."""

    def rebase(self, fork: Fork, state: bytes) -> None:
        """Let a fork have a new base: what was merged of it."""

    async def end(self, fork: Fork, how: Ending, why: str, writes: int | None = None) -> bool:
        """Remove a fork, and notify the people in it; returns whether it was removed.

        Args:
            why: What they read.
            writes: Remove it only if nothing was written into it since `writes` returned this.

        Raises:
            ForkNotFound: It is gone already.
        """
