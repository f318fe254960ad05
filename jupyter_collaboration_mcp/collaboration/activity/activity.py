"""One thing that somebody did: who, what, when, and in which document."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ...documents.foreign_text import ID, MESSAGE, NAME, PATH
from ...documents.members import Member

#: Cells that an activity names; `cell_count` has how many they were.
MOST_CELLS = 20

#: What agents may have to know of when they were away.
CHANGES = ("edit", "outputs", "run")

#: Kinds by which an agent has seen the document: all of them are answered with what others did.
LOOKS = ("read", "edit", "call")

#: What events have of the metadata.
_TOLD = ("tool", "outcome")
_TOLD_NUMBERS = ("seconds", "version_before", "version_after")


@dataclass(frozen=True, slots=True)
class Activity:
    """One thing that somebody did. Without the text of any document."""

    kind: str
    """In one word: read, edit, outputs, run, join, leave, save, call, fork, broadcast, ..."""
    actor: str
    """The name that people read; empty if nobody knows who it was."""
    actor_id: str
    """Stable: an agent's username in the awareness (`agent_username`), a person's own. Empty if
    nobody knows who it was, and for what Jupyter does by itself."""
    agent: bool
    description: str
    """In one plain line."""
    path: str = ""
    """The path of the document at that time."""
    file_id: str = ""
    """The document, whatever its path is by now."""
    cells: tuple[str, ...] = ()
    """The ids of the cells that it is about; the first of many."""
    cell_count: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    time: int = field(default_factory=lambda: now())
    """Milliseconds since the epoch, as the versions of documents are."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))

    @classmethod
    def of(
        cls,
        kind: str,
        who: Member,
        description: str,
        *,
        path: str = "",
        file_id: str = "",
        cells: Sequence[str] = (),
        cell_count: int | None = None,
        at: int | None = None,
        activity_id: str | None = None,
        **metadata: Any,
    ) -> Activity:
        """What somebody did, within the limits of an entry.

        Args:
            at: When, in milliseconds; now if not given.
            activity_id: That of an earlier record that this one replaces.
            metadata: A few small values that JSON can hold.
        """
        return cls(
            kind,
            who.name[:NAME],
            who.id[:NAME],
            who.is_agent,
            " ".join(description.split())[:MESSAGE],
            path[:PATH],
            file_id,
            tuple(cell[:ID] for cell in cells[:MOST_CELLS]),
            len(cells) if cell_count is None else cell_count,
            metadata,
            now() if at is None else at,
            activity_id or secrets.token_hex(8),
        )

    def event(self) -> dict[str, Any]:
        """What others may follow live: the fields of `activity.yaml`."""
        then = datetime.fromtimestamp(self.time / 1000, UTC)
        event: dict[str, Any] = {
            "id": self.id,
            "time": then.isoformat(timespec="milliseconds"),
            "kind": self.kind,
            "actor": self.actor,
            "actor_id": self.actor_id,
            "agent": self.agent,
            "path": self.path,
            "file_id": self.file_id,
            "cells": list(self.cells),
            "cell_count": self.cell_count,
            "description": self.description,
        }
        told = {name: str(self.metadata[name]) for name in _TOLD if name in self.metadata}
        numbers = {name: self.metadata[name] for name in _TOLD_NUMBERS if name in self.metadata}
        return event | told | numbers


def now() -> int:
    """This moment, as activities and versions count time."""
    return time.time_ns() // 1_000_000


def how_many(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
