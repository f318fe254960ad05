"""Errors of cells and texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..remedies import Intent
from .base import CollaborationError


class CellError(CollaborationError):
    code = "cell_error"


class CellNotFound(CellError):
    code = "cell_not_found"


class AmbiguousCell(CellError):
    code = "ambiguous_cell"


class StaleRevision(CellError):
    code = "stale_revision"


class StaleIndex(CellError):
    code = "stale_index"


class TextMismatch(CellError):
    code = "text_mismatch"


class CellProtected(CellError):
    code = "cell_protected"

    @classmethod
    def by_marks(cls, cells: Sequence[tuple[str, str, str]], note: str = "") -> CellProtected:
        """Of cells by handle, id and what forbids it; nothing of the call was done.

        Args:
            note: A sentence about all of them.
        """
        named = [f"{handle} ({reason})" for handle, _, reason in cells]
        return cls(
            f"Protected from agents: {_some(named)}. Nothing was changed.{note and f' {note}'}",
            Intent.LEAVE_OUT_OR_ASK,
            cells=[
                {"cell_id": cell_id, "mark": reason} for _, cell_id, reason in cells[:_DETAILED]
            ],
        )


class CellBusy(CellError):
    code = "cell_busy"

    @classmethod
    def with_carets(cls, sentence: str, places: Sequence[Mapping[str, Any]]) -> CellBusy:
        """Of places with the carets of people; nothing of the call was done."""
        return cls(
            f"{sentence} Nothing was changed.",
            Intent.WAIT_FOR_PERSON,
            carets=list(places[:_DETAILED]),
        )


#: Things that an error names, and gives as facts.
_NAMED, _DETAILED = 20, 100


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
