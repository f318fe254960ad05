"""Errors of undo, versions and forks."""

from __future__ import annotations

from .base import CollaborationError


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


class MergeConflict(HistoryError):
    code = "merge_conflict"


class NeedsExtension(HistoryError):
    code = "needs_extension"
