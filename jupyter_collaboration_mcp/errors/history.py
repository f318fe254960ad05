"""Errors of undo, versions and forks."""

from __future__ import annotations

from ..remedies import Intent
from .base import CollaborationError, shortened


class UndoError(CollaborationError):
    code = "undo_error"


class NothingToUndo(UndoError):
    code = "nothing_to_undo"


class UndoRefused(UndoError):
    code = "undo_refused"


class HistoryError(CollaborationError):
    code = "history_error"


class UnknownVersion(HistoryError):
    code = "unknown_version"


class ForkNotFound(HistoryError):
    code = "fork_not_found"

    @classmethod
    def unknown(cls, fork_id: str) -> ForkNotFound:
        return cls(
            f"There is no fork {shortened(fork_id)}. Nothing was done.",
            Intent.LIST_FORKS,
            fork=f"fork:{shortened(fork_id)}",
        )

    @classmethod
    def over(cls, fork_id: str, how: str) -> ForkNotFound:
        """Of a fork that was merged or discarded."""
        return cls(
            f"There is no fork {fork_id} any more: it was {how}. Nothing was done.",
            Intent.LIST_FORKS,
            fork=f"fork:{fork_id}",
            was=how,
        )


class ForkRefused(HistoryError):
    code = "fork_refused"

    @classmethod
    def no_file(cls, name: str) -> ForkRefused:
        return cls(
            f"{name} is a fork, which has no file. Nothing was done.", Intent.USE_FORK, fork=name
        )


class MergeConflict(HistoryError):
    code = "merge_conflict"


class NeedsExtension(HistoryError):
    code = "needs_extension"
