"""Forks in which agents propose edits, and what people decide about them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..backends.protocols.forks import Ending, Fork
from ..backends.protocols.room_ids import RoomId
from ..collaboration.panel.cell_changes import name_of
from ..collaboration.panel.ledger import Ledger
from ..collaboration.presence import Profile
from ..collaboration.seats import Seat
from ..documents.content import NotebookContent
from ..documents.content_diff import PartDiff
from ..documents.languages import language_in, name_by_ending
from ..documents.members import Member
from ..documents.text_document import WHOLE
from ..documents.three_way import Conflict, Merged
from ..errors import CollaborationError, ForkNotFound, InvalidArgument
from ..owned_tasks import TaskPerKey
from .agent import Agent
from .etiquette import BusyCells, Etiquette
from .open_document import OpenDocument
from .workspace import Workspace

_log = logging.getLogger(__name__)

#: Seconds for which changes of a fork come together before it is looked at.
_SETTLING = 0.3

#: Proposals that have ended and are still shown.
_ENDED = 50

#: What a merge by a person is called where the calls of agents have the names of tools.
_MERGE = "panel_merge"

#: How the panel names what differs in a cell.
_ASPECTS = {"added": "inserted", "edited": "source", "attachments": "outputs"}


class Proposals:
    """The forks of one server that agents have made."""

    def __init__(self, workspace: Workspace, ledger: Ledger) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._looking = TaskPerKey[str, None]()
        self._again: set[str] = set()

    async def start(self) -> None:
        """Show the forks that there are."""
        for fork in await self._workspace.forking.list():
            self.look_soon(fork.id)

    async def close(self) -> None:
        await self._looking.end()

    def look_soon(self, fork_id: str) -> None:
        """A fork is new, was changed, or has ended."""
        self._again.add(fork_id)
        self._looking.ensure(fork_id, lambda: self._look(fork_id))

    async def _look(self, fork_id: str) -> None:
        while fork_id in self._again:
            await asyncio.sleep(_SETTLING)
            self._again.discard(fork_id)
            try:
                await self._show(await self.find(fork_id))
            except ForkNotFound as error:
                how = error.detail.get("was")
                self._end(fork_id, "merged" if how == "merged" else "discarded")
            except CollaborationError as error:
                _log.info("A proposal cannot be shown: %s", error.happened)
            except Exception:
                _log.exception("A proposal cannot be shown")

    async def find(self, fork_id: str) -> Fork:
        """The fork of a proposal.

        Raises:
            ForkNotFound: It is gone.
        """
        return await self._workspace.forking.get(fork_id)

    async def _show(self, fork: Fork) -> None:
        if fork.author is None or not fork.author.is_agent:
            return
        cells = await self._workspace.forking.changed_cells(fork)
        shown = {**self._view(fork), "cells": cells, "state": "open"}
        if shown != self._ledger.proposals.get(fork.id):
            self._ledger.say_proposal(shown)

    def _view(self, fork: Fork) -> dict[str, Any]:
        return {
            "id": fork.id,
            "title": fork.title,
            "description": fork.description,
            "agent": "" if fork.author is None else fork.author.name,
            "path": self._workspace.path_of(fork.root.file_id) or fork.path or None,
            "created": None if fork.created is None else int(fork.created * 1000),
        }

    def _end(self, fork_id: str, how: str) -> None:
        shown = self._ledger.proposals.get(fork_id)
        if shown is None or shown["state"] != "open":
            return
        self._ledger.say_proposal({**shown, "state": how})
        ended = [each["id"] for each in self._ledger.proposals.values() if each["state"] != "open"]
        for old in ended[:-_ENDED]:
            self._ledger.forget_proposal(old)

    # -- deciding ----------------------------------------------------------------------------

    async def diffs(self, fork: Fork, by: Member) -> tuple[list[dict[str, Any]], list[str]]:
        """What merging a fork would change now, cell by cell, and what both sides have changed.

        Raises:
            CollaborationError: The document or the fork is gone.
        """
        here, source = await self._open(fork, by)
        merged, parts = await self._workspace.forking.preview(here, source, "fork")
        return _diffs(merged, parts, here.path), [_conflict(each) for each in merged.conflicts]

    async def merge(
        self, fork: Fork, cells: Collection[str] | None, force: bool, by: Member
    ) -> dict[str, Any]:
        """Merge a fork, or what it has changed in some cells.

        Args:
            force: Let the fork win where both have changed the same.

        Raises:
            MergeConflict: Both have, and it is not to win.
            CollaborationError: The document or the fork is gone.
        """
        here, source = await self._open(fork, by)
        forking, prefer = self._workspace.forking, "fork" if force else None
        who = Agent("", by.name)
        if cells is None:
            await forking.merge(here, source, "fork" if force else None, who)
            whole = True
        else:
            merged, _ = await forking.preview(here, source, "fork")
            known = {cell_id for cell_id, _ in merged.deeds}
            if unknown := [each for each in cells if each not in known]:
                raise InvalidArgument(
                    f"The proposal does not change the cell {unknown[0][:60]!r}.",
                    "Name cells that it changes.",
                )
            whole = await forking.merge_cells(
                here, source, "fork" if prefer else None, set(cells), who
            )
        if whole:
            self._end(fork.id, "merged")
        else:
            await self._show(fork)
        return self._ledger.proposals.get(fork.id) or {**self._view(fork), "state": "merged"}

    async def discard(self, fork: Fork, by: Member) -> dict[str, Any]:
        """Delete a fork and everything in it."""
        how: Ending = "discarded"
        await self._workspace.forking.end(fork, how, Agent("", by.name))
        self._end(fork.id, how)
        return self._ledger.proposals.get(fork.id) or {**self._view(fork), "state": how}

    async def _open(self, fork: Fork, by: Member) -> tuple[OpenDocument, OpenDocument]:
        """The document of a fork, and the fork, for a person."""
        path = await self._workspace.forking.root_path(fork)
        here = await self._enter(fork.root, path, by)
        return here, await self._enter(fork.room_id, path, by)

    async def _enter(self, room: RoomId, path: str, by: Member) -> OpenDocument:
        peer = await self._workspace.peer(room)
        seat = Seat(Profile(f"{by.name} <person:{by.id}>", by.name), person=by)
        # The marks that protect cells, and carets, are there for agents.
        etiquette = Etiquette(protect_cells=False, busy_cells=BusyCells.ALLOW)
        return OpenDocument(path, peer, seat, _MERGE, etiquette=etiquette)


def _diffs(merged: Merged, parts: Sequence[PartDiff], path: str) -> list[dict[str, Any]]:
    conflicts: dict[str, list[Conflict]] = {}
    for conflict in merged.conflicts:
        conflicts.setdefault(conflict.cell_id, []).append(conflict)
    metadata = merged.content.metadata if isinstance(merged.content, NotebookContent) else None
    return [_diff(part, conflicts.get(part.cell_id, ()), metadata, path) for part in parts]


def _diff(
    part: PartDiff,
    conflicts: Sequence[Conflict],
    metadata: Mapping[str, Any] | None,
    path: str,
) -> dict[str, Any]:
    cell = part.after or part.before or {}
    now = None if part.before is None else str(part.before.get("source", ""))
    after = None if part.after is None else str(part.after.get("source", ""))
    kind = cell.get("cell_type")
    if metadata is None:
        language = name_by_ending(path) or "text"
    else:
        code = language_in(metadata) or "python"
        language = code if kind in ("code", None) else str(kind)
    text = None
    if conflicts:
        text = {"base": "", "theirs": now or "", "yours": conflicts[0].fork or ""}
    return {
        "cell_id": part.cell_id,
        "name": "the text" if part.cell_id == WHOLE else name_of(after or now or "", part.index),
        "changes": [_ASPECTS.get(each, each) for each in part.kinds],
        "language": language,
        "before": now or "",
        "after": after or "",
        "now": now,
        "undone": None,
        "conflict": bool(conflicts),
        "conflict_text": text,
        "notes": [conflict.why for conflict in conflicts],
        "review": "open",
    }


def _conflict(conflict: Conflict) -> str:
    return conflict.cell_id
