"""What agents may do with forks of documents: create, find, list and end them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pycrdt import Doc

from ..backends.protocols.forks import Ending, Fork, Forks
from ..backends.protocols.room_ids import Kind, RoomId
from ..backends.protocols.rooms import Backend
from ..documents.content import TextContent, read_content
from ..documents.content_diff import PartDiff, compare
from ..documents.members import agent_username
from ..documents.three_way import Merged, Side
from ..errors import (
    DocumentBusy,
    DocumentNotFound,
    ForkNotFound,
    ForkRefused,
    NotANotebook,
    NotText,
    PathRefused,
)
from ..remedies import Intent
from . import merging
from .agent import Agent
from .open_document import OpenDocument
from .open_rooms import OpenRooms
from .permits import Permit

if TYPE_CHECKING:
    from .filing import Creation, Filing


#: Forks of one document, and of all documents of a server.
_MOST_OF_ONE, _MOST = 50, 200

_PROPOSAL = "Edits that {agent} proposes; a person decides whether to merge them."


class ForkPlace(Protocol):
    """The documents of the server."""

    rooms: OpenRooms
    filing: Filing


class Forking:
    """The forks of the documents of one server."""

    def __init__(self, place: ForkPlace, backend: Backend) -> None:
        self._place = place
        self._backend = backend
        self._proposing = asyncio.Lock()
        self._merging: set[str] = set()  # ids of forks

    @property
    def _forks(self) -> Forks:
        return self._backend.forks

    @property
    def limitation(self) -> str | None:
        """What forks of this server do not survive, in a sentence; None if they survive."""
        return self._forks.limitation

    async def create(
        self, here: OpenDocument, title: str, description: str, synchronize: bool
    ) -> Fork:
        """Fork an open document as it is now.

        Raises:
            ForkRefused: It is a fork itself, or there are too many forks.
        """
        if here.is_fork:
            raise ForkRefused(
                f"{here.label} is a fork itself, and cannot be forked. Nothing was done.",
                "Fork the document that it was forked from, or edit this fork.",
                fork=here.name,
            )
        room_id = here.peer.link.room_id
        await self._require_room(here, room_id)
        await here.peer.wait_acknowledged()  # what the agent has written belongs to it
        return await self._forks.create(room_id, title, description, synchronize, here.seat.member)

    async def _require_room(self, here: OpenDocument, root: RoomId) -> None:
        """Refuse one more fork where there are too many: each is kept in memory and on disk."""
        forks = await self.list()
        of_it = sum(fork.root == root for fork in forks)
        if of_it < _MOST_OF_ONE and len(forks) < _MOST:
            return
        there = (
            f"{here.label} has {of_it} forks, of at most {_MOST_OF_ONE}"
            if of_it >= _MOST_OF_ONE
            else f"The server has {len(forks)} forks, of at most {_MOST}"
        )
        raise ForkRefused(f"{there}. Nothing was done.", Intent.DISCARD_FORKS, path=here.name)

    async def proposal(self, here: OpenDocument, title: str | None, agent: Agent) -> Fork:
        """The fork of a document in which an agent proposes edits; created at the first one.

        Args:
            title: What the proposal is about; without one, an agent has one proposal.
        """
        async with self._proposing:
            if (fork := await self.proposed(here, title, agent)) is not None:
                return fork
            title = title or _title(agent)
            return await self.create(here, title, _PROPOSAL.format(agent=agent.name), False)

    async def proposed(self, here: OpenDocument, title: str | None, agent: Agent) -> Fork | None:
        """The fork of a document in which an agent proposes edits, if there is one already."""
        title = title or _title(agent)
        for fork in await self.list(here.peer.link.room_id):
            if fork.title == title and is_own(fork, agent):
                return fork
        return None

    async def get(self, fork_id: str) -> Fork:
        """A fork by its id.

        Raises:
            ForkNotFound: There is none, or no longer.
        """
        return await self._forks.get(fork_id)

    async def find(self, fork_id: str) -> Fork | None:
        """A fork by its id, if it is known to be one."""
        return None if self._forks.known_path(fork_id) is None else await self.get(fork_id)

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

    async def copy(self, here: OpenDocument, new: Permit) -> Creation:
        """Make a file of a fork.

        Raises:
            AlreadyExists: Something is at the path.
            PathRefused: The name is one of another kind of document.
        """
        kind = here.peer.link.room_id.kind
        if (kind == "notebook") != new.path.endswith(".ipynb"):
            raise PathRefused(
                f"{here.label} is a {kind}, which {new.path!r} is no name for. Nothing was done.",
                f"Choose a path that {'ends' if kind == 'notebook' else 'does not end'} in .ipynb.",
            )
        state = here.peer.doc.get_update()
        content = await asyncio.to_thread(file_content, kind, state)
        return await self._place.filing.create(new, kind, content, overwrite=False)

    async def preview(
        self, here: OpenDocument, fork: OpenDocument, prefer: Side | None
    ) -> tuple[Merged, Sequence[PartDiff]]:
        """What a merge would do to a document, and to each cell, without doing anything."""
        known = await self.get(fork.peer.link.room_id.file_id)
        state = await merging.state_of(self._forks, known, fork.peer)
        return await merging.preview(here, state, prefer)

    async def merge(
        self, here: OpenDocument, fork: OpenDocument, prefer: Side | None, by: Agent
    ) -> Merged:
        """Merge a fork into its document, and remove it.

        Raises:
            MergeConflict: Both sides changed the same, and neither is preferred.
            DocumentBusy: It is being merged already, or others kept changing it.
        """
        known = await self.get(fork.peer.link.room_id.file_id)
        if known.id in self._merging:
            raise DocumentBusy.while_merging(known.name)
        self._merging.add(known.id)
        try:
            why = _ended(known, "merged", by)
            merged = await merging.merge_fork(here, self._forks, known, fork.peer, prefer, why)
        finally:
            self._merging.discard(known.id)
        await self._place.rooms.forget_room(known.room_id)
        return merged

    async def merge_cells(
        self,
        here: OpenDocument,
        fork: OpenDocument,
        prefer: Side | None,
        cells: Collection[str],
        by: Agent,
    ) -> bool:
        """Merge what a fork has changed in some cells; returns whether nothing is left of it.

        Raises:
            MergeConflict, DocumentBusy: As `merge`.
        """
        known = await self.get(fork.peer.link.room_id.file_id)
        if known.id in self._merging:
            raise DocumentBusy.while_merging(known.name)
        self._merging.add(known.id)
        try:
            await merging.merge_cells(here, self._forks, known, fork.peer, prefer, cells)
            merged, _ = await self.preview(here, fork, prefer)
        finally:
            self._merging.discard(known.id)
        if merged.deeds:
            return False
        await self.end(known, "merged", by)
        return True

    async def changed_cells(self, fork: Fork) -> int:
        """How many cells a fork has changed, or the text; opens no document."""
        base, written = await self._forks.base(fork), await self._forks.contributions(fork)

        def count() -> int:
            doc: Doc[Any] = Doc()
            for each in written:
                doc.apply_update(each.update)
            kind = fork.root.kind
            before = read_content(kind, base) if base is not None else read_content(kind, b"\0\0")
            return len(compare(before, read_content(kind, doc.get_update())))

        return await asyncio.to_thread(count)

    async def end(self, fork: Fork, how: Ending, by: Agent) -> None:
        """Remove a fork, notify the people in it, and keep nothing of it.

        Raises:
            ForkNotFound: It is gone already.
            DocumentBusy: It is being merged.
        """
        if fork.id in self._merging:
            raise DocumentBusy.while_merging(fork.name)
        await self._forks.end(fork, how, _ended(fork, how, by))
        await self._place.rooms.forget_room(fork.room_id)


def _title(agent: Agent) -> str:
    """The title of an agent's proposal that was given none."""
    return f"Proposal of {agent.name}"


def _ended(fork: Fork, how: Ending, by: Agent) -> str:
    """What the people in a fork read when it ends."""
    title = f" {fork.title!r}" if fork.title else ""
    return f"This fork{title} was {how} by {by.name}."


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


def file_content(kind: Kind, state: bytes) -> Any:
    """What a file says that has the content of a shared document; for any thread."""
    content = read_content(kind, state)
    if isinstance(content, TextContent):
        return content.text
    # JupyterLab reads a notebook of an older minor version without the ids of its cells.
    cells = [dict(cell) for cell in content.cells]
    return {"cells": cells, "metadata": dict(content.metadata), "nbformat": 4, "nbformat_minor": 5}
