"""What agents may do with forks of documents: create, find, list and end them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..backends.protocols.forks import Ending, Fork, Forks
from ..backends.protocols.room_ids import Kind, RoomId
from ..documents.members import agent_username
from ..errors import DocumentNotFound, ForkNotFound, ForkRefused, NotANotebook, NotText
from .agent import Agent
from .open_document import OpenDocument
from .open_rooms import OpenRooms


class ForkPlace(Protocol):
    """The documents of the server."""

    rooms: OpenRooms


class Forking:
    """The forks of the documents of one server."""

    def __init__(self, place: ForkPlace, forks: Forks) -> None:
        self._place = place
        self._forks = forks

    @property
    def limitation(self) -> str | None:
        """What forks of this server do not survive, in a sentence; None if they survive."""
        return self._forks.limitation

    async def create(
        self, here: OpenDocument, title: str, description: str, synchronize: bool
    ) -> Fork:
        """Fork an open document as it is now.

        Raises:
            ForkRefused: It is a fork itself.
        """
        if here.is_fork:
            raise ForkRefused(
                f"{here.label} is a fork itself, and cannot be forked. Nothing was done.",
                "Fork the document that it was forked from, or edit this fork.",
                fork=here.name,
            )
        await here.peer.wait_acknowledged()  # what the agent has written belongs to it
        room_id = here.peer.link.room_id
        return await self._forks.create(room_id, title, description, synchronize, here.seat.member)

    async def get(self, fork_id: str) -> Fork:
        """A fork by its id.

        Raises:
            ForkNotFound: There is none, or no longer.
        """
        return await self._forks.get(fork_id)

    async def list(self, root: RoomId | None = None) -> Sequence[Fork]:
        """The forks of a document, or all that are known."""
        return await self._forks.list(root)

    async def path_of(self, fork: Fork) -> str:
        """The path that says who may touch a fork: that of its root, or the last one it had.

        Raises:
            ForkNotFound: It is not known, so nobody may.
        """
        path = await self._forks.path_of(fork) or fork.path
        if not path:
            raise ForkNotFound.unknown(fork.id)
        return path

    async def root_path(self, fork: Fork) -> str:
        """The path of what a fork was forked from.

        Raises:
            DocumentNotFound: It is gone.
        """
        path = await self._forks.path_of(fork)
        if path is None:
            raise DocumentNotFound(
                f"The document that {fork.name} was forked from is gone"
                f"{f'; it was {fork.path!r}' if fork.path else ''}. The fork is as it was.",
                "Copy the fork to a path to make a file of it, or discard it.",
                fork=fork.name,
            )
        return path

    async def end(self, fork: Fork, how: Ending, by: Agent) -> None:
        """Remove a fork, notify the people in it, and keep nothing of it.

        Raises:
            ForkNotFound: It is gone already.
        """
        title = f" {fork.title!r}" if fork.title else ""
        await self._forks.end(fork, how, f"This fork{title} was {how} by {by.name}.")
        await self._place.rooms.forget_room(fork.room_id)


def is_own(fork: Fork, agent: Agent) -> bool:
    """Whether an agent created a fork."""
    return fork.author is not None and fork.author.id == agent_username(agent.key)


def require_kind(fork: Fork, kind: Kind | None) -> None:
    """Refuse a fork of another kind of document.

    Args:
        kind: What it must be; None if it may be either.
    """
    if kind == "notebook" and fork.root.kind != "notebook":
        raise NotANotebook.at(fork.name, "file")
    if kind == "file" and fork.root.kind == "notebook":
        raise NotText.notebook(fork.name)
