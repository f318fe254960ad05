"""Limits on the size of one call, and on what an agent has open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..documents import text
from ..errors import InvalidArgument, TooLarge


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that one call may request or send, and that one agent may have open."""

    cells_per_call: int = 1000
    source_length: int = 4_000_000
    """Characters of source in one cell, and in all cells of a call."""
    open_documents: int = 0
    """Documents that one agent may have open; 0: any number."""
    notebook_cells: int = 0
    """Cells that a notebook may have after a call that inserts some; 0: any number."""


_CELL_TYPES = ("code", "markdown", "raw")


def check_contents(limits: Limits, contents: Sequence[str], what: str) -> None:
    if not contents:
        raise InvalidArgument(
            f"{what} is empty; nothing was changed.", f"Give at least one of {what}."
        )
    check_count(limits, len(contents))
    for content in contents:
        text.require_storable(content)
    total = sum(map(len, contents))
    if total > limits.source_length:
        raise _too_long(total, limits)


def check_count(limits: Limits, count: int, next_step: str = "Split the call.") -> None:
    """Refuse to change more cells than one call may change.

    Raises:
        TooLarge: There are more.
    """
    if count > limits.cells_per_call:
        raise TooLarge(
            f"{count:,} cells in one call; at most {limits.cells_per_call:,} are allowed. "
            "Nothing was changed.",
            next_step,
        )


def check_room(limits: Limits, has: int, more: int) -> None:
    """Refuse to insert more cells than a notebook may have.

    Raises:
        TooLarge: There would be too many.
    """
    if limits.notebook_cells and has + more > limits.notebook_cells:
        raise TooLarge(
            f"The notebook has {has:,} cells; with {more:,} more it would have more than "
            f"{limits.notebook_cells:,} (max_notebook_cells). Nothing was changed.",
            "Begin another notebook, or delete cells that nobody needs.",
            cell_count=has,
        )


def check_source(limits: Limits, source: str) -> None:
    if len(source) > limits.source_length:
        raise _too_long(len(source), limits)


def _too_long(length: int, limits: Limits) -> TooLarge:
    return TooLarge(
        f"{length:,} characters of source; at most {limits.source_length:,} are allowed. "
        "Nothing was changed.",
        "Put large data in a file and load it from the cell.",
    )


def check_cell_type(cell_type: str) -> None:
    if cell_type not in _CELL_TYPES:
        raise InvalidArgument(
            f"There is no cell type {cell_type!r}.", f"Use one of {', '.join(_CELL_TYPES)}."
        )
