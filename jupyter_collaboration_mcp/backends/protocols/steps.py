"""Where the steps are kept that agents can undo, so that they outlive the process.

What a step consists of is known above; here it is bytes with an id, an agent and a room.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .room_ids import RoomId


class StepLimits(NamedTuple):
    """How many steps are kept, and how many characters in them; the latest one always is."""

    steps: int = 200
    """Of one agent in one document."""
    characters: int = 20_000_000
    total_steps: int = 20_000
    """Of all agents in all documents."""
    total_characters: int = 50_000_000


@dataclass(frozen=True, slots=True)
class Lazy:
    """Bytes that are made when SQLite writes them: in a thread, if there are many."""

    make: Callable[[], bytes]
    """Must not raise: nothing could be written any more."""

    def __conform__(self, protocol: object) -> bytes | None:
        return self.make() if protocol is sqlite3.PrepareProtocol else None


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step that can be undone, as it is kept."""

    id: str
    agent: str
    version: int
    call: str
    characters: int
    """About how large it is."""
    changes: bytes | Lazy


class Steps(Protocol):
    """The steps of all agents in the documents of a server, on disk.

    Nothing that is wrong with the disk is raised: the steps in memory can be undone all the same.
    """

    on_loss: set[Callable[[], Awaitable[None]]]
    """Called when all steps are lost, and those that are still known can be added again."""

    def add(self, room: RoomId, step: StoredStep) -> None:
        """Keep a step: in the same commit as the edit before it, if the same disk keeps both."""

    def remove(self, ids: Sequence[str]) -> None:
        """Remove steps that were undone: in the same commit as the undo, as above."""

    def forget(self, room: RoomId) -> None:
        """Remove all steps of a document that was deleted."""

    async def of(self, room: RoomId, agent: str) -> list[StoredStep]:
        """The steps of an agent in a document, the oldest first."""

    async def agents(self, room: RoomId) -> list[str]:
        """The agents that have steps in a document."""

    async def durable(self) -> None:
        """Return when everything that was added or removed before survives the process."""


class NoSteps:
    """Keeps nothing."""

    def __init__(self) -> None:
        self.on_loss: set[Callable[[], Awaitable[None]]] = set()

    def add(self, room: RoomId, step: StoredStep) -> None:
        pass

    def remove(self, ids: Sequence[str]) -> None:
        pass

    def forget(self, room: RoomId) -> None:
        pass

    async def of(self, room: RoomId, agent: str) -> list[StoredStep]:
        return []

    async def agents(self, room: RoomId) -> list[str]:
        return []

    async def durable(self) -> None:
        pass


OpenSteps = Callable[[], Awaitable[Steps]]
"""Opens the steps of a server, which may take a moment the first time."""


async def no_steps() -> Steps:
    """Opens nothing."""
    return NoSteps()
