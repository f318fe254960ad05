"""The changes of one call, and changes by cell and by kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ...documents.cell_mirror import Parts
from ...documents.text_document import WHOLE
from ...short_ids import short_id
from .change import Change


@dataclass(frozen=True)
class Step:
    """What one call changed, in order."""

    version: int
    call: str
    changes: tuple[Change, ...]
    agent: str = ""
    """The agent that made the call; empty if changes of several agents were reapplied in it."""
    id: str = field(default_factory=lambda: short_id("c", 8), compare=False)
    """Names it to agents, and where it is stored."""

    @cached_property
    def characters(self) -> int:
        return sum(change.size for change in self.changes)


def summary(step: Step) -> str:
    """What a step changed, in a line."""
    cells: dict[str, set[str]] = {}
    added = removed = 0
    for change in step.changes:
        cells.setdefault(change.verb, set()).add(change.cell_id)
        more, less = change.line_counts()
        added, removed = added + more, removed + less
    parts = [f"{verb} {_how_many(ids)}" for verb, ids in cells.items()]
    if added or removed:
        counts = [f"+{added}"] * bool(added) + [f"-{removed}"] * bool(removed)
        parts.append(f"{' '.join(counts)} {'line' if added + removed == 1 else 'lines'}")
    return ", ".join(parts)


def _how_many(cells: set[str]) -> str:
    if WHOLE in cells:
        return "the text"
    return "1 cell" if len(cells) == 1 else f"{len(cells)} cells"


def by_cell(steps: Iterable[Step]) -> dict[str, list[Change]]:
    """The changes of each cell that are worth reapplying, oldest first."""
    changes: dict[str, list[Change]] = {}
    for step in steps:
        for change in step.changes:
            if change.is_work:
                changes.setdefault(change.cell_id, []).append(change)
    return changes


def by_kind(changes: Iterable[Change]) -> dict[type[Change], list[Change]]:
    """Changes of one cell by their kind, oldest first."""
    kinds: dict[type[Change], list[Change]] = {}
    for change in changes:
        kinds.setdefault(type(change), []).append(change)
    return kinds


def existence(changes: Sequence[Change]) -> Change:
    """The change that decides whether a cell exists: the latest that inserted or deleted it, or any
    change if none did."""
    return next((c for c in reversed(changes) if c.exists_after is not None), changes[-1])


def known_texts(changes: Iterable[Change]) -> set[str]:
    """All texts that a cell has had since the first of some changes."""
    return {text for change in changes for text in change.texts()}


def parts_of(changes: Iterable[Change]) -> Parts:
    """The parts of a document that changes are about."""
    parts: dict[str, set[str] | None] = {}
    for change in changes:
        known = parts.setdefault(change.cell_id, set())
        if change.keys is None:
            parts[change.cell_id] = None
        elif known is not None:
            known.update(change.keys)
    return parts
