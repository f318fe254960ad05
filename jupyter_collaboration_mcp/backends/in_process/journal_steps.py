"""The steps that agents can undo, in the file of a journal.

A step is committed together with its edit, and removed together with its undo, because both are
statements of the same group. The command has no edits to commit: its journal has steps only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..protocols.room_ids import RoomId
from ..protocols.steps import StepLimits, Steps, StoredStep
from . import steps_table
from .group_commit import JournalError
from .journal_storage import JournalStorage

_log = logging.getLogger(__name__)


class JournalSteps:
    """The steps in one journal.

    Args:
        write: Adds a statement that writes so many bytes to the next commit.
        durable: Waits for that commit.
        on_loss: Called when a new file has replaced a lost one.
    """

    def __init__(
        self,
        storage: JournalStorage,
        write: Callable[[str, Sequence[Any], int], None],
        durable: Callable[[], Awaitable[None]],
        on_loss: set[Callable[[], Awaitable[None]]],
    ) -> None:
        self.on_loss = on_loss
        self._storage = storage
        self._write = write
        self._durable = durable

    async def opened(self) -> Steps:
        """Itself: the journal is open."""
        return self

    def add(self, room: RoomId, step: StoredStep) -> None:
        row = (
            step.id,
            room,
            step.agent,
            step.version,
            step.call,
            step.characters,
            step.changes,
        )
        self._write(steps_table.KEEP, row, step.characters)

    def remove(self, ids: Sequence[str]) -> None:
        for step_id in ids:
            self._write(steps_table.REMOVE, (step_id,), 0)

    def forget(self, room: RoomId) -> None:
        self._write(steps_table.FORGET, (room,), 0)

    async def of(self, room: RoomId, agent: str) -> list[StoredStep]:
        most = StepLimits()
        rows = await self._read(steps_table.LATEST, (room, agent, most.steps, most.characters))
        return [StoredStep(*row) for row in rows]

    async def agents(self, room: RoomId) -> list[str]:
        return [agent for (agent,) in await self._read(steps_table.AGENTS, (room,))]

    async def durable(self) -> None:
        with contextlib.suppress(JournalError):  # what waits for the edit itself reports it
            await self._durable()

    async def _read(self, query: str, parameters: Sequence[Any]) -> list[Any]:
        await self.durable()
        try:
            return await asyncio.to_thread(self._storage.read, query, parameters)
        except sqlite3.Error as error:
            _log.warning("The steps that agents can undo cannot be read: %s", error)
            return []

    def adopt(self, other: JournalSteps) -> None:
        """Take over the steps in the journal of a process that has ended; blocks."""
        if self._storage.weakness is not None:
            return
        try:
            rows = other._storage.read(steps_table.ALL)
            if rows:
                self._storage.commit([(steps_table.KEEP, row) for row in rows])
                other._storage.commit([(steps_table.EMPTY, ())])
        except (OSError, sqlite3.Error) as error:
            _log.warning("Steps that agents could undo stay in another journal: %s", error)
