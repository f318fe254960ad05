"""The entries of the panel: an agent, a call, what a call did to a cell. Without text of documents.

The names of cells are the exception: people recognize a cell by its title.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Self

from ..activity.activity import now

AgentState = Literal["active", "paused", "stopped"]
"""What people let an agent do: everything, only read, nothing."""

CallKind = Literal["read", "edit", "run", "file", "other"]
CallState = Literal["running", "done", "failed", "refused", "cancelled"]

#: How the credential of an agent with a token of its own begins.
_OWN_TOKEN = "agent:"

Review = Literal["none", "open", "kept", "undone", "mixed"]
"""What people think of a call; of a cell never `mixed`. `none`: there is nothing to review."""


@dataclass(slots=True)
class CellEntry:
    """What a call did to one cell, or to the text of a file."""

    cell_id: str
    """Empty for the text of a file."""
    name: str
    """As people would call it."""
    changes: list[str]
    added: int = 0
    """Lines."""
    removed: int = 0
    review: Review = "open"
    after_cell: str | None = None
    """If it was deleted: the cell that it stood after."""

    def view(self) -> dict[str, Any]:
        return {
            "cell_id": self.cell_id,
            "name": self.name,
            "changes": list(self.changes),
            "added": self.added,
            "removed": self.removed,
            "review": self.review,
            "after_cell": self.after_cell,
        }


@dataclass(slots=True, kw_only=True)
class CallEntry:
    """One call of an agent."""

    id: str
    agent: str
    """The id of the agent."""
    tool: str
    title: str
    kind: CallKind
    path: str | None = None
    """Of the document, as far as known when it was called."""
    file_id: str | None = None
    room: str = ""
    """The room whose document it has changed."""
    began: int = field(default_factory=now)
    ended: int | None = None
    summary: str = ""
    state: CallState = "running"
    error: str | None = None
    reviewed_by: str | None = None
    reviewed_at: int | None = None
    cells: list[CellEntry] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    """The ids of the steps that undo it, the oldest first."""
    source: str = ""
    """The process that the call was made in, if it is another one."""

    @property
    def review(self) -> Review:
        """What people think of all its cells."""
        found = {cell.review for cell in self.cells} - {"none"}
        if not found:
            return "none"
        if "open" in found:
            return "open"
        return found.pop() if len(found) == 1 else "mixed"

    def cell(self, cell_id: str) -> CellEntry | None:
        """What it did to a cell, if anything."""
        return next((cell for cell in self.cells if cell.cell_id == cell_id), None)

    def open_cells(self) -> list[CellEntry]:
        """The cells that nobody has reviewed."""
        return [cell for cell in self.cells if cell.review == "open"]

    def add(self, cells: Sequence[CellEntry]) -> None:
        """Add what a step of it did to cells."""
        by_id = {cell.cell_id: cell for cell in self.cells}
        for new in cells:
            known = by_id.get(new.cell_id)
            if known is None:
                by_id[new.cell_id] = new
                self.cells.append(new)
                continue
            known.changes = list(dict.fromkeys([*known.changes, *new.changes]))
            known.added, known.removed = known.added + new.added, known.removed + new.removed
            known.name, known.review = new.name, "open"
            known.after_cell = new.after_cell or known.after_cell

    def view(self, path: str | None) -> dict[str, Any]:
        """As people see it.

        Args:
            path: Where the document is now; None if it is gone.
        """
        return {
            "id": self.id,
            "agent": self.agent,
            "tool": self.tool,
            "title": self.title,
            "kind": self.kind,
            "path": path,
            "file_id": self.file_id,
            "began": self.began,
            "ended": self.ended,
            "summary": self.summary,
            "state": self.state,
            "error": self.error,
            "review": self.review,
            "reviewed_by": self.reviewed_by,
            "reviewed_at": self.reviewed_at,
            "cells": [cell.view() for cell in self.cells],
        }

    def row(self) -> dict[str, Any]:
        """As it is kept."""
        held = {name: getattr(self, name) for name in _CALL_FIELDS}
        return {**held, "cells": [cell.view() for cell in self.cells], "steps": list(self.steps)}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """The entry that was kept.

        Raises:
            KeyError, TypeError: It is none.
        """
        return cls(**{**row, "cells": [CellEntry(**cell) for cell in row["cells"]]})


@dataclass(slots=True, kw_only=True)
class AgentEntry:
    """One agent: a credential under a name."""

    id: str
    """Its username in the awareness."""
    key: str
    credential: str
    name: str
    color: str
    level: str = "read"
    state: AgentState = "active"
    seen: int = field(default_factory=now)
    path: str | None = None
    file_id: str | None = None
    cell_id: str | None = None
    connected: bool = False
    work: dict[str, tuple[str, int]] = field(default_factory=dict)
    """What its calls do, in plain words, and since when; by the id of a call."""
    runs: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The same of its runs, in the order in which they have their turn."""

    @property
    def has_own_token(self) -> bool:
        """Whether it came with a token that no other agent has."""
        return self.credential.startswith(_OWN_TOKEN)

    def view(self, path: str | None, token: Mapping[str, Any] | None) -> dict[str, Any]:
        """As people see it.

        Args:
            path: Where its document is now.
            token: Its own token, if it has one.
        """
        doing, since = next(
            iter(self.runs.values()), next(reversed(self.work.values()), (None, None))
        )
        return {
            "id": self.id,
            "name": self.name,
            "username": self.id,
            "color": self.color,
            "level": self.level,
            "state": self.state,
            "connected": self.connected,
            "path": path,
            "cell_id": self.cell_id,
            "doing": doing,
            "since": since,
            "seen": self.seen,
            "token": None if token is None else dict(token),
        }

    def row(self) -> dict[str, Any]:
        """As it is kept: without what it is doing."""
        return {name: getattr(self, name) for name in _AGENT_FIELDS}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Self:
        """The entry that was kept.

        Raises:
            TypeError: It is none.
        """
        return cls(**row)


#: What is kept: looked up once, because it is written for every call.
_CALL_FIELDS = tuple(each.name for each in fields(CallEntry))
_AGENT_FIELDS = tuple(
    each.name for each in fields(AgentEntry) if each.name not in ("work", "runs", "connected")
)
